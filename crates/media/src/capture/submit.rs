//! Pictures that the application submits itself, from a thread of this process: no display is
//! asked, and nothing is copied: pictures change hands as whole buffers.
//!
//! The application may go on at once (the newest picture wins), or wait until what it submitted
//! is encoded and sent: OpenUVR's continuous and synchronous modes (paper, section V-E).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Capture, CaptureError, CaptureEvent, Waker};
use crate::picture::Picture;

/// The application's end and the host's end, for pictures of one `size`: BGRX without gaps.
///
/// # Errors
/// This process has no file descriptor left.
pub fn channel(size: Size) -> Result<(Submitter, Submitted), CaptureError> {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        progress: Condvar::new(),
        arrived: Waker::new()?,
    });
    let submitter = Submitter {
        size,
        shared: shared.clone(),
    };
    let submitted = Submitted {
        size,
        shared,
        picture: None,
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

#[derive(Default)]
struct State {
    next: Option<Vec<u8>>,
    /// A buffer that nobody needs any more.
    spare: Option<Vec<u8>>,
    /// Pictures submitted, taken out by the host, and done with by it, counted from the start.
    submitted: u64,
    taken: u64,
    done: u64,
    closed: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The application's end. Dropping it ends the source.
pub struct Submitter {
    size: Size,
    shared: Arc<Shared>,
}

impl Submitter {
    /// Hands over a picture and returns a buffer for the next one, of the same length. A picture
    /// that the host has not taken yet is replaced. `None` if the host is gone or the picture has
    /// not the channel's size.
    #[must_use]
    pub fn submit(&self, picture: Vec<u8>) -> Option<Vec<u8>> {
        let length = self.size.pixels() * 4;
        let mut state = self.shared.state();
        if state.closed || picture.len() != length {
            return None;
        }
        let replaced = state.next.replace(picture);
        state.submitted += 1;
        let free = replaced.or_else(|| state.spare.take());
        drop(state);
        self.shared.arrived.wake();
        Some(free.unwrap_or_else(|| vec![0; length]))
    }

    /// Waits until the host has done all it will do with what was submitted: encoded and sent it.
    /// `false` if it is gone, or not done within `timeout`.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        let state = self.shared.state();
        let mine = state.submitted;
        let waits = |state: &mut State| state.done < mine && !state.closed;
        let waited = self
            .shared
            .progress
            .wait_timeout_while(state, timeout, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.done >= mine
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
    picture: Option<Vec<u8>>,
    waker: Waker,
}

impl Submitted {
    /// Takes the newest picture, if there is one.
    fn take(&mut self) -> Option<CaptureEvent> {
        let mut state = self.shared.state();
        let Some(next) = state.next.take() else {
            return state
                .closed
                .then_some(CaptureEvent::Ended("the application has ended"));
        };
        state.taken = state.submitted;
        if let Some(old) = self.picture.replace(next) {
            state.spare = Some(old);
        }
        Some(CaptureEvent::Frame)
    }
}

impl Capture for Submitted {
    fn size(&self) -> Size {
        self.size
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError> {
        {
            // Who asks for the next one is done with the last.
            let mut state = self.shared.state();
            state.done = state.taken;
            self.shared.progress.notify_all();
        }
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if self.waker.lower() {
                return Ok(CaptureEvent::Woken);
            }
            self.shared.arrived.lower();
            if let Some(event) = self.take() {
                return Ok(event);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
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
        let data = self.picture.as_deref()?;
        Some(Picture::bgrx(self.size, data, self.size.width as usize * 4))
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.progress.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size::new(16, 8);

    fn picture(value: u8) -> Vec<u8> {
        vec![value; SIZE.pixels() * 4]
    }

    fn shown(capture: &Submitted) -> u8 {
        capture.picture().expect("a picture").planes[0].data[0]
    }

    #[test]
    fn the_newest_picture_wins_and_buffers_go_round() {
        let (app, mut host) = channel(SIZE).unwrap();
        let zero = Some(Duration::ZERO);
        assert_eq!(host.next(zero).unwrap(), CaptureEvent::TimedOut);
        assert!(host.picture().is_none());
        assert_eq!(app.submit(picture(1)).unwrap(), picture(0), "a fresh one");
        assert_eq!(app.submit(picture(2)).unwrap(), picture(1), "it was late");
        assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
        assert_eq!(shown(&host), 2);
        app.submit(picture(3)).unwrap();
        assert_eq!(shown(&host), 2, "until the next is asked for");
        assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
        assert_eq!(shown(&host), 3);
        assert_eq!(app.submit(picture(4)).unwrap(), picture(2), "used again");
        assert!(app.submit(vec![0; 3]).is_none(), "not of this size");
    }

    #[test]
    fn waiting_ends_when_the_host_asks_for_the_next() {
        let (app, mut host) = channel(SIZE).unwrap();
        app.submit(picture(1)).unwrap();
        assert!(!app.wait(Duration::ZERO), "nobody has taken it");
        assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
        assert!(!app.wait(Duration::ZERO), "it is being encoded");
        let thread = std::thread::spawn(move || {
            let done = app.wait(Duration::from_secs(60));
            (done, app)
        });
        assert_eq!(
            host.next(Some(Duration::ZERO)).unwrap(),
            CaptureEvent::TimedOut
        );
        let (done, app) = thread.join().unwrap();
        assert!(done);
        host.waker().wake();
        assert_eq!(host.next(None).unwrap(), CaptureEvent::Woken);
        drop(app);
        assert!(matches!(host.next(None).unwrap(), CaptureEvent::Ended(_)));
    }

    #[test]
    fn a_host_that_leaves_lets_the_application_go() {
        let (app, host) = channel(SIZE).unwrap();
        app.submit(picture(1)).unwrap();
        drop(host);
        assert!(!app.wait(Duration::from_secs(60)));
        assert!(app.submit(picture(2)).is_none());
    }
}
