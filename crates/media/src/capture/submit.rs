//! Pictures that the application submits itself, from a thread of this process: no display is
//! asked, and nothing is copied: a picture stays where its owner has it until the host needs it
//! no more.
//!
//! The application may go on at once (the newest picture wins), or wait until what it submitted
//! is encoded and sent: OpenUVR's continuous and synchronous modes (paper, section V-E).
//!
//! What it is not: it reads no graphics library, and converts nothing.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Clock};

use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::pace::Pace;
use super::{Capture, CaptureError, CaptureEvent, RenderInfo, Waker};
use crate::picture::Picture;

/// While nobody watches, a picture is wanted this often, so that who comes then sees something at
/// once even if the application draws no more (guess).
const UNWATCHED: Duration = Duration::from_secs(1);

/// An application that has finished no picture for so long is at rest (guess: five frames at 60 a
/// second, of which one may be late).
const REST: Duration = Duration::from_millis(83);

/// A picture whose memory belongs to somebody who gets it back when this is dropped: by the host's
/// thread when a newer picture has come, or by the application's if it was never taken.
pub trait Frame: Send {
    /// The picture: packed ([`PixelFormat::packed`](crate::picture::PixelFormat::packed)), of any
    /// size, the same at each call. From the first call on its memory stays where it is.
    fn picture(&self) -> Picture<'_>;

    /// Nobody looks at the picture for now: until [`Frame::picture`] is called again, its owner may
    /// move it to other memory.
    fn rest(&mut self) {}
}

/// The application's end and the host's end. Until the first picture comes the source has the size
/// `size`; it is asked for at most `fps` pictures a second.
///
/// # Errors
/// This process has no file descriptor left.
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
    /// Something in `state` has changed that the application waits for.
    progress: Condvar,
    /// Raised when a picture or the end was put into `state`.
    arrived: Waker,
}

struct State {
    next: Option<(Box<dyn Frame>, RenderInfo)>,
    /// Pictures submitted, taken out by the host, and done with by it, counted from the start.
    submitted: u64,
    taken: u64,
    done: u64,
    closed: bool,
    pace: Pace,
    /// As many pictures a second are asked for at most.
    fps: f64,
    watched: bool,
    /// When a picture was wanted last.
    last_demand: Option<Instant>,
    /// When a picture was finished last that has not been handed over, as far as was asked.
    missed: Option<Instant>,
    /// The application's own pictures are not what is seen now.
    overlaid: bool,
    /// Raised when somebody comes to watch.
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

/// A picture that an application at rest shows and that was not handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StillTicket {
    missed: Option<Instant>,
    submitted: u64,
}

/// Whether a picture is worth reading back now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameDemand {
    /// It is.
    Now,
    /// Nobody watches, and there was one a moment ago for whoever comes next.
    Unwatched,
    /// Pictures come faster than they are wanted, or are not what is seen ([`Submitter::overlaid`]).
    TooSoon,
    /// The host is gone: none will be.
    Closed,
}

/// Which picture was submitted: what [`Submitter::wait`] waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(u64);

/// The application's end, for any of its threads. Dropping it ends the source.
pub struct Submitter {
    shared: Arc<Shared>,
}

impl Submitter {
    /// Whether a picture that is finished at `now` is worth handing over: somebody watches, and
    /// pictures have not come faster than wanted (a token bucket). Asked once for each picture,
    /// before it is read back; what is not wanted need not be submitted.
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

    /// A picture was finished at `now` that can't be read back: without this call an application that
    /// comes to rest behind it would go on being shown as it was before. See [`Submitter::missing_still`].
    pub fn missed(&self, now: Instant) {
        let mut state = self.shared.state();
        if !state.overlaid {
            state.missed = Some(now);
        }
    }

    /// Other windows lie over the application's pictures as of `now`, or do so no more. As long as they
    /// do only [`Submitter::submit_still`] has an effect, for pictures with them in it.
    pub fn overlaid(&self, now: Instant, overlaid: bool) {
        let mut state = self.shared.state();
        if std::mem::replace(&mut state.overlaid, overlaid) != overlaid {
            state.missed = (!overlaid).then_some(now);
        }
    }

    /// Whether a picture with what lies over it is worth handing over at `now`: somebody watches, and
    /// the last one was not a moment ago. Asked once for each picture.
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

    /// Whether it is [`FrameDemand::Now`].
    #[must_use]
    pub fn wants(&self, now: Instant) -> bool {
        self.demand(now) == FrameDemand::Now
    }

    /// How many pictures a second are asked for at most: what the player's display shows, where that is known.
    /// `None`: any number.
    #[must_use]
    pub fn fps(&self) -> Option<f64> {
        Some(self.shared.state().fps).filter(|fps| fps.is_normal() && *fps > 0.0)
    }

    /// Pictures that were handed over so far.
    #[must_use]
    pub fn submitted(&self) -> u64 {
        self.shared.state().submitted
    }

    /// Whether the host is gone: no picture is wanted any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.state().closed
    }

    /// Hands over a picture, and what is known of how it was drawn. One that the host has not taken
    /// yet is replaced. `None` if the host is gone.
    #[must_use]
    pub fn submit(&self, frame: Box<dyn Frame>, drawn: RenderInfo) -> Option<Ticket> {
        let mut state = self.shared.state();
        if state.closed {
            return None;
        }
        if state.overlaid {
            // It was under way when something came to lie over it.
            return Some(Ticket(state.submitted));
        }
        let replaced = state.next.replace((frame, drawn));
        // Another one may have been finished while this one was read back.
        if state.missed == state.last_demand {
            state.missed = None;
        }
        state.submitted += 1;
        let ticket = Ticket(state.submitted);
        drop(state);
        // Its owner may want a lock of its own.
        drop(replaced);
        self.shared.arrived.wake();
        Some(ticket)
    }

    /// Raises `waker` whenever somebody comes to watch after nobody did: see [`Submitter::missing_still`].
    pub fn wake_when_watched(&self, waker: Waker) {
        self.shared.state().audience = Some(waker);
    }

    /// Whether somebody watches.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        let state = self.shared.state();
        state.watched && !state.closed
    }

    /// Whether somebody watches an application that has come to rest, as of `now`, and the picture
    /// that it shows was never handed over: it was finished when nobody watched, or too soon after
    /// another. Who can find that picture hands it over to [`Submitter::submit_still`].
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

    /// Hands over the picture that [`Submitter::missing_still`] spoke of, unless the application has finished
    /// another one since: then it is dropped.
    pub fn submit_still(&self, still: StillTicket, frame: Box<dyn Frame>) {
        let mut state = self.shared.state();
        let same = state.missed == still.missed && state.submitted == still.submitted;
        if !same || state.closed {
            return;
        }
        state.next = Some((frame, RenderInfo::default()));
        state.missed = None;
        state.submitted += 1;
        drop(state);
        self.shared.arrived.wake();
    }

    /// Waits until the host has done all it will do with a picture or a newer one: encoded and sent
    /// it. `false` if it is gone, or not done within `timeout`.
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

/// The host's end.
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
            // Who asks for the next one is done with the last.
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
