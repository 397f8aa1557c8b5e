//! What a client knows of the host that it looks for, and by what the two may recognise each other
//! next: by the host's key, or, for one pairing, by a PIN.
//!
//! A PIN is short. Whoever answers and is shown a proof of it may test one guess, so a client must
//! never be brought to show it twice, nor to show it instead of asking for a key that it knows. It is
//! not the handshake itself: see [`super::handshake`].

use super::handshake::{HandshakeError, Trust};
use super::identity::PublicKey;
use super::pairing::Pin;
use super::ticket::SignedTicket;

/// What one client knows of one host, as long as the client runs.
#[derive(Debug)]
pub struct HostCredentials {
    known: Option<PublicKey>,
    /// For one pairing, the next thing to be tried.
    pin: Option<Pin>,
    /// Until it has let this client in.
    ticket: Option<SignedTicket>,
}

/// A session began: what it changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PairingOutcome {
    /// Both knew each other.
    Known,
    /// A first pairing: the key is to be stored.
    Paired,
    /// They paired although a key was known, this one; the new one is to be stored in its place.
    PairedAgain {
        /// The key that was known before.
        before: PublicKey,
    },
}

impl HostCredentials {
    /// What is stored of the host, and the PIN that a person gave for this run. A host whose key is
    /// known is asked for that key, whatever PIN there is, unless the person wants to `pair_again`.
    #[must_use]
    pub fn new(known: Option<PublicKey>, pin: Option<Pin>, pair_again: bool) -> HostCredentials {
        let pin = pin.filter(|_| known.is_none() || pair_again);
        HostCredentials {
            known,
            pin,
            ticket: None,
        }
    }

    /// What a portal says of the host: its key, and a ticket for it. Nothing of it is to be stored.
    #[must_use]
    pub fn from_portal(host: PublicKey, ticket: SignedTicket) -> HostCredentials {
        HostCredentials {
            known: Some(host),
            pin: None,
            ticket: Some(ticket),
        }
    }

    /// By what the host is to be recognised in the next handshake. A PIN is given away: whatever
    /// becomes of that handshake, the next one has none.
    ///
    /// # Errors
    /// [`HandshakeError::UnknownHost`] if neither is there.
    pub fn trust(&mut self) -> Result<Trust, HandshakeError> {
        match (self.pin.take(), self.known) {
            (Some(pin), _) => Ok(Trust::Pin(pin)),
            (None, Some(host)) => Ok(match self.ticket {
                Some(ticket) => Trust::Ticket { host, ticket },
                None => Trust::Known(host),
            }),
            (None, None) => Err(HandshakeError::UnknownHost),
        }
    }

    /// A handshake by `trust` ended with this key: from now on it is the host's.
    pub fn authenticated(&mut self, trust: &Trust, key: PublicKey) -> PairingOutcome {
        // From now on the host knows this client.
        self.ticket = None;
        match (trust, self.known.replace(key)) {
            (Trust::Known(_) | Trust::Ticket { .. }, _) => PairingOutcome::Known,
            (Trust::Pin(_), None) => PairingOutcome::Paired,
            (Trust::Pin(_), Some(before)) => PairingOutcome::PairedAgain { before },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: PublicKey = PublicKey([1; 32]);
    const OTHER: PublicKey = PublicKey([2; 32]);

    fn pin() -> Option<Pin> {
        Some(Pin::parse("123456").unwrap())
    }

    fn key_of(trust: &Trust) -> Option<PublicKey> {
        match trust {
            Trust::Known(key) => Some(*key),
            Trust::Pin(_) | Trust::Ticket { .. } => None,
        }
    }

    #[test]
    fn a_pin_serves_one_handshake() {
        let mut host = HostCredentials::new(None, pin(), false);
        assert_eq!(key_of(&host.trust().unwrap()), None);
        let next = host.trust().unwrap_err();
        assert_eq!(next, HandshakeError::UnknownHost);
    }

    #[test]
    fn after_a_pairing_only_the_key_counts() {
        let mut host = HostCredentials::new(None, pin(), false);
        let trust = host.trust().unwrap();
        assert_eq!(host.authenticated(&trust, KEY), PairingOutcome::Paired);
        for _ in 0..3 {
            let trust = host.trust().unwrap();
            assert_eq!(key_of(&trust), Some(KEY));
            assert_eq!(host.authenticated(&trust, KEY), PairingOutcome::Known);
        }
    }

    #[test]
    fn a_known_host_is_never_shown_a_pin() {
        let mut host = HostCredentials::new(Some(KEY), pin(), false);
        for _ in 0..3 {
            assert_eq!(key_of(&host.trust().unwrap()), Some(KEY));
        }
    }

    #[test]
    fn pairing_again_is_wanted_and_tried_once() {
        let mut host = HostCredentials::new(Some(KEY), pin(), true);
        let trust = host.trust().unwrap();
        assert_eq!(key_of(&trust), None);
        // It failed: the key that was known is still the host's.
        assert_eq!(key_of(&host.trust().unwrap()), Some(KEY));
        let again = PairingOutcome::PairedAgain { before: KEY };
        assert_eq!(host.authenticated(&trust, OTHER), again);
        assert_eq!(key_of(&host.trust().unwrap()), Some(OTHER));
    }
}
