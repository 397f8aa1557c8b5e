//! A busy-looping thread per core.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::Result;

/// A thread in a busy loop with ordinary scheduling on each core, until this value is dropped.
pub(super) struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    pub(super) fn start() -> Result<Busy> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut busy = Busy {
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        for _ in 0..cores {
            let stop = busy.stop.clone();
            let thread = std::thread::Builder::new()
                .name("busy".into())
                .spawn(move || {
                    let mut work = 1_u64;
                    while !stop.load(Ordering::Relaxed) {
                        for _ in 0..10_000 {
                            work =
                                std::hint::black_box(work.wrapping_mul(6_364_136_223_846_793_005));
                        }
                    }
                });
            busy.threads.push(thread?);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
