//! The window manager of the X server: a thread that speaks X11. It maps windows at the positions that the compositor
//! assigns, passes on the requests of windows, sets the keyboard focus, and transfers copied data between X11 and
//! Wayland.
//!
//! The thread may wait for the server for any length of time. The compositor waits neither for the thread nor for the
//! server.
//!
//! Specs: ICCCM 2.0, sections 2 (selections) and 4 (windows); Extended Window Manager Hints 1.5; `WL_SURFACE_ID` and
//! `WL_SURFACE_SERIAL` as Xwayland's `hw/xwayland/xwayland-window.c` sends them.

mod hints;
mod own_window;
mod selection;
mod windows;

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;

use smithay::reexports::calloop::channel::SyncSender;

use super::wire::{Board, Report};
use windows::Windows;

x11rb::atom_manager! {
    /// The atoms in use.
    Atoms: AtomsCookie {
        CLIPBOARD,
        INCR,
        TARGETS,
        TEXT,
        TIMESTAMP,
        UTF8_STRING,
        WL_SURFACE_ID,
        WL_SURFACE_SERIAL,
        WM_PROTOCOLS,
        WM_STATE,
        WM_TAKE_FOCUS,
        WM_S0,
        _NET_ACTIVE_WINDOW,
        _NET_FRAME_EXTENTS,
        _NET_REQUEST_FRAME_EXTENTS,
        _NET_SUPPORTED,
        _NET_SUPPORTING_WM_CHECK,
        _NET_WM_CM_S0,
        _NET_WM_MOVERESIZE,
        _NET_WM_NAME,
        _NET_WM_STATE,
        _NET_WM_STATE_FULLSCREEN,
        _NET_WM_STATE_MAXIMIZED_HORZ,
        _NET_WM_STATE_MAXIMIZED_VERT,
        _NET_WM_WINDOW_TYPE,
        _NET_WM_WINDOW_TYPE_DIALOG,
        _NET_WM_WINDOW_TYPE_NORMAL,
        _NET_WM_WINDOW_TYPE_SPLASH,
        _NET_WM_WINDOW_TYPE_TOOLBAR,
        _NET_WM_WINDOW_TYPE_UTILITY,
        // A private property, which receives copied data.
        _OPENUVR_COPIED,
    }
}

/// The window manager's thread. On drop it ends. The server must be killed first, because the thread may be waiting for
/// it.
pub(crate) struct WindowManager {
    board: Arc<Board>,
    thread: Option<JoinHandle<()>>,
}

impl WindowManager {
    /// Starts the thread on a connection to a server that is ready. If the thread fails, it sends a `Report::Ended`.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(crate) fn start(
        connection: UnixStream,
        cookie: Vec<u8>,
        board: Arc<Board>,
        reports: SyncSender<Report>,
    ) -> io::Result<WindowManager> {
        let thread = std::thread::Builder::new().name("ouvr-x11".to_owned());
        let its = board.clone();
        let thread = thread.spawn(move || {
            let outbox = Outbox {
                reports,
                board: its.clone(),
            };
            let served = Windows::open(connection, cookie, outbox.clone())
                .and_then(|mut windows| windows.serve(&its));
            let why = match served {
                Ok(()) => return,
                Err(why) => why.to_string(),
            };
            // An error is ignored: sending fails only if the compositor has ended.
            let _ = outbox.send(Report::Ended(why));
        })?;
        Ok(WindowManager {
            board,
            thread: Some(thread),
        })
    }
}

impl Drop for WindowManager {
    fn drop(&mut self) {
        self.board.request(|requests| requests.stop = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends reports to the compositor.
#[derive(Clone)]
struct Outbox {
    reports: SyncSender<Report>,
    board: Arc<Board>,
}

impl Outbox {
    /// Sends a report. Waits while the queue to the compositor is full, unless the compositor requests the end of this
    /// thread.
    fn send(&self, report: Report) -> Result<(), XwmError> {
        use std::sync::mpsc::TrySendError;

        let mut report = report;
        loop {
            match self.reports.try_send(report) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(_)) => return Err(XwmError::Stopped),
                Err(TrySendError::Full(back)) => report = back,
            }
            if self.board.stops() {
                return Err(XwmError::Stopped);
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

/// Why the window manager has ended.
#[derive(Debug, thiserror::Error)]
enum XwmError {
    #[error("the compositor has ended")]
    Stopped,
    #[error("no connection to the X server: {0}")]
    Connect(#[from] x11rb::errors::ConnectError),
    #[error("the connection to the X server broke: {0}")]
    Connection(#[from] x11rb::errors::ConnectionError),
    #[error("the X server refused a request: {0}")]
    Reply(#[from] x11rb::errors::ReplyError),
    #[error("no X11 identifier: {0}")]
    Identifier(#[from] x11rb::errors::ReplyOrIdError),
    #[error("{0}")]
    System(#[from] io::Error),
}
