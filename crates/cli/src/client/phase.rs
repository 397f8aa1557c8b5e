//! When the display shows pictures, for the host, whose application draws for these moments.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openuvr_media::display_phase::DisplayPhase;
use openuvr_proto::display::{Display, Eyes, Refresh};
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_runtime::client::ClientRuntime;
use openuvr_runtime::clock;

/// How long a blank is waited for before the thread looks whether it is to end.
const WAIT: Duration = Duration::from_millis(100);

/// So often the host hears a newer phase: what period and clocks are off by adds up meanwhile.
const AGAIN: Duration = Duration::from_secs(1);

/// What the host hears of the display.
pub(super) struct Told {
    eyes: Option<Eyes>,
    said: Option<Instant>,
}

impl Told {
    pub(super) fn new(eyes: Option<Eyes>) -> Told {
        Told { eyes, said: None }
    }

    /// The display shows pictures at these moments, of the monotonic clock; whether the host heard it now.
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

/// Does `work` while the refreshes of `display`, of an X server, go to the host of `client`. Where they can't be
/// known, it is as if nobody asked.
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
                    tracing::debug!("{name} shows a picture every {:?}", refresh.period);
                }
            }
            Ok(None) => {}
            // Without its display the client ends anyway.
            Err(why) => return tracing::debug!("{why}"),
        }
    }
}
