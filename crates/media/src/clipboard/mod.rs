//! The clipboard: reads copied text, and offers text for pasting. There is one folder per window system.
//!
//! The clipboard has its own connection and thread, because clipboard owners may be slow, dead or hostile, and must not
//! block other components.

pub mod x11;

use std::sync::Arc;

pub use crate::waker::Waker;
use crate::waker::WakerError;

/// Why a display's clipboard could not be opened or has failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ClipboardError(pub String);

impl ClipboardError {
    /// The error, in one line.
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
    /// The content exceeds the limit.
    TooLong,
    /// The content is a picture, files, or invalid text.
    NotText,
    /// The content's owner does not respond.
    NoAnswer,
}

impl std::fmt::Display for ReadFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReadFailure::TooLong => "the content is too long",
            ReadFailure::NotText => "the content is not text",
            ReadFailure::NoAnswer => "the clipboard's owner does not respond",
        })
    }
}

/// Result of [`Clipboard::next_event`].
#[derive(Clone, PartialEq, Eq)]
pub enum ClipboardEvent {
    /// A program has copied this text. The text that this program itself offers is not reported.
    Copied(Arc<str>),
    /// A program has copied unreadable content.
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
    /// Text of other programs is never read. This program's text is still offered.
    Nothing,
    /// Text copied from now on is read.
    Changes,
    /// Existing text and text copied from now on are read.
    Everything,
}

/// The clipboard of a display. One thread owns it.
pub trait Clipboard: Send {
    /// A handle with which another thread makes [`Clipboard::next_event`] return
    /// [`ClipboardEvent::Woken`].
    fn waker(&self) -> Waker;

    /// Offers this text for pasting on the display, replacing earlier contents.
    ///
    /// # Errors
    /// [`ClipboardError`] if the connection is broken.
    fn offer(&mut self, text: Arc<str>) -> Result<(), ClipboardError>;

    /// Waits for the next event, and answers other programs in the meantime.
    ///
    /// # Errors
    /// [`ClipboardError`] if the connection is broken.
    fn next_event(&mut self) -> Result<ClipboardEvent, ClipboardError>;
}

/// The result of opening a clipboard.
pub type Opened = Result<Box<dyn Clipboard>, ClipboardError>;

/// Opens a display's clipboard. The arguments specify which text of other programs to read, and the maximum number of UTF-8
/// bytes to read.
pub type OpenClipboard = Arc<dyn Fn(WatchMode, usize) -> Opened + Send + Sync>;
