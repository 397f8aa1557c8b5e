//! The addresses at which others reach the media's socket, where an address translator is between: those that the
//! person names, and those that STUN servers see. Each becomes a candidate (RFC 8445) beside the socket's own address.
//!
//! Without either nothing is sent and nothing kept.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use openuvr_runtime::lock::lock;
use tokio::net::lookup_host;
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};

use crate::counter::Counter;
use crate::ice::IceServer;
use crate::media_sockets::MediaSockets;
use crate::reflexive::{DatagramKind, Reflexive, may_be_reached};

/// How long a name of a server is taken to mean the same (guess) …
const NAME_LASTS: Duration = Duration::from_secs(600);
/// … and how long if no server has answered.
const NAME_LASTS_UNANSWERED: Duration = Duration::from_secs(60);

/// How long the question for a name's addresses may take (guess: two servers that do not answer).
const NAME_WITHIN: Duration = Duration::from_secs(10);

/// An address by which others reach this host, where it is not the host's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicAddress {
    ip: IpAddr,
    /// `None`: the gateway's own port.
    port: Option<u16>,
}

/// A text that is no address of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not IP[:PORT], of one machine")]
pub struct InvalidPublicAddress;

impl FromStr for PublicAddress {
    type Err = InvalidPublicAddress;

    /// `203.0.113.7`, `203.0.113.7:4711`, `2001:db8::7`, `[2001:db8::7]:4711`.
    fn from_str(text: &str) -> Result<PublicAddress, InvalidPublicAddress> {
        let (ip, port) = match text.parse::<SocketAddr>() {
            Ok(at) => (at.ip(), Some(at.port())),
            Err(_) => (text.parse().map_err(|_| InvalidPublicAddress)?, None),
        };
        let ip = ip.to_canonical();
        let never = ip.is_unspecified() || ip.is_multicast() || ip == Ipv4Addr::BROADCAST;
        match !never && port != Some(0) {
            true => Ok(PublicAddress { ip, port }),
            false => Err(InvalidPublicAddress),
        }
    }
}

impl PublicAddress {
    /// With this port, if it names none.
    #[must_use]
    pub fn or_port(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.unwrap_or(port))
    }
}

impl fmt::Display for PublicAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.ip, port).fmt(f),
            None => self.ip.fmt(f),
        }
    }
}

/// Both kinds, of one gateway.
pub(crate) struct Addresses {
    named: Vec<SocketAddr>,
    asked: Mutex<Reflexive>,
    /// All of them: it changes when a server sees the socket elsewhere.
    known: watch::Sender<Vec<SocketAddr>>,
    pub(crate) counters: StunCounters,
}

/// What was asked of STUN servers.
#[derive(Default)]
pub(crate) struct StunCounters {
    /// Datagrams sent.
    pub(crate) questions: Counter,
    /// Answers that said something.
    pub(crate) answers: Counter,
    /// Those that fit no question, or say nothing of use.
    pub(crate) refused: Counter,
}

impl Addresses {
    /// Of this socket, which has these besides its own.
    pub(crate) fn new(socket: SocketAddr, named: &[PublicAddress]) -> Addresses {
        let named = named.iter().map(|address| address.or_port(socket.port()));
        let named: Vec<SocketAddr> = named.collect();
        Addresses {
            asked: Mutex::new(Reflexive::new(Instant::now(), socket)),
            known: watch::Sender::new(named.clone()),
            named,
            counters: StunCounters::default(),
        }
    }

    /// All that are known, and when there are others.
    pub(crate) fn watch(&self) -> watch::Receiver<Vec<SocketAddr>> {
        self.known.subscribe()
    }

    /// Whether the datagram was about this; `source` is canonical.
    pub(crate) fn receive(&self, source: SocketAddr, datagram: &[u8]) -> bool {
        let mut asked = lock(&self.asked);
        let heard = asked.receive(Instant::now(), source, datagram);
        match heard {
            DatagramKind::Other => return false,
            DatagramKind::Refused => self.counters.refused.add(1),
            DatagramKind::Answer => self.counters.answers.add(1),
        }
        self.settle(&asked);
        true
    }

    /// Sends what is to be sent now, and says when to come again.
    fn poll(&self, sockets: &MediaSockets) -> Instant {
        let mut asked = lock(&self.asked);
        let next = asked.poll(Instant::now(), |to, datagram| {
            self.counters.questions.add(1);
            // What is not sent is sent again as if it were lost.
            let _ = sockets.send_to(datagram, to);
        });
        self.settle(&asked);
        next
    }

    fn settle(&self, asked: &Reflexive) {
        let mut all = self.named.clone();
        all.extend((asked.addresses().into_iter()).filter(|seen| !self.named.contains(seen)));
        self.known.send_if_modified(|known| {
            let other = *known != all;
            if other {
                tracing::info!("others reach the media by UDP at {all:?}");
                *known = all;
            }
            other
        });
    }
}

/// Asks these servers for ever, from this socket.
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
    let asked = &addresses.asked;
    loop {
        let found = resolve(&names, media.main()).await;
        lock(asked).request(Instant::now(), &found);
        let began = Instant::now();
        loop {
            let next = addresses.poll(&media);
            let answered = !lock(asked).addresses().is_empty();
            let lasts = match answered {
                true => NAME_LASTS,
                false => NAME_LASTS_UNANSWERED,
            };
            if began.elapsed() >= lasts {
                break;
            }
            sleep_until(next.min(began + lasts).into()).await;
        }
    }
}

/// Of each name one address of each family that the socket can send to. A name that can't be found now is missing.
async fn resolve(names: &[(String, u16)], socket: &UdpSocket) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for (host, port) in names {
        let all = match timeout(NAME_WITHIN, lookup_host((host.as_str(), *port))).await {
            Ok(Ok(all)) => all.collect::<Vec<_>>(),
            Ok(Err(e)) => {
                tracing::warn!("the STUN server {host} is not found: {e}");
                continue;
            }
            Err(_) => {
                tracing::warn!("the STUN server {host} is not found in time");
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

/// Whether this socket reaches addresses of this one's family.
fn takes(socket: &UdpSocket, to: IpAddr) -> bool {
    match socket.local_addr().map(|at| at.ip().to_canonical()) {
        Ok(IpAddr::V6(v6)) => v6.is_unspecified() || to.is_ipv6(),
        Ok(IpAddr::V4(_)) => to.is_ipv4(),
        Err(_) => false,
    }
}

/// The address of this machine from which the socket's datagrams to `to` leave; `None`: it has none of that family.
/// Nothing is sent.
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
    fn an_address_is_one_of_a_machine_with_or_without_a_port() {
        let at = |text: &str| {
            let address: PublicAddress = text.parse().unwrap();
            (address.to_string(), address.or_port(4711).to_string())
        };
        let of = |shown: &str, whole: &str| (shown.to_owned(), whole.to_owned());
        assert_eq!(at("203.0.113.7"), of("203.0.113.7", "203.0.113.7:4711"));
        assert_eq!(at("203.0.113.7:80"), of("203.0.113.7:80", "203.0.113.7:80"));
        assert_eq!(at("2001:db8::7"), of("2001:db8::7", "[2001:db8::7]:4711"));
        assert_eq!(
            at("[2001:db8::7]:80"),
            of("[2001:db8::7]:80", "[2001:db8::7]:80")
        );
        for bad in [
            "",
            "desk",
            "203.0.113.7:",
            "203.0.113.7:0",
            "203.0.113.7:70000",
            "203.0.113",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "[2001:db8::7]",
            "2001:db8::7]:80",
        ] {
            assert_eq!(
                bad.parse::<PublicAddress>(),
                Err(InvalidPublicAddress),
                "{bad}"
            );
        }
    }

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
