//! The places of connections, in two classes: those that have not shown the token, which live shortly and displace each
//! other ([`Crowd`]), and players, which keep their place.

use std::collections::HashMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use openuvr_runtime::lock::lock;

use crate::crowd::{Crowd, StrangerPlace};
use crate::network::Network;

/// Connections that have not shown the token: two threads each.
const STRANGERS: usize = 32;

/// Players at a time, in all …
const PLAYERS: usize = 16;
/// … and from one network: a player and its recorder, twice.
const OF_A_NETWORK: usize = 4;

/// Clones share the places.
#[derive(Clone)]
pub(super) struct Places {
    strangers: Crowd,
    players: Arc<Mutex<HashMap<Network, usize>>>,
}

impl Default for Places {
    fn default() -> Places {
        Places {
            strangers: Crowd::new(STRANGERS),
            players: Arc::default(),
        }
    }
}

impl Places {
    /// The place of a connection that has just come; it is closed if another takes its place.
    pub(super) fn enter(&self, from: IpAddr, stream: Arc<TcpStream>) -> Place {
        let network = Network::of(from);
        let (stranger, _) = self.strangers.enter(network, move || {
            // One that is gone needs no end.
            let _ = stream.shutdown(Shutdown::Both);
        });
        Place {
            places: self.clone(),
            network,
            class: Class::Stranger { _place: stranger },
        }
    }
}

/// A connection's place until it is dropped.
pub(super) struct Place {
    places: Places,
    network: Network,
    class: Class,
}

enum Class {
    Stranger { _place: StrangerPlace },
    Player { _place: PlayerPlace },
}

impl Place {
    /// The connection has shown the token; whether there is a place for it.
    pub(super) fn plays(&mut self) -> bool {
        if let Class::Player { .. } = self.class {
            return true;
        }
        let mut players = lock(&self.places.players);
        let all: usize = players.values().sum();
        let of_it = players.get(&self.network).copied().unwrap_or_default();
        if all >= PLAYERS || of_it >= OF_A_NETWORK {
            return false;
        }
        players.insert(self.network, of_it + 1);
        drop(players);
        self.class = Class::Player {
            _place: PlayerPlace {
                places: self.places.clone(),
                network: self.network,
            },
        };
        true
    }
}

struct PlayerPlace {
    places: Places,
    network: Network,
}

impl Drop for PlayerPlace {
    fn drop(&mut self) {
        let mut players = lock(&self.places.players);
        if let Some(of_it) = players.get_mut(&self.network) {
            *of_it -= 1;
            if *of_it == 0 {
                players.remove(&self.network);
            }
        }
    }
}
