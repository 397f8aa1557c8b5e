//! A connection to an X display with the required extensions.

use std::os::fd::{AsFd, BorrowedFd};

use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::{Connection, RequestConnection};
use x11rb::protocol::xproto::{Screen, Visualid, Window};
use x11rb::rust_connection::RustConnection;

use crate::capture::CaptureError;
use crate::pixel_layout::PixelLayout;

/// A private X connection; its events have no other reader.
pub(crate) struct Display {
    pub(crate) conn: RustConnection,
    /// The name for messages: `X display :0`.
    pub(crate) name: String,
    screen: usize,
}

impl Display {
    /// Connects to `display` (`None`: the environment variable DISPLAY) and checks that the server has `extensions`.
    /// Server grabs by other clients do not block this connection.
    pub(crate) fn open(
        display: Option<&str>,
        extensions: &[&'static str],
    ) -> Result<Display, CaptureError> {
        let named = display.map_or_else(|| std::env::var("DISPLAY").ok(), |d| Some(d.to_owned()));
        let Some(named) = named else {
            return Err(CaptureError(
                "no X display: DISPLAY is not set; set it, for example to :0".to_owned(),
            ));
        };
        let name = format!("X display {named}");
        let (conn, screen) = crate::display::connect(&named).map_err(CaptureError)?;
        for extension in extensions {
            let there = conn
                .extension_information(extension)
                .map_err(|e| CaptureError(format!("{name}: {e}")))?;
            if there.is_none() {
                return Err(CaptureError(format!(
                    "{name}: the server lacks the {extension} extension; enable \
                     it or use another display"
                )));
            }
        }
        crate::display::ignore_grabs(&conn).map_err(|e| CaptureError(format!("{name}: {e}")))?;
        Ok(Display { conn, name, screen })
    }

    /// The screen selected by the display's name.
    pub(crate) fn screen(&self) -> &Screen {
        &self.conn.setup().roots[self.screen]
    }

    pub(crate) fn form(&self, visual: Visualid) -> Result<PixelLayout, CaptureError> {
        PixelLayout::of(self.conn.setup(), visual, &self.name).map_err(CaptureError)
    }

    pub(crate) fn root(&self) -> Window {
        self.screen().root
    }

    pub(crate) fn new_id(&self) -> Result<u32, CaptureError> {
        self.conn.generate_id().map_err(|e| self.broke(e))
    }

    /// The error for a broken connection.
    pub(crate) fn broke(&self, why: impl std::fmt::Display) -> CaptureError {
        CaptureError(format!(
            "{}: the connection failed: {why}; check that the server is running",
            self.name
        ))
    }

    /// Flushes queued requests.
    pub(crate) fn flush(&self) -> Result<(), CaptureError> {
        self.conn.flush().map_err(|e| self.broke(e))
    }

    /// Flushes queued requests. Then waits until the server has sent data, one of `others` is readable, or the time
    /// `until` is reached. The caller must have drained the events already read.
    pub(crate) fn wait(
        &self,
        others: [Option<BorrowedFd<'_>>; 2],
        until: Option<Instant>,
    ) -> Result<(), CaptureError> {
        self.flush()?;
        let span = until.map(|until| until.since(clock::now()));
        let span = span.and_then(|span| Timespec::try_from(span).ok());
        let x = self.conn.stream().as_fd();
        let [first, second] = others.map(|other| other.unwrap_or(x));
        let mut fds = [x, first, second].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, span.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(self.broke(format_args!("poll: {e}"))),
        }
    }
}
