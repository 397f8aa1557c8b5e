//! The name of a network.
//!
//! Spec: IEEE 802.11-2020, 9.4.2.2 (SSID element).

use std::fmt;

use openuvr_proto::printable::is_printable;

/// The maximum length of a name in bytes.
pub(crate) const LONGEST: usize = 32;

/// A network's name: 1 to 32 bytes, which are text only by convention.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ssid(Vec<u8>);

impl Ssid {
    /// Returns `None` if there are no bytes, or more than 32.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Ssid> {
        let bytes = bytes.into();
        (1..=LONGEST).contains(&bytes.len()).then_some(Ssid(bytes))
    }

    /// The bytes of the name.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name as text, if it is printable text without line breaks.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        let text = std::str::from_utf8(&self.0).ok()?;
        text.chars().all(is_printable).then_some(text)
    }

    /// The bytes of the name in hexadecimal digits, a form that needs no escaping in configuration files.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The name on one line, without characters that control a terminal, because the names of unknown networks may contain
/// any bytes.
impl fmt::Display for Ssid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match is_printable(c) {
                    true => write!(f, "{c}")?,
                    false => write!(f, "{}", c.escape_unicode())?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Ssid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ssid({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_have_1_to_32_bytes() {
        assert_eq!(Ssid::new(""), None);
        assert!(Ssid::new([0; 32]).is_some() && Ssid::new([0; 33]).is_none());
        let desk = Ssid::new("Büro 2").unwrap();
        assert_eq!(desk.text(), Some("Büro 2"));
        assert_eq!(desk.hex(), "42c3bc726f2032");
    }

    proptest! {
        #[test]
        fn a_shown_name_controls_no_terminal(bytes in prop::collection::vec(any::<u8>(), 1..=32)) {
            let ssid = Ssid::new(bytes).unwrap();
            prop_assert!(ssid.to_string().chars().all(is_printable));
            if let Some(text) = ssid.text() {
                prop_assert_eq!(ssid.to_string(), text);
            }
        }
    }
}
