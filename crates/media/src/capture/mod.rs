//! Capture: takes an application's pixels after the application has drawn. Capture is event-driven and does not poll.

pub mod clip;
pub mod cursor;
pub mod gl;
pub mod pace;
pub mod pattern;
pub mod pool;
pub mod submit;
#[cfg(feature = "vulkan")]
pub mod vulkan;
pub mod x11;

use std::time::Duration;

use openuvr_proto::id::{InputSeq, SubscriberId};
use openuvr_proto::pose::{Pose, ReceivedPose};
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::Views;

use crate::damage::Block;
use crate::picture::Picture;
use crate::waker::WakerError;

pub use crate::waker::Waker;

/// A source of pictures. The media thread owns it.
pub trait Capture: Send {
    /// The size of the next pictures.
    fn size(&self) -> Size;

    /// Waits for the next event, at most `timeout` (`None`: no limit).
    ///
    /// # Errors
    /// [`CaptureError`] if the source fails. The session then ends with the error's text.
    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError>;

    /// The newest picture, announced by the last [`CaptureEvent::Frame`]. May be called repeatedly, for example to
    /// encode a static picture again as a key frame. `None` before the first frame.
    fn picture(&self) -> Option<Picture<'_>>;

    /// The area in which the newest picture differs from the picture of the previous [`CaptureEvent::Frame`]; `None` if
    /// unknown.
    fn changed(&self) -> Option<Block> {
        None
    }

    /// A handle with which another thread makes [`Capture::next`] return [`CaptureEvent::Woken`].
    fn waker(&self) -> Waker;

    /// How the application rendered the newest picture, if known.
    fn render_info(&self) -> RenderInfo {
        RenderInfo::default()
    }

    /// Limits the frame rate from now on, unless the source determines the rate itself.
    fn limit_fps(&mut self, _fps: f64) {}

    /// Informs the source whether any subscriber is watching. Without viewers, the source may save work.
    fn set_watched(&mut self, _watched: bool) {}
}

/// The application's inputs that went into a submitted picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RenderInfo {
    /// The newest input event consumed.
    pub input: Option<ConsumedInput>,
    /// The newest pose consumed.
    pub pose: Option<ReceivedPose>,
    /// Start of rendering.
    pub begun: Option<Instant>,
    /// The head pose used for rendering, if it differs from `pose`.
    pub head: Option<Pose>,
    /// The time at which the head pose was predicted.
    pub predicted: Option<Instant>,
    /// The predicted display time.
    pub display: Option<Instant>,
    /// The views of the picture.
    pub views: Option<Views>,
}

/// An input event that the application consumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConsumedInput {
    /// The subscriber that sent it.
    pub from: SubscriberId,
    /// The event's sequence number among this subscriber's events.
    pub seq: InputSeq,
    /// Arrival at the host.
    pub received: Instant,
    /// The time at which the application consumed the event.
    pub taken: Instant,
}

/// Result of [`Capture::next`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaptureEvent {
    /// A new picture is available.
    Frame,
    /// The source was resized; the next frame has this size.
    Resized(Size),
    /// The source is not visible, for example because its window is unmapped; frames may resume later.
    Hidden,
    /// The source is visible again.
    Shown,
    /// The timeout expired.
    TimedOut,
    /// A [`Waker`] was raised.
    Woken,
    /// The source ended without an error, for example because its window was destroyed. The value is a short reason.
    Ended(&'static str),
}

/// Why a source could not be opened, or failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CaptureError(pub String);

impl From<WakerError> for CaptureError {
    fn from(error: WakerError) -> CaptureError {
        CaptureError(error.to_string())
    }
}
