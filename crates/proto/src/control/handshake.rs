//! Pairing and reconnection: who is there, and a fresh secret for this session.
//!
//! Two state machines, [`ClientHandshake`] and [`HostHandshake`], exchange six datagrams. A first
//! meeting is a *pairing*: SPAKE2 over a PIN gives the pre-shared key of a Noise XXpsk3 handshake,
//! which shows each side the other's identity key. Every later meeting is a *reconnection*: Noise
//! KK between the identities that both sides stored. Where a portal has told the client the host's key and
//! signed it a ticket ([`super::ticket`]), the first meeting is Noise IK: the ticket travels in the first
//! message, sealed for the host's key, and is judged when the client has proven its own.
//!
//! ```text
//!  client                                                     host
//!    | Hello      versions, nonce, padding                      |
//!    |--------------------------------------------------------->|  one HMAC, nothing stored
//!    |                        Challenge  versions, cookie       |
//!    |<---------------------------------------------------------|
//!    | Begin      cookie, [client id], [SPAKE2 a],              |
//!    |            Noise 1 { [name, ticket] }, [tag]             |
//!    |--------------------------------------------------------->|  half open: at most 64 of each
//!    |                                                          |  kind, 5 s
//!    |           Answer  Noise 2 { session, key, [SPAKE2 b] }   |
//!    |<---------------------------------------------------------|
//!    | Finish     [Noise 3 { name }], tag under `key`           |
//!    |--------------------------------------------------------->|  established
//!    |                        Confirm  tag under the new secret |
//!    |<---------------------------------------------------------|
//!  established
//! ```
//!
//! [`Established`] at the host means that the client proved its identity (and at pairing the
//! PIN); at the client it means that the host did so *and* accepted. Either may instead get
//! Refused, which says why. What travels in the clear (Hello, Challenge, Begin's head) is bound
//! into Noise's prologue, so changing it ends the handshake instead of weakening it.
//!
//! Before it works for a Begin, the host looks whether it may. A reconnection has to be tagged under
//! the secret that the two long-term keys agree on, which costs one HMAC: whoever lacks the client's
//! key takes nothing of what is kept for the client, from however many addresses. A ticket has to be
//! tagged under the host's own key, which a stranger does not know. A pairing can't be told from another one,
//! nor one ticket from another: networks share what the host does for each of the two.
//!
//! What it is not: it keeps no keys (crate `runtime`), negotiates nothing about media, and seals
//! nothing afterwards. Randomness comes from the operating system here and in the neighbouring
//! modules: the one exception to "seeds come in as arguments". Specification: architecture,
//! section 5; Noise Protocol Framework, revision 34; RFC 9382 (SPAKE2).

mod begin_keys;
mod client;
mod host;
mod layout;
mod noise;
#[cfg(test)]
mod starvation;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

pub use self::client::{ClientHandshake, Trust};
pub use self::host::{
    DeviceStatus, HostHandshake, Paired, PairingEvent, PinRefused, Reaction, foreign_key,
};
pub use super::identity::{ClientId, DeviceName, Identity, NoRandomness, PublicKey};
pub use super::pairing::{BadPin, MAX_TRIES, Pin};
use super::ticket::TicketRefused;
use crate::id::SessionId;
pub use crate::wire::seal::SessionSecret;

/// The version of the protocol that this program speaks best: byte 0 of every datagram. Hello,
/// Challenge and Refused carry 1 for ever, since their layout never changes.
pub const PROTOCOL_VERSION: u8 = 1;

/// The plane (byte 1 of every datagram) of the handshake.
pub const PLANE: u8 = 0;

/// How long a client tries before it says that nobody answers: long enough for a person to start
/// the host, short enough to wait for.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a half-open or just ended handshake is kept at the host.
pub const HALF_OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Handshakes of each kind (pairings, reconnections) that a host keeps at a time; one more evicts the
/// oldest of the network, or of the device, that has most of them. About 1 kB each.
pub const MAX_HALF_OPEN: usize = 64;

/// Pairings for which a host works in a second. Each costs it 0.3 ms (one SPAKE2 exchange and four
/// X25519 operations, measured), on the thread that injects the player's input: at worst 5 ms of each
/// second.
pub const PAIRINGS_PER_SECOND: usize = 16;

/// … and those of one network ([`PathId::network`](crate::id::PathId::network)): enough for a
/// household behind one address. Several that ask share the whole.
pub const PAIRINGS_PER_NETWORK: usize = 4;

/// Reconnections of all known devices for which a host works in a second, and those of one device.
/// Only tagged ones count, so these are asked for by known devices alone; each costs 0.2 ms.
pub const RECONNECTIONS_PER_SECOND: usize = 32;
/// See [`RECONNECTIONS_PER_SECOND`].
pub const RECONNECTIONS_PER_DEVICE: usize = 4;

/// The end of a handshake.
#[derive(Clone, Debug)]
pub struct Established {
    /// The session's name in every datagram header.
    pub session: SessionId,
    /// The fresh secret.
    pub secret: SessionSecret,
    /// The peer's long-term X25519 public key.
    pub peer: PublicKey,
    /// The protocol version that both sides speak best.
    pub version: u8,
}

/// The protocol versions a program speaks, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    /// The oldest.
    pub min: u8,
    /// The newest.
    pub max: u8,
}

impl Versions {
    /// What this program speaks.
    pub const OURS: Versions = Versions {
        min: 1,
        max: PROTOCOL_VERSION,
    };

    /// The newest version that both speak.
    #[must_use]
    pub fn agree(self, other: Versions) -> Option<u8> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min) && newest > 0).then_some(newest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "version {}", self.max)
        } else {
            write!(f, "versions {} to {}", self.min, self.max)
        }
    }
}

/// Why a client got no session: each is one line for the person in front of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The PIN is not the host's.
    #[error("pairing failed: the PIN is not the one that the host shows; look at it and try again")]
    WrongPin,
    /// The host has no pairing window open.
    #[error(
        "the host is not pairing now: run `openuvr devices pair` there, or type p and Enter where `openuvr host` runs, \
         and try again with the PIN that it shows"
    )]
    PairingClosed,
    /// The PIN was shown to whoever answers, and nobody said whether it is right.
    #[error(
        "pairing failed: what answers did not confirm the PIN, and may have learned whether it is \
         right; have the host show a new PIN, look whether the address is the host's, and try again"
    )]
    Unconfirmed,
    /// Nothing is known of the host, and no PIN is there to pair with, or it was used.
    #[error(
        "this client does not know the host: pair with the PIN that `openuvr host --pair` shows there"
    )]
    UnknownHost,
    /// The host has forgotten this device.
    #[error(
        "the host does not know this device (forgotten there?): pair again, with --pair-again and \
         the PIN that `openuvr host --pair` shows there"
    )]
    UnknownDevice,
    /// This device has proven its key or the PIN, but is forbidden at the host.
    #[error("the host forbids this device: run `openuvr devices allow` at the host")]
    Forbidden,
    /// The host takes no try now.
    #[error("the host takes no try now: wait {} s and try again", .retry_after.as_secs())]
    Busy {
        /// The wait, in whole seconds, at least one.
        retry_after: Duration,
    },
    /// The two programs have no protocol version in common.
    #[error("the host speaks protocol {theirs}, this program {ours}: update the older one")]
    Version {
        /// This program's range.
        ours: Versions,
        /// The host's range.
        theirs: Versions,
    },
    /// Nobody answered.
    #[error(
        "no answer from the host in {} s: is it running, is the address right, does a firewall drop UDP?",
        .after.as_secs()
    )]
    TimedOut {
        /// How long was tried.
        after: Duration,
    },
    /// Somebody is there, but nobody who shows the key that this client knows.
    #[error(
        "what answers at this address does not show the host's key: if the host was set up anew, \
         pair again, with --pair-again and the PIN that it shows; if not, another machine is there"
    )]
    NotTheHost,
    /// The host does not let the ticket in.
    #[error("{0}")]
    Ticket(TicketRefused),
    /// Somebody is there who does not answer a ticket that was sealed for the host of the link.
    #[error(
        "what answers at this address does not show the host's key that the link names, or takes no \
         tickets: get a new link from the portal"
    )]
    TicketUnanswered,
    /// No keys can be made.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// The cryptographic library failed on good input.
    #[error("the handshake failed inside this program (cryptographic library): please report it")]
    Crypto,
}
