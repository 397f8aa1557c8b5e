//! Limits the number of connections, and shares the slots fairly between networks. Each network has its own limit. If a
//! network is at its limit or the pool is full, a new connection evicts an unauthenticated connection.
//!
//! A connection is unauthenticated until a request on it has a valid log-in cookie. A network at its limit loses its
//! own oldest unauthenticated connection. In a full pool, the network with the most unauthenticated connections loses
//! the oldest of them. Slow requests therefore hold slots only until new connections arrive.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::network::Network;

/// Maximum evictions per second, per network and in total. Above these limits, a new connection that needs an eviction
/// is closed at once. Each eviction costs the portal about 0.1 ms of a core, so 10,000 per second (`openuvr lab attack
/// --only portal-bodies`) would use the whole core. The limit, a fifth of a core, is a guess.
const EVICTIONS: EvictionLimits = EvictionLimits {
    of_network: 500,
    of_all: 2000,
};

struct EvictionLimits {
    of_network: u32,
    of_all: u32,
}

/// The number of a connection, in order of arrival.
type Number = u64;

pub(super) struct ConnectionPool {
    /// The maximum numbers of connections: in total (`all`) and per network (`each`).
    all: usize,
    each: usize,
    taken: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    count: usize,
    next: Number,
    evictions: RateCounter,
    by: HashMap<Network, NetworkConnections>,
}

#[derive(Default)]
struct NetworkConnections {
    unauthenticated: BTreeMap<Number, Arc<Notify>>,
    known: usize,
    evictions: RateCounter,
}

/// Number of events in the second that started at `begun`.
#[derive(Default)]
struct RateCounter {
    begun: Option<Instant>,
    count: u32,
}

impl RateCounter {
    /// Counts an event. Returns whether the limit still permits it.
    fn take(&mut self, now: Instant, most: u32) -> bool {
        if self
            .begun
            .is_none_or(|at| now >= at + Duration::from_secs(1))
        {
            (self.begun, self.count) = (Some(now), 0);
        }
        self.count = self.count.saturating_add(1);
        self.count <= most
    }
}

/// The slot of one connection. Dropping it releases the slot.
pub(super) struct ConnectionSlot {
    pool: Arc<ConnectionPool>,
    network: Network,
    number: Number,
    /// Notified when the slot is evicted.
    wanted: Arc<Notify>,
    known: Mutex<bool>,
}

impl ConnectionPool {
    pub(super) fn new(all: usize, each: usize) -> Arc<ConnectionPool> {
        Arc::new(ConnectionPool {
            all,
            each,
            taken: Mutex::default(),
        })
    }

    /// Takes a slot for a connection from this network. Returns `None` if a limit is reached and no connection can be
    /// evicted, or if the limit of evictions is reached.
    pub(super) fn enter(
        self: &Arc<ConnectionPool>,
        network: Network,
        now: Instant,
    ) -> Option<ConnectionSlot> {
        let mut taken = self.lock();
        let own = taken.by.get(&network).map_or(0, NetworkConnections::count);
        let from = match own >= self.each {
            true => Some(network),
            false if taken.count >= self.all => Some(taken.most_unauthenticated()?),
            false => None,
        };
        if let Some(from) = from {
            let own = taken.by.get_mut(&from)?;
            let may = own.evictions.take(now, EVICTIONS.of_network);
            if !may || !taken.evictions.take(now, EVICTIONS.of_all) {
                return None;
            }
            taken.take_oldest(from)?;
        }
        let (number, wanted) = (taken.next, Arc::new(Notify::new()));
        taken.next += 1;
        taken.count += 1;
        let held = taken.by.entry(network).or_default();
        held.unauthenticated.insert(number, Arc::clone(&wanted));
        Some(ConnectionSlot {
            pool: Arc::clone(self),
            network,
            number,
            wanted,
            known: Mutex::new(false),
        })
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolState {
    fn most_unauthenticated(&self) -> Option<Network> {
        let most = self
            .by
            .iter()
            .max_by_key(|(_, held)| held.unauthenticated.len());
        most.map(|(network, _)| *network)
    }

    /// Evicts the network's oldest unauthenticated connection, if it has one.
    fn take_oldest(&mut self, network: Network) -> Option<()> {
        let (_, wanted) = self.by.get_mut(&network)?.unauthenticated.pop_first()?;
        wanted.notify_one();
        self.left(network);
        Some(())
    }

    /// Releases a slot of this network.
    fn left(&mut self, network: Network) {
        self.count -= 1;
        if self.by.get(&network).is_some_and(|held| held.count() == 0) {
            self.by.remove(&network);
        }
    }
}

impl NetworkConnections {
    fn count(&self) -> usize {
        self.unauthenticated.len() + self.known
    }
}

impl ConnectionSlot {
    /// Returns when the slot is evicted.
    pub(super) async fn taken(&self) {
        self.wanted.notified().await;
    }

    /// Marks the connection as authenticated.
    pub(super) fn known(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if *known {
            return;
        }
        let mut taken = self.pool.lock();
        if let Some(held) = taken.by.get_mut(&self.network)
            && held.unauthenticated.remove(&self.number).is_some()
        {
            held.known += 1;
            *known = true;
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = self.pool.lock();
        let Some(held) = taken.by.get_mut(&self.network) else {
            return;
        };
        let had = match known {
            true => {
                held.known -= 1;
                true
            }
            false => held.unauthenticated.remove(&self.number).is_some(),
        };
        if had {
            taken.left(self.network);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn network(number: u16) -> Network {
        Network::V6([0x2001, 0xdb8, 0, number])
    }

    fn enter(pool: &Arc<ConnectionPool>, network: Network) -> Option<ConnectionSlot> {
        pool.enter(network, Instant::now())
    }

    fn is_taken(slot: &ConnectionSlot) -> bool {
        slot.taken().now_or_never().is_some()
    }

    #[test]
    fn a_full_network_evicts_its_oldest_connection() {
        let pool = ConnectionPool::new(100, 3);
        let mut all: Vec<ConnectionSlot> =
            (0..3).map(|_| enter(&pool, network(1)).unwrap()).collect();
        all[0].known();
        all.push(enter(&pool, network(1)).unwrap());
        let taken: Vec<bool> = all.iter().map(is_taken).collect();
        assert_eq!(taken, [false, true, false, false]);
        for slot in &all {
            slot.known();
        }
        assert!(
            enter(&pool, network(1)).is_none(),
            "all others are authenticated"
        );
        let other = enter(&pool, network(2)).unwrap();
        assert!(!is_taken(&other));
        all.truncate(1);
        assert!(enter(&pool, network(1)).is_some());
    }

    #[test]
    fn many_networks_leave_a_slot_for_another() {
        let pool = ConnectionPool::new(20, 10);
        let mut unauthenticated: Vec<ConnectionSlot> = (0..10)
            .flat_map(|n| (0..8).map(move |_| n))
            .filter_map(|n| enter(&pool, network(n)))
            .collect();
        unauthenticated.retain(|slot| !is_taken(slot));
        assert_eq!((unauthenticated.len(), pool.lock().count), (20, 20));
        let honest = enter(&pool, network(100)).unwrap();
        honest.known();
        let again: Vec<ConnectionSlot> = (0..50)
            .filter_map(|n| enter(&pool, network(n % 10)))
            .collect();
        assert!(!is_taken(&honest));
        assert_eq!(pool.lock().count, 20);
        drop((unauthenticated, honest, again));
        assert_eq!(pool.lock().count, 0);
        assert!(pool.lock().by.is_empty());
    }

    #[test]
    fn evictions_are_rate_limited() {
        let pool = ConnectionPool::new(100, 2);
        let now = Instant::now();
        let mut held = Vec::new();
        let mut flood = |network: Network, now| {
            let before = held.len();
            held.extend((0..10_000).filter_map(|_| pool.enter(network, now)));
            held.len() - before
        };
        let of_network = EVICTIONS.of_network as usize;
        assert_eq!(flood(network(1), now), 2 + of_network);
        // Each of the other networks has its own limit. All networks share the total limit.
        let others: usize = (2..10).map(|n| flood(network(n), now)).sum();
        assert_eq!(others, 2 * 8 + EVICTIONS.of_all as usize - of_network);
        let later = now + Duration::from_secs(1);
        assert_eq!(flood(network(1), later), of_network);
    }
}
