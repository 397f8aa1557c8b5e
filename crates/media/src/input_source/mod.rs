//! Input source: what the person does at the client.

use std::time::Duration;

use openuvr_proto::input::event::InputEvent;

/// Reads a person's input; owned by the client's input thread.
pub trait InputSource: Send {
    /// Waits for what happens next, at most `timeout` (`None`: without end).
    ///
    /// # Errors
    /// [`SourceError`] if the display is gone.
    fn next(&mut self, timeout: Option<Duration>) -> Result<SourceEvent, SourceError>;
}

/// What an input source saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceEvent {
    /// The person did this.
    Input(InputEvent),
    /// The person closed the window.
    Closed,
    /// The time is over.
    TimedOut,
}

/// Why no input can be read any more.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);
