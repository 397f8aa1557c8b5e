//! Stateless challenges for log-ins (as in RFC 9147 section 5.1). A client that requests many challenges occupies no
//! memory of the gateway and does not invalidate another browser's challenge.
//!
//! ```text
//!  0         8          24                  56
//!  | time    | nonce    | tag                |    tag = HMAC-SHA256(key, PURPOSE network time nonce)
//!  | u64 BE  | 16 bytes | 32 bytes           |    time: milliseconds since the gateway started
//! ```
//!
//! A challenge can be answered repeatedly while it is valid. A replayed log-in has the same effect as the first one. A
//! replay requires the bytes of the first log-in, which only the endpoints of its TLS connection have.

use std::time::Duration;

use aws_lc_rs::{hmac, rand};
use openuvr_proto::time::Instant;
use openuvr_runtime::connection_limits::Network;

/// Validity of a challenge.
pub(crate) const CHALLENGE_LIFE: Duration = Duration::from_secs(60);

/// Length of a challenge in bytes.
pub(crate) const CHALLENGE: usize = 56;

/// Domain separation: prefix of the data that the tag authenticates.
const PURPOSE: &[u8] = b"openuvr browser challenge 1";

/// Creates and verifies challenges with a key of this process.
pub(crate) struct Challenges {
    key: hmac::Key,
    began: Instant,
}

impl Challenges {
    /// Returns `None` if the system provides no randomness.
    pub(crate) fn new(now: Instant) -> Option<Challenges> {
        let random = rand::SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random).ok()?;
        Some(Challenges { key, began: now })
    }

    /// A challenge for this network.
    pub(crate) fn make(&self, now: Instant, network: Network) -> Option<[u8; CHALLENGE]> {
        let mut challenge = [0; CHALLENGE];
        let (said, tag) = challenge.split_at_mut(24);
        said[..8].copy_from_slice(&self.millis(now).to_be_bytes());
        rand::fill(&mut said[8..]).ok()?;
        tag.copy_from_slice(hmac::sign(&self.key, &signed(network, said)).as_ref());
        Some(challenge)
    }

    /// Whether this process created the challenge for this network less than [`CHALLENGE_LIFE`] ago. Costs one HMAC.
    pub(crate) fn is_valid(
        &self,
        now: Instant,
        network: Network,
        challenge: &[u8; CHALLENGE],
    ) -> bool {
        let (said, tag) = challenge.split_at(24);
        let [a, b, c, d, e, f, g, h, ..] = *challenge;
        let made = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let age = self.millis(now).checked_sub(made);
        age.is_some_and(|age| u128::from(age) < CHALLENGE_LIFE.as_millis())
            && hmac::verify(&self.key, &signed(network, said), tag).is_ok()
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.since(self.began).as_millis()).unwrap_or(u64::MAX)
    }
}

fn signed(network: Network, said: &[u8]) -> Vec<u8> {
    [PURPOSE, &network.bytes(), said].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_for_one_network_and_a_minute() {
        let start = Instant(5_000_000_000);
        let challenges = Challenges::new(start).unwrap();
        let network = |text: &str| Network::of(text.parse().unwrap());
        let (here, there) = (network("192.0.2.1"), network("192.0.2.2"));
        let made = start + Duration::from_secs(100);
        let challenge = challenges.make(made, here).unwrap();
        assert!(challenges.is_valid(made, here, &challenge));
        let last = made + CHALLENGE_LIFE - Duration::from_millis(1);
        assert!(challenges.is_valid(last, here, &challenge));
        assert!(!challenges.is_valid(made + CHALLENGE_LIFE, here, &challenge));
        assert!(!challenges.is_valid(start, here, &challenge));
        assert!(!challenges.is_valid(made, there, &challenge));
        for at in 0..CHALLENGE {
            let mut other = challenge;
            other[at] ^= 1;
            assert!(!challenges.is_valid(made, here, &other), "byte {at}");
        }
        // Another process does not accept this challenge.
        let other = Challenges::new(start).unwrap();
        assert!(!other.is_valid(made, here, &challenge));
    }

    #[test]
    fn other_challenges_do_not_displace_one() {
        let now = Instant(0);
        let challenges = Challenges::new(now).unwrap();
        let here = Network::of([127, 0, 0, 1].into());
        let first = challenges.make(now, here).unwrap();
        for _ in 0..10_000 {
            assert_ne!(challenges.make(now, here), Some(first));
        }
        assert!(challenges.is_valid(now, here, &first));
    }
}
