//! Pairing by PIN: the PIN, its time window, and its limits on tries.
//!
//! The exchange is SPAKE2 (RFC 9382, by crate `spake2`). Each guess costs one exchange with the host, and a wrong guess
//! reveals only that it is wrong. The security of a short PIN therefore rests on the limit on tries. The handshake
//! itself is in [`super::handshake`].

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use spake2::{Ed25519Group, Password, Spake2};
use zeroize::{Zeroize, Zeroizing};

use super::identity::{NoRandomness, random};
use crate::time::Instant;

/// Maximum number of wrong PINs in one window, after which it closes: 24 guesses among a million PINs. Eight networks
/// must reach their limit ([`MAX_TRIES_OF_ONE`]) to close the window, so an attacker with few addresses cannot close
/// the window.
pub const MAX_TRIES: u32 = 24;

/// Maximum number of wrong PINs from one network (an IPv4 address, or 64 bits of IPv6) in one window. Other networks
/// may still pair.
pub const MAX_TRIES_OF_ONE: u32 = 3;

/// Delay before a network's second try. The delay before its third try is twice as long. Other networks are not
/// delayed.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// The length of a SPAKE2 message in bytes: one byte that identifies the side, and a compressed Edwards point.
pub(super) const SPAKE_MESSAGE: usize = 33;

/// Minimum number of digits.
const SHORTEST: usize = 4;
/// Maximum number of digits.
const LONGEST: usize = 12;

/// A PIN: 4 to 12 decimal digits. It is overwritten on drop. `Debug` hides the digits. [`fmt::Display`] shows them,
/// because the host displays the PIN.
#[derive(Clone, PartialEq, Eq)]
pub struct Pin(String);

impl Pin {
    /// A random PIN of six digits, uniformly distributed.
    ///
    /// # Errors
    /// [`NoRandomness`] if the operating system provides no random bytes.
    pub fn generate() -> Result<Pin, NoRandomness> {
        /// The largest multiple of a million in 32 bits. This number and larger ones are discarded, because they would
        /// favour low PINs.
        const LIMIT: u32 = u32::MAX - u32::MAX % 1_000_000;
        loop {
            let number = u32::from_le_bytes(random()?);
            if number < LIMIT {
                return Ok(Pin(format!("{:06}", number % 1_000_000)));
            }
        }
    }

    /// Parses a typed or pasted PIN; ignores blanks.
    ///
    /// # Errors
    /// [`BadPin`] if `text` without blanks is not 4 to 12 ASCII digits.
    pub fn parse(text: &str) -> Result<Pin, BadPin> {
        let mut pin = Pin(String::with_capacity(LONGEST));
        for digit in text.chars().filter(|c| !c.is_whitespace()) {
            if !digit.is_ascii_digit() || pin.0.len() == LONGEST {
                return Err(BadPin);
            }
            pin.0.push(digit);
        }
        match pin.0.len() < SHORTEST {
            true => Err(BadPin),
            false => Ok(pin),
        }
    }

    /// Compares in constant time.
    pub(super) fn is(&self, other: &Pin) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), other.0.as_bytes());
        aws_lc_rs::constant_time::verify_slices_are_equal(ours, theirs).is_ok()
    }
}

impl Serialize for Pin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Pin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pin, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        Pin::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl std::str::FromStr for Pin {
    type Err = BadPin;
    fn from_str(text: &str) -> Result<Pin, BadPin> {
        Pin::parse(text)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pin(..)")
    }
}

/// The text is not a PIN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a PIN of 4 to 12 digits: type it as the host shows it")]
pub struct BadPin;

/// One side of a SPAKE2 exchange.
pub(super) struct PinExchange(Spake2<Ed25519Group>);

impl PinExchange {
    /// The client's side, and the message for the host.
    pub(super) fn client(pin: &Pin) -> (PinExchange, [u8; SPAKE_MESSAGE]) {
        let (client, host) = parties();
        Self::from_parts(Spake2::start_a(
            &Password::new(pin.0.as_bytes()),
            &client,
            &host,
        ))
    }

    /// The host's side, and the message for the client.
    pub(super) fn host(pin: &Pin) -> (PinExchange, [u8; SPAKE_MESSAGE]) {
        let (client, host) = parties();
        Self::from_parts(Spake2::start_b(
            &Password::new(pin.0.as_bytes()),
            &client,
            &host,
        ))
    }

    /// This side's secret, which equals the peer's only if the PINs are equal. Returns `None` if `message` is invalid.
    pub(super) fn finish(self, message: &[u8; SPAKE_MESSAGE]) -> Option<Zeroizing<Vec<u8>>> {
        self.0.finish(message).ok().map(Zeroizing::new)
    }

    fn from_parts(
        (exchange, message): (Spake2<Ed25519Group>, Vec<u8>),
    ) -> (PinExchange, [u8; SPAKE_MESSAGE]) {
        let mut bytes = [0; SPAKE_MESSAGE];
        bytes.copy_from_slice(&message);
        (PinExchange(exchange), bytes)
    }
}

fn parties() -> (spake2::Identity, spake2::Identity) {
    let party = |name: &[u8]| spake2::Identity::new(name);
    (party(b"openuvr client"), party(b"openuvr host"))
}

/// A period in which a host pairs by PIN, and the wrong PINs so far.
pub(super) struct PairingWindow {
    /// Distinguishes this window from earlier ones.
    pub(super) serial: u64,
    pub(super) pin: Pin,
    closes: Instant,
    /// The networks that sent a wrong PIN; at most [`MAX_TRIES`].
    wrong: Vec<WrongPins>,
}

/// The wrong PINs of one network.
struct WrongPins {
    network: [u8; 16],
    count: u32,
    not_before: Instant,
}

/// Why a window rejects a try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TryDenied {
    Closed,
    Wait(Duration),
}

impl PairingWindow {
    pub(super) fn open(serial: u64, now: Instant, pin: Pin, span: Duration) -> PairingWindow {
        PairingWindow {
            serial,
            pin,
            closes: now + span,
            wrong: Vec::new(),
        }
    }

    /// Whether a try from `network` is accepted at `now`.
    pub(super) fn admits(&self, now: Instant, network: [u8; 16]) -> Result<(), TryDenied> {
        let of_it = self.wrong.iter().find(|wrong| wrong.network == network);
        if now >= self.closes || self.is_used_up() {
            return Err(TryDenied::Closed);
        }
        match of_it {
            Some(wrong) if wrong.count >= MAX_TRIES_OF_ONE => Err(TryDenied::Closed),
            Some(wrong) if now < wrong.not_before => {
                Err(TryDenied::Wait(wrong.not_before.since(now)))
            }
            _ => Ok(()),
        }
    }

    /// Counts a wrong PIN from `network` at `now`. The network's next try is delayed. After [`MAX_TRIES_OF_ONE`] wrong
    /// PINs, the network has no further try. Returns the network's remaining tries.
    pub(super) fn count_wrong(&mut self, now: Instant, network: [u8; 16]) -> u32 {
        let known = self.wrong.iter().position(|wrong| wrong.network == network);
        let index = known.unwrap_or_else(|| {
            self.wrong.push(WrongPins {
                network,
                count: 0,
                not_before: now,
            });
            self.wrong.len() - 1
        });
        let wrong = &mut self.wrong[index];
        wrong.not_before = now + FIRST_DELAY * (1 << wrong.count.min(8));
        wrong.count += 1;
        MAX_TRIES_OF_ONE.saturating_sub(wrong.count)
    }

    /// Whether the limit of wrong PINs over all networks has been reached.
    pub(super) fn is_used_up(&self) -> bool {
        self.count() >= MAX_TRIES
    }

    fn count(&self) -> u32 {
        self.wrong.iter().map(|wrong| wrong.count).sum()
    }

    pub(super) fn closes(&self) -> Instant {
        self.closes
    }

    #[cfg(test)]
    pub(super) fn tries_left(&self) -> u32 {
        MAX_TRIES.saturating_sub(self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_digits_only() {
        for good in ["1234", "000000", " 123456789012\n"] {
            assert_eq!(Pin::parse(good).unwrap().to_string(), good.trim());
        }
        for (pasted, digits) in [("123 456", "123456"), ("1\u{a0}2\t3\n4", "1234")] {
            assert_eq!(Pin::parse(pasted).unwrap().to_string(), digits);
        }
        for bad in [
            "",
            "1 2 3",
            "1234567890123",
            "12-34",
            "12a4",
            "-1234",
            "١٢٣٤",
        ] {
            assert_eq!(Pin::parse(bad), Err(BadPin), "{bad:?}");
        }
        assert_eq!(format!("{:?}", Pin::parse("1234").unwrap()), "Pin(..)");
    }

    #[test]
    fn generated_pins_have_six_digits_and_differ() {
        let pins: std::collections::HashSet<String> = (0..100)
            .map(|_| Pin::generate().unwrap().to_string())
            .collect();
        assert!(
            pins.iter()
                .all(|pin| pin.len() == 6 && Pin::parse(pin).is_ok())
        );
        assert!(pins.len() > 90);
    }

    #[test]
    fn the_same_pin_gives_the_same_secret() {
        let pin = |text| Pin::parse(text).unwrap();
        for (theirs, same) in [("123456", true), ("123457", false)] {
            let (client, to_host) = PinExchange::client(&pin("123456"));
            let (host, to_client) = PinExchange::host(&pin(theirs));
            let (a, b) = (client.finish(&to_client), host.finish(&to_host));
            assert_eq!(a.unwrap() == b.unwrap(), same);
        }
    }

    #[test]
    fn an_address_has_its_own_delay_and_three_tries() {
        let (one, other) = ([1; 16], [2; 16]);
        let mut now = Instant(0);
        let pin = Pin::parse("1234").unwrap();
        let mut window = PairingWindow::open(1, now, pin, Duration::from_secs(60));
        for (seconds, left) in [(1, 2), (2, 1)] {
            assert_eq!(window.admits(now, one), Ok(()));
            assert_eq!(window.count_wrong(now, one), left);
            let wait = Duration::from_secs(seconds);
            assert_eq!(window.admits(now, one), Err(TryDenied::Wait(wait)));
            assert_eq!(window.admits(now, other), Ok(()));
            now = now + wait;
        }
        assert_eq!(window.count_wrong(now, one), 0);
        let later = now + Duration::from_secs(20);
        assert_eq!(window.admits(later, one), Err(TryDenied::Closed));
        assert_eq!(window.admits(later, other), Ok(()));
    }

    #[test]
    fn a_pairing_window_limits_the_wrong_pins_of_all_clients() {
        let now = Instant(0);
        let pin = Pin::parse("1234").unwrap();
        let mut window = PairingWindow::open(1, now, pin, Duration::from_secs(60));
        for n in 0..MAX_TRIES {
            let network = [u8::try_from(n).unwrap(); 16];
            assert_eq!(window.admits(now, network), Ok(()));
            window.count_wrong(now, network);
        }
        assert_eq!(window.admits(now, [99; 16]), Err(TryDenied::Closed));
        assert_eq!(window.tries_left(), 0);
    }
}
