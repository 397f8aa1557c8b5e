//! Input source: what the person does at the client.

pub mod evdev;
pub mod null;
pub mod pads;
pub mod script;
pub mod x11;

use std::time::Duration;

use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;

/// Reads a person's input; owned by the client's input thread.
pub trait InputSource: Send {
    /// Waits for what happens next, at most `timeout` (`None`: without end).
    ///
    /// # Errors
    /// [`SourceError`] if the display is gone.
    fn next(&mut self, timeout: Option<Duration>) -> Result<SourceEvent, SourceError>;

    /// How the host's application reads keys: what a source does whose user chose nothing.
    fn follow(&mut self, keys: Keys) {
        let _ = keys;
    }
}

/// What an input source saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceEvent {
    /// The person did this.
    Input(InputEvent),
    /// The person did this at that time of the monotonic clock: the kernel's own stamp.
    Sampled(InputEvent, Instant),
    /// The person wants the figures over the picture shown, or hidden again.
    ToggleOverlay,
    /// The person wants to see other eyes of a picture that has two: the next of
    /// [`EyeView::ALL`](crate::reproject::EyeView::ALL).
    NextEyes,
    /// The window's pointer is grabbed from now on, or not any more.
    Grabbed(bool),
    /// The person wants to hear the host's sound otherwise.
    Sound(SoundCommand),
    /// From now on keys are told like this, because the person said so.
    Keys(Keys),
    /// The window has lost the focus, behind an [`InputEvent::ReleaseAll`], or has it back: what does not come
    /// through the window (game pads) is for the host only where it has.
    Focused(bool),
    /// The window has this size now, in pixels; said at first, too.
    Resized(Size),
    /// The person closed the window.
    Closed,
    /// The time is over.
    TimedOut,
}

/// What a person wants of the sound that is heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SoundCommand {
    /// None, or again as before.
    Mute,
    /// A step louder.
    Louder,
    /// A step quieter.
    Quieter,
}

/// A source that can be asked for by name. (The input of a window comes with its surface:
/// [`present::open`](crate::present::open).)
#[derive(Clone, Copy)]
pub struct Backend {
    /// The name on the command line.
    pub name: &'static str,
    /// What may follow the name and a colon.
    pub argument: &'static str,
    /// Opens it with the argument (empty if none was given).
    pub open: fn(&str) -> Result<Box<dyn InputSource>, SourceError>,
}

/// All sources that need no window.
pub const BACKENDS: &[Backend] = &[
    Backend {
        name: "script",
        argument: "file, or - for standard input",
        open: |file| Ok(Box::new(script::Script::open(file)?)),
    },
    Backend {
        name: "evdev",
        argument: "device or NUMBER=device, several with commas",
        open: |devices| Ok(Box::new(evdev::Evdev::open(devices)?)),
    },
    Backend {
        name: "null",
        argument: "",
        open: |_| Ok(Box::new(null::Null)),
    },
];

/// Opens the source that `spec` (`name` or `name:argument`) asks for.
///
/// # Errors
/// [`SourceError`] if there is none of that name or it can't be opened.
pub fn open(spec: &str) -> Result<Box<dyn InputSource>, SourceError> {
    let (name, argument) = spec.split_once(':').unwrap_or((spec, ""));
    let backend = BACKENDS
        .iter()
        .find(|backend| backend.name == name)
        .ok_or_else(|| {
            let known: Vec<&str> = BACKENDS.iter().map(|backend| backend.name).collect();
            SourceError(format!(
                "no input source is named {name:?}; there are {}",
                known.join(", ")
            ))
        })?;
    (backend.open)(argument)
}

/// Why no input can be read any more.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);
