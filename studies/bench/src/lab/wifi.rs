//! `openuvr lab wifi`: simulates the effects of Wi-Fi on a stream.
//!
//! The model is in crate `lab`; this module has the options and the output folder.

mod paper;
mod quantities;
mod replay;
mod sweep;
mod topology;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use openuvr_lab::wifi::study::Repetition;
use openuvr_lab::wifi::{Nanos, words};
use openuvr_sim::script;
use openuvr_terminal::usage::UsageError;

use super::folder::Folder;

/// Simulate streams over Wi-Fi: a model of an 802.11 network, a thousand times faster than real time.
///
/// The model has one access point and its stations on one channel, with nanosecond resolution. It
/// includes EDCA channel access with backoff and four access categories, RTS/CTS, A-MPDU
/// aggregation with block acknowledgements, losses and retransmissions. The simulation needs no
/// radio and no privileges; the same seed gives the same figures on every machine.
///
/// Five modes:
///   --paper        the simulations of the Unity Render Streaming study (Casasnovas et al.,
///                  figures 19 to 22), next to its figures
///   --topology     host and mobile device as peers, over a router with a wired host, and over a
///                  router with the host as a station (two hops), next to the figures of the
///                  OpenUVR paper; WORDS change all cases
///   WORDS          one network: its delays, airtime and losses
///   --vary         a sweep: one network, with several values of one or two words
///   --replay FILE  a capture or table of packets: the simulated delay or loss of each packet
///
/// Each mode writes a folder with tables (CSV), and with the results, machine and command
/// (wifi.json, or wifi-topology.json with --topology). `openuvr bench report --from FOLDER` draws
/// the results.
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_help = after_help())]
pub(crate) struct WifiArgs {
    /// The network and its traffic, as NAME=VALUE pairs, which are listed below
    #[arg(value_name = "WORDS")]
    words: Vec<String>,
    /// Reproduce the published study
    #[arg(long, conflicts_with_all = ["words", "vary", "replay"])]
    paper: bool,
    /// Compare a direct link between peers with paths over a router
    #[arg(long, conflicts_with_all = ["paper", "vary", "replay"])]
    topology: bool,
    /// Simulate several values of one word, separated by commas (or by | if values contain commas): stations=1,2,4. A
    /// second --vary adds a line to the plots for each of its values
    #[arg(long, value_name = "NAME=VALUES", conflicts_with = "replay")]
    vary: Vec<String>,
    /// Instead of modelled packets, send those of a capture (pcap, pcapng) or of a table (CSV: time_ns, bytes and, if
    /// they are known, way, station and frame)
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// With --replay: deadline of a frame
    #[arg(long, value_name = "TIME", default_value = "16.7ms", value_parser = script::time,
        requires = "replay")]
    deadline: Duration,
    /// Repetitions of each case, with different seeds
    #[arg(long, value_name = "N", default_value_t = 10)]
    runs: u32,
    /// Duration of each run, in simulated time
    #[arg(long = "duration", value_name = "TIME", default_value = "10s", value_parser = script::time)]
    lasting: Duration,
    /// The seed of the first run. Each further run uses the next number
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Output folder; created if it does not exist
    #[arg(long, value_name = "FOLDER", default_value = "wifi-study")]
    out: PathBuf,
}

fn after_help() -> String {
    format!(
        "Words (shares: 1% or 0.01; times: 5ms; rates: 20M), with their \
         defaults:\n{}\nExamples:\n  \
         openuvr lab wifi --paper --out paper\n  \
         openuvr lab wifi --topology mcs=5 background=20M\n  \
         openuvr lab wifi profile=he-su stations=4 per=1% background=20M\n  \
         openuvr lab wifi --vary stations=1,2,3,4,6,8 --vary batches=fit,1 profile=he-su per=1%\n  \
         openuvr lab wifi --vary 'signal=40|30,4|20,4' rate=learned profile=he-su\n  \
         openuvr lab wifi --replay capture.pcapng profile=he-su --deadline 11.1ms\n\
         The same network between real programs: openuvr lab hop --wifi 'WORDS'.",
        words::help()
    )
}

/// Settings shared by all modes of `openuvr lab wifi`.
struct RunSettings {
    repetition: Repetition,
    lasting: Nanos,
    stop: Arc<AtomicBool>,
}

/// Runs the study.
///
/// # Errors
/// Returns a one-line error if the study fails.
pub(super) fn run(args: &WifiArgs) -> Result<ExitCode> {
    ensure!(
        args.runs > 0,
        UsageError::new("--runs 0 is too few; at least 1")
    );
    ensure!(
        !args.lasting.is_zero(),
        UsageError::new("--duration 0s is too short; try 10s")
    );
    let settings = RunSettings {
        repetition: Repetition {
            runs: args.runs,
            seed: args.seed,
        },
        lasting: u64::try_from(args.lasting.as_nanos())?,
        stop: openuvr_terminal::signals::stop_on_signals()?,
    };
    let words = args.words.join(" ");
    if args.paper {
        return paper::run(&settings, &args.out);
    }
    if args.topology {
        return topology::run(&settings, &words, &args.out);
    }
    if let Some(file) = &args.replay {
        return replay::run(&settings, &words, file, args.deadline, &args.out);
    }
    sweep::run(&settings, &words, &args.vary, &args.out)
}

impl RunSettings {
    /// The output folder of a study.
    fn folder(&self, out: &Path) -> Result<Folder> {
        let Repetition { runs, seed } = self.repetition;
        let seconds = self.lasting as f64 / 1e9;
        let mut folder = Folder::make(out, "wifi")?;
        folder.add_data("runs", runs.into());
        folder.add_data("seed", seed.into());
        folder.add_data("seconds", seconds.into());
        Ok(folder)
    }

    fn keep_going(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
