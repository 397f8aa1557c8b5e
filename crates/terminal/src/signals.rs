//! The signals with which a person ends a program.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// What a shell says of a program that SIGINT (2) has ended.
const INTERRUPTED: i32 = 128 + 2;

/// A flag that SIGINT and SIGTERM raise; a second signal ends the program at once.
///
/// # Errors
/// The system does not let them be caught.
pub fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    // SIGHUP: the terminal is closed, and keys that are held at the host must not stay down.
    let hang_up = (!ignores_hang_up()).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// The same, but a second signal changes nothing: for a program whose end nobody waits for, and that has to end
/// others. The kernel may send the signal of a parent's death once for each of its threads (prctl(2)).
///
/// # Errors
/// The system does not let them be caught.
pub fn stop_in_order() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
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
