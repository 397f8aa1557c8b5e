//! COMPOUND_TEXT, the text format of old programs. It consists of parts in several character sets. Escape sequences
//! select the character set.
//!
//! ASCII, Latin-1, Latin-9 and UTF-8 are supported. Today, programs that use other character sets also provide
//! UTF8_STRING.
//!
//! Spec: X.Org's "Compound Text Encoding", version 1.1.

/// Decodes text; `None` if the text is invalid or uses a character set that is not supported.
pub(super) fn decoded(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    let mut right = Right::Latin1;
    let mut rest = bytes;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            ESCAPE => {
                // The character set that follows, and the length of its escape sequence.
                let (set, length) = match rest {
                    // Selects ASCII for the left half, which this module always reads as ASCII.
                    [b'(', b'B', ..] => (right, 2),
                    [b'-', b'A', ..] => (Right::Latin1, 2),
                    [b'-', b'b', ..] => (Right::Latin9, 2),
                    [b'%', b'G', utf8 @ ..] => {
                        let end = utf8.windows(3).position(|end| end == [ESCAPE, b'%', b'@']);
                        let part = &utf8[..end.unwrap_or(utf8.len())];
                        text.push_str(std::str::from_utf8(part).ok()?);
                        (right, 2 + part.len() + end.map_or(0, |_| 3))
                    }
                    _ => return None,
                };
                right = set;
                rest = &rest[length..];
            }
            b'\t' | b'\n' | b' '..=b'~' => text.push(char::from(byte)),
            // Text direction (CSI 1 ], CSI 2 ], CSI ]).
            0x9b => {
                let end = rest.iter().position(|byte| *byte == b']')?;
                rest = &rest[end + 1..];
            }
            0xa0.. => text.push(right.character(byte)),
            _ => return None,
        }
    }
    Some(text)
}

const ESCAPE: u8 = 0x1b;

/// The character set of bytes from 0xa0.
#[derive(Clone, Copy)]
enum Right {
    Latin1,
    Latin9,
}

impl Right {
    fn character(self, byte: u8) -> char {
        match (self, byte) {
            // Differences between ISO 8859-15 and ISO 8859-1.
            (Right::Latin9, 0xa4) => '\u{20ac}',
            (Right::Latin9, 0xa6) => '\u{160}',
            (Right::Latin9, 0xa8) => '\u{161}',
            (Right::Latin9, 0xb4) => '\u{17d}',
            (Right::Latin9, 0xb8) => '\u{17e}',
            (Right::Latin9, 0xbc) => '\u{152}',
            (Right::Latin9, 0xbd) => '\u{153}',
            (Right::Latin9, 0xbe) => '\u{178}',
            (_, byte) => char::from(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_follow_each_other_and_unknown_ones_are_refused() {
        let is = |bytes: &[u8], text: &str| assert_eq!(decoded(bytes).as_deref(), Some(text));
        is(b"plain\ttext\n", "plain\ttext\n");
        is(b"caf\xe9", "caf\u{e9}");
        is(
            b"\x1b(B\x1b-A\xfc \x1b-b\xa4\x1b-A\xa4",
            "\u{fc} \u{20ac}\u{a4}",
        );
        is("\u{1b}%G\u{6f22}\u{1b}%@ end".as_bytes(), "\u{6f22} end");
        is("\u{1b}%G\u{6f22}".as_bytes(), "\u{6f22}");
        is(b"\x9b1]left\x9b]", "left");
        for broken in [
            &b"\x1b$(B\x34\x41"[..],
            b"\x1b",
            b"\x1b-",
            b"\x1b%G\xff\x1b%@",
            b"\x9b1",
            b"a\0",
        ] {
            assert_eq!(decoded(broken), None, "{broken:?}");
        }
    }
}
