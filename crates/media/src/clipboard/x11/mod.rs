//! The clipboard of an X display: reads copied text, and offers text for pasting.
//!
//! This module uses only the selection CLIPBOARD, which users fill explicitly, and never PRIMARY, which contains any
//! selected text. `read` sends requests to other programs, and `offer` answers requests of other programs.
//!
//! Specs: ICCCM 2.0, sections 2.1 to 2.7 (selections, INCR); XFIXES 1.0 (`SelectSelectionInput`).

mod compound;
mod offer;
mod read;

use std::os::fd::AsFd as _;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::errors::ReplyError;
use x11rb::protocol::Event;
use x11rb::protocol::xfixes::{self, ConnectionExt as _, SelectionEventMask};
use x11rb::protocol::xproto::{
    ConnectionExt as _, CreateWindowAux, EventMask, Property, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;

use super::{Clipboard, ClipboardError, ClipboardEvent, ReadFailure, WatchMode};
use crate::waker::Waker;
use offer::Offers;
use openuvr_clock as clock;
use read::{ReadProgress, TextRequest};

x11rb::atom_manager! {
    /// The atoms in use, with this server's numbers.
    Atoms: AtomsCookie {
        ATOM_PAIR,
        CLIPBOARD,
        COMPOUND_TEXT,
        INCR,
        MULTIPLE,
        STRING,
        TARGETS,
        TEXT,
        TIMESTAMP,
        UTF8_STRING,
        UTF8_MIME: b"text/plain;charset=utf-8",
        // The spelling that Java uses.
        UTF8_MIME_UPPER: b"text/plain;charset=UTF-8",
        // Without a charset: UTF-8 or Latin-1.
        PLAIN_MIME: b"text/plain",
        OPENUVR_CLIPBOARD,
    }
}

/// The clipboard of a display. One thread owns it.
pub struct X11Clipboard {
    conn: RustConnection,
    /// The name for messages: `X display :0`.
    name: String,
    root: Window,
    /// The selection owner, a hidden window.
    window: Window,
    atoms: Atoms,
    waker: Waker,
    watch: WatchMode,
    /// Maximum number of UTF-8 bytes to read.
    most: usize,
    reading: Option<TextRequest>,
    offers: Offers,
}

impl X11Clipboard {
    /// Connects to `display`, such as `:0`. If `display` is empty, connects to the display in the environment variable
    /// DISPLAY. `watch` selects which text of other programs is read, up to `most` bytes of UTF-8.
    ///
    /// # Errors
    /// [`ClipboardError`] if the display can't be reached or lacks XFIXES.
    pub fn open(
        display: &str,
        watch: WatchMode,
        most: usize,
    ) -> Result<X11Clipboard, ClipboardError> {
        let named = match display {
            "" => crate::display::from_environment(),
            named => named.to_owned(),
        };
        let (conn, screen) = crate::display::connect(&named).map_err(ClipboardError)?;
        let root = conn.setup().roots[screen].root;
        let begin = || -> Result<(Window, Atoms), ReplyError> {
            let atoms = Atoms::new(&conn)?.reply()?;
            conn.extension_information(xfixes::X11_EXTENSION_NAME)?
                .ok_or(x11rb::errors::ConnectionError::UnsupportedExtension)?;
            conn.xfixes_query_version(5, 0)?.reply()?;
            let window = invisible(&conn, root)?;
            let all = SelectionEventMask::SET_SELECTION_OWNER
                | SelectionEventMask::SELECTION_WINDOW_DESTROY
                | SelectionEventMask::SELECTION_CLIENT_CLOSE;
            conn.xfixes_select_selection_input(window, atoms.CLIPBOARD, all)?
                .check()?;
            Ok((window, atoms))
        };
        let name = format!("X display {named}");
        let (window, atoms) =
            begin().map_err(|e| ClipboardError(format!("{name}: can't use the clipboard: {e}")))?;
        let mut clipboard = X11Clipboard {
            conn,
            name,
            root,
            window,
            atoms,
            waker: Waker::new()?,
            watch,
            most,
            reading: None,
            offers: Offers::default(),
        };
        if watch == WatchMode::Everything {
            let begun = clipboard.read_current();
            begun.map_err(|e| clipboard.broke(e))?;
        }
        Ok(clipboard)
    }

    /// The event for a finished read; `None` if the text is empty, or is the text that this program offers.
    fn ended(
        &mut self,
        outcome: Result<String, ReadFailure>,
    ) -> Result<Option<ClipboardEvent>, ClipboardError> {
        self.stop_reading().map_err(|e| self.broke(e))?;
        Ok(match outcome {
            Ok(text) if text.is_empty() || self.offers.is_latest(&text) => None,
            Ok(text) => {
                self.offers.forget();
                Some(ClipboardEvent::Copied(text.into()))
            }
            Err(why) => Some(ClipboardEvent::ReadFailed(why)),
        })
    }

    fn handle(&mut self, event: &Event) -> Result<ReadProgress, ReplyError> {
        let (conn, atoms) = (&self.conn, &self.atoms);
        match event {
            Event::XfixesSelectionNotify(e) if e.selection == atoms.CLIPBOARD => {
                self.stop_reading()?;
                if e.owner == self.window {
                    self.offers.set_owner_time(e.selection_timestamp);
                } else if e.owner != x11rb::NONE && self.watch != WatchMode::Nothing {
                    self.read(e.selection_timestamp)?;
                }
            }
            Event::SelectionNotify(e) => {
                if let Some(reading) = &mut self.reading
                    && reading.window == e.requestor
                {
                    return reading.answered(conn, atoms, e.property, self.most);
                }
            }
            Event::PropertyNotify(e) if e.state == Property::NEW_VALUE => {
                if let Some(reading) = &mut self.reading
                    && reading.window == e.window
                    && e.atom == atoms.OPENUVR_CLIPBOARD
                {
                    return reading.more(conn, atoms, self.most);
                }
            }
            Event::PropertyNotify(e) => self.offers.taken(conn, e.window, e.atom)?,
            Event::SelectionRequest(e) if e.selection == atoms.CLIPBOARD => {
                self.offers.answer(conn, atoms, e)?;
            }
            // An error arrives most likely because another program's window was destroyed. The transfer to that window
            // times out.
            _ => {}
        }
        Ok(ReadProgress::Pending)
    }

    fn read_current(&mut self) -> Result<(), ReplyError> {
        let owner = self.conn.get_selection_owner(self.atoms.CLIPBOARD)?;
        if owner.reply()?.owner != x11rb::NONE {
            self.read(x11rb::CURRENT_TIME)?;
        }
        Ok(())
    }

    fn read(&mut self, copied: u32) -> Result<(), ReplyError> {
        let window = invisible(&self.conn, self.root)?;
        self.reading = Some(TextRequest::start(&self.conn, &self.atoms, window, copied)?);
        Ok(())
    }

    /// Stops the current read by destroying its window. Late replies of the owner are then dropped.
    fn stop_reading(&mut self) -> Result<(), ReplyError> {
        if let Some(reading) = self.reading.take() {
            self.conn.destroy_window(reading.window)?;
        }
        Ok(())
    }

    /// Waits for data from the server, the waker, or a timeout.
    fn wait(&self) -> Result<(), ClipboardError> {
        let reading = self.reading.as_ref().map(|reading| reading.until);
        let until = reading.into_iter().chain(self.offers.next_end()).min();
        let span = until.map(|until| until.since(clock::now()));
        let span = span.and_then(|span| Timespec::try_from(span).ok());
        let mut fds = [
            PollFd::from_borrowed_fd(self.conn.stream().as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.waker.fd(), PollFlags::IN),
        ];
        match poll(&mut fds, span.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(self.broke(format_args!("poll: {e}"))),
        }
    }

    fn broke(&self, why: impl std::fmt::Display) -> ClipboardError {
        ClipboardError(format!(
            "{}: the connection failed: {why}; check that the server is running",
            self.name
        ))
    }
}

impl Clipboard for X11Clipboard {
    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn offer(&mut self, text: Arc<str>) -> Result<(), ClipboardError> {
        self.offers.set(text);
        // `CURRENT_TIME` is correct here, because the newest copy wins, regardless of the program that made it. The
        // notification contains the actual time.
        let owns = |conn: &RustConnection| {
            conn.set_selection_owner(self.window, self.atoms.CLIPBOARD, x11rb::CURRENT_TIME)?;
            conn.flush()
        };
        owns(&self.conn).map_err(|e| self.broke(e))
    }

    fn next_event(&mut self) -> Result<ClipboardEvent, ClipboardError> {
        loop {
            if self.waker.lower() {
                return Ok(ClipboardEvent::Woken);
            }
            self.conn.flush().map_err(|e| self.broke(e))?;
            let event = self.conn.poll_for_event().map_err(|e| self.broke(e))?;
            let now = clock::now();
            let read = match event {
                Some(event) => self.handle(&event).map_err(|e| self.broke(e))?,
                None if self.reading.as_ref().is_some_and(|r| r.until <= now) => {
                    ReadProgress::Done(Err(ReadFailure::NoAnswer))
                }
                None => {
                    self.offers.expire(now);
                    self.wait()?;
                    continue;
                }
            };
            if let ReadProgress::Done(outcome) = read
                && let Some(event) = self.ended(outcome)?
            {
                return Ok(event);
            }
        }
    }
}

/// A hidden window whose property changes are reported.
fn invisible(conn: &RustConnection, root: Window) -> Result<Window, ReplyError> {
    let window = conn.generate_id().map_err(|_| {
        ReplyError::ConnectionError(x11rb::errors::ConnectionError::InsufficientMemory)
    })?;
    let aux = CreateWindowAux::new().event_mask(EventMask::PROPERTY_CHANGE);
    let (class, place) = (WindowClass::INPUT_ONLY, (-1, -1));
    conn.create_window(0, window, root, place.0, place.1, 1, 1, 0, class, 0, &aux)?;
    Ok(window)
}
