//! The figures of a case of `openuvr bench link`, from the host's record.

use std::collections::BTreeMap;
use std::time::Duration;

use openuvr_testbed::journey::Row;
use openuvr_testbed::stats::{Summary, percentile};
use serde::Serialize;

use crate::bench::verdict::{QUICK, is_link_late};
use crate::machine::QUIET;

/// Time after the drop of the link's rate during which the link's queue may still be full.
const SETTLED: Duration = Duration::from_secs(2);

/// The figures of a case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    pub(super) case: String,
    /// The recovery method.
    pub(super) recovery: String,
    pub(super) size: String,
    pub(super) bitrate: String,
    pub(super) quick: bool,
    /// Number of cores used by other processes during the run.
    pub(super) other_cores: f64,
    #[serde(flatten)]
    pub(super) recorded: Recorded,
    /// The p99 of the emulated link's own lateness, in milliseconds.
    pub(super) link_late_ms: Option<f64>,
    /// Wi-Fi only: the p99 of the datagrams' delay to the client, in milliseconds.
    pub(super) link_p99_ms: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Narrow {
    /// The p99 of the latency from two seconds after the drop to the end of the narrow part.
    pub(super) settled_p99_ms: Option<f64>,
    /// The mean rate before, during and after the narrow part.
    pub(super) mbps: [f64; 3],
    /// Time from the end of the narrow part until the rate over one second had recovered to 90 % of the rate before the
    /// narrow part. `None` if it did not recover.
    pub(super) back_after_s: Option<f64>,
}

impl Figures {
    /// The reason why the figures are not judged; `None` if they are.
    pub(super) fn doubt(&self) -> Option<&'static str> {
        let late = is_link_late(self.link_late_ms);
        match () {
            () if self.quick => Some(QUICK),
            () if self.other_cores > QUIET => Some("the machine was busy"),
            () => late.then_some("the emulated link was late"),
        }
    }
}

/// The measured interval, in nanoseconds of the clock, and its parts, which have equal lengths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) from: i64,
    /// Duration of a part.
    pub(super) part: Duration,
    /// Number of parts: one, or three (before, during and after the narrow part).
    pub(super) parts: u32,
}

impl Measured {
    fn at(self, part: u32) -> i64 {
        self.from + (self.part * part).as_nanos() as i64
    }

    fn seconds(self) -> f64 {
        (self.part * self.parts).as_secs_f64()
    }
}

/// The record's figures for the frames captured in the measured interval.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Recorded {
    pub(super) seconds: f64,
    /// Outcomes of the captured frames.
    pub(super) outcomes: BTreeMap<String, u32>,
    pub(super) complete_per_second: f64,
    /// The longest time without a complete frame, in milliseconds.
    pub(super) longest_gap_ms: f64,
    /// Latency from Captured to Submitted, of complete frames.
    pub(super) latency_ms: Option<Summary>,
    /// Latency from a key press to the first displayed frame that may show its effect.
    pub(super) input_ms: Option<Summary>,
    /// The p95 of `input_ms`.
    pub(super) input_p95_ms: Option<f64>,
    pub(super) wire_mbps: f64,
    /// Only for the case `narrow`.
    pub(super) narrow: Option<Narrow>,
}

impl Recorded {
    /// Computes the figures from the whole record.
    pub(super) fn of(record: &[Row], time: Measured) -> Recorded {
        let (from, to) = (time.from, time.at(time.parts));
        let rows = captured(record, from, to);
        let complete: Vec<_> = rows.iter().filter(|row| row.is_whole()).copied().collect();
        let seconds = time.seconds();
        let mut outcomes = BTreeMap::new();
        for row in &rows {
            *outcomes.entry(row.outcome.clone()).or_insert(0) += 1;
        }
        let narrow = (time.parts == 3).then(|| {
            let (drop, back) = (time.at(1), time.at(2));
            let settled = captured(record, drop + SETTLED.as_nanos() as i64, back);
            let settled: Vec<_> = settled.into_iter().filter(|row| row.is_whole()).collect();
            narrow(
                &captured(record, from, drop),
                &captured(record, drop, back),
                &captured(record, back, to),
                &settled,
                time.part.as_secs_f64(),
            )
        });
        let mut input = inputs(&rows);
        input.sort_by(f64::total_cmp);
        Recorded {
            outcomes,
            seconds,
            complete_per_second: complete.len() as f64 / seconds,
            longest_gap_ms: longest_gap(&complete, from, to),
            latency_ms: Summary::of(&latencies(&complete)),
            input_ms: Summary::of(&input),
            input_p95_ms: percentile(&input, 95.0),
            wire_mbps: mbps(&rows, seconds),
            narrow,
        }
    }
}

/// The frames captured in an interval.
fn captured(record: &[Row], from: i64, to: i64) -> Vec<&Row> {
    let in_it = |row: &&Row| {
        row.at("Captured")
            .is_some_and(|at| (from..to).contains(&at))
    };
    record.iter().filter(in_it).collect()
}

/// Latencies of the key presses whose effect is first visible in one of these frames, in milliseconds.
fn inputs(rows: &[&Row]) -> Vec<f64> {
    let spans = rows.iter().filter_map(|row| row.motion_to_photon);
    spans.map(|ns| ns as f64 / 1e6).collect()
}

fn latencies(complete: &[&Row]) -> Vec<f64> {
    let span = |row: &&Row| Some((row.at("Submitted")? - row.at("Captured")?) as f64 / 1e6);
    complete.iter().filter_map(span).collect()
}

/// The longest time without a complete frame, in milliseconds. The start and the end of the interval count as frames.
fn longest_gap(complete: &[&Row], from: i64, to: i64) -> f64 {
    let mut shown: Vec<i64> = complete
        .iter()
        .filter_map(|row| row.at("Submitted"))
        .collect();
    shown.extend([from, to]);
    shown.sort_unstable();
    let gaps = shown.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.max().unwrap_or(0) as f64 / 1e6
}

fn mbps(rows: &[&Row], seconds: f64) -> f64 {
    let bytes: u64 = rows.iter().map(|row| row.wire_bytes).sum();
    bytes as f64 * 8.0 / 1e6 / seconds
}

fn narrow(
    before: &[&Row],
    within: &[&Row],
    after: &[&Row],
    settled: &[&Row],
    seconds: f64,
) -> Narrow {
    let usual = mbps(before, seconds);
    let start = after.iter().filter_map(|row| row.at("Captured")).min();
    let second = |from: i64| {
        let in_it = |row: &&&Row| {
            row.at("Captured")
                .is_some_and(|at| (from..from + 1_000_000_000).contains(&at))
        };
        mbps(
            &after.iter().filter(in_it).copied().collect::<Vec<_>>(),
            1.0,
        )
    };
    let steps = (seconds * 10.0) as i64 - 10;
    let back = start.and_then(|start| {
        (0..=steps.max(0)).find(|step| second(start + step * 100_000_000) >= usual * 0.9)
    });
    Narrow {
        settled_p99_ms: Summary::of(&latencies(settled)).map(|s| s.p99),
        mbps: [usual, mbps(within, seconds), mbps(after, seconds)],
        back_after_s: back.map(|step| step as f64 / 10.0 + 1.0),
    }
}

#[cfg(test)]
mod tests {
    use openuvr_testbed::journey;

    use super::*;

    /// A record in which the frames `frames` are complete. There are 60 frames per second, each of `bytes` bytes and
    /// with a latency of 10 ms.
    fn record(frames: std::ops::Range<i64>, bytes: u32) -> Vec<Row> {
        let header = "frame,outcome,stage,cause,Captured_ns,Converted_ns,FirstSlice_ns,Encoded_ns,FirstSent_ns,LastSent_ns,\
            FirstReceived_ns,Recoverable_ns,Decoded_ns,Submitted_ns,datagrams,bytes,motion_to_photon_ns";
        let rows = frames.map(|frame| {
            let at = frame * 16_666_667;
            let shown = at + 10_000_000;
            format!("{frame},complete,,,{at},,,,,,,,,{shown},0,{bytes},")
        });
        let text: Vec<_> = std::iter::once(header.to_owned()).chain(rows).collect();
        journey::parse(&text.join("\n")).expect("a record")
    }

    fn of(rows: &[Row]) -> Vec<&Row> {
        rows.iter().collect()
    }

    #[test]
    fn quick_busy_and_late_runs_are_not_judged() {
        let time = Measured {
            from: 0,
            part: Duration::from_secs(1),
            parts: 1,
        };
        let figures = |quick: bool, other_cores: f64, late: f64| Figures {
            case: "loss".into(),
            recovery: "none".into(),
            size: "640x360".into(),
            bitrate: "10M".into(),
            quick,
            other_cores,
            recorded: Recorded::of(&[], time),
            link_late_ms: Some(late),
            link_p99_ms: None,
        };
        assert_eq!(figures(false, 0.0, 0.5).doubt(), None);
        assert_eq!(figures(true, 0.0, 0.5).doubt(), Some(QUICK));
        let busy = figures(false, 0.5, 0.5).doubt();
        assert_eq!(busy, Some("the machine was busy"));
        let late = figures(false, 0.0, 2.0).doubt();
        assert_eq!(late, Some("the emulated link was late"));
    }

    #[test]
    fn the_longest_gap_counts_both_ends_of_the_run() {
        let rows = record(0..60, 1000);
        let (from, to) = (0, 1_000_000_000);
        let gap = longest_gap(&of(&rows), from, to);
        assert!((gap - 16.67).abs() < 0.1, "{gap}");
        let gap = longest_gap(&of(&rows[10..]), from, to);
        assert!((gap - 176.67).abs() < 0.1, "{gap}");
        assert!((longest_gap(&[], from, to) - 1000.0).abs() < 0.1);
        assert_eq!(latencies(&of(&rows)), [10.0; 60]);
    }

    #[test]
    fn the_rate_is_back_when_a_second_carries_nine_tenths_of_it() {
        let before = record(0..360, 10_000);
        let within = record(360..720, 3_000);
        // For three seconds, the rate is halved. Then it is full again.
        let mut after = record(720..900, 5_000);
        let never = narrow(&of(&before), &of(&within), &of(&after), &of(&within), 6.0);
        assert_eq!(never.back_after_s, None);
        assert_eq!(never.settled_p99_ms, Some(10.0));
        after.extend(record(900..1080, 10_000));
        let all = narrow(&of(&before), &of(&within), &of(&after), &[], 6.0);
        let back = all.back_after_s.expect("it comes back");
        assert!((3.5..=4.1).contains(&back), "{back}");
        assert!((all.mbps[0] - 4.8).abs() < 0.1, "{:?}", all.mbps);
        assert_eq!(all.settled_p99_ms, None, "no frame, no figure");
    }
}
