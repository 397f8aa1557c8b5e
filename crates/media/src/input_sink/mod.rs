//! Input sink: what the person did reaches the application.

pub mod device;
pub mod null;
pub mod pads;
mod translate;
pub mod xtest;

use openuvr_proto::input::event::InputEvent;
use openuvr_proto::units::Size;
pub use translate::Translated;

use crate::application::WindowScope;

/// Injects events into a window system or device; owned by the host's control thread.
pub trait InputSink: Send {
    /// Applies one event.
    ///
    /// # Errors
    /// [`InputError`] if the display is gone or the event can't be expressed there.
    fn apply(&mut self, event: &InputEvent) -> Result<(), InputError>;

    /// Releases every key and button that this sink pressed.
    ///
    /// # Errors
    /// [`InputError`] if the display is gone.
    fn release_all(&mut self) -> Result<(), InputError>;

    /// Keys that are down may repeat by themselves, or not from now on.
    ///
    /// # Errors
    /// [`InputError`] if the display is gone.
    fn let_repeat(&mut self, _may: bool) -> Result<(), InputError> {
        Ok(())
    }

    /// Where the picture lies on the display: absolute pointer places are relative to it.
    fn set_viewport(&mut self, x: i32, y: i32, size: Size);

    /// For which window of the display the input is, and for which others of its program; `None`: for
    /// whatever is there.
    fn set_window(&mut self, _window: Option<u32>, _company: WindowScope) {}

    /// Why the last key or button that was pressed was not injected, in a few words; `None` if it
    /// was.
    fn suppressed(&self) -> Option<&'static str> {
        None
    }
}

/// A sink that can be asked for by name.
#[derive(Clone, Copy)]
pub struct Backend {
    /// The name on the command line.
    pub name: &'static str,
    /// What may follow the name and a colon.
    pub argument: &'static str,
    /// Opens it with the argument (empty if none was given).
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

/// Opens the sink that `spec` (`name` or `name:argument`) asks for.
///
/// # Errors
/// [`InputError`] if there is none of that name or it can't be opened.
pub fn open(spec: &str) -> Result<Box<dyn InputSink>, InputError> {
    let (name, argument) = spec.split_once(':').unwrap_or((spec, ""));
    let backend = BACKENDS
        .iter()
        .find(|backend| backend.name == name)
        .ok_or_else(|| {
            let known: Vec<&str> = BACKENDS.iter().map(|backend| backend.name).collect();
            InputError(format!(
                "no input sink is named {name:?}; there are {}",
                known.join(", ")
            ))
        })?;
    (backend.open)(argument)
}

/// Why input could not be injected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InputError(pub String);
