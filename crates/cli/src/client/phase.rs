//! Refresh times of the display, for the host, whose application renders for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openuvr_media::display_phase::DisplayPhase;
use openuvr_proto::display::{Display, Eyes, Refresh};
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_runtime::client::ClientRuntime;
use openuvr_runtime::clock;

/// The maximum wait for a vertical blank before the thread checks its stop flag.
const WAIT: Duration = Duration::from_millis(100);

/// The interval of reports to the host: errors of the period and of the clocks accumulate meanwhile.
const AGAIN: Duration = Duration::from_secs(1);

/// Reports of the display to the host.
pub(super) struct Told {
    eyes: Option<Eyes>,
    said: Option<Instant>,
}

impl Told {
    pub(super) fn new(eyes: Option<Eyes>) -> Told {
        Told { eyes, said: None }
    }

    /// Reports the refresh times, on the monotonic clock, unless the last report is recent; whether it was sent.
    pub(super) fn refresh(&mut self, client: &ClientRuntime, refresh: Refresh<Instant>) -> bool {
        let now = clock::now();
        if self.said.is_some_and(|said| now.since(said) < AGAIN) {
            return false;
        }
        self.said = Some(now);
        let refresh = Refresh {
            phase: PeerInstant(refresh.phase.0),
            period: refresh.period,
        };
        client.set_display(Display {
            refresh: Some(refresh),
            eyes: self.eyes,
        });
        true
    }
}

/// Runs `work` while the refresh times of the X display `display` are sent to the host of `client`. If they are
/// unavailable, only `work` runs.
pub(super) fn beside<T>(
    display: &str,
    eyes: Option<Eyes>,
    client: &ClientRuntime,
    work: impl FnOnce() -> T,
) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| measure(display, Told::new(eyes), client, &over));
        let done = work();
        over.store(true, Ordering::Relaxed);
        done
    })
}

fn measure(name: &str, mut told: Told, client: &ClientRuntime, over: &AtomicBool) {
    let mut phase = match DisplayPhase::open(name) {
        Ok(Some(phase)) => phase,
        Ok(None) => return tracing::debug!("{name} has no Present extension"),
        Err(why) => return tracing::debug!("{why}"),
    };
    let mut first = true;
    while !over.load(Ordering::Relaxed) {
        match phase.next(WAIT) {
            Ok(Some(refresh)) => {
                if told.refresh(client, refresh) && std::mem::take(&mut first) {
                    tracing::debug!("{name} has a refresh period of {:?}", refresh.period);
                }
            }
            Ok(None) => {}
            // Without its display the client ends anyway.
            Err(why) => return tracing::debug!("{why}"),
        }
    }
}
