//! Commands for a shell: in messages, from which a user copies them, and in scripts.

use std::ffi::OsStr;
use std::path::Path;

/// The text as one word of a shell command (POSIX, "Shell Command Language", section 2.2): in quotation marks, unless it
/// consists of letters, digits and a few other characters. Invalid UTF-8 is replaced.
pub fn word(text: impl AsRef<OsStr>) -> String {
    let text = text.as_ref().to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.into_owned(),
        // For each quotation mark, the quotation ends, an escaped mark follows, and another quotation begins.
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// The words as a command.
pub fn command(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let words: Vec<String> = words.into_iter().map(word).collect();
    words.join(" ")
}

/// This program as a word after `sudo`: its name in a folder in which sudo searches for programs, otherwise its path.
#[must_use]
pub fn for_sudo() -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "openuvr".into());
    match (program.parent().and_then(Path::to_str), program.file_name()) {
        (Some("/usr/bin" | "/usr/local/bin"), Some(name)) => word(name),
        _ => word(program),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_the_word_unchanged() {
        assert_eq!(word("/usr/bin/openuvr"), "/usr/bin/openuvr");
        assert_eq!(word("/home/my games"), "'/home/my games'");
        assert_eq!(
            command(["lab", "wifi", "signal=40|30,4", "it's"]),
            r"lab wifi 'signal=40|30,4' 'it'\''s'"
        );
        for text in [
            "", "a b", "it's", "$HOME", "`x`", "~", "a\\b", "a\nb", "*", "é", "#", "a;b",
        ] {
            let script = format!("printf %s {}", word(text));
            let shell = Command::new("sh").arg("-c").arg(script).output();
            assert_eq!(shell.expect("a shell").stdout, text.as_bytes(), "{text}");
        }
    }
}
