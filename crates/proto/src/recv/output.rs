//! What comes out of the reassembly.

use crate::id::FrameId;
use crate::time::Instant;
use crate::trace::{DropCause, Fidelity};
use crate::wire::video::{Configuration, DrawingTimes, FrameHeader, PoseEcho, Viewpoint, Views};

/// What comes out next.
#[derive(Debug)]
pub enum VideoOutput<'a> {
    /// A whole slice.
    Slice {
        /// Its frame.
        header: FrameHeader,
        /// Its frame's configuration.
        configuration: Configuration,
        /// With what its frame was drawn.
        viewpoint: Viewpoint,
        /// First macroblock and how many.
        macroblocks: (u16, u16),
        /// Whether it is the frame's first and last.
        first: bool,
        /// See `first`.
        last: bool,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// One or more slices of a frame that did not arrive in time.
    Missing {
        /// Their frame.
        header: FrameHeader,
        /// Its configuration.
        configuration: Configuration,
        /// With what it was drawn, if that is known.
        viewpoint: Viewpoint,
        /// First macroblock and how many.
        macroblocks: (u16, u16),
        /// Whether the gap is at the frame's start and end.
        first: bool,
        /// See `first`.
        last: bool,
    },
    /// Everything of a frame came out.
    End(FrameEnd),
    /// A frame of which nothing arrived, or that nothing can be done with.
    Dropped {
        /// The frame.
        frame: FrameId,
        /// [`DropCause::Lost`] or [`DropCause::AwaitingKeyFrame`].
        why: DropCause,
        /// When its first datagram arrived, if one did.
        first_received: Option<Instant>,
    },
}

/// The end of a frame that came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameEnd {
    /// The frame.
    pub header: FrameHeader,
    /// What it is worth, if the decoder does its part.
    pub fidelity: Fidelity,
    /// When its first datagram arrived.
    pub first_received: Instant,
    /// When enough for the whole frame was here; `None` if that never was.
    pub recoverable: Option<Instant>,
    /// Fragments that parity brought back.
    pub repaired: u16,
    /// Fragments that came because they were asked for.
    pub resent: u16,
    /// The pose that it was drawn with …
    pub pose: Option<PoseEcho>,
    /// … and the views of its picture, if the application said so.
    pub views: Option<Views>,
    /// When it was drawn.
    pub times: DrawingTimes,
}

/// Whether the picture is sound, and what the receiver knows: the content of a request for a key
/// frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PictureState {
    /// The newest frame is not as it was captured, nor will the next be, unless it refers to
    /// nothing or to one that is.
    pub broken: bool,
    /// The newest frame that came out whole.
    pub last_good: FrameId,
    /// The newest frame that came to an end here, whatever became of it. Not one that is under
    /// way: it may be the key frame that heals the picture, and a request that named it would
    /// bring another.
    pub newest: FrameId,
}

/// What was counted since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Datagrams opened.
    pub received: u64,
    /// Those among them of streams that nobody here receives.
    pub skipped: u64,
    /// Packet numbers that did not arrive: those that were overtaken before the last frame but one
    /// came to an end.
    pub missing: u64,
    /// Runs of them.
    pub runs: u64,
}
