//! The clipboard of a Wayland display: reads copied text, and offers text for pasting.
//!
//! This module uses the protocols for clipboard managers over its own connection. These protocols need neither a window
//! nor the focus. The text of other programs passes through pipes, and each program may be slow or hostile. Only the
//! clipboard, which users fill explicitly, is used, never the primary selection.
//!
//! Specs: `ext-data-control-v1`, `wlr-data-control-unstable-v1` (version 1).

mod control;
mod transfer;

use std::sync::Arc;

use openuvr_clock as clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wayland_client::backend::WaylandError;
use wayland_client::{Connection, EventQueue};

use crate::display;
use control::{Control, State};
use openuvr_media::clipboard::{Clipboard, ClipboardError, ClipboardEvent, ReadFailure, WatchMode};
use openuvr_media::waker::Waker;
use transfer::{Incoming, Outgoing, ReadStep};

/// The clipboard of a display; owned by one thread.
pub struct WaylandClipboard {
    conn: Connection,
    /// The name for messages, such as `Wayland display wayland-0`.
    name: String,
    queue: EventQueue<State>,
    state: State,
    control: Control,
    waker: Waker,
    watch: WatchMode,
    /// Maximum number of bytes of UTF-8 to read.
    most: usize,
    reading: Option<Incoming>,
    outgoing: Outgoing,
    /// Whether the first report of the selection has been handled. That report describes the state at the start.
    started: bool,
}

/// The types of text, best first. A type without a charset is read as UTF-8.
const TEXT: [&str; 5] = [
    "text/plain;charset=utf-8",
    "UTF8_STRING",
    "text/plain",
    "TEXT",
    "STRING",
];

impl WaylandClipboard {
    /// Connects to `display`. `None` selects the display in the environment variable `WAYLAND_DISPLAY`. Reads the text
    /// of other programs as `watch` specifies, up to `most` bytes of UTF-8.
    ///
    /// # Errors
    /// [`ClipboardError`] if the display cannot be reached, or if its compositor has no protocol for clipboard
    /// managers.
    pub fn open(
        display: Option<&str>,
        watch: WatchMode,
        most: usize,
    ) -> Result<WaylandClipboard, ClipboardError> {
        let conn = display::connect(display).map_err(ClipboardError)?;
        let name = format!("Wayland display {}", display::name_or_default(display));
        let broke = |cause: &dyn std::fmt::Display| {
            ClipboardError(format!("{name}: can't use the clipboard: {cause}"))
        };
        let (control, queue) = Control::bind(&conn).map_err(|cause| broke(&cause))?;
        conn.flush().map_err(|cause| broke(&cause))?;
        Ok(WaylandClipboard {
            conn,
            name,
            queue,
            state: State::default(),
            control,
            waker: Waker::new()?,
            watch,
            most,
            reading: None,
            outgoing: Outgoing::default(),
            started: false,
        })
    }

    fn broke(&self, cause: &dyn std::fmt::Display) -> ClipboardError {
        let cause = cause.to_string().replace('\n', " ");
        ClipboardError(format!("{}: the clipboard failed: {cause}", self.name))
    }

    /// Sends the requests, and returns the events to wait for. If the compositor does not read at present, the next wait
    /// sends the remaining requests.
    fn flush(&self) -> Result<PollFlags, ClipboardError> {
        display::flush(&self.conn).map_err(|cause| self.broke(&cause))
    }

    /// Reacts to the compositor's events.
    fn handle(&mut self) -> Option<ClipboardEvent> {
        for (kind, file) in self.state.wanted.drain(..) {
            if let Some(text) = self.state.offered.as_ref().filter(|_| is_text(&kind)) {
                self.outgoing.add(file, Arc::clone(text));
            }
        }
        let offer = self.state.selected.take()?;
        let first = !std::mem::replace(&mut self.started, true);
        self.reading = None;
        let watched = match self.watch {
            WatchMode::Nothing => false,
            WatchMode::Changes => !first,
            WatchMode::Everything => true,
        };
        let offer = offer.filter(|offer| watched && !offer.is_own())?;
        let Some(kind) = TEXT.into_iter().find(|kind| offer.has(kind)) else {
            return Some(ClipboardEvent::ReadFailed(ReadFailure::NotText));
        };
        match Incoming::start(|file| offer.receive(kind, file)) {
            Ok(incoming) => self.reading = Some(incoming),
            Err(_) => return Some(ClipboardEvent::ReadFailed(ReadFailure::NoAnswer)),
        }
        None
    }

    /// Continues reading. Returns an event once reading has ended.
    fn read(&mut self) -> Option<ClipboardEvent> {
        let step = self.reading.as_mut()?.read(self.most);
        let event = match step {
            ReadStep::Waiting => return None,
            ReadStep::Complete(text) => ClipboardEvent::Copied(text),
            ReadStep::Failed(why) => ClipboardEvent::ReadFailed(why),
        };
        self.reading = None;
        Some(event)
    }

    /// Waits for the compositor, for a pipe, for the waker, or for the deadline of a transfer. Returns whether the
    /// waker was raised.
    fn wait(&mut self) -> Result<bool, ClipboardError> {
        let events = self.flush()?;
        let Some(guard) = self.queue.prepare_read() else {
            return Ok(false);
        };
        let deadlines = [
            self.reading.as_ref().map(Incoming::deadline),
            self.outgoing.deadline(),
        ];
        let deadline = deadlines.into_iter().flatten().min();
        let left = deadline.map(|at| at.since(clock::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = vec![
            PollFd::from_borrowed_fd(guard.connection_fd(), events),
            PollFd::from_borrowed_fd(self.waker.fd(), PollFlags::IN),
        ];
        fds.extend((self.reading.iter()).map(|reading| PollFd::new(reading.file(), PollFlags::IN)));
        fds.extend(
            self.outgoing
                .files()
                .map(|file| PollFd::new(file, PollFlags::OUT)),
        );
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(cause) => return Err(self.broke(&cause)),
        }
        let readable = !fds[0].revents().is_empty();
        let woken = !fds[1].revents().is_empty();
        drop(fds);
        if readable {
            match guard.read() {
                Ok(_) => {}
                Err(WaylandError::Io(cause)) if cause.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(cause) => return Err(self.broke(&cause)),
            }
        }
        Ok(woken && self.waker.lower())
    }
}

impl Clipboard for WaylandClipboard {
    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn offer(&mut self, text: Arc<str>) -> Result<(), ClipboardError> {
        self.state.offered = Some(text);
        self.control.offer(&self.queue.handle(), &TEXT);
        self.flush().map(drop)
    }

    fn next_event(&mut self) -> Result<ClipboardEvent, ClipboardError> {
        loop {
            let handled = self.queue.dispatch_pending(&mut self.state);
            handled.map_err(|cause| self.broke(&cause))?;
            if self.state.finished {
                return Err(self.broke(&"the compositor has withdrawn access to the clipboard"));
            }
            if let Some(event) = self.handle().or_else(|| self.read()) {
                return Ok(event);
            }
            self.outgoing.write();
            if self.wait()? {
                return Ok(ClipboardEvent::Woken);
            }
        }
    }
}

fn is_text(kind: &str) -> bool {
    TEXT.contains(&kind)
}
