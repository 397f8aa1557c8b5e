//! The figures of one program over one link, computed from its runs. This module uses neither a clock nor a process.

use openuvr_testbed::reader::Sighting;
use openuvr_testbed::stats::{Range, Summary, share};
use serde::Serialize;

use super::Run;
use crate::bench::case::{Compared, Stream};

/// Minimum luma PSNR of an intact picture, in dB. At these bitrates, undamaged pictures are well above it, and visibly
/// damaged pictures are below it.
pub(super) const INTACT_DB: f64 = 30.0;

/// The figures of one program. They are measured in the same way for all programs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    pub(super) runs: usize,
    /// Latency from drawn to visible, for every frame with a readable number.
    pub(super) p50_ms: Option<Range>,
    pub(super) p99_ms: Option<Range>,
    /// Number of distinct frames seen per second.
    pub(super) seen_fps: Option<Range>,
    /// Frames per second drawn by the scene.
    pub(super) drawn_fps: Option<Range>,
    /// Number of compared pictures. `intact` is the share of intact pictures among them.
    pub(super) compared: usize,
    pub(super) intact: Option<f64>,
    pub(super) psnr_db: Option<Summary>,
    /// The pictures that are not intact, with their rows in the record, if there is a record.
    pub(super) not_intact: Vec<Compared>,
    /// Traffic in both directions together, with Ethernet, IP and UDP or TCP headers: on the loopback device, or
    /// offered to the emulated link.
    pub(super) wire_mbps: Option<Range>,
    /// CPU use of the sender, in cores. `receiver_cores` is the CPU use of the receiver.
    pub(super) sender_cores: Option<Range>,
    pub(super) receiver_cores: Option<Range>,
    /// Time from a key press to its effect. Presses without effect are excluded.
    pub(super) reaction_ms: Option<Summary>,
    /// The duration of each step of a frame, if there is a record. Only complete frames count, except with a client
    /// that does not acknowledge frames. For a browser, also the steps in its own trace.
    pub(super) steps: Vec<Step>,
    /// The p99 of the emulated link's own lateness, in the worst run.
    pub(super) link_late_ms: Option<f64>,
}

/// A step of a frame's path, over all runs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) p50_ms: Range,
    pub(super) p99_ms: Range,
}

impl Figures {
    /// `None` if there are no runs.
    pub(super) fn of(runs: &[Run]) -> Option<Figures> {
        let streams = || runs.iter().map(|run| &run.stream);
        let range = |of: &dyn Fn(&Stream) -> Option<f64>| {
            Range::of(&streams().filter_map(of).collect::<Vec<_>>())
        };
        let cores = |names: [&'static str; 2]| {
            range(&|stream| {
                names
                    .iter()
                    .find_map(|name| stream.case.cores.get(name).copied())
            })
        };
        let psnr: Vec<f64> = streams()
            .flat_map(|stream| stream.psnr_db.clone())
            .collect();
        let intact = psnr.iter().filter(|db| **db >= INTACT_DB).count();
        let reactions = streams().flat_map(|stream| stream.reaction_ms.clone());
        let late = runs.iter().filter_map(|run| run.link_late_ms);
        (!runs.is_empty()).then(|| Figures {
            runs: runs.len(),
            p50_ms: range(&|stream| Some(latency(stream)?.p50)),
            p99_ms: range(&|stream| Some(latency(stream)?.p99)),
            seen_fps: range(&|stream| {
                Some(stream.case.frames.visible as f64 / stream.case.seconds)
            }),
            drawn_fps: range(&|stream| Some(stream.case.drawn_fps())),
            compared: psnr.len(),
            intact: share(intact, psnr.len()),
            psnr_db: Summary::of(&psnr),
            not_intact: streams()
                .flat_map(|stream| stream.compared.clone())
                .filter(|picture| picture.psnr_db < INTACT_DB)
                .collect(),
            wire_mbps: range(&|stream| {
                let case = &stream.case;
                Some(case.carried_mbps.unwrap_or(case.loopback_mbps))
            }),
            sender_cores: cores(["host", "sender"]),
            receiver_cores: cores(["client", "receiver"]),
            reaction_ms: Summary::of(&reactions.collect::<Vec<_>>()),
            steps: steps(runs),
            link_late_ms: late.reduce(f64::max),
        })
    }
}

/// The steps of all runs, in the order in which they occur first.
fn steps(runs: &[Run]) -> Vec<Step> {
    let mut found: Vec<(String, Vec<Summary>)> = Vec::new();
    for run in runs {
        let ways = run.stream.steps.iter();
        let ways = ways.map(|step| (format!("{} -> {}", step.from, step.to), step.ms));
        let traced = run.slices.iter().filter_map(|(name, took)| {
            let words = format!("Chromium: {name}");
            Some((words, Summary::of(took)?))
        });
        for (name, ms) in ways.chain(traced) {
            match found.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.push(ms),
                None => found.push((name, vec![ms])),
            }
        }
    }
    let step = |(name, all): (String, Vec<Summary>)| {
        let of = |part: fn(&Summary) -> f64| Range::of(&Vec::from_iter(all.iter().map(part)));
        Some(Step {
            p50_ms: of(|ms| ms.p50)?,
            p99_ms: of(|ms| ms.p99)?,
            name,
        })
    };
    found.into_iter().filter_map(step).collect()
}

/// Latency of all frames seen, not only of complete frames, because only OpenUVR has a record of the complete frames.
fn latency(stream: &Stream) -> Option<Summary> {
    let samples = stream.case.samples.iter();
    let latencies = samples.map(|sample| Sighting::latency_ms(&sample.sighting));
    Summary::of(&latencies.collect::<Vec<_>>())
}
