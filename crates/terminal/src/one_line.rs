//! Foreign text in messages: values, names and reasons from files and peers.

/// The text as one short line: at most its first 200 characters, with control characters escaped.
#[must_use]
pub fn visible(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut shown = String::new();
    for c in text.chars().take(LONGEST) {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_the_end_is_cut() {
        assert_eq!(visible("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\nb");
        let long = "é".repeat(201);
        assert_eq!(visible(&long), "é".repeat(200) + "…");
        assert_eq!(visible(&long[2..]), "é".repeat(200));
    }
}
