//! Resolves a lost host's name again, or searches for the host again, while its old addresses are tried.
//!
//! A name service may take seconds to answer, especially without a network. A separate thread therefore queries it. No
//! other thread waits for that thread, even when the client ends.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::id::PathId;

use super::config::paths_to;
use super::{SearchHost, Target};
use crate::sched::{Scheduler, ThreadRole};

/// Maximum number of paths to a discovered host that are tried (guess). Old paths beyond this number are forgotten.
const MAX_PATHS: usize = 16;

/// Resolves a host's name, or searches for the host, on request. The thread ends after this value is dropped and the
/// current query has ended.
pub(super) struct AddressResolver {
    requests: SyncSender<()>,
    /// Whether the host is searched for.
    pub(super) discovers: bool,
    found: Arc<Mutex<Option<Vec<PathId>>>>,
}

impl AddressResolver {
    /// Starts the thread that resolves `host` for the transport `only`, or for any transport if `only` is `None`. If
    /// `search` is set, the thread calls it instead.
    ///
    /// # Errors
    /// Returns the system's error if the thread cannot be started.
    pub(super) fn start(
        host: Target,
        only: Option<TransportKind>,
        mut search: Option<SearchHost>,
        scheduler: &Scheduler,
    ) -> io::Result<AddressResolver> {
        let (requests, inbox) = sync_channel(1);
        let found = Arc::default();
        let resolver = AddressResolver {
            requests,
            discovers: search.is_some(),
            found: Arc::clone(&found),
        };
        scheduler.spawn(ThreadRole::Background, "ouvr-search", move || {
            for () in inbox {
                let paths = match &mut search {
                    Some(search) => search(),
                    None => paths_to(&host, only),
                };
                match paths {
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
/// the target is an address, it may be only the first of the host's addresses, so the others are kept.
pub(super) fn paths_after(target: &Target, found: Vec<PathId>, before: &[PathId]) -> Vec<PathId> {
    match target.is_name() {
        true => found,
        false => {
            let others = before.iter().skip(1).copied();
            found.into_iter().chain(others).collect()
        }
    }
}

/// The paths to a lost host that has been discovered again at `found`. The earlier paths are tried last, because anyone
/// can forge an answer.
pub(super) fn paths_after_search(found: Vec<PathId>, before: &[PathId]) -> Vec<PathId> {
    let mut paths = found;
    for path in before {
        if !paths.contains(path) {
            paths.push(*path);
        }
    }
    paths.truncate(MAX_PATHS);
    paths
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

    #[test]
    fn new_addresses_of_a_discovered_host_come_first() {
        let paths = |ends: &[u8]| -> Vec<PathId> {
            let path = |end: &u8| path_of(([192, 0, 2, *end], 4710).into());
            ends.iter().map(path).collect()
        };
        let after = paths_after_search(paths(&[9, 2]), &paths(&[1, 2]));
        assert_eq!(after, paths(&[9, 2, 1]));
        let many: Vec<u8> = (1..=20).collect();
        let after = paths_after_search(paths(&[30]), &paths(&many));
        assert_eq!((after.len(), after[0]), (MAX_PATHS, paths(&[30])[0]));
    }
}
