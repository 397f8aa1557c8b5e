//! Connections of browsers: TCP, TLS and HTTP, with limits on time and number at each step.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use openuvr_runtime::accept_backoff::AcceptBackoff;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::admission::{Admission, ConnectionLimits};
use crate::shared::{Endpoints, Shared};
use crate::tls::Tls;
use crate::{http, plain_http, portal_requests};

/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of a request head, and of an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of a request head in bytes.
const HEAD: usize = 16 * 1024;

/// Pause after an error of the media socket.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections. Does not return.
pub(crate) async fn take(shared: Arc<Shared>, listener: TcpListener, tls: Arc<Tls>) {
    let limits = ConnectionLimits::default();
    let mut accepting = AcceptBackoff::new("browsers");
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

/// Serves a connection; `None` if the TLS handshake failed or timed out.
async fn serve(
    shared: &Arc<Shared>,
    admission: &Admission,
    tls: &Tls,
    stream: TcpStream,
    remote: SocketAddr,
) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let plain = timeout(HANDSHAKE_TIMEOUT, plain_http::is_spoken(&stream)).await;
    if plain.ok()?.ok()? {
        let service = service_fn(|request: Request<Incoming>| async move {
            Ok::<_, Infallible>(plain_http::redirect(&request))
        });
        let connection = protocol()
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        // An error is ignored: a client that is not a browser may abort the connection.
        let _ = timeout(HEAD_TIMEOUT, connection).await;
        return Some(());
    }
    let secure = timeout(HANDSHAKE_TIMEOUT, tls.acceptor().accept(stream)).await;
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
        tracing::debug!(%remote, "connection failed: {e}");
    }
    Some(())
}

/// HTTP with the limits for a request head.
pub(crate) fn protocol() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD);
    builder
}

/// Receives datagrams. Does not return. With `only`, ignores datagrams from other addresses.
pub(crate) async fn receive(shared: Arc<Shared>, socket: UdpSocket, only: Option<IpAddr>) {
    each_datagram(&socket, |source, datagram| {
        if only.is_none_or(|only| only == source.ip()) {
            shared.datagram(source, datagram);
        }
    })
    .await;
}

/// Calls `handle` with each datagram. Does not return.
async fn each_datagram(socket: &UdpSocket, mut handle: impl FnMut(SocketAddr, &[u8])) {
    let mut datagram = [0; 2048];
    loop {
        // Without this call, a flood of datagrams would stop all other tasks of the gateway's thread: while datagrams
        // are pending, no other call in this loop yields.
        tokio::task::consume_budget().await;
        if socket.ready(Interest::READABLE).await.is_err() {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        // An error is ignored, because it belongs to an earlier datagram (port unreachable).
        if let Ok((length, source)) = socket.try_recv_from(&mut datagram) {
            handle(source, &datagram[..length]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pending_datagrams_do_not_occupy_the_thread() {
        const SENT: usize = 200;
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let there = socket.local_addr().unwrap();
        for _ in 0..SENT {
            socket.send_to(b"flood", there).await.unwrap();
        }
        socket.readable().await.unwrap();
        let mut handled = 0;
        tokio::select! {
            biased;
            () = each_datagram(&socket, |_, _| handled += 1) => {}
            () = std::future::ready(()) => {}
        }
        assert!(handled < SENT, "{handled}");
    }
}
