//! Addresses at which browsers reach the media socket through an address translator (NAT), configured by the user or
//! reported by STUN servers. Each becomes a candidate (RFC 8445) in addition to the socket's own address.
//!
//! If neither addresses nor STUN servers are configured, the module sends no requests and stores no addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use openuvr_gateway_settings::{IceServer, PublicAddress};
use openuvr_runtime::lock::lock;
use tokio::net::lookup_host;
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};

use crate::counter::Counter;
use crate::media_sockets::MediaSockets;
use crate::reflexive::{DatagramKind, Reflexive, may_be_reached};

/// How long the resolved addresses of a server name stay valid (guess).
const NAME_TTL: Duration = Duration::from_secs(600);
/// How long the resolved addresses stay valid if no STUN server has answered.
const NAME_TTL_UNANSWERED: Duration = Duration::from_secs(60);

/// Timeout for resolving a name (guess: two DNS servers that do not answer).
const NAME_TIMEOUT: Duration = Duration::from_secs(10);

/// The configured and the reported addresses of one gateway.
pub(crate) struct Addresses {
    named: Vec<SocketAddr>,
    reflexive: Mutex<Reflexive>,
    /// All addresses. The value changes when a server reports another address.
    known: watch::Sender<Vec<SocketAddr>>,
    pub(crate) counters: StunCounters,
}

/// Statistics of STUN requests.
#[derive(Default)]
pub(crate) struct StunCounters {
    /// Requests sent, including retransmissions.
    pub(crate) questions: Counter,
    /// Responses with a usable address.
    pub(crate) answers: Counter,
    /// Responses that match no request or contain no usable address.
    pub(crate) refused: Counter,
}

impl Addresses {
    /// Creates the state for the socket at this address. `named` are the configured addresses.
    pub(crate) fn new(socket: SocketAddr, named: &[PublicAddress]) -> Addresses {
        let named = named.iter().map(|address| address.or_port(socket.port()));
        let named: Vec<SocketAddr> = named.collect();
        Addresses {
            reflexive: Mutex::new(Reflexive::new(Instant::now(), socket)),
            known: watch::Sender::new(named.clone()),
            named,
            counters: StunCounters::default(),
        }
    }

    /// Returns a receiver of all known addresses, which is notified when they change.
    pub(crate) fn watch(&self) -> watch::Receiver<Vec<SocketAddr>> {
        self.known.subscribe()
    }

    /// Handles a datagram. Returns whether it was a STUN response. `source` is canonical.
    pub(crate) fn receive(&self, source: SocketAddr, datagram: &[u8]) -> bool {
        let mut reflexive = lock(&self.reflexive);
        let kind = reflexive.receive(Instant::now(), source, datagram);
        match kind {
            DatagramKind::Other => return false,
            DatagramKind::Refused => self.counters.refused.add(1),
            DatagramKind::Answer => self.counters.answers.add(1),
        }
        self.settle(&reflexive);
        true
    }

    /// Sends due requests. Returns the time of the next call.
    fn poll(&self, sockets: &MediaSockets) -> Instant {
        let mut reflexive = lock(&self.reflexive);
        let next = reflexive.poll(Instant::now(), |to, datagram| {
            self.counters.questions.add(1);
            // An error is ignored: the unsent datagram counts as lost and is retransmitted.
            let _ = sockets.send_to(datagram, to);
        });
        self.settle(&reflexive);
        next
    }

    fn settle(&self, reflexive: &Reflexive) {
        let mut all = self.named.clone();
        all.extend((reflexive.addresses().into_iter()).filter(|seen| !self.named.contains(seen)));
        self.known.send_if_modified(|known| {
            let other = *known != all;
            if other {
                tracing::info!(
                    "browsers are told these UDP addresses of the media socket: {all:?}"
                );
                *known = all;
            }
            other
        });
    }
}

/// Sends requests to the STUN servers in `servers` from the media socket. Returns only if the list has no STUN server.
pub(crate) async fn discover(
    addresses: Arc<Addresses>,
    media: Arc<MediaSockets>,
    servers: Vec<IceServer>,
) {
    let names: Vec<(String, u16)> = (servers.iter().filter_map(IceServer::stun))
        .map(|(host, port)| (host.to_owned(), port))
        .collect();
    if names.is_empty() {
        return;
    }
    let reflexive = &addresses.reflexive;
    loop {
        let found = resolve(&names, media.main()).await;
        lock(reflexive).request(Instant::now(), &found);
        let began = Instant::now();
        loop {
            let next = addresses.poll(&media);
            let answered = !lock(reflexive).addresses().is_empty();
            let lasts = match answered {
                true => NAME_TTL,
                false => NAME_TTL_UNANSWERED,
            };
            if began.elapsed() >= lasts {
                break;
            }
            sleep_until(next.min(began + lasts).into()).await;
        }
    }
}

/// Resolves each name to one address of each family to which the socket can send. Names that cannot be resolved are
/// omitted.
async fn resolve(names: &[(String, u16)], socket: &UdpSocket) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for (host, port) in names {
        let all = match timeout(NAME_TIMEOUT, lookup_host((host.as_str(), *port))).await {
            Ok(Ok(all)) => all.collect::<Vec<_>>(),
            Ok(Err(e)) => {
                tracing::warn!("cannot resolve STUN server {host}: {e}");
                continue;
            }
            Err(_) => {
                tracing::warn!("cannot resolve STUN server {host}: timeout");
                continue;
            }
        };
        for v4 in [true, false] {
            let fits = |at: &&SocketAddr| at.is_ipv4() == v4 && takes(socket, at.ip());
            found.extend(all.iter().find(fits));
        }
    }
    found
}

/// Whether the socket can send to the family of this address.
fn takes(socket: &UdpSocket, to: IpAddr) -> bool {
    match socket.local_addr().map(|at| at.ip().to_canonical()) {
        Ok(IpAddr::V6(v6)) => v6.is_unspecified() || to.is_ipv6(),
        Ok(IpAddr::V4(_)) => to.is_ipv4(),
        Err(_) => false,
    }
}

/// The local address from which the kernel sends the socket's datagrams to `to`; `None` if there is no usable address.
/// Sends nothing.
pub(crate) fn base(socket: &UdpSocket, to: SocketAddr) -> Option<SocketAddr> {
    let bound = socket.local_addr().ok()?;
    if !takes(socket, to.ip()) {
        return None;
    }
    let ip = match bound.ip().to_canonical() {
        ip if !ip.is_unspecified() => ip,
        _ => {
            let any: IpAddr = match to {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let probe = UdpSocket::bind((any, 0)).ok()?;
            probe.connect(to).ok()?;
            probe.local_addr().ok()?.ip()
        }
    };
    let at = SocketAddr::new(ip, bound.port());
    (may_be_reached(at) || ip.is_loopback()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_is_the_address_that_the_kernel_sends_from() {
        let any = UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = any.local_addr().unwrap().port();
        let there = "127.0.0.9:1".parse().unwrap();
        let here = SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(base(&any, there), Some(here));
        assert_eq!(base(&any, "[2001:db8::1]:1".parse().unwrap()), None);
    }
}
