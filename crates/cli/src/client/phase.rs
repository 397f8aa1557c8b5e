//! Reports the refresh times of the display to the host. The host's application renders for these times.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::display_phase::DisplayPhase;
use openuvr_proto::display::{Display, Eyes, RefreshTiming};
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_runtime::client::ClientRuntime;

/// The maximum wait for a vertical blank. Then the thread checks its stop flag.
const BLANK_TIMEOUT: Duration = Duration::from_millis(100);

/// The interval of reports to the host. Errors of the period and of the clocks accumulate between reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Reports the display's properties to the host.
pub(super) struct DisplayReporter {
    eyes: Option<Eyes>,
    sent_at: Option<Instant>,
}

impl DisplayReporter {
    pub(super) fn new(eyes: Option<Eyes>) -> DisplayReporter {
        DisplayReporter {
            eyes,
            sent_at: None,
        }
    }

    /// Reports the refresh times, on the monotonic clock, unless the last report is recent. Returns whether a report
    /// was sent.
    pub(super) fn refresh(
        &mut self,
        client: &ClientRuntime,
        refresh: RefreshTiming<Instant>,
    ) -> bool {
        let now = clock::now();
        if self
            .sent_at
            .is_some_and(|sent_at| now.since(sent_at) < REPORT_INTERVAL)
        {
            return false;
        }
        self.sent_at = Some(now);
        let refresh = RefreshTiming {
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

/// Runs `work`. Meanwhile, sends the refresh times of the X display `display` to the host of `client`, if they are
/// available.
pub(super) fn report_during<T>(
    display: &str,
    eyes: Option<Eyes>,
    client: &ClientRuntime,
    work: impl FnOnce() -> T,
) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| measure(display, DisplayReporter::new(eyes), client, &over));
        let done = work();
        over.store(true, Ordering::Relaxed);
        done
    })
}

fn measure(name: &str, mut reporter: DisplayReporter, client: &ClientRuntime, over: &AtomicBool) {
    let mut phase = match DisplayPhase::open(name) {
        Ok(Some(phase)) => phase,
        Ok(None) => return tracing::debug!("{name} has no Present extension"),
        Err(why) => return tracing::debug!("{why}"),
    };
    let mut first = true;
    while !over.load(Ordering::Relaxed) {
        match phase.next(BLANK_TIMEOUT) {
            Ok(Some(refresh)) => {
                if reporter.refresh(client, refresh) && std::mem::take(&mut first) {
                    tracing::debug!("{name} has a refresh period of {:?}", refresh.period);
                }
            }
            Ok(None) => {}
            // The error is only logged: if the display is gone, the client ends anyway.
            Err(why) => return tracing::debug!("{why}"),
        }
    }
}
