//! Simulates host and mobile device as peers and through a router, and prints the OpenUVR paper's figures next to ours.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use openuvr_lab::wifi::Estimate;
use openuvr_lab::wifi::study::{Spread, Unfinished};
use openuvr_lab::wifi::topology::{self, CASES, Case, Row, Table, WORDS};
use serde_json::{Value, json};

use super::RunSettings;
use super::quantities;
use crate::lab::folder::print_table;

pub(super) fn run(settings: &RunSettings, words: &str, out: &Path) -> Result<ExitCode> {
    // Check the words for all cases first, so that a wrong word fails before anything is written.
    for format in topology::Format::ALL {
        for place in topology::Topology::ALL {
            topology::scenario(place, format, words)?;
        }
    }
    let mut folder = settings.folder(out)?.with_file("wifi-topology");
    folder.add_data("words", format!("{WORDS} {words}").trim().into());
    folder.add_data("changes", words.into());
    let (mut case, mut last) = (0, String::new());
    let mut keep_going = |name: &str| {
        if name != last {
            last = name.to_owned();
            case += 1;
            eprintln!("{case} of {CASES}: {name}");
        }
        settings.keep_going()
    };
    let table = topology::run(
        &settings.repetition,
        settings.lasting,
        words,
        &mut keep_going,
    );
    let table = match table {
        Ok(table) => table,
        Err(Unfinished::Interrupted) => {
            bail!("interrupted: there are no results, because the comparison needs all cases")
        }
        Err(error) => bail!(error),
    };
    let (cases, rows) = (cases(&table), rows(&table));
    print_table(&CASE_HEADS, &cases);
    println!("\nThe paper's figures:");
    print_table(&ROW_HEADS, &rows);
    folder.csv("topology.csv", &CASE_HEADS, cases)?;
    folder.csv("topology-figures.csv", &ROW_HEADS, rows)?;
    folder.add_data("topology", as_json(&table));
    folder.finish()?;
    Ok(ExitCode::SUCCESS)
}

const CASE_HEADS: [&str; 8] = [
    "topology",
    "format",
    "frame, mean, ms",
    "p50",
    "p99",
    "feedback, p99, ms",
    "airtime, %",
    "broken frames, %",
];

fn cases(table: &Table) -> Vec<Vec<String>> {
    let estimate = |estimate: Option<Estimate>, digits: usize| {
        estimate.map_or("–".to_owned(), |one| format!("{one:.digits$}"))
    };
    let at = |spread: Option<Spread>, share| {
        spread.map_or("–".to_owned(), |spread| {
            format!("{:.2}", spread.at(share))
        })
    };
    let cells = |case: &Case| {
        let summary = &case.summary;
        vec![
            case.topology.name().to_owned(),
            case.format.name().to_owned(),
            estimate(summary.frames.map(|spread| spread.mean), 3),
            at(summary.frames, 0.5),
            at(summary.frames, 0.99),
            at(summary.uplink, 0.99),
            estimate(airtime(case), 1),
            estimate(summary.broken, 2),
        ]
    };
    table.cases.iter().map(cells).collect()
}

fn airtime(case: &Case) -> Option<Estimate> {
    Estimate::of(case.airtime.iter().copied().map(Some))
}

const ROW_HEADS: [&str; 5] = ["place", "what", "paper", "ours", "unit"];

fn rows(table: &Table) -> Vec<Vec<String>> {
    let cells = |row: &Row| {
        vec![
            row.place.to_owned(),
            row.what.to_owned(),
            format!("{:.1}", row.paper),
            format!("{:.2}", row.ours),
            row.unit.to_owned(),
        ]
    };
    table.rows.iter().map(cells).collect()
}

fn as_json(table: &Table) -> Value {
    let spread = |spread: Option<Spread>| {
        spread.map(|spread| {
            json!({
                "mean": spread.mean.mean, "ci95": spread.mean.half, "p50": spread.at(0.5),
                "p99": spread.at(0.99), "p9999": spread.at(0.9999),
            })
        })
    };
    let case = |case: &Case| {
        json!({
            "topology": case.topology.name(), "format": case.format.name(),
            "words": format!("{} {}", case.topology.words(), case.format.words()),
            "values": quantities::as_json(&case.summary),
            "frame_ms": spread(case.summary.frames), "feedback_ms": spread(case.summary.uplink),
            "airtime_percent": airtime(case).map(|one| json!({"mean": one.mean, "ci95": one.half})),
        })
    };
    let row = |row: &Row| {
        json!({
            "place": row.place, "name": row.name, "what": row.what, "unit": row.unit,
            "paper": row.paper, "mean": row.ours.mean, "ci95": row.ours.half,
        })
    };
    json!({
        "cases": table.cases.iter().map(case).collect::<Vec<_>>(),
        "rows": table.rows.iter().map(row).collect::<Vec<_>>(),
    })
}
