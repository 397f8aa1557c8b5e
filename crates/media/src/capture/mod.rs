//! Capture: when the application has drawn, its pixels are ours. Event-driven, never polled.

pub mod clip;
pub mod cursor;
pub mod gl;
mod hidden_pointer;
pub mod pace;
pub mod pattern;
pub mod pool;
pub mod submit;
#[cfg(feature = "vulkan")]
pub mod vulkan;
pub mod x11;

use std::time::Duration;

use openuvr_proto::id::{InputSeq, SubscriberId};
use openuvr_proto::pose::{Pose, Posed};
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::Views;

use crate::damage::Block;
use crate::picture::Picture;
use crate::waker::WakerError;

pub use crate::waker::Waker;

/// A source of pictures, owned by the media thread.
pub trait Capture: Send {
    /// The size of the pictures that come next.
    fn size(&self) -> Size;

    /// Waits for the next event, at most `timeout` (`None`: without end).
    ///
    /// # Errors
    /// [`CaptureError`] if the source broke; the session ends with its text.
    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError>;

    /// The newest picture: what the last [`CaptureEvent::Frame`] announced. Valid to call again
    /// (a key frame of a static picture needs it). `None` before the first frame.
    fn picture(&self) -> Option<Picture<'_>>;

    /// Where the newest picture differs from the one that the [`CaptureEvent::Frame`] before
    /// announced; `None`: perhaps everywhere.
    fn changed(&self) -> Option<Block> {
        None
    }

    /// A handle with which another thread makes [`Capture::next`] return
    /// [`CaptureEvent::Woken`].
    fn waker(&self) -> Waker;

    /// What the application did before it drew the newest picture, where it is known.
    fn render_info(&self) -> RenderInfo {
        RenderInfo::default()
    }

    /// At most so many frames a second from now on, where it is not the source that decides.
    fn limit_fps(&mut self, _fps: f64) {}

    /// Somebody watches, or nobody any more: a source may save itself what nobody sees.
    fn set_watched(&mut self, _watched: bool) {}
}

/// What an application that submits its pictures did before it drew one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RenderInfo {
    /// The newest input that it had taken.
    pub input: Option<ConsumedInput>,
    /// The newest pose that it had taken.
    pub pose: Option<Posed>,
    /// When it began to draw.
    pub begun: Option<Instant>,
    /// Where it drew the head, if that is not where the pose has it.
    pub head: Option<Pose>,
    /// When it was predicted where the head would be.
    pub predicted: Option<Instant>,
    /// When it expected the picture to be displayed.
    pub display: Option<Instant>,
    /// The views of the picture.
    pub views: Option<Views>,
}

/// An input event that the application took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConsumedInput {
    /// Whose input it was.
    pub from: SubscriberId,
    /// Its number, of those of this player.
    pub seq: InputSeq,
    /// When it arrived at the host.
    pub received: Instant,
    /// When the application took it.
    pub taken: Instant,
}

/// What [`Capture::next`] saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaptureEvent {
    /// A new picture is there.
    Frame,
    /// The source has a new size; the next frame has it.
    Resized(Size),
    /// The source shows nothing for now (window unmapped); frames may come again.
    Hidden,
    /// The source is to be seen again.
    Shown,
    /// The time is over.
    TimedOut,
    /// A [`Waker`] was used.
    Woken,
    /// The source ended in an orderly way (window destroyed): the reason in a few words.
    Ended(&'static str),
}

/// Why a source could not be opened, or broke.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CaptureError(pub String);

impl From<WakerError> for CaptureError {
    fn from(error: WakerError) -> CaptureError {
        CaptureError(error.to_string())
    }
}
