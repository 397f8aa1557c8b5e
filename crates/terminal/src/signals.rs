//! Termination signals.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The exit status that a shell reports for a program killed by SIGINT (2).
pub const INTERRUPTED: i32 = 128 + 2;

/// A flag that SIGINT and SIGTERM raise, and also SIGHUP unless it is ignored. A second signal ends the program at
/// once.
///
/// # Errors
/// Returns an error if a signal handler cannot be installed.
pub fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    // SIGHUP: the terminal was closed. A clean end releases the keys that are pressed on the host.
    let hang_up = (!ignores_hang_up()).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Like [`stop_on_signals`], but later signals have no effect, and SIGHUP always raises the flag. For a supervised
/// program that must stop its children: it may receive the parent-death signal several times, because the kernel may
/// send it once per thread of the parent (prctl(2)).
///
/// # Errors
/// Returns an error if a signal handler cannot be installed.
pub fn stop_gracefully_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Whether SIGHUP is ignored, as under nohup(1) (proc(5), `SigIgn`).
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 << (SIGHUP - 1) != 0)
}
