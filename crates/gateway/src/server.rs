//! Who connects: TCP, TLS and HTTP, with a limit in time and number on each step.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::http;
use crate::portal_door;
use crate::shared::{Ends, Shared};
use crate::tls::Tls;

/// TCP connections at a time (a WebSocket counts until it is one): a page takes up to six.
const TCP_CONNECTIONS: usize = 256;

/// … and from one network, so that who holds all of its own keeps nobody else out.
const OF_A_NETWORK: usize = 64;

/// How long a connection may take for all its requests.
pub(crate) const SERVED_WITHIN: Duration = Duration::from_secs(60);

/// How long a TLS handshake may take.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// How long the head of a request may take; an idle connection ends after it.
pub(crate) const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// Bytes of a request's head at most.
pub(crate) const HEAD: usize = 16 * 1024;

/// After an error of the system's (no descriptors are left) it is not asked again at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes connections for ever.
pub(crate) async fn take(shared: Arc<Shared>, listener: TcpListener, tls: Tls) {
    let places = Places::default();
    loop {
        let (stream, theirs) = match listener.accept().await {
            Ok(taken) => taken,
            Err(e) => {
                tracing::debug!("no connection was taken: {e}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        shared.counters.taken.add(1);
        let Some(place) = places.take(network(theirs.ip())) else {
            shared.counters.crowded_out.add(1);
            continue;
        };
        let (shared, acceptor) = (shared.clone(), tls.acceptor.clone());
        tokio::spawn(async move {
            if serve(&shared, acceptor, stream, theirs).await.is_none() {
                shared.counters.failed_handshakes.add(1);
            }
            drop(place);
        });
    }
}

/// `None`: there was no handshake.
async fn serve(
    shared: &Arc<Shared>,
    acceptor: tokio_rustls::TlsAcceptor,
    stream: TcpStream,
    theirs: SocketAddr,
) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let ours = stream.local_addr().ok()?;
    let ends = Ends { theirs, ours };
    let secure = timeout(HANDSHAKE_WITHIN, acceptor.accept(stream)).await;
    let secure = secure.ok()?.ok()?;
    let shared = shared.clone();
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move {
            match shared.portal_alone {
                true => Ok(portal_door::answer(&shared, ends, request).await),
                false => http::answer(shared, ends, request).await,
            }
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(secure), service)
        .with_upgrades();
    if let Ok(Err(e)) = timeout(SERVED_WITHIN, served).await {
        tracing::debug!(%theirs, "a connection ended: {e}");
    }
    Some(())
}

/// Who counts as one: an address of IPv4, 64 bits of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) >> 64 << 64).into(),
    }
}

/// Whose connections there are.
#[derive(Clone, Default)]
struct Places(Arc<Mutex<Vec<IpAddr>>>);

impl Places {
    /// One more of this network, until it is dropped; `None`: there are too many.
    fn take(&self, of: IpAddr) -> Option<Place> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = taken.iter().filter(|other| **other == of).count();
        if taken.len() >= TCP_CONNECTIONS || same >= OF_A_NETWORK {
            return None;
        }
        taken.push(of);
        Some(Place(self.clone(), of))
    }
}

struct Place(Places, IpAddr);

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = taken.iter().position(|of| *of == self.1) {
            taken.swap_remove(at);
        }
    }
}

/// Takes datagrams for ever.
pub(crate) async fn receive(shared: Arc<Shared>, socket: UdpSocket) {
    let mut datagram = [0; 2048];
    loop {
        if socket.ready(Interest::READABLE).await.is_err() {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        // An error is one of a datagram that was sent before (nobody listens there).
        if let Ok((length, source)) = socket.try_recv_from(&mut datagram) {
            shared.datagram(source, &datagram[..length]);
        }
    }
}
