//! Latency of sound from capture to playback, over the payloads since the last report.

use std::time::Duration;

use openuvr_proto::quantile::nearest_rank;

/// Maximum number of payloads that are counted between two reports: 2.5 s of payloads of 2.5 ms.
const MAX_SAMPLES: usize = 1000;

/// Latencies since the last report.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    spans: Vec<Duration>,
    bound: Duration,
}

/// Two quantiles, by nearest rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Latency {
    pub(super) median: Duration,
    pub(super) p99: Duration,
    /// Error bound of each quantile.
    pub(super) bound: Duration,
}

impl Latencies {
    pub(super) fn push(&mut self, span: Duration, bound: Duration) {
        if self.spans.len() < MAX_SAMPLES {
            self.spans.push(span);
            self.bound = self.bound.max(bound);
        }
    }

    /// Returns the quantiles of the latencies and clears the latencies; `None` if there are none.
    pub(super) fn take(&mut self) -> Option<Latency> {
        self.spans.sort_unstable();
        let latency = Latency {
            median: nearest_rank(&self.spans, 50)?,
            p99: nearest_rank(&self.spans, 99)?,
            bound: self.bound,
        };
        self.spans.clear();
        self.bound = Duration::ZERO;
        Some(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks_and_are_taken_once() {
        let ms = Duration::from_millis;
        let mut latencies = Latencies::default();
        assert_eq!(latencies.take(), None);
        for n in (1..=200).rev() {
            latencies.push(ms(n), ms(n % 3));
        }
        let want = Latency {
            median: ms(100),
            p99: ms(198),
            bound: ms(2),
        };
        assert_eq!(latencies.take(), Some(want));
        assert_eq!(latencies.take(), None);
    }
}
