//! Access for browsers: a page over HTTPS, signalling over a WebSocket, and WebRTC.
//!
//! ```text
//!  browser                       gateway                                    host
//!  page      ◄── HTTPS ──  pages
//!  log-in    ──────────►   login ─────────────────────────── admit ──────►  devices, PIN window
//!  signalling ◄─────────►  signalling, connection
//!  <video>   ◄── RTP ────  peer ◄── packetise ◄── subscriber ◄── slices ──  the player's rendition
//!  <audio>   ◄── RTP ────  peer ◄──────────────────────────── payloads ──  sound
//!  input     ── SCTP ───►  peer ──► session ───────────────── input ────►  roles, injection
//! ```
//!
//! Each browser is one subscriber of the host. The gateway encodes nothing, and each subscriber has its own thread, so
//! that the native player never waits for a browser. Everything else, except blocking calls, runs in one more thread,
//! on an async runtime.
//!
//! If a portal carries the browsers' signalling, the gateway has neither page nor log-in (`portal_requests`).
//!
//! The modules [`rtsp`] (video players) and [`record`] (recordings) are independent of the page, and have their own
//! threads. The gateway is independent of codec libraries, devices and native links. It makes no rate decisions, but may
//! pass the estimates of WebRTC's congestion control on to the host ([`RateControl::Gcc`]).

mod addresses;
mod admission;
pub mod certificate;
mod challenge;
mod connection;
mod control;
mod counter;
mod cursor;
mod figures;
pub mod forwarded;
mod frames;
mod http;
pub mod lease;
pub mod login;
mod media_sockets;
mod metrics;
mod own_addresses;
pub mod packetise;
mod pages;
mod pairing;
mod peer;
mod plain_http;
mod portal_requests;
mod portal_socket;
pub mod record;
pub mod reflexive;
mod response;
pub mod rtsp;
mod server;
mod shared;
pub mod signalling;
mod subscriber;
mod tls;
mod tls_error;
mod tokens;
mod updates;
mod video_codec;
mod views;
mod visitor;

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use openuvr_gateway_settings::{IceServer, ProxyNetwork, PublicAddress, WebOrigin};
use openuvr_proto::units::Bitrate;
use openuvr_runtime::bind_remedy::bind_remedy;
use openuvr_runtime::host::{EncoderName, GatewayHost};
use openuvr_runtime::sched::{Scheduler, ThreadRole};
use openuvr_runtime::trust_store::DeviceStore;
use rustix::net::sockopt;
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::certificate::PageNames;
use self::lease::Lease;
pub use self::pairing::{PinEntry, Service};
pub use self::peer::{CONTROL_CHANNEL, NOTICE_CHANNEL};
use self::shared::Shared;
pub use self::tls::Certificate;
use self::tls::Tls;
pub use self::tls_error::TlsError;

/// Default port of the page (TCP) and of media (UDP): the port after the native clients' port.
pub const PORT: u16 = openuvr_runtime::PORT + 1;

/// Kernel socket buffer in each direction: two key frames of 1080p (guess).
const SOCKET_BUFFER: usize = 1 << 20;

/// How long a stopping gateway waits for browsers to receive its final messages (guess: a round trip or two).
const GOODBYE_TIMEOUT: Duration = Duration::from_millis(500);

/// Configuration of a gateway.
#[derive(Clone)]
pub struct Setup {
    /// Address of the page (TCP) and of media (UDP, same port).
    pub bind: SocketAddr,
    /// Certificate of the page; ignored without HTTPS.
    pub certificate: Certificate,
    /// How a portal connects. If this is set, browsers are not served directly.
    pub portal: Option<PortalListener>,
    /// Name of the host on the page.
    pub name: String,
    /// ICE servers for logged-in browsers. The gateway itself queries the STUN servers for the reflexive address of its
    /// media socket.
    pub ice_servers: Vec<IceServer>,
    /// Addresses at which the host is reachable through an address translator.
    pub addresses: Vec<PublicAddress>,
    /// The portal's lease, if this host runs a portal session.
    pub lease: Option<Arc<Lease>>,
    /// The devices that the host knows. Their log-ins have their own rate limit.
    pub devices: DeviceStore,
    /// Origins under which a reverse proxy serves the page.
    pub origins: Vec<WebOrigin>,
    /// Reverse proxies whose `X-Forwarded-For` is trusted.
    pub proxies: Vec<ProxyNetwork>,
    /// Clients of another service that wait for a PIN, which a player enters on the page.
    pub pin_entry: Option<Arc<dyn PinEntry>>,
    /// The host's encoders. Each browser negotiates the codec of one of these encoders.
    pub encoders: Vec<EncoderName>,
    /// The congestion control for browsers.
    pub rate_control: RateControl,
}

/// A congestion control for browsers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RateControl {
    /// The host's congestion control, which evaluates the page's report on each frame.
    #[default]
    Reports,
    /// Google Congestion Control (draft-ietf-rmcat-gcc-02) in the gateway, which evaluates the browser's transport-wide
    /// feedback (draft-holmer-rmcat-transport-wide-cc-extensions-01). For a browser without this feedback, the host
    /// evaluates the reports, as with [`RateControl::Reports`].
    Gcc {
        /// The initial estimate.
        start: Bitrate,
        /// The maximum rate up to which the connection is probed.
        max: Bitrate,
    },
}

impl RateControl {
    /// The name in metrics and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RateControl::Reports => "reports",
            RateControl::Gcc { .. } => "gcc",
        }
    }
}

impl Setup {
    /// Names at which browsers may reach the page, in addition to the machine's names.
    fn names(&self) -> Vec<String> {
        let origins = self.origins.iter().map(|origin| origin.host().to_owned());
        let addresses = self
            .addresses
            .iter()
            .map(|address| address.or_port(0).ip().to_string());
        (origins.chain(addresses))
            .chain([self.name.clone(), format!("{}.local", self.name)])
            .collect()
    }
}

/// How the portal that carries the browsers' signalling connects to the gateway. The gateway then answers only the
/// portal, and has neither page nor log-in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortalListener {
    /// Over HTTPS at the configured address.
    Https,
    /// Through a Unix socket that is created at this path. There is no TCP listener.
    Socket(PathBuf),
}

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The address is not available.
    #[error("cannot serve browsers at {bind}: {error}{}", bind_remedy(error))]
    Bind {
        /// The address.
        bind: SocketAddr,
        /// The system's error.
        error: std::io::Error,
    },
    /// The socket cannot be created.
    #[error("cannot create the portal socket {}: {error}", socket.display())]
    Socket {
        /// The socket.
        socket: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The page's certificate cannot be read, created or used.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The system provides no thread or no poller.
    #[error("cannot start the gateway: {0}")]
    Start(std::io::Error),
}

/// A running gateway. Dropping it closes all its connections.
pub struct Gateway {
    address: SocketAddr,
    fingerprint: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Binds the port and starts the thread.
    ///
    /// # Errors
    /// [`GatewayError`] if the address, the certificate or a thread is not available.
    pub fn start(
        setup: Setup,
        host: Arc<dyn GatewayHost>,
        scheduler: &Scheduler,
    ) -> Result<Gateway, GatewayError> {
        let bind = setup.bind;
        let failed = |error| GatewayError::Bind { bind, error };
        let (entrance, media) = Listener::open(&setup)?;
        let fingerprint = entrance.fingerprint();
        let address = media.local_addr().map_err(failed)?;
        media.set_nonblocking(true).map_err(failed)?;
        // If the kernel grants less, the error is ignored, because a lost burst is retransmitted.
        let _ = sockopt::set_socket_send_buffer_size(&media, SOCKET_BUFFER);
        let _ = sockopt::set_socket_recv_buffer_size(&media, SOCKET_BUFFER);
        let receiving = media.try_clone().map_err(failed)?;
        let shared = Shared::new(setup, host, media).map_err(failed)?;
        let beside = shared.media.beside().map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(GatewayError::Start)?;
        let run = move || {
            runtime.block_on(async move {
                let shared = Arc::new(shared);
                let Ok(()) = entrance.take(&shared) else {
                    return;
                };
                let Ok(receiving) = tokio::net::UdpSocket::from_std(receiving) else {
                    return;
                };
                tokio::spawn(server::receive(shared.clone(), receiving, None));
                for (own, socket) in beside {
                    if let Ok(socket) = tokio::net::UdpSocket::from_std(socket) {
                        tokio::spawn(server::receive(shared.clone(), socket, Some(own)));
                    }
                }
                let servers = shared.ice_servers.clone();
                let (addresses, media) = (shared.addresses.clone(), shared.media.clone());
                tokio::spawn(addresses::discover(addresses, media, servers));
                let _ = stopped.await;
                shared.stopping.send_replace(true);
                // Connections of browsers that do not read the final messages are closed without them.
                let _ = timeout(GOODBYE_TIMEOUT, shared.stopping.closed()).await;
            });
            // Tasks that still wait for the host are detached.
            runtime.shutdown_background();
        };
        let thread = scheduler
            .spawn(ThreadRole::Background, "ouvr-gateway", run)
            .map_err(GatewayError::Start)?;
        Ok(Gateway {
            address,
            fingerprint,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The address of the page or, without HTTPS, of media.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// SHA-256 of the page's certificate, as browsers show it; empty without HTTPS.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// The listener for incoming connections.
enum Listener {
    Https(std::net::TcpListener, Arc<Tls>),
    Socket(std::os::unix::net::UnixListener),
}

impl Listener {
    /// Opens the listener and the socket for media.
    fn open(setup: &Setup) -> Result<(Listener, UdpSocket), GatewayError> {
        let bind = setup.bind;
        let failed = |error| GatewayError::Bind { bind, error };
        if let Some(PortalListener::Socket(socket)) = &setup.portal {
            let listener = portal_socket::bind(socket).map_err(|error| GatewayError::Socket {
                socket: socket.clone(),
                error,
            })?;
            let media = UdpSocket::bind(bind).map_err(failed)?;
            return Ok((Listener::Socket(listener), media));
        }
        let names = PageNames::of(bind, setup.names());
        let tls = Arc::new(Tls::open(&setup.certificate, names, SystemTime::now())?);
        let (listener, media) = media_sockets::bind_both(bind).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok((Listener::Https(listener, tls), media))
    }

    fn fingerprint(&self) -> String {
        match self {
            Listener::Https(_, tls) => tls.fingerprint(),
            Listener::Socket(_) => String::new(),
        }
    }

    /// Starts accepting connections on a runtime.
    fn take(self, shared: &Arc<Shared>) -> std::io::Result<()> {
        let shared = shared.clone();
        match self {
            Listener::Https(listener, tls) => {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                // The certificate is not renewed for a portal, which expects the same certificate as at the session's
                // start.
                if !shared.portal_alone {
                    tokio::spawn(tls::keep_renewed(tls.clone()));
                }
                tokio::spawn(server::take(shared, listener, tls));
            }
            Listener::Socket(listener) => {
                let listener = tokio::net::UnixListener::from_std(listener)?;
                tokio::spawn(portal_socket::take(shared, listener));
            }
        }
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic is ignored here, because it was already reported on standard error.
            let _ = thread.join();
        }
    }
}
