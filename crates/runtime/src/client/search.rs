//! Where a lost host is now: its name is asked for again while its old addresses are tried.
//!
//! A name service may take seconds to answer, most of all where the network is gone. So a thread of
//! its own asks, and nobody waits for it, not even the client's end.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use openuvr_proto::control::ladder::Rung;
use openuvr_proto::id::PathId;

use super::Target;
use super::config::paths_to;
use crate::sched::{Scheduler, ThreadRole};

/// Asks when it is told to. Its thread ends when this is gone and the name service has answered.
pub(super) struct Search {
    ask: SyncSender<()>,
    found: Arc<Mutex<Option<Vec<PathId>>>>,
}

impl Search {
    /// Starts the thread that asks for `host` as it is reached by `only` or by anything.
    ///
    /// # Errors
    /// The system's, if it starts no more threads.
    pub(super) fn start(
        host: Target,
        only: Option<Rung>,
        scheduler: &Scheduler,
    ) -> io::Result<Search> {
        let (ask, asked) = sync_channel(1);
        let found = Arc::default();
        let search = Search {
            ask,
            found: Arc::clone(&found),
        };
        scheduler.spawn(ThreadRole::Background, "ouvr-search", move || {
            for () in asked {
                match paths_to(&host, only) {
                    Ok(paths) => {
                        *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(paths);
                    }
                    // The old addresses are as good as any.
                    Err(why) => tracing::info!("{why}"),
                }
            }
        })?;
        Ok(search)
    }

    /// Asks once more, unless an answer is waited for.
    pub(super) fn again(&self) {
        // One question waits at most.
        let _ = self.ask.try_send(());
    }

    /// Where the host is, if that was found since the last call.
    pub(super) fn found(&self) -> Option<Vec<PathId>> {
        self.found
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}
