//! The parts of the page: for each bench a table, and plots where they tell more.

use std::fmt::Write as _;

use anyhow::Result;
use openuvr_testbed::stats::Summary;
use serde_json::Value;

use super::case::ratio;
use super::data::{Data, drawn, list, number, range, words};
use super::figures;
use super::html::{escaped, figure, section, table};
use super::mark::Mark;
use super::plot::{self, Lines, Point, Series, Stacked, Step, Waterfall};

pub(super) fn papers(data: &Data) -> String {
    let rows = figures::all(data).into_iter().map(|figure| {
        let class = match figure.mark {
            Mark::Reproduced => "yes",
            Mark::NotReproduced => "no",
            Mark::Inconclusive | Mark::NotTestable | Mark::NotMeasured => "open",
        };
        vec![
            escaped(figure.name).replace(' ', "&nbsp;"),
            escaped(figure.claim),
            format!("<span class={class}>{}</span>", figure.mark.words()),
            escaped(&figure.why),
        ]
    });
    let heads = ["figure", "what it claims", "here", "why"];
    section("The papers' figures") + &table(&heads, rows)
}

pub(super) fn latency(data: &Data, page: &mut String) -> Result<()> {
    if data.latency.is_empty() {
        return Ok(());
    }
    page.push_str(&section("Drawn to visible"));
    let cell = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
    let rows = data.latency.iter().map(|case| {
        let cores = number(case, "/stream/cores/host").zip(number(case, "/stream/cores/client"));
        vec![
            format!(
                "{} ({} at {})",
                escaped(words(case, "/setting/name")),
                escaped(words(case, "/setting/size")),
                escaped(words(case, "/setting/bitrate"))
            ),
            cell(number(case, "/floor/latency_ms/p50")),
            against(case, "/stream/latency_ms/p50", "p50_ms"),
            against(case, "/stream/latency_ms/p99", "p99_ms"),
            cell(number(case, "/codec/serial/p50")),
            cell(number(case, "/codec/pipelined/p50")),
            cell(pipeline(case)),
            cores.map_or("–".to_owned(), |(host, client)| {
                format!("{:.0} %", (host + client) * 100.0)
            }),
            against(case, "/stream/wire_mbps", "wire_mbps"),
            escaped(or_dash(words(case, "/stream/link"))),
            whole(case),
            drawn(case).map_or("–".to_owned(), |fps| format!("{fps:.1}")),
            cell(median(list(case, "/stream/psnr_db"))),
        ]
    });
    page.push_str(&table(
        &[
            "case",
            "floor p50, ms",
            "p50, ms",
            "p99, ms",
            "serial codec, ms",
            "pipelined, ms",
            "(end − floor) / serial",
            "host + client",
            "Mb/s",
            "link",
            "whole, of those drawn",
            "frames drawn/s",
            "luma PSNR, dB",
        ],
        rows,
    ));
    page.push_str("<p>In brackets: to pass / to aim at.</p>");
    let curves = data.latency.iter().map(|case| {
        let mut whole: Vec<f64> = list(case, "/stream/samples")
            .iter()
            .filter(|sample| words(sample, "/outcome") == "complete")
            .filter_map(|s| Some((number(s, "/seen_us")? - number(s, "/drawn_us")?) / 1000.0))
            .collect();
        whole.sort_by(f64::total_cmp);
        let count = whole.len().max(1) as f64;
        let points = whole.iter().enumerate().map(|(n, ms)| Point {
            x: *ms,
            y: (n + 1) as f64 / count * 100.0,
            range: None,
        });
        // A point for each half percent is more than a plot can show.
        let every = (whole.len() / 200).max(1);
        Series {
            name: words(case, "/setting/name").to_owned(),
            points: points.step_by(every).collect(),
        }
    });
    let lines = Lines {
        title: "Share of frames visible within a time".into(),
        x: "drawn to visible, ms".into(),
        y: "% of whole frames".into(),
        names: Vec::new(),
        series: curves.filter(|series| !series.points.is_empty()).collect(),
    };
    if !lines.series.is_empty() {
        page.push_str(&figure(&plot::svg(&lines)?));
    }
    Ok(())
}

/// What the pipeline is worth.
fn pipeline(case: &Value) -> Option<f64> {
    let floor = number(case, "/floor/latency_ms/p50")?;
    let serial = number(case, "/codec/serial/p50")?;
    Some(ratio(
        number(case, "/stream/latency_ms/p50")?,
        floor,
        serial,
    ))
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}

/// Frames displayed whole, of those drawn.
fn whole(case: &Value) -> String {
    let whole = number(case, "/stream/latency_ms/count");
    let drawn = number(case, "/stream/frames/drawn").filter(|drawn| *drawn > 0.0);
    whole.zip(drawn).map_or("–".to_owned(), |(whole, drawn)| {
        format!("{:.1} %", whole / drawn * 100.0)
    })
}

/// What was measured, and its targets in brackets.
fn against(case: &Value, at: &str, target: &str) -> String {
    let Some(measured) = number(case, at) else {
        return "–".to_owned();
    };
    let bound = |kind: &str| number(case, &format!("/setting/targets/{target}/{kind}"));
    match (bound("pass"), bound("aim")) {
        (None, _) => format!("{measured:.2}"),
        (Some(pass), None) => format!("{measured:.2} ({pass})"),
        (Some(pass), Some(aim)) => format!("{measured:.2} ({pass} / {aim})"),
    }
}

pub(super) fn ablation(data: &Data, page: &mut String) -> Result<()> {
    let all = &data.ablation;
    if all.is_null() {
        return Ok(());
    }
    page.push_str(&section("What each optimisation is worth"));
    let steps = list(all, "/cumulative").iter().filter_map(|row| {
        Some(Step {
            name: words(row, "/name").to_owned(),
            note: words(row, "/note").to_owned(),
            value: number(row, "/p50_ms/median")?,
            low: number(row, "/p50_ms/min")?,
            high: number(row, "/p50_ms/max")?,
        })
    });
    let waterfall = Waterfall {
        title: "Drawn to visible, one optimisation after the other".into(),
        subtitle: format!(
            "{} at {}, median and range; {} of {} s each",
            words(all, "/size"),
            words(all, "/bitrate"),
            plot::runs(number(all, "/repetitions").unwrap_or_default()),
            number(all, "/seconds").unwrap_or_default()
        ),
        unit: "ms".into(),
        floor: number(all, "/floor_ms/p50"),
        steps: steps.collect(),
    };
    if !waterfall.steps.is_empty() {
        page.push_str(&figure(&plot::svg(&waterfall)?));
    }
    for (title, at) in [
        ("Cumulative", "/cumulative"),
        ("Ours, leaving one out", "/leave_one_out"),
        ("Ours, with something else", "/alternatives"),
        ("Ours over a virtual cable", "/links"),
        ("Every core busy", "/busy"),
    ] {
        let rows = list(all, at).iter().map(|row| {
            let name = escaped(words(row, "/name"));
            if number(row, "/p50_ms/median").is_none() {
                let why = row.pointer("/unavailable").and_then(Value::as_str);
                let why = escaped(why.unwrap_or("not measured"));
                let dash = || "–".to_owned();
                return vec![name, dash(), dash(), dash(), dash(), dash(), why];
            }
            let worth = number(row, "/worth_ms").map_or(String::new(), |w| format!("{w:+.2}"));
            let note = match row.pointer("/clear").and_then(Value::as_bool) {
                Some(false) => "within the range of the runs",
                None if !worth.is_empty() => "one run",
                _ => "",
            };
            vec![
                name,
                range(row, "/p50_ms"),
                range(row, "/p99_ms"),
                number(row, "/runs").map_or("–".to_owned(), |runs| runs.to_string()),
                escaped(or_dash(words(row, "/link"))),
                worth,
                note.to_owned(),
            ]
        });
        let _ = write!(page, "<h3>{title}</h3>");
        let heads = [
            "",
            "p50, ms (range)",
            "p99, ms (range)",
            "runs",
            "link",
            "gained or worth, ms",
            "",
        ];
        page.push_str(&table(&heads, rows));
    }
    let bars = figures::breakdowns(data);
    if !bars.is_empty() {
        page.push_str(&section("Where the time goes"));
        page.push_str(&figure(&plot::svg(&Stacked {
            title: "Drawn to visible by stage, sums of medians".into(),
            unit: "ms".into(),
            bars,
        })?));
    }
    Ok(())
}

pub(super) fn sync(data: &Data, page: &mut String) {
    if data.sync.is_null() {
        return;
    }
    page.push_str(&section("Continuous and synchronous"));
    let rows = list(&data.sync, "/ways").iter().map(|row| {
        vec![
            escaped(words(row, "/name")),
            escaped(words(row, "/what")),
            range(row, "/p50_ms"),
            range(row, "/p99_ms"),
            range(row, "/drawn_fps"),
            range(row, "/cores"),
            number(row, "/psnr_db/p50").map_or("–".into(), |db| format!("{db:.1}")),
        ]
    });
    page.push_str(&table(
        &[
            "",
            "",
            "p50, ms",
            "p99, ms",
            "frames drawn/s",
            "cores",
            "luma PSNR, dB",
        ],
        rows,
    ));
}

pub(super) fn doors(data: &Data, page: &mut String) {
    if data.doors.is_null() {
        return;
    }
    page.push_str(&section("Ways in: what each costs viewer and application"));
    let rows = list(&data.doors, "/ways").iter().map(|row| {
        vec![
            escaped(words(row, "/name")),
            escaped(words(row, "/what")),
            range(row, "/p50_ms"),
            range(row, "/p99_ms"),
            range(row, "/cores"),
            range(row, "/frame_p50_ms"),
            range(row, "/unheld_fps"),
        ]
    });
    page.push_str(&table(
        &[
            "",
            "",
            "drawn to visible, p50, ms",
            "p99, ms",
            "cores",
            "the application's frame, p50, ms",
            "its frames/s, not held to a rate",
        ],
        rows,
    ));
}

pub(super) fn handoff(data: &Data, page: &mut String) {
    if data.handoff.is_null() {
        return;
    }
    page.push_str(&section("Hand-offs between threads, and sealing"));
    let micros = |name: String, us: &Value| {
        let count = number(us, "/count").map_or("–".to_owned(), |count| count.to_string());
        let mut row = vec![name, count];
        let values = ["/p50", "/p99", "/p999", "/max"].map(|at| number(us, at));
        row.extend(values.map(|v| v.map_or("–".into(), |v| format!("{v:.1}"))));
        row
    };
    let handoffs = list(&data.handoff, "/handoffs").iter().map(|cell| {
        let how = words(cell, "/how");
        let comma = if how.is_empty() { "" } else { ", " };
        let name = format!(
            "{}, {}{comma}{how}",
            words(cell, "/primitive"),
            words(cell, "/policy")
        );
        micros(escaped(&name), &cell["us"])
    });
    let sealing = list(&data.handoff, "/sealing_us")
        .iter()
        .zip(["1 slice", "8 slices"]);
    let sealing = sealing.map(|(us, how)| micros(format!("sealing 42 kB in {how}"), us));
    let heads = ["", "received", "p50, µs", "p99, µs", "p99.9, µs", "max, µs"];
    page.push_str(&table(&heads, handoffs.chain(sealing)));
    page.push_str("<p>Targets under FIFO: p99 10, p99.9 50; sealing 10.</p>");
    let cost =
        ["off", "sent", "woke"].map(|of| number(&data.handoff, &format!("/recording_ns/{of}")));
    if let [Some(off), Some(sent), Some(woke)] = cost {
        let _ = write!(
            page,
            "<p>Recording a hand-off takes {sent:.0} ns of who wakes and {woke:.0} ns of who is woken; \
             off {off:.1} ns.</p>"
        );
    }
}

pub(super) fn link(data: &Data, page: &mut String) {
    if data.link.is_empty() {
        return;
    }
    page.push_str(&section("On a bad link"));
    let rows = data.link.iter().map(|case| {
        let cell = |at: &str| number(case, at).map_or("–".to_owned(), |n| format!("{n:.1}"));
        vec![
            escaped(words(case, "/case")),
            cell("/whole_per_second"),
            cell("/longest_gap_ms"),
            cell("/latency_ms/p50"),
            cell("/latency_ms/p99"),
            cell("/wire_mbps"),
            cell("/narrow/settled_p99_ms"),
            cell("/narrow/back_after_s"),
        ]
    });
    let heads = [
        "case",
        "whole frames/s",
        "longest gap, ms",
        "p50, ms",
        "p99, ms",
        "Mb/s",
        "p99 settled, ms",
        "rate back after, s",
    ];
    page.push_str(&table(&heads, rows));
    page.push_str(
        "<p>Captured to submitted; `openuvr bench link --help` says what each case is.</p>",
    );
}

pub(super) fn quality(data: &Data, page: &mut String) -> Result<()> {
    if data.quality.is_empty() {
        return Ok(());
    }
    page.push_str(&section("Quality of what was displayed"));
    for plot in &data.quality {
        page.push_str(&figure(&plot::svg(&lines(plot))?));
    }
    Ok(())
}

/// A plot as `bench quality` writes it: a line of means, and one of the worst. Where places have
/// labels, they stand side by side in their order.
fn lines(plot: &Value) -> Lines {
    let mut series = Vec::new();
    let mut places: Vec<(f64, &str)> = list(plot, "/series")
        .iter()
        .flat_map(|one| list(one, "/points"))
        .filter_map(|p| Some((number(p, "/x")?, p.pointer("/label")?.as_str()?)))
        .collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    places.dedup_by_key(|place| place.0);
    let rank = |x: f64| {
        places
            .iter()
            .position(|place| place.0 == x)
            .map(|n| n as f64)
    };
    for one in list(plot, "/series") {
        let line = |at: &str, ranged: bool| -> Vec<Point> {
            let points = list(one, "/points").iter().filter_map(|p| {
                let x = number(p, "/x")?;
                Some(Point {
                    x: rank(x).unwrap_or(x),
                    y: number(p, at)?,
                    range: number(p, "/lo").zip(number(p, "/hi")).filter(|_| ranged),
                })
            });
            points.collect()
        };
        let (name, before) = (words(one, "/name"), series.len());
        let (means, worst) = (line("/mean", true), line("/worst", false));
        // Of a single batch, the worst is the only one.
        let tells = worst.iter().zip(&means).any(|(a, b)| a.y != b.y);
        for (points, name) in [
            (means, name.to_owned()),
            (worst, format!("{name}, worst batch")),
        ] {
            if !points.is_empty() && (tells || series.len() == before) {
                series.push(Series { name, points });
            }
        }
    }
    Lines {
        title: words(plot, "/title").to_owned(),
        x: words(plot, "/x").to_owned(),
        y: words(plot, "/y").to_owned(),
        names: places.iter().map(|place| place.1.to_owned()).collect(),
        series,
    }
}

/// The middle of a list of numbers.
fn median(all: &[Value]) -> Option<f64> {
    let all: Vec<f64> = all.iter().filter_map(Value::as_f64).collect();
    Summary::of(&all).map(|s| s.p50)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_quality_plot_has_lines_of_means_and_of_the_worst() {
        let plot = json!({"title": "PSNR", "x": "loss, %", "series": [{"name": "scene", "points": [
            {"x": 0.0, "mean": 40.0, "worst": 38.0, "lo": 39.0, "hi": 41.0},
            {"x": 1.0, "mean": 39.0},
        ]}]});
        let lines = lines(&plot);
        assert_eq!(lines.series.len(), 2);
        assert_eq!(lines.series[0].points.len(), 2);
        assert_eq!(lines.series[0].points[0].range, Some((39.0, 41.0)));
        assert_eq!(
            lines.series[1].points.len(),
            1,
            "a missing figure is no point"
        );
    }
}
