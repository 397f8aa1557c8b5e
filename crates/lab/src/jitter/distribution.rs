//! How values are distributed, in bounded memory: quantiles to 1/1000 of the value, moments exactly.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::Nanos;

/// The longest latency that is told apart: an hour.
const LONGEST: Nanos = 3_600_000_000_000;

/// Samples beyond a quantile below which it would stand for single ones.
const BEYOND: f64 = 10.0;

/// All latencies of a file by one clock.
#[derive(Clone, Debug)]
pub struct Distribution {
    histogram: Histogram<u64>,
    sum: f64,
    squares: f64,
    max: Nanos,
}

/// What is said of a distribution. Times are in nanoseconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Samples.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub sd: f64,
    /// What half of them did not exceed.
    pub median: f64,
    /// What 99 % did not exceed; `None` where fewer than ten samples are beyond, as with the others.
    pub p99: Option<f64>,
    /// What 99.9 % did not exceed.
    pub p999: Option<f64>,
    /// What 99.99 % did not exceed.
    pub p9999: Option<f64>,
    /// The longest.
    pub max: f64,
    /// The share of the samples that are longer, by latency: (latency, share), for plots.
    pub beyond: Vec<(f64, f64)>,
}

impl Default for Distribution {
    fn default() -> Distribution {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3);
        Distribution {
            // Refused are only bounds that are not constants here.
            histogram: histogram.unwrap_or_else(|wrong| unreachable!("{wrong}")),
            sum: 0.0,
            squares: 0.0,
            max: 0,
        }
    }
}

impl Distribution {
    /// Counts one latency.
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

    /// What this share of the samples did not exceed.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Nanos {
        self.histogram.value_at_quantile(share).min(self.max)
    }

    /// The median of how far samples lie from their median.
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

    /// What is said of it.
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

    /// Twelve shares for each power of ten, down to a single sample.
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
