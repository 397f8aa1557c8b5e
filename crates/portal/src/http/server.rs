//! Takes connections, with TLS or without, and gives each to the routes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tracing::{debug, warn};

/// Connections at a time; a page that is open holds two.
const CONNECTIONS: usize = 4096;

/// How long a connection may take for its handshake, or for the head of a request; a guess.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long nobody is answered when the system has no room for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// The other end of a connection.
#[derive(Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

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
}

impl Server {
    pub(crate) async fn bind(
        at: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<Server, ServerError> {
        let tls = tls.map(TlsAcceptor::from);
        let bound = TcpListener::bind(at).await;
        let listener = bound.map_err(|why| ServerError::Bind(at, why))?;
        Ok(Server { listener, tls })
    }

    /// Where it listens, with the port that the system has chosen.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers for as long as it is polled.
    pub(crate) async fn serve(self, router: Router) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(why) => {
                    warn!("no connection can be taken: {why}");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let router = router.clone().layer(Extension(Peer(peer)));
            let tls = self.tls.clone();
            tokio::spawn(async move {
                let _place = place;
                match tls {
                    None => answer(stream, router).await,
                    Some(tls) => match timeout(PATIENCE, tls.accept(stream)).await {
                        Ok(Ok(stream)) => answer(stream, router).await,
                        Ok(Err(why)) => debug!(%peer, "no TLS: {why}"),
                        Err(_) => debug!(%peer, "no TLS in time"),
                    },
                }
            });
        }
    }
}

async fn answer(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(32 * 1024)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades();
    if let Err(why) = connection.await {
        debug!("a connection broke: {why}");
    }
}
