//! Whether a peer is on the local Ethernet segment, and its Ethernet address: two queries of the kernel's routing and
//! neighbour tables (rtnetlink(7)). The queries send no packets.
//!
//! The kernel resolves neighbours (ARP, NDP) when a packet is sent to them. Therefore, [`resolve`] sends a packet to an
//! unknown neighbour.

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
    /// The peer is behind a router.
    #[error("{0} is not on this network segment: it is behind a router")]
    Routed(IpAddr),
    /// Address resolution has not completed.
    #[error("the Ethernet address of {0} is unknown: no reply yet")]
    Unknown(IpAddr),
    /// The peer is not reached through Ethernet.
    #[error("the route to {0} is not Ethernet")]
    NotEthernet(IpAddr),
    /// No interface of that name.
    #[error("no network interface {0:?}; `ip link` lists them")]
    NoInterface(String),
    /// The kernel query failed.
    #[error("cannot query the route to {0}: {1}")]
    Io(IpAddr, io::Error),
}

/// The Ethernet station of a socket address, with the same port.
///
/// # Errors
/// [`NeighbourError`] if the station cannot be determined.
pub fn station(address: SocketAddr) -> Result<Station, NeighbourError> {
    let ip = address.ip().to_canonical();
    let failed = |error: io::Error| NeighbourError::Io(ip, error);
    let scope = match address {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let route = query(&route_request(ip, scope)).map_err(failed)?;
    let route = parse_route(&route).ok_or(NeighbourError::NotEthernet(ip))?;
    let station = |mac| Station {
        mac,
        interface: route.interface,
        port: address.port(),
    };
    match route.kind {
        // A local address. The loopback device also carries frames, with zero addresses.
        RTN_LOCAL => {
            return Ok(Station {
                interface: LOOPBACK,
                ..station(Mac::default())
            });
        }
        _ if route.gateway => return Err(NeighbourError::Routed(ip)),
        _ => {}
    }
    let neighbour = match query(&neighbour_request(ip, route.interface)) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
            return Err(NeighbourError::Unknown(ip));
        }
        other => other.map_err(failed)?,
    };
    match parse_neighbour(&neighbour) {
        Some(Some(mac)) => Ok(station(mac)),
        Some(None) => Err(NeighbourError::Unknown(ip)),
        None => Err(NeighbourError::NotEthernet(ip)),
    }
}

/// Like [`station`], but resolves an unknown neighbour. Blocks for a second at most.
///
/// # Errors
/// The errors of [`station`].
pub fn resolve(address: SocketAddr) -> Result<Station, NeighbourError> {
    let from: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    for _ in 0..ATTEMPTS {
        match station(address) {
            Err(NeighbourError::Unknown(_)) => {}
            found => return found,
        }
        // The host ignores this empty datagram, but the kernel must resolve the host's address to send it.
        let poke = UdpSocket::bind(from).and_then(|socket| socket.send_to(&[], address));
        if let Err(error) = poke {
            return Err(NeighbourError::Io(address.ip(), error));
        }
        std::thread::sleep(ATTEMPT_INTERVAL);
    }
    station(address)
}

/// Number of attempts, which take one second in total. The kernel itself sends three requests, a second apart (arp(7),
/// `mcast_solicit`, `retrans_time`), and a reply takes milliseconds.
const ATTEMPTS: u32 = 50;
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(20);

/// The index of an interface.
///
/// # Errors
/// [`NeighbourError::NoInterface`] if there is no interface with this name.
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
/// The states in which the entry's address has been confirmed: reachable, stale, delay, probe, no-ARP and permanent.
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

/// Bytes of a message header, and of the fixed part after it. The fixed part has this length in route messages and in
/// neighbour messages.
const HEADER: usize = 16;
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

fn route_request(ip: IpAddr, scope: u32) -> Vec<u8> {
    let mut fixed = [0; FIXED];
    let address = octets(ip);
    // The used fields of struct rtmsg: family, and number of bits of the destination.
    fixed[0] = family(ip);
    fixed[1] = u8::try_from(address.len() * 8).unwrap_or(0);
    let mut attributes = vec![(RTA_DST, address)];
    if scope != 0 {
        attributes.push((RTA_OIF, scope.to_ne_bytes().to_vec()));
    }
    request(RTM_GETROUTE, fixed, &attributes)
}

fn neighbour_request(ip: IpAddr, interface: u32) -> Vec<u8> {
    let mut fixed = [0; FIXED];
    // struct ndmsg: family, three bytes of padding, interface.
    fixed[0] = family(ip);
    fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
    request(RTM_GETNEIGH, fixed, &[(NDA_DST, octets(ip))])
}

fn request(kind: u16, fixed: [u8; FIXED], attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
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

/// Queries the kernel, which replies at once. Returns the reply without its header.
fn query(request: &[u8]) -> io::Result<Vec<u8>> {
    // Protocol 0 is NETLINK_ROUTE.
    let socket = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    rustix::net::send(&socket, request, SendFlags::empty())?;
    let mut reply = vec![0; 4096];
    let (len, _) = rustix::net::recv(&socket, &mut reply[..], RecvFlags::DONTWAIT)?;
    reply.truncate(len);
    let header = reply.get(..HEADER).ok_or(io::ErrorKind::InvalidData)?;
    let kind = u16::from_ne_bytes([header[4], header[5]]);
    let body = reply.split_off(HEADER);
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

fn parse_route(body: &[u8]) -> Option<Route> {
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

/// Parses a neighbour entry. The inner `None` means that the entry exists but is unconfirmed.
fn parse_neighbour(body: &[u8]) -> Option<Option<Mac>> {
    let (fixed, rest) = body.split_first_chunk::<FIXED>()?;
    let state = u16::from_ne_bytes([fixed[8], fixed[9]]);
    if state & NUD_VALID == 0 {
        return Some(None);
    }
    let (_, address) = Attributes(rest).find(|(kind, _)| *kind == NDA_LLADDR)?;
    Some(Some(Mac(address.try_into().ok()?)))
}

/// The attributes of a reply: length, kind, value, padded to a multiple of four.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let header = self.0.first_chunk::<4>()?;
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]);
        let value = self.0.get(4..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

#[cfg(test)]
mod tests;
