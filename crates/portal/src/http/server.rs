//! Takes connections, with TLS or without, and gives each to the routes.

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

/// Connections at a time; a page that is open holds two.
const CONNECTIONS: usize = 4096;

/// Connections of one network at a time; a guess: a class of 60 behind one address, whose browsers open six each, and
/// some more.
const PER_NETWORK: usize = 512;

/// Connections that wait to be taken: what Linux allows (`net.core.somaxconn`). Who comes when there is no room tries once more
/// after a second.
const WAITING: u32 = 4096;

/// Descriptors that are left for all else: the database, sessions, the engine; a guess.
const OTHERS: usize = 256;

/// How long what was sent may stay without an answer of the other end's system, in milliseconds (RFC 5482); a guess.
/// That also ends connections whose other end reads nothing, and those of machines that are gone.
const UNREAD: u32 = 30_000;

/// How often it is said that places are short.
const SAID: Duration = Duration::from_secs(60);

/// How long a connection may take for its handshake, or for the head of a request; a guess.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long nobody is answered when the system has no room for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// The other end of a connection, and its place.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) at: SocketAddr,
    pub(super) place: Arc<ConnectionSlot>,
}

/// Why it can't answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// The address can't be had.
    #[error("{0} can't be listened at: {1}")]
    Bind(SocketAddr, io::Error),
}

/// Where it listens.
pub(crate) struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    pool: Arc<ConnectionPool>,
}

impl Server {
    /// Listens. `descriptors` are those that the process may have. `behind_proxy`: all connections are those of a
    /// proxy, which looks after networks itself.
    pub(crate) async fn bind(
        at: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
        descriptors: usize,
        behind_proxy: bool,
    ) -> Result<Server, ServerError> {
        let tls = tls.map(TlsAcceptor::from);
        let listener = listen(at).map_err(|why| ServerError::Bind(at, why))?;
        let all = CONNECTIONS.min(descriptors.saturating_sub(OTHERS).max(OTHERS));
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

    /// Where it listens, with the port that the system has chosen.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers for as long as it is polled.
    pub(crate) async fn serve(self, router: Router) {
        let mut said: Option<Instant> = None;
        let mut say = |what: &str| {
            if said.is_none_or(|at| at.elapsed() >= SAID) {
                warn!("{what}");
                said = Some(Instant::now());
            }
        };
        loop {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(why) => {
                    say(&format!("no connection can be taken: {why}"));
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let Some(place) = self.pool.enter(peer.ip().into(), Instant::now()) else {
                say(&format!(
                    "{peer} gets no place: all are taken, or too many come at once"
                ));
                continue;
            };
            if let Err(why) = set_tcp_user_timeout(&stream, UNREAD) {
                debug!(%peer, "it may read as slowly as it likes: {why}");
            }
            let place = Arc::new(place);
            let whose = Peer {
                at: peer,
                place: Arc::clone(&place),
            };
            let (tls, router) = (self.tls.clone(), router.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = place.taken() => debug!(%peer, "its place is another's"),
                    () = connection(stream, tls, router, whose) => {}
                }
            });
        }
    }
}

/// A listener with so much room that a flood of connections keeps out nobody whose network has a place.
fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = match at {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(WAITING)
}

/// Answers one connection to its end.
async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router, whose: Peer) {
    let Some(tls) = tls else {
        return answer(stream, router, whose).await;
    };
    match timeout(TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => answer(stream, router, whose).await,
        Ok(Err(why)) => debug!("no TLS: {why}"),
        Err(_) => debug!("no TLS in time"),
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    router: Router,
    whose: Peer,
) {
    // A layer of the router would be a copy of all its routes for each connection.
    let router = TowerToHyperService::new(router);
    let answers = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(whose.clone());
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        .max_buf_size(32 * 1024)
        .serve_connection(TokioIo::new(stream), answers)
        .with_upgrades();
    if let Err(why) = connection.await {
        debug!("a connection broke: {why}");
    }
}
