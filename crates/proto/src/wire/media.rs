//! The first bytes of each media body: the stream to which it belongs.
//!
//! ```text
//!  0      1      2
//! ┌──────┬──────┬───────
//! │ kind │stream│ fields of the kind
//! └──────┴──────┴───────
//! ```
//! Only these two bytes are read before the receiver of the stream gets a body.

use crate::bytes::Reject;
use crate::id::ViewId;

/// A media stream of a session has a kind, and a number among the streams of its kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum StreamKind {
    /// Video, in one or more views.
    Video = 1,
    /// Audio.
    Audio = 2,
    /// Haptic effects.
    Haptics = 4,
    /// Positions and orientations of tracked objects.
    Poses = 5,
}

impl StreamKind {
    /// The kind with this number; `None`: unknown, from a newer peer.
    #[must_use]
    pub fn from_wire(number: u8) -> Option<StreamKind> {
        use StreamKind::*;
        let all = [Video, Audio, Haptics, Poses];
        all.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// A stream of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId {
    /// Its kind.
    pub kind: StreamKind,
    /// Its number among the streams of the kind, from 0.
    pub number: u8,
}

impl StreamId {
    /// The first stream of a kind.
    #[must_use]
    pub const fn first(kind: StreamKind) -> StreamId {
        StreamId { kind, number: 0 }
    }
}

/// The kind number of a fragment's body: [`video`](super::video).
pub const FRAGMENT: u8 = StreamKind::Video as u8;

/// Size of the fixed part of a fragment's body, in bytes.
pub const VIDEO_HEADER: usize = 48;

/// The kind number of a repair body, which belongs to a video stream: [`fec`](super::fec).
pub const FEC_REPAIR: u8 = 3;

/// The owner of a media body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// A view, for a fragment.
    Fragment(ViewId),
    /// A view, for a repair shard.
    FecRepair(ViewId),
    /// A timed stream.
    Timed(StreamId),
}

impl Owner {
    /// The owner of `body`; `None` for a kind unknown to this program.
    ///
    /// # Errors
    /// [`Reject::Truncated`] if it is too short.
    pub fn of(body: &[u8]) -> Result<Option<Owner>, Reject> {
        let [kind, stream, ..] = *body else {
            return Err(Reject::Truncated);
        };
        let view = || {
            let view = *body.get(2).ok_or(Reject::Truncated)?;
            Ok(ViewId { stream, view })
        };
        Ok(match kind {
            FRAGMENT => Some(Owner::Fragment(view()?)),
            FEC_REPAIR => Some(Owner::FecRepair(view()?)),
            _ => StreamKind::from_wire(kind).map(|kind| {
                let number = stream;
                Owner::Timed(StreamId { kind, number })
            }),
        })
    }
}
