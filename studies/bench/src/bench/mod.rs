//! `openuvr bench`: measurements, mostly from pixels, together with the conditions that are needed to judge them.

mod ablation;
mod capture;
mod case;
mod codec;
mod encoder;
mod floor;
mod foveation;
mod heading;
mod keys;
mod latency;
mod link;
mod pads;
mod peers;
mod prediction;
mod quality;
mod report;
mod report_page;
mod report_text;
mod reprojection;
mod rig;
mod scheduling;
mod sensor;
mod sessions;
mod slices;
mod sound;
mod sync;
mod turns;
mod verdict;
mod web;

use anyhow::Result;

/// Benchmarks of this program on this machine, mostly measured from pixels.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Bench,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Bench {
    Latency(latency::Args),
    Ablation(ablation::Args),
    Quality(quality::Args),
    Link(link::Args),
    Sound(sound::Args),
    Pads(pads::Args),
    Sensor(sensor::Args),
    Sync(sync::Args),
    Capture(capture::Args),
    Encoder(encoder::Args),
    Foveation(foveation::Args),
    Scheduling(scheduling::Args),
    Peers(peers::Args),
    Prediction(prediction::Args),
    Sessions(sessions::Args),
    Slices(slices::Args),
    Web(web::Args),
    Reprojection(reprojection::Args),
    Report(report_page::Args),
}

/// Runs the selected bench.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        Bench::Latency(args) => latency::run(args),
        Bench::Ablation(args) => ablation::run(args),
        Bench::Quality(args) => quality::run(args),
        Bench::Link(args) => link::run(args),
        Bench::Sound(args) => sound::run(args),
        Bench::Pads(args) => pads::run(args),
        Bench::Sensor(args) => sensor::run(args),
        Bench::Sync(args) => sync::run(args),
        Bench::Capture(args) => capture::run(args),
        Bench::Encoder(args) => encoder::run(args),
        Bench::Foveation(args) => foveation::run(args),
        Bench::Scheduling(args) => scheduling::run(args),
        Bench::Peers(args) => peers::run(args),
        Bench::Prediction(args) => prediction::run(args),
        Bench::Sessions(args) => sessions::run(args),
        Bench::Slices(args) => slices::run(args),
        Bench::Web(args) => web::run(args),
        Bench::Reprojection(args) => reprojection::run(args),
        Bench::Report(args) => report_page::run(args),
    }
}
