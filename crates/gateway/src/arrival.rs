//! A TCP connection to the page and its class: a stranger's, a logged-in device's, or a reverse proxy's. Each class has
//! places of its own, so that none of them takes those of another.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::header::HeaderMap;
use openuvr_proto::control::identity::PublicKey;
use openuvr_runtime::lock::lock;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::crowd::{Crowd, StrangerPlace};
use crate::forwarded::{self, FORWARDED_FOR};
use crate::http;
use crate::network::Network;
use crate::shared::{Ends, Shared};

/// Connections of strangers at a time: a page takes up to six (a WebSocket counts until it is one).
const STRANGERS: usize = 256;

/// Connections of devices that have logged in: as many as [`STRANGERS`], and of one device those of a few tabs.
const OF_DEVICES: usize = 256;
/// See [`OF_DEVICES`].
const OF_A_DEVICE: usize = 24;

/// Connections of named reverse proxies, which may open one for each request.
const OF_PROXIES: usize = 512;

/// The life of a stranger's connection: the page and a log-in on a slow link (a guess).
const STRANGER_WITHIN: Duration = Duration::from_secs(20);

/// … and that of others.
const SERVED_WITHIN: Duration = Duration::from_secs(60);

/// The places of all classes. Clones share them.
#[derive(Clone)]
pub(crate) struct Places {
    strangers: Crowd,
    devices: Counted<PublicKey>,
    proxies: Counted<()>,
}

impl Default for Places {
    fn default() -> Places {
        Places {
            strangers: Crowd::new(STRANGERS),
            devices: Counted::new(OF_DEVICES, OF_A_DEVICE),
            proxies: Counted::new(OF_PROXIES, OF_PROXIES),
        }
    }
}

/// One connection.
pub(crate) struct Arrival {
    ends: Ends,
    places: Places,
    class: Mutex<Class>,
    /// A stranger's place was taken by another connection.
    displaced: Arc<Notify>,
}

enum Class {
    Stranger { _place: StrangerPlace },
    Device { _place: CountedPlace<PublicKey> },
    Proxy { _place: CountedPlace<()> },
}

impl Arrival {
    /// The class of a connection that has just come; `None`: the proxies have too many.
    pub(crate) fn new(shared: &Shared, places: &Places, ends: Ends) -> Option<Arrival> {
        let displaced = Arc::new(Notify::new());
        let address = ends.theirs.ip();
        let class = match forwarded::is_proxy(&shared.proxies, address) {
            true => Class::Proxy {
                _place: places.proxies.take(())?,
            },
            false => {
                let told = displaced.clone();
                let end = move || told.notify_one();
                let (place, crowded_out) = places.strangers.enter(Network::of(address), end);
                shared.counters.crowded_out.add(u64::from(crowded_out));
                Class::Stranger { _place: place }
            }
        };
        Some(Arrival {
            ends,
            places: places.clone(),
            class: Mutex::new(class),
            displaced,
        })
    }

    /// Both ends of a request: behind a named proxy the browser's own.
    pub(crate) fn request(&self, shared: &Shared, headers: &HeaderMap) -> Ends {
        if let Some(visitor) = http::visitor(shared, headers) {
            self.logged_in(visitor.device);
        }
        let mut ends = self.ends;
        let values = headers.get_all(FORWARDED_FOR).iter();
        let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
        let peer = ends.theirs.ip();
        let browser = forwarded::browser(peer, values.iter().copied(), &shared.proxies);
        ends.theirs.set_ip(browser);
        ends.through_proxy = forwarded::is_proxy(&shared.proxies, peer)
            || headers.contains_key(FORWARDED_FOR)
            || headers.contains_key("forwarded");
        ends
    }

    /// A stranger has shown the token of a device. Where that has no place left, the connection stays a stranger's.
    fn logged_in(&self, device: PublicKey) {
        let mut class = lock(&self.class);
        if let Class::Stranger { .. } = *class
            && let Some(place) = self.places.devices.take(device)
        {
            *class = Class::Device { _place: place };
        }
    }

    fn is_stranger(&self) -> bool {
        matches!(*lock(&self.class), Class::Stranger { .. })
    }

    /// Serves until `serving` ends, or as long as a connection of this class may last; `None`: it was ended.
    pub(crate) async fn lasting<T>(&self, serving: impl Future<Output = T>) -> Option<T> {
        let ended = async {
            let displaced = self.displaced.notified();
            // Displaced or too old: one that has logged in meanwhile is neither.
            let _ = timeout(STRANGER_WITHIN, displaced).await;
            if !self.is_stranger() {
                tokio::time::sleep(SERVED_WITHIN - STRANGER_WITHIN).await;
            }
        };
        tokio::select! {
            served = serving => Some(served),
            () = ended => None,
        }
    }
}

/// Places that are counted by their owner.
struct Counted<K> {
    all: usize,
    each: usize,
    taken: Arc<Mutex<Vec<K>>>,
}

impl<K> Clone for Counted<K> {
    fn clone(&self) -> Counted<K> {
        Counted {
            all: self.all,
            each: self.each,
            taken: self.taken.clone(),
        }
    }
}

impl<K: PartialEq + Copy> Counted<K> {
    fn new(all: usize, each: usize) -> Counted<K> {
        Counted {
            all,
            each,
            taken: Arc::default(),
        }
    }

    fn take(&self, owner: K) -> Option<CountedPlace<K>> {
        let mut taken = lock(&self.taken);
        let same = taken.iter().filter(|other| **other == owner).count();
        if taken.len() >= self.all || same >= self.each {
            return None;
        }
        taken.push(owner);
        let places = self.clone();
        Some(CountedPlace { places, owner })
    }
}

struct CountedPlace<K: PartialEq + Copy> {
    places: Counted<K>,
    owner: K,
}

impl<K: PartialEq + Copy> Drop for CountedPlace<K> {
    fn drop(&mut self) {
        let mut taken = lock(&self.places.taken);
        if let Some(at) = taken.iter().position(|owner| *owner == self.owner) {
            taken.swap_remove(at);
        }
    }
}
