//! Analyses a sample file: latencies from two reference times, outliers, and the correlation of outliers with pauses.
//!
//! *Received − sent* is the figure of the slides. It omits the time by which a late sender delayed its messages
//! (coordinated omission). *Received − intended* includes this time. If messages have no scheduled times, the two
//! figures are equal, and the omitted time is unknown.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Nanos;
use super::distribution::{Distribution, Summary};
use super::pauses::{Covered, Kind, Pause};
use super::samples::{Sample, Samples, SamplesError};

/// Numbers of cells of the scatter plot: columns over the test's duration, and rows per decade of latency.
const COLUMNS: f64 = 400.0;
const ROWS: f64 = 30.0;
/// The share of the test that counts as its start.
const BEGINNING: f64 = 0.01;
/// The modified z-score above which a sample is an outlier, and the factor that makes it comparable
/// with standard deviations (Iglewicz and Hoaglin 1993, as in the follow-up of the slides).
const Z_LIMIT: f64 = 3.5;
const Z_FACTOR: f64 = 0.6745;

/// Definition of outliers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Rule {
    /// The rule of the slides: a latency above the median plus two standard deviations.
    MedianAndTwoSd,
    /// The rule of the slides' follow-up in the same year: a modified z-score above 3.5.
    ModifiedZ,
}

/// The outliers of received − sent by one rule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outliers {
    /// The rule.
    pub rule: Rule,
    /// Latency threshold, ns.
    pub above: f64,
    /// Number of outliers.
    pub count: u64,
    /// Number of outliers sent in the first hundredth of the test.
    pub at_the_beginning: u64,
    /// The share of outliers that were in flight during a collector's pause. `None` if there is no log.
    pub in_pauses: Option<f64>,
    /// The share to be expected if outliers were distributed uniformly over the test.
    pub by_chance: Option<f64>,
}

/// A pause in the scatter plot: start and end, as shares of the test.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct PauseSpan {
    /// Start.
    pub from: f64,
    /// End.
    pub to: f64,
    /// Whether the pause was that of a full collection (red in the slides) or of another collection (green).
    pub full: bool,
}

/// Analysis of a file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Analysis {
    /// The probe that wrote the file.
    pub name: String,
    /// Number of samples that the file lacks, because they were not measured or because the file is truncated.
    pub missing: u64,
    /// Number of samples whose times decrease. All other figures exclude them.
    pub backwards: u64,
    /// Duration of the test, s.
    pub seconds: f64,
    /// Received − sent.
    pub sent: Summary,
    /// Received − intended.
    pub intended: Summary,
    /// The outliers by each rule.
    pub outliers: Vec<Outliers>,
    /// Outliers by the first rule, as (share of the test, latency in ns): one point for each cell of the plot that has
    /// an outlier.
    pub scatter: Vec<(f64, f64)>,
    /// Pauses of the collector.
    pub pauses: Vec<PauseSpan>,
    /// The number of pauses. It can exceed the length of `pauses`, which merges neighbouring pauses.
    pub pause_count: usize,
    /// The longest pause, ns.
    pub longest_pause: f64,
}

/// Reads and analyses a file in two passes. `pauses` are sorted by their start. `None` means that the pauses are
/// unknown.
///
/// # Errors
/// Returns the system's error.
pub fn analyse(samples: &mut Samples, pauses: Option<&[Pause]>) -> Result<Analysis, SamplesError> {
    let (mut sent, mut intended) = (Distribution::default(), Distribution::default());
    let (mut backwards, mut last, mut first) = (0, 0, Nanos::MAX);
    samples.for_each(|sample| {
        if !is_forward(sample) {
            backwards += 1;
            return;
        }
        sent.record(sample.received - sample.sent);
        intended.record(sample.received - sample.intended);
        last = last.max(sample.received);
        first = first.min(sample.sent);
    })?;
    let header = samples.header();
    // A probe that died early may not have written its start time.
    let begin = if header.begin > 0 {
        header.begin.min(first)
    } else {
        first.min(last)
    };
    let test = Test {
        begin,
        end: header.end.unwrap_or(last).max(last).max(begin + 1),
    };
    let median = sent.quantile(0.5) as f64;
    let deviation = sent.median_deviation();
    let limits = [
        (Rule::MedianAndTwoSd, median + 2.0 * sent.sd()),
        (Rule::ModifiedZ, median + Z_LIMIT * deviation / Z_FACTOR),
    ];
    let covered = pauses.map(Covered::by);
    let mut found = limits.map(|(rule, above)| OutlierCounts::new(rule, above));
    let mut cells = BTreeSet::new();
    samples.for_each(|sample| {
        if !is_forward(sample) {
            return;
        }
        let latency = sample.received - sample.sent;
        for found in &mut found {
            found.look_at(sample, &test, covered.as_ref());
        }
        if latency as f64 > limits[0].1 {
            let row = (latency.max(1) as f64).log10() * ROWS;
            cells.insert(((test.share(sample.sent) * COLUMNS) as u32, row as u32));
        }
    })?;
    let header = samples.header();
    Ok(Analysis {
        name: header.name.clone(),
        missing: samples.missing()
            + header
                .counts
                .iter()
                .map(|n| header.capacity - n)
                .sum::<u64>(),
        backwards,
        seconds: (test.end - test.begin) as f64 / 1e9,
        sent: sent.summary(),
        intended: intended.summary(),
        outliers: found
            .into_iter()
            .map(|found| found.into_outliers(covered.as_ref(), &test))
            .collect(),
        scatter: cells
            .into_iter()
            .map(|(column, row)| {
                let at = (f64::from(column) + 0.5) / COLUMNS;
                (at, 10_f64.powf((f64::from(row) + 0.5) / ROWS))
            })
            .collect(),
        pauses: shades(pauses.unwrap_or_default(), &test),
        pause_count: pauses
            .unwrap_or_default()
            .iter()
            .filter(|p| test.has(p))
            .count(),
        longest_pause: pauses
            .unwrap_or_default()
            .iter()
            .filter(|pause| test.has(pause))
            .map(|pause| (pause.end - pause.start) as f64)
            .fold(0.0, f64::max),
    })
}

fn is_forward(sample: Sample) -> bool {
    sample.intended <= sample.sent && sample.sent <= sample.received
}

/// Start and end of the test.
struct Test {
    begin: Nanos,
    end: Nanos,
}

impl Test {
    /// The share of the test that has elapsed at the time `at`.
    fn share(&self, at: Nanos) -> f64 {
        let share = at.saturating_sub(self.begin) as f64 / (self.end - self.begin) as f64;
        share.min(1.0)
    }

    fn has(&self, pause: &Pause) -> bool {
        pause.end >= self.begin && pause.start <= self.end
    }
}

/// Converts pauses to shares of the test. Merges consecutive pauses of the same colour if they are less than half a
/// column of the plot apart.
fn shades(pauses: &[Pause], test: &Test) -> Vec<PauseSpan> {
    let mut shades: Vec<PauseSpan> = Vec::new();
    for pause in pauses.iter().filter(|pause| test.has(pause)) {
        let full = pause.kind == Kind::Full;
        let (from, to) = (test.share(pause.start), test.share(pause.end));
        match shades.last_mut() {
            Some(last) if last.full == full && from - last.to < 0.5 / COLUMNS => {
                last.to = last.to.max(to);
            }
            _ => shades.push(PauseSpan { from, to, full }),
        }
    }
    shades
}

/// Counts outliers, also by length (latency), because the probability that an outlier overlaps a pause by chance
/// depends on its length.
struct OutlierCounts {
    rule: Rule,
    above: f64,
    at_the_beginning: u64,
    in_pauses: u64,
    lengths: LengthCounts,
}

/// Number and total length of the outliers, by length, with eight classes per power of two.
#[derive(Default)]
struct LengthCounts(BTreeMap<u32, (u64, f64)>);

impl OutlierCounts {
    fn new(rule: Rule, above: f64) -> OutlierCounts {
        OutlierCounts {
            rule,
            above,
            at_the_beginning: 0,
            in_pauses: 0,
            lengths: LengthCounts::default(),
        }
    }

    fn look_at(&mut self, sample: Sample, test: &Test, covered: Option<&Covered>) {
        let latency = (sample.received - sample.sent) as f64;
        if latency <= self.above {
            return;
        }
        if test.share(sample.sent) < BEGINNING {
            self.at_the_beginning += 1;
        }
        if covered.is_some_and(|covered| covered.overlaps(sample.sent, sample.received)) {
            self.in_pauses += 1;
        }
        let class = ((latency + 1.0).log2() * 8.0) as u32;
        let (count, sum) = self.lengths.0.entry(class).or_default();
        *count += 1;
        *sum += latency;
    }

    fn into_outliers(self, covered: Option<&Covered>, test: &Test) -> Outliers {
        let count: u64 = self.lengths.0.values().map(|(count, _)| count).sum();
        let of = |sum: f64| sum / count.max(1) as f64;
        let by_chance = covered.map(|covered| {
            let classes = self.lengths.0.values().map(|(count, sum)| {
                let length = (sum / *count as f64) as Nanos;
                covered.chance(length, test.begin, test.end) * *count as f64
            });
            of(classes.sum())
        });
        Outliers {
            rule: self.rule,
            above: self.above,
            count,
            at_the_beginning: self.at_the_beginning,
            in_pauses: covered.map(|_| of(self.in_pauses as f64)),
            by_chance,
        }
    }
}
