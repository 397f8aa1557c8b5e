//! The clipboard: reads copied text, and offers text for pasting; one folder per window system.
//!
//! It has its own connection and thread: clipboard owners may be slow, dead or hostile, and must
//! not block other components.

pub mod x11;

use std::sync::Arc;

pub use crate::waker::Waker;
use crate::waker::WakerError;

/// The clipboard of a display is unusable, or has failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ClipboardError(pub String);

impl ClipboardError {
    /// An error of one line.
    pub fn new(why: impl Into<String>) -> ClipboardError {
        ClipboardError(why.into())
    }
}

impl From<WakerError> for ClipboardError {
    fn from(why: WakerError) -> ClipboardError {
        ClipboardError(why.to_string())
    }
}

/// Why copied content was not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadFailure {
    /// It exceeds the limit.
    TooLong,
    /// It is a picture, files, or invalid text.
    NotText,
    /// Its owner does not respond.
    NoAnswer,
}

impl std::fmt::Display for ReadFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReadFailure::TooLong => "it is too long",
            ReadFailure::NotText => "it is not text",
            ReadFailure::NoAnswer => "the clipboard's owner does not respond",
        })
    }
}

/// Result of [`Clipboard::next_event`].
#[derive(Clone, PartialEq, Eq)]
pub enum ClipboardEvent {
    /// A program copied this text, which is not the last text of [`Clipboard::offer`].
    Copied(Arc<str>),
    /// A program copied unreadable content.
    ReadFailed(ReadFailure),
    /// A [`Waker`] was raised.
    Woken,
}

impl std::fmt::Debug for ClipboardEvent {
    /// Copied text is never logged.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClipboardEvent::Copied(text) => write!(f, "Copied({} bytes)", text.len()),
            ClipboardEvent::ReadFailed(why) => write!(f, "ReadFailed({why:?})"),
            ClipboardEvent::Woken => f.write_str("Woken"),
        }
    }
}

/// Whether text copied by other programs is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchMode {
    /// Never: text is only offered.
    Nothing,
    /// Text copied from now on.
    Changes,
    /// The same, and existing text.
    Everything,
}

/// The clipboard of a display; owned by one thread.
pub trait Clipboard: Send {
    /// A handle with which another thread makes [`Clipboard::next_event`] return
    /// [`ClipboardEvent::Woken`].
    fn waker(&self) -> Waker;

    /// Offers this text for pasting on the display, replacing earlier contents.
    ///
    /// # Errors
    /// [`ClipboardError`] if the connection broke.
    fn offer(&mut self, text: Arc<str>) -> Result<(), ClipboardError>;

    /// Waits for the next event, and answers other programs meanwhile.
    ///
    /// # Errors
    /// [`ClipboardError`] if the connection broke.
    fn next_event(&mut self) -> Result<ClipboardEvent, ClipboardError>;
}

/// The result of opening a clipboard.
pub type Opened = Result<Box<dyn Clipboard>, ClipboardError>;

/// Opens a display's clipboard. The arguments are which text of other programs to read, and the maximum of UTF-8 bytes
/// to read.
pub type OpenClipboard = Arc<dyn Fn(WatchMode, usize) -> Opened + Send + Sync>;
