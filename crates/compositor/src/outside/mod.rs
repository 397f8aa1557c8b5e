//! The parts of the display for the threads of a host: pictures, pointer, input and clipboard, behind the traits of
//! `openuvr_media`. None of them waits for the compositor, and the compositor does not wait for them.

mod capture;
mod clipboard;
mod cursor;
mod input;
mod size;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use openuvr_media::capture::Waker;
use openuvr_media::waker::WakerError;
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::units::Size;

pub use capture::DisplayCapture;
pub use clipboard::DisplayClipboard;
pub(crate) use clipboard::{ClipboardBoard, TEXT_TYPES};
pub(crate) use cursor::CursorBoard;
pub use cursor::DisplayCursor;
pub use input::DisplayInput;
pub use size::DisplayResizer;

use crate::pictures::Exchange;

/// The maximum number of commands that wait for the compositor (guess: several times the events of a fast mouse in a
/// tenth of a second).
pub(crate) const COMMANDS: usize = 1024;

/// A command to the compositor's thread.
pub(crate) enum Command {
    /// The player's input. Until `_waiting` is dropped, the event counts as waiting.
    Input {
        event: InputEvent,
        _waiting: Arc<()>,
    },
    /// Release all keys and buttons.
    ReleaseAll,
    /// Whether held keys repeat.
    Repeat(bool),
    /// Text that can be pasted.
    Offer(Arc<str>),
    /// Run this function in the compositor's thread.
    Run(Box<dyn FnOnce() + Send>),
    /// Read the settings of [`Exchange`].
    Settings,
    /// Accept this client of a conformance suite, and give it this number.
    #[cfg(feature = "conformance")]
    Accept(std::os::unix::net::UnixStream, i32),
    /// Move a window, and confirm the move. `client` is the number of the client, and `surface` identifies the window's
    /// surface.
    #[cfg(feature = "conformance")]
    MoveWindow {
        client: i32,
        surface: u32,
        at: (i32, i32),
        done: std::sync::mpsc::SyncSender<()>,
    },
    /// End the thread.
    Stop,
}

/// Sends commands to the compositor's thread.
pub(crate) type Commands = smithay::reexports::calloop::channel::SyncSender<Command>;

/// The state that the compositor's thread shares with the parts of the display.
#[derive(Clone)]
pub(crate) struct Endpoints {
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) cursor: Arc<CursorBoard>,
    pub(crate) clipboard: Arc<ClipboardBoard>,
    windows: Arc<AtomicUsize>,
}

impl Endpoints {
    pub(crate) fn new(size: Size) -> Result<Endpoints, WakerError> {
        Ok(Endpoints {
            exchange: Arc::new(Exchange::new(size, Waker::new()?)),
            cursor: Arc::new(CursorBoard::new(Waker::new()?)),
            clipboard: Arc::new(ClipboardBoard::new(Waker::new()?)),
            windows: Arc::default(),
        })
    }

    /// Stores the number of visible windows.
    pub(crate) fn set_windows(&self, count: usize) {
        self.windows.store(count, Ordering::Relaxed);
    }

    /// The number of visible windows.
    pub(crate) fn windows(&self) -> Arc<AtomicUsize> {
        self.windows.clone()
    }
}
