//! What of a text may be shown to a person: names and words that peers, files and other processes
//! give end on terminals, in tables and in titles of windows, and nothing in them may steer a
//! terminal, break a line, or change the order in which the text around them is read.

/// The part of `text` that may be shown, on one line.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().filter(|c| is_printable(*c)).collect()
}

/// Whether a character may be shown: no control character, none that has no width, and none of those
/// that reorder the text around them (Unicode Standard Annex 9, section 2: explicit directional
/// formatting characters and implicit marks).
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
    fn what_steers_a_terminal_or_turns_a_line_is_left_out() {
        let evil = "a\u{1b}[2Jb\r\n\tc\u{9b}d\u{202e}e\u{2066}f\u{61c}g\u{200f}h\u{feff}i\u{e0041}";
        assert_eq!(printable(evil), "a[2Jbcdefghi");
        assert_eq!(printable("Büro – 机 (2)"), "Büro – 机 (2)");
    }
}
