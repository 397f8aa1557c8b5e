//! What each program of OpenUVR has in common at a terminal: all that it prints, what is wrong with its
//! command line, the level of its logs, and the signals that end it.
//!
//! A program names it with `#[macro_use]`: its `print!`, `println!` and `eprintln!` then stand in place
//! of the standard library's, which panic where nobody reads.
//!
//! What it is not: it is for programs only. No library prints, and none catches a signal.
#![forbid(unsafe_code)]

// First: its macros count from here on.
#[macro_use]
pub mod out;

pub mod signals;
pub mod usage;
pub mod wrap;

/// Logs of this level and above go to standard error, the way of all messages ([`out`]). Once for each
/// process.
///
/// # Panics
/// It was called before.
pub fn log_to_stderr(level: tracing::Level) {
    tracing_subscriber::fmt()
        .with_writer(out::Log)
        // The writer puts the time before it, after it has looked for repetitions.
        .without_time()
        .with_ansi(false)
        .with_max_level(level)
        .init();
}
