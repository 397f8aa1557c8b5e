//! Whether this machine stalled during a measurement, which makes time-critical audio late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Sleep interval.
const STEP: Duration = Duration::from_millis(5);

/// A thread that sleeps and records its wake-up latency.
pub(crate) struct Stalls {
    longest: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stalls {
    pub(crate) fn watch() -> Stalls {
        let (longest, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (noted, stopped) = (longest.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                std::thread::sleep(STEP);
                let late = begun.elapsed().saturating_sub(STEP).as_micros();
                noted.fetch_max(u64::try_from(late).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        });
        Stalls {
            longest,
            stop,
            thread: Some(thread),
        }
    }

    /// The maximum so far.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_micros(self.longest.load(Ordering::Relaxed))
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
