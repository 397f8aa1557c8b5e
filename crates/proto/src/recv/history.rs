//! The health of recent frames. A complete frame gives an intact picture if it has no reference, if its reference is
//! intact, or if it completes an undamaged intra refresh.

use crate::id::FrameId;

/// Number of remembered frames. An encoder refers back by 16 frames at most (ITU-T H.264, section A.3.1), and frame
/// numbers have gaps.
const REMEMBERED: usize = 64;

/// The quality of a delivered frame as a reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Health {
    /// The picture becomes clean after a chain of this many further frames; 0 if it is clean itself.
    CleanAfter(u16),
    /// Lost, concealed, or a descendant of a lost or concealed frame without a complete refresh in between.
    Broken,
}

impl Health {
    /// Identical to the encoder's picture.
    pub(super) const INTACT: Health = Health::CleanAfter(0);

    /// The health of a complete frame with a reference of this health. `refresh` is the length of an intra refresh that
    /// starts with it.
    pub(super) fn after(self, refresh: Option<u16>) -> Health {
        let inherited = match self {
            Health::CleanAfter(frames) => Some(frames.saturating_sub(1)),
            Health::Broken => None,
        };
        let soonest = inherited.into_iter().chain(refresh).min();
        soonest.map_or(Health::Broken, Health::CleanAfter)
    }
}

/// The recent frames and their health.
#[derive(Debug)]
pub(super) struct History([(FrameId, Health); REMEMBERED]);

impl Default for History {
    fn default() -> History {
        History([(FrameId::NONE, Health::Broken); REMEMBERED])
    }
}

impl History {
    fn place(frame: FrameId) -> usize {
        frame.0 as usize % REMEMBERED
    }

    /// Adds a delivered frame.
    pub(super) fn note(&mut self, frame: FrameId, health: Health) {
        self.0[Self::place(frame)] = (frame, health);
    }

    /// The health of a frame; `Broken` if it is not remembered.
    pub(super) fn of(&self, frame: FrameId) -> Health {
        match self.0[Self::place(frame)] {
            (known, health) if known == frame => health,
            _ => Health::Broken,
        }
    }

    /// Clears the history because the decoder lost its references.
    pub(super) fn clear(&mut self) {
        *self = History::default();
    }
}
