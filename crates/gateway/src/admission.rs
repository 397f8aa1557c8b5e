//! A TCP connection to the page and its class: a stranger's, a logged-in device's, or a reverse proxy's. Each class has
//! places of its own, so that none of them takes those of another.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::header::HeaderMap;
use openuvr_proto::control::identity::PublicKey;
use openuvr_runtime::lock::lock;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::evicting_pool::{EvictingPool, PoolSlot};
use crate::forwarded::{self, FORWARDED_FOR};
use crate::http;
use crate::network::Network;
use crate::shared::{Endpoints, Shared};

/// Connections of strangers at a time: a page takes up to six (a WebSocket counts until it is one).
const UNAUTHENTICATED: usize = 256;

/// Connections of devices that have logged in: as many as [`UNAUTHENTICATED`], and of one device those of a few tabs.
const OF_DEVICES: usize = 256;
/// See [`OF_DEVICES`].
const OF_A_DEVICE: usize = 24;

/// Connections of named reverse proxies, which may open one for each request.
const OF_PROXIES: usize = 512;

/// The life of a stranger's connection: the page and a log-in on a slow link (a guess).
const LOG_IN_WITHIN: Duration = Duration::from_secs(20);

/// … and that of others.
const SERVED_WITHIN: Duration = Duration::from_secs(60);

/// The places of all classes. Clones share them.
#[derive(Clone)]
pub(crate) struct ConnectionLimits {
    unauthenticated: EvictingPool,
    devices: Quota<PublicKey>,
    proxies: Quota<()>,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            unauthenticated: EvictingPool::new(UNAUTHENTICATED),
            devices: Quota::new(OF_DEVICES, OF_A_DEVICE),
            proxies: Quota::new(OF_PROXIES, OF_PROXIES),
        }
    }
}

/// One connection.
pub(crate) struct Admission {
    endpoints: Endpoints,
    limits: ConnectionLimits,
    class: Mutex<Class>,
    /// A stranger's place was taken by another connection.
    displaced: Arc<Notify>,
}

enum Class {
    Unauthenticated { _place: PoolSlot },
    Device { _place: QuotaSlot<PublicKey> },
    Proxy { _place: QuotaSlot<()> },
}

impl Admission {
    /// The class of a connection that has just come; `None`: the proxies have too many.
    pub(crate) fn new(
        shared: &Shared,
        limits: &ConnectionLimits,
        endpoints: Endpoints,
    ) -> Option<Admission> {
        let displaced = Arc::new(Notify::new());
        let address = endpoints.remote.ip();
        let class = match forwarded::is_proxy(&shared.proxies, address) {
            true => Class::Proxy {
                _place: limits.proxies.take(())?,
            },
            false => {
                let told = displaced.clone();
                let end = move || told.notify_one();
                let (place, crowded_out) = limits.unauthenticated.enter(Network::of(address), end);
                shared.counters.crowded_out.add(u64::from(crowded_out));
                Class::Unauthenticated { _place: place }
            }
        };
        Some(Admission {
            endpoints,
            limits: limits.clone(),
            class: Mutex::new(class),
            displaced,
        })
    }

    /// Both ends of a request: behind a named proxy the browser's own.
    pub(crate) fn request(&self, shared: &Shared, headers: &HeaderMap) -> Endpoints {
        if let Some(visitor) = http::visitor(shared, headers) {
            self.logged_in(visitor.device);
        }
        let mut endpoints = self.endpoints;
        let values = headers.get_all(FORWARDED_FOR).iter();
        let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
        let peer = endpoints.remote.ip();
        let browser = forwarded::browser(peer, values.iter().copied(), &shared.proxies);
        endpoints.remote.set_ip(browser);
        endpoints.through_proxy = forwarded::is_proxy(&shared.proxies, peer)
            || headers.contains_key(FORWARDED_FOR)
            || headers.contains_key("forwarded");
        endpoints
    }

    /// A stranger has shown the token of a device. Where that has no place left, the connection stays a stranger's.
    fn logged_in(&self, device: PublicKey) {
        let mut class = lock(&self.class);
        if let Class::Unauthenticated { .. } = *class
            && let Some(place) = self.limits.devices.take(device)
        {
            *class = Class::Device { _place: place };
        }
    }

    fn is_unauthenticated(&self) -> bool {
        matches!(*lock(&self.class), Class::Unauthenticated { .. })
    }

    /// Serves until `serving` ends, or as long as a connection of this class may last; `None`: it was ended.
    pub(crate) async fn lasting<T>(&self, serving: impl Future<Output = T>) -> Option<T> {
        let ended = async {
            let displaced = self.displaced.notified();
            // Displaced or too old: one that has logged in meanwhile is neither.
            let _ = timeout(LOG_IN_WITHIN, displaced).await;
            if !self.is_unauthenticated() {
                tokio::time::sleep(SERVED_WITHIN - LOG_IN_WITHIN).await;
            }
        };
        tokio::select! {
            served = serving => Some(served),
            () = ended => None,
        }
    }
}

/// Places that are counted by their owner.
struct Quota<K> {
    all: usize,
    each: usize,
    taken: Arc<Mutex<Vec<K>>>,
}

impl<K> Clone for Quota<K> {
    fn clone(&self) -> Quota<K> {
        Quota {
            all: self.all,
            each: self.each,
            taken: self.taken.clone(),
        }
    }
}

impl<K: PartialEq + Copy> Quota<K> {
    fn new(all: usize, each: usize) -> Quota<K> {
        Quota {
            all,
            each,
            taken: Arc::default(),
        }
    }

    fn take(&self, owner: K) -> Option<QuotaSlot<K>> {
        let mut taken = lock(&self.taken);
        let same = taken.iter().filter(|other| **other == owner).count();
        if taken.len() >= self.all || same >= self.each {
            return None;
        }
        taken.push(owner);
        let limits = self.clone();
        Some(QuotaSlot { limits, owner })
    }
}

struct QuotaSlot<K: PartialEq + Copy> {
    limits: Quota<K>,
    owner: K,
}

impl<K: PartialEq + Copy> Drop for QuotaSlot<K> {
    fn drop(&mut self) {
        let mut taken = lock(&self.limits.taken);
        if let Some(at) = taken.iter().position(|owner| *owner == self.owner) {
            taken.swap_remove(at);
        }
    }
}
