//! The compositor's reports to the presenter: which buffers it no longer reads, and when pictures became visible. The
//! thread that reads the connection's events stores the reports here.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as SystemInstant};

use openuvr_clock as clock;
use openuvr_proto::id::FrameId;
use openuvr_proto::time::Instant;
use rustix::time::{ClockId, clock_gettime};
use wayland_client::backend::protocol::Message;
use wayland_client::backend::{Backend, ObjectData, ObjectId};
use wayland_client::protocol::wl_buffer::{self, WlBuffer};
use wayland_client::{Connection, Proxy as _};
use wayland_protocols::wp::presentation_time::client::wp_presentation_feedback::{
    self, WpPresentationFeedback,
};

/// Maximum number of reports of presentation times that wait for the presenter. The presenter reads them with each
/// picture. If there are more, the oldest are lost.
const MAX_TIMES: usize = 64;

/// The frame, and the time when its picture became visible; `None` if the picture never became visible, or if the time
/// is unknown.
pub(crate) type Presented = (FrameId, Option<Instant>);

/// The queues, shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    queues: Mutex<Queues>,
    released: Condvar,
    /// The clock of presentation times; `None` if it is unknown or not supported.
    clock: Mutex<Option<ClockId>>,
}

#[derive(Debug, Default)]
struct Queues {
    /// Numbers of released buffers. The list is bounded by the number of buffers, because a buffer is released once per
    /// use.
    released: Vec<u32>,
    presented: VecDeque<Presented>,
}

impl Reports {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        // Every change leaves the queues in a valid state, even if a panic follows.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the numbers of released buffers. Waits for the first one until `deadline`.
    pub(crate) fn take_released(&self, deadline: SystemInstant, mut take: impl FnMut(u32)) {
        let mut queues = self.queues();
        while queues.released.is_empty() {
            let left = deadline.saturating_duration_since(SystemInstant::now());
            if left == Duration::ZERO {
                return;
            }
            let waited = self.released.wait_timeout(queues, left);
            queues = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        for number in queues.released.drain(..) {
            take(number);
        }
    }

    /// Takes the oldest report of a presentation time.
    pub(crate) fn take_presented(&self) -> Option<Presented> {
        self.queues().presented.pop_front()
    }

    /// Handles `wp_presentation.clock_id`, the first event of that object. Times are converted if their clock has a
    /// fine resolution and no steps. Times of other clocks are dropped.
    pub(crate) fn clock(&self, id: u32) {
        let known = [ClockId::Monotonic, ClockId::MonotonicRaw, ClockId::Boottime];
        let same = |clock: &ClockId| u32::try_from(*clock as i32) == Ok(id);
        *self.lock_clock() = known.into_iter().find(same);
    }

    /// Whether presentation times are on a known clock.
    pub(crate) fn has_times(&self) -> bool {
        self.lock_clock().is_some()
    }

    fn lock_clock(&self) -> MutexGuard<'_, Option<ClockId>> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Converts a presentation time to the monotonic clock.
    fn to_ours(&self, at: Instant) -> Option<Instant> {
        match (*self.lock_clock())? {
            ClockId::Monotonic => Some(at),
            // Less than a microsecond passes between the readings of the two clocks. In the milliseconds since `at`,
            // the clocks drift by less than that.
            other => {
                let theirs = clock_gettime(other);
                let ago = nanoseconds(theirs.tv_sec, theirs.tv_nsec).saturating_sub(at.0);
                Some(Instant(clock::now().0.saturating_sub(ago)))
            }
        }
    }

    fn presented(&self, report: Presented) {
        let mut queues = self.queues();
        if queues.presented.len() == MAX_TIMES {
            queues.presented.pop_front();
        }
        queues.presented.push_back(report);
    }
}

pub(crate) struct BufferData {
    pub(crate) reports: Arc<Reports>,
    pub(crate) number: u32,
}

impl ObjectData for BufferData {
    fn event(
        self: Arc<Self>,
        backend: &Backend,
        message: Message<ObjectId, OwnedFd>,
    ) -> Option<Arc<dyn ObjectData>> {
        let conn = Connection::from_backend(backend.clone());
        if let Ok((_, wl_buffer::Event::Release)) = WlBuffer::parse_event(&conn, message) {
            self.reports.queues().released.push(self.number);
            self.reports.released.notify_all();
        }
        None
    }

    fn destroyed(&self, _: ObjectId) {}
}

pub(crate) struct FeedbackData {
    pub(crate) reports: Arc<Reports>,
    pub(crate) frame: FrameId,
}

impl ObjectData for FeedbackData {
    fn event(
        self: Arc<Self>,
        backend: &Backend,
        message: Message<ObjectId, OwnedFd>,
    ) -> Option<Arc<dyn ObjectData>> {
        use wp_presentation_feedback::Event;

        let conn = Connection::from_backend(backend.clone());
        let at = match WpPresentationFeedback::parse_event(&conn, message) {
            Ok((
                _,
                Event::Presented {
                    tv_sec_hi,
                    tv_sec_lo,
                    tv_nsec,
                    ..
                },
            )) => Some(time(tv_sec_hi, tv_sec_lo, tv_nsec)),
            Ok((_, Event::Discarded)) => None,
            _ => return None,
        };
        let at = at.and_then(|at| self.reports.to_ours(at));
        self.reports.presented((self.frame, at));
        None
    }

    fn destroyed(&self, _: ObjectId) {}
}

/// A time of `wp_presentation_feedback.presented`.
fn time(seconds_high: u32, seconds_low: u32, nanoseconds_of_second: u32) -> Instant {
    let seconds = (u64::from(seconds_high) << 32) | u64::from(seconds_low);
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    Instant(nanoseconds(seconds, nanoseconds_of_second.into()))
}

fn nanoseconds(seconds: i64, more: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_bounded_and_waits_end() {
        let reports = Reports::default();
        for id in 0..100 {
            reports.presented((FrameId(id), None));
        }
        assert_eq!(reports.take_presented(), Some((FrameId(36), None)));
        let mut none = 0;
        reports.take_released(SystemInstant::now(), |_| none += 1);
        assert_eq!(none, 0);
        // The ids of CLOCK_MONOTONIC_RAW and CLOCK_REALTIME in time.h.
        for (id, known) in [(4, true), (0, false)] {
            reports.clock(id);
            let before = clock::now();
            let raw = clock_gettime(ClockId::MonotonicRaw);
            let at = Instant(nanoseconds(raw.tv_sec, raw.tv_nsec));
            let ours = reports.to_ours(at);
            assert_eq!(ours.is_some(), known);
            assert!(ours.is_none_or(|ours| ours <= clock::now() && before.since(ours).as_millis() < 500));
        }
        assert_eq!(time(0, 2, 5), Instant(2_000_000_005));
        assert_eq!(time(u32::MAX, u32::MAX, 5), Instant(i64::MAX));
    }
}
