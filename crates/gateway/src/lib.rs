//! What lets a browser in: a page over HTTPS, signalling over a WebSocket, and WebRTC.
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
//! The gateway is one subscriber for each browser: nothing is encoded for it, and its frames go through the
//! thread that each subscriber has, so that the native player waits for nothing here. All else runs in one
//! more thread, on an async runtime that no other crate has.
//!
//! A session of a portal has neither page nor log-in: the portal carries its browsers' signalling (`portal_requests`).
//!
//! What it is not: it knows no codec, no device and no link of ours, and decides nothing about rates.

mod addresses;
mod admission;
pub mod certificate;
mod challenge;
mod connection;
mod control;
mod counter;
mod cursor;
mod evicting_pool;
mod figures;
pub mod forwarded;
mod frames;
mod http;
pub mod ice;
pub mod lease;
pub mod login;
mod media_sockets;
mod metrics;
mod network;
mod own_addresses;
pub mod packetise;
mod pages;
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
mod views;
mod visitor;

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::sched::{Scheduler, ThreadRole};
use openuvr_runtime::trust_store::DeviceStore;
use rustix::net::sockopt;
use tokio::sync::oneshot;
use tokio::time::timeout;

pub use self::addresses::{InvalidPublicAddress, PublicAddress};
use self::certificate::PageNames;
use self::forwarded::{ProxyNetwork, WebOrigin};
use self::ice::IceServer;
use self::lease::Lease;
pub use self::peer::{CONTROL_CHANNEL, NOTICE_CHANNEL};
use self::shared::Shared;
pub use self::tls::Certificate;
use self::tls::Tls;
pub use self::tls_error::TlsError;

/// The port of the page, and of media by UDP, if none is named: the one behind the native clients'.
pub const PORT: u16 = openuvr_runtime::PORT + 1;

/// What the kernel may hold of datagrams each way: two key frames of 1080p (guess).
const SOCKET_BUFFER: usize = 1 << 20;

/// How long a gateway that stops waits for browsers to take its last words (guess: a round trip or two).
const GOODBYE: Duration = Duration::from_millis(500);

/// What a gateway is to be.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where browsers reach it: TCP, and UDP with the same port.
    pub bind: SocketAddr,
    /// What the page shows itself with; not looked at where there is no HTTPS.
    pub certificate: Certificate,
    /// Who is answered instead of browsers, if not they.
    pub portal: Option<PortalListener>,
    /// What the host is called on the page.
    pub name: String,
    /// What browsers that have logged in are told to ask for ways to the host. Those of STUN the gateway itself asks where
    /// they see its media's socket.
    pub ice_servers: Vec<IceServer>,
    /// Addresses by which others reach it through an address translator.
    pub addresses: Vec<PublicAddress>,
    /// What a portal may do with this host, if it is a session of one.
    pub lease: Option<Arc<Lease>>,
    /// The devices that the host knows: their log-ins have a budget of their own.
    pub devices: DeviceStore,
    /// Origins under which a reverse proxy serves the page.
    pub origins: Vec<WebOrigin>,
    /// Reverse proxies, whose word counts on where a browser is.
    pub proxies: Vec<ProxyNetwork>,
}

impl Setup {
    /// Names by which browsers may reach the page, beside those of the machine.
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

/// How a portal comes that carries the signalling of its browsers. It alone is answered then: there is neither page nor
/// log-in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortalListener {
    /// By HTTPS at the address.
    Https,
    /// Through a Unix socket of this path, which is made; TCP is not listened at.
    Socket(PathBuf),
}

/// Why there is no gateway.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The address can't be had.
    #[error("can't serve browsers at {bind}: {error}")]
    Bind {
        /// The address.
        bind: SocketAddr,
        /// The system's reason.
        error: std::io::Error,
    },
    /// The socket can't be made.
    #[error("can't answer a portal at {}: {error}", socket.display())]
    Socket {
        /// The socket.
        socket: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// There is no certificate.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The system gives no thread or no poller.
    #[error("can't start the gateway: {0}")]
    Start(std::io::Error),
}

/// A gateway that runs; dropping it ends it, and all connections through it.
pub struct Gateway {
    address: SocketAddr,
    fingerprint: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Opens the port and starts the thread.
    ///
    /// # Errors
    /// [`GatewayError`]
    pub fn start(
        setup: Setup,
        host: Arc<dyn GatewayHost>,
        scheduler: &Scheduler,
    ) -> Result<Gateway, GatewayError> {
        let bind = setup.bind;
        let failed = |error| GatewayError::Bind { bind, error };
        let entrance = Listener::open(&setup)?;
        let fingerprint = entrance.fingerprint();
        let media = UdpSocket::bind(entrance.address().unwrap_or(bind)).map_err(failed)?;
        let address = media.local_addr().map_err(failed)?;
        media.set_nonblocking(true).map_err(failed)?;
        // Less is not an error: then a burst may be lost, and is asked for again.
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
                // A browser that does not take its goodbye goes without.
                let _ = timeout(GOODBYE, shared.stopping.closed()).await;
            });
            // What still waits for the host waits alone.
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

    /// Where it is reached; where there is no HTTPS, by media alone.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// SHA-256 over its certificate, as browsers show it; empty where there is no HTTPS.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// Where connections come in.
enum Listener {
    Https(std::net::TcpListener, SocketAddr, Arc<Tls>),
    Socket(std::os::unix::net::UnixListener),
}

impl Listener {
    fn open(setup: &Setup) -> Result<Listener, GatewayError> {
        if let Some(PortalListener::Socket(socket)) = &setup.portal {
            let failed = |error| GatewayError::Socket {
                socket: socket.clone(),
                error,
            };
            return portal_socket::bind(socket)
                .map(Listener::Socket)
                .map_err(failed);
        }
        let bind = setup.bind;
        let names = PageNames::of(bind, setup.names());
        let tls = Arc::new(Tls::open(&setup.certificate, names, SystemTime::now())?);
        let failed = |error| GatewayError::Bind { bind, error };
        let listener = std::net::TcpListener::bind(bind).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Listener::Https(listener, address, tls))
    }

    /// Where it is by TCP.
    fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Https(_, address, _) => Some(*address),
            Listener::Socket(_) => None,
        }
    }

    fn fingerprint(&self) -> String {
        match self {
            Listener::Https(_, _, tls) => tls.fingerprint(),
            Listener::Socket(_) => String::new(),
        }
    }

    /// Begins to take connections, in a runtime.
    fn take(self, shared: &Arc<Shared>) -> std::io::Result<()> {
        let shared = shared.clone();
        match self {
            Listener::Https(listener, _, tls) => {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                // A portal goes on asking for the certificate that the session had when it began.
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
            // A panic has said so on standard error.
            let _ = thread.join();
        }
    }
}
