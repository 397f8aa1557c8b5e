//! Who started this application, where that is `openuvr run --api` or a portal's session: it says where the host
//! listens and who may come in, and hears what happens.
//!
//! What it is not: it does not say what is shown, how that is encoded, or where input goes. All that stays the
//! application's.

use std::path::Path;
use std::time::Duration;

use openuvr_runtime::host::config::Config;
use openuvr_runtime::launched::Launcher;
use openuvr_runtime::line::API_SOCKET;

use crate::error::{Failure, Outcome};

/// How long who started this may take to say what to do: it answers within a tenth of a second unless the machine is
/// busy (guess).
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks who started this application, if somebody did who wants its host, and puts into `config` what is said.
///
/// # Errors
/// Nobody answers, or another host of this application has the order: a second one would let in whom the first
/// keeps out.
pub(crate) fn ask(config: &mut Config) -> Outcome<Option<Launcher>> {
    let Some(path) = std::env::var_os(API_SOCKET).filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    let launcher = Launcher::connect_to(Path::new(&path)).map_err(Failure::failed)?;
    let order = launcher.order_within(PATIENCE).map_err(Failure::failed)?;
    let order = order.ok_or_else(|| {
        Failure::failed(
            "who started this application gives it one stream, which another host of it has",
        )
    })?;
    let told = order.host;
    *config = Config {
        name: told.name,
        bind: told.bind,
        link: told.link.or(config.link.take()),
        config_dir: told.config_dir,
        pin: told.pin,
        pair: told.pair,
        pair_for: told.pair_for,
        ticket_key: told.ticket_key,
        ticket_session: told.ticket_session,
        second_player: told.second_player,
        max_observers: told.max_observers,
        gateway: told.gateway,
        realtime: told.realtime && config.realtime,
        ..config.clone()
    };
    Ok(Some(launcher))
}
