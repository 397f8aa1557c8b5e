//! Head pose: from a tracking device, or emulated.
//!
//! Poses have the axes of [`openuvr_proto::pose`]: right-handed, y up, -z forward. Each source defines its origin. A
//! new source needs one file with one [`Backend`], and one line in [`BACKENDS`].

pub mod controllers;
pub mod iio;
pub mod mouse;
pub mod opentrack;
pub mod recentre;
mod schedule;
pub mod script;
mod velocity;

use std::time::Duration;

use openuvr_proto::display::RefreshTiming;
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::pose::Pose;
use openuvr_proto::time::Instant;

/// Reads a head pose. One thread of the client owns it.
pub trait HeadPoseSource: Send {
    /// Waits for the next pose, at most `timeout`. Returns the pose with its time on the monotonic
    /// clock, or `None` on timeout.
    ///
    /// # Errors
    /// [`HeadPoseError`] if the source has failed.
    fn next(&mut self, timeout: Duration) -> Result<Option<(Pose, Instant)>, HeadPoseError>;

    /// Sets the times at which the host's application samples poses, minus the transmission delay; `None` if unknown. A
    /// source with its own timing may ignore this, or adapt only its rate.
    fn aim(&mut self, wanted: Option<RefreshTiming<Instant>>) {
        let _ = wanted;
    }
}

/// The part of a source that handles input of the client's window. The input thread owns it.
pub trait HeadPoseInput: Send {
    /// Handles an event. Returns whether the source has used the event, which is then not sent to the host.
    fn take(&mut self, event: &InputEvent) -> bool;

    /// Reports whether the window's pointer is grabbed. Input moves the head only while the pointer is grabbed.
    fn grabbed(&mut self, grabbed: bool);
}

/// A head pose source, with its input handler if it has one.
pub struct HeadPose {
    /// The source.
    pub source: Box<dyn HeadPoseSource>,
    /// Its input handler.
    pub input: Option<Box<dyn HeadPoseInput>>,
}

/// A source that can be selected by name.
#[derive(Clone, Copy)]
pub struct Backend {
    /// The name on the command line.
    pub name: &'static str,
    /// The syntax of the argument after the name and a colon.
    pub argument: &'static str,
    /// Opens the source with the argument (empty if none was given).
    pub open: fn(&str) -> Result<HeadPose, HeadPoseError>,
}

/// All sources.
pub const BACKENDS: &[Backend] = &[
    mouse::BACKEND,
    script::BACKEND,
    opentrack::BACKEND,
    iio::BACKEND,
];

/// Finds the source for `spec` (`name` or `name:argument`), and its argument.
///
/// # Errors
/// [`HeadPoseError`] if the name is unknown.
pub fn find(spec: &str) -> Result<(&'static Backend, &str), HeadPoseError> {
    let (name, argument) = spec.split_once(':').unwrap_or((spec, ""));
    let found = BACKENDS.iter().find(|backend| backend.name == name);
    let found = found.ok_or_else(|| {
        let known: Vec<&str> = BACKENDS.iter().map(|backend| backend.name).collect();
        HeadPoseError(format!(
            "unknown head source {name:?}; choose one of {}",
            known.join(", ")
        ))
    })?;
    Ok((found, argument))
}

/// Opens the source for `spec` (`name` or `name:argument`).
///
/// # Errors
/// [`HeadPoseError`] if the name is unknown or the source can't be opened.
pub fn open(spec: &str) -> Result<HeadPose, HeadPoseError> {
    let (backend, argument) = find(spec)?;
    (backend.open)(argument)
}

/// Why a head pose can't be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HeadPoseError(pub String);
