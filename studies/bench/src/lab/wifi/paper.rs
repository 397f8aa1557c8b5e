//! Reproduces the published study, and prints its figures next to ours.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use openuvr_lab::wifi::paper::{self, CASES, Case, Row, SINGLE_PACKET, Table, Tolerance, Trend};
use openuvr_lab::wifi::setup::Setup;
use openuvr_lab::wifi::study::{Spread, Summary, Unfinished};
use serde_json::{Value, json};

use super::RunSettings;
use super::quantities;
use crate::lab::folder::{Folder, print_table};

/// Exit code if a figure is not reproduced.
const NOT_REPRODUCED: u8 = 1;

pub(super) fn run(settings: &RunSettings, out: &Path) -> Result<ExitCode> {
    let mut folder = settings.folder(out)?;
    let (mut case, mut last) = (0, String::new());
    let table = paper::run(&settings.repetition, settings.lasting, &mut |name| {
        if name != last {
            last = name.to_owned();
            case += 1;
            eprintln!("{case} of {CASES}: {name}");
        }
        settings.keep_going()
    });
    let table = match table {
        Ok(table) => table,
        Err(Unfinished::Interrupted) => {
            bail!("interrupted: there are no results, because the study needs all cases")
        }
        Err(error) => bail!(error),
    };
    print(&table);
    write(&mut folder, &table)?;
    folder.finish()?;
    Ok(match table.is_reproduced() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NOT_REPRODUCED),
    })
}

const HEADS: [&str; 7] = [
    "place",
    "what",
    "paper",
    "ours",
    "unit",
    "error",
    "tolerance",
];

/// The caption of the second table.
const CONTRADICTIONS: &str =
    "Contradictions in the paper, with the model's result for each interpretation";

fn print(table: &Table) {
    println!(
        "a single packet: {} µs (paper: {} µs)\n",
        table.single_packet / 1000,
        SINGLE_PACKET / 1000
    );
    print_table(&HEADS, &rows(&table.rows));
    println!("\nmean error {:.1} %\n", table.mean_error() * 100.0);
    println!("{CONTRADICTIONS}:");
    print_table(&HEADS, &rows(&table.contradictions));
    println!("\nTrends:");
    print_table(&TREND_HEADS, &trends(&table.trends));
    println!("\nThe tables compare means. `openuvr bench report` judges the confidence intervals.");
}

const TREND_HEADS: [&str; 4] = ["place", "what", "ours", "trend"];

fn rows(rows: &[Row]) -> Vec<Vec<String>> {
    let cells = |row: &Row| {
        let verdict = match (row.tolerance, row.is_within()) {
            (Tolerance::Reported, _) => "reported".to_owned(),
            (Tolerance::Share(share), true) => format!("within {:.0} %", share * 100.0),
            (Tolerance::Absolute(most), true) => format!("within {most}"),
            (Tolerance::Share(share), false) => format!("MORE than {:.0} % off", share * 100.0),
            (Tolerance::Absolute(most), false) => format!("MORE than {most} off"),
        };
        vec![
            row.place.to_owned(),
            row.what.clone(),
            format!("{:.2}", row.paper),
            format!("{:.3}", row.ours),
            row.unit.to_owned(),
            format!("{:+.1} %", row.error() * 100.0),
            verdict,
        ]
    };
    rows.iter().map(cells).collect()
}

fn trends(trends: &[Trend]) -> Vec<Vec<String>> {
    let cells = |trend: &Trend| {
        let values: Vec<String> = trend
            .values
            .iter()
            .map(|value| format!("{value:.2}"))
            .collect();
        let verdict = if trend.holds {
            "holds"
        } else {
            "does NOT hold"
        };
        vec![
            trend.place.to_owned(),
            trend.what.to_owned(),
            values.join(", "),
            verdict.to_owned(),
        ]
    };
    trends.iter().map(cells).collect()
}

fn write(folder: &mut Folder, table: &Table) -> Result<()> {
    folder.csv("figures.csv", &HEADS, rows(&table.rows))?;
    folder.csv("contradictions.csv", &HEADS, rows(&table.contradictions))?;
    folder.csv("trends.csv", &TREND_HEADS, trends(&table.trends))?;
    let parts = [
        ("frame rate", &table.rates),
        ("interval, 1 to 3 batches", &table.intervals),
        ("interval, 1 to ⌈T/τ⌉ batches", &table.literally),
    ];
    let all = parts.iter().flat_map(|(part, cases)| {
        cases.iter().map(move |case| {
            let values = quantities::ALL.iter().map(|quantity| {
                let value = quantity.of(&case.summary);
                value.map_or(String::new(), |value| format!("{:.6}", value.mean))
            });
            [(*part).to_owned(), case.name.clone()]
                .into_iter()
                .chain(values)
                .collect()
        })
    });
    let names = quantities::ALL.iter().map(|quantity| quantity.name);
    let heads: Vec<&str> = ["sweep", "case"].into_iter().chain(names).collect();
    folder.csv("cases.csv", &heads, all)?;
    folder.add_data("paper", as_json(table));
    folder.add_data("parameters", parameters());
    Ok(())
}

/// The distributions that the paper's figures show.
fn spreads(summary: &Summary) -> Value {
    let of = |spread: Option<Spread>| {
        spread.map(|spread| {
            json!({
                "mean": spread.mean.mean, "ci95": spread.mean.half, "p5": spread.at(0.05),
                "p25": spread.at(0.25), "p50": spread.at(0.5), "p75": spread.at(0.75),
                "p95": spread.at(0.95), "p99": spread.at(0.99), "p9999": spread.at(0.9999),
            })
        })
    };
    json!({
        "packets": of(summary.packets), "packets_from_queue": of(summary.packets_from_queue),
        "delivered": of(summary.delivered), "frames": of(summary.frames),
    })
}

fn as_json(table: &Table) -> Value {
    let row = |row: &Row| {
        json!({
            "place": row.place, "what": row.what, "unit": row.unit, "paper": row.paper,
            "mean": row.ours.mean, "ci95": row.ours.half, "error": row.error(),
            "tolerance": match row.tolerance {
                Tolerance::Share(share) => Some(row.paper * share),
                Tolerance::Absolute(most) => Some(most),
                Tolerance::Reported => None,
            },
        })
    };
    let trend = |trend: &Trend| {
        json!({
            "place": trend.place, "what": trend.what, "values": trend.values, "holds": trend.holds,
        })
    };
    let cases = |cases: &[Case]| -> Vec<Value> {
        let of = |case: &Case| {
            json!({
                "name": case.name, "values": quantities::as_json(&case.summary),
                "spreads": spreads(&case.summary),
            })
        };
        cases.iter().map(of).collect()
    };
    json!({
        "single_packet_us": table.single_packet as f64 / 1e3,
        "mean_error": table.mean_error(),
        "rows": table.rows.iter().map(row).collect::<Vec<_>>(),
        "contradictions": table.contradictions.iter().map(row).collect::<Vec<_>>(),
        "trends": table.trends.iter().map(trend).collect::<Vec<_>>(),
        "rates": cases(&table.rates),
        "intervals": cases(&table.intervals),
        "literally": cases(&table.literally),
    })
}

/// Table 4 of the paper, with the model's values.
fn parameters() -> Value {
    let setup = Setup::paper();
    let access = setup.edca.access_point[2];
    let radio = setup.radio;
    json!({
        "channel_width_mhz": radio.width, "mcs": radio.mcs, "spatial_streams": radio.streams,
        "cw_min": access.cw_min, "cw_max": access.cw_max,
        "max_ampdu_packets": setup.max_ampdu, "max_retransmissions": setup.retry_limit,
        "access_point_buffer_packets": setup.access_point_buffer,
        "client_buffer_packets": setup.station_buffer, "packet_bytes": paper::PACKET,
    })
}
