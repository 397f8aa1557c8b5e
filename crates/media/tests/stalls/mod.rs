//! Measurements that a stall of this machine can spoil: lost datagrams, late audio.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Sleep interval.
const STEP: Duration = Duration::from_millis(5);

/// Threads, one per core, that sleep and record their wake-up latency.
struct Stalls {
    longest: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Stalls {
    fn watch() -> Stalls {
        let mut stalls = Stalls {
            longest: Arc::default(),
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for core in cores() {
            let (longest, stop) = (stalls.longest.clone(), stalls.stop.clone());
            let thread = std::thread::spawn(move || {
                // If pinning to the core fails, this thread runs on any core.
                let _ = sched_setaffinity(None, &core);
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    std::thread::sleep(STEP);
                    let late = begun.elapsed().saturating_sub(STEP).as_micros();
                    longest.fetch_max(u64::try_from(late).unwrap_or(u64::MAX), Ordering::Relaxed);
                }
            });
            stalls.threads.push(thread);
        }
        stalls
    }

    /// Ends the threads after a last wake-up, which also counts. Returns the longest latency.
    fn longest(mut self) -> Duration {
        self.stop();
        Duration::from_micros(self.longest.load(Ordering::Relaxed))
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Each core on which this thread may run.
fn cores() -> Vec<CpuSet> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    let cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    cores
        .map(|core| {
            let mut one = CpuSet::new();
            one.set(core);
            one
        })
        .collect()
}

/// Returns the result of `measure`. Repeats a failed measurement if the machine stalled for longer than `limit` in the
/// meantime, up to `tries` measurements in total.
///
/// # Panics
/// Panics with the error of a measurement that failed without a stall. If the last measurement also fails, panics with
/// all errors and stalls.
pub(crate) fn measured_without_stalls<T>(
    tries: usize,
    limit: Duration,
    mut measure: impl FnMut() -> Result<T, String>,
) -> T {
    repeated_after_stalls(tries, limit, || {
        let stalls = Stalls::watch();
        let result = measure();
        (result, stalls.longest())
    })
}

/// Like [`measured_without_stalls`], for measurements that report the longest stall themselves.
pub(crate) fn repeated_after_stalls<T>(
    tries: usize,
    limit: Duration,
    mut measure: impl FnMut() -> (Result<T, String>, Duration),
) -> T {
    let mut failures = Vec::new();
    for _ in 0..tries {
        let (result, stall) = measure();
        let error = match result {
            Ok(measured) => return measured,
            Err(error) => error,
        };
        assert!(
            stall > limit,
            "{error}; the longest stall, {stall:?}, is within the limit of {limit:?}"
        );
        failures.push(format!("the machine stalled for {stall:?}: {error}"));
    }
    panic!(
        "all {tries} measurements failed with stalls of more than {limit:?}:\n{}",
        failures.join("\n")
    );
}
