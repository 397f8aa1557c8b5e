//! X11 applications on the display. A rootless Xwayland is a client of the display. Its window manager runs in a
//! separate thread.
//!
//! The server is started when the first X11 application connects ([`X11Sockets`]). Only programs with the server's
//! cookie may connect. The window manager only speaks X11; the compositor decides the positions of windows ([`wire`]).
//!
//! Limits: no primary selection, no drag and drop between X11 and Wayland, no icons.

mod server;
mod sockets;
mod sys;
pub(crate) mod wire;
mod xwm;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use openuvr_media::capture::Waker;
use openuvr_xserver::Authority;
use smithay::reexports::calloop::channel::SyncSender;

use server::Xwayland;
use sockets::X11Sockets;
use wire::{Board, Report};
use xwm::WindowManager;

/// The maximum number of starts of the server (guess). A server that keeps crashing or can't be started is not started
/// again.
const MAX_STARTS: u32 = 5;

/// The X11 display, whether its server is running or not.
pub(crate) struct X11Display {
    sockets: X11Sockets,
    authority: Authority,
    reports: SyncSender<Report>,
    starts: u32,
    /// The process id of the server; 0 if there is none.
    process: Arc<AtomicU32>,
}

/// A server that has just been started.
pub(crate) struct StartedServer {
    /// The server's connection as a client of the Wayland display.
    pub(crate) wayland: UnixStream,
    /// Readable when the server is ready or has ended.
    pub(crate) ready: OwnedFd,
    pub(crate) running: RunningServer,
}

/// A running server. On drop it is killed, and its window manager ends.
pub(crate) struct RunningServer {
    /// The server. It is killed first, so that the window manager does not wait for it.
    server: Option<Xwayland>,
    process: Arc<AtomicU32>,
    window_manager: Option<WindowManager>,
    /// The window manager's connection; `None` after the window manager has been started.
    connection: Option<UnixStream>,
    pub(crate) board: Arc<Board>,
}

impl X11Display {
    /// Takes a display number, and writes the cookie to `file`.
    ///
    /// # Errors
    /// Returns a one-line error if Xwayland is not installed, or if the sockets or the file cannot be created.
    pub(crate) fn open(file: PathBuf, reports: SyncSender<Report>) -> Result<X11Display, String> {
        if !server::is_installed() {
            return Err("Xwayland is not installed: apt install xwayland".to_owned());
        }
        let sockets =
            X11Sockets::take().map_err(|why| format!("can't create X11 sockets: {why}"))?;
        let authority = Authority::make(file).map_err(|why| why.to_string())?;
        Ok(X11Display {
            sockets,
            authority,
            reports,
            starts: 0,
            process: Arc::default(),
        })
    }

    /// The value of `DISPLAY`.
    pub(crate) fn name(&self) -> String {
        self.sockets.name()
    }

    /// The value of `XAUTHORITY`.
    pub(crate) fn authority(&self) -> &Path {
        self.authority.file()
    }

    /// The process id of the server; 0 if there is none.
    pub(crate) fn process(&self) -> Arc<AtomicU32> {
        self.process.clone()
    }

    /// Duplicates of the listening sockets. The compositor polls them to wait for applications.
    ///
    /// # Errors
    /// Returns an error if no descriptor is left.
    pub(crate) fn listening(&self) -> std::io::Result<Vec<OwnedFd>> {
        let sockets = self.sockets.listening();
        sockets
            .iter()
            .map(std::os::fd::BorrowedFd::try_clone_to_owned)
            .collect()
    }

    /// Closes the connections of all applications that wait for the server.
    pub(crate) fn refuse(&self) {
        self.sockets.refuse();
    }

    /// Starts the server.
    ///
    /// # Errors
    /// Returns a one-line error.
    pub(crate) fn start(&mut self) -> Result<StartedServer, String> {
        if self.starts >= MAX_STARTS {
            return Err(format!(
                "Xwayland has ended or failed to start {MAX_STARTS} times; restart the host"
            ));
        }
        self.starts += 1;
        let failed = |why: &dyn std::fmt::Display| {
            format!("can't start Xwayland: {why}; start the application again")
        };
        let changed = Waker::new().map_err(|why| failed(&why))?;
        let started = Xwayland::start(&self.sockets, &self.authority);
        let (server, connections) = started.map_err(|why| failed(&why))?;
        self.process.store(server.id(), Ordering::Relaxed);
        Ok(StartedServer {
            wayland: connections.wayland,
            ready: connections.ready,
            running: RunningServer {
                server: Some(server),
                process: self.process.clone(),
                window_manager: None,
                connection: Some(connections.window_manager),
                board: Arc::new(Board::new(changed)),
            },
        })
    }

    /// Starts the window manager of a server that is ready.
    ///
    /// # Errors
    /// Returns a one-line error.
    pub(crate) fn manage(&self, running: &mut RunningServer) -> Result<(), String> {
        let Some(connection) = running.connection.take() else {
            return Ok(());
        };
        let cookie = self.authority.cookie().to_vec();
        let (board, reports) = (running.board.clone(), self.reports.clone());
        let started = WindowManager::start(connection, cookie, board, reports);
        running.window_manager = Some(started.map_err(|why| why.to_string())?);
        Ok(())
    }
}

impl RunningServer {
    /// Why the server has ended, if this is known.
    pub(crate) fn status(&mut self) -> Option<String> {
        let status = self.server.as_mut()?.status()?;
        Some(status.to_string())
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.board.request(|requests| requests.stop = true);
        self.process.store(0, Ordering::Relaxed);
        drop(self.server.take());
        drop(self.window_manager.take());
    }
}
