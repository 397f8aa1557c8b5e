//! Quotes words of shell commands in messages, from which a user copies them.

use std::ffi::OsStr;

/// The text as one word of a shell command (POSIX, "Shell Command Language", section 2.2): in quotation marks, unless
/// it consists of letters, digits and a few other characters. Invalid UTF-8 is replaced.
#[must_use]
pub fn word(text: impl AsRef<OsStr>) -> String {
    let text = text.as_ref().to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.into_owned(),
        // For each quotation mark, the quotation ends, an escaped mark follows, and another quotation begins.
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_special_characters_are_quoted() {
        assert_eq!(word("/usr/bin/openuvr"), "/usr/bin/openuvr");
        assert_eq!(word("/home/my games"), "'/home/my games'");
        assert_eq!(word("it's"), r"'it'\''s'");
        assert_eq!(word(""), "''");
    }
}
