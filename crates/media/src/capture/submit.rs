//! Pictures that the application submits itself, from a thread of this process. No display is involved. This module
//! does not copy pictures: the host reads each picture in its owner's memory.
//!
//! The application may continue immediately (the newest picture wins), or wait until its picture is encoded and sent.
//! These are OpenUVR's continuous and synchronous modes (paper, section V-E).
//!
//! This module uses no graphics API and converts nothing.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Clock};

use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::pace::Pace;
use super::{Capture, CaptureError, CaptureEvent, RenderInfo, Waker};
use crate::picture::Picture;

/// Without viewers, one picture per this interval is requested, so that a new viewer sees a picture immediately even if
/// the application stops drawing (guess).
const UNWATCHED: Duration = Duration::from_secs(1);

/// An application that has finished no picture for this long is at rest (guess: five frames at 60
/// Hz, one of which may be late).
const REST: Duration = Duration::from_millis(83);

/// A picture whose memory returns to its owner on drop. The host's thread drops the picture when it takes a newer
/// picture or ends the source. The application's thread drops it if a newer picture replaces it before the host has
/// taken it.
pub trait Frame: Send {
    /// The picture, in a packed format ([`PixelFormat::packed`](crate::picture::PixelFormat::packed)) and of any size.
    /// Each call returns the same picture. The picture stays in the same memory until [`Frame::rest`] is called.
    fn picture(&self) -> Picture<'_>;

    /// Notifies the owner that the picture is no longer borrowed. Until the next call of [`Frame::picture`], the owner
    /// may move it to other memory.
    fn rest(&mut self) {}
}

/// Creates the application's side and the host's side of a source. Until the first picture arrives, the source has the
/// size `size`. At most `fps` pictures per second are requested.
///
/// # Errors
/// [`CaptureError`] if this process has no file descriptor left.
pub fn channel(size: Size, fps: f64) -> Result<(Submitter, Submitted), CaptureError> {
    let state = State {
        pace: Pace::new(fps),
        fps,
        ..State::default()
    };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        progress: Condvar::new(),
        arrived: Waker::new()?,
    });
    let submitter = Submitter {
        shared: shared.clone(),
    };
    let submitted = Submitted {
        size,
        shared,
        frame: None,
        drawn: RenderInfo::default(),
        waker: Waker::new()?,
    };
    Ok((submitter, submitted))
}

struct Shared {
    state: Mutex<State>,
    /// Signals a change in `state` that the application waits for.
    progress: Condvar,
    /// Raised when a picture was stored in `state`, or the source has ended.
    arrived: Waker,
}

struct State {
    next: Option<(Box<dyn Frame>, RenderInfo)>,
    /// The numbers of the newest pictures that were submitted, taken by the host, and finished by the host. Replaced
    /// pictures are counted, too.
    submitted: u64,
    taken: u64,
    done: u64,
    closed: bool,
    pace: Pace,
    /// The maximum requested frame rate.
    fps: f64,
    watched: bool,
    /// The time of the last request for a picture.
    last_demand: Option<Instant>,
    /// The time at which the newest unsubmitted picture was finished, if known.
    missed: Option<Instant>,
    /// Whether other windows cover the application's pictures.
    overlaid: bool,
    /// Raised when the first viewer arrives.
    audience: Option<Waker>,
}

impl Default for State {
    fn default() -> State {
        State {
            next: None,
            submitted: 0,
            taken: 0,
            done: 0,
            closed: false,
            pace: Pace::unlimited(),
            fps: 0.0,
            watched: false,
            last_demand: None,
            missed: None,
            overlaid: false,
            audience: None,
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request of [`Submitter::missing_still`] or [`Submitter::wants_still`] for the application's current picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StillTicket {
    missed: Option<Instant>,
    submitted: u64,
}

/// Whether a picture should be read back now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameDemand {
    /// The picture should be read back.
    Now,
    /// There is no viewer, and a recent picture exists for the next viewer.
    Unwatched,
    /// Pictures come faster than requested, or other windows cover them ([`Submitter::overlaid`]).
    TooSoon,
    /// The host is gone, and no more pictures are needed.
    Closed,
}

/// Identifies a submitted picture for [`Submitter::wait`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(u64);

/// The application's side of a source, for any of its threads. When it is dropped, the source ends.
pub struct Submitter {
    shared: Arc<Shared>,
}

impl Submitter {
    /// Whether a picture that is finished at `now` should be submitted: with viewers, when the rate limit (a token
    /// bucket) allows it; without viewers, once a second. Call this once per picture, before the read-back. A picture
    /// without demand need not be submitted.
    #[must_use]
    pub fn demand(&self, now: Instant) -> FrameDemand {
        let mut state = self.shared.state();
        if state.closed {
            return FrameDemand::Closed;
        }
        if state.overlaid {
            return FrameDemand::TooSoon;
        }
        state.missed = Some(now);
        let rested = state
            .last_demand
            .is_none_or(|last| now.since(last) >= UNWATCHED);
        if !(state.watched || rested) {
            return FrameDemand::Unwatched;
        }
        state.pace.offer(now);
        if state.pace.due().is_some_and(|due| due > now) {
            return FrameDemand::TooSoon;
        }
        state.pace.take(now);
        state.last_demand = Some(now);
        FrameDemand::Now
    }

    /// Reports a picture finished at `now` that can't be read back. Without this report, viewers would keep an outdated
    /// picture if the application then comes to rest. See [`Submitter::missing_still`].
    pub fn missed(&self, now: Instant) {
        let mut state = self.shared.state();
        if !state.overlaid {
            state.missed = Some(now);
        }
    }

    /// Reports whether other windows cover the application's pictures as of `now`. While the pictures are covered, only
    /// [`Submitter::submit_still`] and `Submitter::replace` pass pictures to the host. The pictures passed to
    /// `submit_still` must include the covering windows.
    pub fn overlaid(&self, now: Instant, overlaid: bool) {
        let mut state = self.shared.state();
        if std::mem::replace(&mut state.overlaid, overlaid) != overlaid {
            state.missed = (!overlaid).then_some(now);
        }
    }

    /// A request for a picture that includes the covering windows. Returned only if other windows cover the
    /// application's pictures, there is a viewer, and the rate limit allows a picture at `now`. Call this once per
    /// picture.
    #[must_use]
    pub fn wants_still(&self, now: Instant) -> Option<StillTicket> {
        let mut state = self.shared.state();
        if state.closed || !state.watched || !state.overlaid {
            return None;
        }
        state.pace.offer(now);
        if state.pace.due().is_some_and(|due| due > now) {
            return None;
        }
        state.pace.take(now);
        Some(StillTicket {
            missed: state.missed,
            submitted: state.submitted,
        })
    }

    /// Whether the demand is [`FrameDemand::Now`].
    #[must_use]
    pub fn wants(&self, now: Instant) -> bool {
        self.demand(now) == FrameDemand::Now
    }

    /// The maximum rate at which pictures are requested, in frames per second. The host adapts this rate to the
    /// player's display if the display's refresh rate is known. `None`: no limit.
    #[must_use]
    pub fn fps(&self) -> Option<f64> {
        Some(self.shared.state().fps).filter(|fps| fps.is_normal() && *fps > 0.0)
    }

    /// Number of pictures submitted so far.
    #[must_use]
    pub fn submitted(&self) -> u64 {
        self.shared.state().submitted
    }

    /// Whether the host is gone and no more pictures are needed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.state().closed
    }

    /// Submits a picture and its render information. Replaces a picture that the host has not taken yet. While other
    /// windows cover the application's pictures, the picture is dropped, and the previous ticket is returned. Returns
    /// `None` if the host is gone.
    #[must_use]
    pub fn submit(&self, frame: Box<dyn Frame>, drawn: RenderInfo) -> Option<Ticket> {
        let mut state = self.shared.state();
        if state.closed {
            return None;
        }
        if state.overlaid {
            // This picture was pending when another window covered it.
            return Some(Ticket(state.submitted));
        }
        let replaced = state.next.replace((frame, drawn));
        // Another picture may have been finished during this read-back.
        if state.missed == state.last_demand {
            state.missed = None;
        }
        state.submitted += 1;
        let ticket = Ticket(state.submitted);
        drop(state);
        // The lock is released first, because dropping the picture may take a lock of its owner.
        drop(replaced);
        self.shared.arrived.wake();
        Some(ticket)
    }

    /// Raises `waker` whenever the first viewer arrives: see [`Submitter::missing_still`].
    pub fn wake_when_watched(&self, waker: Waker) {
        self.shared.state().audience = Some(waker);
    }

    /// Whether there is a viewer.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        let state = self.shared.state();
        state.watched && !state.closed
    }

    /// A request for the current picture, if there is a viewer at `now`, the application is at rest, and this picture
    /// was never submitted. A picture is not submitted, for example, if it was finished without viewers or too soon
    /// after another picture, or if it could not be read back. If the picture is available now, pass it to
    /// [`Submitter::submit_still`].
    #[must_use]
    pub fn missing_still(&self, now: Instant) -> Option<StillTicket> {
        let state = self.shared.state();
        let rests = match state.missed {
            Some(missed) => now.since(missed) >= REST,
            None => state.submitted == 0,
        };
        (rests && state.watched && !state.closed).then_some(StillTicket {
            missed: state.missed,
            submitted: state.submitted,
        })
    }

    /// Submits the picture requested by [`Submitter::missing_still`] or [`Submitter::wants_still`]. The picture is
    /// dropped if the application has finished another picture since the request.
    pub fn submit_still(&self, still: StillTicket, frame: Box<dyn Frame>) {
        let mut state = self.shared.state();
        let same = state.missed == still.missed && state.submitted == still.submitted;
        if !same || state.closed {
            return;
        }
        let replaced = state.next.replace((frame, RenderInfo::default()));
        state.missed = None;
        state.submitted += 1;
        drop(state);
        // As in `submit`, the lock is released first.
        drop(replaced);
        self.shared.arrived.wake();
    }

    /// Replaces the host's picture with its copy `frame`, because the memory of the original is about to be freed.
    /// Unlike [`Submitter::submit`], this has an effect even while other windows cover the application's pictures. The
    /// copy lacks these windows. [`Submitter::missing_still`] then requests a picture that includes them.
    pub fn replace(&self, now: Instant, frame: Box<dyn Frame>) {
        let mut state = self.shared.state();
        if state.closed {
            return;
        }
        let replaced = state.next.replace((frame, RenderInfo::default()));
        if state.overlaid {
            state.missed = Some(now);
        }
        state.submitted += 1;
        drop(state);
        // As in `submit`, the lock is released first.
        drop(replaced);
        self.shared.arrived.wake();
    }

    /// Waits until the host has encoded and sent this picture or a newer picture. `false` if the host is gone or
    /// `timeout` expires.
    #[must_use]
    pub fn wait(&self, ticket: Ticket, timeout: Duration) -> bool {
        let waits = |state: &mut State| state.done < ticket.0 && !state.closed;
        let waited = self
            .shared
            .progress
            .wait_timeout_while(self.shared.state(), timeout, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.done >= ticket.0
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.arrived.wake();
    }
}

/// The host's side of a source.
pub struct Submitted {
    size: Size,
    shared: Arc<Shared>,
    frame: Option<Box<dyn Frame>>,
    drawn: RenderInfo,
    waker: Waker,
}

impl Submitted {
    /// Takes the newest picture, if there is one.
    fn take(&mut self) -> Option<CaptureEvent> {
        let mut state = self.shared.state();
        let Some((frame, drawn)) = state.next.take() else {
            return state
                .closed
                .then_some(CaptureEvent::Ended("the application has ended"));
        };
        state.taken = state.submitted;
        drop(state);
        self.size = frame.picture().size;
        self.drawn = drawn;
        self.frame = Some(frame);
        Some(CaptureEvent::Frame)
    }
}

impl Capture for Submitted {
    fn limit_fps(&mut self, fps: f64) {
        let mut state = self.shared.state();
        state.pace.limit(fps);
        state.fps = fps;
    }

    fn size(&self) -> Size {
        self.size
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError> {
        {
            // A request for the next picture releases the previous picture.
            if let Some(frame) = &mut self.frame {
                frame.rest();
            }
            let mut state = self.shared.state();
            state.done = state.taken;
            self.shared.progress.notify_all();
        }
        let until = timeout.and_then(|timeout| Clock::now().checked_add(timeout));
        loop {
            if self.waker.lower() {
                return Ok(CaptureEvent::Woken);
            }
            self.shared.arrived.lower();
            if let Some(event) = self.take() {
                return Ok(event);
            }
            let left = until.map(|until| until.saturating_duration_since(Clock::now()));
            if left == Some(Duration::ZERO) {
                return Ok(CaptureEvent::TimedOut);
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds = [self.waker.fd(), self.shared.arrived.fd()]
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            match poll(&mut fds, left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(CaptureError(format!("can't wait for pictures: {e}"))),
            }
        }
    }

    fn picture(&self) -> Option<Picture<'_>> {
        self.frame.as_deref().map(Frame::picture)
    }

    fn render_info(&self) -> RenderInfo {
        self.drawn
    }

    fn set_watched(&mut self, watched: bool) {
        let mut state = self.shared.state();
        let comes = watched && !state.watched;
        state.watched = watched;
        if let Some(audience) = state.audience.as_ref().filter(|_| comes) {
            audience.wake();
        }
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        let next = {
            let mut state = self.shared.state();
            state.closed = true;
            state.next.take()
        };
        drop(next);
        self.shared.progress.notify_all();
    }
}

#[cfg(test)]
mod tests;
