//! Tickets: admission to one session of one host, signed by a portal. The host receives the portal's key at start-up. A
//! client with a ticket needs no PIN and is not stored in the host's device list.
//!
//! A ticket names a session, a role, its holder and its expiry. It has an id, so that it is redeemed only once
//! ([`TicketGate`]). A [`ControlToken`], signed with the same key, is for the portal itself: with it, the portal queries,
//! renews and stops a session.
//!
//! ```text
//!  0         1      2      3        4         20   36          44           76          140
//!  | version | kind | role | holder | session | id | not after | key's hash | signature |
//!  | 1       | 1    |      |        | UUID    |    | u64, s    | SHA-256    | Ed25519   |
//! ```
//! The signature covers everything before it, prefixed with `openuvr ticket`. The text form is base64url without padding
//! (RFC 4648, section 5).
//!
//! The module has no clock. The caller passes wall-clock time ([`UnixTime`]), because portal and host are different
//! machines.

mod control;
mod gate;
mod key;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

pub use self::control::{Action, Actions, ControlToken, MAX_TOKEN_LIFE, TokenRefused};
pub use self::gate::{MAX_ADMITTED, MAX_USED, TicketGate};
pub use self::key::{BadTicketKey, SIGNATURE, TicketKey, TicketSigner};
use super::identity::{NoRandomness, PublicKey, random, sha256};
use super::negotiate::Role;

/// The version of tickets that this program writes and reads.
pub const TICKET_VERSION: u8 = 1;

/// Bytes of a ticket.
pub const TICKET: usize = 140;

/// Maximum characters of a ticket's or token's text; longer text is rejected unread.
pub const MAX_TEXT: usize = 512;

/// Tolerated clock difference between portal and host: a ticket is accepted for this long after its expiry.
pub const CLOCK_SKEW: Duration = Duration::from_secs(30);

/// Maximum remaining lifetime of a ticket that is bound to a key, at the time when a client presents the ticket (guess:
/// the user may have to install the client first). It limits the memory for redeemed tickets at the host.
pub const MAX_TICKET_LIFE: Duration = Duration::from_secs(600);

/// Maximum remaining lifetime of an unbound ticket: long enough for a browser to open a page.
pub const MAX_OPEN_TICKET_LIFE: Duration = Duration::from_secs(120);

/// Domain separation prefix of the signature.
const PURPOSE: &[u8] = b"openuvr ticket";

/// The kind of a ticket: the value of its second byte. In a control token, this byte is 2.
const KIND: u8 = 1;

/// Wall-clock time in whole seconds since 1970-01-01 00:00 UTC without leap seconds (POSIX).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UnixTime(pub u64);

impl UnixTime {
    /// Adds `span`, saturating.
    #[must_use]
    pub fn plus(self, span: Duration) -> UnixTime {
        UnixTime(self.0.saturating_add(span.as_secs()))
    }
}

/// The id of a portal's session: a UUID (RFC 9562), the same on every launcher. A [`SessionId`](crate::id::SessionId), in
/// contrast, identifies one connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionUuid(pub [u8; 16]);

impl TryFrom<String> for SessionUuid {
    type Error = BadUuid;

    fn try_from(text: String) -> Result<SessionUuid, BadUuid> {
        text.parse()
    }
}

impl From<SessionUuid> for String {
    fn from(value: SessionUuid) -> String {
        value.to_string()
    }
}

impl SessionUuid {
    /// Generates a random UUID: 122 random bits (RFC 9562, section 5.4).
    ///
    /// # Errors
    /// [`NoRandomness`] if the operating system provides no random bytes.
    pub fn generate() -> Result<SessionUuid, NoRandomness> {
        let mut bytes: [u8; 16] = random()?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Ok(SessionUuid(bytes))
    }
}

impl fmt::Display for SessionUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl FromStr for SessionUuid {
    type Err = BadUuid;

    /// Parses only the form with four hyphens and lower-case or upper-case digits.
    fn from_str(text: &str) -> Result<SessionUuid, BadUuid> {
        let bytes = text.as_bytes();
        if bytes.len() != 36 || [8, 13, 18, 23].iter().any(|&at| bytes[at] != b'-') {
            return Err(BadUuid);
        }
        let mut digits = bytes.iter().filter(|&&byte| byte != b'-');
        let mut uuid = [0; 16];
        for byte in &mut uuid {
            for _ in 0..2 {
                let digit = digits.next().and_then(|&d| char::from(d).to_digit(16));
                let digit = u8::try_from(digit.ok_or(BadUuid)?).map_err(|_| BadUuid)?;
                *byte = *byte << 4 | digit;
            }
        }
        match digits.next() {
            None => Ok(SessionUuid(uuid)),
            Some(_) => Err(BadUuid),
        }
    }
}

/// The text is not a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected the UUID of a session, such as 6f1c2a34-5b6d-4e8f-9a0b-1c2d3e4f5a6b")]
pub struct BadUuid;

/// The hash of a device's key, which identifies a ticket's holder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    /// The hash of a client's identity key, or of a browser's storage key
    /// ([`foreign_key`](super::handshake::foreign_key)).
    #[must_use]
    pub fn of(key: &PublicKey) -> KeyHash {
        KeyHash(sha256(&[b"openuvr ticket holder", &key.0]))
    }
}

/// The holder of a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Holder {
    /// The first device that presents the ticket. From then on, the ticket is bound to that device's key. Until then,
    /// it is a bearer token, valid for [`MAX_OPEN_TICKET_LIFE`] at most.
    FirstUse,
    /// The device with this key.
    Key(KeyHash),
}

/// A portal's admission of one client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    /// The session.
    pub session: SessionUuid,
    /// The highest role that the client may have: a player's ticket also permits observing, but an observer's ticket
    /// does not permit playing.
    pub role: Role,
    /// The holder.
    pub holder: Holder,
    /// The last second of its validity.
    pub not_after: UnixTime,
    /// A random id: [`Ticket::new_id`].
    pub id: [u8; 16],
}

impl Ticket {
    /// A unique id.
    ///
    /// # Errors
    /// [`NoRandomness`] if the operating system provides no random bytes.
    pub fn new_id() -> Result<[u8; 16], NoRandomness> {
        random()
    }

    /// Signs the ticket.
    #[must_use]
    pub fn sign(&self, signer: &TicketSigner) -> SignedTicket {
        let mut bytes = [0; TICKET];
        bytes[0] = TICKET_VERSION;
        bytes[1] = KIND;
        bytes[2] = match self.role {
            Role::Player => 1,
            Role::Observer => 2,
        };
        bytes[4..20].copy_from_slice(&self.session.0);
        bytes[20..36].copy_from_slice(&self.id);
        bytes[36..44].copy_from_slice(&self.not_after.0.to_le_bytes());
        if let Holder::Key(hash) = &self.holder {
            bytes[3] = 1;
            bytes[44..76].copy_from_slice(&hash.0);
        }
        let (body, signature) = bytes.split_at_mut(TICKET - SIGNATURE);
        signature.copy_from_slice(&signer.sign(PURPOSE, body));
        SignedTicket(bytes)
    }

    /// Parses the signed part after its signature was verified.
    fn parse(body: &[u8]) -> Option<Ticket> {
        let (head, rest) = body.split_first_chunk::<4>()?;
        let (session, rest) = rest.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (not_after, rest) = rest.split_first_chunk()?;
        let hash: [u8; 32] = rest.try_into().ok()?;
        let role = match head[2] {
            1 => Role::Player,
            2 => Role::Observer,
            _ => return None,
        };
        let holder = match head[3] {
            0 if hash == [0; 32] => Holder::FirstUse,
            1 => Holder::Key(KeyHash(hash)),
            _ => return None,
        };
        Some(Ticket {
            session: SessionUuid(*session),
            role,
            holder,
            not_after: UnixTime(u64::from_le_bytes(*not_after)),
            id: *id,
        })
    }
}

/// An encoded ticket. [`SignedTicket::verify`] decodes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SignedTicket([u8; TICKET]);

impl SignedTicket {
    /// Wraps the bytes of a ticket without verifying them.
    ///
    /// # Errors
    /// [`TicketRefused::Malformed`] or [`TicketRefused::Version`] if the bytes are not a ticket of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<SignedTicket, TicketRefused> {
        match bytes.first() {
            Some(&TICKET_VERSION) => {}
            Some(&version) if version != 0 => return Err(TicketRefused::Version),
            _ => return Err(TicketRefused::Malformed),
        }
        let bytes: [u8; TICKET] = bytes.try_into().map_err(|_| TicketRefused::Malformed)?;
        match bytes[1] {
            KIND => Ok(SignedTicket(bytes)),
            _ => Err(TicketRefused::Malformed),
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; TICKET] {
        &self.0
    }

    /// Whether the ticket names this session. A match does not prove that the ticket is valid: the sender of the ticket
    /// only has to know the session's id, 122 random bits.
    #[must_use]
    pub fn names(&self, session: SessionUuid) -> bool {
        self.0[4..20] == session.0
    }

    /// The ticket, if the owner of `key` signed it.
    ///
    /// # Errors
    /// [`TicketRefused::Forged`] if the signature is not the owner's, or [`TicketRefused::Malformed`] if the ticket was
    /// signed but this version cannot decode it.
    pub fn verify(&self, key: &TicketKey) -> Result<Ticket, TicketRefused> {
        let (body, signature) = self.0.split_at(TICKET - SIGNATURE);
        if !key.verifies(PURPOSE, body, signature) {
            return Err(TicketRefused::Forged);
        }
        Ticket::parse(body).ok_or(TicketRefused::Malformed)
    }
}

impl fmt::Display for SignedTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for SignedTicket {
    /// Hides the bytes, so that a log does not leak a usable ticket.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignedTicket(..)")
    }
}

impl FromStr for SignedTicket {
    type Err = TicketRefused;

    fn from_str(text: &str) -> Result<SignedTicket, TicketRefused> {
        let bytes = from_text(text).ok_or(TicketRefused::Malformed)?;
        SignedTicket::from_bytes(&bytes)
    }
}

/// Decodes base64url without padding; `None` if the text is invalid or too long.
fn from_text(text: &str) -> Option<Vec<u8>> {
    let fits = text.len() <= MAX_TEXT;
    fits.then(|| URL_SAFE_NO_PAD.decode(text).ok()).flatten()
}

/// Why a ticket is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TicketRefused {
    /// The host was started without a portal's key.
    #[error("this host accepts no tickets: pair with the host by PIN")]
    NotTaken,
    /// Not a ticket.
    #[error("that is not a ticket: copy the whole link from the portal")]
    Malformed,
    /// A version that the host does not support.
    #[error("the ticket has another version: update the older of portal and host")]
    Version,
    /// Its signature is not the portal's.
    #[error("the ticket is not signed by the portal of this host")]
    Forged,
    /// It is for another session.
    #[error("the ticket is for another session: get one for this session from the portal")]
    OtherSession,
    /// It is for another device.
    #[error("the ticket is for another device: get one for this device from the portal")]
    OtherKey,
    /// It has expired.
    #[error(
        "the ticket has expired: get a new one from the portal; if the portal has just issued it, \
         the clocks of portal and host differ by more than 30 s"
    )]
    Expired,
    /// Its lifetime exceeds the maximum.
    #[error(
        "the ticket is valid for longer than a host allows: the clocks of portal and host differ, or the portal has \
         another version"
    )]
    TooLong,
    /// Another device has redeemed it.
    #[error("the ticket was used by another device: get a new one from the portal")]
    Used,
    /// The host already remembers the maximum number of redeemed tickets, or has admitted the maximum number of
    /// devices.
    #[error("the host has accepted too many tickets: try again in a few minutes")]
    Full,
}
