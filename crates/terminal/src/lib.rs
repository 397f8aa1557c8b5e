//! The terminal functions of every OpenUVR program: output, command-line errors, log level and termination signals.
//!
//! A program imports this crate with `#[macro_use]`. The crate's `print!`, `println!` and `eprintln!` then replace
//! those of the standard library, which panic on a closed pipe.
//!
//! This crate is for programs, and for crates that are parts of a program. A library that is loaded into another
//! program neither prints nor catches signals.
#![forbid(unsafe_code)]

// This module comes first, so that its macros are visible in all modules below.
#[macro_use]
pub mod out;

mod manual;
pub mod one_line;
pub mod shell;
pub mod signals;
pub mod usage;
pub mod wrap;

/// Sends logs of this level and above to standard error, as messages ([`out`]). Call it once per process.
///
/// # Panics
/// Panics on a second call.
pub fn log_to_stderr(level: tracing::Level) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;

    // smithay, the library of the Wayland display, logs several lines when it starts. They are shown only at the levels
    // `debug` and `trace`.
    let quiet = match level > tracing::Level::INFO {
        true => LevelFilter::from_level(level),
        false => LevelFilter::from_level(level).min(LevelFilter::WARN),
    };
    let targets = Targets::new()
        .with_default(level)
        .with_target("smithay", quiet);
    tracing_subscriber::fmt()
        .with_writer(out::Log)
        // The writer prepends the time after it has merged repetitions.
        .without_time()
        .with_ansi(false)
        .with_max_level(level)
        .finish()
        .with(targets)
        .init();
}
