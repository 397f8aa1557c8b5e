//! Input sink: passes the user's input to the application.

pub mod device;
pub mod null;
pub mod pads;
mod translate;
pub mod typing;
pub mod xtest;

use openuvr_proto::input::event::InputEvent;
use openuvr_proto::units::Size;
pub use translate::Translated;

use crate::application::WindowScope;

/// Injects events into a window system or device. The host's control thread owns it.
pub trait InputSink: Send {
    /// Applies one event.
    ///
    /// # Errors
    /// [`InputError`] if the display is gone or does not support the event.
    fn apply(&mut self, event: &InputEvent) -> Result<(), InputError>;

    /// Releases every key and button that this sink pressed.
    ///
    /// # Errors
    /// [`InputError`] if the display is gone.
    fn release_all(&mut self) -> Result<(), InputError>;

    /// Allows or stops the auto-repeat of held keys.
    ///
    /// # Errors
    /// [`InputError`] if the display is gone.
    fn allow_repeat(&mut self, _may: bool) -> Result<(), InputError> {
        Ok(())
    }

    /// Sets the picture's position and size on the display. Absolute pointer positions are relative to the picture.
    fn set_viewport(&mut self, x: i32, y: i32, size: Size);

    /// Sets the window that receives input, and the scope: which other windows of its program also receive input. If
    /// the window is `None`, input is not restricted.
    fn set_window(&mut self, _window: Option<u32>, _company: WindowScope) {}

    /// Why the last key or button press was not injected, in a few words; `None` if it was
    /// injected.
    fn suppressed(&self) -> Option<&'static str> {
        None
    }
}

/// A sink that can be selected by name.
#[derive(Clone, Copy)]
pub struct Backend {
    /// The name on the command line.
    pub name: &'static str,
    /// The syntax of the argument after the name and a colon.
    pub argument: &'static str,
    /// Opens the sink with the argument (empty if none was given).
    pub open: fn(&str) -> Result<Box<dyn InputSink>, InputError>,
}

/// All sinks.
pub const BACKENDS: &[Backend] = &[
    Backend {
        name: "xtest",
        argument: "display",
        open: |display| {
            Ok(Box::new(xtest::Xtest::open(
                Some(display).filter(|d| !d.is_empty()),
            )?))
        },
    },
    Backend {
        name: "null",
        argument: "",
        open: |_| Ok(Box::<null::Null>::default()),
    },
];

/// Opens the sink for `spec` (`name` or `name:argument`).
///
/// # Errors
/// [`InputError`] if the name is unknown or the sink can't be opened.
pub fn open(spec: &str) -> Result<Box<dyn InputSink>, InputError> {
    let (name, argument) = spec.split_once(':').unwrap_or((spec, ""));
    let backend = BACKENDS
        .iter()
        .find(|backend| backend.name == name)
        .ok_or_else(|| {
            let known: Vec<&str> = BACKENDS.iter().map(|backend| backend.name).collect();
            InputError(format!(
                "unknown input sink {name:?}; choose one of {}",
                known.join(", ")
            ))
        })?;
    (backend.open)(argument)
}

/// Why input could not be injected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InputError(pub String);
