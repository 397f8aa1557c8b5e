//! The input thread: reads the window or another input source, and executes the shortcuts of this source.

use std::sync::atomic::Ordering;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::input_source::{InputSource, SourceEvent};
use openuvr_net::Link as _;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;

use super::{Notice, Shared, StopReason};

/// How often the input thread checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A window size is reported to the host after it has been stable for this time, because a window passes through many
/// sizes while it is resized (guess). The report may be up to [`POLL_INTERVAL`] later.
const RESIZE_SETTLES: Duration = Duration::from_millis(150);

/// Sends input events as they occur, until the client stops.
pub(super) fn run(shared: &Shared, mut source: Box<dyn InputSource>, send: bool) {
    let mut resized: Option<(Size, Instant)> = None;
    while !shared.stopping() {
        if let Some((size, _)) =
            resized.take_if(|(_, at)| clock::now().since(*at) >= RESIZE_SETTLES)
        {
            shared.window_size(size);
        }
        let keys = [Keys::Symbol, Keys::Position, Keys::Both];
        let by = usize::from(shared.keys.load(Ordering::Relaxed));
        source.follow(keys.get(by).copied().unwrap_or_default());
        match source.next(Some(POLL_INTERVAL)) {
            Ok(SourceEvent::Input(event)) if shared.is_head_input(&event) => {}
            Ok(SourceEvent::Grabbed(grabbed)) => shared.grabbed(grabbed),
            Ok(SourceEvent::Recentre) => shared.recentre.store(true, Ordering::Relaxed),
            Ok(SourceEvent::NextEyes) => shared.notice(Notice::EyeView(shared.eyes.cycle_view())),
            Ok(SourceEvent::Input(event)) if send => shared.input(event, None),
            Ok(SourceEvent::Sampled(event, at)) if send => shared.input(event, Some(at)),
            Ok(SourceEvent::Input(_) | SourceEvent::Sampled(..) | SourceEvent::TimedOut) => {}
            Ok(SourceEvent::Focused(focused)) => shared.focused(focused),
            Ok(SourceEvent::ToggleOverlay) => {
                shared.overlay.fetch_xor(true, Ordering::Relaxed);
                shared.link.wake();
            }
            Ok(SourceEvent::Sound(change)) => shared.change_volume(change),
            Ok(SourceEvent::Resized(size)) => resized = Some((size, clock::now())),
            Ok(SourceEvent::Keys(keys)) => shared.notice(Notice::Keys(keys)),
            Ok(SourceEvent::Closed) => {
                shared.finish(StopReason::Quit);
                shared.stop();
            }
            Err(e) => {
                shared.finish(StopReason::Failed(e.to_string()));
                shared.stop();
            }
        }
    }
}
