//! Lateness: a histogram of bounded size.
//!
//! Individual events are not stored. A quantile is at most 1/16 too large.

use std::fmt;
use std::time::Duration;

use openuvr_proto::quantile::{UNITS, rank};

/// A histogram of durations: 16 buckets between two successive powers of two, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Lateness {
    buckets: Vec<u64>,
    count: u64,
    max: Duration,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness {
            buckets: vec![0; 61 * 16],
            count: 0,
            max: Duration::ZERO,
        }
    }
}

impl Lateness {
    /// Records one event.
    pub fn record(&mut self, late: Duration) {
        self.buckets[bucket(late)] += 1;
        self.count += 1;
        self.max = self.max.max(late);
    }

    /// Number of events.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The maximum; `None` without events.
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        (self.count > 0).then_some(self.max)
    }

    /// The quantile of `per_mille` thousandths (500: the median), at most 1/16 above the true
    /// value; `None` without events.
    #[must_use]
    pub fn quantile(&self, per_mille: u16) -> Option<Duration> {
        let rank = rank(self.count, per_mille.min(1000) * (UNITS / 1000));
        let mut seen = 0;
        let index = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(upper_edge(index).min(self.max))
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.quantile(500), self.quantile(990), self.max()) {
            (Some(p50), Some(p99), Some(max)) => {
                write!(f, "p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}")
            }
            _ => f.write_str("none"),
        }
    }
}

fn bucket(late: Duration) -> usize {
    let ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
    let Some(shift) = ns.max(1).ilog2().checked_sub(4) else {
        return usize::try_from(ns).unwrap_or(0);
    };
    // `ns >> shift` is 16 to 31: the leading one and the four bits after it.
    (shift as usize + 1) * 16 + usize::try_from((ns >> shift) & 15).unwrap_or(0)
}

/// The largest duration of a bucket.
fn upper_edge(index: usize) -> Duration {
    let (row, column) = (index as u64 / 16, index as u64 % 16);
    let ns = match row.checked_sub(1) {
        None => column,
        Some(shift) => (((16 + column + 1) as u128) << shift)
            .saturating_sub(1)
            .try_into()
            .unwrap_or(u64::MAX),
    };
    Duration::from_nanos(ns)
}

#[cfg(test)]
mod tests {
    use super::{Lateness, bucket, upper_edge};
    use std::time::Duration;

    #[test]
    fn buckets_and_edges_agree() {
        let mut last = 0;
        for ns in (0..100_000).chain([1 << 40, u64::MAX - 1, u64::MAX]) {
            let index = bucket(Duration::from_nanos(ns));
            assert!(index >= last && index < 61 * 16);
            last = index;
            let edge = u64::try_from(upper_edge(index).as_nanos()).unwrap();
            assert!(edge >= ns && edge - ns <= ns / 16, "{ns} {edge}");
        }
    }

    #[test]
    fn quantiles_of_a_known_set() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(500), None);
        assert_eq!(lateness.to_string(), "none");
        for us in 1..=1000 {
            lateness.record(Duration::from_micros(us));
        }
        let p50 = lateness.quantile(500).unwrap();
        assert!((500..=532).contains(&p50.as_micros()), "{p50:?}");
        assert_eq!(lateness.quantile(1000), Some(Duration::from_millis(1)));
        assert_eq!(lateness.count(), 1000);
    }
}
