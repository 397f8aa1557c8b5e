//! Loss counting by packet number, with run lengths.
//!
//! A missing packet may still arrive. Therefore, it counts as lost only after two frames have ended: the frame during
//! which a later packet overtook it, and the next frame.

/// Size of the window in packets: 1.4 MB of datagrams, which is more than arrive between the ends of two frames on any lossy
/// link. Older packets count as lost.
const WINDOW: u64 = 1024;

/// The newest packet at the end of a view's last frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark(u64);

/// Counts losses.
#[derive(Debug, Default)]
pub(super) struct Losses {
    arrived: [u64; (WINDOW / 64) as usize],
    /// For packets with lower numbers, it is decided whether they count as lost.
    settled: u64,
    /// One more than the newest number.
    newest: u64,
    in_run: bool,
    /// Lost packets.
    pub(super) lost: u64,
    /// Runs of lost packets.
    pub(super) runs: u64,
}

impl Losses {
    fn place(number: u64) -> (usize, u64) {
        let place = number % WINDOW;
        (usize::try_from(place / 64).unwrap_or(0), 1 << (place % 64))
    }

    /// Handles the arrival of a packet. Each number may be passed only once.
    pub(super) fn note(&mut self, number: u64) {
        if number < self.settled {
            return;
        }
        self.newest = self.newest.max(number + 1);
        if self.newest - self.settled > WINDOW {
            self.settle_through(self.newest - WINDOW);
        }
        let (word, bit) = Self::place(number);
        self.arrived[word] |= bit;
    }

    /// Handles the end of a view's frame: packets that were overtaken before the view's previous frame ended are lost.
    pub(super) fn settle(&mut self, mark: &mut Mark) {
        self.settle_through(mark.0);
        mark.0 = self.newest;
    }

    fn settle_through(&mut self, through: u64) {
        // No packet beyond the window has arrived, so the packets from there to `through` are all lost.
        let within = through.min(self.settled.saturating_add(WINDOW));
        for number in self.settled..within {
            let (word, bit) = Self::place(number);
            if self.arrived[word] & bit == 0 {
                self.lost += 1;
                self.runs += u64::from(!self.in_run);
                self.in_run = true;
            } else {
                self.in_run = false;
            }
            self.arrived[word] &= !bit;
        }
        if through > within {
            self.lost += through - within;
            self.runs += u64::from(!self.in_run);
            self.in_run = true;
        }
        self.settled = self.settled.max(through);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_ones_are_not_lost_and_runs_are_counted_once() {
        let (mut losses, mut mark) = (Losses::default(), Mark::default());
        // 3 is late, 5–7 and 12 are lost.
        for number in [0, 1, 2, 4, 3, 8, 9, 10, 11, 13] {
            losses.note(number);
        }
        losses.settle(&mut mark);
        assert_eq!((losses.lost, losses.runs), (0, 0));
        losses.settle(&mut mark);
        assert_eq!((losses.lost, losses.runs), (4, 2));
    }

    #[test]
    fn a_run_across_two_evaluations_counts_once() {
        let (mut losses, mut mark) = (Losses::default(), Mark::default());
        losses.note(0);
        losses.note(5);
        losses.settle(&mut mark);
        losses.note(9);
        losses.settle(&mut mark);
        losses.settle(&mut mark);
        assert_eq!((losses.lost, losses.runs), (7, 2));
    }

    #[test]
    fn a_jump_of_any_length_takes_constant_time() {
        let (mut losses, mut mark) = (Losses::default(), Mark::default());
        losses.note(3);
        losses.note(u64::MAX - 1);
        losses.note(7);
        losses.settle(&mut mark);
        losses.settle(&mut mark);
        assert_eq!((losses.lost, losses.runs), (u64::MAX - 2, 2));
    }
}
