//! What the gateway's tasks share, and the limits on what strangers can make them keep.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};

use openuvr_proto::control::identity::PublicKey;
use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::lock::lock;
use tokio::sync::{broadcast, watch};

use crate::addresses::{Addresses, PublicAddress};
use crate::counter::Counter;
use crate::ice::IceServer;
use crate::lease::Lease;
use crate::login::Logins;
use crate::peer::Peer;

/// Connections of browsers at a time, in all …
const CONNECTIONS: usize = 32;
/// … and of one device: a few tabs.
const OF_A_DEVICE: usize = 4;

/// Both ends of a TCP connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// Where the browser is.
    pub(crate) theirs: SocketAddr,
    /// Where it reached us.
    pub(crate) ours: SocketAddr,
}

/// What happened since the gateway began.
#[derive(Default)]
pub(crate) struct Counters {
    /// TCP connections that were taken.
    pub(crate) taken: Counter,
    /// Those that were closed at once, since there were too many.
    pub(crate) crowded_out: Counter,
    /// TLS handshakes that did not come to their end.
    pub(crate) failed_handshakes: Counter,
    /// Requests that another site's page made.
    pub(crate) foreign_origins: Counter,
    /// Log-ins that the host refused.
    pub(crate) refused_logins: Counter,
    /// Signalling messages that were none.
    pub(crate) bad_messages: Counter,
    /// Offers that could not be answered.
    pub(crate) refused_offers: Counter,
    /// Datagrams that belong to no connection.
    pub(crate) stray_datagrams: Counter,
    /// Messages of a data channel that were none.
    pub(crate) bad_input: Counter,
    /// Input events that were applied.
    pub(crate) input_events: Counter,
    /// Key frames that browsers asked for.
    pub(crate) key_frames: Counter,
    /// Pictures that browsers said they handed to their compositor.
    pub(crate) shown: Counter,
}

pub(crate) struct Shared {
    pub(crate) host: Arc<dyn GatewayHost>,
    /// What the host is called.
    pub(crate) name: String,
    /// What browsers are told to ask for ways to it.
    pub(crate) ice_servers: Vec<IceServer>,
    /// What a portal may do with this host, if it is a session of one.
    pub(crate) lease: Option<Arc<Lease>>,
    /// Only that portal is answered, which carries its browsers' signalling.
    pub(crate) portal_alone: bool,
    /// Media of all connections, on one port.
    pub(crate) media: Arc<UdpSocket>,
    pub(crate) media_port: u16,
    /// Where others reach it.
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) counters: Counters,
    /// Whether the gateway stops: each connection watches it as long as it is there.
    pub(crate) stopping: watch::Sender<bool>,
    /// Devices that the portal sends away.
    pub(crate) dismissed: broadcast::Sender<PublicKey>,
    logins: Mutex<Logins>,
    places: Mutex<Vec<PublicKey>>,
    peers: Mutex<Vec<Arc<Peer>>>,
}

impl Shared {
    pub(crate) fn new(
        host: Arc<dyn GatewayHost>,
        name: String,
        (ice_servers, addresses): (Vec<IceServer>, &[PublicAddress]),
        (lease, portal_alone): (Option<Arc<Lease>>, bool),
        media: UdpSocket,
    ) -> std::io::Result<Shared> {
        let here = media.local_addr()?;
        Ok(Shared {
            host,
            name,
            ice_servers,
            lease,
            portal_alone,
            media: Arc::new(media),
            media_port: here.port(),
            addresses: Arc::new(Addresses::new(here, addresses)),
            counters: Counters::default(),
            stopping: watch::Sender::new(false),
            dismissed: broadcast::Sender::new(CONNECTIONS),
            logins: Mutex::default(),
            places: Mutex::default(),
            peers: Mutex::default(),
        })
    }

    pub(crate) fn logins(&self) -> MutexGuard<'_, Logins> {
        lock(&self.logins)
    }

    /// A place for one more connection of this device, which is free again when it is dropped; `None`: there
    /// is none.
    pub(crate) fn place(self: &Arc<Shared>, device: &PublicKey) -> Option<Place> {
        let mut places = lock(&self.places);
        let of_it = places.iter().filter(|of| *of == device).count();
        if places.len() >= CONNECTIONS || of_it >= OF_A_DEVICE {
            return None;
        }
        places.push(*device);
        Some(Place {
            shared: self.clone(),
            device: *device,
        })
    }

    /// Datagrams may be for this connection now.
    pub(crate) fn add(&self, peer: &Arc<Peer>) {
        lock(&self.peers).push(peer.clone());
    }

    pub(crate) fn remove(&self, peer: &Arc<Peer>) {
        lock(&self.peers).retain(|other| !Arc::ptr_eq(other, peer));
    }

    pub(crate) fn peers(&self) -> Vec<Arc<Peer>> {
        lock(&self.peers).clone()
    }

    /// A datagram came.
    pub(crate) fn datagram(&self, source: SocketAddr, datagram: &[u8]) {
        let source = SocketAddr::new(source.ip().to_canonical(), source.port());
        if self.addresses.receive(source, datagram) {
            return;
        }
        let peers = lock(&self.peers);
        if !peers.iter().any(|peer| peer.receive(source, datagram)) {
            self.counters.stray_datagrams.add(1);
        }
    }
}

/// See [`Shared::place`].
pub(crate) struct Place {
    shared: Arc<Shared>,
    device: PublicKey,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = lock(&self.shared.places);
        if let Some(at) = places.iter().position(|of| *of == self.device) {
            places.swap_remove(at);
        }
    }
}
