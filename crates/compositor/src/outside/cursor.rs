//! The pointer of the display, for the host's cursor thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::capture::cursor::{CursorEvent, CursorWatch};
use openuvr_media::capture::{CaptureError, Waker};
use openuvr_media::cursor::{Cursor, CursorShape};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The pointer's state in the compositor.
pub(crate) struct CursorBoard {
    state: Mutex<CursorNow>,
    /// Woken at each change of the pointer's state.
    changed: Waker,
}

/// The pointer's state.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct CursorNow {
    /// The pointer's position in the picture; `None` while the pointer is hidden or locked.
    pub(crate) at: Option<(u16, u16)>,
    pub(crate) shape: Arc<CursorShape>,
    /// Whether an application has locked the pointer in place.
    pub(crate) locked: bool,
}

impl CursorBoard {
    pub(crate) fn new(changed: Waker) -> CursorBoard {
        CursorBoard {
            state: Mutex::default(),
            changed,
        }
    }

    fn state(&self) -> MutexGuard<'_, CursorNow> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies `change` to the state, and wakes the [`DisplayCursor`] if the state has become different.
    pub(crate) fn change(&self, change: impl FnOnce(&mut CursorNow)) {
        let mut state = self.state();
        let before = state.clone();
        change(&mut state);
        if *state != before {
            self.changed.wake();
        }
    }
}

/// Watches the pointer of a display.
pub struct DisplayCursor {
    board: Arc<CursorBoard>,
    cursor: Cursor,
    locked: bool,
    waker: Waker,
}

impl DisplayCursor {
    pub(crate) fn new(board: Arc<CursorBoard>, waker: Waker) -> DisplayCursor {
        DisplayCursor {
            board,
            cursor: Cursor {
                at: None,
                shape: Arc::default(),
            },
            locked: false,
            waker,
        }
    }
}

impl CursorWatch for DisplayCursor {
    fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CursorEvent, CaptureError> {
        let until = timeout.map(|timeout| clock::now() + timeout);
        loop {
            if self.waker.lower() {
                return Ok(CursorEvent::Woken);
            }
            self.board.changed.lower();
            let now = self.board.state().clone();
            if now.shape != self.cursor.shape {
                self.cursor.shape = now.shape.clone();
                // Wakes the reader again, because its next call returns further changes.
                self.board.changed.wake();
                return Ok(CursorEvent::Shaped(now.shape));
            }
            if now.locked != self.locked {
                self.locked = now.locked;
                self.board.changed.wake();
                return Ok(CursorEvent::Locked(now.locked));
            }
            if now.at != self.cursor.at {
                self.cursor.at = now.at;
                return Ok(CursorEvent::Moved(now.at));
            }
            let left = until.map(|until| until.since(clock::now()));
            if left == Some(Duration::ZERO) {
                return Ok(CursorEvent::TimedOut);
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds = [self.waker.fd(), self.board.changed.fd()]
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            match poll(&mut fds, left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(CaptureError(format!("can't wait for the pointer: {e}"))),
            }
        }
    }
}
