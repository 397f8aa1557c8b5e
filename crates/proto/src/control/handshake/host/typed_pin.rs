//! A PIN that a client sends as text inside a connection that is sealed by other means, such as a browser's connection.
//!
//! The PIN counts as a try in the same pairing window as the PINs that [`super::finish`] verifies, with the same
//! limits, and the first success closes the window. Unlike a handshake, a PIN sent as text does not prove that there is
//! no on-path attacker. The connection itself must prove this.

use serde::{Deserialize, Serialize};

use super::{DeviceStatus, HostHandshake, PairingEvent};
use crate::control::identity::PublicKey;
use crate::control::pairing::{Pin, TryDenied};
use crate::id::PathId;
use crate::time::Instant;

/// Why a PIN was rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum PinRefused {
    /// No pairing window is open, or the client's network has used up its tries.
    #[error("pairing is closed at the host: run `openuvr devices pair` there for a new PIN")]
    Closed,
    /// Retry after this many seconds.
    #[error("try again in {0} s")]
    Wait(u16),
    /// The PIN is wrong.
    #[error("that is not the PIN that the host shows")]
    Wrong,
    /// The PIN is right, but the host forbids the device.
    #[error("the host forbids this device")]
    Forbidden,
}

impl HostHandshake {
    /// Tries a PIN that a device at `from` sends. `standing` is the host's record of the device.
    ///
    /// # Errors
    /// [`PinRefused`] if the PIN is not accepted. All variants except [`PinRefused::Closed`] and [`PinRefused::Wait`] use up
    /// a try.
    pub fn typed_pin(
        &mut self,
        now: Instant,
        from: PathId,
        pin: &Pin,
        standing: DeviceStatus,
    ) -> Result<(), PinRefused> {
        self.handle_timeout(now);
        let window = self.window.as_ref().ok_or(PinRefused::Closed)?;
        match window.admits(now, from.network()) {
            Ok(()) => {}
            Err(TryDenied::Closed) => return Err(PinRefused::Closed),
            Err(TryDenied::Wait(wait)) => {
                let seconds = u16::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u16::MAX);
                return Err(PinRefused::Wait(seconds.max(1)));
            }
        }
        if !window.pin.is(pin) {
            self.count_wrong(now, from, |tries_left| PairingEvent::WrongPin {
                from,
                tries_left,
            });
            return Err(PinRefused::Wrong);
        }
        if let DeviceStatus::Forbidden(_) = standing {
            self.count_wrong(now, from, |tries_left| PairingEvent::ForbiddenTried {
                from,
                tries_left,
            });
            return Err(PinRefused::Forbidden);
        }
        self.window = None;
        Ok(())
    }
}

/// A `PublicKey` value under which a device without an X25519 key is stored. The value is a hash, for example of the
/// public key with which the device signs. Only this device can prove that the value belongs to it.
#[must_use]
pub fn foreign_key(kind: &str, public_key: &[u8]) -> PublicKey {
    let length = (kind.len() as u64).to_le_bytes();
    PublicKey(crate::control::identity::sha256(&[
        b"openuvr foreign key",
        &length,
        kind.as_bytes(),
        public_key,
    ]))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::control::identity::Identity;

    fn host() -> HostHandshake {
        let mut host = HostHandshake::new(&Identity::from_bytes([7; 32])).unwrap();
        let pin = Pin::parse("123456").unwrap();
        host.open_pairing(Instant(0), pin, Duration::from_secs(60));
        host
    }

    fn from(network: u8) -> PathId {
        let mut path = PathId::default();
        path.0[0] = network;
        path
    }

    fn try_pin(host: &mut HostHandshake, seconds: i64, pin: &str) -> Result<(), PinRefused> {
        let at = Instant(seconds * 1_000_000_000);
        let pin = Pin::parse(pin).unwrap();
        host.typed_pin(at, from(1), &pin, DeviceStatus::Unknown)
    }

    #[test]
    fn the_right_pin_closes_the_window() {
        let mut host = host();
        assert_eq!(try_pin(&mut host, 1, "123456"), Ok(()));
        assert_eq!(try_pin(&mut host, 2, "123456"), Err(PinRefused::Closed));
    }

    #[test]
    fn wrong_pins_are_delayed_and_counted_together() {
        let mut host = host();
        assert_eq!(try_pin(&mut host, 1, "654321"), Err(PinRefused::Wrong));
        assert_eq!(try_pin(&mut host, 1, "123456"), Err(PinRefused::Wait(1)));
        assert_eq!(try_pin(&mut host, 3, "1234567"), Err(PinRefused::Wrong));
        assert_eq!(try_pin(&mut host, 9, "0000"), Err(PinRefused::Wrong));
        assert_eq!(try_pin(&mut host, 30, "123456"), Err(PinRefused::Closed));
        let events = std::iter::from_fn(|| host.poll_event());
        assert_eq!(events.count(), 3);
        // Another network has its own tries.
        let pin = Pin::parse("123456").unwrap();
        let at = Instant(31_000_000_000);
        assert_eq!(
            host.typed_pin(at, from(2), &pin, DeviceStatus::Unknown),
            Ok(())
        );
    }

    #[test]
    fn a_forbidden_device_gets_nothing_for_the_pin() {
        let mut host = host();
        let pin = Pin::parse("123456").unwrap();
        let standing = DeviceStatus::Forbidden(PublicKey([1; 32]));
        let refused = host.typed_pin(Instant(1), from(1), &pin, standing);
        assert_eq!(refused, Err(PinRefused::Forbidden));
        assert_eq!(
            try_pin(&mut host, 100, "123456"),
            Err(PinRefused::Closed),
            "the window has expired"
        );
    }

    #[test]
    fn a_foreign_key_depends_on_kind_and_bytes() {
        let key = foreign_key("p256", b"ab");
        assert_ne!(key, foreign_key("p256a", b"b"));
        assert_ne!(key, foreign_key("p256", b"ac"));
        assert_eq!(key, foreign_key("p256", b"ab"));
    }
}
