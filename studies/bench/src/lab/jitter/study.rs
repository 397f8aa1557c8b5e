//! The study's output for readers and for `openuvr bench report`: tables, plots, data, a page.

use std::path::Path;

use anyhow::Result;
use openuvr_lab::jitter::analysis::{Analysis, Outliers as OutlierStatistics, Rule};
use openuvr_lab::jitter::distribution::Summary;
use openuvr_lab::jitter::samples::Pattern;
use openuvr_lab::jitter::slides::{self, Row, RtComparison};
use serde_json::{Value, json};

use super::cells::{Policy, Runtime};
use super::conditions::Conditions;
use super::probe::Measured;
use crate::bench::machine::QUIET;
use crate::bench::plot::{Outliers, Tails};
use crate::lab::folder::{Folder, print_table};

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
    "99 %, µs",
    "99.9 %, µs",
    "max, µs",
    "outliers > median + 2 sd",
    "in pauses",
    "by chance",
    "outliers by z-score",
    "threads",
    "other cores",
    "stolen of them",
];

const SLIDE_HEADS: [&str; 8] = [
    "slides",
    "what",
    "max, RT",
    "max, vanilla",
    "mean, RT",
    "mean, vanilla",
    "median, RT",
    "median, vanilla",
];

/// Writes the folder, and prints the tables.
pub(super) fn write(
    out: &Path,
    all: &[Measured],
    conditions: &Conditions,
    incomplete: &[String],
) -> Result<()> {
    let how = "Message latency between threads or actors; times are received − sent \
               unless stated otherwise. Ping-pong and flood have no intended send times, so that \
               they miss the delay of late senders (coordinated omission); paced cells include it.";
    let mut folder = Folder::make(
        out,
        "Latency jitter: the SEARIS study again",
        "jitter.json",
        how,
    )?;
    folder.paragraph(&format!("The machine now: {}.", conditions.words()));
    folder.paragraph(&meanwhile(all));
    if all.iter().any(|cell| cell.quick) {
        folder.paragraph(
            "Some cells are from a quick run: a smoke test that does not count for verdicts.",
        );
    }
    for problem in incomplete {
        folder.paragraph(problem);
    }
    slides_table(
        &mut folder,
        "The slides: runtimes",
        "runtimes.csv",
        &slides::RUNTIMES,
        all,
    )?;
    slides_table(
        &mut folder,
        "The slides: collectors",
        "collectors.csv",
        &slides::COLLECTORS,
        all,
    )?;
    folder.section("All cells");
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    folder.table(Some("cells.csv"), &CELL_HEADS, &rows)?;
    println!("\nAll cells, µs:");
    let few = [0, 1, 2, 3, 4, 5, 6, 9, 11, 17];
    let short = |cells: &[String]| few.map(|at| cells[at].clone()).to_vec();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| short(row)).collect();
    let heads = [
        "cell",
        "samples",
        "max",
        "mean",
        "median",
        "99 %",
        "99.9 %",
        "intended 99 %",
        "intended max",
        "others",
    ];
    print_table(&heads, &rows);
    folder.section("Complementary distribution");
    for (name, plot) in tails(all) {
        folder.plot(&name, &plot)?;
    }
    folder.section("Outliers over time");
    folder.paragraph(
        "Samples above median + 2 standard deviations, as in the slides, over the collector's \
         pauses: green for the young generation and single phases, red for full collections.",
    );
    let shown = all.iter().filter(|cell| !cell.cell.contains("/paced/"));
    for cell in shown.filter(|cell| !cell.analysis.scatter.is_empty()) {
        let name = format!("outliers-{}.svg", cell.cell.replace('/', "-"));
        folder.plot(&name, &outliers(&cell.cell, &cell.analysis))?;
    }
    folder.add_data("conditions", serde_json::to_value(conditions)?);
    folder.add_data("incomplete", json!(incomplete));
    folder.add_data("cells", all.iter().map(as_json).collect());
    folder.finish()
}

/// The machine's conditions over all cells, which may come from several runs.
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
        "While the {} cells were measured its wake-up latency was {:.0} to {:.0} µs (medians; max {most:.0} µs), and during {} of them other processes used more than {QUIET} cores, {:.2} at most.",
        all.len(),
        floor.0,
        floor.1,
        all.iter().filter(loud).count(),
        range(&|cell| cell.other_cores).1,
    )
}

/// A table of the slides next to ours, printed and on the page.
fn slides_table(
    folder: &mut Folder,
    title: &str,
    file: &str,
    slides: &[Row],
    all: &[Measured],
) -> Result<()> {
    let rows: Vec<Vec<String>> = slides.iter().flat_map(|row| beside(row, all)).collect();
    println!("\n{title}, µs:");
    print_table(&SLIDE_HEADS, &rows);
    folder.section(title);
    folder.paragraph("µs. Ours are in the column of the kernel on which they were measured.");
    folder.table(Some(file), &SLIDE_HEADS, &rows)
}

/// The slides' row, and ours for each pattern that may correspond: the slides do not state whether
/// their senders waited.
fn beside(row: &Row, all: &[Measured]) -> Vec<Vec<String>> {
    let both = |both: &RtComparison| [micros(both.rt * 1e3), micros(both.vanilla * 1e3)];
    let [max, mean, median] = [&row.max, &row.mean, &row.median].map(both);
    let cells = [row.name.to_owned(), "theirs".to_owned()];
    let theirs = cells
        .into_iter()
        .chain(max)
        .chain(mean)
        .chain(median)
        .collect();
    let mut rows: Vec<Vec<String>> = vec![theirs];
    let Some([runtime, policy, collector]) = row.cell else {
        return rows;
    };
    for pattern in [Pattern::PingPong, Pattern::Flood] {
        let begins = format!("{runtime}/{}/{policy}", pattern.name());
        let found = all.iter().find(|cell| {
            cell.cell.starts_with(&begins)
                && (collector.is_empty() || cell.cell.ends_with(collector))
        });
        let Some(cell) = found else { continue };
        let ours = &cell.analysis.sent;
        let place = |value: f64| match cell.conditions.real_time_kernel {
            true => [micros(value), String::new()],
            false => [String::new(), micros(value)],
        };
        let [max, mean, median] = [ours.max, ours.mean, ours.median].map(place);
        let cells = [String::new(), format!("ours, {}", pattern.name())];
        rows.push(
            cells
                .into_iter()
                .chain(max)
                .chain(mean)
                .chain(median)
                .collect(),
        );
    }
    rows
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

/// One plot per pattern and policy, and one of the collectors under each.
fn tails(all: &[Measured]) -> Vec<(String, Tails)> {
    let mut plots = Vec::new();
    let mut add = |name: String, title: String, series: Vec<(String, Vec<(f64, f64)>)>| {
        if !series.is_empty() {
            plots.push((name, Tails { title, series }));
        }
    };
    for pattern in Pattern::ALL {
        for policy in Policy::ALL {
            let (pattern, policy) = (pattern.name(), policy.name());
            let of = |clock: fn(&Analysis) -> &Summary| {
                let lines = Runtime::ALL.iter().filter_map(|runtime| {
                    let begins = format!("{}/{pattern}/{policy}", runtime.name());
                    let is = |cell: &&Measured| {
                        cell.cell == begins || cell.cell == format!("{begins}/g1")
                    };
                    let cell = all.iter().find(is)?;
                    Some((
                        runtime.words().to_owned(),
                        clock(&cell.analysis).beyond.clone(),
                    ))
                });
                lines.collect::<Vec<_>>()
            };
            add(
                format!("tails-{pattern}-{policy}.svg"),
                format!("{pattern}, {}: received − sent", policy.to_uppercase()),
                of(|analysis| &analysis.sent),
            );
            if pattern == Pattern::Paced.name() {
                add(
                    format!("tails-{pattern}-{policy}-intended.svg"),
                    format!("{pattern}, {}: received − intended", policy.to_uppercase()),
                    of(|analysis| &analysis.intended),
                );
            }
            let begins = format!("pekko/{pattern}/{policy}/");
            let collectors: Vec<(String, Vec<(f64, f64)>)> = all
                .iter()
                .filter_map(|cell| {
                    let collector = cell.cell.strip_prefix(&begins)?;
                    Some((collector.to_owned(), cell.analysis.sent.beyond.clone()))
                })
                .collect();
            if collectors.len() > 1 {
                add(
                    format!("tails-collectors-{pattern}-{policy}.svg"),
                    format!("Pekko, {pattern}, {}, by collector", policy.to_uppercase()),
                    collectors,
                );
            }
        }
    }
    plots
}

fn outliers(title: &str, analysis: &Analysis) -> Outliers {
    let share = analysis.outliers.first().and_then(|found| {
        let (pauses, chance) = (found.in_pauses?, found.by_chance?);
        Some(format!(
            ": {} in pauses, {} by chance",
            percent(Some(pauses)),
            percent(Some(chance))
        ))
    });
    Outliers {
        title: format!("{title}{}", share.unwrap_or_default()),
        dots: analysis.scatter.clone(),
        pauses: analysis
            .pauses
            .iter()
            .map(|shade| (shade.from, shade.to, shade.full))
            .collect(),
    }
}

/// For `bench report`: without the data that only plots need.
fn as_json(cell: &Measured) -> Value {
    let mut value = json!(cell);
    if let Some(analysis) = value.get_mut("analysis").and_then(Value::as_object_mut) {
        analysis.remove("scatter");
        analysis.remove("pauses");
        for clock in ["sent", "intended"] {
            if let Some(summary) = analysis.get_mut(clock).and_then(Value::as_object_mut) {
                summary.remove("beyond");
            }
        }
    }
    value
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

/// The table of the analysed files, a row per reference time.
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

/// A page about files.
pub(super) fn write_files(out: &Path, all: &[(String, Analysis)]) -> Result<()> {
    let mut folder = Folder::make(
        out,
        "Latency jitter: samples",
        "samples.json",
        "Message latencies.",
    )?;
    folder.section("Latency");
    folder.table(Some("latency.csv"), &FILE_HEADS, &file_rows(all))?;
    folder.section("Outliers");
    folder.table(Some("outliers.csv"), &OUTLIER_HEADS, &outlier_rows(all))?;
    folder.section("Plots");
    let lines = all.iter().flat_map(|(file, analysis)| {
        [
            (format!("{file}, − sent"), analysis.sent.beyond.clone()),
            (
                format!("{file}, − intended"),
                analysis.intended.beyond.clone(),
            ),
        ]
    });
    let tails = Tails {
        title: "Complementary distribution of the samples".into(),
        series: lines.collect(),
    };
    folder.plot("tails.svg", &tails)?;
    for (number, (file, analysis)) in all.iter().enumerate() {
        folder.plot(
            &format!("outliers-{}.svg", number + 1),
            &outliers(file, analysis),
        )?;
    }
    let files = all
        .iter()
        .map(|(file, analysis)| json!({"file": file, "analysis": analysis}));
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
