//! The pointer of a session, if the compositor sends it separately from the picture.

use std::sync::Arc;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::capture::cursor::position::normalised;
use openuvr_media::capture::cursor::{CursorEvent, CursorWatch};
use openuvr_media::capture::{CaptureError, Waker};
use openuvr_media::cursor::Cursor;
use rustix::event::{PollFd, PollFlags};

use crate::stream::{Arrived, End};
use crate::wait::wait_until;

/// Watches the pointer of a session; owned by one thread. Whether an application has locked the pointer is not announced.
pub struct PortalCursor {
    arrived: Arc<Arrived>,
    waker: Waker,
    cursor: Cursor,
}

impl PortalCursor {
    pub(crate) fn new(arrived: Arc<Arrived>) -> Result<PortalCursor, CaptureError> {
        Ok(PortalCursor {
            arrived,
            waker: Waker::new()?,
            cursor: Cursor {
                at: None,
                shape: Arc::default(),
            },
        })
    }
}

impl CursorWatch for PortalCursor {
    fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CursorEvent, CaptureError> {
        let until = timeout.map(|span| clock::now() + span);
        loop {
            if self.waker.lower() {
                return Ok(CursorEvent::Woken);
            }
            self.arrived.pointers.lower();
            let (pointer, size) = self.arrived.pointer();
            if pointer.shape != self.cursor.shape {
                self.cursor.shape = pointer.shape;
                return Ok(CursorEvent::Shaped(Arc::clone(&self.cursor.shape)));
            }
            let place = pointer
                .position
                .filter(|_| !self.cursor.shape.is_invisible());
            let at = place.and_then(|place| normalised(place, (0, 0, size)));
            if at != self.cursor.at {
                self.cursor.at = at;
                return Ok(CursorEvent::Moved(at));
            }
            match self.arrived.ended() {
                Some(End::Failed(why)) => return Err(CaptureError(why)),
                Some(End::Regular(why)) => return Err(CaptureError(why.to_owned())),
                None => {}
            }
            if until.is_some_and(|until| until <= clock::now()) {
                return Ok(CursorEvent::TimedOut);
            }
            let mut fds = [
                PollFd::from_borrowed_fd(self.arrived.pointers.fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.waker.fd(), PollFlags::IN),
            ];
            wait_until(&mut fds, until)?;
        }
    }
}
