//! The head thread: sends each head pose to the host and to reprojection as soon as it is sampled.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_media::head::HeadPoseSource;

use super::{Notice, PanicReporter, Shared};
use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};

/// How often the thread checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Reads head poses until the client stops or the source fails.
///
/// # Errors
/// The thread can't be started.
pub(super) fn start(
    shared: &Arc<Shared>,
    scheduler: &Scheduler,
    mut source: Box<dyn HeadPoseSource>,
) -> std::io::Result<JoinHandle<()>> {
    let panic_reporter = PanicReporter(Arc::clone(shared), "head");
    scheduler.spawn(ThreadRole::Input, "ouvr-head", move || {
        let shared = &panic_reporter.0;
        while !shared.stopping() {
            match source.next(POLL_INTERVAL) {
                Ok(Some((pose, sampled))) => {
                    let _ = shared.pose(&pose, sampled);
                    let held = lock(&shared.hands)
                        .as_ref()
                        .map(|hands| hands.controllers(&pose));
                    let _ = held.and_then(|held| shared.controllers(sampled, held));
                    source.aim(shared.pose_schedule());
                }
                Ok(None) => {}
                Err(e) => {
                    shared.notice(Notice::Warning(format!("{e}: head tracking stopped")));
                    return;
                }
            }
        }
    })
}
