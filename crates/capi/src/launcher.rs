//! The connection to the launcher of this application (`openuvr run --api` or a portal session). The launcher sets the
//! host's name, listening address, transport, folder for keys, access control and gateway, and receives the host's
//! events.
//!
//! Pictures, encoding and the input target remain under the application's control.

use std::path::Path;
use std::time::Duration;

use openuvr_runtime::host::config::Config;
use openuvr_runtime::launch_protocol::API_SOCKET;
use openuvr_runtime::launcher::Launcher;

use crate::error::{Failure, Outcome};

/// The timeout for the launcher's settings, which normally arrive within a tenth of a second (guess).
const TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to the launcher, if there is one, and applies its settings to `config`.
///
/// # Errors
/// Returns an error if the launcher does not reply, or if another host of this application already has the settings: a
/// second host would not enforce the launcher's access control.
pub(crate) fn connect(config: &mut Config) -> Outcome<Option<Launcher>> {
    let Some(path) = std::env::var_os(API_SOCKET).filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    let launcher = Launcher::connect_to(Path::new(&path)).map_err(Failure::failed)?;
    let settings = launcher.settings_within(TIMEOUT).map_err(Failure::failed)?;
    let settings = settings.ok_or_else(|| {
        Failure::failed(
            "the launcher allows one stream, and another host of this application provides it",
        )
    })?;
    let host = settings.host;
    *config = Config {
        name: host.name,
        bind: host.bind,
        link: host.link.or(config.link.take()),
        config_dir: host.config_dir,
        pin: host.pin,
        pair: host.pair,
        pairing_timeout: host.pairing_timeout,
        ticket_key: host.ticket_key,
        ticket_session: host.ticket_session,
        second_player: host.second_player,
        max_observers: host.max_observers,
        gateway: host.gateway,
        realtime: host.realtime && config.realtime,
        ..config.clone()
    };
    Ok(Some(launcher))
}
