//! The first bytes of each media body. They identify the stream to which the body belongs.
//!
//! ```text
//!  0      1      2
//! ┌──────┬──────┬───────
//! │ kind │stream│ fields of the kind
//! └──────┴──────┴───────
//! ```
//! These two bytes select the stream's receiver, which then reads the rest of the body.

use crate::bytes::Reject;
use crate::id::ViewId;

/// The kind of a media stream. A session numbers its streams separately for each kind.
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
    /// The kind with this number; `None` for an unknown kind of a newer peer.
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
    /// The kind of the stream.
    pub kind: StreamKind,
    /// The number of the stream among the streams of its kind, from 0.
    pub number: u8,
}

impl StreamId {
    /// The first stream of a kind.
    #[must_use]
    pub const fn first(kind: StreamKind) -> StreamId {
        StreamId { kind, number: 0 }
    }
}

/// The kind number in the body of a fragment ([`video`](super::video)).
pub const FRAGMENT: u8 = StreamKind::Video as u8;

/// Size of the fixed part of a fragment's body, in bytes.
pub const VIDEO_HEADER: usize = 48;

/// The kind number in a repair body ([`fec`](super::fec)), which belongs to a video stream.
pub const FEC_REPAIR: u8 = 3;

/// The view or timed stream to which a media body belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// The body is a fragment of this view.
    Fragment(ViewId),
    /// The body is a repair shard of this view.
    FecRepair(ViewId),
    /// A timed stream.
    Timed(StreamId),
}

impl Owner {
    /// The owner of `body`; `None` for a kind unknown to this program.
    ///
    /// # Errors
    /// [`Reject::Truncated`] if `body` is too short.
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
