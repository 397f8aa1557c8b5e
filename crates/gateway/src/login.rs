//! The log-in: a browser shows that it has the key under which its device is stored, and gets a token for as long as
//! the host runs. The key was made in the browser and can't be taken out of it.
//!
//! ```text
//! browser                                          gateway                          host
//!    | POST /login/challenge ────────────────────────► |
//!    | ◄────────────────────────── challenge (challenge.rs) |   not stored; good for a minute in that network
//!    | POST /login: key, signature, name, [PIN or ticket] ► | ── admit ──────────────► |
//!    | ◄──────────────────────────────────────── token |   list of devices, pairing window
//! ```
//!
//! Each signature costs a tenth of a millisecond. Known devices have a budget of their own, and so have browsers that show
//! a ticket which names this session, as strangers can't: they use up neither, and share theirs by network, as native
//! handshakes do (`proto::control::budget`).

use aws_lc_rs::rand;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use openuvr_proto::control::budget::Budget;
use openuvr_proto::control::handshake::foreign_key;
use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::time::Instant;
use serde::Deserialize;

use crate::challenge::{CHALLENGE, Challenges};
use crate::network::Network;
use crate::tokens::{TOKEN, Tokens};
use crate::visitor::Visitor;

/// Log-ins of strangers that are looked at in a second: 6 ms of work …
const UNKNOWN_A_SECOND: usize = 64;
/// … and those of one network: a class behind one address that types a PIN (guess).
const UNKNOWN_FOR_ONE: usize = 16;

/// The same for those that show a ticket of this session, as many.
const TICKETS_A_SECOND: usize = 64;
/// See [`TICKETS_A_SECOND`].
const TICKETS_FOR_ONE: usize = 16;

/// Log-ins of all known devices, and of one: only a device itself can name its key.
const KNOWN_A_SECOND: usize = 64;
/// See [`KNOWN_A_SECOND`].
const KNOWN_FOR_ONE: usize = 16;

/// What a browser signs begins so: nothing else that its key signs can be mistaken for a log-in.
pub const PURPOSE: &str = "openuvr browser log-in 1";

/// Bytes of an uncompressed point of P-256, and of a signature in the form of IEEE P1363.
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

/// A log-in whose signature is good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Login {
    /// Under what the host stores the device.
    pub device: PublicKey,
    /// What it calls itself.
    pub name: DeviceName,
    /// What its person typed.
    pub pin: Option<Pin>,
    /// The text of a portal's ticket, which the host looks at.
    pub ticket: Option<String>,
}

/// Why a log-in is refused before the host is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoginRefused {
    /// It is not what a page sends.
    #[error("this is not a log-in")]
    Malformed,
    /// The challenge is not ours, is another network's, or is too old.
    #[error("the log-in took too long: try again")]
    Stale,
    /// The signature is not by this key over this challenge at this address.
    #[error("the signature is wrong")]
    Signature,
    /// The PIN is none.
    #[error("a PIN is 4 to 12 digits")]
    Pin,
    /// Too many want to log in.
    #[error("too many log-ins: try again in a second")]
    Busy,
}

/// Log-ins under way and done.
pub(crate) struct Logins {
    /// `None`: the system has no randomness.
    challenges: Option<Challenges>,
    strangers: Budget<Network>,
    ticket_holders: Budget<Network>,
    known: Budget<PublicKey>,
    tokens: Tokens,
}

impl Logins {
    pub(crate) fn new(now: Instant) -> Logins {
        Logins {
            challenges: Challenges::new(now),
            strangers: Budget::new(UNKNOWN_A_SECOND, UNKNOWN_FOR_ONE),
            ticket_holders: Budget::new(TICKETS_A_SECOND, TICKETS_FOR_ONE),
            known: Budget::new(KNOWN_A_SECOND, KNOWN_FOR_ONE),
            tokens: Tokens::default(),
        }
    }

    /// A new challenge for a browser in this network, in hexadecimal digits; `None` if the system has no randomness.
    pub(crate) fn challenge(&self, now: Instant, network: Network) -> Option<String> {
        let challenge = self.challenges.as_ref()?.make(now, network)?;
        Some(to_hex(&challenge))
    }

    /// Reads a log-in from this network at the page's `origin`, and verifies that it is by the owner of its key.
    /// `is_known` says whether the host knows a device, and `is_ours` whether a text is a ticket that names this session.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        (network, origin): (Network, &str),
        body: &[u8],
        is_known: impl FnOnce(&PublicKey) -> bool,
        is_ours: impl FnOnce(&str) -> bool,
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
        } else if is_ours(&wire.ticket) {
            self.ticket_holders.may(now, network)
        } else {
            self.strangers.may(now, network)
        };
        if !may {
            return Err(LoginRefused::Busy);
        }
        verify(&wire, &key, origin)
    }

    /// A token for one that the host let in.
    pub(crate) fn token(&mut self, visitor: Visitor) -> Option<String> {
        let mut token = [0; TOKEN];
        rand::fill(&mut token).ok()?;
        self.tokens.add(token, visitor);
        Some(to_hex(&token))
    }

    /// Whose token it is.
    pub(crate) fn visitor(&self, token: &str) -> Option<Visitor> {
        self.tokens.visitor(&from_hex(token)?).cloned()
    }

    /// A device is not welcome any more.
    pub(crate) fn forget(&mut self, device: &PublicKey) {
        self.tokens.forget(device);
    }
}

/// Reads a log-in's body and checks its signature, not whether its challenge is ours.
///
/// # Errors
/// [`LoginRefused`]
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
