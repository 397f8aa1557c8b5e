//! Distributions in bounded memory: quantiles with a relative error of 1/1000, exact moments.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::Nanos;

/// The longest latency that the histogram distinguishes: an hour.
const LONGEST: Nanos = 3_600_000_000_000;

/// A quantile is reported only if at least this number of samples is beyond it.
const BEYOND: f64 = 10.0;

/// All latencies of a file relative to one reference time.
#[derive(Clone, Debug)]
pub struct Distribution {
    histogram: Histogram<u64>,
    sum: f64,
    squares: f64,
    max: Nanos,
}

/// Summary of a distribution. Times are in nanoseconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub count: u64,
    /// Mean of the samples.
    pub mean: f64,
    /// Standard deviation of the samples.
    pub sd: f64,
    /// Median.
    pub median: f64,
    /// p99. `None` if fewer than ten samples are beyond it, as for p99.9 and p99.99.
    pub p99: Option<f64>,
    /// p99.9.
    pub p999: Option<f64>,
    /// p99.99.
    pub p9999: Option<f64>,
    /// Maximum.
    pub max: f64,
    /// Complementary distribution as (latency, share of longer samples), for plots.
    pub beyond: Vec<(f64, f64)>,
}

impl Default for Distribution {
    fn default() -> Distribution {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3);
        Distribution {
            // This fails only for invalid bounds. The bounds here are valid constants.
            histogram: histogram.unwrap_or_else(|wrong| unreachable!("{wrong}")),
            sum: 0.0,
            squares: 0.0,
            max: 0,
        }
    }
}

impl Distribution {
    /// Records one latency.
    pub fn record(&mut self, latency: Nanos) {
        self.histogram.saturating_record(latency);
        let value = latency as f64;
        self.sum += value;
        self.squares += value * value;
        self.max = self.max.max(latency);
    }

    fn count(&self) -> u64 {
        self.histogram.len()
    }

    fn mean(&self) -> f64 {
        self.sum / self.count().max(1) as f64
    }

    /// The standard deviation of all samples.
    #[must_use]
    pub fn sd(&self) -> f64 {
        let square = self.squares / self.count().max(1) as f64;
        (square - self.mean().powi(2)).max(0.0).sqrt()
    }

    /// The quantile at this share.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Nanos {
        self.histogram.value_at_quantile(share).min(self.max)
    }

    /// The median absolute deviation.
    #[must_use]
    pub fn median_deviation(&self) -> f64 {
        let median = self.quantile(0.5);
        let mut deviations = Distribution::default();
        for value in self.histogram.iter_recorded() {
            let deviation = value.value_iterated_to().abs_diff(median);
            deviations
                .histogram
                .saturating_record_n(deviation, value.count_at_value());
        }
        deviations.histogram.value_at_quantile(0.5) as f64
    }

    /// The summary.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let count = self.count();
        let tail = |share: f64| {
            let enough = count as f64 * (1.0 - share) >= BEYOND - 1e-6;
            enough.then(|| self.quantile(share) as f64)
        };
        Summary {
            count,
            mean: self.mean(),
            sd: self.sd(),
            median: self.quantile(0.5) as f64,
            p99: tail(0.99),
            p999: tail(0.999),
            p9999: tail(0.9999),
            max: self.max as f64,
            beyond: self.beyond(),
        }
    }

    /// The complementary distribution, with twelve shares per decade down to a single sample.
    fn beyond(&self) -> Vec<(f64, f64)> {
        let count = self.count() as f64;
        if count == 0.0 {
            return Vec::new();
        }
        let shares = (0_i32..).map(|step| 10_f64.powf(-f64::from(step) / 12.0));
        let shares = shares.take_while(|share| share * count >= 1.0);
        let mut points: Vec<(f64, f64)> = shares
            .map(|share| (self.quantile(1.0 - share).max(1) as f64, share))
            .collect();
        points.push((self.max.max(1) as f64, 1.0 / count));
        points
    }
}
