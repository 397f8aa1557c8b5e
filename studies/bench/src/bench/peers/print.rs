//! The results of `openuvr bench peers`, as text for users.

use std::collections::BTreeMap;

use openuvr_terminal::wrap::wrapped;
use openuvr_testbed::stats::{Range, Summary};

use super::figures::{Figures, INTACT_DB};
use super::{Output, Row};
use crate::bench::case::Compared;

pub(super) fn print(found: &Output) {
    let rows = &found.report.ways;
    found.report.head.print("peers", "");
    heads("over the loopback device");
    for row in rows {
        match (&row.skipped, &row.failed, &row.direct) {
            (Some(what), ..) => print_wrapped(row.name, &format!("skipped: {what}")),
            (_, Some(why), _) => print_wrapped(row.name, &format!("failed: {}", first_line(why))),
            (_, _, Some(figures)) => line(row, figures),
            (_, _, None) => println!("{:<17} not requested", row.name),
        }
    }
    if let Some(floor) = &found.floor {
        let Range {
            median, min, max, ..
        } = floor.p50_ms;
        let p50 = format!("{median:.2} ({min:.1}-{max:.1})");
        println!("{:<17} {p50:>19} {:>6.1}", "floor", floor.p99_ms.median);
    }
    if rows.iter().any(|row| row.loss.is_some()) {
        heads("over a link with 1 % loss and 2 ms of delay each way");
        for row in rows {
            if let Some(figures) = &row.loss {
                line(row, figures);
            }
        }
        let late = rows
            .iter()
            .filter_map(|row| row.loss.as_ref()?.link_late_ms);
        if let Some(late) = late.reduce(f64::max) {
            println!("p99 of the emulated link's own lateness, in the worst run: {late:.2} ms");
        }
    }
    if let Some(own) = Summary::of(&found.own_reaction_ms) {
        println!(
            "\nkey: p50 of the time from a key press to its effect (on the scene's own display: {:.1} ms)",
            own.p50
        );
    }
    println!("intact: share of the compared pictures that have a PSNR of {INTACT_DB} dB or more");
    for row in rows {
        for figures in [&row.direct, &row.loss].into_iter().flatten() {
            not_intact(row.name, figures);
        }
    }
    for row in rows {
        if let Some(figures) = &row.direct {
            steps(row.name, figures);
        }
    }
    println!();
    for verdict in &found.verdicts {
        println!("{}", verdict.line());
    }
    for row in rows {
        print_wrapped(row.name, row.what);
        for version in &row.versions {
            println!("{:<17} {version}", "");
        }
    }
}

fn heads(what: &str) {
    println!("\n{what}");
    println!(
        "{:<17} {:>19} {:>6} {:>6} {:>6} {:>7} {:>11} {:>6} {:>6}",
        "", "p50 ms (range)", "p99", "seen/s", "intact", "Mb/s", "cores", "PSNR", "key ms"
    );
}

fn line(row: &Row, figures: &Figures) {
    let median = |range: &Option<Range>, digits: usize| {
        let median = range.as_ref().map(|range| range.median);
        median.map_or("-".to_owned(), |median| format!("{median:.digits$}"))
    };
    let p50 = figures
        .p50_ms
        .as_ref()
        .map_or("nothing came".to_owned(), |range| {
            let Range {
                median, min, max, ..
            } = range;
            format!("{median:.2} ({min:.1}-{max:.1})")
        });
    let intact = figures
        .intact
        .map_or("-".to_owned(), |part| format!("{:.0} %", part * 100.0));
    let cores = [&figures.sender_cores, &figures.receiver_cores].map(|cores| median(cores, 2));
    let key = match figures.reaction_ms {
        Some(reaction) => format!("{:.1}", reaction.p50),
        None if row.takes_input => "unseen".to_owned(),
        None => "none".to_owned(),
    };
    println!(
        "{:<17} {p50:>19} {:>6} {:>6} {intact:>6} {:>7} {:>11} {:>6} {key:>6}",
        row.name,
        median(&figures.p99_ms, 1),
        median(&figures.seen_fps, 1),
        median(&figures.wire_mbps, 2),
        cores.join(" + "),
        figures
            .psnr_db
            .map_or("-".to_owned(), |psnr| format!("{:.1}", psnr.p50)),
    );
}

/// Prints how long each step of a frame takes, if this is known.
fn steps(name: &str, figures: &Figures) {
    if !figures.steps.is_empty() {
        println!("\n{name}: duration of each step, medians of the runs, ms");
    }
    for step in &figures.steps {
        println!(
            "{:<40} p50 {:>6.2}  p99 {:>6.2}",
            step.name, step.p50_ms.median, step.p99_ms.median
        );
    }
}

/// Prints the record's data about the pictures that are not intact. Such a picture is damaged, or complete but coarse.
fn not_intact(name: &str, figures: &Figures) {
    let pictures = &figures.not_intact;
    if pictures.is_empty() {
        return;
    }
    let mut outcomes = BTreeMap::<&str, usize>::new();
    for picture in pictures {
        let outcome = picture.outcome.as_deref().unwrap_or("not in the record");
        *outcomes.entry(outcome).or_default() += 1;
    }
    let outcomes = outcomes
        .iter()
        .map(|(what, count)| format!("{count} {what}"));
    let of = |of: fn(&Compared) -> f64| Summary::of(&pictures.iter().map(of).collect::<Vec<_>>());
    let (psnr, bytes) = (of(|p| p.psnr_db), of(|p| p.wire_bytes as f64));
    let median = |summary: Option<Summary>| summary.map_or(0.0, |summary| summary.p50);
    let text = format!(
        "{} of {} not intact: {}; medians: PSNR {:.1} dB, {:.0} bytes sent",
        pictures.len(),
        figures.compared,
        outcomes.collect::<Vec<_>>().join(", "),
        median(psnr),
        median(bytes),
    );
    print_wrapped(name, &text);
}

/// Prints the name of a program, followed by wrapped text.
fn print_wrapped(name: &str, text: &str) {
    let mut name = name;
    for line in wrapped(text, 80) {
        println!("{name:<17} {line}");
        name = "";
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
