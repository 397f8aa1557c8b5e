//! A thread that does the same again and again, until it is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_runtime::sched::{Scheduler, ThreadRole};

use crate::error::{Failure, Outcome};

/// How long a turn may wait for something to do; who drops a worker waits as long at most.
const TURN: Duration = Duration::from_millis(50);

pub(crate) struct Worker {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Calls `turn` again and again with the time that it may wait.
    pub(crate) fn start(
        role: ThreadRole,
        name: &str,
        mut turn: impl FnMut(Duration) + Send + 'static,
    ) -> Outcome<Worker> {
        let over = Arc::new(AtomicBool::new(false));
        let end = over.clone();
        let thread = Scheduler::ordinary().spawn(role, name, move || {
            while !end.load(Ordering::Relaxed) {
                turn(TURN);
            }
        });
        let thread = thread.map_err(|e| Failure::failed(format!("can't start a thread: {e}")))?;
        Ok(Worker {
            over,
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
