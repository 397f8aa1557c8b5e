//! How the last frames ended: a picture is sound if the one that it builds on was.

use crate::id::FrameId;

/// Frames that are remembered: an encoder refers back by 16 at most (ITU-T H.264, section A.3.1),
/// and there are numbers that no frame has.
const REMEMBERED: usize = 64;

/// The last frames that came out, and whether each was whole.
#[derive(Debug)]
pub(super) struct History([(FrameId, bool); REMEMBERED]);

impl Default for History {
    fn default() -> History {
        History([(FrameId::NONE, false); REMEMBERED])
    }
}

impl History {
    fn place(frame: FrameId) -> usize {
        frame.0 as usize % REMEMBERED
    }

    /// A frame came out.
    pub(super) fn note(&mut self, frame: FrameId, whole: bool) {
        self.0[Self::place(frame)] = (frame, whole);
    }

    /// Whether a frame is known to have come out whole.
    pub(super) fn was_whole(&self, frame: FrameId) -> bool {
        self.0[Self::place(frame)] == (frame, true)
    }

    /// The decoder lost what it had: nothing can be built upon.
    pub(super) fn clear(&mut self) {
        *self = History::default();
    }
}
