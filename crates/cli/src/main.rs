//! The `openuvr` program.
#![deny(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "drawing and statistics work in floating point"
)]

mod bench;
mod child;
mod clock;
mod demo;
mod devices;
mod display;
mod lab;
mod pair;
mod picture_match;
mod scene;
mod screen;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use openuvr_proto::units::Size;

#[derive(Parser)]
#[command(
    name = "openuvr",
    version,
    about = "Streams an interactive 3D application to a thin client"
)]
enum Command {
    Scene(scene::Args),
    Bench(bench::Args),
    Demo(demo::Args),
    Devices(devices::Args),
    Lab(lab::LabArgs),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Scene(args) => scene::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Bench(args) => bench::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Demo(args) => demo::run(&args),
        Command::Devices(args) => devices::run(args).map(|()| ExitCode::SUCCESS),
        Command::Lab(args) => lab::run(&args).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("openuvr: {error:#}");
        ExitCode::FAILURE
    })
}

/// A flag that SIGINT and SIGTERM raise; a second signal ends the program at once.
pub(crate) fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Reads "1280x720".
pub(crate) fn size(text: &str) -> Result<Size, String> {
    let parse = |text: &str| text.parse::<u32>().ok();
    text.split_once('x')
        .and_then(|(width, height)| Some(Size::new(parse(width)?, parse(height)?)))
        .filter(|size| size.is_valid())
        .ok_or_else(|| format!("'{text}' is not a size such as 1280x720"))
}
