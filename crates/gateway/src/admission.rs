//! A TCP connection to the page and its class: unauthenticated, logged-in device, or reverse proxy. Each class has its
//! own limit, so no class can exhaust the connections of another.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::header::HeaderMap;
use openuvr_proto::control::identity::PublicKey;
use openuvr_runtime::connection_limits::{EvictingPool, Network, PoolSlot, Quota, QuotaSlot};
use openuvr_runtime::lock::lock;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::forwarded::{self, FORWARDED_FOR};
use crate::http;
use crate::shared::{Endpoints, Shared};

/// Maximum concurrent unauthenticated connections. A page uses up to six (a WebSocket counts until its upgrade).
const UNAUTHENTICATED: usize = 256;

/// Maximum connections of all logged-in devices together: the same number as [`UNAUTHENTICATED`].
const DEVICES: usize = 256;
/// Maximum connections of one logged-in device: enough for a few tabs.
const PER_DEVICE: usize = 24;

/// Maximum connections of configured reverse proxies. A proxy may open one connection for each request.
const PROXIES: usize = 512;

/// Lifetime of an unauthenticated connection (guess: enough to load the page and log in over a slow link).
const LOG_IN_TIMEOUT: Duration = Duration::from_secs(20);

/// Lifetime of the connections of logged-in devices and reverse proxies.
const SERVED_TIMEOUT: Duration = Duration::from_secs(60);

/// The limits of all classes. Clones share them.
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
            devices: Quota::new(DEVICES, PER_DEVICE),
            proxies: Quota::new(PROXIES, PROXIES),
        }
    }
}

/// One connection.
pub(crate) struct Admission {
    endpoints: Endpoints,
    limits: ConnectionLimits,
    class: Mutex<Class>,
    /// Notified when another connection evicts this unauthenticated one.
    displaced: Arc<Notify>,
}

enum Class {
    Unauthenticated { _place: PoolSlot },
    Device { _place: QuotaSlot<PublicKey> },
    Proxy { _place: QuotaSlot<()> },
}

impl Admission {
    /// Classifies a new connection; `None` if the limit for proxies is reached.
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
                let notification = displaced.clone();
                let end = move || notification.notify_one();
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

    /// The endpoints of a request. Behind a configured proxy, the remote IP address is the browser's.
    pub(crate) fn request(&self, shared: &Shared, headers: &HeaderMap) -> Endpoints {
        if let Some(visitor) = http::visitor(shared, headers) {
            self.logged_in(visitor.device);
        }
        let mut endpoints = self.endpoints;
        // A browser may send any bytes, to which the proxy appends its own entry.
        let values = headers.get_all(FORWARDED_FOR).iter();
        let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let values: Vec<_> = values.collect();
        let values = values.iter().map(|value| &**value);
        let peer = endpoints.remote.ip();
        let browser = forwarded::browser(peer, values, &shared.proxies);
        endpoints.remote.set_ip(browser);
        endpoints.through_proxy = forwarded::is_proxy(&shared.proxies, peer)
            || headers.contains_key(FORWARDED_FOR)
            || headers.contains_key("forwarded");
        endpoints
    }

    /// Called when the connection has presented a device's token. If that device is at its limit, the connection stays
    /// unauthenticated.
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

    /// Runs `serving` to its end; `None` if the connection expires or is evicted first.
    pub(crate) async fn lasting<T>(&self, serving: impl Future<Output = T>) -> Option<T> {
        let ended = async {
            let displaced = self.displaced.notified();
            // When this wait ends, an unauthenticated connection has been evicted or has expired. A proxy, or a device
            // that has logged in in the meantime, keeps its connection.
            let _ = timeout(LOG_IN_TIMEOUT, displaced).await;
            if !self.is_unauthenticated() {
                tokio::time::sleep(SERVED_TIMEOUT - LOG_IN_TIMEOUT).await;
            }
        };
        tokio::select! {
            served = serving => Some(served),
            () = ended => None,
        }
    }
}
