//! Resolves a lost host's name again while its old addresses are tried.
//!
//! A name service may take seconds to answer, especially without a network. A separate thread therefore queries it. No
//! other thread waits for that thread, even when the client ends.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::id::PathId;

use super::Target;
use super::config::paths_to;
use crate::sched::{Scheduler, ThreadRole};

/// Resolves a host's name on request. The thread ends after this value is dropped and the name service has answered.
pub(super) struct AddressResolver {
    requests: SyncSender<()>,
    found: Arc<Mutex<Option<Vec<PathId>>>>,
}

impl AddressResolver {
    /// Starts the thread that resolves `host` for the transport `only`, or for any transport if `only` is `None`.
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
                    // Continue with the old addresses.
                    Err(why) => tracing::info!("{why}"),
                }
            }
        })?;
        Ok(resolver)
    }

    /// Requests another query, unless one is pending.
    pub(super) fn request(&self) {
        // At most one request can be pending, so ignore a full queue.
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

/// The paths to a lost host whose `target` has been resolved to `found`. The earlier paths of a name are outdated. If
/// the target is an address, as after discovery, it is only the first of the host's addresses, so the others are kept.
pub(super) fn paths_after(target: &Target, found: Vec<PathId>, before: &[PathId]) -> Vec<PathId> {
    match target.is_name() {
        true => found,
        false => {
            let others = before.iter().skip(1).copied();
            found.into_iter().chain(others).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use openuvr_net::address::path_of;

    use super::*;

    #[test]
    fn a_discovered_host_keeps_its_other_addresses() {
        let paths = |ends: &[u8]| -> Vec<PathId> {
            let path = |end: &u8| path_of(([192, 0, 2, *end], 4710).into());
            ends.iter().map(path).collect()
        };
        let after = |target: &str, found: &[u8]| {
            let target: Target = target.parse().unwrap();
            paths_after(&target, paths(found), &paths(&[1, 2, 3]))
        };
        assert_eq!(after("192.0.2.1:4710", &[1]), paths(&[1, 2, 3]));
        assert_eq!(after("[fe80::1%eth0]", &[9]), paths(&[9, 2, 3]));
        assert_eq!(after("desk", &[4]), paths(&[4]));
    }
}
