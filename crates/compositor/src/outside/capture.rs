//! The pictures of the display, for the media thread.

use std::sync::Arc;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::capture::{Capture, CaptureError, CaptureEvent, Waker};
use openuvr_media::damage::Block;
use openuvr_media::picture::Picture;
use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Command, Commands};
use crate::pictures::{Exchange, Shot};

/// The pictures of a display; owned by the media thread.
pub struct DisplayCapture {
    exchange: Arc<Exchange>,
    commands: Commands,
    shot: Option<Shot>,
    watched: bool,
    waker: Waker,
}

impl DisplayCapture {
    pub(crate) fn new(exchange: Arc<Exchange>, commands: Commands, waker: Waker) -> DisplayCapture {
        DisplayCapture {
            exchange,
            commands,
            shot: None,
            watched: false,
            waker,
        }
    }

    /// Makes the compositor read changed settings. If the command queue is full, the compositor reads them when a later
    /// change sends this command again.
    fn settings_changed(&self) {
        let _ = self.commands.try_send(Command::Settings);
    }
}

impl Capture for DisplayCapture {
    fn size(&self) -> Size {
        match &self.shot {
            Some(shot) => shot.buffer.size,
            None => self.exchange.size(),
        }
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError> {
        let until = timeout.map(|timeout| clock::now() + timeout);
        loop {
            if self.waker.lower() {
                return Ok(CaptureEvent::Woken);
            }
            self.exchange.arrived.lower();
            if let Some(shot) = self.exchange.take() {
                self.shot = Some(shot);
                return Ok(CaptureEvent::Frame);
            }
            if let Some(why) = self.exchange.ended() {
                return Err(CaptureError(why));
            }
            let left = until.map(|until| until.since(clock::now()));
            if left == Some(Duration::ZERO) {
                return Ok(CaptureEvent::TimedOut);
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds = [self.waker.fd(), self.exchange.arrived.fd()]
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            match poll(&mut fds, left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(CaptureError(format!("can't wait for pictures: {e}"))),
            }
        }
    }

    fn picture(&self) -> Option<Picture<'_>> {
        let picture = &self.shot.as_ref()?.buffer;
        let stride = picture.size.width as usize * 4;
        Some(Picture::bgrx(picture.size, &picture.data, stride))
    }

    fn changed(&self) -> Option<Block> {
        self.shot.as_ref()?.changed.clone()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn limit_fps(&mut self, fps: f64) {
        self.exchange.set_fps(fps);
        self.settings_changed();
    }

    fn set_watched(&mut self, watched: bool) {
        if std::mem::replace(&mut self.watched, watched) != watched {
            self.exchange.set_watched(watched);
            self.settings_changed();
        }
    }
}
