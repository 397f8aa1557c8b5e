//! Intra refreshes as the answer to a loss: whether one is needed, and whether they help.
//!
//! A refresh codes a part of each picture without reference until it has crossed the picture. It costs
//! little in each frame, where a key frame has the bytes of several, but takes many frames. A loss
//! that falls into it leaves damage behind it, so that it takes another one, which the encoder
//! begins when the first is through.

use crate::id::FrameId;

/// After so many answers in a row that were hit by a loss themselves, the next one is a key frame: it
/// has only one frame to lose (guess).
const FUTILE: u8 = 2;

/// The refreshes of one rendition, as its player needs them.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntraRefresh {
    /// The newest frame that the player is known to have lost, all of it or a part, and the newest
    /// that it displayed whole.
    lost: FrameId,
    whole: FrameId,
    /// The frame with which the newest refresh began, or the newest key frame, which does the same.
    began: FrameId,
    /// Frames until that refresh is through.
    left: u16,
    /// One was asked for and has not begun.
    requested: bool,
    /// Answers to a loss that were hit themselves, in a row.
    hit: u8,
}

impl IntraRefresh {
    /// A key frame is coded.
    pub fn key_frame(&mut self, frame: FrameId) {
        self.start(frame, 0);
        self.hit = 0;
    }

    /// A frame that is none is coded.
    pub fn frame(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// A refresh begins with `frame`, and is through so many frames later.
    pub fn start(&mut self, frame: FrameId, frames: u16) {
        self.requested = false;
        self.began = frame;
        self.left = frames;
    }

    /// The player did not get all of a frame.
    pub fn lose(&mut self, frame: FrameId) {
        if self.is_broken() && self.unanswered().is_none() && frame >= self.began {
            self.hit += 1;
        }
        self.lost = self.lost.max(frame);
    }

    /// The player displayed a frame whole.
    pub fn whole(&mut self, frame: FrameId) {
        self.whole = self.whole.max(frame);
        if !self.is_broken() {
            self.hit = 0;
        }
    }

    /// The next frame is about to be coded: if it should begin a refresh, the loss that it answers, and
    /// whether no frame before was asked to.
    pub fn request(&mut self) -> Option<(FrameId, bool)> {
        let lost = self.unanswered();
        let before = std::mem::replace(&mut self.requested, lost.is_some());
        lost.map(|lost| (lost, !before))
    }

    /// Whether refreshes do not get through on this link.
    #[must_use]
    pub fn is_futile(&self) -> bool {
        self.unanswered().is_some() && self.hit >= FUTILE
    }

    /// Whether frames must follow for the picture to become clean, although nothing moves.
    #[must_use]
    pub fn needs_frames(&self) -> bool {
        self.is_broken() && (self.unanswered().is_some() || self.left > 0)
    }

    fn is_broken(&self) -> bool {
        self.lost > self.whole
    }

    /// The newest loss, if no refresh has begun since.
    fn unanswered(&self) -> Option<FrameId> {
        (self.is_broken() && self.lost >= self.began).then_some(self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_starts_one_refresh_and_a_loss_within_it_another() {
        let mut refreshes = IntraRefresh::default();
        refreshes.key_frame(FrameId(1));
        assert_eq!(refreshes.request(), None);
        refreshes.whole(FrameId(3));
        refreshes.lose(FrameId(4));
        assert_eq!(refreshes.request(), Some((FrameId(4), true)));
        assert_eq!(
            refreshes.request(),
            Some((FrameId(4), false)),
            "it has not begun"
        );
        refreshes.start(FrameId(9), 3);
        assert_eq!(refreshes.request(), None);
        assert!(refreshes.needs_frames());
        // What was lost before it began is in its way.
        refreshes.lose(FrameId(7));
        assert_eq!(refreshes.request(), None);
        refreshes.lose(FrameId(10));
        assert_eq!(refreshes.request(), Some((FrameId(10), true)));
        refreshes.start(FrameId(13), 3);
        assert!(refreshes.needs_frames());
        (0..3).for_each(|_| refreshes.frame());
        assert!(!refreshes.needs_frames());
        assert!(!refreshes.is_futile());
    }

    #[test]
    fn answers_that_are_hit_twice_in_a_row_are_futile() {
        let mut refreshes = IntraRefresh::default();
        refreshes.key_frame(FrameId(1));
        refreshes.lose(FrameId(9));
        refreshes.start(FrameId(10), 5);
        refreshes.whole(FrameId(15));
        for began in [20, 30] {
            refreshes.lose(FrameId(began - 1));
            refreshes.start(FrameId(began), 5);
        }
        assert!(!refreshes.is_futile(), "hit by 29 only");
        refreshes.lose(FrameId(31));
        refreshes.lose(FrameId(32));
        assert!(refreshes.is_futile());
        refreshes.key_frame(FrameId(40));
        assert!(!refreshes.is_futile());
        refreshes.lose(FrameId(40));
        assert_eq!(refreshes.request(), Some((FrameId(40), true)));
        assert!(!refreshes.is_futile());
    }

    #[test]
    fn a_refresh_begun_before_its_loss_was_known_answers_it() {
        let mut refreshes = IntraRefresh::default();
        refreshes.key_frame(FrameId(1));
        refreshes.whole(FrameId(28));
        refreshes.start(FrameId(30), 29);
        assert!(!refreshes.needs_frames(), "nobody needs it");
        refreshes.lose(FrameId(29));
        assert!(refreshes.needs_frames() && refreshes.request().is_none());
        refreshes.lose(FrameId(35));
        assert!(refreshes.needs_frames() && refreshes.request().is_some());
    }
}
