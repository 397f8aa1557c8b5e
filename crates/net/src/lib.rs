//! Links: how datagrams get from one machine to the other. One file per transport.
//!
//! What it is not: it knows no packet format and decides nothing about pacing or loss (crate
//! `proto`); it spawns no thread (crate `runtime`).
#![deny(unsafe_code)]

pub mod address;
mod arrival;
pub mod ether;
pub mod ladder;
pub mod neighbour;
pub mod raw;
mod ring;
mod sys;
pub mod udp;
#[cfg(feature = "xdp")]
mod xdp;

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use openuvr_proto::control::ladder::Rung;
use openuvr_proto::id::PathId;
use openuvr_proto::time::Instant;

pub use sys::fork::NotForked;

/// The largest datagram of the protocol in bytes, the same over UDP and raw Ethernet: what an
/// Ethernet frame of 1500 bytes carries behind IPv6 and UDP headers (40 + 8), and room for a
/// tunnel.
pub const MAX_DATAGRAM: usize = 1400;

/// A way for datagrams. `&self` throughout: one thread receives while others send.
pub trait Link: Send + Sync {
    /// What datagrams to `path` go with.
    fn rung(&self, path: PathId) -> Rung;

    /// Sends the datagrams that lie one behind the other in `batch`, each `segment` bytes long
    /// but the last, which may be shorter. Never blocks.
    ///
    /// # Errors
    /// [`LinkError::Full`] if the send buffer took only some of it or nothing: the rest is lost.
    fn send(&self, to: PathId, batch: &[u8], segment: usize) -> Result<(), LinkError>;

    /// Waits until datagrams are there, at most `timeout` (`None`: without end), and fills
    /// `batch` with what arrived. An empty batch means that the time is over or that
    /// [`Link::wake`] was called.
    ///
    /// # Errors
    /// [`LinkError::Io`] if the transport itself failed. A datagram that was refused by the peer's
    /// machine (ICMP port unreachable) is not an error.
    fn recv(&self, batch: &mut RecvBatch, timeout: Option<Duration>) -> Result<(), LinkError>;

    /// Makes a [`Link::recv`] that waits in another thread return at once; if none waits, the next
    /// one that would wait. Several calls before that count as one.
    fn wake(&self);

    /// The address and port that peers reach this link at, where the transport has one.
    fn local_addr(&self) -> Option<SocketAddr> {
        None
    }
}

/// One transport of a [`ladder::Ladder`], which checks what comes from outside and waits.
trait Transport: Send + Sync {
    fn rung(&self, to: PathId) -> Rung;

    /// As [`Link::send`]; `segment` is within 1–[`MAX_DATAGRAM`], and `batch` not empty.
    fn send(&self, to: PathId, batch: &[u8], segment: usize) -> Result<(), LinkError>;

    /// Fills `batch` with what is there, without waiting.
    fn take(&self, batch: &mut RecvBatch) -> Result<(), LinkError>;

    /// What has something to read when datagrams are there.
    fn readable(&self) -> BorrowedFd<'_>;
}

/// A transport that can be asked for by its name.
#[derive(Debug, Clone, Copy)]
pub struct LinkKind {
    /// Its name is what options and logs say.
    pub rung: Rung,
    /// One line on what it is and needs, for listings.
    pub about: &'static str,
}

/// The transports, best first: the order in which a session tries them.
pub const LINKS: &[LinkKind] = &[
    LinkKind {
        rung: Rung::UdpGso,
        about: "UDP, batches cut and joined by the kernel (Linux 5.0); needs no privilege",
    },
    LinkKind {
        rung: Rung::Raw,
        about: "raw Ethernet without IP (OpenUVRDPP); needs CAP_NET_RAW and one segment",
    },
    LinkKind {
        rung: Rung::Ring,
        about: "raw Ethernet through rings that are mapped into this process; never by itself",
    },
    LinkKind {
        rung: Rung::Xdp,
        about: "raw Ethernet through AF_XDP, if built in; needs CAP_NET_ADMIN and CAP_BPF as well",
    },
    LinkKind {
        rung: Rung::Udp,
        about: "UDP, one datagram at a time; needs no privilege",
    },
];

/// What one [`Link::recv`] brought: storage that is reused from call to call. The first call
/// allocates it (about 1 MiB, touched only as far as datagrams fill it), later calls do not.
#[derive(Debug, Default)]
pub struct RecvBatch {
    bytes: Vec<u8>,
    datagrams: Vec<Received>,
}

/// One datagram of a batch.
#[derive(Debug)]
struct Received {
    from: PathId,
    /// When it came in, if the kernel says so.
    arrived: Option<Instant>,
    range: std::ops::Range<usize>,
}

impl RecvBatch {
    /// The datagrams in the order of their arrival.
    pub fn iter(&self) -> impl Iterator<Item = (PathId, &[u8])> {
        self.with_arrivals().map(|(from, _, bytes)| (from, bytes))
    }

    /// The same, and when each came in, by the kernel's stamp on the monotonic clock; `None` where the
    /// transport has no stamps (AF_XDP in copy mode) or the wall clock was set meanwhile. A thread that
    /// reads late reads what came in time.
    pub fn with_arrivals(&self) -> impl Iterator<Item = (PathId, Option<Instant>, &[u8])> {
        self.datagrams.iter().map(|datagram| {
            let bytes = &self.bytes[datagram.range.clone()];
            (datagram.from, datagram.arrived, bytes)
        })
    }

    /// Whether nothing arrived.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Forgets the datagrams and makes room for `bytes` bytes and `datagrams` datagrams; both only
    /// ever grow.
    fn clear(&mut self, bytes: usize, datagrams: usize) {
        self.datagrams.clear();
        self.datagrams.reserve(datagrams);
        if self.bytes.len() < bytes {
            // A fresh zeroed vector instead of `resize`: the pages stay untouched until used.
            self.bytes = vec![0; bytes];
        }
    }
}

/// Why a link did not do what it was asked to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The send buffer is full; what did not fit is lost.
    #[error("the link's send buffer is full")]
    Full,
    /// The operating system's word.
    #[error("{what}: {error}")]
    Io {
        /// What was tried, on what.
        what: String,
        /// The operating system's error.
        error: io::Error,
    },
    /// A privilege is missing.
    #[error("{0}")]
    NotAllowed(String),
    /// There is nothing that could carry a datagram there.
    #[error("this link does not reach that path")]
    NoWay,
}

impl LinkError {
    /// What a failed send means; `what` was tried.
    fn of(error: io::Error, what: impl FnOnce() -> String) -> LinkError {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => LinkError::Full,
            _ => LinkError::Io {
                what: what(),
                error,
            },
        }
    }
}
