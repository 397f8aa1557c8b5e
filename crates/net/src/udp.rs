//! UDP over IPv4 and IPv6: the transport that is always available.
//!
//! A batch goes to the kernel in one call. Either it is one large datagram that is segmented late (generic segmentation
//! offload, `UDP_SEGMENT` of udp(7), Linux 4.18), or, if GSO is refused, it is sent with sendmmsg(2). On receipt, the
//! kernel coalesces datagrams (`UDP_GRO`, Linux 5.0), and this module splits them. Without segmentation offload, the
//! transfer of a video frame takes about twice as long (measured, see module `raw`), because most of the time is spent
//! on per-packet work and wake-ups, not on system calls or copies.
//!
//! A socket that is bound to all addresses replies from the destination address of the received datagram (`IP_PKTINFO`,
//! `IPV6_PKTINFO`). This address is part of the path.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{PoisonError, RwLock};

use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::ecn::Ecn;
use openuvr_proto::id::PathId;

use crate::address::{address_of, is_segmented, own_of, path_between};
use crate::arrival::{Arrival, Clocks};
use crate::sys::fork::CloseOnFork;
use crate::sys::message::SendControl;
use crate::sys::socket::{self, MAX_BATCH, Message};
use crate::{LinkError, MAX_DATAGRAM, Received, RecvBatch, Transport};

/// How to open a [`Udp`] link.
#[derive(Debug, Clone)]
pub struct Options {
    /// Use segmentation offload for sending, if available.
    pub gso: bool,
    /// Use receive offload, if available.
    pub gro: bool,
    /// Receive buffer to request, in bytes.
    pub receive_buffer: u32,
    /// Send buffer to request, in bytes.
    pub send_buffer: u32,
    /// Reply from the destination address of the received datagram. Intended for a listening link.
    pub reply_from_destination: bool,
}

impl Options {
    /// Options without offloads.
    pub const PLAIN: Options = Options {
        gso: false,
        gro: false,
        receive_buffer: socket::RECEIVE_BUFFER,
        send_buffer: socket::SEND_BUFFER,
        reply_from_destination: false,
    };
}

impl Default for Options {
    fn default() -> Options {
        Options {
            gso: true,
            gro: true,
            ..Options::PLAIN
        }
    }
}

/// A bound UDP socket. Any number of threads may send. Only one thread should receive, because two threads would split
/// the datagrams between them.
#[derive(Debug)]
pub struct Udp {
    /// Declared before the socket, so that it is dropped first.
    _close_on_fork: CloseOnFork,
    socket: UdpSocket,
    local: SocketAddr,
    gso: bool,
    gro: bool,
    /// The last [`MAX_NO_GSO_PEERS`] peers for which GSO failed.
    no_gso_peers: RwLock<Vec<IpAddr>>,
}

/// Maximum number of remembered peers for which GSO failed: more than a host serves (guess). GSO is tried again for an
/// evicted peer.
const MAX_NO_GSO_PEERS: usize = 64;

/// Class selector 5 (RFC 2474), in the former TOS byte: 40 << 2. Wi-Fi access points and drivers map it to the video
/// access category, by the old rule (upper three bits: user priority 5) and by RFC 8325. RFC 8325 maps expedited
/// forwarding to voice, whose transmit opportunities are too short for the burst of a frame. The lower two bits are the
/// ECN field.
const TRAFFIC_CLASS: u8 = 40 << 2;

/// `TC_PRIO_INTERACTIVE` (linux/pkt_sched.h): the first band of the default qdisc, and the highest
/// unprivileged priority.
const PRIORITY: i32 = 6;

/// Maximum bytes of one segmented send: the largest IPv4 payload, 65 535 - 20 - 8.
const MAX_SEGMENTED: usize = 65_507;

/// Bytes for one GRO message: the largest IP packet.
const JOINED_SLOT: usize = 65_536;
/// GRO messages received in one call: 1 MiB.
const JOINED_SLOTS: usize = 16;
/// Maximum datagrams in a GRO message. `UDP_GRO_CNT_MAX` is 64, and a local batch holds up to `UDP_MAX_SEGMENTS`, 128.
const MAX_JOINED: usize = 128;
/// Bytes for one datagram without GRO: more than [`MAX_DATAGRAM`], so that oversize datagrams are detected.
const PLAIN_SLOT: usize = 1536;

impl Udp {
    /// Opens a link at `address`. Port 0 is an ephemeral port, and `[::]` includes IPv4. On a kernel without IPv6,
    /// `[::]` means all IPv4 addresses.
    ///
    /// # Errors
    /// [`LinkError::Io`] if the address is not local or the port is in use. The message includes a remedy.
    pub fn bind(address: SocketAddr, options: &Options) -> Result<Udp, LinkError> {
        let io = |what: String| move |error| LinkError::Io { what, error };
        let socket = socket::bind(address).or_else(|error| match ipv4_instead(address, &error) {
            Some(v4) => socket::bind(v4),
            None => Err(error),
        });
        let socket = socket.map_err(|error| bind_error(address, error))?;
        let local = socket.local_addr().map_err(io(format!(
            "cannot read the local address of UDP {address}"
        )))?;

        socket::enlarge_send_buffer(&socket, options.send_buffer);
        socket::enlarge_receive_buffer(&socket, &format!("udp {local}"), options.receive_buffer);
        mark_traffic(&socket, local);
        // Setting and resetting a size shows whether the kernel supports the option.
        let gso = options.gso
            && socket::set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 1400).is_ok()
            && socket::set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        let gro = options.gro && socket::set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        if (options.gso, options.gro) != (gso, gro) {
            tracing::warn!(
                "udp {local}: the kernel lacks offloads (GSO available: {gso}, GRO available: {gro})"
            );
        }
        socket::stamp_arrivals(&socket, &format!("udp {local}"));
        if options.reply_from_destination && local.ip().is_unspecified() {
            let (level, option) = if local.is_ipv6() {
                (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
            } else {
                (libc::IPPROTO_IP, libc::IP_PKTINFO)
            };
            socket::set(&socket, level, option, 1)
                .map_err(io(format!("udp {local}: cannot enable packet info")))?;
        }
        Ok(Udp {
            _close_on_fork: CloseOnFork::new(&socket),
            socket,
            local,
            gso,
            gro,
            no_gso_peers: RwLock::default(),
        })
    }

    /// The bound address and port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Enables the control messages with the traffic class of received datagrams. Idempotent. Returns `false` if the
    /// kernel refuses.
    pub(crate) fn read_ecn(&self) -> bool {
        // A dual-stack socket needs both options.
        let v4 = socket::set(&self.socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
        let v6 = match self.local.is_ipv6() {
            true => socket::set(&self.socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1),
            false => Ok(()),
        };
        let refused = v4.and(v6).err();
        if let Some(error) = &refused {
            tracing::warn!(
                "udp {}: cannot read the ECN field, so L4S is off: {error}",
                self.local
            );
        }
        refused.is_none()
    }

    /// Whether batches to `to` use GSO: GSO is available, is permitted on the path, and has not failed for this peer.
    fn uses_gso(&self, to: PathId) -> bool {
        let no_gso_peers = || {
            self.no_gso_peers
                .read()
                .unwrap_or_else(PoisonError::into_inner)
        };
        self.gso && is_segmented(to) && !no_gso_peers().contains(&address_of(to).ip())
    }

    /// Sends to this peer without GSO from now on.
    fn disable_gso(&self, peer: IpAddr) {
        let mut no_gso_peers = self
            .no_gso_peers
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if no_gso_peers.len() == MAX_NO_GSO_PEERS {
            no_gso_peers.remove(0);
        }
        no_gso_peers.push(peer);
    }

    /// The peer's address in this socket's address family.
    fn name_of(&self, to: PathId) -> SocketAddr {
        match address_of(to) {
            SocketAddr::V4(v4) if self.local.is_ipv6() => {
                SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into()
            }
            other => other,
        }
    }

    fn send_segmented(
        &self,
        to: SocketAddr,
        from: SendControl,
        bytes: &[u8],
        segment: usize,
    ) -> io::Result<()> {
        let per_call = MAX_BATCH.min(MAX_SEGMENTED / segment) * segment;
        for (i, part) in bytes.chunks(per_call).enumerate() {
            let rest = &bytes[i * per_call..];
            if part.len() <= segment {
                self.send_unsegmented(to, from, part, segment)?;
                continue;
            }
            let cut = SendControl {
                segment: u16::try_from(segment).ok(),
                ..from
            };
            match socket::send(&self.socket, to, cut, part) {
                // EIO means that the outgoing device cannot compute checksums, so GSO will always fail for this peer.
                // The other errors mean that the segment exceeds the path MTU; sendmmsg may fragment it.
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE)
                    ) =>
                {
                    if error.raw_os_error() == Some(libc::EIO) {
                        tracing::warn!(
                            "segmentation offload to {to} is now disabled, because it failed: {error}"
                        );
                        self.disable_gso(to.ip().to_canonical());
                        return self.send_unsegmented(to, from, rest, segment);
                    }
                    self.send_unsegmented(to, from, part, segment)?;
                }
                other => other?,
            }
        }
        Ok(())
    }

    fn send_unsegmented(
        &self,
        to: SocketAddr,
        from: SendControl,
        bytes: &[u8],
        segment: usize,
    ) -> io::Result<()> {
        if bytes.len() <= segment {
            return socket::send(&self.socket, to, from, bytes);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let sent = socket::send_many(&self.socket, to, from, rest, segment)?;
            rest = rest.get(sent * segment..).unwrap_or_default();
        }
        Ok(())
    }

    fn fill(&self, batch: &mut RecvBatch) -> io::Result<()> {
        let (slot, slots, joined) = if self.gro {
            (JOINED_SLOT, JOINED_SLOTS, MAX_JOINED)
        } else {
            (PLAIN_SLOT, MAX_BATCH, 1)
        };
        batch.clear(slot * slots, slots * joined);
        let mut messages = [EMPTY; MAX_BATCH];
        let room = &mut batch.bytes[..slot * slots];
        let count = match socket::receive_many(&self.socket, room, slot, &mut messages[..slots]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            other => other?,
        };
        let clocks = Clocks::read();
        for (i, message) in messages.iter().take(count).enumerate() {
            cut(message, i * slot, joined, clocks, batch);
        }
        Ok(())
    }
}

/// Splits the message at `start` into the batch's datagrams. Oversize datagrams are dropped.
fn cut(message: &Message, start: usize, most: usize, clocks: Clocks, batch: &mut RecvBatch) {
    // An empty datagram counts as one.
    let segment = message.segment.unwrap_or(message.len).max(1);
    let count = message.len.div_ceil(segment).max(1);
    let Some(from) = message.from else { return };
    if segment > MAX_DATAGRAM || message.truncated || count > most {
        return;
    }
    let arrival = Arrival {
        from: path_between(from, message.to),
        // A GRO message carries the timestamp of its first datagram.
        at: message.stamp.and_then(|stamp| clocks.arrived(stamp)),
        // All its datagrams have the same ECN field, because GRO compares the headers.
        ecn: message.traffic_class.map(Ecn::of_traffic_class),
    };
    let end = start + message.len;
    batch.datagrams.extend((0..count).map(|i| {
        let at = start + i * segment;
        Received {
            arrival,
            range: at..(at + segment).min(end),
        }
    }));
}

impl Transport for Udp {
    fn kind(&self, to: PathId) -> TransportKind {
        if self.uses_gso(to) {
            TransportKind::UdpGso
        } else {
            TransportKind::Udp
        }
    }

    fn send(&self, to: PathId, batch: &[u8], segment: usize, ecn: Ecn) -> Result<(), LinkError> {
        let name = self.name_of(to);
        let from = SendControl {
            from: own_of(to),
            segment: None,
            // Without an ECN field, the socket's class applies. Over IPv4, a class per datagram also replaces the
            // socket's priority (ip(7)), which queueing disciplines with bands, such as pfifo_fast, evaluate.
            traffic_class: (ecn != Ecn::NotEct).then_some(TRAFFIC_CLASS | ecn as u8),
        };
        let outcome = if self.uses_gso(to) {
            self.send_segmented(name, from, batch, segment)
        } else {
            self.send_unsegmented(name, from, batch, segment)
        };
        outcome.map_err(|error| {
            LinkError::of(error, || {
                let (bytes, from) = (batch.len(), self.local);
                format!(
                    "cannot send {bytes} bytes in segments of {segment} from UDP {from} to {name}"
                )
            })
        })
    }

    fn take(&self, batch: &mut RecvBatch) -> Result<(), LinkError> {
        self.fill(batch).map_err(|error| LinkError::Io {
            what: format!("cannot receive on UDP {}", self.local),
            error,
        })
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

const EMPTY: Message = Message {
    from: None,
    to: None,
    len: 0,
    segment: None,
    stamp: None,
    traffic_class: None,
    truncated: false,
};

/// Marks sent datagrams as interactive video. Failures are ignored.
fn mark_traffic(socket: &UdpSocket, local: SocketAddr) {
    let class = i32::from(TRAFFIC_CLASS);
    if local.is_ipv6() {
        let _ = socket::set(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class);
    }
    // On a dual-stack socket, this applies to IPv4. It also sets the priority, which is set again below.
    let _ = socket::set(socket, libc::IPPROTO_IP, libc::IP_TOS, class);
    let _ = socket::set(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, PRIORITY);
}

/// The address to bind instead of `address` after this error: `0.0.0.0` instead of `[::]` if the kernel lacks IPv6.
/// `None` for another address or error.
fn ipv4_instead(address: SocketAddr, error: &io::Error) -> Option<SocketAddr> {
    let all = address.is_ipv6() && address.ip().is_unspecified();
    let lacks_ipv6 = error.raw_os_error() == Some(libc::EAFNOSUPPORT);
    (all && lacks_ipv6).then(|| (Ipv4Addr::UNSPECIFIED, address.port()).into())
}

fn bind_error(address: SocketAddr, error: io::Error) -> LinkError {
    let (ip, port, all) = (address.ip(), address.port(), Ipv4Addr::UNSPECIFIED);
    let other = SocketAddr::new(ip, port.checked_add(10).unwrap_or(1024));
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => Some(format!(
            "port {port} is already in use; stop the program that uses it (`ss -ulpn 'sport = :{port}'` shows the \
             program), or choose another port, such as --bind '{other}'"
        )),
        io::ErrorKind::AddrNotAvailable => Some(format!(
            "{ip} is not an address of this machine; use an address that `ip address` lists, or {all} for all addresses"
        )),
        io::ErrorKind::PermissionDenied => Some(format!(
            "port {port} is privileged; choose a port above 1023"
        )),
        _ => None,
    };
    let kind = error.kind();
    LinkError::Io {
        what: format!("cannot open UDP {address}"),
        error: why.map_or(error, |why| io::Error::new(kind, why)),
    }
}

#[cfg(test)]
mod tests;
