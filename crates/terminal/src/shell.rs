//! Commands for a shell: in messages, from which a user copies them, and in scripts.

use std::ffi::OsStr;
use std::path::Path;

pub use openuvr_proto::shell::word;

/// The words as one shell command, quoted where necessary.
pub fn command(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let words: Vec<String> = words.into_iter().map(word).collect();
    words.join(" ")
}

/// This program as a word after `sudo`: its name, if it is in a folder in which sudo searches for programs, otherwise
/// its path.
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
