//! UDP over IPv4 and IPv6: the first rung of the link ladder.
//!
//! A batch of datagrams goes to the kernel in one call, as one large datagram that is cut late
//! (generic segmentation offload, `UDP_SEGMENT` of udp(7), Linux 4.18), or with sendmmsg(2) where
//! that is refused. On the way in the kernel joins what arrives together (`UDP_GRO`, Linux 5.0)
//! and this file cuts it again. Measured, a 140 kB frame costs 0.17 ms that way and 0.7 ms with
//! sendmmsg: per-packet work and wake-ups are what counts, not system calls or copies.
//!
//! A socket for all addresses of a machine answers from the one that a datagram was sent to
//! (`IP_PKTINFO`, `IPV6_PKTINFO`): it is a part of the path.
//!
//! What it is not: it does not pace, resend, or remember peers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{PoisonError, RwLock};

use openuvr_proto::control::ladder::Rung;
use openuvr_proto::id::PathId;

use crate::address::{address_of, is_segmented, own_of, path_between};
use crate::arrival::Clocks;
use crate::sys::fork::NotForked;
use crate::sys::message::Wishes;
use crate::sys::socket::{self, MAX_BATCH, Message};
use crate::{LinkError, MAX_DATAGRAM, Received, RecvBatch, Transport};

/// How to open a [`Udp`] link.
#[derive(Debug, Clone)]
pub struct Options {
    /// Let the kernel cut batches on the way out, if it can.
    pub gso: bool,
    /// Let the kernel join datagrams on the way in, if it can.
    pub gro: bool,
    /// Bytes of receive buffer to ask for.
    pub receive_buffer: u32,
    /// Bytes of send buffer to ask for.
    pub send_buffer: u32,
    /// Answer from the address that a datagram was sent to: for a link that others dial.
    pub dialled: bool,
}

impl Options {
    /// Without offloads.
    pub const PLAIN: Options = Options {
        gso: false,
        gro: false,
        receive_buffer: socket::RECEIVE_BUFFER,
        send_buffer: socket::SEND_BUFFER,
        dialled: false,
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

/// A bound UDP socket. Any number of threads may send; one should receive, as two would share
/// the datagrams between them.
#[derive(Debug)]
pub struct Udp {
    /// Before the socket, so that it goes first.
    _not_forked: NotForked,
    socket: UdpSocket,
    local: SocketAddr,
    gso: bool,
    gro: bool,
    /// Peers on whose way the kernel turned out not to cut; the last [`MOST_UNCUT`].
    uncut: RwLock<Vec<IpAddr>>,
}

/// More peers than a host serves (guess); one that is forgotten is found out again.
const MOST_UNCUT: usize = 64;

/// Class selector 5 (RFC 2474): Wi-Fi access points and drivers put it into the video access
/// category, both by the old rule (upper three bits: user priority 5) and by RFC 8325. Expedited
/// forwarding would be voice under RFC 8325, whose transmit opportunities are too short for a
/// burst of a frame's datagrams. In the place of the former TOS byte: 40 << 2.
const TRAFFIC_CLASS: i32 = 40 << 2;

/// `TC_PRIO_INTERACTIVE` (linux/pkt_sched.h): the first band of the default queue, and the highest
/// that needs no privilege.
const PRIORITY: i32 = 6;

/// The most bytes of one segmented send: the largest IPv4 payload, 65 535 - 20 - 8.
const MAX_SEGMENTED: usize = 65_507;

/// A message that the kernel joined fits into this: the largest IP packet.
const JOINED_SLOT: usize = 65_536;
/// Joined messages taken in one call: 1 MiB of room.
const JOINED_SLOTS: usize = 16;
/// The most datagrams in a joined message: `UDP_GRO_CNT_MAX` is 64, and a batch that never left
/// this machine holds up to `UDP_MAX_SEGMENTS`, 128.
const MAX_JOINED: usize = 128;
/// Room for one datagram that was not joined; anything longer than a datagram shows.
const PLAIN_SLOT: usize = 1536;

impl Udp {
    /// Opens a link at `address`; port 0 lets the system choose, and `[::]` takes IPv4 as well.
    ///
    /// # Errors
    /// [`LinkError::Io`] if the address is not of this machine or the port is taken; the message
    /// says which, and what to do.
    pub fn bind(address: SocketAddr, options: &Options) -> Result<Udp, LinkError> {
        let io = |what: String| move |error| LinkError::Io { what, error };
        let socket = socket::bind(address).map_err(|error| bind_error(address, error))?;
        let local = socket.local_addr().map_err(io(format!(
            "cannot read the local address of UDP {address}"
        )))?;

        socket::enlarge_send_buffer(&socket, options.send_buffer);
        socket::enlarge_receive_buffer(&socket, &format!("udp {local}"), options.receive_buffer);
        mark_traffic(&socket, local);
        // Setting a size and taking it back tells whether the kernel knows the option.
        let gso = options.gso
            && socket::set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 1400).is_ok()
            && socket::set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        let gro = options.gro && socket::set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        if (options.gso, options.gro) != (gso, gro) {
            tracing::warn!("udp {local}: no offload in this kernel (send {gso}, receive {gro})");
        }
        socket::stamp_arrivals(&socket, &format!("udp {local}"));
        if options.dialled && local.ip().is_unspecified() {
            let (level, option) = if local.is_ipv6() {
                (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
            } else {
                (libc::IPPROTO_IP, libc::IP_PKTINFO)
            };
            socket::set(&socket, level, option, 1)
                .map_err(io(format!("udp {local}: cannot tell its addresses apart")))?;
        }
        Ok(Udp {
            _not_forked: NotForked::new(&socket),
            socket,
            local,
            gso,
            gro,
            uncut: RwLock::default(),
        })
    }

    /// The address and port it is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Whether the kernel cuts batches that go there, as far as is known.
    fn cuts(&self, to: PathId) -> bool {
        let uncut = || self.uncut.read().unwrap_or_else(PoisonError::into_inner);
        self.gso && is_segmented(to) && !uncut().contains(&address_of(to).ip())
    }

    /// It does not, on the way to this peer.
    fn note_uncut(&self, peer: IpAddr) {
        let mut uncut = self.uncut.write().unwrap_or_else(PoisonError::into_inner);
        if uncut.len() == MOST_UNCUT {
            uncut.remove(0);
        }
        uncut.push(peer);
    }

    /// The peer's address in the form that this socket's family wants.
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
        from: Wishes,
        bytes: &[u8],
        segment: usize,
    ) -> io::Result<()> {
        let per_call = MAX_BATCH.min(MAX_SEGMENTED / segment) * segment;
        for (i, part) in bytes.chunks(per_call).enumerate() {
            let rest = &bytes[i * per_call..];
            if part.len() <= segment {
                self.send_plainly(to, from, part, segment)?;
                continue;
            }
            let cut = Wishes {
                segment: u16::try_from(segment).ok(),
                ..from
            };
            match socket::send(&self.socket, to, cut, part) {
                // EIO: a device on the way cannot compute checksums, so it never will; ways to other
                // peers may have another. The others: the segment is above the path's MTU, and
                // sendmmsg may fragment it.
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE)
                    ) =>
                {
                    if error.raw_os_error() == Some(libc::EIO) {
                        tracing::warn!("no segmentation offload on the way to {to}: {error}");
                        self.note_uncut(to.ip().to_canonical());
                        return self.send_plainly(to, from, rest, segment);
                    }
                    self.send_plainly(to, from, part, segment)?;
                }
                other => other?,
            }
        }
        Ok(())
    }

    fn send_plainly(
        &self,
        to: SocketAddr,
        from: Wishes,
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

/// Enters the datagrams of one message, which lies at `start`, into the batch. What is longer than a
/// datagram is nobody's.
fn cut(message: &Message, start: usize, most: usize, clocks: Clocks, batch: &mut RecvBatch) {
    // An empty datagram is one datagram, too.
    let segment = message.segment.unwrap_or(message.len).max(1);
    let count = message.len.div_ceil(segment).max(1);
    let Some(from) = message.from else { return };
    if segment > MAX_DATAGRAM || message.truncated || count > most {
        return;
    }
    let from = path_between(from, message.to);
    // What the kernel joined bears the stamp of its first datagram.
    let arrived = message.stamp.and_then(|stamp| clocks.arrived(stamp));
    let end = start + message.len;
    batch.datagrams.extend((0..count).map(|i| {
        let at = start + i * segment;
        Received {
            from,
            arrived,
            range: at..(at + segment).min(end),
        }
    }));
}

impl Transport for Udp {
    fn rung(&self, to: PathId) -> Rung {
        if self.cuts(to) {
            Rung::UdpGso
        } else {
            Rung::Udp
        }
    }

    fn send(&self, to: PathId, batch: &[u8], segment: usize) -> Result<(), LinkError> {
        let name = self.name_of(to);
        let from = Wishes {
            from: own_of(to),
            segment: None,
        };
        let outcome = if self.cuts(to) {
            self.send_segmented(name, from, batch, segment)
        } else {
            self.send_plainly(name, from, batch, segment)
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
    truncated: false,
};

/// Marks what we send as interactive video. A system that refuses carries it all the same.
fn mark_traffic(socket: &UdpSocket, local: SocketAddr) {
    if local.is_ipv6() {
        let _ = socket::set(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, TRAFFIC_CLASS);
    }
    // On a dual-stack socket this is for its IPv4 half. It sets the priority, too: so that is next.
    let _ = socket::set(socket, libc::IPPROTO_IP, libc::IP_TOS, TRAFFIC_CLASS);
    let _ = socket::set(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, PRIORITY);
}

fn bind_error(address: SocketAddr, error: io::Error) -> LinkError {
    let port = address.port();
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "cannot open UDP {address}: another program uses port {port}; stop it (`ss -ulpn \
             'sport = :{port}'` names it) or choose another port"
        ),
        io::ErrorKind::AddrNotAvailable => format!(
            "cannot open UDP {address}: this machine has no address {}; use one that `ip address` \
             lists, or {} for all",
            address.ip(),
            Ipv4Addr::UNSPECIFIED
        ),
        io::ErrorKind::PermissionDenied => format!(
            "cannot open UDP {address}: port {port} needs a privilege; choose one above 1023"
        ),
        _ => format!("cannot open UDP {address}"),
    };
    LinkError::Io { what, error }
}

#[cfg(test)]
mod tests;
