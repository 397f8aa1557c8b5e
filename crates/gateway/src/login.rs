//! Log-in: a browser proves possession of the key under which its device is stored, and gets a token. The token is
//! valid at most until the gateway stops. The key was generated in the browser and is not extractable.
//!
//! ```text
//! browser                                          gateway                          host
//!    | POST /login/challenge ────────────────────────► |
//!    | ◄────────────────────────── challenge (challenge.rs) |   not stored; valid for a minute in that network
//!    | POST /login: key, signature, name, [PIN or ticket] ► | ── admit ──────────────► |
//!    | ◄──────────────────────────────────────── token |   list of devices, pairing window
//! ```
//!
//! Verifying a signature takes a tenth of a millisecond. There are separate rate limits for known devices, for browsers
//! with a ticket for this session, and for unknown browsers. Each limit is shared fairly between networks or, for known
//! devices, between devices (`proto::control::budget`).

use aws_lc_rs::rand;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use openuvr_proto::control::budget::Budget;
use openuvr_proto::control::handshake::foreign_key;
use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::time::Instant;
use openuvr_runtime::connection_limits::Network;
use serde::Deserialize;

use crate::challenge::{CHALLENGE, Challenges};
use crate::tokens::{TOKEN, Tokens};
use crate::visitor::Visitor;

/// Maximum log-ins of unknown browsers that are processed per second: 6 ms of work.
const UNKNOWN_PER_SECOND: usize = 64;
/// Maximum log-ins per second of unknown browsers from one network (guess: a school class that types a PIN behind one
/// address).
const UNKNOWN_PER_NETWORK: usize = 16;

/// Maximum log-ins per second of all browsers with a ticket for this session, and of such browsers in one network.
const TICKETS_PER_SECOND: usize = 64;
/// See [`TICKETS_PER_SECOND`].
const TICKETS_PER_NETWORK: usize = 16;

/// Maximum log-ins per second of all known devices, and of one device. Other clients do not know a device's public key,
/// so they cannot use up its limit.
const KNOWN_PER_SECOND: usize = 64;
/// See [`KNOWN_PER_SECOND`].
const KNOWN_PER_DEVICE: usize = 16;

/// Domain separation: prefix of the signed data, so that no other signature of the key is valid as a log-in.
pub const PURPOSE: &str = "openuvr browser log-in 1";

/// Bytes of an uncompressed P-256 point, and of an IEEE P1363 signature.
const POINT: usize = 65;
const SIGNATURE: usize = 64;

/// The body of a log-in.
#[derive(Deserialize)]
struct Wire {
    key: String,
    signature: String,
    challenge: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    pin: String,
    #[serde(default)]
    ticket: String,
}

/// A log-in with a valid signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Login {
    /// The key under which the host stores the device.
    pub device: PublicKey,
    /// The name that the device uses for itself.
    pub name: DeviceName,
    /// The PIN that the user typed.
    pub pin: Option<Pin>,
    /// The text of a portal's ticket, which the host verifies.
    pub ticket: Option<String>,
}

/// Why a log-in is refused without involving the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoginRefused {
    /// The body is malformed.
    #[error("not a log-in")]
    Malformed,
    /// The challenge is invalid, belongs to another network, or has expired.
    #[error("the log-in's challenge is no longer valid: try again")]
    Stale,
    /// The signature does not match the key, challenge and origin.
    #[error("invalid signature")]
    Signature,
    /// The PIN is malformed.
    #[error("expected a PIN of 4 to 12 digits")]
    Pin,
    /// The rate limit is reached.
    #[error("too many log-ins: try again in a second")]
    Busy,
}

/// Rate limits and tokens of log-ins.
pub(crate) struct Logins {
    /// `None` if the system provides no randomness.
    challenges: Option<Challenges>,
    unknown: Budget<Network>,
    ticket_holders: Budget<Network>,
    known: Budget<PublicKey>,
    tokens: Tokens,
}

impl Logins {
    pub(crate) fn new(now: Instant) -> Logins {
        Logins {
            challenges: Challenges::new(now),
            unknown: Budget::new(UNKNOWN_PER_SECOND, UNKNOWN_PER_NETWORK),
            ticket_holders: Budget::new(TICKETS_PER_SECOND, TICKETS_PER_NETWORK),
            known: Budget::new(KNOWN_PER_SECOND, KNOWN_PER_DEVICE),
            tokens: Tokens::default(),
        }
    }

    /// A new challenge for a browser in this network, in hexadecimal; `None` if the system provides no randomness.
    pub(crate) fn challenge(&self, now: Instant, network: Network) -> Option<String> {
        let challenge = self.challenges.as_ref()?.make(now, network)?;
        Some(to_hex(&challenge))
    }

    /// Parses a log-in from this network at the page's `origin` and verifies that it comes from the owner of its key.
    /// `is_known` returns whether the host knows a device, and `names_session` whether a ticket names this session.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        (network, origin): (Network, &str),
        body: &[u8],
        is_known: impl FnOnce(&PublicKey) -> bool,
        names_session: impl FnOnce(&str) -> bool,
    ) -> Result<Login, LoginRefused> {
        let wire = Wire::parse(body)?;
        let challenge: [u8; CHALLENGE] =
            from_hex(&wire.challenge).ok_or(LoginRefused::Malformed)?;
        let challenges = self.challenges.as_ref().ok_or(LoginRefused::Stale)?;
        if !challenges.is_valid(now, network, &challenge) {
            return Err(LoginRefused::Stale);
        }
        let key = wire.key()?;
        let device = device_of(&key);
        let may = if self.tokens.has(&device) || is_known(&device) {
            self.known.may(now, device)
        } else if names_session(&wire.ticket) {
            self.ticket_holders.may(now, network)
        } else {
            self.unknown.may(now, network)
        };
        if !may {
            return Err(LoginRefused::Busy);
        }
        verify(&wire, &key, origin)
    }

    /// A token for an admitted visitor.
    pub(crate) fn token(&mut self, visitor: Visitor) -> Option<String> {
        let mut token = [0; TOKEN];
        rand::fill(&mut token).ok()?;
        self.tokens.add(token, visitor);
        Some(to_hex(&token))
    }

    pub(crate) fn visitor(&self, token: &str) -> Option<Visitor> {
        self.tokens.visitor(&from_hex(token)?).cloned()
    }

    /// Invalidates the tokens of a device.
    pub(crate) fn forget(&mut self, device: &PublicKey) {
        self.tokens.forget(device);
    }
}

/// Parses a log-in and verifies its signature, but not its challenge.
///
/// # Errors
/// [`LoginRefused`] if the body is malformed or the signature does not match.
pub fn read(body: &[u8], origin: &str) -> Result<Login, LoginRefused> {
    let wire = Wire::parse(body)?;
    verify(&wire, &wire.key()?, origin)
}

impl Wire {
    fn parse(body: &[u8]) -> Result<Wire, LoginRefused> {
        serde_json::from_slice(body).map_err(|_| LoginRefused::Malformed)
    }

    fn key(&self) -> Result<[u8; POINT], LoginRefused> {
        from_hex(&self.key).ok_or(LoginRefused::Malformed)
    }
}

/// The key under which the host stores the device with this point.
fn device_of(key: &[u8; POINT]) -> PublicKey {
    foreign_key("browser P-256", key)
}

fn verify(wire: &Wire, key: &[u8; POINT], origin: &str) -> Result<Login, LoginRefused> {
    let signature: [u8; SIGNATURE] = from_hex(&wire.signature).ok_or(LoginRefused::Malformed)?;
    let pin = match wire.pin.trim() {
        "" => None,
        typed => Some(Pin::parse(typed).map_err(|_| LoginRefused::Pin)?),
    };
    let signed = format!("{PURPOSE}\n{origin}\n{}", wire.challenge);
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key)
        .verify(signed.as_bytes(), &signature)
        .map_err(|_| LoginRefused::Signature)?;
    Ok(Login {
        device: device_of(key),
        name: DeviceName::new(&wire.name),
        pin,
        ticket: Some(wire.ticket.clone()).filter(|text| !text.is_empty()),
    })
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}
