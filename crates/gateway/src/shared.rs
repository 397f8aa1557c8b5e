//! What the gateway's tasks share, and the limits on what strangers can make them keep.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};

use openuvr_proto::control::identity::PublicKey;
use openuvr_runtime::clock;
use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::lock::lock;
use openuvr_runtime::trust_store::DeviceStore;
use tokio::sync::{broadcast, watch};

use crate::Setup;
use crate::addresses::Addresses;
use crate::counter::Counter;
use crate::forwarded::{ProxyNetwork, WebOrigin};
use crate::ice::IceServer;
use crate::lease::Lease;
use crate::login::Logins;
use crate::media_sockets::MediaSockets;
use crate::peer::{Peer, Traffic};

/// Connections of browsers at a time, in all …
const CONNECTIONS: usize = 32;
/// … and of one device: a few tabs.
const OF_A_DEVICE: usize = 4;

/// Both ends of a request's way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoints {
    /// Where the browser is.
    pub(crate) remote: SocketAddr,
    /// Where it reached us.
    pub(crate) local: SocketAddr,
    /// A reverse proxy is between: named as one, or by its own words.
    pub(crate) through_proxy: bool,
}

impl Endpoints {
    /// Of a connection that nothing has been read from yet.
    pub(crate) fn of(remote: SocketAddr, local: SocketAddr) -> Endpoints {
        Endpoints {
            remote: SocketAddr::new(remote.ip().to_canonical(), remote.port()),
            local: SocketAddr::new(local.ip().to_canonical(), local.port()),
            through_proxy: false,
        }
    }
}

/// What happened since the gateway began.
#[derive(Default)]
pub(crate) struct Counters {
    /// TCP connections that were taken.
    pub(crate) taken: Counter,
    /// Those that were closed for others, since there were too many.
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
    /// Origins of the page besides its own.
    pub(crate) origins: Vec<WebOrigin>,
    /// Reverse proxies that say the browser's address.
    pub(crate) proxies: Vec<ProxyNetwork>,
    /// Media of all connections, on one port.
    pub(crate) media: Arc<MediaSockets>,
    pub(crate) media_port: u16,
    /// Where others reach it.
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) counters: Counters,
    /// Whether the gateway stops: each connection watches it as long as it is there.
    pub(crate) stopping: watch::Sender<bool>,
    /// Devices that the portal sends away.
    pub(crate) dismissed: broadcast::Sender<PublicKey>,
    logins: Mutex<Logins>,
    devices: Mutex<DeviceStore>,
    places: Mutex<Vec<PublicKey>>,
    peers: Mutex<Peers>,
}

/// Connections, and what has gone over those that are over.
#[derive(Default)]
struct Peers {
    there: Vec<Arc<Peer>>,
    over: Traffic,
}

impl Shared {
    pub(crate) fn new(
        setup: Setup,
        host: Arc<dyn GatewayHost>,
        media: UdpSocket,
    ) -> std::io::Result<Shared> {
        let here = media.local_addr()?;
        Ok(Shared {
            host,
            name: setup.name,
            ice_servers: setup.ice_servers,
            lease: setup.lease,
            portal_alone: setup.portal.is_some(),
            origins: setup.origins,
            proxies: setup.proxies,
            media: Arc::new(MediaSockets::new(media)?),
            media_port: here.port(),
            addresses: Arc::new(Addresses::new(here, &setup.addresses)),
            counters: Counters::default(),
            stopping: watch::Sender::new(false),
            dismissed: broadcast::Sender::new(CONNECTIONS),
            logins: Mutex::new(Logins::new(clock::now())),
            devices: Mutex::new(setup.devices),
            places: Mutex::default(),
            peers: Mutex::default(),
        })
    }

    /// Whether the host's list has this device and lets it in: a look at the file's stamp. A list that can't be read
    /// counts as it was before.
    pub(crate) fn is_known(&self, device: &PublicKey) -> bool {
        let mut store = lock(&self.devices);
        if let Err(e) = store.refresh() {
            tracing::debug!("{e}");
        }
        let mut listed = store.devices().iter();
        listed.any(|known| known.key == *device && known.allowed)
    }

    pub(crate) fn logins(&self) -> MutexGuard<'_, Logins> {
        lock(&self.logins)
    }

    /// A place for one more connection of this device, which is free again when it is dropped; `None`: there
    /// is none.
    pub(crate) fn take_device_slot(self: &Arc<Shared>, device: &PublicKey) -> Option<DeviceSlot> {
        let mut places = lock(&self.places);
        let of_it = places.iter().filter(|of| *of == device).count();
        if places.len() >= CONNECTIONS || of_it >= OF_A_DEVICE {
            return None;
        }
        places.push(*device);
        Some(DeviceSlot {
            shared: self.clone(),
            device: *device,
        })
    }

    /// Datagrams may be for this connection now.
    pub(crate) fn add(&self, peer: &Arc<Peer>) {
        lock(&self.peers).there.push(peer.clone());
    }

    pub(crate) fn remove(&self, peer: &Arc<Peer>) {
        let mut peers = lock(&self.peers);
        let before = peers.there.len();
        peers.there.retain(|other| !Arc::ptr_eq(other, peer));
        if peers.there.len() < before {
            peers.over.add(peer.traffic());
        }
    }

    /// How many connections there are, and what has gone over these and all before.
    pub(crate) fn traffic(&self) -> (usize, Traffic) {
        let peers = lock(&self.peers);
        let mut all = peers.over;
        peers.there.iter().for_each(|peer| all.add(peer.traffic()));
        (peers.there.len(), all)
    }

    /// A datagram came.
    pub(crate) fn datagram(&self, source: SocketAddr, datagram: &[u8]) {
        let source = SocketAddr::new(source.ip().to_canonical(), source.port());
        if self.addresses.receive(source, datagram) {
            return;
        }
        let peers = lock(&self.peers);
        let mut there = peers.there.iter();
        if !there.any(|peer| peer.receive(source, datagram)) {
            self.counters.stray_datagrams.add(1);
        }
    }
}

/// See [`Shared::place`].
pub(crate) struct DeviceSlot {
    shared: Arc<Shared>,
    device: PublicKey,
}

impl Drop for DeviceSlot {
    fn drop(&mut self) {
        let mut places = lock(&self.shared.places);
        if let Some(at) = places.iter().position(|of| *of == self.device) {
            places.swap_remove(at);
        }
    }
}
