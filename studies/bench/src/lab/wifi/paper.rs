//! The reproduction of the published study: its figures next to ours.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use openuvr_lab::wifi::paper::{self, CASES, Case, Row, SINGLE_PACKET, Table, Tolerance, Trend};
use openuvr_lab::wifi::setup::Setup;
use openuvr_lab::wifi::study::{self, Summary, Unfinished};
use serde_json::{Value, json};

use super::RunSettings;
use super::quantities;
use crate::bench::plot::{Boxes, Spread};
use crate::lab::folder::{Folder, print_table};

/// Exit code if a figure is not reproduced.
const NOT_REPRODUCED: u8 = 1;

pub(super) fn run(settings: &RunSettings, out: &Path) -> Result<ExitCode> {
    let mut folder = settings.folder(out, TITLE)?;
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
        Err(Unfinished::Interrupted) => bail!("interrupted: the study needs all cases"),
        Err(error) => bail!(error),
    };
    print(&table);
    write(&mut folder, &table)?;
    folder.finish()?;
    println!("\nthe study is {}", out.join("index.html").display());
    Ok(match table.is_reproduced() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NOT_REPRODUCED),
    })
}

const TITLE: &str = "Wi-Fi 6 and Unity Render Streaming: figures 19 to 22 again";

const HEADS: [&str; 7] = ["place", "what", "paper", "ours", "unit", "error", "verdict"];

/// The caption of the second table.
const CONTRADICTIONS: &str = "Contradictions in the paper, with our model's result for each \
                              reading; nothing was fitted to these";

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
}

const TREND_HEADS: [&str; 4] = ["place", "what", "ours", "verdict"];

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
    folder.paragraph(&format!(
        "A single packet takes {} µs (paper: {} µs). Mean error of the figures: {:.1} %.",
        table.single_packet / 1000,
        SINGLE_PACKET / 1000,
        table.mean_error() * 100.0
    ));
    folder.section("Parameters (table 4)");
    folder.table(None, &["parameter", "value"], &parameters())?;
    folder.section("The paper's figures");
    folder.table(Some("figures.csv"), &HEADS, &rows(&table.rows))?;
    folder.section("Contradictions");
    folder.paragraph(&format!("{CONTRADICTIONS}."));
    folder.table(
        Some("contradictions.csv"),
        &HEADS,
        &rows(&table.contradictions),
    )?;
    folder.section("Trends");
    folder.table(Some("trends.csv"), &TREND_HEADS, &trends(&table.trends))?;
    folder.section("Plots");
    for (name, plot) in plots(table) {
        folder.plot(name, &plot)?;
    }
    folder.section("All measurements");
    let parts = [
        ("frame rate", &table.rates),
        ("interval, 1 to 3 batches", &table.intervals),
        ("interval, 1 to ⌈T/τ⌉ batches", &table.literally),
    ];
    let all = parts.iter().flat_map(|(part, cases)| {
        cases.iter().map(move |case| {
            let values = quantities::ALL.iter().map(|quantity| {
                let value = quantity.of(&case.summary);
                value.map_or("–".to_owned(), |value| format!("{value:.3}"))
            });
            [(*part).to_owned(), case.name.clone()]
                .into_iter()
                .chain(values)
                .collect()
        })
    });
    let names = quantities::ALL.iter().map(|quantity| quantity.name);
    let heads: Vec<&str> = ["sweep", "case"].into_iter().chain(names).collect();
    folder.csv("cases.csv", &heads, &all.collect::<Vec<Vec<String>>>())?;
    folder.paragraph(
        "All quantities of all cases are in cases.csv, and with their intervals in wifi.json.",
    );
    folder.add_data("paper", as_json(table));
    Ok(())
}

fn as_json(table: &Table) -> Value {
    let row = |row: &Row| {
        json!({
            "place": row.place, "what": row.what, "unit": row.unit, "paper": row.paper,
            "mean": row.ours.mean, "ci95": row.ours.half, "error": row.error(),
            "judged": row.tolerance != Tolerance::Reported, "within": row.is_within(),
        })
    };
    let trend = |trend: &Trend| {
        json!({
            "place": trend.place, "what": trend.what, "values": trend.values, "holds": trend.holds,
        })
    };
    let cases = |cases: &[Case]| -> Vec<Value> {
        let of =
            |case: &Case| json!({"name": case.name, "values": quantities::as_json(&case.summary)});
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

fn parameters() -> Vec<Vec<String>> {
    let setup = Setup::paper();
    let access = setup.edca.access_point[2];
    let radio = setup.radio;
    let all = [
        ("band", "5 GHz".to_owned()),
        ("channel width", format!("{} MHz", radio.width)),
        ("MCS", radio.mcs.to_string()),
        ("spatial streams", radio.streams.to_string()),
        ("AIFS", "34 µs".to_owned()),
        (
            "CWmin, CWmax",
            format!("{}, {}", access.cw_min, access.cw_max),
        ),
        ("max A-MPDU", format!("{} packets", setup.max_ampdu)),
        ("max retransmissions", setup.retry_limit.to_string()),
        ("PER", "0.1".to_owned()),
        (
            "AP buffer",
            format!("{} packets", setup.access_point_buffer),
        ),
        ("client buffer", format!("{} packets", setup.station_buffer)),
        ("packet", format!("{} bytes", paper::PACKET)),
    ];
    all.into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect()
}

fn plots(table: &Table) -> [(&'static str, Boxes); 4] {
    type Of = fn(&Summary) -> Option<study::Spread>;
    let boxes = |title: &str, y: &str, tail: f64, cases: &[Case], of: Of, place: &str| {
        let names = cases.iter().map(|case| case.name.clone());
        let rows = table.rows.iter().filter(|row| row.place == place);
        let spreads = names
            .zip(cases)
            .zip(rows)
            .filter_map(|((name, case), row)| {
                let spread = of(&case.summary)?;
                Some(Spread {
                    name,
                    quantiles: [0.05, 0.25, 0.5, 0.75, 0.95].map(|share| spread.at(share)),
                    mean: spread.mean.mean,
                    tail: spread.at(tail),
                    reference: Some(row.paper),
                })
            });
        Boxes {
            title: title.to_owned(),
            y: y.to_owned(),
            tail: format!("{} %", tail * 100.0),
            reference: "the paper".to_owned(),
            boxes: spreads.collect(),
        }
    };
    [
        (
            "figure-19.svg",
            boxes(
                "Figure 19: packet delay from the access point's queue",
                "ms",
                0.9999,
                &table.rates,
                |s| s.packets_from_queue,
                "fig. 19",
            ),
        ),
        (
            "figure-20.svg",
            boxes(
                "Figure 20: delivered packets of an A-MPDU",
                "packets",
                0.9999,
                &table.rates,
                |s| s.delivered,
                "fig. 20",
            ),
        ),
        (
            "figure-21.svg",
            boxes(
                "Figure 21: packet delay from the server, 60 frames/s",
                "ms",
                0.99,
                &table.intervals,
                |s| s.packets,
                "fig. 21",
            ),
        ),
        (
            "figure-22.svg",
            boxes(
                "Figure 22: frame delay, 60 frames/s",
                "ms",
                0.99,
                &table.intervals,
                |s| s.frames,
                "fig. 22",
            ),
        ),
    ]
}
