//! State shared by the gateway's tasks, and the limits on resources of unauthenticated clients.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};

use openuvr_clock as clock;
use openuvr_gateway_settings::{IceServer, ProxyNetwork, WebOrigin};
use openuvr_proto::control::identity::PublicKey;
use openuvr_proto::units::Bitrate;
use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::lock::lock;
use openuvr_runtime::trust_store::DeviceStore;
use tokio::sync::{broadcast, watch};

use crate::Setup;
use crate::addresses::Addresses;
use crate::counter::Counter;
use crate::lease::Lease;
use crate::login::Logins;
use crate::media_sockets::MediaSockets;
use crate::pairing::PinEntry;
use crate::peer::{MediaOptions, Peer, Traffic};
use crate::video_codec::VideoCodec;

/// Maximum concurrent browser connections in total.
const CONNECTIONS: usize = 32;
/// Maximum concurrent browser connections of one device: a few tabs.
const PER_DEVICE: usize = 4;

/// The endpoints of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoints {
    /// The browser's address.
    pub(crate) remote: SocketAddr,
    pub(crate) local: SocketAddr,
    /// Whether a reverse proxy forwarded the request: a configured proxy, or any proxy that added `X-Forwarded-For` or
    /// `Forwarded`.
    pub(crate) through_proxy: bool,
}

impl Endpoints {
    /// The endpoints of a connection before its first request.
    pub(crate) fn of(remote: SocketAddr, local: SocketAddr) -> Endpoints {
        Endpoints {
            remote: SocketAddr::new(remote.ip().to_canonical(), remote.port()),
            local: SocketAddr::new(local.ip().to_canonical(), local.port()),
            through_proxy: false,
        }
    }
}

/// Counters since the gateway started.
#[derive(Default)]
pub(crate) struct Counters {
    /// TCP connections accepted.
    pub(crate) taken: Counter,
    /// TCP connections evicted or refused because a limit was reached.
    pub(crate) crowded_out: Counter,
    /// TCP connections whose TLS handshake failed or timed out.
    pub(crate) failed_handshakes: Counter,
    /// Requests refused because their Origin header was missing or named another site.
    pub(crate) foreign_origins: Counter,
    /// Log-ins refused by the host.
    pub(crate) refused_logins: Counter,
    /// Invalid signalling messages.
    pub(crate) bad_messages: Counter,
    /// WebRTC offers refused.
    pub(crate) refused_offers: Counter,
    /// Datagrams that match no connection.
    pub(crate) stray_datagrams: Counter,
    /// Data-channel messages that were invalid or not allowed.
    pub(crate) bad_input: Counter,
    /// Input events accepted by the host.
    pub(crate) input_events: Counter,
    /// Key frames requested by browsers.
    pub(crate) key_frames: Counter,
    /// Frames that pages submitted to the compositor.
    pub(crate) shown: Counter,
}

pub(crate) struct Shared {
    pub(crate) host: Arc<dyn GatewayHost>,
    /// Name of the host.
    pub(crate) name: String,
    pub(crate) ice_servers: Vec<IceServer>,
    /// The portal's lease, if this host runs a portal session.
    pub(crate) lease: Option<Arc<Lease>>,
    /// Whether the gateway answers only the portal, which then carries the browsers' signalling.
    pub(crate) portal_alone: bool,
    /// Origins of the page in addition to its own.
    pub(crate) origins: Vec<WebOrigin>,
    /// Trusted reverse proxies.
    pub(crate) proxies: Vec<ProxyNetwork>,
    /// See [`Setup::pin_entry`].
    pub(crate) pin_entry: Option<Arc<dyn PinEntry>>,
    /// Codecs and congestion control of all connections.
    pub(crate) media_options: MediaOptions,
    /// The sockets for the media of all connections.
    pub(crate) media: Arc<MediaSockets>,
    pub(crate) media_port: u16,
    /// Addresses at which the host is reachable through an address translator.
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) counters: Counters,
    /// Set when the gateway stops. Each connection holds a receiver for its lifetime.
    pub(crate) stopping: watch::Sender<bool>,
    /// Devices that the portal disconnects.
    pub(crate) dismissed: broadcast::Sender<PublicKey>,
    logins: Mutex<Logins>,
    devices: Mutex<DeviceStore>,
    device_slots: Mutex<Vec<PublicKey>>,
    peers: Mutex<Peers>,
}

/// Open connections, and the traffic of closed ones.
#[derive(Default)]
struct Peers {
    open: Vec<Arc<Peer>>,
    closed: Traffic,
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
            pin_entry: setup.pin_entry,
            media_options: MediaOptions {
                codecs: VideoCodec::of_encoders(&setup.encoders),
                rate_control: setup.rate_control,
            },
            media: Arc::new(MediaSockets::new(media)?),
            media_port: here.port(),
            addresses: Arc::new(Addresses::new(here, &setup.addresses)),
            counters: Counters::default(),
            stopping: watch::Sender::new(false),
            dismissed: broadcast::Sender::new(CONNECTIONS),
            logins: Mutex::new(Logins::new(clock::now())),
            devices: Mutex::new(setup.devices),
            device_slots: Mutex::default(),
            peers: Mutex::default(),
        })
    }

    /// Whether the host's list contains and permits this device. Reads the list again if its file has changed. If the
    /// list cannot be read, its previous content counts.
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

    /// Takes a slot for another connection of this device; `None` if the limit is reached. The slot is free again when
    /// the value is dropped.
    pub(crate) fn take_device_slot(self: &Arc<Shared>, device: &PublicKey) -> Option<DeviceSlot> {
        let mut device_slots = lock(&self.device_slots);
        let of_it = device_slots.iter().filter(|of| *of == device).count();
        if device_slots.len() >= CONNECTIONS || of_it >= PER_DEVICE {
            return None;
        }
        device_slots.push(*device);
        Some(DeviceSlot {
            shared: self.clone(),
            device: *device,
        })
    }

    /// Adds a connection that may receive datagrams.
    pub(crate) fn add(&self, peer: &Arc<Peer>) {
        lock(&self.peers).open.push(peer.clone());
    }

    pub(crate) fn remove(&self, peer: &Arc<Peer>) {
        let mut peers = lock(&self.peers);
        let before = peers.open.len();
        peers.open.retain(|other| !Arc::ptr_eq(other, peer));
        if peers.open.len() < before {
            peers.closed.add(peer.traffic());
        }
    }

    /// The number of connections, and the traffic of these and all previous ones.
    pub(crate) fn traffic(&self) -> (usize, Traffic) {
        let peers = lock(&self.peers);
        let mut all = peers.closed;
        peers.open.iter().for_each(|peer| all.add(peer.traffic()));
        (peers.open.len(), all)
    }

    /// The lowest rate estimate of all browser connections; `None` without an estimate.
    pub(crate) fn lowest_estimate(&self) -> Option<Bitrate> {
        let peers = lock(&self.peers);
        peers.open.iter().filter_map(|peer| peer.estimate()).min()
    }

    pub(crate) fn datagram(&self, source: SocketAddr, datagram: &[u8]) {
        let source = SocketAddr::new(source.ip().to_canonical(), source.port());
        if self.addresses.receive(source, datagram) {
            return;
        }
        let peers = lock(&self.peers);
        let mut open = peers.open.iter();
        if !open.any(|peer| peer.receive(source, datagram)) {
            self.counters.stray_datagrams.add(1);
        }
    }
}

/// See [`Shared::take_device_slot`].
pub(crate) struct DeviceSlot {
    shared: Arc<Shared>,
    device: PublicKey,
}

impl Drop for DeviceSlot {
    fn drop(&mut self) {
        let mut device_slots = lock(&self.shared.device_slots);
        if let Some(at) = device_slots.iter().position(|of| *of == self.device) {
            device_slots.swap_remove(at);
        }
    }
}
