//! The frames that were sent. Maps the client's frame numbers to the host's frame numbers, and finds the frame that
//! repairs a loss.

use std::collections::VecDeque;
use std::sync::Mutex;

use openuvr_proto::id::FrameId;
use openuvr_proto::wire::video::FrameHeader;
use openuvr_runtime::lock::lock;

/// Number of remembered frames: two seconds at 120 frames/s. Reports of a loss arrive earlier.
const REMEMBERED: usize = 256;

/// How clients treat a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// Predicted from earlier frames.
    Predicted,
    /// Decoding can start here.
    Key,
    /// Predicted only from frames before a reported loss.
    Repaired,
}

impl FrameKind {
    /// Its number in the frame header.
    #[must_use]
    pub(crate) fn number(self) -> u8 {
        match self {
            FrameKind::Predicted => 1,
            FrameKind::Key => 2,
            FrameKind::Repaired => 5,
        }
    }
}

/// A client's request for a repair, in the host's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repair {
    /// The newest frame before the loss; [`FrameId::NONE`] if unknown.
    pub last_good: FrameId,
    /// The newest frame that was sent.
    pub newest: FrameId,
}

/// Numbers of sent frames.
#[derive(Debug, Default)]
pub struct SentFrames(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The client's number and the host's number of each frame, oldest first.
    sent: VecDeque<(u32, FrameId)>,
    /// The last frame before a reported loss that has not been repaired yet.
    repairs_after: Option<FrameId>,
}

impl SentFrames {
    /// Records a frame before it is sent. Returns how the client treats it.
    pub fn record(&self, number: u32, header: &FrameHeader) -> FrameKind {
        let mut state = lock(&self.0);
        if state.sent.len() == REMEMBERED {
            state.sent.pop_front();
        }
        state.sent.push_back((number, header.frame));
        if header.is_key() {
            state.repairs_after = None;
            return FrameKind::Key;
        }
        // A repair is predicted from a frame that the client has.
        let is_repair = |good: &mut FrameId| header.reference.0 <= good.0;
        match state.repairs_after.take_if(is_repair) {
            Some(_) => FrameKind::Repaired,
            None => FrameKind::Predicted,
        }
    }

    /// Handles a client's request for a key frame.
    #[must_use]
    pub fn key_frame_requested(&self) -> Repair {
        Repair {
            last_good: FrameId::NONE,
            newest: self.newest(),
        }
    }

    /// Handles a client's report that it lost the frames from `first` on.
    #[must_use]
    pub fn lost_from(&self, first: u32) -> Repair {
        let mut state = lock(&self.0);
        let before = state.sent.iter().rev().find(|(number, _)| *number < first);
        let last_good = before.map_or(FrameId::NONE, |(_, frame)| *frame);
        if last_good != FrameId::NONE {
            let earlier = state
                .repairs_after
                .map_or(last_good.0, |good| good.0.min(last_good.0));
            state.repairs_after = Some(FrameId(earlier));
        }
        let newest = state.sent.back().map_or(FrameId::NONE, |(_, frame)| *frame);
        Repair { last_good, newest }
    }

    fn newest(&self) -> FrameId {
        let state = lock(&self.0);
        state.sent.back().map_or(FrameId::NONE, |(_, frame)| *frame)
    }
}

#[cfg(test)]
mod tests {
    use openuvr_proto::id::ConfigEpoch;
    use openuvr_proto::input::echo::InputEcho;

    use super::*;

    fn header(frame: u32, reference: u32) -> FrameHeader {
        FrameHeader {
            frame: FrameId(frame),
            reference: FrameId(reference),
            epoch: ConfigEpoch::default(),
            stream: 0,
            view: 0,
            captured: 0,
            clock_epoch: 0,
            echo: InputEcho::default(),
        }
    }

    #[test]
    fn the_frame_that_repairs_a_loss_is_marked() {
        let frames = SentFrames::default();
        assert_eq!(
            frames.record(1, &header(10, FrameId::NONE.0)),
            FrameKind::Key
        );
        for number in 2..6 {
            let id = number + 9;
            assert_eq!(
                frames.record(number, &header(id, id - 1)),
                FrameKind::Predicted
            );
        }
        let repair = frames.lost_from(4);
        assert_eq!(
            (repair.last_good, repair.newest),
            (FrameId(12), FrameId(14))
        );
        assert_eq!(frames.record(6, &header(15, 14)), FrameKind::Predicted);
        assert_eq!(frames.record(7, &header(16, 12)), FrameKind::Repaired);
        assert_eq!(frames.record(8, &header(17, 16)), FrameKind::Predicted);
    }

    #[test]
    fn a_loss_of_everything_needs_a_key_frame() {
        let frames = SentFrames::default();
        frames.record(1, &header(10, FrameId::NONE.0));
        assert_eq!(frames.lost_from(1).last_good, FrameId::NONE);
        assert_eq!(frames.lost_from(0).last_good, FrameId::NONE);
        assert_eq!(frames.key_frame_requested().newest, FrameId(10));
    }

    #[test]
    fn memory_is_bounded() {
        let frames = SentFrames::default();
        for number in 1..10_000 {
            frames.record(number, &header(number, number - 1));
        }
        assert_eq!(lock(&frames.0).sent.len(), REMEMBERED);
    }
}
