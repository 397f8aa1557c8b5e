//! Predicts the arrival of the server's chunks. A reader that needs several chunks therefore wakes up only once. This
//! module has no clock.

use std::time::Duration;

use openuvr_proto::time::Instant;

use crate::audio::{duration_of, frames_in};

/// Margin added to the expected arrival time. It covers the jitter of the server's threads for most chunks (guess). A
/// larger margin adds latency.
const GRACE: Duration = Duration::from_micros(250);

/// The prediction moves this much earlier whenever the arrival of a chunk was not observed. These corrections
/// accumulate until a reader has to wait for a chunk and thereby observes its arrival, about once in ten chunks.
const EARLIER: Duration = Duration::from_micros(25);

/// The timing of a server's chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rhythm {
    /// Duration of a chunk.
    piece: Duration,
    /// The time at which the next chunk is expected; `None`: unknown.
    next: Option<Instant>,
}

impl Rhythm {
    /// Records that `pieces` chunks with `frames` sample frames in total were available at `now`. `waited` states
    /// whether a reader waited for them.
    pub(super) fn arrived(&mut self, now: Instant, pieces: u32, frames: usize, waited: bool) {
        let Some(each) = usize::try_from(pieces)
            .ok()
            .and_then(|n| frames.checked_div(n))
        else {
            return;
        };
        self.piece = duration_of(each);
        // The time at which the last of these chunks was expected.
        let expected = self.next.map(|next| next + self.piece * (pieces - 1));
        let unseen = expected.filter(|at| {
            // If this is false, a reader has observed the arrival, or the chunk did not arrive at about the expected
            // time.
            !waited && *at <= now && now.since(*at) < self.piece
        });
        let last = unseen.map_or(now, |at| at - EARLIER);
        self.next = Some(last + self.piece);
    }

    /// The time when enough chunks for `lacking` sample frames should be available. `None` if one chunk is enough, or
    /// the timing is unknown.
    pub(super) fn full_at(&self, lacking: usize) -> Option<Instant> {
        let each = frames_in(self.piece);
        let pieces = u32::try_from(lacking.checked_div(each)?).ok()?;
        let pieces = pieces + u32::from(!lacking.is_multiple_of(each));
        let next = self.next.filter(|_| pieces > 1)?;
        Some(next + self.piece * (pieces - 1) + GRACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant(5_000_000_000);
    const PIECE: Duration = Duration::from_micros(2500);

    #[test]
    fn a_reader_short_of_two_chunks_wakes_for_the_second() {
        let mut rhythm = Rhythm::default();
        assert_eq!(rhythm.full_at(240), None);
        rhythm.arrived(START, 1, 120, true);
        assert_eq!(rhythm.full_at(120), None, "one chunk is enough");
        assert_eq!(rhythm.full_at(121), Some(START + PIECE * 2 + GRACE));
        assert_eq!(rhythm.full_at(240), Some(START + PIECE * 2 + GRACE));
        rhythm.arrived(START, 0, 0, true);
        assert_eq!(rhythm.full_at(240), Some(START + PIECE * 2 + GRACE));
    }

    #[test]
    fn the_prediction_follows_clock_drift() {
        // The server's clock is 200 ppm faster or slower than ours.
        for period in [2_499_500, 2_500_500] {
            let period = Duration::from_nanos(period);
            let mut rhythm = Rhythm::default();
            rhythm.arrived(START, 1, 120, true);
            let (mut last, mut woken) = (START, 0);
            for _ in 0..100_000 {
                // Two chunks are needed.
                let there = last + period * 2;
                let at = rhythm.full_at(240).expect("two are lacking");
                woken += 1;
                let late = at.since(there);
                assert!(late <= GRACE + EARLIER, "{late:?}");
                if at < there {
                    // One chunk is available; the reader waits for the second chunk.
                    rhythm.arrived(at, 1, 120, false);
                    woken += 1;
                    rhythm.arrived(there, 1, 120, true);
                } else {
                    rhythm.arrived(at, 2, 240, false);
                }
                last = there;
            }
            assert!(woken < 120_000, "{woken} for 100 000 payloads");
        }
    }

    #[test]
    fn another_rhythm_is_followed() {
        let mut rhythm = Rhythm::default();
        rhythm.arrived(START, 1, 120, true);
        let later = START + Duration::from_millis(80);
        rhythm.arrived(later, 2, 480, false);
        assert_eq!(rhythm.full_at(241), Some(later + PIECE * 4 + GRACE));
    }
}
