//! `openuvr bench ablation`: measures the value of each optimisation on this machine. It reproduces Fig. 11 of the
//! paper by experiment.
//!
//! Each configuration is a real host and client, always on the same two displays with the same scene. Latency is
//! measured from pixels, as in `bench latency`. The host is always the one that is built into this program
//! (`crate::baseline`). The configurations take turns (A B C A B C …), so that changes of the machine affect all of
//! them. The result does not apply to other machines, networks or graphics cards.

mod busy;
mod configuration;
mod rows;
#[cfg(test)]
mod tests;
mod write;

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result, bail, ensure};
use openuvr_testbed::cable::Cable;
use openuvr_testbed::pair::TemporaryDir;

use super::rig::{Rig, Source, StreamSetup};
use super::turns::{ComparisonOptions, Turns};
use crate::machine::Machine;
use busy::Busy;
use configuration::{Configuration, configurations};
use rows::{Ablation, Measured, Run};

/// Measure the value of each optimisation: with and without it.
///
/// The output has groups of figures. "Cumulative" begins with a stream as screen grabbers and video libraries produce
/// it, and adds one optimisation of OpenUVR at a time. "Leave-one-out" is OpenUVR without one optimisation.
/// "Alternatives" replace a part of OpenUVR. "Links" compares links over a cable between two network namespaces (needs
/// root). The last group is measured with a busy loop on each core. Latency is the time from drawn to visible. It is
/// measured from pixels, and only for complete frames. The output contains the median and the range over interleaved
/// repetitions. A difference between two rows is significant only if their ranges do not overlap. By default, the scene
/// runs at 60.5 frames per second, so that each phase relative to a 60 Hz clock occurs within two seconds.
///
/// Configurations that can't run here are listed with the reason. Failed configurations are retried in each repetition,
/// and each row contains its number of runs.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    options: ComparisonOptions,
    /// Only configurations whose name contains one of these words
    #[arg(long, value_delimiter = ',', value_name = "WORDS")]
    only: Vec<String>,
    /// Write ablation.json and ablation.csv into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Frame rate of the stream, and of polling.
const FPS: f64 = 60.0;

/// Measures, prints the results, and writes them to files if requested.
pub(crate) fn run(args: &Args) -> Result<()> {
    let turns = Turns::new(&args.options, 1.0)?;
    let Turns {
        repetitions,
        seconds,
        ..
    } = turns;
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let mut rig = Rig::start(
        turns.setup(args.options.size, args.options.scene_fps),
        &stop,
    )?;
    let floor = rig.floor(seconds)?;
    let dir = TemporaryDir::new()?;
    let mut measured = Measured::default();
    let all: Vec<Configuration> = configurations()
        .into_iter()
        .filter(|c| args.only.is_empty() || args.only.iter().any(|only| c.name.contains(only)))
        .collect();
    ensure!(!all.is_empty(), "--only matches no configuration");
    for repetition in 1..=repetitions {
        for configuration in &all {
            eprintln!(
                "bench ablation: {repetition}/{repetitions} {}",
                configuration.name
            );
            let outcome = measure(args, &mut rig, &dir, configuration, seconds, repetition);
            if stop.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            match outcome {
                Ok(run) => measured.runs.push(run),
                // The failure may be transient, so the next repetition retries this configuration.
                Err(why) => {
                    let why = reason(&format!("{why:#}"));
                    eprintln!("bench ablation: {}: {why}", configuration.name);
                    measured.failed.insert(configuration.name.clone(), why);
                }
            }
        }
    }
    let ablation = Ablation {
        machine: Machine::this(),
        size: args.options.size.to_string(),
        bitrate: args.options.bitrate.clone(),
        turns,
        floor_ms: floor.latency_ms,
        other_cores: measured
            .runs
            .iter()
            .map(|r| r.other_cores)
            .fold(floor.other_cores, f64::max),
        cumulative: measured.cumulative(),
        leave_one_out: measured.leave_one_out(),
        alternatives: measured.alternatives(),
        links: measured.over_links(),
        busy: measured.busy(),
        runs: measured.runs,
    };
    print!("{}", write::text(&ablation));
    if let Some(folder) = &args.out {
        write::files(&ablation, folder)?;
    }
    Ok(())
}

fn measure(
    args: &Args,
    rig: &mut Rig<'_>,
    dir: &TemporaryDir,
    configuration: &Configuration,
    seconds: f64,
    repetition: u32,
) -> Result<Run> {
    let _busy = configuration.busy.then(Busy::start).transpose()?;
    if let Some(link) = configuration.link()
        && !openuvr_net::LINKS
            .iter()
            .any(|kind| kind.transport.name() == link)
    {
        bail!("this build does not support --link {link}");
    }
    let cable = configuration.cable.then(Cable::lay).transpose()?;
    let csv = dir.path().join("frames.csv");
    let stream = rig.stream(&StreamSetup {
        source: Source::OwnHost,
        cable: cable.as_ref(),
        impaired: None,
        fps: FPS,
        bitrate: &args.options.bitrate,
        seconds,
        presses: 0,
        compare: false,
        dir: dir.path(),
        csv: &csv,
        sound: None,
        pads: None,
        more_host: &configuration.host_words(),
        more_client: &configuration.client_words(),
    })?;
    let latency_ms = stream.case.latency_ms.context("no complete frame")?;
    Ok(Run {
        configuration: configuration.name.clone(),
        repetition,
        link: stream.link.clone(),
        latency_ms,
        drawn: stream.case.frames.drawn,
        complete: stream.complete(),
        wire_mbps: stream.wire_mbps,
        cores: stream.cores(),
        other_cores: stream.case.other_cores,
        steps: stream.steps,
    })
}

/// Finds the reason in the text of an error: the rest of the first line that contains `openuvr: ` or `error: `,
/// otherwise the last line.
fn reason(text: &str) -> String {
    let message = text.lines().find_map(|line| {
        let own = ["openuvr: ", "error: "]
            .iter()
            .find_map(|word| line.split_once(word));
        own.map(|(_, why)| why)
    });
    let line = message.or_else(|| text.lines().last()).unwrap_or(text);
    line.trim().to_owned()
}
