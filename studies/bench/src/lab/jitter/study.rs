//! The study's output: a table on the terminal, CSV files, and the result file.

use std::path::Path;

use anyhow::Result;
use openuvr_lab::jitter::analysis::{Analysis, Outliers as OutlierStatistics, Rule};
use openuvr_lab::jitter::distribution::Summary;
use serde_json::{Value, json};

use super::conditions::Conditions;
use super::probe::Measured;
use crate::lab::folder::{Folder, print_table};
use crate::machine::QUIET;

const CELL_HEADS: [&str; 19] = [
    "cell",
    "samples",
    "max, µs",
    "mean, µs",
    "median, µs",
    "99 %, µs",
    "99.9 %, µs",
    "99.99 %, µs",
    "from intended: median, µs",
    "from intended: 99 %, µs",
    "from intended: 99.9 %, µs",
    "from intended: max, µs",
    "outliers > median + 2 sd",
    "in pauses",
    "by chance",
    "outliers by z-score",
    "threads",
    "other cores",
    "stolen cores",
];

/// The columns shown on the terminal.
const SHOWN: [usize; 10] = [0, 1, 2, 3, 4, 5, 6, 9, 11, 17];

/// Writes the folder, and prints the table of all cells.
pub(super) fn write(
    out: &Path,
    all: &[Measured],
    conditions: &Conditions,
    incomplete: &[String],
) -> Result<()> {
    let mut folder = Folder::make(out, "jitter")?;
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let heads = SHOWN.map(|at| CELL_HEADS[at]);
    let shown: Vec<Vec<String>> = (rows.iter())
        .map(|row| SHOWN.map(|at| row[at].clone()).to_vec())
        .collect();
    println!();
    print_table(&heads, &shown);
    println!("\n{}", meanwhile(all));
    folder.csv("cells.csv", &CELL_HEADS, rows)?;
    let named = all.iter().map(|cell| (cell.cell.as_str(), &cell.analysis));
    distributions(&folder, &named.collect::<Vec<_>>())?;
    folder.add_data("conditions", serde_json::to_value(conditions)?);
    folder.add_data("incomplete", json!(incomplete));
    folder.add_data("cells", all.iter().map(as_json).collect());
    folder.finish()
}

/// The data of the plots: complementary distributions, outliers, and the collector's pauses.
fn distributions(folder: &Folder, all: &[(&str, &Analysis)]) -> Result<()> {
    let tails = all.iter().flat_map(|(name, analysis)| {
        let clocks = [("sent", &analysis.sent), ("intended", &analysis.intended)];
        clocks.into_iter().flat_map(move |(clock, summary)| {
            summary.beyond.iter().map(move |(nanos, share)| {
                let numbers = [(nanos / 1e3).to_string(), share.to_string()];
                [(*name).to_owned(), clock.to_owned()]
                    .into_iter()
                    .chain(numbers)
                    .collect()
            })
        })
    });
    folder.csv(
        "tails.csv",
        &["cell", "clock", "latency_us", "share_longer"],
        tails,
    )?;
    let dots = all.iter().flat_map(|(name, analysis)| {
        let dots = analysis.scatter.iter();
        dots.map(move |(share, nanos)| {
            vec![
                (*name).to_owned(),
                share.to_string(),
                (nanos / 1e3).to_string(),
            ]
        })
    });
    folder.csv(
        "outliers.csv",
        &["cell", "share_of_test", "latency_us"],
        dots,
    )?;
    let pauses = all.iter().flat_map(|(name, analysis)| {
        analysis.pauses.iter().map(move |pause| {
            let full = u8::from(pause.full).to_string();
            vec![
                (*name).to_owned(),
                pause.from.to_string(),
                pause.to.to_string(),
                full,
            ]
        })
    });
    folder.csv(
        "pauses.csv",
        &["cell", "from_share", "to_share", "full"],
        pauses,
    )
}

/// Describes the machine's conditions during all cells, which may come from several runs.
fn meanwhile(all: &[Measured]) -> String {
    let range = |of: &dyn Fn(&Measured) -> f64| {
        let values = all.iter().map(of);
        values.fold((f64::MAX, 0.0_f64), |(least, most), value| {
            (least.min(value), most.max(value))
        })
    };
    let floor = range(&|cell| cell.conditions.floor.median / 1e3);
    let most = range(&|cell| cell.conditions.floor.max / 1e3).1;
    let loud = |cell: &&Measured| cell.other_cores > QUIET;
    format!(
        "While the {} cells were measured, the machine's wake-up latency was {:.0} to {:.0} µs (medians; max \
         {most:.0} µs), and during {} of them, other processes used more than {QUIET} cores (maximum: {:.2}).",
        all.len(),
        floor.0,
        floor.1,
        all.iter().filter(loud).count(),
        range(&|cell| cell.other_cores).1,
    )
}

fn row(cell: &Measured) -> Vec<String> {
    let analysis = &cell.analysis;
    let (sent, intended) = (&analysis.sent, &analysis.intended);
    let maybe = |value: Option<f64>| value.map_or("–".to_owned(), micros);
    let rule = |rule: Rule| analysis.outliers.iter().find(|found| found.rule == rule);
    let count = |found: Option<&OutlierStatistics>| {
        let share = |found: &OutlierStatistics| found.count as f64 / sent.count.max(1) as f64;
        found.map_or("–".to_owned(), |found| {
            format!("{} ({})", found.count, percent(Some(share(found))))
        })
    };
    let slides = rule(Rule::MedianAndTwoSd);
    let policies: Vec<String> = cell
        .policies
        .iter()
        .map(|(p, n)| format!("{n} {p}"))
        .collect();
    vec![
        cell.cell.clone(),
        sent.count.to_string(),
        micros(sent.max),
        micros(sent.mean),
        micros(sent.median),
        maybe(sent.p99),
        maybe(sent.p999),
        maybe(sent.p9999),
        micros(intended.median),
        maybe(intended.p99),
        maybe(intended.p999),
        micros(intended.max),
        count(slides),
        percent(slides.and_then(|found| found.in_pauses)),
        percent(slides.and_then(|found| found.by_chance)),
        count(rule(Rule::ModifiedZ)),
        policies.join(", "),
        format!("{:.2}", cell.other_cores),
        format!("{:.2}", cell.stolen_cores),
    ]
}

/// The cell without its large data, which CSV files contain.
fn as_json(cell: &Measured) -> Value {
    let mut value = json!(cell);
    if let Some(analysis) = value.get_mut("analysis") {
        without_long_data(analysis);
    }
    value
}

fn without_long_data(analysis: &mut Value) {
    let Some(analysis) = analysis.as_object_mut() else {
        return;
    };
    analysis.remove("scatter");
    analysis.remove("pauses");
    for clock in ["sent", "intended"] {
        if let Some(summary) = analysis.get_mut(clock).and_then(Value::as_object_mut) {
            summary.remove("beyond");
        }
    }
}

const FILE_HEADS: [&str; 9] = [
    "file",
    "clock",
    "samples",
    "max, µs",
    "mean, µs",
    "median, µs",
    "99 %, µs",
    "99.9 %, µs",
    "99.99 %, µs",
];

/// The table of the analysed files, with one row for each reference time.
fn file_rows(all: &[(String, Analysis)]) -> Vec<Vec<String>> {
    let row = |file: &str, clock: &str, summary: &Summary| {
        let maybe = |value: Option<f64>| value.map_or("–".to_owned(), micros);
        vec![
            file.to_owned(),
            clock.to_owned(),
            summary.count.to_string(),
            micros(summary.max),
            micros(summary.mean),
            micros(summary.median),
            maybe(summary.p99),
            maybe(summary.p999),
            maybe(summary.p9999),
        ]
    };
    let rows = all.iter().flat_map(|(file, analysis)| {
        [
            row(file, "received − sent", &analysis.sent),
            row("", "received − intended", &analysis.intended),
        ]
    });
    rows.collect()
}

const OUTLIER_HEADS: [&str; 7] = [
    "file",
    "rule",
    "above, µs",
    "outliers",
    "at the beginning",
    "in pauses",
    "by chance",
];

fn outlier_rows(all: &[(String, Analysis)]) -> Vec<Vec<String>> {
    let row = |file: &str, found: &OutlierStatistics| {
        let rule = match found.rule {
            Rule::MedianAndTwoSd => "median + 2 sd",
            Rule::ModifiedZ => "modified z-score",
        };
        vec![
            file.to_owned(),
            rule.to_owned(),
            micros(found.above),
            found.count.to_string(),
            found.at_the_beginning.to_string(),
            percent(found.in_pauses),
            percent(found.by_chance),
        ]
    };
    let of = |(file, analysis): &(String, Analysis)| -> Vec<Vec<String>> {
        analysis
            .outliers
            .iter()
            .map(|found| row(file, found))
            .collect()
    };
    all.iter().flat_map(of).collect()
}

pub(super) fn print_files(all: &[(String, Analysis)]) {
    print_table(&FILE_HEADS, &file_rows(all));
    println!();
    print_table(&OUTLIER_HEADS, &outlier_rows(all));
}

/// Writes the tables and the result file of analysed sample files.
pub(super) fn write_files(out: &Path, all: &[(String, Analysis)]) -> Result<()> {
    let mut folder = Folder::make(out, "samples")?;
    folder.csv("latency.csv", &FILE_HEADS, file_rows(all))?;
    folder.csv("outlier-rules.csv", &OUTLIER_HEADS, outlier_rows(all))?;
    let named = all.iter().map(|(file, analysis)| (file.as_str(), analysis));
    distributions(&folder, &named.collect::<Vec<_>>())?;
    let files = all.iter().map(|(file, analysis)| {
        let mut analysis = json!(analysis);
        without_long_data(&mut analysis);
        json!({"file": file, "analysis": analysis})
    });
    folder.add_data("files", files.collect());
    folder.finish()
}

/// Nanoseconds as microseconds with three significant digits or more.
fn micros(nanos: f64) -> String {
    let micros = nanos / 1e3;
    match micros {
        100.0.. => format!("{micros:.0}"),
        10.0.. => format!("{micros:.1}"),
        1.0.. => format!("{micros:.2}"),
        _ => format!("{micros:.3}"),
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or("–".to_owned(), |share| match share * 100.0 {
        percent @ 1.0.. => format!("{percent:.0} %"),
        percent => format!("{percent:.2} %"),
    })
}
