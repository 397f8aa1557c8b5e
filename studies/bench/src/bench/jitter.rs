//! The results of `openuvr lab jitter` in the report: its table, and the verdicts on the findings
//! of the SEARIS slides. Findings are compared as ratios, since the machines differ.

use serde_json::Value;

use super::data::{Data, list, number, words};
use super::html::{escaped, section, table};
use super::machine::QUIET;
use super::mark::{Claim, Mark, holds};

/// Minimum number of samples for a meaningful maximum: a tenth of the slides'.
const ENOUGH: f64 = 1e6;
const COMMAND: &str = "lab jitter";

/// The findings, in the order of the slides.
pub(super) const CLAIMS: [Claim; 7] = [
    (
        "SEARIS threads",
        "Between 16 pairs of C++ threads a message takes 35 µs (median, vanilla kernel).",
        threads,
        COMMAND,
    ),
    (
        "SEARIS C++ actors",
        "C++ actors take a tenth of what threads take (3.2 against 35.3 µs, median).",
        actors,
        COMMAND,
    ),
    (
        "SEARIS Akka",
        "Akka takes milliseconds (14.5 ms, median), far more than Java threads.",
        akka,
        COMMAND,
    ),
    (
        "SEARIS real-time kernel",
        "The RT patch makes outliers fewer, and the mean larger.",
        patch,
        COMMAND,
    ),
    (
        "SEARIS JVM and scheduler",
        "Spikes of the JVM are much higher than those of the scheduler (23 ms against 0.6 ms).",
        spikes,
        COMMAND,
    ),
    (
        "SEARIS SCHED_RR",
        "Under SCHED_RR the longest of CMS and Serial grow (63 to 212 ms, 385 to 717 ms), those of G1 and \
         Parallel do not (vanilla kernel).",
        round_robin,
        COMMAND,
    ),
    (
        "SEARIS collectors",
        "Collections are a dominant source of latency spikes, not the only one.",
        collections,
        COMMAND,
    ),
];

fn cell<'a>(data: &'a Data, name: &str) -> Option<&'a Value> {
    let cells = list(&data.jitter, "/cells").iter();
    let mut whole = cells.filter(|cell| cell.pointer("/error").is_none_or(Value::is_null));
    whole.find(|cell| words(cell, "/cell") == name)
}

/// A value of a cell's received − sent, µs.
fn micros(cell: &Value, what: &str) -> Option<f64> {
    Some(number(cell, &format!("/analysis/sent/{what}"))? / 1e3)
}

/// The mark, unless the measurement is insufficient.
fn decided(mark: Mark, why: String, cells: &[&Value]) -> (Mark, String) {
    let few = |cell: &&Value| number(cell, "/analysis/sent/count").unwrap_or(0.0) < ENOUGH;
    let loud = |cell: &&Value| number(cell, "/other_cores").unwrap_or(0.0) > QUIET;
    let doubt = match () {
        () if cells.iter().any(few) => "too few samples for a verdict",
        () if cells.iter().any(loud) => "the machine was not quiet",
        () => return (mark, why),
    };
    (Mark::Inconclusive, format!("{why}; {doubt}"))
}

/// Within a factor of 3, since processor and kernel differ.
fn threads(data: &Data) -> Option<(Mark, String)> {
    let ours = cell(data, "pthread/ping-pong/other")?;
    let median = micros(ours, "median")?;
    let mark = holds((35.3 / 3.0..35.3 * 3.0).contains(&median));
    let why = format!("{median:.1} µs, ping-pong; within a factor of 3 counts as the same");
    Some(decided(mark, why, &[ours]))
}

fn actors(data: &Data) -> Option<(Mark, String)> {
    let of = |runtime: &str, pattern: &str| cell(data, &format!("{runtime}/{pattern}/other"));
    let (caf, threads) = (of("caf", "ping-pong")?, of("pthread", "ping-pong")?);
    let (actor, thread) = (micros(caf, "median")?, micros(threads, "median")?);
    let mut why = format!("{actor:.2} against {thread:.1} µs, ping-pong");
    if let Some((caf, threads)) = of("caf", "paced").zip(of("pthread", "paced")) {
        let (actor, thread) = (micros(caf, "median")?, micros(threads, "median")?);
        why += &format!(
            "; paced, where workers sleep between messages, {actor:.1} against {thread:.1} µs"
        );
    }
    Some(decided(holds(actor * 3.0 <= thread), why, &[caf, threads]))
}

/// Ping-pong may hide the queueing delay that a flood shows.
fn akka(data: &Data) -> Option<(Mark, String)> {
    let (pekko, java) = (
        cell(data, "pekko/ping-pong/other/cms")?,
        cell(data, "java/ping-pong/other/g1")?,
    );
    let (actors, threads) = (micros(pekko, "median")?, micros(java, "median")?);
    let mut why = format!("{actors:.2} µs, and Java threads {threads:.1} µs, ping-pong");
    if let Some(flood) = cell(data, "pekko/flood/other/cms").and_then(|cell| micros(cell, "median"))
    {
        why += &format!("; flooded {:.1} ms, which is the queue", flood / 1e3);
    }
    Some(decided(
        holds(actors >= 1000.0 && actors > threads),
        why,
        &[pekko, java],
    ))
}

fn patch(data: &Data) -> Option<(Mark, String)> {
    if data.jitter.is_null() {
        return None;
    }
    let patched = data
        .jitter
        .pointer("/conditions/real_time_kernel")
        .and_then(Value::as_bool);
    let why = match patched {
        Some(true) => "a run with a vanilla kernel is needed, and a folder holds one kernel",
        _ => "this kernel has no RT patch",
    };
    Some((Mark::NotTestable, why.to_owned()))
}

fn spikes(data: &Data) -> Option<(Mark, String)> {
    let (java, threads) = (
        cell(data, "java/ping-pong/other/g1")?,
        cell(data, "pthread/ping-pong/other")?,
    );
    let (jvm, native) = (micros(java, "max")? / 1e3, micros(threads, "max")? / 1e3);
    let why = format!("the longest of Java threads {jvm:.1} ms, of C++ threads {native:.1} ms");
    Some(decided(holds(jvm >= 2.0 * native), why, &[java, threads]))
}

fn round_robin(data: &Data) -> Option<(Mark, String)> {
    let (mut alike, mut told, mut cells) = (0, Vec::new(), Vec::new());
    for (collector, grows) in [
        ("cms", true),
        ("g1", false),
        ("parallel", false),
        ("serial", true),
    ] {
        let of = |policy: &str| cell(data, &format!("pekko/ping-pong/{policy}/{collector}"));
        let (other, rr) = (of("other")?, of("rr")?);
        let (before, after) = (micros(other, "max")? / 1e3, micros(rr, "max")? / 1e3);
        alike += usize::from((after > before) == grows);
        told.push(format!("{collector} {before:.0} and {after:.0}"));
        cells.extend([other, rr]);
    }
    let mark = match alike {
        4 => Mark::Reproduced,
        0 | 1 => Mark::NotReproduced,
        _ => Mark::Inconclusive,
    };
    let why = format!(
        "the longest under OTHER and RR, ms: {}; {alike} of 4 as in the slides",
        told.join(", ")
    );
    Some(decided(mark, why, &cells))
}

/// Pauses explain more outliers than chance would, but not all.
fn collections(data: &Data) -> Option<(Mark, String)> {
    let (mut told, mut beyond, mut cells) = (Vec::new(), 0, Vec::new());
    for collector in ["cms", "g1", "parallel", "serial"] {
        let ours = cell(data, &format!("pekko/ping-pong/other/{collector}"))?;
        let of = |what: &str| Some(number(ours, &format!("/analysis/outliers/0/{what}"))? * 100.0);
        let (pauses, chance) = (of("in_pauses")?, of("by_chance")?);
        beyond += usize::from(pauses >= 2.0 * chance && pauses >= 10.0);
        told.push(format!("{collector} {pauses:.0} % ({chance:.0} %)"));
        cells.push(ours);
    }
    let mark = match beyond {
        3.. => Mark::Reproduced,
        0 => Mark::NotReproduced,
        _ => Mark::Inconclusive,
    };
    let why = format!("outliers in pauses (by chance): {}", told.join(", "));
    Some(decided(mark, why, &cells))
}

/// The page's section.
pub(super) fn show(data: &Data, page: &mut String) {
    let cells = list(&data.jitter, "/cells");
    if cells.is_empty() {
        return;
    }
    page.push_str(&section("Scheduling latency by runtime"));
    let rows = cells.iter().map(|cell| {
        let cell_of = |at: &str| {
            number(cell, at).map_or("–".to_owned(), |nanos| format!("{:.2}", nanos / 1e3))
        };
        vec![
            escaped(words(cell, "/cell")),
            number(cell, "/analysis/sent/count").map_or("–".into(), |count| count.to_string()),
            cell_of("/analysis/sent/median"),
            cell_of("/analysis/sent/p99"),
            cell_of("/analysis/sent/p999"),
            cell_of("/analysis/sent/max"),
            cell_of("/analysis/intended/p99"),
            cell_of("/analysis/intended/max"),
        ]
    });
    let heads = [
        "cell",
        "samples",
        "median, µs",
        "99 %, µs",
        "99.9 %, µs",
        "max, µs",
        "from intended: 99 %, µs",
        "max, µs",
    ];
    page.push_str(&table(&heads, rows));
    page.push_str("<p>From <code>openuvr lab jitter</code>; its page has plots and pauses.</p>");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::figures;
    use super::*;

    fn one(name: &str, median: f64, max: f64, shares: [f64; 2], count: f64) -> Value {
        json!({"cell": name, "other_cores": 0.0, "error": null, "analysis": {
            "sent": {"count": count, "median": median * 1e3, "max": max * 1e3},
            "intended": {},
            "outliers": [{"in_pauses": shares[0], "by_chance": shares[1]}],
        }})
    }

    fn study(count: f64, caf: f64) -> Data {
        let mut cells = vec![
            one("pthread/ping-pong/other", 30.0, 600.0, [0.0; 2], count),
            one("caf/ping-pong/other", caf, 600.0, [0.0; 2], count),
            one("java/ping-pong/other/g1", 31.0, 20_000.0, [0.4, 0.1], count),
        ];
        for collector in ["cms", "g1", "parallel", "serial"] {
            for (policy, max) in [("other", 60_000.0), ("rr", 200_000.0)] {
                let name = format!("pekko/ping-pong/{policy}/{collector}");
                cells.push(one(&name, 0.2, max, [0.5, 0.1], count));
            }
        }
        Data {
            jitter: json!({"cells": cells, "conditions": {"real_time_kernel": false}}),
            ..Data::default()
        }
    }

    fn mark(data: &Data, name: &str) -> Mark {
        let all = figures::all(data);
        let name = format!("SEARIS {name}");
        all.iter().find(|figure| figure.name == name).unwrap().mark
    }

    #[test]
    fn findings_are_judged_by_their_cells() {
        let data = study(1e7, 0.5);
        assert_eq!(mark(&data, "threads"), Mark::Reproduced);
        assert_eq!(mark(&data, "C++ actors"), Mark::Reproduced);
        assert_eq!(mark(&study(1e7, 29.0), "C++ actors"), Mark::NotReproduced);
        assert_eq!(mark(&data, "Akka"), Mark::NotReproduced);
        assert_eq!(mark(&data, "real-time kernel"), Mark::NotTestable);
        assert_eq!(mark(&data, "JVM and scheduler"), Mark::Reproduced);
        // All four grow; in the slides two do.
        assert_eq!(mark(&data, "SCHED_RR"), Mark::Inconclusive);
        assert_eq!(mark(&data, "collectors"), Mark::Reproduced);
    }

    #[test]
    fn few_samples_decide_nothing() {
        assert_eq!(mark(&study(16_000.0, 0.5), "threads"), Mark::Inconclusive);
        let nothing = Data::default();
        for (name, ..) in CLAIMS {
            let all = figures::all(&nothing);
            let figure = all.iter().find(|figure| figure.name == name).unwrap();
            assert_eq!(figure.mark, Mark::NotMeasured, "{name}");
            assert!(figure.why.contains("openuvr lab jitter"), "{}", figure.why);
        }
    }

    #[test]
    fn a_cell_that_is_not_whole_judges_nothing() {
        let mut data = study(1e7, 0.5);
        data.jitter["cells"][0]["error"] = "the probe died".into();
        assert_eq!(mark(&data, "threads"), Mark::NotMeasured);
    }

    #[test]
    fn the_page_lists_all_cells() {
        let mut page = String::new();
        show(&study(1e7, 0.5), &mut page);
        assert!(page.contains("pekko/ping-pong/rr/serial"), "{page}");
    }
}
