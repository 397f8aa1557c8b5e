//! Finds the datagram in a captured packet: UDP over IPv4 and IPv6, with or without VLAN tags, on Ethernet, Linux
//! cooked, BSD loopback and raw IP links; or one of OpenUVR's own Ethernet frames.
//!
//! IP fragments are not reassembled.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, LinkSlice, TransportSlice};
use pcap_file::DataLink;

use super::Packet;

/// One end of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// A UDP port.
    Udp(SocketAddr),
    /// An OpenUVR endpoint on Ethernet without IP.
    Ethernet {
        /// The Ethernet address of the endpoint's machine.
        mac: [u8; 6],
        /// The endpoint's port.
        port: u16,
    },
}

/// A machine, as identified in a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Machine {
    /// A machine identified by its IP address.
    Ip(IpAddr),
    /// A machine identified by its Ethernet address.
    Ethernet([u8; 6]),
}

/// A datagram with its captured bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Capture time, in the units of [`Packet::at`].
    pub at: u64,
    /// The sender.
    pub from: Endpoint,
    /// The receiver.
    pub to: Endpoint,
    /// The captured part of the payload.
    pub payload: &'a [u8],
    /// Length of the whole payload in bytes.
    pub length: usize,
    /// Number of header bytes before the payload on Ethernet: 14 bytes, plus the headers of IP and UDP, or of OpenUVR.
    /// On cooked and raw links, Ethernet's header is counted, too, so that captures are comparable.
    pub headers: usize,
}

/// The reason why a packet contains no datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoDatagram {
    /// TCP.
    Tcp,
    /// An IP fragment.
    Fragment,
    /// Something else: ARP, ICMP, other EtherTypes.
    Other,
    /// The packet's headers are truncated or invalid.
    Truncated,
    /// The link type is not supported.
    Link,
}

/// The EtherType of OpenUVR's frames. It is the first of the EtherTypes for local experiments (IEEE 802, 9.2.4); see
/// `docs/protocol.md`.
pub const OPENUVR_ETHER_TYPE: u16 = 0x88b5;

/// The magic number at the start of an OpenUVR frame, and the length of the prefix before the datagram.
pub const OPENUVR_MAGIC: [u8; 2] = *b"OV";
const OPENUVR_PREFIX: usize = 8;

/// Length of an Ethernet header: destination, source and EtherType.
const ETHERNET: usize = 14;

/// For Linux cooked links of versions 1 and 2: the header's length, and the offset of the EtherType (pcap's
/// LINKTYPE_LINUX_SLL and LINKTYPE_LINUX_SLL2).
const COOKED: (usize, usize) = (16, 14);
const COOKED_2: (usize, usize) = (20, 0);

/// Length of the address family that precedes each packet on BSD's loopback link.
const NULL: usize = 4;

impl Endpoint {
    /// The machine.
    #[must_use]
    pub fn machine(&self) -> Machine {
        match self {
            Endpoint::Udp(address) => Machine::Ip(address.ip()),
            Endpoint::Ethernet { mac, .. } => Machine::Ethernet(*mac),
        }
    }

    /// The same endpoint, with its port set to 0.
    #[must_use]
    pub fn without_port(self) -> Endpoint {
        match self {
            Endpoint::Udp(address) => Endpoint::Udp((address.ip(), 0).into()),
            Endpoint::Ethernet { mac, .. } => Endpoint::Ethernet { mac, port: 0 },
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Udp(address) if address.port() == 0 => write!(f, "{}", address.ip()),
            Endpoint::Udp(address) => write!(f, "{address}"),
            Endpoint::Ethernet { port: 0, .. } => write!(f, "{}", self.machine()),
            Endpoint::Ethernet { port, .. } => write!(f, "{}#{port}", self.machine()),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Machine::Ip(address) => write!(f, "{address}"),
            Machine::Ethernet([a, b, c, d, e, g]) => {
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
        }
    }
}

impl<'a> Datagram<'a> {
    /// Finds the datagram in a packet.
    ///
    /// # Errors
    /// Returns the reason if the packet contains no datagram.
    pub fn of(packet: &Packet<'a>) -> Result<Datagram<'a>, NoDatagram> {
        let data = packet.data;
        let cooked = |(header, kind): (usize, usize)| {
            let kind = data.get(kind..kind + 2)?;
            let kind = EtherType(u16::from_be_bytes([kind[0], kind[1]]));
            Some(LaxSlicedPacket::from_ether_type(kind, data.get(header..)?))
        };
        let parsed = match packet.link {
            DataLink::ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
            DataLink::LINUX_SLL => cooked(COOKED),
            DataLink::LINUX_SLL2 => cooked(COOKED_2),
            DataLink::NULL | DataLink::LOOP => data
                .get(NULL..)
                .and_then(|data| LaxSlicedPacket::from_ip(data).ok()),
            DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => LaxSlicedPacket::from_ip(data).ok(),
            _ => return Err(NoDatagram::Link),
        };
        let parsed = parsed.ok_or(NoDatagram::Truncated)?;
        if let Some(found) = openuvr(packet, &parsed) {
            return Ok(found);
        }
        udp(packet.at, &parsed)
    }
}

fn udp<'a>(at: u64, packet: &LaxSlicedPacket<'a>) -> Result<Datagram<'a>, NoDatagram> {
    let net = packet.net.as_ref().ok_or(match packet.stop_err {
        Some(_) => NoDatagram::Truncated,
        None => NoDatagram::Other,
    })?;
    let (from, to, header): (IpAddr, IpAddr, usize) = match net {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let ends = (
                header.source_addr().into(),
                header.destination_addr().into(),
            );
            (ends.0, ends.1, header.slice().len())
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let ends = (
                header.source_addr().into(),
                header.destination_addr().into(),
            );
            (ends.0, ends.1, header.slice().len())
        }
        LaxNetSlice::Arp(_) => return Err(NoDatagram::Other),
    };
    if net
        .ip_payload_ref()
        .is_some_and(|payload| payload.fragmented)
    {
        return Err(NoDatagram::Fragment);
    }
    match &packet.transport {
        Some(TransportSlice::Udp(udp)) => {
            let payload = udp.payload();
            // The length field is 0 if the datagram is too long for the field (RFC 2675), or if the field has not been
            // filled in yet.
            let length = usize::from(udp.length()).saturating_sub(8);
            Ok(Datagram {
                at,
                from: Endpoint::Udp((from, udp.source_port()).into()),
                to: Endpoint::Udp((to, udp.destination_port()).into()),
                payload,
                length: length.max(payload.len()),
                headers: ETHERNET + header + 8,
            })
        }
        Some(TransportSlice::Tcp(_)) => Err(NoDatagram::Tcp),
        Some(_) => Err(NoDatagram::Other),
        None => Err(match packet.stop_err {
            Some(_) => NoDatagram::Truncated,
            None => NoDatagram::Other,
        }),
    }
}

/// Parses an OpenUVR frame on Ethernet: magic number, length, the receiver's port, and the sender's port. The numbers
/// are little-endian.
fn openuvr<'a>(packet: &Packet<'a>, parsed: &LaxSlicedPacket<'a>) -> Option<Datagram<'a>> {
    let Some(LinkSlice::Ethernet2(ethernet)) = &parsed.link else {
        return None;
    };
    let inner = parsed.ether_payload()?;
    if inner.ether_type != EtherType(OPENUVR_ETHER_TYPE) {
        return None;
    }
    let (prefix, payload) = inner.payload.split_at_checked(OPENUVR_PREFIX)?;
    let word = |at: usize| u16::from_le_bytes([prefix[at], prefix[at + 1]]);
    if prefix[..2] != OPENUVR_MAGIC {
        return None;
    }
    let length = usize::from(word(2));
    let station = |mac, port| Endpoint::Ethernet { mac, port };
    Some(Datagram {
        at: packet.at,
        from: station(ethernet.source(), word(6)),
        to: station(ethernet.destination(), word(4)),
        payload: &payload[..length.min(payload.len())],
        length,
        headers: ETHERNET + OPENUVR_PREFIX,
    })
}
