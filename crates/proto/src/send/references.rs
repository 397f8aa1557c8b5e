//! The reference of the next frame: the newest frame that is not known to be broken at the player.
//!
//! The client's reports are the acknowledgements. A lost or concealed frame breaks its descendants. After a loss, the
//! next frame therefore refers to the newest intact frame. The picture is clean again one round trip after the loss,
//! without a key frame (measured with libx264 and eight reference pictures: clean after three frames with 50 kB, while
//! a key frame has 80 kB). If the encoder no longer keeps an intact frame, a key frame is needed.

use std::collections::VecDeque;

use crate::id::FrameId;

/// Maximum tracked frames: 1 s at 60 frames/s, more than any encoder keeps.
const KEPT: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not reported yet, and assumed to be intact.
    InFlight,
    /// Displayed completely.
    Sound,
    /// Lost, concealed, or a descendant of a lost or concealed frame. A frame between a later frame and the reference
    /// of that frame is also broken, because the encoder has dropped it.
    Broken,
}

#[derive(Clone, Copy, Debug)]
struct Coded {
    frame: FrameId,
    reference: FrameId,
    state: State,
}

/// The frames since the last key frame, with their state.
#[derive(Clone, Debug, Default)]
pub struct References {
    coded: VecDeque<Coded>,
}

impl References {
    /// Records a coded frame. `reference` is [`FrameId::NONE`] for a key frame, which invalidates all references before it.
    pub fn coded(&mut self, frame: FrameId, reference: FrameId) {
        if reference == FrameId::NONE {
            self.coded.clear();
        }
        if self.coded.len() == KEPT {
            self.coded.pop_front();
        }
        let state = State::InFlight;
        self.coded.push_back(Coded {
            frame,
            reference,
            state,
        });
        // The encoder dropped the frames in between.
        let between = |c: &&mut Coded| c.frame > reference && c.frame < frame;
        if reference != FrameId::NONE {
            for skipped in self.coded.iter_mut().filter(between) {
                skipped.state = State::Broken;
            }
        }
    }

    /// Invalidates all references.
    pub fn forget(&mut self) {
        self.coded.clear();
    }

    /// Records that the player displayed a frame completely.
    pub fn displayed(&mut self, frame: FrameId) {
        let in_flight = |c: &&mut Coded| c.frame == frame && c.state == State::InFlight;
        if let Some(coded) = self.coded.iter_mut().find(in_flight) {
            coded.state = State::Sound;
        }
    }

    /// Records that a frame did not reach the player completely.
    pub fn broken(&mut self, frame: FrameId) {
        let Some(from) = self.coded.iter().position(|c| c.frame == frame) else {
            return;
        };
        self.coded[from].state = State::Broken;
        self.break_descendants(from + 1);
    }

    /// Records that `last_good` was the player's newest complete frame when `newest` was the newest frame known to it.
    pub fn invalidate(&mut self, last_good: FrameId, newest: FrameId) {
        let is_invalid = |c: &&mut Coded| c.frame > last_good && c.frame <= newest;
        for coded in self.coded.iter_mut().filter(is_invalid) {
            coded.state = State::Broken;
        }
        self.break_descendants(1);
    }

    fn break_descendants(&mut self, from: usize) {
        for i in from..self.coded.len() {
            let reference = self.coded[i].reference;
            let parent = self.coded.iter().find(|c| c.frame == reference);
            if parent.is_some_and(|p| p.state == State::Broken) {
                self.coded[i].state = State::Broken;
            }
        }
    }

    /// Whether the newest frame is broken. The player's picture stays damaged until a frame refers to an intact frame.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.coded.back().is_some_and(|c| c.state == State::Broken)
    }

    /// The newest frame.
    #[must_use]
    pub fn newest(&self) -> FrameId {
        self.coded.back().map_or(FrameId::NONE, |c| c.frame)
    }

    /// The newest intact frame among the last `depth` frames, which the encoder keeps; `None` if a key frame is needed.
    #[must_use]
    pub fn newest_sound(&self, depth: u8) -> Option<FrameId> {
        let mut remembered = self.coded.iter().rev().take(usize::from(depth));
        remembered
            .find(|c| c.state != State::Broken)
            .map(|c| c.frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames 1 to `n`, each referring to its predecessor.
    fn chain(n: u32) -> References {
        let mut references = References::default();
        for frame in 1..=n {
            references.coded(FrameId(frame), FrameId(frame - 1));
        }
        references
    }

    #[test]
    fn after_a_loss_the_newest_intact_frame_is_referenced() {
        let mut references = chain(6);
        assert_eq!(references.newest_sound(7), Some(FrameId(6)));
        references.broken(FrameId(4));
        assert!(references.is_broken());
        assert_eq!(references.newest_sound(7), Some(FrameId(3)));
        references.coded(FrameId(7), FrameId(3));
        assert!(!references.is_broken());
        // Late reports on frames in flight change nothing.
        references.broken(FrameId(5));
        references.displayed(FrameId(6));
        assert_eq!(references.newest_sound(7), Some(FrameId(7)));
        references.broken(FrameId(7));
        assert_eq!(references.newest_sound(7), Some(FrameId(3)));
        assert_eq!(
            references.newest_sound(4),
            None,
            "3 is out of range by then"
        );
    }

    #[test]
    fn a_key_frame_invalidates_earlier_references() {
        let mut references = chain(3);
        references.coded(FrameId(4), FrameId::NONE);
        references.broken(FrameId(3));
        assert_eq!(references.newest_sound(7), Some(FrameId(4)));
        references.broken(FrameId(4));
        assert_eq!(references.newest_sound(7), None);
    }

    #[test]
    fn a_request_names_the_last_good_frame() {
        let mut references = chain(9);
        references.invalidate(FrameId(5), FrameId(7));
        assert!(references.is_broken(), "8 and 9 build on 7");
        assert_eq!(references.newest_sound(7), Some(FrameId(5)));
        references.coded(FrameId(10), FrameId(5));
        // The client sent the repeated request before frame 10 arrived.
        references.invalidate(FrameId(5), FrameId(9));
        assert!(!references.is_broken());
    }

    #[test]
    fn an_encoder_without_memory_needs_a_key_frame() {
        let mut references = chain(3);
        assert_eq!(references.newest_sound(1), Some(FrameId(3)));
        references.broken(FrameId(3));
        assert_eq!(references.newest_sound(1), None);
    }

    #[test]
    fn memory_is_bounded() {
        let references = chain(1000);
        assert_eq!(references.coded.len(), KEPT);
        assert_eq!(references.newest(), FrameId(1000));
    }
}
