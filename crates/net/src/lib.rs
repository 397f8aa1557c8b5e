//! Links: the transports of datagrams between machines, with one file per transport.
//!
//! Packet formats, pacing and loss recovery belong to the crate `proto`, and threads to the crate `runtime`.
#![deny(unsafe_code)]

pub mod address;
mod arrival;
pub mod ether;
pub mod neighbour;
pub mod raw;
mod ring;
mod sys;
pub mod transport_selection;
pub mod udp;
#[cfg(feature = "xdp")]
mod xdp;

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::ecn::Ecn;
use openuvr_proto::id::PathId;

pub use arrival::Arrival;
pub use sys::fork::CloseOnFork;

/// Maximum size of the protocol's datagrams in bytes, the same over UDP and raw Ethernet: an MTU of 1500 bytes minus the
/// IPv6 and UDP headers (40 + 8) and a reserve for a tunnel.
pub const MAX_DATAGRAM: usize = 1400;

/// Sends and receives datagrams. All methods take `&self`, so that one thread can receive while others send.
pub trait Link: Send + Sync {
    /// The transport of datagrams to `path`.
    fn transport(&self, path: PathId) -> TransportKind;

    /// Sends the contiguous datagrams in `batch`, which have `segment` bytes each; the last may be shorter. Never blocks.
    ///
    /// # Errors
    /// [`LinkError::Full`] if the send buffer took only a part of the batch; the rest is lost.
    /// [`LinkError::Unreachable`] if no transport reaches the path, or [`LinkError::Io`] if `segment` is invalid or the
    /// kernel refused the batch.
    fn send(&self, to: PathId, batch: &[u8], segment: usize) -> Result<(), LinkError>;

    /// Sends like [`Link::send`], with this ECN field in the IP header. Transports without IP ignore the field.
    ///
    /// # Errors
    /// The errors of [`Link::send`].
    fn send_marked(
        &self,
        to: PathId,
        batch: &[u8],
        segment: usize,
        ecn: Ecn,
    ) -> Result<(), LinkError> {
        let _ = ecn;
        self.send(to, batch, segment)
    }

    /// Enables the reading of the ECN field of each datagram that arrives over IP ([`Arrival::ecn`]). Returns whether
    /// the link supports it. Idempotent.
    fn read_ecn(&self) -> bool {
        false
    }

    /// Waits for datagrams for `timeout` at most (`None`: indefinitely), and fills `batch` with them. An empty batch means a
    /// timeout or a [`Link::wake`].
    ///
    /// # Errors
    /// [`LinkError::Io`] if the transport itself failed. ICMP port unreachable is not an error.
    fn recv(&self, batch: &mut RecvBatch, timeout: Option<Duration>) -> Result<(), LinkError>;

    /// Makes a blocked [`Link::recv`] of another thread return at once. If no call is blocked, the next call that would
    /// block returns at once instead. Repeated wakes before that count as one.
    fn wake(&self);

    /// The local address and port, if the transport has one.
    fn local_addr(&self) -> Option<SocketAddr> {
        None
    }
}

/// One transport of a [`transport_selection::TransportSelector`]. The selector validates the arguments and waits for
/// datagrams.
trait Transport: Send + Sync {
    fn kind(&self, to: PathId) -> TransportKind;

    /// As [`Link::send_marked`]. `segment` is within 1–[`MAX_DATAGRAM`], and `batch` is not empty.
    fn send(&self, to: PathId, batch: &[u8], segment: usize, ecn: Ecn) -> Result<(), LinkError>;

    /// Fills `batch` with the pending datagrams, without waiting.
    fn take(&self, batch: &mut RecvBatch) -> Result<(), LinkError>;

    /// The descriptor that is readable while datagrams are pending.
    fn readable(&self) -> BorrowedFd<'_>;
}

/// A transport that can be selected by name.
#[derive(Debug, Clone, Copy)]
pub struct LinkKind {
    /// Its name, which appears in options and logs.
    pub transport: TransportKind,
    /// One line for listings: description and requirements.
    pub about: &'static str,
}

/// The transports, in order of preference. Without a forced transport, a session tries only UDP with GSO, raw Ethernet
/// and plain UDP.
pub const LINKS: &[LinkKind] = &[
    LinkKind {
        transport: TransportKind::UdpGso,
        about: "UDP with segmentation offload (GSO, GRO; Linux 5.0 or newer); unprivileged",
    },
    LinkKind {
        transport: TransportKind::Raw,
        about: "raw Ethernet without IP (OpenUVRDPP); needs CAP_NET_RAW and a common network segment",
    },
    LinkKind {
        transport: TransportKind::Ring,
        about: "raw Ethernet through memory-mapped rings (PACKET_MMAP); never chosen automatically",
    },
    LinkKind {
        transport: TransportKind::Xdp,
        about: "raw Ethernet through AF_XDP, if built in; needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF; never chosen \
                automatically",
    },
    LinkKind {
        transport: TransportKind::Udp,
        about: "UDP without segmentation offload; unprivileged",
    },
];

/// The datagrams of one [`Link::recv`]. Calls with the same batch reuse its storage: the first call allocates it (about
/// 1 MiB, of which only the used pages become resident), and later calls do not allocate.
#[derive(Debug, Default)]
pub struct RecvBatch {
    bytes: Vec<u8>,
    datagrams: Vec<Received>,
}

/// One datagram of a batch.
#[derive(Debug)]
struct Received {
    arrival: Arrival,
    range: std::ops::Range<usize>,
}

impl RecvBatch {
    /// The datagrams in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = (PathId, &[u8])> {
        self.with_arrivals()
            .map(|(arrival, bytes)| (arrival.from, bytes))
    }

    /// The datagrams with their arrivals.
    pub fn with_arrivals(&self) -> impl Iterator<Item = (Arrival, &[u8])> {
        self.datagrams.iter().map(|datagram| {
            let bytes = &self.bytes[datagram.range.clone()];
            (datagram.arrival, bytes)
        })
    }

    /// Whether there are no datagrams.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Removes the datagrams and ensures a capacity of `bytes` bytes and `datagrams` datagrams.
    /// Capacities never shrink.
    fn clear(&mut self, bytes: usize, datagrams: usize) {
        self.datagrams.clear();
        self.datagrams.reserve(datagrams);
        if self.bytes.len() < bytes {
            // A new zeroed vector is used instead of `resize`, because its pages stay untouched until they are needed.
            self.bytes = vec![0; bytes];
        }
    }
}

/// Why a link operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The send buffer is full. Datagrams that did not fit are lost.
    #[error("the link's send buffer is full")]
    Full,
    /// A system call failed.
    #[error("{what}: {error}")]
    Io {
        /// The failed operation and its object.
        what: String,
        /// The operating system's error.
        error: io::Error,
    },
    /// The transport is unavailable. The text gives the reason and a remedy.
    #[error("{0}")]
    Unavailable(String),
    /// No transport reaches the path.
    #[error("this link cannot reach that address")]
    Unreachable,
}

impl LinkError {
    /// Converts the error of a failed send. `what` is the operation.
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
