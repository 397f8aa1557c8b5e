//! Pairing of a client that shows a PIN, such as a Moonlight client. A player enters the PIN on the page. The service
//! of such a client implements [`PinEntry`]. The gateway only carries requests and results between the page and this
//! service.

use std::net::IpAddr;

/// A service for other clients, as the page shows it to players.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Its name.
    pub name: &'static str,
    /// The address that users enter in their client. If `None`, it is the page's address.
    pub address: Option<IpAddr>,
    /// Its TCP port.
    pub port: u16,
}

/// Clients that wait for their PIN. Any thread may call these methods.
pub trait PinEntry: Send + Sync {
    /// The service for these clients.
    fn service(&self) -> Service;

    /// The waiting client, as text for the user; `None` if no client waits. Does not block.
    fn waiting(&self) -> Option<String>;

    /// Pairs the waiting client with the PIN that it shows. Blocks until the client has proved that it has this PIN,
    /// for a minute at most.
    ///
    /// # Errors
    /// Returns the reason as one line for the user.
    fn pair(&self, pin: &str, name: Option<&str>) -> Result<String, String>;
}
