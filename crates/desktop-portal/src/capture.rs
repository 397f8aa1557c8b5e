//! The pictures of a session.

use std::sync::Arc;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::capture::pace::Pace;
use openuvr_media::capture::{Capture, CaptureError, CaptureEvent, Waker};
use openuvr_media::damage::Block;
use openuvr_media::picture::Picture;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags};

use crate::session::Connected;
use crate::stream::{End, Frame, Stream};
use crate::wait::wait_until;

/// A [`Capture`] of a session's stream. The compositor sends a picture when it has drawn something; nothing is polled.
pub struct PortalCapture {
    stream: Stream,
    /// Keeps the session open.
    _session: Arc<Connected>,
    pace: Pace,
    waker: Waker,
    /// The size of the newest picture, or of the next picture once its size has been announced.
    size: Size,
    /// The number of received frames of which the frame rate limit has been informed.
    counted: u64,
    shown: Option<Frame>,
    changed: Option<Block>,
}

impl PortalCapture {
    pub(crate) fn new(
        stream: Stream,
        session: Arc<Connected>,
    ) -> Result<PortalCapture, CaptureError> {
        Ok(PortalCapture {
            size: stream.first_size,
            stream,
            _session: session,
            pace: Pace::unlimited(),
            waker: Waker::new()?,
            counted: 0,
            shown: None,
            changed: None,
        })
    }

    /// The next event, if there is one.
    fn advance(&mut self, now: Instant) -> Result<Option<CaptureEvent>, CaptureError> {
        let arrived = &self.stream.arrived;
        match arrived.ended() {
            Some(End::Regular(why)) => return Ok(Some(CaptureEvent::Ended(why))),
            Some(End::Failed(why)) => return Err(CaptureError(why)),
            None => {}
        }
        let (count, waiting) = arrived.progress();
        if std::mem::replace(&mut self.counted, count) != count {
            self.pace.offer(now);
        }
        let Some(size) = waiting else {
            return Ok(None);
        };
        if std::mem::replace(&mut self.size, size) != size {
            return Ok(Some(CaptureEvent::Resized(size)));
        }
        if self.pace.due().is_none_or(|due| due > now) {
            return Ok(None);
        }
        Ok(self.show(now).then_some(CaptureEvent::Frame))
    }

    /// Makes the waiting frame the newest picture.
    fn show(&mut self, now: Instant) -> bool {
        let Some(mut frame) = self.stream.arrived.take() else {
            return false;
        };
        self.pace.take(now);
        let damage = frame.damage.take();
        let before = self.shown.replace(frame);
        self.changed = damage.filter(|_| {
            let size = |frame: &Frame| frame.size;
            before.as_ref().map(size) == self.shown.as_ref().map(size)
        });
        if let Some(before) = before {
            self.stream.give_back(&before);
        }
        true
    }

    /// Waits for a frame, for the waker, or until `next`.
    fn wait(&self, next: Option<Instant>) -> Result<(), CaptureError> {
        let mut fds = [
            PollFd::from_borrowed_fd(self.stream.arrived.frames.fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.waker.fd(), PollFlags::IN),
        ];
        wait_until(&mut fds, next)
    }
}

impl Capture for PortalCapture {
    fn size(&self) -> Size {
        self.size
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError> {
        let until = timeout.map(|span| clock::now() + span);
        loop {
            if self.waker.lower() {
                return Ok(CaptureEvent::Woken);
            }
            self.stream.arrived.frames.lower();
            let now = clock::now();
            if let Some(event) = self.advance(now)? {
                return Ok(event);
            }
            if until.is_some_and(|until| until <= now) {
                return Ok(CaptureEvent::TimedOut);
            }
            let waits = self.stream.arrived.progress().1.is_some();
            let due = self.pace.due().filter(|_| waits);
            let next = [due, until].into_iter().flatten().min();
            self.wait(next)?;
        }
    }

    fn picture(&self) -> Option<Picture<'_>> {
        self.shown.as_ref().map(Frame::picture)
    }

    fn changed(&self) -> Option<Block> {
        self.changed.clone()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn limit_fps(&mut self, fps: f64) {
        self.pace.limit(fps);
    }

    /// Sets whether there are viewers. Without viewers, the compositor draws nothing for this stream. When the first
    /// viewer joins, the compositor sends its current picture.
    fn set_watched(&mut self, watched: bool) {
        self.stream.set_active(watched);
    }
}
