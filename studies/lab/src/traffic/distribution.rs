//! Distributions in bounded memory: three significant digits of each value, and the exact mean.

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer, ser::SerializeStruct as _};

/// Values and their counts.
#[derive(Clone)]
pub struct Distribution {
    histogram: Histogram<u32>,
    sum: u128,
    count: u64,
}

impl std::fmt::Debug for Distribution {
    /// Omits the histogram's thousands of counters.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("Distribution");
        fields.field("count", &self.count);
        fields.field("mean", &self.mean());
        fields.finish_non_exhaustive()
    }
}

/// Number of significant digits. The relative error is below 1/1000.
const DIGITS: u8 = 3;

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution {
            // Fails only if there are more than five digits.
            histogram: Histogram::new(DIGITS).unwrap_or_else(|_| unreachable!("three digits")),
            sum: 0,
            count: 0,
        }
    }
}

impl Distribution {
    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Adds a value `times` times.
    pub fn record_many(&mut self, value: u64, times: u32) {
        // The histogram resizes automatically, up to 2⁶⁴.
        let recorded = self.histogram.record_n(value, times);
        if recorded.is_ok() {
            self.sum += u128::from(value) * u128::from(times);
            self.count += u64::from(times);
        }
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The quantile at this share (0 to 1).
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        (self.count > 0).then(|| match share {
            // The maximum has the same precision as all other values: three significant digits.
            1.0.. => self.histogram.max(),
            share => self.histogram.value_at_quantile(share),
        })
    }

    /// The share of values below `limit`.
    #[must_use]
    pub fn share_below(&self, limit: u64) -> Option<f64> {
        let below = match limit.checked_sub(1) {
            None => 0,
            Some(last) => self.histogram.count_between(0, last),
        };
        (self.count > 0).then(|| below as f64 / self.count as f64)
    }

    /// Each distinct value and its count.
    pub fn values(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let all = self.histogram.iter_recorded();
        all.map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// The mode. A window extends from a value down by a tenth of this value; the mode is the mean of the values in the
    /// window with the most values. Values below `least` are ignored.
    #[must_use]
    pub fn mode(&self, least: u64) -> Option<f64> {
        let all: Vec<(u64, u32)> = self.values().filter(|(value, _)| *value >= least).collect();
        let (mut first, mut sum) = (0, 0_u64);
        let mut most: Option<(u64, usize, usize)> = None;
        for (place, (value, count)) in all.iter().enumerate() {
            sum += u64::from(*count);
            while all[first].0 < value - value / 10 {
                sum -= u64::from(all[first].1);
                first += 1;
            }
            if most.is_none_or(|(highest, ..)| sum > highest) {
                most = Some((sum, first, place));
            }
        }
        let (count, first, last) = most?;
        let inside = &all[first..=last];
        let sum: f64 = inside.iter().map(|(v, n)| *v as f64 * f64::from(*n)).sum();
        Some(sum / count as f64)
    }
}

/// The serialised quantiles.
const SHARES: [(&str, f64); 7] = [
    ("min", 0.0),
    ("p5", 0.05),
    ("p25", 0.25),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p95", 0.95),
    ("p99", 0.99),
];

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Distribution", SHARES.len() + 4)?;
        fields.serialize_field("count", &self.count)?;
        fields.serialize_field("mean", &self.mean())?;
        for (name, share) in SHARES {
            fields.serialize_field(name, &self.quantile(share))?;
        }
        fields.serialize_field("p9999", &self.quantile(0.9999))?;
        fields.serialize_field("max", &self.quantile(1.0))?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Distribution {
        let mut all = Distribution::default();
        values.into_iter().for_each(|value| all.record(value));
        all
    }

    #[test]
    fn mean_and_quantiles_are_those_of_the_values() {
        let all = of(1..=1000);
        assert_eq!((all.count(), all.mean()), (1000, Some(500.5)));
        let at = |share| all.quantile(share).unwrap();
        assert_eq!((at(0.0), at(0.5), at(0.99), at(1.0)), (1, 500, 990, 1000));
        assert_eq!(all.share_below(101), Some(0.1));
        assert_eq!(all.share_below(0), Some(0.0));
        assert_eq!(Distribution::default().quantile(0.5), None);
        assert_eq!(Distribution::default().mean(), None);
    }

    #[test]
    fn the_mode_is_where_most_values_are() {
        let near = (0..100).map(|n| 5_560_000 + n * 1000);
        let all = of(near.chain((0..300).map(|n| 10_000_000 + n * 900_000)));
        let mode = all.mode(1).unwrap();
        assert!((5_600_000.0..5_620_000.0).contains(&mode), "{mode}");
        assert_eq!(of([0; 9]).mode(1), None);
        // Most values are zeros, but they are below `least`, so they are ignored.
        let mode = of([0, 0, 0, 0, 70]).mode(1).unwrap();
        assert!((70.0..71.0).contains(&mode), "{mode}");
    }
}
