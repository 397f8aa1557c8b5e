//! Whether a peer is on our own Ethernet segment, and its address there: two questions to the
//! kernel's routing and neighbour tables (rtnetlink(7)), no packets.
//!
//! What it is not: it does not look for neighbours itself. The kernel does, once something is sent to
//! the address, and [`find`] sends something.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netdevice};

use crate::ether::{Mac, Station};
use crate::sys::interfaces::LOOPBACK;

/// Why an address is unavailable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NeighbourError {
    /// There is a router between.
    #[error("{0} is not on this network segment: a router is between")]
    Routed(IpAddr),
    /// Nobody there has answered yet.
    #[error("the Ethernet address of {0} is not known: it has not answered")]
    Unknown(IpAddr),
    /// The way there is no Ethernet.
    #[error("the way to {0} is no Ethernet")]
    NoEthernet(IpAddr),
    /// No interface of that name.
    #[error("this machine has no interface {0}: `ip link` lists them")]
    NoInterface(String),
    /// The kernel did not answer.
    #[error("the kernel does not tell the way to {0}: {1}")]
    Io(IpAddr, io::Error),
}

/// The station behind a socket address, which keeps its port.
///
/// # Errors
/// [`NeighbourError`] says why there is none.
pub fn station(address: SocketAddr) -> Result<Station, NeighbourError> {
    let ip = address.ip().to_canonical();
    let failed = |error: io::Error| NeighbourError::Io(ip, error);
    let scope = match address {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let route = ask(&route_question(ip, scope)).map_err(failed)?;
    let route = read_route(&route).ok_or(NeighbourError::NoEthernet(ip))?;
    let station = |mac| Station {
        mac,
        interface: route.interface,
        port: address.port(),
    };
    match route.kind {
        // An address of this machine: the loopback device has frames, too, with no addresses.
        RTN_LOCAL => {
            return Ok(Station {
                interface: LOOPBACK,
                ..station(Mac::default())
            });
        }
        _ if route.gateway => return Err(NeighbourError::Routed(ip)),
        _ => {}
    }
    let neighbour = match ask(&neighbour_question(ip, route.interface)) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
            return Err(NeighbourError::Unknown(ip));
        }
        other => other.map_err(failed)?,
    };
    match read_neighbour(&neighbour) {
        Some(Some(mac)) => Ok(station(mac)),
        Some(None) => Err(NeighbourError::Unknown(ip)),
        None => Err(NeighbourError::NoEthernet(ip)),
    }
}

/// The same, and has the kernel look for the neighbour if it does not know it: blocks for at most a
/// second.
///
/// # Errors
/// As [`station`].
pub fn find(address: SocketAddr) -> Result<Station, NeighbourError> {
    let from: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    for _ in 0..LOOKS {
        match station(address) {
            Err(NeighbourError::Unknown(_)) => {}
            found => return found,
        }
        // An empty datagram is nothing to the host, but has to be delivered like any.
        let poke = UdpSocket::bind(from).and_then(|socket| socket.send_to(&[], address));
        if let Err(error) = poke {
            return Err(NeighbourError::Io(address.ip(), error));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    station(address)
}

/// How often and for how long a neighbour is looked for: the kernel itself asks three times, a
/// second apart (arp(7), `mcast_solicit`, `retrans_time`), and an answer takes milliseconds.
const LOOKS: u32 = 50;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The index of an interface.
///
/// # Errors
/// [`NeighbourError::NoInterface`].
pub fn interface(name: &str) -> Result<u32, NeighbourError> {
    let none = |_| NeighbourError::NoInterface(name.to_owned());
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).map_err(none)?;
    netdevice::name_to_index(&socket, name).map_err(none)
}

// linux/rtnetlink.h, linux/neighbour.h, linux/netlink.h.
const RTM_GETNEIGH: u16 = 30;
const RTM_GETROUTE: u16 = 26;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_VIA: u16 = 18;
const RTN_LOCAL: u8 = 2;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// The states in which the entry's address was confirmed once: reachable, stale, delay, probe,
/// no-ARP and permanent.
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

/// Bytes of a message's head, and of the fixed part behind it in both kinds.
const HEAD: usize = 16;
const FIXED: usize = 12;

fn family(ip: IpAddr) -> u8 {
    let family = if ip.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    u8::try_from(family).unwrap_or(0)
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn route_question(ip: IpAddr, scope: u32) -> Vec<u8> {
    let mut fixed = [0; FIXED];
    let address = octets(ip);
    // struct rtmsg: family, bits of the destination.
    fixed[0] = family(ip);
    fixed[1] = u8::try_from(address.len() * 8).unwrap_or(0);
    let mut attributes = vec![(RTA_DST, address)];
    if scope != 0 {
        attributes.push((RTA_OIF, scope.to_ne_bytes().to_vec()));
    }
    question(RTM_GETROUTE, fixed, &attributes)
}

fn neighbour_question(ip: IpAddr, interface: u32) -> Vec<u8> {
    let mut fixed = [0; FIXED];
    // struct ndmsg: family, three bytes of padding, interface.
    fixed[0] = family(ip);
    fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
    question(RTM_GETNEIGH, fixed, &[(NDA_DST, octets(ip))])
}

fn question(kind: u16, fixed: [u8; FIXED], attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    bytes.extend_from_slice(&fixed);
    for (kind, value) in attributes {
        let len = u16::try_from(4 + value.len()).unwrap_or(0);
        bytes.extend_from_slice(&len.to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    let len = u32::try_from(bytes.len()).unwrap_or(0);
    bytes[..4].copy_from_slice(&len.to_ne_bytes());
    bytes
}

/// Asks the kernel, which answers at once; the answer without its head.
fn ask(question: &[u8]) -> io::Result<Vec<u8>> {
    // Protocol 0 is NETLINK_ROUTE.
    let socket = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    rustix::net::send(&socket, question, SendFlags::empty())?;
    let mut answer = vec![0; 4096];
    let (len, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    answer.truncate(len);
    let head = answer.get(..HEAD).ok_or(io::ErrorKind::InvalidData)?;
    let kind = u16::from_ne_bytes([head[4], head[5]]);
    let body = answer.split_off(HEAD);
    if kind == NLMSG_ERROR {
        let code = body
            .first_chunk()
            .map_or(0, |code| i32::from_ne_bytes(*code));
        return Err(io::Error::from_raw_os_error(code.saturating_neg()));
    }
    Ok(body)
}

struct Route {
    interface: u32,
    kind: u8,
    gateway: bool,
}

fn read_route(body: &[u8]) -> Option<Route> {
    let (fixed, rest) = body.split_first_chunk::<FIXED>()?;
    let mut route = Route {
        interface: 0,
        kind: fixed[7],
        gateway: false,
    };
    for (kind, value) in Attributes(rest) {
        match kind {
            RTA_OIF => route.interface = u32::from_ne_bytes(*value.first_chunk()?),
            RTA_GATEWAY | RTA_VIA => route.gateway = true,
            _ => {}
        }
    }
    (route.interface != 0).then_some(route)
}

/// `None` inside: there is an entry, but nobody has confirmed it.
fn read_neighbour(body: &[u8]) -> Option<Option<Mac>> {
    let (fixed, rest) = body.split_first_chunk::<FIXED>()?;
    let state = u16::from_ne_bytes([fixed[8], fixed[9]]);
    if state & NUD_VALID == 0 {
        return Some(None);
    }
    let (_, address) = Attributes(rest).find(|(kind, _)| *kind == NDA_LLADDR)?;
    Some(Some(Mac(address.try_into().ok()?)))
}

/// The attributes of an answer: length, kind, value, filled up to a multiple of four.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.0.first_chunk::<4>()?;
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]);
        let value = self.0.get(4..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

#[cfg(test)]
mod tests;
