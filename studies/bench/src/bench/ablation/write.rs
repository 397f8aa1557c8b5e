//! Writes the results of the ablation as text, CSV and JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use openuvr_terminal::wrap::wrapped;
use openuvr_testbed::stats::Range;

use super::rows::{Ablation, Row, Run};
use crate::bench::heading::write_json;
use crate::result_file;

/// Text for users, at most 100 columns wide.
pub(super) fn text(all: &Ablation) -> String {
    let mut text = String::new();
    // Writing to a string doesn't fail.
    let _ = writeln!(
        text,
        "== value of each optimisation: {} at {} ==\nmachine  {}",
        all.size, all.bitrate, all.machine
    );
    let _ = writeln!(
        text,
        "runs     {} of {} s each, interleaved; latency from drawn to visible, complete frames only",
        all.turns.repetitions, all.turns.seconds
    );
    if let Some(floor) = all.floor_ms {
        let _ = writeln!(
            text,
            "floor    {:.2} ms, included in all latencies",
            floor.p50
        );
    }
    if all.is_loud() {
        let _ = writeln!(
            text,
            "NOT QUIET: other processes used up to {:.1} cores; the figures are unreliable",
            all.other_cores
        );
    }
    for (title, rows, gain) in [
        ("cumulative", &all.cumulative, "gained"),
        (
            "ours, without one optimisation",
            &all.leave_one_out,
            "worth",
        ),
        ("ours, with an alternative", &all.alternatives, "gained"),
        ("ours over a virtual cable", &all.links, "gained"),
        ("every core busy", &all.busy, "gained"),
    ] {
        let _ = writeln!(
            text,
            "\n{title:<27} {:>3} {:>18} {:>7} {:>8} {:>6}  {gain}, ms",
            "n", "p50 ms (range)", "p99", "complete", "cores"
        );
        for row in rows {
            text.push_str(&line(row));
        }
    }
    text.push_str(&links(all));
    text
}

/// The names of the video's links, each followed by the rows that used it.
fn links(all: &Ablation) -> String {
    let mut names = BTreeMap::<&str, BTreeSet<&str>>::new();
    for run in &all.runs {
        let link = run.link.as_deref().unwrap_or("unknown");
        names.entry(link).or_default().insert(&run.configuration);
    }
    let mut text = String::from("\nn: runs. The video's link:\n");
    for (link, rows) in names {
        let rows = Vec::from_iter(rows).join("; ");
        for (place, line) in wrapped(&rows, 86).into_iter().enumerate() {
            let _ = writeln!(text, "{:<9} {line}", if place == 0 { link } else { "" });
        }
    }
    text
}

fn line(row: &Row) -> String {
    let name = &row.name;
    let Some(p50) = &row.p50_ms else {
        let why = row.unavailable.as_deref().unwrap_or("not measured");
        let why: String = why.chars().take(62).collect();
        return format!("{name:<27}   - {why}\n");
    };
    let number = |range: &Option<Range>| range.as_ref().map_or(f64::NAN, |range| range.median);
    let worth = match (row.worth_ms, row.clear) {
        (Some(worth), Some(true)) => format!("{worth:+.2}"),
        (Some(worth), Some(false)) => format!("{worth:+.2} (within the range)"),
        (Some(worth), None) => format!("{worth:+.2} (one run)"),
        _ => String::new(),
    };
    format!(
        "{name:<27} {:>3} {:>18} {:>7.2} {:>6.0} % {:>6.2}  {worth}\n",
        row.runs,
        format!("{:.2} ({:.1}-{:.1})", p50.median, p50.min, p50.max),
        number(&row.p99_ms),
        row.complete.unwrap_or(f64::NAN) * 100.0,
        number(&row.cores),
    )
}

/// Writes `ablation.json` and `ablation.csv` into `folder`.
pub(super) fn files(all: &Ablation, folder: &Path) -> Result<()> {
    write_json(folder, "ablation", all)?;
    result_file::write_csv(
        &folder.join("ablation.csv"),
        &HEADS,
        all.runs.iter().map(csv_row),
    )
}

const HEADS: [&str; 12] = [
    "configuration",
    "repetition",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "max_ms",
    "drawn",
    "complete",
    "wire_mbps",
    "cores",
    "other_cores",
    "link",
];

fn csv_row(run: &Run) -> Vec<String> {
    let s = &run.latency_ms;
    let number = |value: f64| format!("{value:.3}");
    let mut row = vec![run.configuration.clone(), run.repetition.to_string()];
    row.extend([s.p50, s.p90, s.p99, s.max].map(number));
    row.extend([run.drawn.to_string(), run.complete.to_string()]);
    row.push(run.wire_mbps.map_or(String::new(), number));
    row.extend([run.cores, run.other_cores].map(number));
    row.push(run.link.clone().unwrap_or_default());
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::turns::Turns;
    use crate::machine::Machine;

    fn row(name: &str, p50: Option<f64>) -> Row {
        Row {
            name: name.into(),
            note: String::new(),
            link: p50.map(|_| "udp-gso".into()),
            runs: usize::from(p50.is_some()) * 3,
            unavailable: p50.is_none().then(|| "needs CAP_NET_RAW".to_owned()),
            p50_ms: p50.map(|p50| Range {
                median: p50,
                min: p50 - 1.0,
                max: p50 + 1.0,
                values: vec![p50 - 1.0, p50, p50 + 1.0],
            }),
            p99_ms: None,
            complete: Some(1.0),
            cores: None,
            worth_ms: p50.map(|_| 3.0),
            clear: Some(false),
        }
    }

    #[test]
    fn text_fits_and_marks_missing_and_uncertain_rows() {
        let all = Ablation {
            machine: Machine::this(),
            size: "1280x720".into(),
            bitrate: "10M".into(),
            turns: Turns {
                repetitions: 3,
                seconds: 4.0,
                quick: false,
            },
            floor_ms: None,
            other_cores: 0.0,
            cumulative: vec![
                row("conventional", Some(30.0)),
                row("+ slice streaming", Some(20.0)),
            ],
            leave_one_out: Vec::new(),
            alternatives: Vec::new(),
            links: vec![row("AF_XDP", None)],
            busy: Vec::new(),
            runs: Vec::new(),
        };
        let text = text(&all);
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        assert!(text.contains("- needs CAP_NET_RAW"), "{text}");
        assert!(text.contains("+3.00 (within the range)"), "{text}");
    }
}
