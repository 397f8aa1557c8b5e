//! Accepts connections, with or without TLS, and passes them to the routes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tracing::{debug, warn};

use super::connection_pool::{ConnectionPool, ConnectionSlot};

/// Maximum number of connections; an open page holds two.
const CONNECTIONS: usize = 4096;

/// Maximum number of connections per network; a guess: a school class of 60 browsers behind one address, with six
/// connections each, and some reserve.
const PER_NETWORK: usize = 512;

/// Listen backlog: the default maximum of Linux (`net.core.somaxconn`). If the backlog is full, clients retry after a
/// second.
const BACKLOG: u32 = 4096;

/// Descriptors reserved for everything else: the database, sessions, the engine; a guess.
const RESERVED_DESCRIPTORS: usize = 256;

/// Timeout in milliseconds for the acknowledgement of sent data (RFC 5482); a guess. The timeout also closes
/// connections to peers that read nothing and to machines that have disappeared.
const SEND_TIMEOUT: u32 = 30_000;

/// Minimum interval between log messages about refused connections.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Timeout for a TLS handshake, and for the head of a request; a guess.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Pause when the system cannot accept a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// The peer of a connection, and its slot.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) at: SocketAddr,
    pub(super) place: Arc<ConnectionSlot>,
}

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// The address is not available.
    #[error("cannot listen at {0}: {1}")]
    Bind(SocketAddr, io::Error),
}

/// The listener.
pub(crate) struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    pool: Arc<ConnectionPool>,
}

impl Server {
    /// Binds the address. `descriptors` is the process's limit. With `behind_proxy`, all connections come from one
    /// proxy. The portal then has no limit per network, because the proxy has its own limits.
    pub(crate) async fn bind(
        at: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
        descriptors: usize,
        behind_proxy: bool,
    ) -> Result<Server, ServerError> {
        let tls = tls.map(TlsAcceptor::from);
        let listener = listen(at).map_err(|why| ServerError::Bind(at, why))?;
        let all = CONNECTIONS.min(
            descriptors
                .saturating_sub(RESERVED_DESCRIPTORS)
                .max(RESERVED_DESCRIPTORS),
        );
        let each = match behind_proxy {
            true => all,
            false => PER_NETWORK.min(all / 2),
        };
        let pool = ConnectionPool::new(all, each);
        Ok(Server {
            listener,
            tls,
            pool,
        })
    }

    /// The bound address, with the port that the system has chosen.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves for as long as the future is polled.
    pub(crate) async fn serve(self, router: Router) {
        let mut last_logged: Option<Instant> = None;
        let mut say = |what: &str| {
            if last_logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
                warn!("{what}");
                last_logged = Some(Instant::now());
            }
        };
        loop {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(why) => {
                    say(&format!("cannot accept a connection: {why}"));
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let Some(place) = self.pool.enter(peer.ip().into(), Instant::now()) else {
                say(&format!(
                    "connection of {peer} refused: connection limit or rate limit reached"
                ));
                continue;
            };
            if let Err(why) = set_tcp_user_timeout(&stream, SEND_TIMEOUT) {
                debug!(%peer, "cannot set the send timeout: {why}");
            }
            let place = Arc::new(place);
            let peer_state = Peer {
                at: peer,
                place: Arc::clone(&place),
            };
            let (tls, router) = (self.tls.clone(), router.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = place.taken() => debug!(%peer, "connection evicted"),
                    () = connection(stream, tls, router, peer_state) => {}
                }
            });
        }
    }
}

/// Creates a listener. Its backlog is so large that a flood of connections does not lock out networks with free slots.
fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = match at {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)
}

/// Serves one connection to its end.
async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router, peer_state: Peer) {
    let Some(tls) = tls else {
        return answer(stream, router, peer_state).await;
    };
    match timeout(TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => answer(stream, router, peer_state).await,
        Ok(Err(why)) => debug!("no TLS: {why}"),
        Err(_) => debug!("TLS handshake timeout"),
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    router: Router,
    peer_state: Peer,
) {
    // The peer is added here and not by a router layer, because a router layer would copy all routes for each
    // connection.
    let router = TowerToHyperService::new(router);
    let answers = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer_state.clone());
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        .max_buf_size(32 * 1024)
        .serve_connection(TokioIo::new(stream), answers)
        .with_upgrades();
    if let Err(why) = connection.await {
        debug!("connection failed: {why}");
    }
}
