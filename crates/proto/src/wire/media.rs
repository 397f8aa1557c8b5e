//! The first bytes of each media body: which stream it belongs to.
//!
//! ```text
//!  0      1      2
//! ┌──────┬──────┬───────
//! │ kind │stream│ what the kind says
//! └──────┴──────┴───────
//! ```
//! Nothing but these two bytes is known of a body before the receiver that owns the stream gets it.

use crate::bytes::Reject;
use crate::id::ViewId;

/// What a session carries: each stream has a kind and a number among those of its kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum StreamKind {
    /// Pictures, in one or more views.
    Video = 1,
    /// Sound.
    Audio = 2,
    /// What a hand is to feel.
    Haptics = 4,
    /// Positions and orientations of what is tracked.
    Poses = 5,
}

impl StreamKind {
    /// The kind with this number; `None`: only a newer peer knows it.
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
    /// What it carries.
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

/// The kind of a fragment's body: [`video`](super::video).
pub const FRAGMENT: u8 = StreamKind::Video as u8;

/// Bytes of the fixed part of a fragment's body.
pub const VIDEO_HEADER: usize = 48;

/// The kind of a body of parity, which belongs to a video stream: [`parity`](super::fec).
pub const FEC_REPAIR: u8 = 3;

/// Whose a media body is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// A view's: a fragment.
    Fragment(ViewId),
    /// A view's: parity.
    FecRepair(ViewId),
    /// A timed stream's.
    Timed(StreamId),
}

impl Owner {
    /// Whose `body` is; `None`: of a kind that only a newer peer knows.
    ///
    /// # Errors
    /// [`Reject::Truncated`] if it does not say.
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
