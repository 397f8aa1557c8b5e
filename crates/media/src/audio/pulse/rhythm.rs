//! Predicts the arrival of the server's chunks, so that a reader that needs several of them wakes
//! up only once. This module has no clock.

use std::time::Duration;

use openuvr_proto::time::Instant;

use crate::audio::{duration_of, frames_in};

/// Margin after the expected time after which most chunks have arrived: the jitter of the server's
/// threads (guess). Waking up later adds to the latency.
const GRACE: Duration = Duration::from_micros(250);

/// Correction towards earlier times whenever the arrival of a chunk was not observed. It
/// accumulates until a reader waits for a chunk and observes its arrival, about each tenth time.
const EARLIER: Duration = Duration::from_micros(25);

/// The timing of a server's chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rhythm {
    /// Duration of a chunk.
    piece: Duration,
    /// When the next chunk is expected; `None`: unknown.
    next: Option<Instant>,
}

impl Rhythm {
    /// Records that this many chunks were available at `now`, with `frames` sample frames in total.
    /// `waited` tells whether a reader waited for them.
    pub(super) fn arrived(&mut self, now: Instant, pieces: u32, frames: usize, waited: bool) {
        let Some(each) = usize::try_from(pieces)
            .ok()
            .and_then(|n| frames.checked_div(n))
        else {
            return;
        };
        self.piece = duration_of(each);
        // When the last of these chunks was expected.
        let expected = self.next.map(|next| next + self.piece * (pieces - 1));
        let unseen = expected.filter(|at| {
            // Otherwise the timing has changed.
            !waited && *at <= now && now.since(*at) < self.piece
        });
        let last = unseen.map_or(now, |at| at - EARLIER);
        self.next = Some(last + self.piece);
    }

    /// When enough chunks for `lacking` sample frames should be available. `None` if one is enough,
    /// or the timing is unknown.
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
        // For a server with a clock 200 ppm slower or faster.
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
                    // One is available; the reader waits for the other.
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
