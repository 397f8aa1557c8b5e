//! Pairing and reconnection: client and host authenticate each other and derive a fresh session secret.
//!
//! Two state machines, [`ClientHandshake`] and [`HostHandshake`], exchange six datagrams. The first handshake is a
//! *pairing*: SPAKE2 over a PIN yields the pre-shared key of a Noise XXpsk3 handshake, which exchanges the identity
//! keys. Every later handshake is a *reconnection*: Noise KK between the stored identities. If a portal gave the client
//! the host's key and a signed ticket ([`super::ticket`]), the first handshake is Noise IK instead. Its first message
//! carries the ticket, sealed for the host's key. The host verifies the ticket after the client has proved possession
//! of its own key.
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
//! [`Established`] at the host means that the client proved its identity (and, at pairing, knowledge of the PIN). At
//! the client, it means that the host proved its identity *and* accepted the client. Instead of any reply, the host may
//! send Refused with a reason. The cleartext fields (Hello, Challenge, Begin's head) are bound into Noise's prologue,
//! so tampering ends the handshake instead of weakening it.
//!
//! The host applies rate limits before it does work for a Begin. The Begin of a reconnection must carry a tag under a
//! key that is derived from the X25519 shared secret of the client's and the host's identities. Checking the tag costs
//! the host one HMAC. Therefore, an attacker without the client's key cannot use up the client's budget, even with many
//! addresses. A Begin with a ticket must carry a tag under a key that is derived from the host's public key, which
//! strangers do not know. The host cannot attribute a Begin for a pairing or with a ticket to a client. Each of these
//! two kinds of Begin therefore has a budget that all networks share.
//!
//! This module does not store keys (crate `runtime` does), negotiate media, or seal anything after the handshake.
//! Unlike other modules, which get their seeds as arguments, this module and its neighbours take randomness from the
//! operating system. Specification: `docs/protocol.md`, "Pairing and reconnection"; Noise Protocol Framework, revision
//! 34; RFC 9382 (SPAKE2).

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

/// The newest protocol version of this program. Byte 0 of a datagram contains a version; Hello, Challenge and Refused
/// always contain 1 there, because their layout never changes.
pub const PROTOCOL_VERSION: u8 = 1;

/// The plane of the handshake (byte 1 of every datagram).
pub const PLANE: u8 = 0;

/// Time after which a client gives up. It is long enough to start the host by hand, and short enough for a user to
/// wait.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Lifetime of a half-open or just completed handshake at the host.
pub const HALF_OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of concurrent handshakes of each kind (pairings, reconnections, tickets). Each takes about 1 kB. At
/// the limit, a new handshake evicts the oldest handshake of the network or device that has the most handshakes.
pub const MAX_HALF_OPEN: usize = 64;

/// Maximum number of pairings per second. Each costs 0.3 ms (one SPAKE2 exchange and four X25519 operations, measured)
/// on the thread that injects the player's input, so pairings take at most 5 ms of each second.
pub const PAIRINGS_PER_SECOND: usize = 16;

/// Maximum number of pairings per second from one network ([`PathId::network`](crate::id::PathId::network)): enough for
/// a household behind one address. All networks share [`PAIRINGS_PER_SECOND`].
pub const PAIRINGS_PER_NETWORK: usize = 4;

/// Maximum number of reconnections per second from all known devices, at 0.2 ms each. Only reconnections with a valid
/// tag count, and strangers cannot produce the tag.
pub const RECONNECTIONS_PER_SECOND: usize = 32;
/// Maximum number of reconnections per second from one device.
pub const RECONNECTIONS_PER_DEVICE: usize = 4;

/// The result of a handshake.
#[derive(Clone, Debug)]
pub struct Established {
    /// The session id, which the header of every later datagram of this session contains.
    pub session: SessionId,
    /// The fresh session secret.
    pub secret: SessionSecret,
    /// The peer's long-term X25519 public key.
    pub peer: PublicKey,
    /// The newest protocol version that both sides support.
    pub version: u8,
}

/// The range of protocol versions that a program supports; both ends are included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    /// The oldest.
    pub min: u8,
    /// The newest.
    pub max: u8,
}

impl Versions {
    /// The versions that this program supports.
    pub const OURS: Versions = Versions {
        min: 1,
        max: PROTOCOL_VERSION,
    };

    /// The newest common version.
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

/// Why a client got no session. The error text is one line for the user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The PIN differs from the host's PIN.
    #[error("pairing failed: the PIN is not the one that the host shows; check it and try again")]
    WrongPin,
    /// The host has no open pairing window.
    #[error(
        "the host is not pairing now: run `openuvr devices pair` there, or type p and Enter where `openuvr host` runs; \
         then try again with the PIN shown there"
    )]
    PairingClosed,
    /// The client used the PIN with a peer that did not confirm it.
    #[error(
        "pairing failed: the peer did not confirm the PIN and may have learned whether the PIN is right; \
         check the address, get a new PIN from the host, and try again"
    )]
    Unconfirmed,
    /// The client does not know the host's key, and has no unused PIN.
    #[error(
        "this client does not know the host: run `openuvr devices pair` at the host, and pair with the PIN that it shows"
    )]
    UnknownHost,
    /// The host does not know this device, for example because the device was forgotten there.
    #[error(
        "the host does not know this device (forgotten there?): run `openuvr devices pair` at the host, and pair again \
         with --pair-again and the PIN that it shows"
    )]
    UnknownDevice,
    /// This device proved possession of its key or knowledge of the PIN, but the host forbids the device.
    #[error("the host forbids this device: run `openuvr devices allow` at the host")]
    Forbidden,
    /// The host rejects attempts temporarily.
    #[error("the host accepts no attempt now: wait {} s and try again", .retry_after.as_secs())]
    Busy {
        /// How long to wait, in whole seconds; at least one.
        retry_after: Duration,
    },
    /// The two programs have no protocol version in common.
    #[error(
        "the host uses protocol {theirs}, and this program uses {ours}: update the older program"
    )]
    Version {
        /// This program's range.
        ours: Versions,
        /// The host's range.
        theirs: Versions,
    },
    /// The host did not answer.
    #[error(
        "no answer from the host in {} s: is it running, is the address right, does a firewall drop UDP?",
        .after.as_secs()
    )]
    TimedOut {
        /// The timeout.
        after: Duration,
    },
    /// The peer did not prove possession of the host key that this client knows.
    #[error(
        "the peer at this address does not prove possession of the host's key: if the host was set up again, pair again \
         with --pair-again and the PIN that it shows; otherwise, the address belongs to another machine"
    )]
    NotTheHost,
    /// The host rejects the ticket.
    #[error("{0}")]
    Ticket(TicketRefused),
    /// The peer did not answer a Begin whose ticket was sealed for the host that the link names.
    #[error(
        "the peer at this address does not prove possession of the key in the link, or accepts no tickets: get a new link \
         from the portal"
    )]
    TicketUnanswered,
    /// The system provided no random bytes for keys.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// The cryptographic library failed on valid input.
    #[error("the cryptographic library failed during the handshake: please report it")]
    Crypto,
}
