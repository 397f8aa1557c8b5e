//! Hosts nearby: how a host says that it is there, and how they are found, by multicast DNS (RFC 6762) with
//! DNS-based service discovery (RFC 6763).
//!
//! ```text
//! openuvr host, openuvr run ── Announcer ── _openuvr._udp.local. ── search ── openuvr hosts, openuvr client
//! ```
//! What it is not: anybody on the network can answer, with any name and any fingerprint. It says where to
//! look, and never whom to trust: that is the handshake's, which knows the host's whole key.

mod announce;
mod list;
mod search;

pub(crate) use announce::{About, Announcer};
pub(crate) use list::{Args, Chosen, choose, run};

/// The service type: an instance of it is a host (RFC 6763, section 4.1.2).
const SERVICE: &str = "_openuvr._udp.local.";

/// The keys of the TXT record (RFC 6763, section 6.4: at most 9 letters).
mod txt {
    /// The version of these keys, 1 (section 6.7).
    pub(super) const VERSION: &str = "txtvers";
    /// The newest version of the protocol that the host speaks.
    pub(super) const PROTOCOL: &str = "protocol";
    /// The fingerprint of its identity key.
    pub(super) const KEY: &str = "key";
    /// Whether a new device may pair now: [`OPEN`] or [`CLOSED`].
    pub(super) const PAIRING: &str = "pairing";
    pub(super) const OPEN: &str = "open";
    pub(super) const CLOSED: &str = "closed";
}
