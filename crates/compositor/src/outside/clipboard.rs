//! The clipboard of the display, for the host's clipboard thread. This thread reads from and writes to applications,
//! which may be slow, dead or hostile; the compositor only passes descriptors on.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TrySendError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::capture::Waker;
use openuvr_media::clipboard::{Clipboard, ClipboardError, ClipboardEvent, ReadFailure};
use openuvr_proto::time::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Command, Commands};

/// Types of text, the best first. All are UTF-8 in practice.
pub(crate) const TEXT_TYPES: [&str; 5] = [
    "text/plain;charset=utf-8",
    "UTF8_STRING",
    "text/plain",
    "STRING",
    "TEXT",
];

/// How long an application may take to send or to receive text (guess).
const PATIENCE: Duration = Duration::from_secs(2);

/// The maximum number of waiting requests of applications for the offered text. Additional requests get an empty text.
const MAX_PASTES: usize = 16;

/// Descriptors that are passed between compositor and clipboard thread.
pub(crate) struct ClipboardBoard {
    state: Mutex<Exchanges>,
    /// Whether the host reads the text that applications copy.
    reads: AtomicBool,
    /// Woken when an application copies or pastes.
    changed: Waker,
}

#[derive(Default)]
struct Exchanges {
    /// The content that an application has copied: a descriptor from which to read the text, or the reason why it
    /// cannot be read.
    copied: Option<Result<OwnedFd, ReadFailure>>,
    pastes: VecDeque<(Arc<str>, OwnedFd)>,
}

impl ClipboardBoard {
    pub(crate) fn new(changed: Waker) -> ClipboardBoard {
        ClipboardBoard {
            state: Mutex::default(),
            reads: AtomicBool::new(false),
            changed,
        }
    }

    fn state(&self) -> MutexGuard<'_, Exchanges> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the host reads the text that applications copy.
    pub(crate) fn reads(&self) -> bool {
        self.reads.load(Ordering::Relaxed)
    }

    /// Stores the content that an application has copied. It replaces content that has not been read yet.
    pub(crate) fn copied(&self, source: Result<OwnedFd, ReadFailure>) {
        self.state().copied = Some(source);
        self.changed.wake();
    }

    /// Stores a request of an application for the offered text.
    pub(crate) fn paste(&self, text: Arc<str>, target: OwnedFd) {
        let mut state = self.state();
        if state.pastes.len() < MAX_PASTES {
            state.pastes.push_back((text, target));
        }
        self.changed.wake();
    }
}

/// The clipboard of a display; owned by one thread.
pub struct DisplayClipboard {
    board: Arc<ClipboardBoard>,
    commands: Commands,
    /// The maximum number of bytes to read.
    most: usize,
    waker: Waker,
}

impl DisplayClipboard {
    pub(crate) fn new(
        board: Arc<ClipboardBoard>,
        commands: Commands,
        (reads, most): (bool, usize),
        waker: Waker,
    ) -> DisplayClipboard {
        board.reads.store(reads, Ordering::Relaxed);
        DisplayClipboard {
            board,
            commands,
            most,
            waker,
        }
    }

    fn read(&self, source: OwnedFd) -> Result<ClipboardEvent, ReadFailure> {
        let until = clock::now() + PATIENCE;
        let mut text = Vec::new();
        let mut part = [0; 16 * 1024];
        loop {
            if !self.wait(source.as_fd(), PollFlags::IN, until) {
                return Err(ReadFailure::NoAnswer);
            }
            match rustix::io::read(&source, &mut part) {
                Ok(0) => break,
                Ok(count) => text.extend_from_slice(&part[..count]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Err(ReadFailure::NoAnswer),
            }
            if text.len() > self.most {
                return Err(ReadFailure::TooLong);
            }
        }
        let text = String::from_utf8(text).map_err(|_| ReadFailure::NotText)?;
        Ok(ClipboardEvent::Copied(text.into()))
    }

    /// Writes text to an application. If the application stops reading, it gets only a part of the text.
    fn write(&self, text: &str, target: OwnedFd) {
        let until = clock::now() + PATIENCE;
        // Writing to a full pipe would block this thread, so the descriptor must be non-blocking. If it cannot be
        // changed, nothing is written.
        if rustix::fs::fcntl_setfl(&target, rustix::fs::OFlags::NONBLOCK).is_err() {
            return;
        }
        let mut rest = text.as_bytes();
        while !rest.is_empty() && self.wait(target.as_fd(), PollFlags::OUT, until) {
            match rustix::io::write(&target, rest) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return,
            }
        }
    }

    /// Waits for a descriptor. Returns whether it was ready in time.
    fn wait(&self, fd: BorrowedFd<'_>, flags: PollFlags, until: Instant) -> bool {
        let left = until.since(clock::now());
        let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
        let left = Timespec::try_from(left)
            .ok()
            .filter(|_| left > Duration::ZERO);
        left.is_some_and(|left| matches!(poll(&mut fds, Some(&left)), Ok(1..) | Err(Errno::INTR)))
    }
}

impl Clipboard for DisplayClipboard {
    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn offer(&mut self, text: Arc<str>) -> Result<(), ClipboardError> {
        match self.commands.try_send(Command::Offer(text)) {
            Ok(()) => Ok(()),
            // A full queue is not an error, because an error would end clipboard sharing, and the display will accept
            // commands again.
            Err(TrySendError::Full(_)) => {
                tracing::warn!(
                    "text copied by the player can't be pasted: the Wayland display does not take commands fast \
                     enough; copy the text again"
                );
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => {
                Err(ClipboardError::new("the Wayland display has ended"))
            }
        }
    }

    fn next_event(&mut self) -> Result<ClipboardEvent, ClipboardError> {
        loop {
            if self.waker.lower() {
                return Ok(ClipboardEvent::Woken);
            }
            self.board.changed.lower();
            let (paste, copied) = {
                let mut state = self.board.state();
                (state.pastes.pop_front(), state.copied.take())
            };
            if copied.is_some() || paste.is_some() {
                // There may be more requests, which the next call handles.
                self.board.changed.wake();
            }
            if let Some((text, target)) = paste {
                self.write(&text, target);
            }
            if let Some(copied) = copied {
                let read = copied.and_then(|source| self.read(source));
                return Ok(read.unwrap_or_else(ClipboardEvent::ReadFailed));
            }
            let mut fds = [self.waker.fd(), self.board.changed.fd()]
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => {
                    let why = format!("can't wait for the clipboard: {e}");
                    return Err(ClipboardError::new(why));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use smithay::reexports::calloop::channel::sync_channel;

    use super::*;

    #[test]
    fn a_busy_display_does_not_end_the_sharing() {
        let (commands, inbox) = sync_channel(1);
        let waker = || Waker::new().expect("a descriptor");
        let board = Arc::new(ClipboardBoard::new(waker()));
        let mut clipboard = DisplayClipboard::new(board, commands, (true, 100), waker());
        assert!(clipboard.offer("first".into()).is_ok());
        assert!(
            clipboard.offer("second".into()).is_ok(),
            "the queue is full"
        );
        assert!(matches!(inbox.try_recv(), Ok(Command::Offer(text)) if *text == *"first"));
        assert!(clipboard.offer("third".into()).is_ok());
        drop(inbox);
        assert!(clipboard.offer("fourth".into()).is_err(), "it has ended");
    }
}
