//! Resolves a lost host's name again while its old addresses are tried.
//!
//! A name service may take seconds to answer, especially without a network. A separate thread therefore queries it, and
//! nothing waits for that thread, not even the client's end.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::id::PathId;

use super::Target;
use super::config::paths_to;
use crate::sched::{Scheduler, ThreadRole};

/// Resolves on request. Its thread ends once this is dropped and the name service has answered.
pub(super) struct AddressResolver {
    requests: SyncSender<()>,
    found: Arc<Mutex<Option<Vec<PathId>>>>,
}

impl AddressResolver {
    /// Starts the thread that resolves `host` for transport `only`, or for any.
    ///
    /// # Errors
    /// Returns the system's error if the thread cannot be started.
    pub(super) fn start(
        host: Target,
        only: Option<TransportKind>,
        scheduler: &Scheduler,
    ) -> io::Result<AddressResolver> {
        let (requests, inbox) = sync_channel(1);
        let found = Arc::default();
        let resolver = AddressResolver {
            requests,
            found: Arc::clone(&found),
        };
        scheduler.spawn(ThreadRole::Background, "ouvr-search", move || {
            for () in inbox {
                match paths_to(&host, only) {
                    Ok(paths) => {
                        *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(paths);
                    }
                    // The old addresses are as good as any.
                    Err(why) => tracing::info!("{why}"),
                }
            }
        })?;
        Ok(resolver)
    }

    /// Requests another query, unless one is pending.
    pub(super) fn request(&self) {
        // At most one request waits.
        let _ = self.requests.try_send(());
    }

    /// The host's paths, if they were resolved since the last call.
    pub(super) fn take_found(&self) -> Option<Vec<PathId>> {
        self.found
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}
