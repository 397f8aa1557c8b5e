//! The `openuvr` program.
#![deny(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "drawing and statistics work in floating point"
)]

// First: its macros count from here on.
#[macro_use]
mod out;

mod attack;
mod bench;
mod cable;
mod child;
mod client;
mod clients;
mod clock;
mod config;
mod demo;
mod devices;
mod display;
mod doctor;
mod host;
mod lab;
mod layer;
mod pair;
mod picture_match;
mod realtime;
mod record;
mod release;
mod run;
mod scene;
mod screen;
mod soak;
mod usage;
mod wrap;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use openuvr_proto::units::Size;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use config::{ClientConfig, HostConfig, RunConfig, Settings as _};

fn main() -> ExitCode {
    out::guarded(program)
}

fn program() -> ExitCode {
    let matches = match usage::matches(command()) {
        Ok(matches) => matches,
        Err(code) => return code,
    };
    let result = match matches.subcommand() {
        Some(("host", m)) => host::run(m),
        Some(("client", m)) => client::run(m),
        Some(("run", m)) => run::run(m),
        Some((release::COMMAND, m)) => with(m, |args| release::run(&args)),
        Some(("scene", m)) => with(m, |args| scene::run(&args)),
        Some(("devices", m)) => with(m, devices::run),
        Some(("doctor", m)) => doctor::Args::from_arg_matches(m)
            .map_err(anyhow::Error::from)
            .and_then(|args| doctor::run(&args)),
        Some(("bench", m)) => with(m, |args| bench::run(&args)),
        Some(("lab", m)) => lab::LabArgs::from_arg_matches(m)
            .map_err(anyhow::Error::from)
            .and_then(|args| lab::run(&args)),
        Some(("demo", m)) => demo::Args::from_arg_matches(m)
            .map_err(anyhow::Error::from)
            .and_then(|args| demo::run(&args)),
        _ => unreachable!("clap asks for one of the subcommands"),
    };
    result.unwrap_or_else(|error| {
        out::answer(format_args!("openuvr: {error:#}"));
        ExitCode::FAILURE
    })
}

fn command() -> Command {
    Command::new("openuvr")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Streams an interactive 3D application to a thin client and its input back")
        .after_help(
            "Start here:\n  openuvr host            on the machine with the application\n  \
             openuvr client HOST     on the machine that shows it\n  \
             openuvr run -- GAME     instead of host: one game, from inside its process\n  \
             openuvr demo            both on this machine, on virtual displays",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(HostConfig::command())
        .subcommand(ClientConfig::command())
        .subcommand(RunConfig::command())
        .subcommand(release::Args::augment_args(
            Command::new(release::COMMAND).hide(true),
        ))
        .subcommand(devices::Args::augment_args(Command::new("devices")))
        .subcommand(doctor::Args::augment_args(Command::new("doctor")))
        .subcommand(demo::Args::augment_args(Command::new("demo")))
        .subcommand(scene::Args::augment_args(Command::new("scene")))
        .subcommand(bench::Args::augment_args(Command::new("bench")))
        .subcommand(lab::LabArgs::augment_args(Command::new("lab")))
}

fn with<A: FromArgMatches>(
    matches: &ArgMatches,
    run: impl FnOnce(A) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    run(A::from_arg_matches(matches)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Logs of this level and above go to standard error.
pub(crate) fn log_to_stderr(level: tracing::Level) {
    tracing_subscriber::fmt()
        .with_writer(out::Log)
        // The writer puts the time before it, after it has looked for repetitions.
        .without_time()
        .with_ansi(false)
        .with_max_level(level)
        .init();
}

/// A flag that SIGINT and SIGTERM raise; a second signal ends the program at once.
pub(crate) fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    // SIGHUP: the terminal is closed, and keys that are held at the host must not stay down.
    let hang_up = (!ignores_hang_up()).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Whether this program was started to outlive its terminal, as by nohup(1): proc(5), `SigIgn`.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 << (SIGHUP - 1) != 0)
}

/// Reads "1280x720".
pub(crate) fn size(text: &str) -> Result<Size, String> {
    let parse = |text: &str| text.parse::<u32>().ok();
    text.split_once('x')
        .and_then(|(width, height)| Some(Size::new(parse(width)?, parse(height)?)))
        .filter(|size| size.is_valid())
        .ok_or_else(|| format!("'{text}' is not a size such as 1280x720"))
}
