//! Lets a browser's page enter the PIN of a waiting client, as an alternative to `openuvr devices pair`.

use std::net::IpAddr;
use std::sync::Weak;
use std::time::Instant;

use crate::door::{Door, unix_time};
use crate::pairing::{OfferError, offer};

/// See [`Moonlight::pin_desk`](crate::Moonlight::pin_desk). Thread-safe.
#[derive(Clone)]
pub struct PinDesk {
    /// A weak reference, because threads that wait for an outcome must not keep the sockets bound.
    pub(crate) door: Weak<Door>,
    pub(crate) port: u16,
}

impl PinDesk {
    /// The HTTP port, which the user enters in the client.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of the client that waits for its PIN.
    #[must_use]
    pub fn waiting(&self) -> Option<IpAddr> {
        self.door.upgrade()?.desk.waiting(Instant::now())
    }

    /// Pairs the waiting client with the PIN that it shows, and returns the outcome as one line. Blocks until the
    /// client has proved that it knows the PIN, for 40 s at most.
    ///
    /// # Errors
    /// [`OfferError`] if the PIN did not pair a client.
    pub fn pair(&self, pin: &str, name: Option<&str>) -> Result<String, OfferError> {
        let door = self.door.upgrade().ok_or(OfferError::NoOutcome)?;
        let folder = door.folder.clone();
        if door.desk.waiting(Instant::now()).is_none() {
            return Err(OfferError::NoOutcome);
        }
        drop(door);
        offer(&folder, pin, name, unix_time()).map_err(|why| match why {
            // This error names a folder of the host, which a browser does not need to know.
            OfferError::NotTaken(_) => OfferError::NoOutcome,
            other => other,
        })
    }
}
