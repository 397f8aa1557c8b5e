//! Head: where the person's head is, from a device or in place of one.
//!
//! Poses are those of [`openuvr_proto::pose`]: right-handed, y up, -z forward, in a space whose origin is where
//! the source began. A new source is one file with one [`Backend`] and one line in [`BACKENDS`].

pub mod controllers;
pub mod mouse;
pub mod opentrack;
mod schedule;
pub mod script;
mod velocity;

use std::time::Duration;

use openuvr_proto::display::Refresh;
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::pose::Pose;
use openuvr_proto::time::Instant;

/// Reads a head; owned by a thread of the client.
pub trait HeadPoseSource: Send {
    /// Waits for the next pose, at most `timeout`; `None` when that is over. With it comes when the head was
    /// there, on the monotonic clock.
    ///
    /// # Errors
    /// [`HeadPoseError`] if no poses come any more.
    fn next(&mut self, timeout: Duration) -> Result<Option<(Pose, Instant)>, HeadPoseError>;

    /// Samples are taken at the host's application at these moments, less the way there; `None`: nobody says when.
    /// A source whose poses come when they come does nothing about it.
    fn aim(&mut self, wanted: Option<Refresh<Instant>>) {
        let _ = wanted;
    }
}

/// The half of a source that input of the client's window moves; owned by the input thread.
pub trait HeadPoseInput: Send {
    /// Whether the event is for the head, and thus not for the host.
    fn take(&mut self, event: &InputEvent) -> bool;

    /// Whether the window's pointer is grabbed from now on: only then is input for the head.
    fn grabbed(&mut self, grabbed: bool);
}

/// A head, with the input that moves it, if input does.
pub struct HeadPose {
    /// Where it is.
    pub source: Box<dyn HeadPoseSource>,
    /// What moves it.
    pub input: Option<Box<dyn HeadPoseInput>>,
}

/// A source that can be asked for by name.
#[derive(Clone, Copy)]
pub struct Backend {
    /// The name on the command line.
    pub name: &'static str,
    /// What may follow the name and a colon.
    pub argument: &'static str,
    /// Opens it with the argument (empty if none was given).
    pub open: fn(&str) -> Result<HeadPose, HeadPoseError>,
}

/// All sources.
pub const BACKENDS: &[Backend] = &[mouse::BACKEND, script::BACKEND, opentrack::BACKEND];

/// The source of `spec` (`name` or `name:argument`), with its argument.
///
/// # Errors
/// [`HeadPoseError`] if there is none of that name.
pub fn find(spec: &str) -> Result<(&'static Backend, &str), HeadPoseError> {
    let (name, argument) = spec.split_once(':').unwrap_or((spec, ""));
    let found = BACKENDS.iter().find(|backend| backend.name == name);
    let found = found.ok_or_else(|| {
        let known: Vec<&str> = BACKENDS.iter().map(|backend| backend.name).collect();
        HeadPoseError(format!(
            "no head source is named {name:?}; there are {}",
            known.join(", ")
        ))
    })?;
    Ok((found, argument))
}

/// Opens the source that `spec` (`name` or `name:argument`) asks for.
///
/// # Errors
/// [`HeadPoseError`] if there is none of that name or it can't be opened.
pub fn open(spec: &str) -> Result<HeadPose, HeadPoseError> {
    let (backend, argument) = find(spec)?;
    (backend.open)(argument)
}

/// Why a head can't be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HeadPoseError(pub String);
