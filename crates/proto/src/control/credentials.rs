//! A client's credentials for one host: the host's public key, a portal's ticket, or a PIN for one pairing.
//!
//! A PIN is short, and a peer that receives a proof of the PIN can test one guess. Therefore, a client uses a PIN only
//! once. For a host whose key it knows, the client uses a PIN only if its user asked to pair again. Module
//! [`super::handshake`] contains the handshake itself.

use super::handshake::{HandshakeError, Trust};
use super::identity::PublicKey;
use super::pairing::Pin;
use super::ticket::SignedTicket;

/// The credentials for one host, for all sessions of a client.
#[derive(Debug)]
pub struct HostCredentials {
    known: Option<PublicKey>,
    /// The PIN. Only the next attempt uses it.
    pin: Option<Pin>,
    /// The ticket. It is kept until the host admits this client.
    ticket: Option<SignedTicket>,
}

/// The effect of a handshake on the stored keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PairingOutcome {
    /// Client and host knew each other's key, or a ticket admitted the client: store nothing.
    Known,
    /// This was the first pairing: store the host's key.
    Paired,
    /// The client paired again with a host whose key it knew: replace the stored key.
    PairedAgain {
        /// The previously stored key.
        before: PublicKey,
    },
}

impl HostCredentials {
    /// Combines the stored key and the PIN for this run. A known host must prove possession of its key, so a PIN is
    /// ignored unless `pair_again` is set.
    #[must_use]
    pub fn new(known: Option<PublicKey>, pin: Option<Pin>, pair_again: bool) -> HostCredentials {
        let pin = pin.filter(|_| known.is_none() || pair_again);
        HostCredentials {
            known,
            pin,
            ticket: None,
        }
    }

    /// Credentials from a portal: the host's key, and a ticket for the host. They must not be stored.
    #[must_use]
    pub fn from_portal(host: PublicKey, ticket: SignedTicket) -> HostCredentials {
        HostCredentials {
            known: Some(host),
            pin: None,
            ticket: Some(ticket),
        }
    }

    /// The credential for the next handshake. A PIN is used only once, even if the handshake fails.
    ///
    /// # Errors
    /// [`HandshakeError::UnknownHost`] if there is neither a key nor a PIN.
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

    /// Records that a handshake with `trust` authenticated the host with `key`.
    pub fn authenticated(&mut self, trust: &Trust, key: PublicKey) -> PairingOutcome {
        // The host now knows this client's key.
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
    fn pairing_again_is_attempted_once() {
        let mut host = HostCredentials::new(Some(KEY), pin(), true);
        let trust = host.trust().unwrap();
        assert_eq!(key_of(&trust), None);
        // The PIN's handshake failed, so the client still trusts the known key.
        assert_eq!(key_of(&host.trust().unwrap()), Some(KEY));
        let again = PairingOutcome::PairedAgain { before: KEY };
        assert_eq!(host.authenticated(&trust, OTHER), again);
        assert_eq!(key_of(&host.trust().unwrap()), Some(OTHER));
    }
}
