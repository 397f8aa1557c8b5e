//! What the compositor reports to the presenter: buffers that it no longer reads, and when pictures
//! became visible. The thread that reads the connection's events leaves it here.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as SystemInstant};

use openuvr_proto::id::FrameId;
use openuvr_proto::time::Instant;
use wayland_client::backend::protocol::Message;
use wayland_client::backend::{Backend, ObjectData, ObjectId};
use wayland_client::protocol::wl_buffer::{self, WlBuffer};
use wayland_client::{Connection, Proxy as _};
use wayland_protocols::wp::presentation_time::client::wp_presentation_feedback::{
    self, WpPresentationFeedback,
};

/// Reports of presentation times that wait for the presenter. It reads them with each picture; of
/// more, the oldest are lost.
const MAX_TIMES: usize = 64;

/// When a picture became visible; `None` if it never was, or the compositor did not say.
pub(crate) type Presented = (FrameId, Option<Instant>);

/// The queues, shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    queues: Mutex<Queues>,
    released: Condvar,
    /// Whether presentation times are on our clock.
    monotonic: AtomicBool,
}

#[derive(Debug, Default)]
struct Queues {
    /// Numbers of buffers. Bounded by their number: a buffer is released once per use.
    released: Vec<u32>,
    presented: VecDeque<Presented>,
}

impl Reports {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        // Every change is complete: a panic leaves it valid.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the numbers of released buffers; waits for the first until `deadline`.
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

    /// `wp_presentation.clock_id`, the first event of that object.
    pub(crate) fn clock(&self, id: u32) {
        let ours = id == u32::try_from(libc::CLOCK_MONOTONIC).unwrap_or(u32::MAX);
        self.monotonic.store(ours, Ordering::Relaxed);
    }

    /// Whether presentation times are on our clock.
    pub(crate) fn has_times(&self) -> bool {
        self.monotonic.load(Ordering::Relaxed)
    }

    fn presented(&self, report: Presented) {
        let mut queues = self.queues();
        if queues.presented.len() == MAX_TIMES {
            queues.presented.pop_front();
        }
        queues.presented.push_back(report);
    }
}

/// The data of a picture's buffer.
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

/// The data of the feedback to a picture.
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
        let at = at.filter(|_| self.reports.has_times());
        self.reports.presented((self.frame, at));
        None
    }

    fn destroyed(&self, _: ObjectId) {}
}

/// A time of `wp_presentation_feedback.presented`.
fn time(seconds_high: u32, seconds_low: u32, nanoseconds: u32) -> Instant {
    let seconds = (u64::from(seconds_high) << 32) | u64::from(seconds_low);
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    Instant(
        seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(nanoseconds.into()),
    )
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
        assert_eq!(time(0, 2, 5), Instant(2_000_000_005));
        assert_eq!(time(u32::MAX, u32::MAX, 5), Instant(i64::MAX));
    }
}
