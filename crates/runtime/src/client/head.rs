//! The head thread: where the head is leaves the moment it is known, for the host and for who re-aims pictures.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_media::head::HeadSource;

use super::{Notice, PanicReporter, Shared};
use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};

/// How often the thread looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Reads a head until the client stops, or no poses come any more.
///
/// # Errors
/// The thread can't be started.
pub(super) fn start(
    shared: &Arc<Shared>,
    scheduler: &Scheduler,
    mut source: Box<dyn HeadSource>,
) -> std::io::Result<JoinHandle<()>> {
    let panic_reporter = PanicReporter(Arc::clone(shared), "head");
    scheduler.spawn(ThreadRole::Input, "ouvr-head", move || {
        let shared = &panic_reporter.0;
        while !shared.stopping() {
            match source.next(LOOK_EVERY) {
                Ok(Some((pose, sampled))) => {
                    let _ = shared.pose(&pose, sampled);
                    let held = lock(&shared.hands)
                        .as_ref()
                        .map(|hands| hands.controllers(&pose));
                    let _ = held.and_then(|held| shared.controllers(sampled, held));
                    source.aim(shared.poses_wanted());
                }
                Ok(None) => {}
                Err(e) => {
                    shared.notice(Notice::Trouble(format!("{e}: the head stands still")));
                    return;
                }
            }
        }
    })
}
