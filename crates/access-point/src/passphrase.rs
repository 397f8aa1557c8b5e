//! The key of a network.
//!
//! Spec: IEEE 802.11-2020, J.4.1 (passphrases of 8 to 63 printable ASCII characters). SAE permits other passwords, too,
//! but a key in this form serves both WPA2 and WPA3.

use std::fmt;
use std::io::{self, Read};

use rustix::rand::{GetRandomFlags, getrandom};

/// The characters of generated keys, without 0, 1, l and o, which look alike. Each of the 32 characters encodes 5 bits.
const ALPHABET: &[u8; 32] = b"23456789abcdefghijkmnpqrstuvwxyz";

/// The number of groups in a generated key.
const GROUPS: usize = 4;

/// The number of characters in a group. A key has 4 · 5 · 5 bits = 100 bits. An attacker with a recorded WPA2 handshake
/// can try keys without the access point, about 10⁶ per second on each graphics card.
const GROUP: usize = 5;

/// The maximum number of bytes that are read from a file with a passphrase.
const LONGEST_FILE: u64 = 1024;

/// A passphrase: 8 to 63 printable ASCII characters.
#[derive(Clone, PartialEq, Eq)]
pub struct Passphrase(String);

impl Passphrase {
    /// `None` if the text is not a passphrase.
    #[must_use]
    pub fn new(text: &str) -> Option<Passphrase> {
        let valid = (8..=63).contains(&text.len()) && text.bytes().all(|b| matches!(b, 32..=126));
        valid.then(|| Passphrase(text.to_owned()))
    }

    /// The passphrase in the first line of a file, of which at most 1 KiB is read; `None` if that line is not a passphrase.
    ///
    /// # Errors
    /// Returns the system's error, or an error if the text is not UTF-8.
    pub fn from_first_line(file: impl Read) -> io::Result<Option<Passphrase>> {
        let mut text = String::new();
        file.take(LONGEST_FILE).read_to_string(&mut text)?;
        Ok(Passphrase::new(text.lines().next().unwrap_or_default()))
    }

    /// A new random passphrase; `None` if the system provides no random numbers.
    #[must_use]
    pub fn generate() -> Option<Passphrase> {
        let mut random = [0; GROUPS * GROUP];
        let mut filled = 0;
        while filled < random.len() {
            match getrandom(&mut random[filled..], GetRandomFlags::empty()).ok()? {
                0 => return None,
                some => filled += some,
            }
        }
        Some(Passphrase::from_random(&random))
    }

    fn from_random(random: &[u8; GROUPS * GROUP]) -> Passphrase {
        let letters: Vec<char> = (random.iter())
            .map(|byte| ALPHABET[usize::from(byte % 32)].into())
            .collect();
        let groups: Vec<String> = letters.chunks(GROUP).map(String::from_iter).collect();
        Passphrase(groups.join("-"))
    }

    /// The passphrase as text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Omits the key, because values are printed in messages and logs.
impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passphrases_are_8_to_63_printable_ascii_characters() {
        assert!(Passphrase::new("1234567").is_none());
        assert!(Passphrase::new(&"x".repeat(64)).is_none());
        assert!(Passphrase::new("with\ttab").is_none() && Passphrase::new("schlüssel").is_none());
        let key = Passphrase::new("a \"b\" #c\\").unwrap();
        assert_eq!(key.text(), "a \"b\" #c\\");
        assert_eq!(format!("{key:?}"), "Passphrase(…)");
    }

    #[test]
    fn generated_keys_are_readable_and_differ() {
        let key = Passphrase::from_random(&std::array::from_fn(|n| u8::try_from(n).unwrap()));
        assert_eq!(key.text(), "23456-789ab-cdefg-hijkm");
        let [one, other] = [(); 2].map(|()| Passphrase::generate().unwrap());
        assert_ne!(one, other);
        assert_eq!(Passphrase::new(one.text()), Some(one));
    }
}
