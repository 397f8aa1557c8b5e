//! Joins an access point as a client, through wpa_supplicant, on a card that NetworkManager does not manage.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::card::Card;
use crate::credentials::Credentials;
use crate::dhcp_client;
use crate::hostapd;
use crate::journal::Journal;
use crate::programs::{Daemon, Program};
use crate::wpa_supplicant::{self, Event};

/// The maximum duration of joining (guess): several scans, each of which takes 5 s or more.
const JOINING: Duration = Duration::from_secs(60);

/// The maximum duration of a change of the interface.
const STEP: Duration = Duration::from_secs(10);

/// The interval at which `stop` is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A connection. Its programs end when this value is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    // Declared, and therefore dropped, first: the addresses are released before the client leaves the network.
    _dhcp: Option<Daemon>,
    _supplicant: Daemon,
}

/// Joins the access point. Returns `None` if `stop` is set meanwhile.
///
/// # Errors
/// Returns a one-line error if a program is missing, the access point is not found, or the key is wrong.
pub(crate) fn join(
    card: &Card,
    credentials: &Credentials,
    journal: &mut Journal,
    stop: &AtomicBool,
) -> Result<Option<Connection>> {
    let supplicant = Program::require("wpa_supplicant", "wpasupplicant")?;
    let ip = Program::require("ip", "iproute2")?;
    let interface = card.interface.as_str();
    let up = card.is_up();
    journal.record(|changes| changes.up = Some(up))?;
    if !up {
        ip.run(&["link", "set", interface, "up"], STEP)?;
    }
    let file = journal.write(
        "wpa_supplicant",
        &wpa_supplicant::configuration(credentials),
    )?;
    let words = [
        "-D",
        "nl80211",
        "-i",
        interface,
        "-c",
        &file.to_string_lossy(),
    ];
    let mut supplicant = supplicant.start(&words)?;
    let id = supplicant.id();
    journal.record(|changes| changes.processes.push(id))?;
    let end = Instant::now() + JOINING;
    let mut last = None;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let line = supplicant.line(POLL_INTERVAL, hostapd::is_cause);
        let line = line.with_context(|| {
            format!(
                "can't join the access point {} with {interface}",
                credentials.ssid
            )
        })?;
        match line.and_then(|line| wpa_supplicant::event(interface, &line)) {
            Some(Event::Connected) => break,
            Some(Event::WrongKey) => bail!(
                "the access point {} refuses the key: use the key that `openuvr ap` shows",
                credentials.ssid
            ),
            Some(event) => last = Some(event),
            None => {}
        }
        if Instant::now() >= end {
            let (name, waited) = (&credentials.ssid, JOINING.as_secs());
            match last {
                Some(Event::Refused | Event::Disconnected) => bail!(
                    "the access point {name} did not admit this client within {waited} s: check its key, and whether this \
                     card supports WPA3"
                ),
                _ => bail!(
                    "the access point {name} was not found within {waited} s: check that `openuvr ap` is running, that its \
                     machine is near, and that this card supports its band"
                ),
            }
        }
    }
    let dhcp = match dhcp_client::start(&ip, journal, stop) {
        Ok(Some(daemon)) => Some(daemon),
        Ok(None) => {
            if !stop.load(Ordering::Relaxed) {
                eprintln!(
                    "openuvr client: no DHCP client is installed (apt install isc-dhcp-client); searching for the host \
                     over IPv6 only"
                );
            }
            None
        }
        // IPv6 still works, because link-local addresses need no server.
        Err(why) => {
            eprintln!("openuvr client: {why}; searching for the host over IPv6 only");
            None
        }
    };
    Ok(Some(Connection {
        _dhcp: dhcp,
        _supplicant: supplicant,
    }))
}
