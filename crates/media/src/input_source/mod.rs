//! Input source: the user's input at the client.

mod already_held;
pub mod evdev;
pub mod keys;
pub mod null;
pub mod pads;
pub mod script;
pub mod shortcuts;
pub mod x11;

use std::time::Duration;

use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;

pub use shortcuts::{SHORTCUTS, Shortcut};

/// Reads the user's input. The client's input thread owns it.
pub trait InputSource: Send {
    /// Waits for the next event, at most `timeout` (`None`: no limit).
    ///
    /// # Errors
    /// [`SourceError`] if input can't be read, for example because the display is gone.
    fn next(&mut self, timeout: Option<Duration>) -> Result<SourceEvent, SourceError>;

    /// Tells the source how the host's application reads keys. The source sends keys in the mode `keys`, unless the
    /// user has chosen a mode. While the pointer is grabbed, a source may send keys by position instead of by
    /// character.
    fn follow(&mut self, keys: Keys) {
        let _ = keys;
    }
}

/// An event of an input source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceEvent {
    /// Input of the user.
    Input(InputEvent),
    /// Input of the user, with the kernel's timestamp on the monotonic clock.
    Sampled(InputEvent, Instant),
    /// Shows or hides the statistics overlay.
    ToggleOverlay,
    /// Selects the next eye view of a stereo picture, in the order of
    /// [`EyeView::ALL`](crate::reproject::EyeView::ALL).
    NextEyes,
    /// From now on, the head's current direction counts as ahead.
    Recentre,
    /// Whether the window's pointer is grabbed.
    Grabbed(bool),
    /// Changes the sound output.
    Sound(SoundCommand),
    /// The key mode chosen by the user.
    Keys(Keys),
    /// Whether the window has the focus, sent at each change. Until the first change, the window counts as focused. A
    /// loss of focus is reported after an [`InputEvent::ReleaseAll`]. Input from outside of the window (game pads) goes
    /// to the host only while the window has the focus.
    Focused(bool),
    /// The window's size in pixels; also sent at the start.
    Resized(Size),
    /// The user has closed the window.
    Closed,
    /// The timeout expired.
    TimedOut,
}

/// A change of the sound output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SoundCommand {
    /// Mutes or unmutes.
    Mute,
    /// One step louder.
    Louder,
    /// One step quieter.
    Quieter,
}

/// A source that can be selected by name. A window's input is opened with its surface, by
/// [`present::open`](crate::present::open).
#[derive(Clone, Copy)]
pub struct Backend {
    /// The name on the command line.
    pub name: &'static str,
    /// The syntax of the argument after the name and a colon.
    pub argument: &'static str,
    /// Opens the source with the argument (empty if none was given).
    pub open: fn(&str) -> Result<Box<dyn InputSource>, SourceError>,
}

/// All sources without a window.
pub const BACKENDS: &[Backend] = &[
    Backend {
        name: "script",
        argument: "file, or - for standard input",
        open: |file| Ok(Box::new(script::Script::open(file)?)),
    },
    Backend {
        name: "evdev",
        argument: "device or NUMBER=device, or several separated by commas",
        open: |devices| Ok(Box::new(evdev::Evdev::open(devices)?)),
    },
    Backend {
        name: "null",
        argument: "",
        open: |_| Ok(Box::new(null::Null)),
    },
];

/// Opens the source for `spec` (`name` or `name:argument`).
///
/// # Errors
/// [`SourceError`] if the name is unknown or the source can't be opened.
pub fn open(spec: &str) -> Result<Box<dyn InputSource>, SourceError> {
    let (name, argument) = spec.split_once(':').unwrap_or((spec, ""));
    let backend = BACKENDS
        .iter()
        .find(|backend| backend.name == name)
        .ok_or_else(|| {
            let known: Vec<&str> = BACKENDS.iter().map(|backend| backend.name).collect();
            SourceError(format!(
                "unknown input source {name:?}; choose one of {}",
                known.join(", ")
            ))
        })?;
    (backend.open)(argument)
}

/// Why input can't be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);
