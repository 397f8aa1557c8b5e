//! Who may open a connection: a browser shows that it has the key under which its device is stored, and gets
//! a token for as long as the host runs. The key was made in the browser and can't be taken out of it.
//!
//! ```text
//! browser                                          gateway                          host
//!    | POST /login/challenge ────────────────────────► |
//!    | ◄──────────────────────────────── 32 random bytes |   kept for a minute, for one use
//!    | POST /login: key, signature, name, [PIN or ticket] ► | ── admit ──────────────► |
//!    | ◄──────────────────────────────────────── token |   list of devices, pairing window
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use openuvr_proto::control::handshake::foreign_key;
use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::pairing::Pin;
use serde::Deserialize;

/// Challenges that wait for an answer, at most; of more the oldest go.
const CHALLENGES: usize = 64;

/// How long a challenge can be answered.
const CHALLENGE_LIFE: Duration = Duration::from_secs(60);

/// Tokens that are good, at most; of more the oldest go.
const TOKENS: usize = 64;

/// Log-ins that are looked at in a second: each costs a tenth of a millisecond.
const A_SECOND: u32 = 20;

/// What a browser signs begins so: nothing else that its key signs can be mistaken for a log-in.
pub const PURPOSE: &str = "openuvr browser log-in 1";

/// Bytes of an uncompressed point of P-256, and of a signature in the form of IEEE P1363.
const POINT: usize = 65;
const SIGNATURE: usize = 64;

/// A device that has logged in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Visitor {
    /// Under what the host stores it.
    pub(crate) device: PublicKey,
    /// What it calls itself.
    pub(crate) name: DeviceName,
    /// How people know it.
    pub(crate) title: String,
    /// As what it may come at most.
    pub(crate) most: Role,
}

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
    /// The challenge is not ours, was used, or is too old.
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
#[derive(Default)]
pub(crate) struct Logins {
    challenges: VecDeque<(Instant, [u8; 32])>,
    tokens: VecDeque<([u8; 32], Visitor)>,
    /// The second that is counted, and how many came in it.
    counted: Option<(Instant, u32)>,
}

impl Logins {
    /// A new challenge, in hexadecimal digits; `None` if the system has no randomness.
    pub(crate) fn challenge(&mut self, now: Instant) -> Option<String> {
        let challenge = random()?;
        if self.challenges.len() == CHALLENGES {
            self.challenges.pop_front();
        }
        self.challenges.push_back((now, challenge));
        Some(to_hex(&challenge))
    }

    /// Reads a log-in at the page's `origin` and looks whether it is by the owner of its key.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        origin: &str,
        body: &[u8],
    ) -> Result<Login, LoginRefused> {
        if !self.may(now) {
            return Err(LoginRefused::Busy);
        }
        let wire: Wire = serde_json::from_slice(body).map_err(|_| LoginRefused::Malformed)?;
        let challenge: [u8; 32] = from_hex(&wire.challenge).ok_or(LoginRefused::Malformed)?;
        self.challenges
            .retain(|(at, _)| now.saturating_duration_since(*at) < CHALLENGE_LIFE);
        let ours = self.challenges.iter().position(|(_, of)| *of == challenge);
        let ours = ours.ok_or(LoginRefused::Stale)?;
        self.challenges.remove(ours);
        verify(&wire, origin)
    }

    fn may(&mut self, now: Instant) -> bool {
        let (since, count) = self.counted.get_or_insert((now, 0));
        if now.saturating_duration_since(*since) >= Duration::from_secs(1) {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count <= A_SECOND
    }

    /// A token for one whom the host let in.
    pub(crate) fn token(&mut self, visitor: Visitor) -> Option<String> {
        let token = random()?;
        if self.tokens.len() == TOKENS {
            self.tokens.pop_front();
        }
        self.tokens.push_back((token, visitor));
        Some(to_hex(&token))
    }

    /// Whose token it is.
    pub(crate) fn visitor(&self, token: &str) -> Option<Visitor> {
        let token: [u8; 32] = from_hex(token)?;
        let same = |other: &[u8; 32]| {
            aws_lc_rs::constant_time::verify_slices_are_equal(other, &token).is_ok()
        };
        let found = self.tokens.iter().find(|(other, _)| same(other));
        found.map(|(_, visitor)| visitor.clone())
    }

    /// A device is not welcome any more.
    pub(crate) fn forget(&mut self, device: &PublicKey) {
        self.tokens.retain(|(_, visitor)| visitor.device != *device);
    }
}

/// Reads a log-in's body and checks its signature, not whether its challenge is ours.
///
/// # Errors
/// [`LoginRefused`]
pub fn read(body: &[u8], origin: &str) -> Result<Login, LoginRefused> {
    let wire: Wire = serde_json::from_slice(body).map_err(|_| LoginRefused::Malformed)?;
    verify(&wire, origin)
}

fn verify(wire: &Wire, origin: &str) -> Result<Login, LoginRefused> {
    let key: [u8; POINT] = from_hex(&wire.key).ok_or(LoginRefused::Malformed)?;
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
        device: foreign_key("browser P-256", &key),
        name: DeviceName::new(&wire.name),
        pin,
        ticket: Some(wire.ticket.clone()).filter(|text| !text.is_empty()),
    })
}

fn random() -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).ok().map(|()| bytes)
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
