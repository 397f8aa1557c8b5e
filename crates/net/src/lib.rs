//! Links: how datagrams get from one machine to the other. One file per transport.
#![deny(unsafe_code)]

use std::time::Duration;

use openuvr_proto::id::PathId;

/// The largest datagram of the protocol in bytes, the same over UDP and raw Ethernet: what an
/// Ethernet frame of 1500 bytes carries behind IPv6 and UDP headers (40 + 8), and room for a
/// tunnel.
pub const MAX_DATAGRAM: usize = 1400;

/// A way for datagrams. `&self` throughout: one thread receives while others send.
pub trait Link: Send + Sync {
    /// The transport's short name, for logs: `udp`, `udp-gso`, …
    fn name(&self) -> &'static str;

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

    /// Makes a [`Link::recv`] that waits in another thread return at once.
    fn wake(&self);
}

/// What one [`Link::recv`] brought: storage that is reused from call to call.
#[derive(Debug, Default)]
pub struct RecvBatch {
    bytes: Vec<u8>,
    datagrams: Vec<(PathId, std::ops::Range<usize>)>,
}

impl RecvBatch {
    /// The datagrams in the order of their arrival.
    pub fn iter(&self) -> impl Iterator<Item = (PathId, &[u8])> {
        self.datagrams
            .iter()
            .map(|(from, range)| (*from, &self.bytes[range.clone()]))
    }

    /// Whether nothing arrived.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
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
    #[error("{what}: {source}")]
    Io {
        /// What was tried, on what.
        what: String,
        /// The operating system's error.
        source: std::io::Error,
    },
}
