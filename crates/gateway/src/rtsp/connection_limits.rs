//! The places of connections, in two classes: those that have not shown the token, which live shortly and displace each
//! other ([`EvictingPool`]), and players, which keep their place.

use std::collections::HashMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use openuvr_runtime::lock::lock;

use crate::evicting_pool::{EvictingPool, PoolSlot};
use crate::network::Network;

/// Connections that have not shown the token: two threads each.
const UNAUTHENTICATED: usize = 32;

/// Players at a time, in all …
const PLAYERS: usize = 16;
/// … and from one network: a player and its recorder, twice.
const OF_A_NETWORK: usize = 4;

/// Clones share the places.
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
    /// The place of a connection that has just come; it is closed if another takes its place.
    pub(super) fn enter(&self, from: IpAddr, stream: Arc<TcpStream>) -> ConnectionSlot {
        let network = Network::of(from);
        let (stranger, _) = self.unauthenticated.enter(network, move || {
            // One that is gone needs no end.
            let _ = stream.shutdown(Shutdown::Both);
        });
        ConnectionSlot {
            limits: self.clone(),
            network,
            class: Class::Unauthenticated { _place: stranger },
        }
    }
}

/// A connection's place until it is dropped.
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
    /// The connection has shown the token; whether there is a place for it.
    pub(super) fn start_playing(&mut self) -> bool {
        if let Class::Player { .. } = self.class {
            return true;
        }
        let mut players = lock(&self.limits.players);
        let all: usize = players.values().sum();
        let of_it = players.get(&self.network).copied().unwrap_or_default();
        if all >= PLAYERS || of_it >= OF_A_NETWORK {
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
