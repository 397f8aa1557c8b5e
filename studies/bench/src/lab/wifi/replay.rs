//! Replays recorded packets over the modelled network.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use openuvr_lab::wifi::replay::Recording;
use openuvr_lab::wifi::scenario::Run;
use openuvr_lab::wifi::study::Summary;
use openuvr_lab::wifi::traffic::Departure;
use openuvr_lab::wifi::{Estimate, Nanos, SECOND, words};
use serde_json::json;

use super::RunSettings;
use super::quantities::{self, Quantity};
use crate::lab::folder::{Folder, print_table};

/// Time for the network to drain after the last packet.
const AFTER: Nanos = 2 * SECOND;

pub(super) fn run(
    settings: &RunSettings,
    text: &str,
    file: &Path,
    deadline: Duration,
    out: &Path,
) -> Result<ExitCode> {
    let scenario = words::parse(text)?;
    let recording = Recording::read(file)?;
    let mut folder = settings.folder(out)?;
    let (mut runs, mut sent) = (Vec::new(), Vec::new());
    for number in 0..u64::from(settings.repetition.runs) {
        if !settings.keep_going() {
            bail!("interrupted");
        }
        let seed = settings.repetition.seed.wrapping_add(number);
        let (run, departures) = recording.send(&scenario, AFTER, seed)?;
        runs.push(run);
        if sent.is_empty() {
            sent = departures;
        }
    }
    let description = describe(&recording);
    println!("{description}\n");
    let summary = Summary::of(&runs);
    let late = late(&runs, deadline);
    let deadline_words = format!("frames later than {deadline:?} or incomplete, %");
    let row = |quantity: &Quantity| {
        let value = quantity.of(&summary)?;
        Some(vec![quantity.words.to_owned(), format!("{value:.3}")])
    };
    let mut rows: Vec<Vec<String>> = quantities::ALL.iter().filter_map(row).collect();
    rows.extend(late.map(|late| vec![deadline_words, format!("{late:.3}")]));
    let heads = ["what", "mean"];
    print_table(&heads, &rows);
    folder.csv("table.csv", &heads, rows)?;
    packets(&folder, &sent, &runs)?;
    folder.add_data("values", quantities::as_json(&summary));
    folder.add_data(
        "recording",
        json!({
            "file": file.display().to_string(), "packets": recording.departures.len(), "stations": recording.stations,
            "frames": recording.frames, "skipped": recording.skipped, "merged": recording.merged,
            "late_percent": late.map(|late| late.mean),
        }),
    );
    folder.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn describe(recording: &Recording) -> String {
    let Recording {
        departures,
        stations,
        addresses,
        frames,
        skipped,
        merged,
    } = recording;
    let mut text = format!("{} packets of {stations} stations", departures.len());
    if let Some(server) = addresses.first() {
        text += &format!(", the server is {server}");
    }
    text += &match frames {
        0 => "; no video frames can be identified".to_owned(),
        frames => format!("; {frames} video frames"),
    };
    if *skipped > 0 {
        text += &format!(
            "; {skipped} packets skipped, because they are not UDP between the server and a station"
        );
    }
    if *merged > 0 {
        text += &format!(
            "; {merged} packets exceeded Ethernet's maximum size (segmentation offload) and were segmented"
        );
    }
    text
}

/// The share of late or incomplete frames, in percent.
fn late(runs: &[Run], deadline: Duration) -> Option<Estimate> {
    let of = |run: &Run| {
        let all = run.frames.len() as u64 + run.broken_frames;
        let deadline = deadline.as_nanos();
        let late = run
            .frames
            .iter()
            .filter(|delay| u128::from(**delay) > deadline);
        let late = late.count() as u64 + run.broken_frames;
        (all > 0).then(|| 100.0 * late as f64 / all as f64)
    };
    Estimate::of(runs.iter().map(of))
}

/// Each packet of the first run, and its fate.
fn packets(folder: &Folder, sent: &[Departure], runs: &[Run]) -> Result<()> {
    let Some(run) = runs.first() else {
        return Ok(());
    };
    let delays = run.delays.iter().zip(&run.delays_from_queue);
    let rows = run
        .packets
        .iter()
        .zip(delays)
        .filter_map(|(id, (server, queue))| {
            let Departure { at, offer, frame } = sent.get(usize::try_from(*id).ok()?)?;
            let frame = frame.map_or(String::new(), |frame| frame.number.to_string());
            let numbers = [at, server, queue].map(ToString::to_string);
            let [at, server, queue] = numbers;
            let (station, bytes) = (offer.station.to_string(), offer.bytes.to_string());
            Some(vec![at, station, bytes, frame, server, queue])
        });
    let heads = [
        "time_ns",
        "station",
        "bytes",
        "frame",
        "delay_from_server_ns",
        "delay_from_queue_ns",
    ];
    folder.csv("delays.csv", &heads, rows)?;
    let delays = run.frames.iter().zip(&run.assembly);
    let rows = run
        .whole
        .iter()
        .zip(delays)
        .map(|((station, number), (delay, assembly))| {
            vec![
                station.to_string(),
                number.to_string(),
                delay.to_string(),
                assembly.to_string(),
            ]
        });
    let heads = ["station", "frame", "delay_ns", "assembly_ns"];
    folder.csv("frames.csv", &heads, rows)
}
