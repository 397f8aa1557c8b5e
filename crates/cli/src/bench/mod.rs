//! `openuvr bench`: measurements from pixels, with all that is needed to judge them.

mod ablation;
mod codec;
mod floor;
mod journey;
mod latency;
mod machine;
mod plot;
mod reader;
mod report;
mod rig;
mod sched;
mod stats;
mod sys;

use anyhow::Result;

pub(crate) use reader::{Reader, Sighting};
pub(crate) use stats::{Frames, Summary};

/// Measure what this program does on this machine, most of it from pixels.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum What {
    Latency(latency::Args),
    Ablation(ablation::Args),
}

/// Runs the bench that was asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Latency(args) => latency::run(args),
        What::Ablation(args) => ablation::run(args),
    }
}
