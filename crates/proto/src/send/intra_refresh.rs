//! Intra refresh as the response to a loss: when to start one, and whether it succeeds.
//!
//! A refresh codes a part of each picture without reference until it has covered the picture. A refresh costs little per
//! frame but takes many frames, while a key frame has the bytes of several frames. A loss during a refresh leaves damage
//! outside the refreshed area and requires another refresh after this one.

use crate::id::FrameId;

/// Number of consecutive repairs (refreshes or key frames) that were themselves damaged by a loss, after which a key
/// frame follows. A loss is less likely to hit a key frame, because a key frame is a single frame (guess).
const FUTILE: u8 = 2;

/// The intra refreshes of one rendition, driven by its player's losses.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntraRefresh {
    /// The newest frame that the player lost completely or partly, and the newest frame that it displayed completely.
    lost: FrameId,
    whole: FrameId,
    /// The first frame of the newest refresh, or the newest key frame.
    began: FrameId,
    /// Frames until that refresh is complete.
    left: u16,
    /// A refresh was requested and has not started.
    requested: bool,
    /// Consecutive repairs that were damaged by a loss.
    hit: u8,
}

impl IntraRefresh {
    /// Records that a key frame was coded.
    pub fn key_frame(&mut self, frame: FrameId) {
        self.start(frame, 0);
        self.hit = 0;
    }

    /// Records that a frame other than a key frame was coded.
    pub fn frame(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Records that a refresh starts with `frame` and completes `frames` frames later.
    pub fn start(&mut self, frame: FrameId, frames: u16) {
        self.requested = false;
        self.began = frame;
        self.left = frames;
    }

    /// Records that the player did not receive all of a frame.
    pub fn lose(&mut self, frame: FrameId) {
        if self.is_broken() && self.unanswered().is_none() && frame >= self.began {
            self.hit += 1;
        }
        self.lost = self.lost.max(frame);
    }

    /// Records that the player displayed a frame completely.
    pub fn displayed(&mut self, frame: FrameId) {
        self.whole = self.whole.max(frame);
        if !self.is_broken() {
            self.hit = 0;
        }
    }

    /// Called before a frame is coded. Returns the loss that a new refresh should answer, and whether this is its first
    /// request.
    pub fn request(&mut self) -> Option<(FrameId, bool)> {
        let lost = self.unanswered();
        let before = std::mem::replace(&mut self.requested, lost.is_some());
        lost.map(|lost| (lost, !before))
    }

    /// Whether refreshes fail on this link.
    #[must_use]
    pub fn is_futile(&self) -> bool {
        self.unanswered().is_some() && self.hit >= FUTILE
    }

    /// Whether more frames are needed for a clean picture, even if the source is still.
    #[must_use]
    pub fn needs_frames(&self) -> bool {
        self.is_broken() && (self.unanswered().is_some() || self.left > 0)
    }

    /// Whether a refresh is running: it has started, and needs more frames.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.left > 0
    }

    fn is_broken(&self) -> bool {
        self.lost > self.whole
    }

    /// The newest loss without a later refresh.
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
        refreshes.displayed(FrameId(3));
        refreshes.lose(FrameId(4));
        assert_eq!(refreshes.request(), Some((FrameId(4), true)));
        assert_eq!(
            refreshes.request(),
            Some((FrameId(4), false)),
            "it has not started"
        );
        refreshes.start(FrameId(9), 3);
        assert_eq!(refreshes.request(), None);
        assert!(refreshes.needs_frames());
        // A loss before the start of the refresh does not damage it.
        refreshes.lose(FrameId(7));
        assert_eq!(refreshes.request(), None);
        refreshes.lose(FrameId(10));
        assert_eq!(refreshes.request(), Some((FrameId(10), true)));
        refreshes.start(FrameId(13), 3);
        assert!(refreshes.needs_frames() && refreshes.is_running());
        (0..3).for_each(|_| refreshes.frame());
        assert!(!refreshes.needs_frames() && !refreshes.is_running());
        assert!(!refreshes.is_futile());
    }

    #[test]
    fn two_consecutive_damaged_refreshes_are_futile() {
        let mut refreshes = IntraRefresh::default();
        refreshes.key_frame(FrameId(1));
        refreshes.lose(FrameId(9));
        refreshes.start(FrameId(10), 5);
        refreshes.displayed(FrameId(15));
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
    fn a_refresh_started_before_the_report_repairs_its_loss() {
        let mut refreshes = IntraRefresh::default();
        refreshes.key_frame(FrameId(1));
        refreshes.displayed(FrameId(28));
        refreshes.start(FrameId(30), 29);
        assert!(!refreshes.needs_frames(), "no refresh is needed");
        refreshes.lose(FrameId(29));
        assert!(refreshes.needs_frames() && refreshes.request().is_none());
        refreshes.lose(FrameId(35));
        assert!(refreshes.needs_frames() && refreshes.request().is_some());
    }
}
