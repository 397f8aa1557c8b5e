//! UDP over IPv4 and IPv6: the first rung of the link ladder.
//!
//! A batch of datagrams goes to the kernel in one call, as one large datagram that is cut late
//! (generic segmentation offload, `UDP_SEGMENT` of udp(7), Linux 4.18), or with sendmmsg(2) where
//! that is refused. On the way in the kernel joins what arrives together (`UDP_GRO`, Linux 5.0)
//! and this file cuts it again. Measured, a 140 kB frame costs 0.17 ms that way and 0.7 ms with
//! sendmmsg: per-packet work and wake-ups are what counts, not system calls or copies.
//!
//! What it is not: it does not pace, resend, or remember peers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use openuvr_proto::id::PathId;

use crate::address::{address_of, path_of};
use crate::sys::event::{self, Event};
use crate::sys::socket::{self, MAX_BATCH, Message};
use crate::{Link, LinkError, MAX_DATAGRAM, RecvBatch};

/// How to open a [`Udp`] link.
#[derive(Debug, Clone)]
pub struct Options {
    /// Let the kernel cut batches on the way out, if it can.
    pub gso: bool,
    /// Let the kernel join datagrams on the way in, if it can.
    pub gro: bool,
    /// Bytes of receive buffer to ask for. The system's default (208 KiB, about 90 packets by its
    /// own accounting) lost 48 of 59 key frames of 140 kB on a loss-free link, 4 MiB lost none.
    pub receive_buffer: u32,
    /// Bytes of send buffer to ask for: a batch that does not fit is lost, so several key frames.
    pub send_buffer: u32,
}

impl Options {
    /// Without offloads.
    pub const PLAIN: Options = Options {
        gso: false,
        gro: false,
        receive_buffer: 4 << 20,
        send_buffer: 2 << 20,
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
    socket: UdpSocket,
    local: SocketAddr,
    woken: Event,
    /// Cleared for good when the path turns out not to support it.
    gso: AtomicBool,
    gro: bool,
    oversize: AtomicU64,
}

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
        let io = |what: String| move |source| LinkError::Io { what, source };
        let socket = socket::bind(address).map_err(|error| bind_error(address, error))?;
        let local = socket.local_addr().map_err(io(format!(
            "cannot read the local address of UDP {address}"
        )))?;
        let woken = Event::new().map_err(io("cannot create an eventfd".into()))?;

        enlarge_buffers(&socket, local, options);
        mark_traffic(&socket, local);
        // Setting a size and taking it back tells whether the kernel knows the option.
        let gso = options.gso
            && socket::set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 1400).is_ok()
            && socket::set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        let gro = options.gro && socket::set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        if (options.gso, options.gro) != (gso, gro) {
            tracing::warn!("udp {local}: no offload in this kernel (send {gso}, receive {gro})");
        }
        Ok(Udp {
            socket,
            local,
            woken,
            gso: AtomicBool::new(gso),
            gro,
            oversize: AtomicU64::new(0),
        })
    }

    /// The address and port it is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// How many received datagrams were thrown away because they were longer than
    /// [`MAX_DATAGRAM`]. Of what the kernel joined, each datagram counts.
    #[must_use]
    pub fn oversize(&self) -> u64 {
        self.oversize.load(Ordering::Relaxed)
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

    fn send_segmented(&self, to: SocketAddr, bytes: &[u8], segment: usize) -> io::Result<()> {
        let per_call = MAX_BATCH.min(MAX_SEGMENTED / segment) * segment;
        for part in bytes.chunks(per_call) {
            if part.len() <= segment || !self.gso.load(Ordering::Relaxed) {
                self.send_plainly(to, part, segment)?;
                continue;
            }
            let cut = u16::try_from(segment).unwrap_or(u16::MAX);
            match unless_refused(|| socket::send_segmented(&self.socket, to, part, cut)) {
                // EIO: a device on the way cannot compute checksums, so it never will. The others:
                // the segment is above the path's MTU, and sendmmsg may fragment it.
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE)
                    ) =>
                {
                    if error.raw_os_error() == Some(libc::EIO) {
                        tracing::warn!("udp {}: no segmentation offload: {error}", self.local);
                        self.gso.store(false, Ordering::Relaxed);
                    }
                    self.send_plainly(to, part, segment)?;
                }
                other => other?,
            }
        }
        Ok(())
    }

    fn send_plainly(&self, to: SocketAddr, bytes: &[u8], segment: usize) -> io::Result<()> {
        if bytes.len() <= segment {
            return unless_refused(|| socket::send_one(&self.socket, to, bytes));
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let sent = unless_refused(|| socket::send_many(&self.socket, to, rest, segment))?;
            rest = rest.get(sent * segment..).unwrap_or_default();
        }
        Ok(())
    }

    /// Fills `batch` with what is there, without waiting.
    fn take(&self, batch: &mut RecvBatch) -> io::Result<()> {
        let (slot, slots, joined) = if self.gro {
            (JOINED_SLOT, JOINED_SLOTS, MAX_JOINED)
        } else {
            (PLAIN_SLOT, MAX_BATCH, 1)
        };
        batch.clear(slot * slots, slots * joined);
        let mut messages = [EMPTY; MAX_BATCH];
        let room = &mut batch.bytes[..slot * slots];
        let count = match socket::receive_many(&self.socket, room, slot, &mut messages[..slots]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock || is_echo(&error) => 0,
            other => other?,
        };
        for (i, message) in messages.iter().take(count).enumerate() {
            self.cut(message, i * slot, joined, batch);
        }
        Ok(())
    }

    /// Enters the datagrams of one message, which lies at `start`, into the batch.
    fn cut(&self, message: &Message, start: usize, most: usize, batch: &mut RecvBatch) {
        // An empty datagram is one datagram, too.
        let segment = message.segment.unwrap_or(message.len).max(1);
        let count = message.len.div_ceil(segment).max(1);
        let Some(from) = message.from else { return };
        if segment > MAX_DATAGRAM || message.truncated || count > most {
            self.oversize.fetch_add(count as u64, Ordering::Relaxed);
            return;
        }
        let from = path_of(from);
        let end = start + message.len;
        batch.datagrams.extend((0..count).map(|i| {
            let at = start + i * segment;
            (from, at..(at + segment).min(end))
        }));
    }
}

impl Link for Udp {
    fn name(&self) -> &'static str {
        if self.gso.load(Ordering::Relaxed) {
            "udp-gso"
        } else {
            "udp"
        }
    }

    fn send(&self, to: PathId, batch: &[u8], segment: usize) -> Result<(), LinkError> {
        if batch.is_empty() {
            return Ok(());
        }
        let segment = segment.min(batch.len());
        let name = self.name_of(to);
        let outcome = if segment == 0 || segment > MAX_DATAGRAM {
            Err(io::Error::from_raw_os_error(libc::EMSGSIZE))
        } else {
            self.send_segmented(name, batch, segment)
        };
        outcome.map_err(|source| match source.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => LinkError::Full,
            _ => LinkError::Io {
                what: format!(
                    "cannot send {} bytes in segments of {segment} from UDP {} to {name}",
                    batch.len(),
                    self.local
                ),
                source,
            },
        })
    }

    fn recv(&self, batch: &mut RecvBatch, timeout: Option<Duration>) -> Result<(), LinkError> {
        let failed = |source| LinkError::Io {
            what: format!("cannot receive on UDP {}", self.local),
            source,
        };
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            self.take(batch).map_err(failed)?;
            if !batch.is_empty() {
                return Ok(());
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO)
                || event::wait(self.socket.as_fd(), &self.woken, left).map_err(failed)?
            {
                return Ok(());
            }
        }
    }

    fn wake(&self) {
        self.woken.raise();
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        Some(self.local)
    }
}

const EMPTY: Message = Message {
    from: None,
    len: 0,
    segment: None,
    truncated: false,
};

/// Whether the error reports an earlier datagram that was refused on its way (ICMP), and says
/// nothing about this call. The kernel reports each once.
fn is_echo(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ECONNREFUSED | libc::ECONNRESET | libc::EINTR)
    )
}

/// Does the call again if it only reported an earlier datagram; if that happens twice, the peer
/// is not listening, and this datagram is as lost as the one before.
fn unless_refused<T: Default>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match call() {
        Err(error) if is_echo(&error) => call(),
        other => other,
    }
}

/// Asks for the buffers of the options, beyond the system's limit if we may, and warns if the
/// receive buffer came out smaller.
fn enlarge_buffers(socket: &UdpSocket, local: SocketAddr, options: &Options) {
    let granted = |force, plain, bytes: u32| {
        let want = i32::try_from(bytes).unwrap_or(i32::MAX / 2);
        if socket::set(socket, libc::SOL_SOCKET, force, want).is_err() {
            // Never fails: the kernel takes as much as it allows.
            let _ = socket::set(socket, libc::SOL_SOCKET, plain, want);
        }
        // The kernel doubles the figure for its own accounting (socket(7)).
        socket::read(socket, libc::SOL_SOCKET, plain).map_or(0, |got| got / 2)
    };
    granted(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, options.send_buffer);
    let want = options.receive_buffer;
    let got = granted(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, want);
    if i64::from(got) < i64::from(want) {
        tracing::warn!(
            "udp {local}: receive buffer of {got} bytes instead of {want}: bursts may be lost; \
             raise the limit with `sysctl -w net.core.rmem_max={want}`"
        );
    }
}

/// Marks what we send as interactive video. A system that refuses carries it all the same.
fn mark_traffic(socket: &UdpSocket, local: SocketAddr) {
    if local.is_ipv6() {
        let _ = socket::set(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, TRAFFIC_CLASS);
    }
    // On a dual-stack socket this is for its IPv4 half. It sets the priority, too: so that is next.
    let _ = socket::set(socket, libc::IPPROTO_IP, libc::IP_TOS, TRAFFIC_CLASS);
    let _ = socket::set(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, PRIORITY);
}

fn bind_error(address: SocketAddr, source: io::Error) -> LinkError {
    let port = address.port();
    let what = match source.kind() {
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
    LinkError::Io { what, source }
}

#[cfg(test)]
mod tests;
