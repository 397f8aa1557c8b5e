//! Limit for unauthenticated connections. A new connection always gets a slot. When the pool is full, the new
//! connection evicts the oldest connection of the network that has the most connections. A network that fills the pool
//! therefore locks out only itself. Several networks together lock out an honest peer only if they open new connections
//! faster than the peer logs in.
//!
//! Half-open handshakes of native clients follow a similar rule (`crates/proto/src/control/handshake/host.rs`):
//! handshakes for a pairing or with a ticket are counted by network, reconnections of paired devices by device.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::Network;
use crate::lock::lock;

/// Closes a connection.
type End = Box<dyn FnOnce() + Send>;

/// The pool. All clones share the same slots.
#[derive(Clone)]
pub struct EvictingPool {
    most: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Number of the newest connection.
    newest: u64,
    /// Oldest first.
    members: Vec<Member>,
}

struct Member {
    number: u64,
    network: Network,
    end: End,
}

impl EvictingPool {
    /// Creates a pool of at most this many connections.
    #[must_use]
    pub fn new(most: usize) -> EvictingPool {
        EvictingPool {
            most,
            state: Arc::default(),
        }
    }

    /// Returns a slot for a connection from this network, and whether another connection was evicted for it. The
    /// connection holds the slot until the slot is dropped. `end` is called if the new connection is evicted later.
    pub fn enter(&self, network: Network, end: impl FnOnce() + Send + 'static) -> (PoolSlot, bool) {
        let mut state = lock(&self.state);
        state.newest += 1;
        let number = state.newest;
        state.members.push(Member {
            number,
            network,
            end: Box::new(end),
        });
        let lost = (state.members.len() > self.most).then(|| state.evict());
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
    /// Removes the oldest connection of the network with the most connections. If several networks have equally many,
    /// the oldest of all their connections is removed.
    fn evict(&mut self) -> Member {
        let mut counts: HashMap<Network, usize> = HashMap::new();
        for member in &self.members {
            *counts.entry(member.network).or_default() += 1;
        }
        let most = counts.values().max().copied();
        let of_it = |member: &Member| counts.get(&member.network).copied() == most;
        let at = self.members.iter().position(of_it).unwrap_or(0);
        self.members.remove(at)
    }
}

/// See [`EvictingPool::enter`].
pub struct PoolSlot {
    pool: EvictingPool,
    number: u64,
}

impl Drop for PoolSlot {
    fn drop(&mut self) {
        let number = self.number;
        lock(&self.pool.state)
            .members
            .retain(|s| s.number != number);
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
        fn open(pool: &EvictingPool, from: &str) -> Connection {
            let ended = Arc::new(AtomicBool::new(false));
            let flag = ended.clone();
            let network = Network::of(from.parse().unwrap());
            let (place, _) = pool.enter(network, move || flag.store(true, Ordering::Relaxed));
            Connection { ended, place }
        }

        fn is_over(&self) -> bool {
            self.ended.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_full_pool_evicts_the_largest_network() {
        let pool = EvictingPool::new(8);
        let mut held: Vec<Connection> = Vec::new();
        let honest = Connection::open(&pool, "192.0.2.1");
        for n in 0..1000 {
            held.push(Connection::open(&pool, &format!("2001:db8::{n:x}")));
            let members = held.iter().filter(|one| !one.is_over()).count();
            assert!(members <= 7);
        }
        assert!(!honest.is_over());
        // A later connection from another network gets a slot too.
        let later = Connection::open(&pool, "192.0.2.2");
        held.push(Connection::open(&pool, "2001:db8::ffff"));
        assert!(!later.is_over() && !honest.is_over());
    }

    #[test]
    fn four_full_networks_admit_a_fifth() {
        let pool = EvictingPool::new(8);
        let mut held: Vec<Connection> = Vec::new();
        for n in 0..100 {
            held.push(Connection::open(&pool, &format!("192.0.2.{}", n % 4)));
        }
        let honest = Connection::open(&pool, "192.0.2.9");
        for n in 0..1000 {
            held.push(Connection::open(&pool, &format!("192.0.2.{}", n % 4)));
        }
        assert!(!honest.is_over());
    }

    #[test]
    fn ties_evict_the_oldest_connection() {
        let pool = EvictingPool::new(3);
        let from = |n: usize| Connection::open(&pool, &format!("192.0.2.{n}"));
        let all: Vec<Connection> = (0..5).map(from).collect();
        let over: Vec<bool> = all.iter().map(Connection::is_over).collect();
        assert_eq!(over, [true, true, false, false, false]);
    }

    #[test]
    fn a_dropped_slot_is_free() {
        let pool = EvictingPool::new(1);
        let first = Connection::open(&pool, "192.0.2.1");
        let ended = first.ended.clone();
        drop(first.place);
        let second = Connection::open(&pool, "192.0.2.2");
        assert!(!ended.load(Ordering::Relaxed) && !second.is_over());
    }
}
