//! Discovery of hosts on the local network, through multicast DNS (RFC 6762) with DNS-based service discovery (RFC 6763).
//!
//! ```text
//! openuvr host, openuvr run ── Announcer ── _openuvr._udp.local. ── search ── openuvr hosts, openuvr client
//!            --moonlight ── MoonlightAnnouncement ── _nvstream._tcp.local. ── Moonlight
//! ```
//! Answers are not authenticated: any machine on the network can claim any name and any fingerprint. Answers only
//! supply addresses; the handshake authenticates the host by its complete key.

#![forbid(unsafe_code)]

// The macros `print!`, `println!` and `eprintln!` of this crate replace those of the standard library.
#[macro_use]
extern crate openuvr_terminal;

mod announce;
mod list;
mod moonlight;
mod search;

pub use announce::{Announcer, HostInfo};
pub use list::{Args, SelectedHost, run, search_again, select};
pub use moonlight::MoonlightAnnouncement;

/// The service type. Each instance is a host (RFC 6763, section 4.1.2).
const SERVICE: &str = "_openuvr._udp.local.";

/// The keys of the TXT record (RFC 6763, section 6.4: at most 9 letters).
mod txt {
    /// The version of this set of keys, which is always 1 (RFC 6763, section 6.7).
    pub(super) const VERSION: &str = "txtvers";
    /// The newest protocol version of the host.
    pub(super) const PROTOCOL: &str = "protocol";
    /// The fingerprint of the host's identity key.
    pub(super) const KEY: &str = "key";
    /// The pairing state: [`OPEN`] or [`CLOSED`].
    pub(super) const PAIRING: &str = "pairing";
    pub(super) const OPEN: &str = "open";
    pub(super) const CLOSED: &str = "closed";
}
