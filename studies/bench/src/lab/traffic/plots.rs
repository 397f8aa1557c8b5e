//! What was found as plots, with the study's figures as lines.

use anyhow::Result;
use openuvr_lab::traffic::distribution::Distribution;
use openuvr_lab::traffic::join::JoinedCaptures;
use openuvr_lab::traffic::paper;
use openuvr_lab::traffic::video::Video;
use openuvr_lab::wifi::Direction;

use super::super::folder::Folder;
use super::tables::{MS, way_name};
use super::{Capture, file};
use crate::bench::plot::{Lines, Point, Series};

/// Steps of a curve.
const STEPS: u32 = 100;

/// Times from a microsecond on, each ten times the one before.
const TIMES: [&str; 8] = [
    "1 µs", "10 µs", "0.1 ms", "1 ms", "10 ms", "0.1 s", "1 s", "10 s",
];

/// The plots of one capture.
pub(super) fn capture(folder: &mut Folder, capture: &Capture, is_one_of_two: bool) -> Result<()> {
    folder.section("Plots");
    let analysis = &capture.analysis;
    let mut plot =
        |name: &str, plot: &Lines| folder.plot(&file(name, capture, is_one_of_two), plot);
    let ways = [Direction::Down, Direction::Up]
        .into_iter()
        .zip(&analysis.directions);
    let gaps = ways.filter_map(|(way, direction)| {
        let gaps = &direction.as_ref()?.gaps;
        Some(curve(way_name(way), gaps, &microseconds))
    });
    plot(
        "packet-interval.svg",
        &times(
            "From packet to packet, all streams (figure 6)",
            gaps.collect(),
        ),
    )?;
    let streams = analysis
        .streams
        .iter()
        .filter(|found| found.direction == Some(Direction::Down));
    let gaps = streams.map(|found| curve(&found.name(), &found.stream.gaps, &microseconds));
    plot(
        "stream-interval.svg",
        &times(
            "From packet to packet, streams down (figure 8)",
            gaps.take(7).collect(),
        ),
    )?;
    let aggregates = analysis.directions[0].as_ref();
    if let Some(direction) = aggregates {
        let mut series = vec![curve("packets down", &direction.aggregates, &plain)];
        if let Some(rate) = rate(capture) {
            series.push(study(rate.aggregate));
        }
        plot(
            "at-once.svg",
            &shares("Packets that come at once (figure 18)", "packets", series),
        )?;
    }
    if let Some((found, video)) = analysis.main_video() {
        plot(
            "video-packet-size.svg",
            &shares(
                "Size of video packets (figure 9a)",
                "bytes on Ethernet",
                vec![
                    curve("packets", &found.stream.sizes, &plain),
                    study(paper::TABLE_3[2].bytes),
                ],
            ),
        )?;
        for (name, lines) in video_plots(video, rate(capture)) {
            plot(name, &lines)?;
        }
    }
    Ok(())
}

/// What the study says of such a frame rate.
fn rate(capture: &Capture) -> Option<&'static paper::Rate> {
    let (_, video) = capture.analysis.main_video()?;
    let interval = video.frames.as_ref()?.interval_ns.mean()?;
    paper::nearest(1e9 / interval)
}

fn video_plots(video: &Video, rate: Option<&paper::Rate>) -> Vec<(&'static str, Lines)> {
    let with = |of: &Distribution, name: &str, scale: f64, reference: Option<f64>| {
        let mut series = vec![curve(name, of, &|value| value as f64 / scale)];
        series.extend(reference.map(study));
        series
    };
    let mut all = vec![
        (
            "batch-interval.svg",
            shares(
                "From batch to batch (section 6.3)",
                "ms",
                with(
                    &video.batch_interval_ns,
                    "batches",
                    MS,
                    Some(paper::INTERVAL),
                ),
            ),
        ),
        ("batch-packets.svg", slots(video)),
    ];
    if let Some(frames) = &video.frames {
        let of = |what: fn(&paper::Rate) -> f64| rate.map(what);
        all.extend([
            (
                "frame-size.svg",
                shares(
                    "Size of frames (figure 10a)",
                    "kB",
                    with(&frames.bytes, "frames", 1e3, of(|rate| rate.frame_kb)),
                ),
            ),
            (
                "frame-interval.svg",
                shares(
                    "From frame to frame (figure 10b)",
                    "ms",
                    with(&frames.interval_ns, "frames", MS, of(|rate| 1e3 / rate.fps)),
                ),
            ),
            (
                "frame-batches.svg",
                shares(
                    "Batches of a frame (figure 12)",
                    "batches",
                    with(&frames.batches, "frames", 1.0, of(|rate| rate.batches)),
                ),
            ),
            (
                "assembly.svg",
                shares(
                    "From a frame's first packet to its last (figure 15c)",
                    "ms",
                    with(&frames.assembly_ns, "frames", MS, of(|rate| rate.assembly)),
                ),
            ),
        ]);
    }
    let mut jitter = vec![curve(
        "each packet (RFC 3550)",
        &video.jitter_ns,
        &milliseconds,
    )];
    if video.frames.is_some() {
        jitter.push(curve(
            "once a frame (libwebrtc)",
            &video.frame_jitter_ns,
            &milliseconds,
        ));
        jitter.extend(rate.map(|rate| study(rate.jitter)));
    }
    all.push(("jitter.svg", shares("Jitter (figure 15b)", "ms", jitter)));
    all
}

/// How many packets the usual intervals of batches have, idle ones with them.
fn slots(video: &Video) -> Lines {
    let idle = video.idle().map_or(0.0, |(_, share)| share);
    let mut packets = curve("packets", &video.batch_packets, &plain);
    for point in &mut packets.points {
        point.y = 100.0 * idle + point.y * (1.0 - idle);
    }
    let begin = Point {
        x: 0.0,
        y: 100.0 * idle,
        range: None,
    };
    packets.points.insert(0, begin);
    let interval = video.usual_interval().map_or(0.0, |ns| ns / MS);
    let title = format!("Video packets every {interval:.2} ms (figure 13)");
    shares(&title, "packets", vec![packets])
}

/// What both captures say together.
pub(super) fn joined(folder: &mut Folder, joined: &JoinedCaptures) -> Result<()> {
    let series = vec![
        curve("packets down", &joined.down.delay_ns, &milliseconds),
        curve("packets up", &joined.up.delay_ns, &milliseconds),
        curve("frames down", &joined.frame_ns, &milliseconds),
    ];
    folder.plot(
        "delay.svg",
        &shares(
            "There within so long",
            "ms from one end to the other",
            series,
        ),
    )
}

/// The share of the values that is not above one; beyond 99.5 % the curve ends, so that one value does not
/// squeeze all others.
fn curve(name: &str, of: &Distribution, scale: &dyn Fn(u64) -> f64) -> Series {
    let points = (0..STEPS * 199 / 200).filter_map(|step| {
        let share = f64::from(step) / f64::from(STEPS) + 0.005;
        Some(Point {
            x: scale(of.quantile(share)?),
            y: 100.0 * share,
            range: None,
        })
    });
    Series {
        name: name.to_owned(),
        points: points.collect(),
    }
}

/// A line at the study's mean.
fn study(mean: f64) -> Series {
    let at = |y: f64| Point {
        x: mean,
        y,
        range: None,
    };
    Series {
        name: format!("mean of the study: {mean}"),
        points: vec![at(0.0), at(100.0)],
    }
}

fn plain(value: u64) -> f64 {
    value as f64
}

fn milliseconds(nanos: u64) -> f64 {
    nanos as f64 / MS
}

/// The place of a time among [`TIMES`].
fn microseconds(nanos: u64) -> f64 {
    (nanos as f64 / 1e3).max(1.0).log10()
}

fn times(title: &str, series: Vec<Series>) -> Lines {
    Lines {
        names: TIMES.map(str::to_owned).to_vec(),
        ..shares(title, "to the next packet", series)
    }
}

fn shares(title: &str, x: &str, series: Vec<Series>) -> Lines {
    Lines {
        title: title.to_owned(),
        x: x.to_owned(),
        y: "% of all".to_owned(),
        names: Vec::new(),
        series: series
            .into_iter()
            .filter(|series| !series.points.is_empty())
            .collect(),
    }
}
