//! The access point that a client joins before it searches for its host.

use std::fs::File;
use std::io::IsTerminal as _;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use openuvr_access_point::{self as access_point, Association, Credentials, Passphrase, Security};
use openuvr_terminal::out;
use openuvr_terminal::signals::INTERRUPTED;

use crate::config::{ClientConfig, ViaAp};

/// The interval at which the watching thread checks whether `stop` is set.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Whether this client uses an access point.
pub(super) enum Use {
    /// No access point is configured.
    None,
    /// The client has joined the access point. Dropping this value leaves it.
    Joined(Box<Association>),
    /// A signal arrived before the client had joined.
    Stopped,
}

/// Joins the configured access point.
///
/// # Errors
/// Returns an error with a one-line message if there is no key, or if the access point cannot be joined.
pub(super) fn join(config: &ClientConfig, stop: &AtomicBool) -> Result<Use> {
    let Some(via_ap) = &config.via_ap else {
        return Ok(Use::None);
    };
    let credentials = match via_ap {
        ViaAp::Credentials(credentials) => credentials.clone(),
        ViaAp::Name(ssid) => Credentials {
            ssid: ssid.clone(),
            key: match &config.ap_key_file {
                Some(file) => from_file(file)?,
                None => typed()?,
            },
            security: Security::Mixed,
        },
    };
    let joined = access_point::join(&credentials, config.ap_interface.as_deref(), stop)?;
    Ok(joined.map_or(Use::Stopped, |joined| Use::Joined(Box::new(joined))))
}

fn from_file(file: &Path) -> Result<Passphrase> {
    let shown = file.display();
    let read = File::open(file).and_then(Passphrase::from_first_line);
    let key = read.with_context(|| format!("can't read the key in {shown}"))?;
    key.ok_or_else(|| {
        anyhow!("{shown}: its first line is not a key of 8 to 63 printable ASCII characters; `openuvr ap` shows the key")
    })
}

fn typed() -> Result<Passphrase> {
    if !std::io::stdin().is_terminal() {
        bail!(
            "the access point requires a key: use --ap-key-file FILE, or --via-ap with the text of its QR code"
        );
    }
    out::prompt(format_args!("Key shown by the access point: "));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let key = Passphrase::new(line.trim_end_matches(['\r', '\n']));
    key.ok_or_else(|| anyhow!("expected a key of 8 to 63 printable ASCII characters"))
}

impl Use {
    /// The interface that leads to the host.
    pub(super) fn interface(&self) -> Option<&str> {
        match self {
            Use::Joined(joined) => Some(joined.interface()),
            Use::None | Use::Stopped => None,
        }
    }

    /// Runs `prompts`, which waits for the terminal. A signal during this wait makes the client leave the access point,
    /// and ends the program.
    pub(super) fn during<T>(&self, stop: &AtomicBool, prompts: impl FnOnce() -> T) -> T {
        let Use::Joined(joined) = self else {
            return prompts();
        };
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if stop.load(Ordering::Relaxed) {
                        joined.leave();
                        process::exit(INTERRUPTED);
                    }
                    thread::sleep(POLL_INTERVAL);
                }
            });
            let _over = SetWhenDropped(&over);
            prompts()
        })
    }
}

/// Sets the flag that ends the watching thread, even after a panic.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
