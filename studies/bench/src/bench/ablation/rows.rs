//! Results of each configuration over all repetitions.

use std::collections::{BTreeMap, BTreeSet};

use openuvr_testbed::journey::Step;
use openuvr_testbed::stats::{Range, Summary, share};
use serde::Serialize;

use super::configuration::{
    ALTERNATIVES, BUSY_OTHER, BUSY_OURS, FACTORS, LINKS, cumulative_step, without_factor,
};
use crate::bench::turns::Turns;
use crate::machine::{Machine, QUIET};

/// One measurement of one configuration.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    pub(super) configuration: String,
    pub(super) repetition: u32,
    /// The video's link.
    pub(super) link: Option<String>,
    pub(super) latency_ms: Summary,
    /// Number of frames drawn during the run. `complete` is the number of frames displayed completely.
    pub(super) drawn: usize,
    pub(super) complete: usize,
    pub(super) wire_mbps: Option<f64>,
    /// Number of cores that host and client used together.
    pub(super) cores: f64,
    pub(super) other_cores: f64,
    pub(super) steps: Vec<Step>,
}

/// A configuration over all its repetitions.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    /// The replacement of the optimisation, or the host's options.
    pub(super) note: String,
    /// The video's link; several names if it varied between the runs.
    pub(super) link: Option<String>,
    /// Number of runs. It is lower than the number of repetitions if some failed.
    pub(super) runs: usize,
    /// The reason why the row has no figures; `None` if it has figures.
    pub(super) unavailable: Option<String>,
    pub(super) p50_ms: Option<Range>,
    pub(super) p99_ms: Option<Range>,
    /// Share of the drawn frames that were displayed completely, in the worst repetition.
    pub(super) complete: Option<f64>,
    pub(super) cores: Option<Range>,
    /// Improvement of the p50: of a cumulative row over the previous row; of OpenUVR over a row without one
    /// optimisation; of an alternative over OpenUVR; of a link over the first link; with every core busy, of real-time
    /// scheduling over ordinary scheduling.
    pub(super) worth_ms: Option<f64>,
    /// Whether the ranges of the two compared rows are disjoint. `None` if the row is compared with no other, or if one
    /// of the two has fewer than two runs.
    pub(super) clear: Option<bool>,
}

/// The complete result.
#[derive(Debug, Serialize)]
pub(super) struct Ablation {
    pub(super) machine: Machine,
    pub(super) size: String,
    pub(super) bitrate: String,
    #[serde(flatten)]
    pub(super) turns: Turns,
    pub(super) floor_ms: Option<Summary>,
    /// Number of cores that other processes used during a run: the maximum over all runs.
    pub(super) other_cores: f64,
    pub(super) cumulative: Vec<Row>,
    pub(super) leave_one_out: Vec<Row>,
    pub(super) alternatives: Vec<Row>,
    pub(super) links: Vec<Row>,
    pub(super) busy: Vec<Row>,
    pub(super) runs: Vec<Run>,
}

/// Runs, and failures.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) runs: Vec<Run>,
    /// The reason for the last failure of each configuration.
    pub(super) failed: BTreeMap<String, String>,
}

impl Measured {
    fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs
            .iter()
            .filter(move |run| run.configuration == name)
    }

    /// The reason why a configuration has no successful run; `None` if it has one.
    fn why_not(&self, name: &str) -> Option<&String> {
        let none = self.of(name).next().is_none();
        self.failed.get(name).filter(|_| none)
    }

    fn links(&self, name: &str) -> Option<String> {
        let links: BTreeSet<&str> = self
            .of(name)
            .filter_map(|run| run.link.as_deref())
            .collect();
        (!links.is_empty()).then(|| Vec::from_iter(links).join(", "))
    }

    fn range(&self, name: &str, of: impl Fn(&Run) -> f64) -> Option<Range> {
        Range::of(&self.of(name).map(of).collect::<Vec<_>>())
    }

    /// The row of a configuration. Its improvement is relative to the configuration `other`.
    fn row(&self, name: &str, note: &str, other: Option<&str>) -> Row {
        let p50 = |name| self.range(name, |run: &Run| run.latency_ms.p50);
        let p50_ms = p50(name);
        let both = p50_ms.clone().zip(other.and_then(p50));
        let repeated = |name: &&str| self.of(name).count() > 1;
        Row {
            name: name.to_owned(),
            note: note.to_owned(),
            link: self.links(name),
            runs: self.of(name).count(),
            unavailable: self.why_not(name).cloned(),
            p50_ms,
            p99_ms: self.range(name, |run| run.latency_ms.p99),
            complete: self
                .of(name)
                .filter_map(|run| share(run.complete, run.drawn))
                .reduce(f64::min),
            cores: self.range(name, |run| run.cores),
            worth_ms: both.as_ref().map(|(own, other)| other.median - own.median),
            clear: both
                .filter(|_| [Some(name), other].iter().flatten().all(repeated))
                .map(|(own, other)| own.max < other.min || other.max < own.min),
        }
    }

    pub(super) fn cumulative(&self) -> Vec<Row> {
        (0..=FACTORS.len())
            .map(|with| match with.checked_sub(1) {
                None => {
                    let all: Vec<&str> = FACTORS.iter().map(|f| f.instead).collect();
                    self.row(&cumulative_step(0), &all.join(", "), None)
                }
                Some(last) => {
                    let note = format!("not {}", FACTORS[last].instead);
                    self.row(&cumulative_step(with), &note, Some(&cumulative_step(last)))
                }
            })
            .collect()
    }

    pub(super) fn leave_one_out(&self) -> Vec<Row> {
        let ours = cumulative_step(FACTORS.len());
        let rows = FACTORS.iter().enumerate().map(|(factor, what)| {
            let mut row = self.row(&without_factor(factor), what.instead, Some(&ours));
            row.name = format!("without {}", what.name);
            // The worth of an optimisation is the additional latency of the row without it.
            row.worth_ms = row.worth_ms.map(|worth| -worth);
            row
        });
        rows.collect()
    }

    pub(super) fn alternatives(&self) -> Vec<Row> {
        let ours = cumulative_step(FACTORS.len());
        let row = |&(name, words): &(&str, &[&str])| self.row(name, &words.join(" "), Some(&ours));
        ALTERNATIVES.iter().map(row).collect()
    }

    pub(super) fn over_links(&self) -> Vec<Row> {
        let first = LINKS[0].0;
        let row = |(name, host, client): &(&str, &[&str], &[&str])| {
            let note = [*host, *client].concat().join(" ");
            self.row(name, &note, (*name != first).then_some(first))
        };
        LINKS.iter().map(row).collect()
    }

    pub(super) fn busy(&self) -> Vec<Row> {
        vec![
            self.row(BUSY_OTHER, "a busy thread on each core", None),
            self.row(BUSY_OURS, "likewise", Some(BUSY_OTHER)),
        ]
    }
}

impl Ablation {
    pub(super) fn is_loud(&self) -> bool {
        self.other_cores > QUIET
    }
}
