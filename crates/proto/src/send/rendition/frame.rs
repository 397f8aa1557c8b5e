//! What a rendition is told of a picture and its encoder, and what it says of a frame.

use super::PolicySettings;
use crate::id::{FrameId, InputSeq, SubscriberId, ViewId};
use crate::send::static_refinement::Improvement;
use crate::time::Instant;
use crate::trace::{DropCause, FrameCost, Stage, Stamps};
use crate::units::Size;
use crate::wire::video::{DrawingTimes, EchoKind, InputEcho, PoseEcho, Views};

/// What a rendition is to be.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Which view of which video stream of a session it is; [`ViewId::FIRST`] for all who have one only.
    pub view: ViewId,
    /// Its frame rate, bit rate, and what is done about losses.
    pub policy: PolicySettings,
    /// Whether a picture that does not move is sent again in better quality.
    pub static_refinement: bool,
    /// Whether no more frames a second are sent than the player's display shows, where that is known; never
    /// more than usual.
    pub follows_display: bool,
}

/// An encoder that was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenedEncoder {
    /// The size of its pictures.
    pub size: Size,
    /// The bit stream's number on the wire.
    pub codec: u8,
    /// The colour's number on the wire.
    pub colour: u8,
    /// Slices of each frame.
    pub slices: u8,
    /// How many of the newest frames the next one may refer to; 0: each is a key frame.
    pub depth: u8,
    /// Whether it can code a part of a picture and leave the rest as the decoder has it.
    pub codes_parts: bool,
    /// Macroblocks of a picture; 0 where there is no quantiser by which one could be improved.
    pub macroblocks: u16,
}

/// The newest input that was applied before a picture was captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppliedInput {
    /// Whose it was.
    pub from: SubscriberId,
    /// Its number.
    pub seq: InputSeq,
    /// Whether it was injected or consumed.
    pub kind: EchoKind,
    /// When it arrived at the host.
    pub received: Instant,
    /// When it was applied.
    pub applied: Instant,
}

/// What the encoder is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The frame's name.
    pub frame: FrameId,
    /// The frame that it refers to; [`FrameId::NONE`]: none, it is a key frame.
    pub reference: FrameId,
    /// Whether an intra refresh should begin.
    pub refresh: bool,
    /// Its quantiser.
    pub qp: u8,
    /// Only this part of the picture is coded.
    pub part: Option<Improvement>,
    /// For each macroblock whether it need not be looked at.
    pub unchanged: Option<&'a [bool]>,
}

impl Plan<'_> {
    /// Whether it is a key frame.
    #[must_use]
    pub fn is_key(&self) -> bool {
        self.reference == FrameId::NONE
    }
}

/// How a captured frame ended at the host for one subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameOutcome {
    /// The subscriber.
    pub subscriber: SubscriberId,
    /// The view.
    pub view: ViewId,
    /// Its frame.
    pub frame: FrameId,
    /// What happened to it until then.
    pub stamps: Stamps,
    /// What it cost, if it left; otherwise the stage that did not happen, and why.
    pub end: Result<FrameCost, (Stage, DropCause)>,
}

/// Which macroblocks are marked as unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Marked {
    /// None: all are coded.
    #[default]
    Nothing,
    /// Those that are the same as in the newest frame.
    SinceNewest,
    /// Those that are the same as in an older frame, to which this one goes back.
    SinceReference,
}

/// The frame that is under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Current {
    /// The picture was sent before, and is not due for having been held back.
    pub(super) still: bool,
    pub(super) echo: InputEcho,
    pub(super) pose: Option<PoseEcho>,
    pub(super) views: Option<Views>,
    pub(super) times: DrawingTimes,
    pub(super) stamps: Stamps,
    pub(super) key_frame: bool,
    pub(super) qp: u8,
    pub(super) improvement: Option<Improvement>,
    pub(super) marked: Marked,
    /// All slices are there.
    pub(super) encoded: bool,
}
