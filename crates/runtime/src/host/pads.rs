//! Forwards rumble from the application to the sessions.

use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::input_sink::pads::RumbleSource;

use super::Shared;

/// How often the thread checks whether the host is stopping, if nothing wakes it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Forwards rumble until the host stops.
pub(super) fn run(shared: &Shared, mut source: Box<dyn RumbleSource>) {
    while !shared.stopping() {
        if let Some((pad, rumble)) = source.next(Some(POLL_INTERVAL)) {
            let mut sessions = shared.sessions();
            sessions.rumble(clock::now(), pad, rumble);
            shared.flush(&mut sessions);
        }
    }
}
