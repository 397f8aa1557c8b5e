//! Where windows lie on a virtual display: the only main window has all of it, dialogs lie centred over it, and the
//! newest of them has the keyboard.
//!
//! It is no window manager for people: it draws nothing, and has no frames, no list of windows and no keys. One that
//! an application brings takes its place if it asks for it (`--replace`); then this one is gone until the display
//! ends. If this one breaks, windows lie where their applications put them. `docs/adr/0019-placement.md` says why it
//! is.
//!
//! Specs: ICCCM 2.0, sections 2.8 (WM_Sn), 4.1 (WM_STATE, WM_TRANSIENT_FOR, WM_TAKE_FOCUS, synthetic
//! ConfigureNotify); Extended Window Manager Hints 1.5.

mod claim;
mod desk;
mod look;
mod rectangle;

use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use openuvr_media::waker::Waker;
use x11rb::rust_connection::RustConnection;

use desk::Desk;

x11rb::atom_manager! {
    /// The names that are used here, as this server numbers them.
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

/// The thread that places windows; ends when this is dropped. Drop it when its server has ended, for which it may be
/// waiting.
pub(super) struct Placement {
    stop: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Placement {
    /// Begins on the display of this connection and screen: from now on no window is shown there before it has its
    /// place.
    ///
    /// # Errors
    /// Somebody places windows there already, or the server does not answer.
    pub(super) fn begin((conn, screen): (RustConnection, usize)) -> Result<Placement> {
        let mut desk = Desk::open(conn, screen)?;
        let stop = Waker::new()?;
        let woken = stop.clone();
        let thread = std::thread::Builder::new().name("ouvr-placement".to_owned());
        let thread = thread.spawn(move || {
            // Most likely its server has ended, which others tell of.
            if let Err(why) = desk.serve(&woken) {
                tracing::debug!("windows lie where applications put them: {why}");
            }
        });
        Ok(Placement {
            stop,
            thread: Some(thread.context("no thread can be started that places windows")?),
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
