//! What was found beside the study's figures.

use anyhow::Result;
use openuvr_lab::traffic::Analysis;
use openuvr_lab::traffic::join::JoinedCaptures;
use openuvr_lab::traffic::paper;
use openuvr_lab::traffic::video::Video;
use openuvr_lab::wifi::Direction;
use serde_json::{Value, json};

use super::super::folder::{Folder, print_table};
use super::tables::MS;
use super::{Capture, End};

/// A figure of the study and what this capture has in its place.
pub(super) struct Row {
    /// Where the study says it.
    place: &'static str,
    what: &'static str,
    unit: &'static str,
    study: f64,
    ours: f64,
    /// By how much it may be off, in its unit.
    tolerance: f64,
}

impl Row {
    fn is_within(&self) -> bool {
        (self.ours - self.study).abs() <= self.tolerance
    }
}

/// By how much a mean may be off and still be the same: the study's own trials of one game differ by
/// less, its three games by up to this (a guess with room).
const TOLERANCE: f64 = 0.15;

/// All that can be compared; what is captured at one end says nothing of the other.
pub(super) fn rows(captures: &[Capture], joined: Option<&JoinedCaptures>) -> Vec<Row> {
    let at = |end: End| captures.iter().find(|capture| capture.end == Some(end));
    let mut rows = Vec::new();
    let mut row = |place, what, unit, study: f64, ours: Option<f64>| {
        rows.extend(ours.map(|ours| Row {
            place,
            what,
            unit,
            study,
            ours,
            tolerance: study * TOLERANCE,
        }));
    };
    if let Some(any) = captures.first() {
        let (down, video) = loads(&any.analysis);
        row("section 5.2", "of the load, down", "%", paper::DOWN, down);
        row(
            "section 5.2",
            "of what goes down, video",
            "%",
            paper::VIDEO,
            video,
        );
    }
    if let Some((found, video)) = at(End::Server).and_then(|capture| capture.analysis.main_video())
    {
        let close = found
            .stream
            .gaps
            .share_below(MICROSECONDS)
            .map(|share| share * 100.0);
        row(
            "section 6.1",
            "video packets microseconds behind another",
            "%",
            paper::MICROSECONDS,
            close,
        );
        let interval = video.usual_interval().map(|ns| ns / MS);
        row(
            "section 6.3",
            "from batch to batch",
            "ms",
            paper::INTERVAL,
            interval,
        );
        if let Some((rate, frames)) = rate(video).zip(video.frames.as_ref()) {
            let ms = frames.interval_ns.mean().map(|ns| ns / MS);
            row("fig. 10b", "from frame to frame", "ms", 1e3 / rate.fps, ms);
            row(
                "fig. 12",
                "batches of a frame",
                "",
                rate.batches,
                frames.batches.mean(),
            );
            let idle = video.idle().map(|(_, share)| share * 100.0);
            row(
                "fig. 13",
                "intervals of batches without a packet",
                "%",
                rate.idle,
                idle,
            );
        }
    }
    if let Some(client) = at(End::Client) {
        client_rows(&client.analysis, &mut row);
    }
    if let Some(joined) = joined {
        let round_trip = joined.round_trip_ns.map(|ns| ns / MS);
        row(
            "fig. 15a",
            "round trip: median down and median up",
            "ms",
            paper::ROUND_TRIP,
            round_trip,
        );
        let down = &joined.down;
        let lost =
            (down.sent > 0).then(|| 100.0 * (down.sent - down.arrived) as f64 / down.sent as f64);
        rows.extend(lost.map(|lost| Row {
            place: "section 7.2",
            what: "packets lost on the way down",
            unit: "%",
            study: 0.0,
            ours: lost,
            tolerance: LOST,
        }));
    }
    rows
}

/// Gaps of "microsecond level": below this many nanoseconds.
const MICROSECONDS: u64 = 1_000_000;

/// What the study quotes from the ITU-T as the most that may be lost, percent.
const LOST: f64 = 0.001;

fn client_rows(
    analysis: &Analysis,
    row: &mut dyn FnMut(&'static str, &'static str, &'static str, f64, Option<f64>),
) {
    if let Some((_, video)) = analysis.main_video()
        && let Some((rate, frames)) = rate(video).zip(video.frames.as_ref())
    {
        let ms = |ns: Option<f64>| ns.map(|ns| ns / MS);
        row(
            "fig. 15b",
            "jitter, once a frame",
            "ms",
            rate.jitter,
            ms(video.frame_jitter_ns.mean()),
        );
        row(
            "fig. 15c",
            "assembly of a frame",
            "ms",
            rate.assembly,
            ms(frames.assembly_ns.mean()),
        );
        let aggregates = analysis.directions[0].as_ref();
        let mean = aggregates.and_then(|direction| direction.aggregates.mean());
        row(
            "fig. 18",
            "packets that arrive at once",
            "",
            rate.aggregate,
            mean,
        );
    }
    let down = analysis.directions[0].as_ref();
    let at_once = down.and_then(|direction| direction.at_once_percent());
    row(
        "fig. 16",
        "packets down that arrive with others",
        "%",
        paper::AT_ONCE.0,
        at_once,
    );
}

fn rate(video: &Video) -> Option<&'static paper::Rate> {
    paper::nearest(1e9 / video.frames.as_ref()?.interval_ns.mean()?)
}

/// The share of the load that goes down, and of that the share that is video, percent.
fn loads(analysis: &Analysis) -> (Option<f64>, Option<f64>) {
    let of = |is: &dyn Fn(&openuvr_lab::traffic::StreamFound) -> bool| {
        let streams = analysis.streams.iter().filter(|found| is(found));
        streams
            .map(openuvr_lab::traffic::StreamFound::bytes)
            .fold(0.0, |all, bytes| all + bytes)
    };
    let down = of(&|found| found.direction == Some(Direction::Down));
    let video = of(&|found| found.direction == Some(Direction::Down) && found.video.is_some());
    let all = of(&|found| found.direction.is_some());
    let percent = |part: f64, of: f64| (of > 0.0).then(|| 100.0 * part / of);
    (percent(down, all), percent(video, down))
}

const HEADS: [&str; 6] = ["place", "what", "study", "here", "unit", "verdict"];

/// The table of it, on page and terminal and in the data.
pub(super) fn show(folder: &mut Folder, captures: &[Capture], rows: &[Row]) -> Result<()> {
    folder.section("Beside the study");
    let cells = rows.iter().map(|row| {
        let verdict = match row.is_within() {
            true => "the same",
            false => "differs",
        };
        vec![
            row.place.to_owned(),
            row.what.to_owned(),
            format!("{:.2}", row.study),
            format!("{:.3}", row.ours),
            row.unit.to_owned(),
            verdict.to_owned(),
        ]
    });
    let cells: Vec<Vec<String>> = cells.collect();
    println!();
    print_table(&HEADS, &cells);
    folder.table(Some("study.csv"), &HEADS, &cells)?;
    folder.paragraph(&format!(
        "The same: within {:.0} % of the study's mean. What is not in the table can't be told from what was \
         captured: server-side figures need a capture there (--end server), client-side figures one \
         there, delays both. Frames decoded (figure 14) are in no capture.",
        TOLERANCE * 100.0
    ));
    let generated = captures
        .iter()
        .any(|capture| capture.analysis.is_generated());
    if generated {
        folder.paragraph(GENERATED);
        println!("{GENERATED}");
    }
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "place": row.place, "what": row.what, "unit": row.unit, "study": row.study,
                "ours": row.ours, "within": row.is_within(),
            })
        })
        .collect();
    folder.add_data("paper", json!({ "rows": rows }));
    Ok(())
}

const GENERATED: &str = "The capture was made by openuvr lab traffic --generate: it shows that the analysis is right, and \
                         nothing of any network.";
