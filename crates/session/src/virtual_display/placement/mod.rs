//! Placement of windows on a virtual display: the first main window fills the display, other windows are centred, and
//! the newest window that accepts keyboard input has the focus.
//!
//! The placement is not an interactive window manager: it draws nothing, and has no frames, no list of windows and no
//! shortcuts. A window manager of an application can replace the placement (`--replace`), which then stays inactive
//! until the display ends. After an error, windows stay where their applications have put them. See
//! `docs/adr/0019-placement.md` for the reasons.
//!
//! Specs: ICCCM 2.0, sections 2.8 (WM_Sn), 4.1 (WM_STATE, WM_TRANSIENT_FOR, WM_TAKE_FOCUS, synthetic
//! ConfigureNotify); Extended Window Manager Hints 1.5.

mod claim;
mod hints;
mod placer;
mod rectangle;

use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use openuvr_media::waker::Waker;
use x11rb::rust_connection::RustConnection;

use placer::WindowPlacer;

x11rb::atom_manager! {
    /// The atoms in use.
    Atoms: AtomsCookie {
        MANAGER,
        UTF8_STRING,
        WM_PROTOCOLS,
        WM_STATE,
        WM_TAKE_FOCUS,
        _NET_ACTIVE_WINDOW,
        _NET_FRAME_EXTENTS,
        _NET_SUPPORTED,
        _NET_SUPPORTING_WM_CHECK,
        _NET_WM_NAME,
        _NET_WM_STATE,
        _NET_WM_STATE_FULLSCREEN,
        _NET_WM_WINDOW_TYPE,
        _NET_WM_WINDOW_TYPE_COMBO,
        _NET_WM_WINDOW_TYPE_DESKTOP,
        _NET_WM_WINDOW_TYPE_DIALOG,
        _NET_WM_WINDOW_TYPE_DND,
        _NET_WM_WINDOW_TYPE_DOCK,
        _NET_WM_WINDOW_TYPE_DROPDOWN_MENU,
        _NET_WM_WINDOW_TYPE_MENU,
        _NET_WM_WINDOW_TYPE_NORMAL,
        _NET_WM_WINDOW_TYPE_NOTIFICATION,
        _NET_WM_WINDOW_TYPE_POPUP_MENU,
        _NET_WM_WINDOW_TYPE_SPLASH,
        _NET_WM_WINDOW_TYPE_TOOLBAR,
        _NET_WM_WINDOW_TYPE_TOOLTIP,
        _NET_WM_WINDOW_TYPE_UTILITY,
    }
}

/// The placement thread, which ends on drop. Drop it after the X server has ended, because the thread may be waiting
/// for the server.
pub(super) struct Placement {
    stop: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Placement {
    /// Starts the placement on the display of this connection and screen. From then on, no window is mapped before it
    /// has been placed.
    ///
    /// # Errors
    /// Returns an error if another client already places windows there, or if the server does not answer.
    pub(super) fn start((conn, screen): (RustConnection, usize)) -> Result<Placement> {
        let mut placer = WindowPlacer::open(conn, screen)?;
        let stop = Waker::new()?;
        let waker = stop.clone();
        let thread = std::thread::Builder::new().name("ouvr-placement".to_owned());
        let thread = thread.spawn(move || {
            // Most likely, the X server has ended, which is reported elsewhere, so this error is only logged.
            if let Err(why) = placer.serve(&waker) {
                tracing::debug!("window placement ended: {why}");
            }
        });
        Ok(Placement {
            stop,
            thread: Some(thread.context("can't start the placement thread")?),
        })
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        self.stop.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
