//! How the last frames ended: a picture is sound if the one that it builds on was, or when an intra
//! refresh has crossed it.

use crate::id::FrameId;

/// Frames that are remembered: an encoder refers back by 16 at most (ITU-T H.264, section A.3.1),
/// and there are numbers that no frame has.
const REMEMBERED: usize = 64;

/// What a frame that came out is worth as a reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Health {
    /// Whoever builds on it is clean after so many frames, each building on the one before: with 0
    /// this one is.
    CleanAfter(u16),
    /// Lost, patched, or built on such a frame without a refresh since.
    Broken,
}

impl Health {
    /// As it was captured.
    pub(super) const WHOLE: Health = Health::CleanAfter(0);

    /// The health of a frame that arrived whole and builds on one of this health; `refresh` if one
    /// begins with it, by how many frames later it will have crossed the picture.
    pub(super) fn after(self, refresh: Option<u16>) -> Health {
        let inherited = match self {
            Health::CleanAfter(frames) => Some(frames.saturating_sub(1)),
            Health::Broken => None,
        };
        let soonest = inherited.into_iter().chain(refresh).min();
        soonest.map_or(Health::Broken, Health::CleanAfter)
    }
}

/// The last frames that came out, and the health of each.
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

    /// A frame came out.
    pub(super) fn note(&mut self, frame: FrameId, health: Health) {
        self.0[Self::place(frame)] = (frame, health);
    }

    /// The health of a frame; of one that is not remembered nothing good is known.
    pub(super) fn of(&self, frame: FrameId) -> Health {
        match self.0[Self::place(frame)] {
            (known, health) if known == frame => health,
            _ => Health::Broken,
        }
    }

    /// The decoder lost what it had: nothing can be built upon.
    pub(super) fn clear(&mut self) {
        *self = History::default();
    }
}
