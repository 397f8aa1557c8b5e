//! The host's record of each frame, joined with the sightings.
//!
//! A bar code contains the application's frame number, and the stream has its own numbers. Sightings and rows are
//! therefore joined by time (host and client run on one machine with one clock): the window shows the picture that was
//! submitted last, and a picture is captured after it is drawn.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use openuvr_media::barcode;
use openuvr_proto::id::SubscriberId;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{Side, Stage};
use serde::Serialize;

use crate::reader::Sighting;
use crate::stats::Summary;

/// A row of the record.
#[derive(Clone, Debug)]
pub struct Row {
    /// The subscriber; `None` if it is not in the record.
    pub subscriber: Option<SubscriberId>,
    /// The frame's number in the stream.
    pub frame: u32,
    /// `complete`, `concealed`, `tainted`, `sent_unacknowledged`, or `dropped` with the stage and the reason.
    pub outcome: String,
    /// The time of each measured stage, in nanoseconds of `CLOCK_MONOTONIC`.
    at: BTreeMap<String, i64>,
    /// Bytes on the wire: the frame's datagrams with their IPv4 and UDP headers (20 + 8 bytes per datagram).
    pub wire_bytes: u64,
    /// Bound of the error of the client's clock relative to the host's, in nanoseconds.
    clock_bound: Option<i64>,
    /// Nanoseconds from the newest input to this frame, if this is the first frame that shows the input's effect.
    pub motion_to_photon: Option<i64>,
}

impl Row {
    /// When the frame passed a stage, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn at(&self, stage: &str) -> Option<i64> {
        self.at.get(stage).copied()
    }

    /// Whether the frame was displayed complete.
    pub fn is_whole(&self) -> bool {
        self.outcome == "complete"
    }

    /// Converts the client's timestamps to this machine's clock. `began` is the time at which the client's clock was 0.
    /// For an OpenUVR client on this machine, no conversion is needed.
    pub fn convert_to_our_clock(&mut self, began: Instant) {
        for stage in [
            "FirstReceived",
            "Recoverable",
            "Decoded",
            "Submitted",
            "Presented",
        ] {
            if let Some(at) = self.at.get_mut(stage) {
                *at += began.0;
            }
        }
    }

    /// Whether the subscriber is an OpenUVR client, not a browser, a video player or a Moonlight client. A row without
    /// a subscriber counts as a row of an OpenUVR client.
    pub fn belongs_to_session(&self) -> bool {
        self.subscriber.is_none_or(|id| id.session().is_some())
    }
}

/// The steps of a frame to an OpenUVR client. The names other than `drawn` and `visible` are stages. Some steps
/// overlap: the first slices are in transit while later slices are encoded.
pub const STEPS: [(&str, &str); 13] = [
    ("drawn", "Captured"),
    ("Captured", "Converted"),
    ("Converted", "FirstSlice"),
    ("FirstSlice", "Encoded"),
    ("Encoded", "LastSent"),
    ("Captured", "LastSent"),
    ("FirstSent", "FirstReceived"),
    ("FirstReceived", "Recoverable"),
    ("Encoded", "Recoverable"),
    ("Recoverable", "Decoded"),
    ("Decoded", "Submitted"),
    ("Captured", "Submitted"),
    ("Submitted", "visible"),
];

/// The steps of a frame to a browser's window. A page that draws the pictures with its own script does not report the
/// stage Recoverable.
pub const WINDOW_STEPS: [(&str, &str); 6] = [
    ("drawn", "Captured"),
    ("Captured", "LastSent"),
    ("LastSent", "Recoverable"),
    ("Recoverable", "Submitted"),
    ("LastSent", "Submitted"),
    ("Submitted", "visible"),
];

/// The steps of a frame to a Moonlight client, which reports no times.
pub const MOONLIGHT_STEPS: [(&str, &str); 5] = [
    ("drawn", "Captured"),
    ("Captured", "Encoded"),
    ("Encoded", "LastSent"),
    ("Captured", "LastSent"),
    ("LastSent", "visible"),
];

/// The stage at which an OpenXR application begins a frame.
const BEGUN: &str = "RenderBegun";

/// Stages outside of [`STEPS`]. A record may lack their columns.
const MORE_STAGES: [&str; 3] = [BEGUN, "InputReceived", "Presented"];

/// The steps of a frame of an OpenXR application.
const EYES_STEPS: [(&str, &str); 7] = [
    (BEGUN, "Captured"),
    ("Captured", "Encoded"),
    ("Encoded", "Recoverable"),
    ("Recoverable", "Decoded"),
    ("Decoded", "Submitted"),
    (BEGUN, "Submitted"),
    ("Submitted", "visible"),
];

/// Durations of the steps of an OpenXR application's frames, for complete stereo pictures that were read at the times
/// `seen`.
pub fn eyes_steps(record: &str, seen: &[Instant]) -> Result<Vec<Step>> {
    let rows = parse(record)?;
    let sightings = Vec::from_iter(seen.iter().map(|at| Sighting {
        frame: 0,
        // The bar code of a stereo picture contains the predicted display time, not the drawing time.
        drawn_us: 0,
        seen_us: barcode::micros(*at),
        inputs: 0,
    }));
    let joined = join(&sightings, &rows);
    Ok(these_steps(&EYES_STEPS, &sightings, &joined))
}

/// The duration of one step.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Step {
    /// The step's first stage.
    pub from: &'static str,
    /// The step's second stage.
    pub to: &'static str,
    /// The duration; 0 if the second stage came first. This can happen because stages overlap, and because two clocks
    /// agree only within the bound.
    pub ms: Summary,
    /// For a step from one side (host or client) to the other: the mean error bound of the clocks.
    pub bound_ms: Option<f64>,
}

impl Step {
    /// The error bound as text that follows a printed duration; empty if there is no bound.
    pub fn bound(&self) -> String {
        self.bound_ms
            .map_or_else(String::new, |bound| format!(" ±{bound:.2} ms"))
    }
}

/// The side whose clock stamps `place`, the first or second point of a step. `drawn` and `visible` are stamped by this
/// machine, which is also the host's machine.
fn side_of(place: &str) -> Side {
    let stage = Stage::ALL.iter().find(|stage| stage.name() == place);
    stage.map_or(Side::Host, |stage| stage.side())
}

/// Maximum time by which the reader of a display can be ahead of the thread that stamps Submitted.
const NOTED_LATE_NS: i64 = 1_000_000;

/// Reads the host's CSV.
pub fn parse(text: &str) -> Result<Vec<Row>> {
    const IP_AND_UDP: u64 = 28;
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| {
        names
            .iter()
            .position(|n| *n == name)
            .with_context(|| format!("the host's record has no column {name}"))
    };
    let (subscriber, frame) = (column("subscriber").ok(), column("frame")?);
    let (outcome, stage, cause) = (column("outcome")?, column("stage")?, column("cause")?);
    let (datagrams, bytes) = (column("datagrams")?, column("bytes")?);
    let motion_to_photon = column("motion_to_photon_ns")?;
    let clock_bound = column("clock_error_bound_ns").ok();
    let mut stages: Vec<(usize, &str)> = STEPS
        .iter()
        .flat_map(|(from, to)| [*from, *to])
        .filter(|name| *name != "drawn" && *name != "visible")
        .map(|name| Ok((column(&format!("{name}_ns"))?, name)))
        .collect::<Result<_>>()?;
    let more = MORE_STAGES.iter().copied();
    stages.extend(more.filter_map(|name| Some((column(&format!("{name}_ns")).ok()?, name))));
    let rows = lines.map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let text = |column: usize| fields.get(column).copied().unwrap_or("");
        let number = |column: usize| text(column).parse::<u64>().unwrap_or(0);
        let mut word = text(outcome).to_owned();
        if !text(cause).is_empty() {
            word = format!("{word} before {}: {}", text(stage), text(cause));
        }
        Row {
            subscriber: subscriber.and_then(|column| text(column).parse().ok()),
            frame: text(frame).parse().unwrap_or(0),
            outcome: word,
            at: stages
                .iter()
                .filter_map(|(column, name)| {
                    Some(((*name).to_owned(), text(*column).parse().ok()?))
                })
                .collect(),
            wire_bytes: number(bytes) + number(datagrams) * IP_AND_UDP,
            clock_bound: clock_bound.and_then(|column| text(column).parse().ok()),
            motion_to_photon: text(motion_to_photon).parse().ok(),
        }
    });
    Ok(rows.collect())
}

/// The durations from Captured to Submitted, in ms, for the complete frames that a page has shown and that were
/// captured within `window`. `began` is the time at which the page's clock was 0.
pub fn captured_to_submitted(
    record: &str,
    began: Instant,
    window: [Instant; 2],
) -> Result<Vec<f64>> {
    let mut rows = parse(record)?;
    rows.retain(Row::is_whole);
    let spans = rows.iter_mut().filter_map(|row| {
        row.convert_to_our_clock(began);
        let captured = row.at("Captured")?;
        let counts = (window[0].0..window[1].0).contains(&captured);
        let span = (row.at("Submitted")? - captured).max(0);
        counts.then_some(span as f64 / 1e6)
    });
    Ok(spans.collect())
}

/// The row of each sighting, if any.
pub fn join<'a>(sightings: &[Sighting], rows: &'a [Row]) -> Vec<Option<&'a Row>> {
    let mut shown: Vec<(i64, &Row)> = rows
        .iter()
        .filter_map(|row| Some((row.at("Submitted")?, row)))
        .collect();
    shown.sort_by_key(|(at, _)| *at);
    sightings
        .iter()
        .map(|sighting| {
            let seen = nanoseconds(sighting.seen_us) + NOTED_LATE_NS;
            let until = shown.partition_point(|(at, _)| *at <= seen);
            let (_, row) = shown[..until].last()?;
            // If the picture was drawn after this capture, the row belongs to an earlier picture, and this picture's
            // row is missing.
            (row.at("Captured")? >= nanoseconds(sighting.drawn_us)).then_some(*row)
        })
        .collect()
}

/// Like [`join`], but joins by capture time. It is needed if a picture may become visible only after the next picture
/// has been submitted: the last submitted picture is then not the visible one.
pub fn join_by_capture<'a>(sightings: &[Sighting], rows: &'a [Row]) -> Vec<Option<&'a Row>> {
    let captured = rows
        .iter()
        .filter_map(|row| Some((row.at("Captured")?, row)));
    let mut captured: Vec<(i64, &Row)> = captured.collect();
    captured.sort_by_key(|(at, _)| *at);
    let of = |sighting: &Sighting| {
        let drawn = nanoseconds(sighting.drawn_us);
        let before = captured.partition_point(|(at, _)| *at < drawn);
        captured.get(before).map(|(_, row)| *row)
    };
    sightings.iter().map(of).collect()
}

fn nanoseconds(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX / 1000) * 1000
}

/// Durations of each step for complete frames.
pub fn steps(sightings: &[Sighting], rows: &[Option<&Row>]) -> Vec<Step> {
    these_steps(&STEPS, sightings, rows)
}

/// Like [`steps`], for other steps.
pub fn these_steps(
    steps: &[(&'static str, &'static str)],
    sightings: &[Sighting],
    rows: &[Option<&Row>],
) -> Vec<Step> {
    let complete = rows.iter().map(|row| row.filter(|row| row.is_whole()));
    steps_of_all(steps, sightings, &Vec::from_iter(complete))
}

/// Like [`these_steps`], but for frames with any outcome. It is for clients that acknowledge no frames.
pub fn steps_of_all(
    steps: &[(&'static str, &'static str)],
    sightings: &[Sighting],
    rows: &[Option<&Row>],
) -> Vec<Step> {
    let at = |sighting: &Sighting, row: &Row, place: &str| match place {
        "drawn" => Some(sighting.drawn_us as f64 * 1e3),
        "visible" => Some(sighting.seen_us as f64 * 1e3),
        stage => row.at(stage).map(|ns| ns as f64),
    };
    let joined: Vec<(&Sighting, &Row)> = sightings
        .iter()
        .zip(rows)
        .filter_map(|(sighting, row)| Some((sighting, (*row)?)))
        .collect();
    steps
        .iter()
        .filter_map(|&(from, to)| {
            let took = |(s, row): &(&Sighting, &Row)| {
                let ms = (at(s, row, to)? - at(s, row, from)?) / 1e6;
                Some((ms.max(0.0), row.clock_bound.map(|ns| ns as f64 / 1e6)))
            };
            let (ms, bounds): (Vec<f64>, Vec<_>) = joined.iter().filter_map(took).unzip();
            let bounds: Vec<f64> = bounds.into_iter().flatten().collect();
            let crosses = side_of(from) != side_of(to) && !bounds.is_empty();
            Some(Step {
                from,
                to,
                ms: Summary::of(&ms)?,
                bound_ms: crosses.then(|| bounds.iter().sum::<f64>() / bounds.len() as f64),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "subscriber,frame,outcome,stage,cause,Captured_ns,Converted_ns,FirstSlice_ns,Encoded_ns,\
        FirstSent_ns,LastSent_ns,FirstReceived_ns,Recoverable_ns,Decoded_ns,Submitted_ns,clock_error_bound_ns,datagrams,bytes,\
        motion_to_photon_ns";

    fn row(frame: u32, outcome: &str, captured_us: i64, submitted_us: Option<i64>) -> String {
        let at = captured_us * 1000;
        let shown = submitted_us.map_or(String::new(), |us| (us * 1000).to_string());
        format!("1,{frame},{outcome},{at},{at},{at},{at},{at},{at},{at},{at},{at},{shown},,2,100,")
    }

    fn sighting(frame: u32, drawn_us: u64, seen_us: u64) -> Sighting {
        Sighting {
            frame,
            drawn_us,
            seen_us,
            inputs: 0,
        }
    }

    #[test]
    fn a_sighting_belongs_to_the_picture_shown_last() {
        let text = [
            HEADER.to_owned(),
            row(7, "complete,,", 11_000, Some(15_000)),
            row(8, "dropped,Encoded,Superseded", 28_000, None),
            // Reports may arrive in any order.
            row(10, "complete,,", 61_000, Some(66_200)),
            row(9, "tainted,,", 44_000, Some(49_000)),
        ]
        .join("\n");
        let rows = parse(&text).unwrap();
        assert_eq!(rows[1].outcome, "dropped before Encoded: Superseded");
        assert_eq!(rows[0].wire_bytes, 156);
        assert_eq!(rows[3].frame, 9);
        assert!(rows[0].belongs_to_session());
        let other = row(7, "sent_unacknowledged,,", 11_000, None).replacen("1,", "other-1,", 1);
        let other = parse(&format!("{HEADER}\n{other}")).unwrap();
        assert!(!other[0].belongs_to_session());
        let mut elsewhere = rows[0].clone();
        elsewhere.convert_to_our_clock(Instant(5));
        assert_eq!(elsewhere.at("Submitted"), Some(15_000_005));
        assert_eq!(elsewhere.at("Encoded"), rows[0].at("Encoded"));
        let sightings = [
            sighting(1, 2_000, 9_000),
            sighting(2, 10_000, 16_000),
            sighting(3, 43_000, 50_000),
            // The picture was read just before the client stamped it.
            sighting(4, 60_000, 66_000),
        ];
        let joined = join(&sightings, &rows);
        let outcomes: Vec<Option<&str>> = joined
            .iter()
            .map(|row| row.map(|row| row.outcome.as_str()))
            .collect();
        assert_eq!(
            outcomes,
            [None, Some("complete"), Some("tainted"), Some("complete")]
        );
        let steps = steps(&sightings, &joined);
        let first = &steps[0];
        assert_eq!(
            (first.from, first.to, first.ms.count, first.ms.max),
            ("drawn", "Captured", 2, 1.0)
        );
    }

    #[test]
    fn a_picture_seen_after_the_next_was_handed_over_is_its_own() {
        let text = [
            HEADER.to_owned(),
            row(8, "complete,,", 27_000, Some(31_000)),
            row(7, "complete,,", 11_000, Some(15_000)),
        ]
        .join("\n");
        let rows = parse(&text).unwrap();
        let sightings = [
            sighting(1, 10_000, 33_000),
            sighting(2, 26_000, 49_000),
            sighting(3, 42_000, 60_000),
        ];
        let joined = join_by_capture(&sightings, &rows);
        let frames = Vec::from_iter(joined.iter().map(|row| row.map(|row| row.frame)));
        assert_eq!(frames, [Some(7), Some(8), None]);
        let steps = these_steps(&WINDOW_STEPS, &sightings, &joined);
        let last = steps.last().unwrap();
        assert_eq!((last.to, last.ms.min, last.ms.max), ("visible", 18.0, 18.0));
    }

    /// The frame has arrived completely before the encoder's call returns.
    #[test]
    fn a_step_between_two_clocks_has_a_bound_and_is_never_negative() {
        let row = "1,7,complete,,,1000000,1000000,2000000,5000000,2000000,5000000,3000000,4100000,\
                   6000000,7000000,150000,2,100,";
        let rows = parse(&format!("{HEADER}\n{row}")).unwrap();
        let sightings = [sighting(1, 900, 7_500)];
        let joined = join(&sightings, &rows);
        let steps = steps(&sightings, &joined);
        let step = |from: &str, to: &str| {
            let found = steps.iter().find(|step| (step.from, step.to) == (from, to));
            let found = found.unwrap();
            (found.ms.p50, found.bound())
        };
        assert_eq!(
            step("Encoded", "Recoverable"),
            (0.0, " ±0.15 ms".to_owned())
        );
        assert_eq!(
            step("FirstSent", "FirstReceived"),
            (1.0, " ±0.15 ms".to_owned())
        );
        assert_eq!(step("Recoverable", "Decoded"), (1.9, String::new()));
    }

    #[test]
    fn a_record_without_a_needed_column_is_named() {
        let error = parse("session,frame,outcome\n1,2,complete").unwrap_err();
        assert!(error.to_string().contains("no column stage"), "{error}");
    }
}
