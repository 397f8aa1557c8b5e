//! Connections of those that have not logged in. A new one always finds a place; where all are taken, the oldest
//! connection of the network that has most of them loses its own. So a network that holds all places shuts out itself
//! alone, and several have to renew theirs faster than an honest peer logs in.
//!
//! The rule is that of half-open handshakes of native clients (`crates/proto/src/control/handshake/host.rs`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use openuvr_runtime::lock::lock;

use crate::network::Network;

/// Ends a connection.
type End = Box<dyn FnOnce() + Send>;

/// So many places. Clones share them.
#[derive(Clone)]
pub(crate) struct EvictingPool {
    most: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The number of the newest.
    newest: u64,
    /// Oldest first.
    there: Vec<Member>,
}

struct Member {
    number: u64,
    network: Network,
    end: End,
}

impl EvictingPool {
    pub(crate) fn new(most: usize) -> EvictingPool {
        EvictingPool {
            most,
            state: Arc::default(),
        }
    }

    /// A place for a connection from this network until it is dropped. `end` is called if another connection takes it.
    /// Whether one lost its own for that.
    pub(crate) fn enter(
        &self,
        network: Network,
        end: impl FnOnce() + Send + 'static,
    ) -> (PoolSlot, bool) {
        let mut state = lock(&self.state);
        state.newest += 1;
        let number = state.newest;
        state.there.push(Member {
            number,
            network,
            end: Box::new(end),
        });
        let lost = (state.there.len() > self.most).then(|| state.evict());
        drop(state);
        let crowded_out = lost.is_some();
        if let Some(lost) = lost {
            (lost.end)();
        }
        let pool = self.clone();
        (PoolSlot { pool, number }, crowded_out)
    }
}

impl State {
    /// The oldest of the network that has most; of several such networks the one with the oldest connection.
    fn evict(&mut self) -> Member {
        let mut counts: HashMap<Network, usize> = HashMap::new();
        for stranger in &self.there {
            *counts.entry(stranger.network).or_default() += 1;
        }
        let most = counts.values().max().copied();
        let of_it = |stranger: &Member| counts.get(&stranger.network).copied() == most;
        let at = self.there.iter().position(of_it).unwrap_or(0);
        self.there.remove(at)
    }
}

/// See [`EvictingPool::enter`].
pub(crate) struct PoolSlot {
    pool: EvictingPool,
    number: u64,
}

impl Drop for PoolSlot {
    fn drop(&mut self) {
        let number = self.number;
        lock(&self.pool.state).there.retain(|s| s.number != number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    struct Connection {
        ended: Arc<AtomicBool>,
        place: PoolSlot,
    }

    impl Connection {
        fn begin(pool: &EvictingPool, from: &str) -> Connection {
            let ended = Arc::new(AtomicBool::new(false));
            let told = ended.clone();
            let network = Network::of(from.parse().unwrap());
            let (place, _) = pool.enter(network, move || told.store(true, Ordering::Relaxed));
            Connection { ended, place }
        }

        fn is_over(&self) -> bool {
            self.ended.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_network_that_holds_all_places_shuts_out_itself_alone() {
        let pool = EvictingPool::new(8);
        let mut held: Vec<Connection> = Vec::new();
        let honest = Connection::begin(&pool, "192.0.2.1");
        for n in 0..1000 {
            held.push(Connection::begin(&pool, &format!("2001:db8::{n:x}")));
            let there = held.iter().filter(|one| !one.is_over()).count();
            assert!(there <= 7);
        }
        assert!(!honest.is_over());
        // One that comes later has a place, too.
        let later = Connection::begin(&pool, "192.0.2.2");
        held.push(Connection::begin(&pool, "2001:db8::ffff"));
        assert!(!later.is_over() && !honest.is_over());
    }

    #[test]
    fn four_networks_that_hold_all_places_do_not_keep_a_fifth_out() {
        let pool = EvictingPool::new(8);
        let mut held: Vec<Connection> = Vec::new();
        for n in 0..100 {
            held.push(Connection::begin(&pool, &format!("192.0.2.{}", n % 4)));
        }
        let honest = Connection::begin(&pool, "192.0.2.9");
        for n in 0..1000 {
            held.push(Connection::begin(&pool, &format!("192.0.2.{}", n % 4)));
        }
        assert!(!honest.is_over());
    }

    #[test]
    fn of_networks_that_have_as_many_the_oldest_connection_goes() {
        let pool = EvictingPool::new(3);
        let from = |n: usize| Connection::begin(&pool, &format!("192.0.2.{n}"));
        let all: Vec<Connection> = (0..5).map(from).collect();
        let over: Vec<bool> = all.iter().map(Connection::is_over).collect();
        assert_eq!(over, [true, true, false, false, false]);
    }

    #[test]
    fn a_place_is_free_when_it_is_dropped() {
        let pool = EvictingPool::new(1);
        let first = Connection::begin(&pool, "192.0.2.1");
        let ended = first.ended.clone();
        drop(first.place);
        let second = Connection::begin(&pool, "192.0.2.2");
        assert!(!ended.load(Ordering::Relaxed) && !second.is_over());
    }
}
