//! Connection limits in two classes. Connections without a valid token are short-lived and evict each other
//! ([`EvictingPool`]). Players are never evicted.

use std::collections::HashMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use openuvr_runtime::connection_limits::{EvictingPool, Network, PoolSlot};
use openuvr_runtime::lock::lock;

/// Maximum connections without a valid token. Each has two threads.
const UNAUTHENTICATED: usize = 32;

/// Maximum concurrent players in total.
const PLAYERS: usize = 16;
/// Maximum concurrent players from one network: two players, each with a recorder.
const PER_NETWORK: usize = 4;

/// The limits. Clones share them.
#[derive(Clone)]
pub(super) struct ConnectionLimits {
    unauthenticated: EvictingPool,
    players: Arc<Mutex<HashMap<Network, usize>>>,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            unauthenticated: EvictingPool::new(UNAUTHENTICATED),
            players: Arc::default(),
        }
    }
}

impl ConnectionLimits {
    /// The slot of a new connection. The connection is closed when another one evicts it.
    pub(super) fn enter(&self, from: IpAddr, stream: Arc<TcpStream>) -> ConnectionSlot {
        let network = Network::of(from);
        let (slot, _) = self.unauthenticated.enter(network, move || {
            // An error is ignored: an already closed connection needs no shutdown.
            let _ = stream.shutdown(Shutdown::Both);
        });
        ConnectionSlot {
            limits: self.clone(),
            network,
            class: Class::Unauthenticated { _place: slot },
        }
    }
}

/// A connection's slot until it is dropped.
pub(super) struct ConnectionSlot {
    limits: ConnectionLimits,
    network: Network,
    class: Class,
}

enum Class {
    Unauthenticated { _place: PoolSlot },
    Player { _place: PlayerSlot },
}

impl ConnectionSlot {
    /// Called when the connection has presented the token. Returns whether it may play.
    pub(super) fn start_playing(&mut self) -> bool {
        if let Class::Player { .. } = self.class {
            return true;
        }
        let mut players = lock(&self.limits.players);
        let all: usize = players.values().sum();
        let of_it = players.get(&self.network).copied().unwrap_or_default();
        if all >= PLAYERS || of_it >= PER_NETWORK {
            return false;
        }
        players.insert(self.network, of_it + 1);
        drop(players);
        self.class = Class::Player {
            _place: PlayerSlot {
                limits: self.limits.clone(),
                network: self.network,
            },
        };
        true
    }
}

struct PlayerSlot {
    limits: ConnectionLimits,
    network: Network,
}

impl Drop for PlayerSlot {
    fn drop(&mut self) {
        let mut players = lock(&self.limits.players);
        if let Some(of_it) = players.get_mut(&self.network) {
            *of_it -= 1;
            if *of_it == 0 {
                players.remove(&self.network);
            }
        }
    }
}
