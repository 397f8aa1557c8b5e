//! The output of the reassembly.

use crate::id::FrameId;
use crate::time::Instant;
use crate::trace::{DropCause, Fidelity};
use crate::wire::video::{Configuration, DrawingTimes, FrameHeader, PoseEcho, Viewpoint, Views};

/// The next output of a view's receiver.
#[derive(Debug)]
pub enum VideoOutput<'a> {
    /// A complete slice.
    Slice {
        /// Its frame.
        header: FrameHeader,
        /// Its frame's configuration.
        configuration: Configuration,
        /// The pose and views with which the frame was drawn.
        viewpoint: Viewpoint,
        /// First macroblock and number of macroblocks.
        macroblocks: (u16, u16),
        /// Whether it is the frame's first slice, and whether it is the last.
        first: bool,
        /// See `first`.
        last: bool,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// One or more slices that did not arrive in time.
    Missing {
        /// Their frame.
        header: FrameHeader,
        /// Its configuration.
        configuration: Configuration,
        /// The pose and views with which the frame was drawn, if known.
        viewpoint: Viewpoint,
        /// First macroblock and number of macroblocks.
        macroblocks: (u16, u16),
        /// Whether the gap is at the frame's start, and whether it is at the end.
        first: bool,
        /// See `first`.
        last: bool,
    },
    /// The end of a frame.
    End(FrameEnd),
    /// A frame that never arrived, or that cannot be decoded.
    Dropped {
        /// The frame.
        frame: FrameId,
        /// [`DropCause::Lost`] or [`DropCause::AwaitingKeyFrame`].
        why: DropCause,
        /// When its first datagram arrived, if any did.
        first_received: Option<Instant>,
    },
}

/// The end of a delivered frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameEnd {
    /// The frame.
    pub header: FrameHeader,
    /// Its fidelity, if decoding succeeds.
    pub fidelity: Fidelity,
    /// When its first datagram arrived.
    pub first_received: Instant,
    /// When it was recoverable; `None` if it never was.
    pub recoverable: Option<Instant>,
    /// Fragments from FEC repair.
    pub repaired: u16,
    /// Fragments from retransmission.
    pub resent: u16,
    /// The pose with which it was drawn.
    pub pose: Option<PoseEcho>,
    /// The views of its picture, if the application set them.
    pub views: Option<Views>,
    /// When it was drawn.
    pub times: DrawingTimes,
}

/// Whether the picture is intact, and the receiver's state for a key-frame request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PictureState {
    /// Whether the newest frame is damaged. Later frames are then damaged too, until a key frame, a frame with an
    /// intact reference, or the end of an intra refresh.
    pub broken: bool,
    /// The newest frame that gave an intact picture; [`FrameId::NONE`] if there is none, or after a decoding error.
    pub last_good: FrameId,
    /// The newest ended frame, whatever its outcome. A frame in reassembly does not count, because it may be the key
    /// frame that repairs the picture. If a request named this frame, the host would send another key frame.
    pub newest: FrameId,
}

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Opened datagrams.
    pub received: u64,
    /// Datagrams of streams without a receiver.
    pub skipped: u64,
    /// Lost packets. A missing packet counts once two frames have ended: the frame during which it was overtaken, and
    /// the next frame.
    pub missing: u64,
    /// Runs of lost packets.
    pub runs: u64,
}
