//! Tokens of logged-in browsers. Each device has its own limit, so that repeated log-ins from a device first invalidate
//! its own tokens.

use std::collections::VecDeque;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use openuvr_proto::control::identity::PublicKey;

use crate::visitor::Visitor;

/// Maximum tokens per device. A browser keeps the newest; tabs that log in at the same time may keep an older one.
const PER_DEVICE: usize = 4;

/// Maximum tokens of all devices (a guess: enough for several school classes that log in with a portal's tickets).
const ALL: usize = 256;

/// Length of a token in bytes.
pub(crate) const TOKEN: usize = 32;

/// The tokens, oldest first.
#[derive(Default)]
pub(crate) struct Tokens(VecDeque<([u8; TOKEN], Visitor)>);

impl Tokens {
    /// Adds a token of this visitor. Removes the device's oldest token beyond the limit or, if the table is full, the oldest
    /// token of the device with the most tokens.
    pub(crate) fn add(&mut self, token: [u8; TOKEN], visitor: Visitor) {
        let of = |device: &PublicKey| {
            let same = |(_, other): &&([u8; TOKEN], Visitor)| other.device == *device;
            self.0.iter().filter(same).count()
        };
        let loses = if of(&visitor.device) >= PER_DEVICE {
            Some(visitor.device)
        } else if self.0.len() >= ALL {
            // On a tie, `max_by_key` returns the last one: the oldest.
            let devices = self.0.iter().rev().map(|(_, other)| other.device);
            devices.max_by_key(of)
        } else {
            None
        };
        if let Some(device) = loses
            && let Some(at) = (self.0.iter()).position(|(_, other)| other.device == device)
        {
            self.0.remove(at);
        }
        self.0.push_back((token, visitor));
    }

    pub(crate) fn visitor(&self, token: &[u8; TOKEN]) -> Option<&Visitor> {
        let same = |other: &[u8; TOKEN]| verify_slices_are_equal(other, token).is_ok();
        let found = self.0.iter().find(|(other, _)| same(other));
        found.map(|(_, visitor)| visitor)
    }

    pub(crate) fn has(&self, device: &PublicKey) -> bool {
        (self.0.iter()).any(|(_, visitor)| visitor.device == *device)
    }

    /// Removes this device's tokens.
    pub(crate) fn forget(&mut self, device: &PublicKey) {
        self.0.retain(|(_, visitor)| visitor.device != *device);
    }
}

#[cfg(test)]
mod tests {
    use openuvr_proto::control::identity::DeviceName;
    use openuvr_proto::control::negotiate::Role;

    use super::*;

    fn visitor(device: u16) -> Visitor {
        let mut key = [0; 32];
        key[..2].copy_from_slice(&device.to_be_bytes());
        Visitor {
            device: PublicKey(key),
            name: DeviceName::new("a browser"),
            title: "a browser".to_owned(),
            most: Role::Player,
        }
    }

    fn token(device: u16, n: u16) -> [u8; TOKEN] {
        let mut token = [0; TOKEN];
        token[..2].copy_from_slice(&device.to_be_bytes());
        token[2..4].copy_from_slice(&n.to_be_bytes());
        token
    }

    #[test]
    fn repeated_log_ins_only_expire_the_devices_own_tokens() {
        let mut tokens = Tokens::default();
        tokens.add(token(1, 0), visitor(1));
        for n in 0..5000 {
            tokens.add(token(2, n), visitor(2));
        }
        assert_eq!(tokens.visitor(&token(1, 0)), Some(&visitor(1)));
        assert_eq!(tokens.visitor(&token(2, 4999)), Some(&visitor(2)));
        assert_eq!(tokens.visitor(&token(2, 4995)), None);
        assert_eq!(tokens.0.len(), 1 + PER_DEVICE);
        tokens.forget(&visitor(2).device);
        assert!(tokens.has(&visitor(1).device) && !tokens.has(&visitor(2).device));
    }

    #[test]
    fn in_a_full_table_the_device_with_most_loses_its_oldest() {
        let mut tokens = Tokens::default();
        let many = u16::try_from(ALL).unwrap() - 1;
        tokens.add(token(0, 0), visitor(0));
        tokens.add(token(0, 1), visitor(0));
        for device in 1..many {
            tokens.add(token(device, 0), visitor(device));
        }
        tokens.add(token(many, 0), visitor(many));
        assert_eq!(tokens.visitor(&token(0, 0)), None);
        assert_eq!(tokens.visitor(&token(0, 1)), Some(&visitor(0)));
        assert_eq!(tokens.visitor(&token(1, 0)), Some(&visitor(1)));
        // Now each device has one token, so the oldest token is removed.
        tokens.add(token(many + 1, 0), visitor(many + 1));
        assert_eq!(tokens.visitor(&token(0, 1)), None);
        assert_eq!(tokens.0.len(), ALL);
    }
}
