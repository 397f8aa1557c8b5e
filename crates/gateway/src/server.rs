//! Connections of browsers: TCP, TLS and HTTP, with a limit in time and number on each step.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use openuvr_runtime::accepting::Accepting;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::admission::{Admission, ConnectionLimits};
use crate::shared::{Endpoints, Shared};
use crate::tls::Tls;
use crate::{http, plain_http, portal_requests};

/// How long a TLS handshake may take.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// How long the head of a request may take; an idle connection ends after it.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// Bytes of a request's head at most.
const HEAD: usize = 16 * 1024;

/// After an error of the media's socket it is not asked again at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes connections for ever.
pub(crate) async fn take(shared: Arc<Shared>, listener: TcpListener, tls: Arc<Tls>) {
    let limits = ConnectionLimits::default();
    let mut accepting = Accepting::new("browsers");
    loop {
        let (stream, remote) = match listener.accept().await {
            Ok(taken) => taken,
            Err(e) => {
                tokio::time::sleep(accepting.failed(&e)).await;
                continue;
            }
        };
        accepting.succeeded();
        shared.counters.taken.add(1);
        let Ok(local) = stream.local_addr() else {
            continue;
        };
        let endpoints = Endpoints::of(remote, local);
        let Some(admission) = Admission::new(&shared, &limits, endpoints) else {
            shared.counters.crowded_out.add(1);
            continue;
        };
        let (shared, tls) = (shared.clone(), tls.clone());
        tokio::spawn(async move {
            let serving = serve(&shared, &admission, &tls, stream, remote);
            if let Some(None) = admission.lasting(serving).await {
                shared.counters.failed_handshakes.add(1);
            }
        });
    }
}

/// `None`: there was no handshake.
async fn serve(
    shared: &Arc<Shared>,
    admission: &Admission,
    tls: &Tls,
    stream: TcpStream,
    remote: SocketAddr,
) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let plain = timeout(HANDSHAKE_WITHIN, plain_http::is_spoken(&stream)).await;
    if plain.ok()?.ok()? {
        let service = service_fn(|request: Request<Incoming>| async move {
            Ok::<_, Infallible>(plain_http::redirect(&request))
        });
        let connection = protocol()
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        // A client that is no browser may break it off.
        let _ = timeout(HEAD_WITHIN, connection).await;
        return None;
    }
    let secure = timeout(HANDSHAKE_WITHIN, tls.acceptor().accept(stream)).await;
    let secure = secure.ok()?.ok()?;
    let service = service_fn(|request: Request<Incoming>| {
        let endpoints = admission.request(shared, request.headers());
        let shared = shared.clone();
        async move {
            match shared.portal_alone {
                true => Ok(portal_requests::answer(&shared, endpoints, request).await),
                false => http::answer(shared, endpoints, request).await,
            }
        }
    });
    let connection = protocol().serve_connection(TokioIo::new(secure), service);
    if let Err(e) = connection.with_upgrades().await {
        tracing::debug!(%remote, "a connection ended: {e}");
    }
    Some(())
}

/// HTTP with the limits of a request's head.
pub(crate) fn protocol() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD);
    builder
}

/// Takes datagrams for ever; `only`: those from this address.
pub(crate) async fn receive(shared: Arc<Shared>, socket: UdpSocket, only: Option<IpAddr>) {
    let mut datagram = [0; 2048];
    loop {
        if socket.ready(Interest::READABLE).await.is_err() {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        // An error is one of a datagram that was sent before (nobody listens there).
        if let Ok((length, source)) = socket.try_recv_from(&mut datagram)
            && only.is_none_or(|only| only == source.ip())
        {
            shared.datagram(source, &datagram[..length]);
        }
    }
}
