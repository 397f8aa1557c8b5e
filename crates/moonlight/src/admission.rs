//! Limits the TCP connections of three classes: strangers, addresses at which a paired client was recently
//! authenticated, and devices that have shown their certificate on the connection itself. Strangers' connections are
//! short-lived and evict each other. Connections of the other two classes, and of the one client that waits for its
//! PIN, are never evicted. All ports share the limits.
//!
//! Requests over HTTP and RTSP carry no identity, so the source address has to identify the client. A stranger behind
//! the same address competes with the client for the address's slots. The client's HTTPS requests do not compete,
//! because they count for its device.

use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use openuvr_proto::control::identity::PublicKey;
use openuvr_runtime::connection_limits::{EvictingPool, Network, PoolSlot, Quota, QuotaSlot};
use openuvr_runtime::lock::lock;

/// Maximum connections of strangers. Each connection has a thread. A client needs one connection to pair.
const STRANGERS: usize = 64;

/// Maximum connections of known addresses, in total and per address. Clients have one or two.
const ADDRESSES: usize = 128;
const PER_ADDRESS: usize = 8;

/// Maximum connections of devices, in total and per device.
const DEVICES: usize = 128;
const PER_DEVICE: usize = 8;

/// Maximum concurrent connections. [`STRANGERS`] counts twice: for the current connections of strangers, and for as
/// many evicted connections that have not ended yet.
pub(crate) const CONNECTIONS: usize = ADDRESSES + DEVICES + 2 * STRANGERS;

/// How long an address stays known after a paired client was authenticated there (guess: the DHCP lease of most
/// routers).
const KNOWN_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// How long an address stays known after the PIN of its client was entered. The remaining steps of pairing take a
/// second.
const PAIRING: Duration = Duration::from_secs(30);

/// Maximum known addresses of one device: phones change their address between networks. A further address replaces the
/// oldest one.
const ADDRESSES_PER_DEVICE: usize = 4;

/// Maximum known addresses of all devices. A further address replaces the oldest one.
const MAX_ADDRESSES: usize = 64;

/// The limits. Clones share them.
#[derive(Clone)]
pub(crate) struct Admission {
    strangers: EvictingPool,
    addresses: Quota<IpAddr>,
    devices: Quota<PublicKey>,
    known: Arc<Mutex<Vec<KnownAddress>>>,
}

struct KnownAddress {
    address: IpAddr,
    /// `None` if the client at this address is pairing and its PIN has been entered.
    device: Option<PublicKey>,
    until: Instant,
}

impl Default for Admission {
    fn default() -> Admission {
        Admission {
            strangers: EvictingPool::new(STRANGERS),
            addresses: Quota::new(ADDRESSES, PER_ADDRESS),
            devices: Quota::new(DEVICES, PER_DEVICE),
            known: Arc::default(),
        }
    }
}

impl Admission {
    /// Records that a device was authenticated at this address.
    pub(crate) fn authenticated(&self, now: Instant, address: IpAddr, device: PublicKey) {
        self.know(KnownAddress {
            address,
            device: Some(device),
            until: now + KNOWN_FOR,
        });
    }

    /// Records that the client at this address is pairing and that its PIN has been entered. The next steps of pairing
    /// use new connections from this address.
    pub(crate) fn pairs(&self, now: Instant, address: IpAddr) {
        self.know(KnownAddress {
            address,
            device: None,
            until: now + PAIRING,
        });
    }

    fn know(&self, new: KnownAddress) {
        let mut known = lock(&self.known);
        let device = new.device;
        known.retain(|other| !(other.address == new.address && other.device == device));
        let of_it = |other: &KnownAddress| other.device == device;
        if known.iter().filter(|other| of_it(other)).count() >= ADDRESSES_PER_DEVICE
            && let Some(oldest) = known.iter().position(of_it)
        {
            known.remove(oldest);
        }
        if known.len() >= MAX_ADDRESSES {
            known.remove(0);
        }
        known.push(new);
    }

    /// Forgets the addresses of a device that is no longer paired.
    pub(crate) fn forget(&self, device: &PublicKey) {
        lock(&self.known).retain(|known| known.device != Some(*device));
    }

    fn is_known(&self, now: Instant, address: IpAddr) -> bool {
        let known = lock(&self.known);
        let mut of_it = known.iter().filter(|known| known.address == address);
        of_it.any(|known| now < known.until)
    }

    /// Returns the slot of a new connection. `threads` is the number of connections whose threads have not ended.
    /// Returns `None` for a stranger if too many evicted connections have not ended yet. A stranger's connection is
    /// closed when another stranger evicts it.
    pub(crate) fn enter(
        &self,
        now: Instant,
        from: IpAddr,
        stream: &Arc<TcpStream>,
        threads: usize,
    ) -> Option<AdmissionSlot> {
        let known = self.is_known(now, from);
        let class = match known.then(|| self.addresses.take(from)).flatten() {
            Some(slot) => Class::Address { _slot: slot },
            None if threads >= CONNECTIONS => return None,
            None => {
                let evicted = stream.clone();
                let (slot, _) = self.strangers.enter(Network::of(from), move || {
                    // An error is ignored: an already closed connection needs no shutdown.
                    let _ = evicted.shutdown(Shutdown::Both);
                });
                Class::Stranger { _slot: slot }
            }
        };
        Some(AdmissionSlot {
            admission: self.clone(),
            from,
            class,
        })
    }
}

/// The slot of a connection, which is free again after the drop.
pub(crate) struct AdmissionSlot {
    admission: Admission,
    from: IpAddr,
    class: Class,
}

enum Class {
    Stranger {
        _slot: PoolSlot,
    },
    Address {
        _slot: QuotaSlot<IpAddr>,
    },
    Device {
        _slot: QuotaSlot<PublicKey>,
    },
    /// The connection of the one client that waits for its PIN.
    Pairing,
}

impl AdmissionSlot {
    /// The address of the client.
    pub(crate) fn from(&self) -> IpAddr {
        self.from
    }

    /// Called when this client begins to wait for its PIN. From then on, its connection is not evicted.
    pub(crate) fn waits_for_pin(&mut self) {
        self.class = Class::Pairing;
    }

    /// Called when the client has proved that it is this paired device. If the device is at its limit, the connection
    /// keeps its present slot.
    pub(crate) fn authenticated(&mut self, now: Instant, device: PublicKey) {
        self.admission.authenticated(now, self.from, device);
        if let Some(slot) = self.admission.devices.take(device) {
            self.class = Class::Device { _slot: slot };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn stream(listener: &TcpListener) -> Arc<TcpStream> {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // A listener queues only a few connections, so each is accepted at once.
        drop(listener.accept().unwrap());
        Arc::new(stream)
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[test]
    fn strangers_evict_each_other_and_no_known_client() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (admission, now) = (Admission::default(), Instant::now());
        let (home, device) = (address(1), PublicKey([1; 32]));
        let enter = |from, threads| admission.enter(now, from, &stream(&listener), threads);
        // One stranger shows its certificate, and another client waits for its PIN.
        let mut first = enter(home, 0).unwrap();
        first.authenticated(now, device);
        let mut pairing = enter(address(2), 0).unwrap();
        pairing.waits_for_pin();
        let strangers: Vec<AdmissionSlot> = (10..1500)
            .map(|number| enter(address(number), 0).unwrap())
            .collect();
        assert_eq!(strangers.len(), 1490);
        assert!(matches!(first.class, Class::Device { .. }));
        assert!(matches!(pairing.class, Class::Pairing));
        // The first client's address is now known. Connections beyond the address's slots count as strangers.
        let of_home: Vec<AdmissionSlot> =
            (0..=PER_ADDRESS).map(|_| enter(home, 0).unwrap()).collect();
        let known = |slot: &&AdmissionSlot| matches!(slot.class, Class::Address { .. });
        assert_eq!(of_home.iter().filter(known).count(), PER_ADDRESS);
        // Connections whose threads have not ended leave no room for more strangers. Known addresses have their own
        // slots.
        drop(of_home);
        assert!(enter(address(9), CONNECTIONS).is_none());
        assert!(enter(home, CONNECTIONS).is_some());
    }

    #[test]
    fn known_addresses_are_few_expire_and_are_forgotten() {
        let (admission, now) = (Admission::default(), Instant::now());
        let device = |number: u8| PublicKey([number; 32]);
        for number in 0..10 {
            admission.authenticated(now, address(number), device(1));
        }
        assert!(!admission.is_known(now, address(5)) && admission.is_known(now, address(6)));
        assert!(!admission.is_known(now + KNOWN_FOR, address(6)));
        admission.pairs(now, address(20));
        assert!(admission.is_known(now, address(20)));
        assert!(!admission.is_known(now + PAIRING, address(20)));
        admission.forget(&device(1));
        assert!(!admission.is_known(now, address(6)));
        for number in 0..200 {
            admission.authenticated(now, address(number.into()), device(number));
        }
        assert_eq!(lock(&admission.known).len(), MAX_ADDRESSES);
    }
}
