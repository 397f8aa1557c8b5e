//! A cache of the keys under which known devices tag their Begins. Without the cache, the Begin of each reconnection
//! would cost one X25519 operation.

use std::collections::VecDeque;

use zeroize::Zeroizing;

use super::noise::begin_key;
use crate::control::identity::{Identity, PublicKey};

/// Maximum number of cached keys, 64 bytes each. An evicted key is computed again when it is needed.
const KEPT: usize = 256;

/// The cached keys, oldest first.
#[derive(Default)]
pub(super) struct BeginKeys(VecDeque<(PublicKey, Zeroizing<[u8; 32]>)>);

impl BeginKeys {
    /// The tag key between `identity` and the device with the public key `key`; `None` if `key` is weak.
    pub(super) fn with(&mut self, identity: &Identity, key: PublicKey) -> Option<&[u8; 32]> {
        let place = match self.0.iter().position(|(of, _)| *of == key) {
            Some(place) => place,
            None => {
                let made = begin_key(identity, &key)?;
                if self.0.len() == KEPT {
                    self.0.pop_front();
                }
                self.0.push_back((key, made));
                self.0.len() - 1
            }
        };
        self.0.get(place).map(|(_, made)| &**made)
    }
}

#[cfg(test)]
mod tests {
    use super::{BeginKeys, KEPT};
    use crate::control::identity::{Identity, PublicKey};

    #[test]
    fn both_sides_have_one_key_and_memory_is_bounded() {
        let (host, client) = (Identity::from_bytes([1; 32]), Identity::from_bytes([2; 32]));
        let (mut here, mut there) = (BeginKeys::default(), BeginKeys::default());
        let key = *here.with(&host, client.public()).unwrap();
        assert_eq!(there.with(&client, host.public()), Some(&key));
        for n in 0..KEPT + 9 {
            let mut secret = [3; 32];
            secret[8..16].copy_from_slice(&n.to_le_bytes());
            let other = Identity::from_bytes(secret).public();
            assert_ne!(here.with(&host, other), Some(&key));
        }
        assert_eq!(here.0.len(), KEPT);
        assert_eq!(here.with(&host, client.public()), Some(&key));
        assert_eq!(here.with(&host, PublicKey([0; 32])), None);
    }
}
