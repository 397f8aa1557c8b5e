//! `openuvr client --via-ap`: joins an access point, and leaves it.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};
use openuvr_terminal::shell;
use rustix::process::geteuid;

use crate::by_network_manager;
use crate::by_wpa_supplicant::{self, Connection};
use crate::card;
use crate::credentials::Credentials;
use crate::journal::{self, Journal};
use crate::nmcli::Profile;
use crate::programs::Program;

/// The association with an access point. Dropping it, or calling [`leave`](Self::leave), leaves the access point and
/// restores the card.
#[derive(Debug)]
pub struct Association {
    interface: String,
    parts: Mutex<Option<Parts>>,
}

#[derive(Debug)]
struct Parts {
    // Ended before the changes are reversed.
    connection: Option<Connection>,
    journal: Journal,
}

impl Association {
    /// The interface through which the access point's host is reached.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Leaves the access point. May be called from any thread; a second call does nothing.
    pub fn leave(&self) {
        let parts = self
            .parts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(Parts {
            connection,
            journal,
        }) = parts
        {
            drop(connection);
            drop(journal);
        }
    }
}

impl Drop for Association {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Joins an access point with this wireless interface, or with the only free one. Uses NetworkManager if it owns the
/// interface, otherwise wpa_supplicant, which needs root. With wpa_supplicant, returns `None` if `stop` is set
/// meanwhile; NetworkManager is not interrupted. Call this function on a thread that lives as long as the result.
///
/// # Errors
/// Returns a one-line error if there is no such interface, the access point is not found, or it refuses the key. The
/// card is then in its previous state.
pub fn join(
    credentials: &Credentials,
    interface: Option<&str>,
    stop: &AtomicBool,
) -> Result<Option<Association>> {
    let iw = Program::require("iw", "iw")?;
    let folder = journal::folder()?;
    journal::reverse_interrupted(&folder)?;
    let listed = iw.run(&["dev"], std::time::Duration::from_secs(10))?;
    let (card, found) = card::select(interface, &listed)?;
    card.check_transmitter()?;
    let name = card.interface.clone();
    let mut journal = Journal::open(&folder, &name)?;
    let ssid = &credentials.ssid;
    let connection = match by_network_manager::owner(&name) {
        Some(nmcli) => {
            let profile = Profile::of_client(&name, credentials)?;
            eprintln!(
                "openuvr client: joining the access point {ssid} with {name}, through NetworkManager"
            );
            by_network_manager::start(&nmcli, &profile, &mut journal)?;
            None
        }
        None => {
            if !geteuid().is_root() {
                bail!(
                    "can't join the access point {ssid} with {name}: NetworkManager does not manage it, so this requires \
                     root; run sudo {} client, or join the network by other means",
                    shell::for_sudo()
                );
            }
            if found.in_use {
                bail!(
                    "{name} is connected to another network: disconnect it, or use another card (--ap-interface)"
                );
            }
            eprintln!("openuvr client: joining the access point {ssid} with {name}");
            match by_wpa_supplicant::join(&card, credentials, &mut journal, stop)? {
                Some(connection) => Some(connection),
                None => return Ok(None),
            }
        }
    };
    eprintln!("openuvr client: joined the access point {ssid}");
    Ok(Some(Association {
        interface: name,
        parts: Mutex::new(Some(Parts {
            connection,
            journal,
        })),
    }))
}
