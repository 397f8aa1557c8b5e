//! The inputs and outputs of a rendition per frame.

use super::PolicySettings;
use crate::id::{FrameId, InputSeq, SubscriberId, ViewId};
use crate::send::static_refinement::Improvement;
use crate::time::Instant;
use crate::trace::{DropCause, FrameCost, Stage, Stamps};
use crate::units::Size;
use crate::wire::video::{DrawingTimes, EchoKind, InputEcho, PoseEcho, Views};

/// The settings of a rendition.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Its view and video stream in a session; [`ViewId::FIRST`] if there is only one.
    pub view: ViewId,
    /// Frame rate, bit rate, and response to losses.
    pub policy: PolicySettings,
    /// Whether a still picture is refined.
    pub static_refinement: bool,
    /// Whether a still picture is repeated so that the stream keeps its frame rate.
    pub constant_rate: bool,
    /// Whether the frame rate is limited to the refresh rate of the player's display, if known.
    pub follows_display: bool,
    /// Maximum of a frame rate that the player's user chooses, in Hz; `None` if such a choice has no effect.
    pub max_fps: Option<f64>,
}

/// An opened encoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenedEncoder {
    /// The size of its pictures.
    pub size: Size,
    /// The codec's number on the wire.
    pub codec: u8,
    /// The colour format's number on the wire.
    pub colour: u8,
    /// Slices per frame.
    pub slices: u8,
    /// Number of recent frames that can be references; 0: each frame is a key frame.
    pub depth: u8,
    /// Whether it can code a part of a picture and skip the rest.
    pub codes_parts: bool,
    /// Macroblocks of a picture; 0 if the encoder has no quantiser for refinements.
    pub macroblocks: u16,
}

/// The newest input applied before a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppliedInput {
    /// Its subscriber.
    pub from: SubscriberId,
    /// Its number.
    pub seq: InputSeq,
    /// Whether it was injected or consumed.
    pub kind: EchoKind,
    /// Arrival at the host.
    pub received: Instant,
    /// When it was applied.
    pub applied: Instant,
}

/// The request to the encoder.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The frame's number.
    pub frame: FrameId,
    /// Its reference; [`FrameId::NONE`] for a key frame.
    pub reference: FrameId,
    /// Whether to start an intra refresh.
    pub refresh: bool,
    /// Its quantiser.
    pub qp: u8,
    /// The part of the picture to code, if not all of it.
    pub part: Option<Improvement>,
    /// For each macroblock, whether it is known to be unchanged.
    pub unchanged: Option<&'a [bool]>,
}

impl Plan<'_> {
    /// Whether it is a key frame.
    #[must_use]
    pub fn is_key(&self) -> bool {
        self.reference == FrameId::NONE
    }
}

/// The outcome of a captured frame at the host for one subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameOutcome {
    /// The subscriber.
    pub subscriber: SubscriberId,
    /// The view.
    pub view: ViewId,
    /// Its frame.
    pub frame: FrameId,
    /// Its timestamps.
    pub stamps: Stamps,
    /// Its cost if it was sent. Otherwise, the stage that it did not reach, and the cause.
    pub end: Result<FrameCost, (Stage, DropCause)>,
}

/// The macroblocks that are marked as unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Marked {
    /// No macroblocks: all are coded.
    #[default]
    Nothing,
    /// Macroblocks that are unchanged since the newest frame.
    SinceNewest,
    /// Macroblocks that are unchanged since an older frame, the reference.
    SinceReference,
}

/// The current frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Current {
    /// Whether the picture was sent before and was not skipped.
    pub(super) still: bool,
    /// Whether the frame repeats a picture that was coded as an earlier frame.
    pub(super) repeats: bool,
    pub(super) echo: InputEcho,
    pub(super) pose: Option<PoseEcho>,
    pub(super) views: Option<Views>,
    pub(super) times: DrawingTimes,
    pub(super) stamps: Stamps,
    pub(super) key_frame: bool,
    pub(super) qp: u8,
    pub(super) improvement: Option<Improvement>,
    pub(super) marked: Marked,
    /// Whether the frame repeats the newest coded frame's picture, refers to that frame, and does not continue an intra
    /// refresh. Such a frame makes no macroblock worse.
    pub(super) keeps_quality: bool,
    /// Whether all slices have been delivered.
    pub(super) encoded: bool,
}
