//! Order statistics of measured durations. The module uses no clock and no files.
//!
//! The p-th percentile is defined by the nearest rank: it is the smallest sample such that at least p percent of all
//! samples are less than or equal to it. It is always a measured value and never interpolated. The 99th percentile of
//! fewer than 100 samples is their maximum.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use openuvr_proto::quantile::at_share;
use serde::{Deserialize, Serialize};

/// Order statistics of samples in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub count: usize,
    /// The mean.
    pub mean: f64,
    /// The smallest.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// The statistics of these samples; `None` if no sample is finite. NaN and infinite samples are ignored.
    pub fn of(samples: &[f64]) -> Option<Summary> {
        let mut sorted: Vec<f64> = samples.iter().copied().filter(|s| s.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        Some(Summary {
            count: sorted.len(),
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            min: *sorted.first()?,
            p50: percentile(&sorted, 50.0)?,
            p90: percentile(&sorted, 90.0)?,
            p99: percentile(&sorted, 99.0)?,
            max: *sorted.last()?,
        })
    }
}

/// The nearest-rank percentile of sorted samples; `percent` from 0 to 100.
pub fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    at_share(sorted, percent / 100.0)
}

/// Repeated measurements: the value of each one, in order, and the median and range of all.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Range {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// One value per run, from which the reporter computes confidence intervals.
    pub values: Vec<f64>,
}

impl Range {
    /// The range of these samples; `None` if no sample is finite. NaN and infinite samples are ignored. If the number
    /// of samples is even, the median is the mean of the middle two.
    pub fn of(samples: &[f64]) -> Option<Range> {
        let values: Vec<f64> = samples.iter().copied().filter(|s| s.is_finite()).collect();
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let upper = *sorted.get(middle)?;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], upper),
            _ => upper,
        };
        Some(Range {
            median,
            min: *sorted.first()?,
            max: *sorted.last()?,
            values,
        })
    }
}

/// The ratio of `part` to `of`, 0 to 1; `None` if `of` is 0.
pub fn share(part: usize, of: usize) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// Frame counts of a run. A frame is identified by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Frames {
    /// Frames that were drawn, all of which should become visible.
    pub drawn: usize,
    /// Distinct frames seen.
    pub visible: usize,
    /// Frames that were drawn and never seen.
    pub missed: usize,
}

impl Frames {
    /// Counts from the numbers of the frames seen, in any order; repeats are allowed. All frames from the first to the
    /// last frame seen count as drawn, so frames missing at the end are not counted.
    pub fn of(numbers: impl IntoIterator<Item = u32>) -> Frames {
        let seen: BTreeSet<u32> = numbers.into_iter().collect();
        match (seen.first(), seen.last()) {
            (Some(&first), Some(&last)) => Frames::drawn(first..=last, seen),
            _ => Frames::default(),
        }
    }

    /// Counts from the numbers of the frames drawn and of the frames seen. Numbers outside `drawn` are ignored.
    pub fn drawn(drawn: RangeInclusive<u32>, seen: impl IntoIterator<Item = u32>) -> Frames {
        let seen: BTreeSet<u32> = (seen.into_iter())
            .filter(|number| drawn.contains(number))
            .collect();
        let count = drawn.size_hint().0;
        Frames {
            drawn: count,
            visible: seen.len(),
            missed: count - seen.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let summary = Summary::of(&samples).unwrap();
        assert_eq!(
            (
                summary.min,
                summary.p50,
                summary.p90,
                summary.p99,
                summary.max
            ),
            (1.0, 100.0, 180.0, 198.0, 200.0)
        );
        // The textbook example of the definition.
        let five = [15.0, 20.0, 35.0, 40.0, 50.0];
        let at = |percent| percentile(&five, percent).unwrap();
        assert_eq!(
            [5.0, 30.0, 40.0, 50.0, 100.0].map(at),
            [15.0, 20.0, 20.0, 35.0, 50.0]
        );
    }

    #[test]
    fn few_samples_and_none() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[f64::NAN]), None);
        let one = Summary::of(&[7.0]).unwrap();
        assert_eq!(
            (one.count, one.min, one.p50, one.p99, one.max),
            (1, 7.0, 7.0, 7.0, 7.0)
        );
        let few = Summary::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((few.mean, few.p50, few.p99), (2.0, 2.0, 3.0));
    }

    #[test]
    fn repetitions_keep_their_values_and_two_have_a_median_between() {
        let two = Range::of(&[9.0, f64::NAN, 5.0]).unwrap();
        assert_eq!((two.median, two.min, two.max), (7.0, 5.0, 9.0));
        assert_eq!(two.values, [9.0, 5.0]);
        assert_eq!(Range::of(&[3.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Range::of(&[]), None);
    }

    #[test]
    fn frames_are_counted_by_number() {
        let frames = Frames::of([5, 7, 7, 10, 6]);
        assert_eq!(
            frames,
            Frames {
                drawn: 6,
                visible: 4,
                missed: 2
            }
        );
        assert_eq!(Frames::of([]), Frames::default());
    }

    #[test]
    fn a_freeze_at_the_end_counts_and_earlier_frames_do_not() {
        let frames = Frames::drawn(5..=20, [3, 4, 5, 6, 7, 7, 8]);
        assert_eq!(
            frames,
            Frames {
                drawn: 16,
                visible: 4,
                missed: 12
            }
        );
        assert_eq!(
            Frames::drawn(RangeInclusive::new(6, 5), [5, 6]),
            Frames::default()
        );
        assert_eq!((share(4, 16), share(0, 0)), (Some(0.25), None));
    }
}
