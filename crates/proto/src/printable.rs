//! Sanitises text for display. Names and text from peers, files and other processes appear on terminals, in tables and in
//! window titles, and must not control a terminal, break a line, or reorder the surrounding text.

/// The printable part of `text`, on one line.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().filter(|c| is_printable(*c)).collect()
}

/// Whether a character is printable: not a control character, a line or paragraph separator, an invisible format
/// character (such as a zero-width space), or a character that reorders the surrounding text (Unicode Standard Annex 9,
/// section 2: explicit directional formatting characters and implicit marks).
#[must_use]
pub fn is_printable(c: char) -> bool {
    !(c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_are_removed() {
        let evil = "a\u{1b}[2Jb\r\n\tc\u{9b}d\u{202e}e\u{2066}f\u{61c}g\u{200f}h\u{feff}i\u{e0041}";
        assert_eq!(printable(evil), "a[2Jbcdefghi");
        assert_eq!(printable("Büro – 机 (2)"), "Büro – 机 (2)");
    }
}
