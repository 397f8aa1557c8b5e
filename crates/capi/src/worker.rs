//! A thread that ends when its [`Worker`] is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_runtime::sched::{Scheduler, ThreadRole};

use crate::error::{Failure, Outcome};

/// How long one call of a repeated task may block. A drop waits for the current call.
const MAX_WAIT: Duration = Duration::from_millis(50);

pub(crate) struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Calls `turn` repeatedly, with the time for which it may block.
    pub(crate) fn start(
        role: ThreadRole,
        name: &str,
        mut turn: impl FnMut(Duration) + Send + 'static,
    ) -> Outcome<Worker> {
        Worker::run(role, name, move |stopped| {
            while !stopped.load(Ordering::Relaxed) {
                turn(MAX_WAIT);
            }
        })
    }

    /// Calls `work` once, on a new thread. `work` must return soon after its argument becomes true.
    pub(crate) fn run(
        role: ThreadRole,
        name: &str,
        work: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Outcome<Worker> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = Scheduler::ordinary().spawn(role, name, move || work(&stopped));
        let thread = thread.map_err(|e| Failure::failed(format!("cannot start a thread: {e}")))?;
        Ok(Worker {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
