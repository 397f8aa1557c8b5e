//! Hexadecimal digits. The protocol's HTTP requests carry bytes in this form.

use std::fmt::Write as _;

/// `bytes` as upper-case digits, as other hosts of this protocol send them.
#[must_use]
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02X}");
    }
    text
}

/// The bytes of `text`; `None` unless `text` is an even number of hexadecimal digits.
#[must_use]
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = digits.chunks_exact(2);
    pairs
        .map(|pair| u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_and_other_texts_are_refused() {
        assert_eq!(to_hex(&[0, 0x7f, 0xff]), "007FFF");
        assert_eq!(from_hex("007fFF"), Some(vec![0, 0x7f, 0xff]));
        assert_eq!(from_hex(""), Some(Vec::new()));
        for bad in ["0", "0g", "+1", "é1", " 1"] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }
}
