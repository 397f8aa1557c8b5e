//! The results of `openuvr lab wifi --paper` in the report: its table, and the verdicts on the
//! figures of the Unity Render Streaming study.

use serde_json::Value;

use super::data::{Data, list, number, words};
use super::html::{escaped, section, table};
use super::mark::{Claim, Mark};

/// The paper's number of runs and their duration in seconds.
const RUNS: f64 = 10.0;
const SECONDS: f64 = 10.0;

/// The study's claims, in the paper's order.
pub(super) const CLAIMS: [Claim; 5] = [
    (
        "Unity Render Streaming fig. 19",
        "Over Wi-Fi 6, video packets take 1.32, 1.20 and 1.12 ms at 30, 60 and 90 frames/s.",
        |data| judge(data, "fig. 19"),
        COMMAND,
    ),
    (
        "Unity Render Streaming fig. 20",
        "An A-MPDU has 13, 12 and 11 packets at 30, 60 and 90 frames/s.",
        |data| judge(data, "fig. 20"),
        COMMAND,
    ),
    (
        "Unity Render Streaming section 8.2.1",
        "The airtime rises from 16 % at 30 to 35 % at 90 frames/s.",
        airtime,
        COMMAND,
    ),
    (
        "Unity Render Streaming fig. 21",
        "The time between batches hardly changes packet delay: 1.30 to 1.68 ms.",
        |data| judge(data, "fig. 21"),
        COMMAND,
    ),
    (
        "Unity Render Streaming fig. 22",
        "Frames take 3.10 to 8.18 ms, the longer the farther their batches are apart.",
        |data| judge(data, "fig. 22"),
        COMMAND,
    ),
];

const COMMAND: &str = "lab wifi --paper";

/// Why the runs are insufficient, if they are.
fn too_little(data: &Data) -> Option<&'static str> {
    let enough = |at: &str, least: f64| number(&data.wifi, at).is_some_and(|is| is >= least);
    (!enough("/runs", RUNS) || !enough("/seconds", SECONDS))
        .then_some("fewer or shorter runs than the paper's: no verdict")
}

fn decided(data: &Data, mark: Mark, why: String) -> (Mark, String) {
    match too_little(data) {
        Some(doubt) => (Mark::Inconclusive, format!("{why}; {doubt}")),
        None => (mark, why),
    }
}

/// Whether the rows of a section are within their tolerances.
fn judge(data: &Data, place: &str) -> Option<(Mark, String)> {
    let rows = list(&data.wifi, "/paper/rows").iter();
    let rows: Vec<&Value> = rows.filter(|row| words(row, "/place") == place).collect();
    let value = |at: &str| {
        let values = rows.iter().filter_map(|row| number(row, at));
        values
            .map(|value| format!("{value:.2}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let within = |row: &&Value| row.pointer("/within").and_then(Value::as_bool) == Some(true);
    let inside = rows.iter().filter(|row| within(row)).count();
    let mark = match rows.len() {
        0 => return None,
        all if all == inside => Mark::Reproduced,
        _ if inside == 0 => Mark::NotReproduced,
        _ => Mark::Inconclusive,
    };
    let unit = rows.first().map_or("", |row| words(row, "/unit"));
    let why = format!(
        "{} {unit} in our model of the paper's network, {} {unit} in the paper; {inside} of {} within \
         the tolerance",
        value("/mean"),
        value("/paper"),
        rows.len()
    );
    Some(decided(data, mark, why))
}

/// The airtime's rise, which contradicts the paper's other figures.
fn airtime(data: &Data) -> Option<(Mark, String)> {
    let rows = list(&data.wifi, "/paper/contradictions").iter();
    let of = |what: &str| {
        let mut rows = rows.clone();
        rows.find(|row| words(row, "/what") == what)
            .and_then(|row| number(row, "/mean"))
    };
    let low = of("airtime both ways, 30 frames/s")?;
    let high = of("airtime both ways, 90 frames/s")?;
    let (rises, by) = (high > low, high / low);
    // The paper's airtime rises by a factor of 2.2; half of that would be inconclusive.
    let mark = match (rises, by) {
        (true, 1.8..) => Mark::Reproduced,
        (true, 1.5..) => Mark::Inconclusive,
        _ => Mark::NotReproduced,
    };
    let why = format!(
        "{low:.1} % and {high:.1} %, both ways together: {by:.2} times as much, not 2.2 times; packets in \
         an A-MPDU and batches a second, as the paper has them, allow no more"
    );
    Some(decided(data, mark, why))
}

/// The page's section.
pub(super) fn show(data: &Data, page: &mut String) {
    let rows = list(&data.wifi, "/paper/rows");
    if rows.is_empty() {
        return;
    }
    page.push_str(&section("Wi-Fi in the model"));
    let cell = |row: &Value, at: &str| number(row, at).map_or("–".into(), |n| format!("{n:.2}"));
    let cells = rows.iter().map(|row| {
        let unit = words(row, "/unit");
        vec![
            escaped(words(row, "/place")),
            escaped(words(row, "/what")),
            format!("{} {unit}", cell(row, "/paper")),
            format!("{} ± {} {unit}", cell(row, "/mean"), cell(row, "/ci95")),
            number(row, "/error").map_or("–".into(), |error| format!("{:+.1} %", error * 100.0)),
        ]
    });
    let heads = ["place", "what", "the paper", "our model", "apart"];
    page.push_str(&table(&heads, cells));
    page.push_str(
        "<p>From <code>openuvr lab wifi --paper</code>; its page has the plots and the \
         contradictions in the paper.</p>",
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::figures;
    use super::*;

    fn study(runs: u32, second: f64) -> Data {
        let row = |what: &str, paper: f64, mean: f64, within: bool| {
            json!({"place": "fig. 19", "what": what, "unit": "ms", "paper": paper, "mean": mean,
                "ci95": 0.01, "error": mean / paper - 1.0, "within": within})
        };
        let airtime = |fps: u32, mean: f64| {
            let what = format!("airtime both ways, {fps} frames/s");
            json!({"what": what, "mean": mean})
        };
        Data {
            wifi: json!({"runs": runs, "seconds": 10.0, "paper": {
                "rows": [
                    row("30", 1.32, 1.31, true),
                    row("60", 1.20, second, (second - 1.2_f64).abs() < 0.06),
                ],
                "contradictions": [airtime(30, 28.9), airtime(90, 31.9)],
            }}),
            ..Data::default()
        }
    }

    fn mark(data: &Data, place: &str) -> Mark {
        let name = format!("Unity Render Streaming {place}");
        let all = figures::all(data);
        all.iter().find(|figure| figure.name == name).unwrap().mark
    }

    #[test]
    fn figures_are_judged_by_their_rows() {
        assert_eq!(mark(&study(10, 1.21), "fig. 19"), Mark::Reproduced);
        assert_eq!(mark(&study(10, 1.5), "fig. 19"), Mark::Inconclusive);
        assert_eq!(mark(&study(2, 1.21), "fig. 19"), Mark::Inconclusive);
        assert_eq!(mark(&study(10, 1.21), "fig. 22"), Mark::NotMeasured);
        assert_eq!(mark(&study(10, 1.21), "section 8.2.1"), Mark::NotReproduced);
        assert_eq!(mark(&Data::default(), "section 8.2.1"), Mark::NotMeasured);
    }

    #[test]
    fn a_missing_run_names_its_command() {
        let all = figures::all(&Data::default());
        let of = |figure: &&figures::Figure| CLAIMS.iter().any(|claim| claim.0 == figure.name);
        let wifi = all.iter().filter(of);
        assert_eq!(wifi.clone().count(), CLAIMS.len());
        for figure in wifi {
            assert!(
                figure.why.contains("openuvr lab wifi --paper"),
                "{}",
                figure.why
            );
        }
    }

    #[test]
    fn the_page_has_their_table() {
        let mut page = String::new();
        show(&study(10, 1.21), &mut page);
        assert!(
            page.contains("1.31 ± 0.01 ms") && page.contains("-0.8 %"),
            "{page}"
        );
        show(&Data::default(), &mut String::new());
    }
}
