//! Figures of runs, and their goals.

use std::time::Duration;

use openuvr_proto::quantile::nearest_rank;
use serde::Serialize;

use super::run::{Observed, Setting};

/// Goal with L4S, beside two Cubic flows: maximum difference between the p99 and the path's p99, in milliseconds.
pub const L4S_BEYOND_PATH_MS: f64 = 5.0;
/// Goal with L4S, beside two Cubic flows: minimum rate as a share of the fair rate.
pub const L4S_SHARE: f64 = 0.8;
/// Share by which a figure may be worse than GCC's (guess; the figures of two seeds differ by about half of this
/// share).
const WORSE_BY: f64 = 0.05;
/// Latencies that differ by at most this time count as equal (guess: a seventeenth of a frame interval at 60 frames/s).
const EQUAL_MS: f64 = 1.0;

/// Replaces the latency of a stream without complete frames, in milliseconds. The value is larger than all latencies.
/// Infinity is not possible in JSON.
const NEVER_MS: f64 = 1e6;

/// The figures of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// The controller.
    pub controller: String,
    /// Whether the controller is OpenUVR's.
    pub own: bool,
    /// Whether the controller uses L4S.
    pub l4s: bool,
    /// The queue discipline.
    pub aqm: String,
    /// The competing flows, by kind.
    pub competitors: Vec<String>,
    /// Median latency in milliseconds, from the capture of a frame until the client has all of its datagrams; `None`
    /// without complete frames.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the same latency.
    pub p99_ms: Option<f64>,
    /// 99th percentile of the latency of a stream with the fair rate and without competing flows, in milliseconds.
    pub path_p99_ms: Option<f64>,
    /// Complete frames per second.
    pub complete_per_second: f64,
    /// Skipped frames as a share of the frames that were due.
    pub skipped: f64,
    /// Number of lost datagrams of the video per second.
    pub lost_per_second: f64,
    /// The video's rate in Mb/s.
    pub mbps: f64,
    /// The video's rate as a share of the fair rate ([`fair_rate`]).
    pub fair_share: f64,
    /// Rates of the competing flows in Mb/s.
    pub competitors_mbps: Vec<f64>,
    /// Jain's index over all rates: 1 if all are equal (Jain, Chiu, Hawe 1984).
    pub jain: f64,
    /// Share of the link's rate that all flows used.
    pub used: f64,
    /// Number of packets that the queue marked, including the settling time.
    pub marked: u64,
    /// Number of packets that the queue dropped, including the settling time.
    pub dropped: u64,
    /// The name of the file with the time series, if it was written.
    pub series: Option<String>,
}

/// A goal and the measured value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The case and the figure.
    pub what: String,
    /// The unit of the measured value and of the bound.
    pub unit: &'static str,
    /// The measured value; `None` if the figure was not measured.
    pub measured: Option<f64>,
    /// The bound.
    pub target: Target,
    /// Whether the bound is a minimum.
    pub at_least: bool,
}

/// A bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Target {
    /// The limit. A value equal to the limit meets the goal.
    pub pass: f64,
}

impl Verdict {
    /// Whether the goal is met; `None` if the figure was not measured.
    #[must_use]
    pub fn is_met(&self) -> Option<bool> {
        let measured = self.measured?;
        Some(match self.at_least {
            true => measured >= self.target.pass,
            false => measured <= self.target.pass,
        })
    }

    /// The verdict as a line for the terminal.
    #[must_use]
    pub fn line(&self) -> String {
        let sign = if self.at_least { ">=" } else { "<=" };
        let word = match self.is_met() {
            None => "not measured",
            Some(true) => "met",
            Some(false) => "MISSED",
        };
        let measured = self.measured.map_or("-".into(), |one| format!("{one:.2}"));
        let (what, unit, bound) = (&self.what, self.unit, self.target.pass);
        format!("{what:<52} {sign} {bound:>7.2} {measured:>8} {unit:<4} {word}")
    }
}

impl Figures {
    /// The figures of a run. `path` is a run with a fixed stream at the fair rate and without competing flows.
    #[must_use]
    pub fn of(setting: &Setting, observed: &Observed, path: &Observed) -> Figures {
        let seconds = setting.lasting.as_secs_f64();
        let mbps = |bytes: u64| bytes as f64 * 8.0 / seconds / 1e6;
        let own = mbps(observed.totals.arrived_bytes);
        let others: Vec<f64> = observed.delivered.iter().map(|one| mbps(*one)).collect();
        let all: Vec<f64> = others.iter().copied().chain([own]).collect();
        let sum: f64 = all.iter().sum();
        Figures {
            controller: setting.controller.name().to_owned(),
            own: setting.controller.is_own(),
            l4s: setting.controller.is_l4s(),
            aqm: setting.discipline.name().to_owned(),
            competitors: (setting.competitors.iter())
                .map(|kind| kind.name().to_owned())
                .collect(),
            p50_ms: quantile(observed, 50),
            p99_ms: quantile(observed, 99),
            path_p99_ms: quantile(path, 99),
            complete_per_second: observed.complete.len() as f64 / seconds,
            skipped: share(observed.totals.skipped, observed.totals.due),
            lost_per_second: f64::from(observed.totals.lost) / seconds,
            mbps: own,
            fair_share: own * 1e6 / fair_rate(setting),
            competitors_mbps: others,
            jain: jain(&all),
            used: sum * 1e6 / setting.rate.0 as f64,
            marked: observed.actions.marked,
            dropped: observed.actions.dropped + observed.actions.overflowed,
            series: None,
        }
    }

    /// The queue discipline and the competing flows.
    fn case(&self) -> (&str, &[String]) {
        (&self.aqm, &self.competitors)
    }

    /// The queue discipline and the competing flows as text.
    #[must_use]
    pub fn case_name(&self) -> String {
        match &self.competitors[..] {
            [] => format!("{}, alone", self.aqm),
            some => format!("{}, {}", self.aqm, some.join(" + ")),
        }
    }
}

/// The fair rate of the video in bits per second: an equal part of the link's rate, but at most the video's maximum
/// rate.
#[must_use]
pub fn fair_rate(setting: &Setting) -> f64 {
    let equal = setting.rate.0 as f64 / (setting.competitors.len() as f64 + 1.0);
    equal.min(setting.range.max.0 as f64)
}

/// Jain's fairness index: 1 if all rates are equal, and 1 / n if one of n flows has the whole rate.
#[must_use]
pub fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    match squares > 0.0 {
        true => sum * sum / (rates.len() as f64 * squares),
        false => 1.0,
    }
}

fn share(part: u32, all: u32) -> f64 {
    f64::from(part) / f64::from(all.max(1))
}

/// A quantile of the latency in milliseconds.
fn quantile(observed: &Observed, percent: usize) -> Option<f64> {
    let frames = observed.complete.iter();
    let mut took: Vec<Duration> = frames.map(|one| one.at.since(one.captured)).collect();
    took.sort_unstable();
    nearest_rank(&took, percent).map(|one| one.as_secs_f64() * 1e3)
}

/// The verdicts on all goals to which these figures apply.
#[must_use]
pub fn verdicts(figures: &[Figures]) -> Vec<Verdict> {
    let mut all = l4s_goals(figures);
    all.extend(
        figures
            .iter()
            .filter(|one| one.own && !one.l4s)
            .flat_map(|own| {
                let gcc = figures
                    .iter()
                    .find(|one| one.controller == "gcc" && one.case() == own.case());
                gcc.map_or_else(Vec::new, |gcc| no_worse(own, gcc))
            }),
    );
    all
}

/// The goals with L4S, beside two Cubic flows on `dualpi2`. There are none if no run has this case. If only other
/// controllers have this case, the goals are not measured.
fn l4s_goals(figures: &[Figures]) -> Vec<Verdict> {
    let beside = |one: &&Figures| one.aqm == "dualpi2" && one.competitors == ["cubic", "cubic"];
    let mut cases = figures.iter().filter(beside).peekable();
    if cases.peek().is_none() {
        return Vec::new();
    }
    let own = cases.find(|one| one.own && one.l4s);
    let path = own.and_then(|one| one.path_p99_ms);
    vec![
        Verdict {
            what: "L4S beside two cubic: p99 beyond the path's".to_owned(),
            unit: "ms",
            measured: own.map(|one| match (one.p99_ms, path) {
                (Some(p99), Some(path)) => p99 - path,
                _ => NEVER_MS,
            }),
            target: Target {
                pass: L4S_BEYOND_PATH_MS,
            },
            at_least: false,
        },
        Verdict {
            what: "L4S beside two cubic: share of the fair rate".to_owned(),
            unit: "",
            measured: own.map(|one| one.fair_share),
            target: Target { pass: L4S_SHARE },
            at_least: true,
        },
    ]
}

/// The goals without L4S: latency, complete frames and share of the fair rate are no worse than GCC's.
fn no_worse(own: &Figures, gcc: &Figures) -> Vec<Verdict> {
    let case = own.case_name();
    let latency = gcc.p99_ms.unwrap_or(NEVER_MS);
    // A rate above the fair rate counts as the fair rate.
    let fair = |one: &Figures| one.fair_share.min(1.0);
    let verdict = |what: &str, unit, measured, pass, at_least| Verdict {
        what: format!("{case}: {what}"),
        unit,
        measured: Some(measured),
        target: Target { pass },
        at_least,
    };
    vec![
        verdict(
            "p99",
            "ms",
            own.p99_ms.unwrap_or(NEVER_MS),
            (latency * (1.0 + WORSE_BY)).max(latency + EQUAL_MS),
            false,
        ),
        verdict(
            "complete frames",
            "/s",
            own.complete_per_second,
            gcc.complete_per_second * (1.0 - WORSE_BY),
            true,
        ),
        verdict(
            "share of the fair rate",
            "",
            fair(own),
            fair(gcc) * (1.0 - WORSE_BY),
            true,
        ),
    ]
}
