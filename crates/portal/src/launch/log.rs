//! The end of a session's log, as plain text.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// A log is truncated when it exceeds this length in bytes (a guess). An application that writes indefinitely must not
/// fill the disk.
pub(super) const MAX_LOG: u64 = 4 * 1024 * 1024;

/// Maximum length in bytes of the end of a log that users see: a few screens of text (a guess).
pub const MAX_TAIL: usize = 16 * 1024;

/// The last [`MAX_TAIL`] bytes of a log. If the log is longer, the first line of this part may be incomplete. This line
/// is removed, unless no line break follows it. Control characters other than line breaks and tabs are removed.
pub(super) fn tail(log: &[u8]) -> String {
    let whole = log.len() <= MAX_TAIL;
    let end = &log[log.len().saturating_sub(MAX_TAIL)..];
    let first = match end.iter().position(|byte| *byte == b'\n') {
        Some(at) if !whole => at + 1,
        _ => 0,
    };
    let text = String::from_utf8_lossy(&end[first..]);
    text.chars()
        .filter(|c| matches!(c, '\n' | '\t') || !c.is_control())
        .collect()
}

/// The [`tail`] of a file; `None` if the file does not exist.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub(super) fn tail_of_file(path: &Path) -> io::Result<Option<String>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why),
    };
    // One byte more than the maximum, so that `tail` can see that the text does not start at the file's beginning.
    let most = MAX_TAIL as u64 + 1;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut end = Vec::new();
    file.take(most).read_to_end(&mut end)?;
    Ok(Some(tail(&end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_starts_with_a_complete_line() {
        let log: Vec<u8> = (0..4000)
            .flat_map(|n| format!("line {n}\n").into_bytes())
            .collect();
        let end = tail(&log);
        assert!(end.len() <= MAX_TAIL && end.len() > MAX_TAIL - 20);
        assert!(end.starts_with("line ") && end.ends_with("line 3999\n"));
        let number: usize = end.lines().next().unwrap()[5..].parse().unwrap();
        assert_eq!(end.lines().count(), 4000 - number);
    }

    #[test]
    fn a_log_is_shown_as_plain_text() {
        assert_eq!(
            tail(b"\x1b[31mred\r\n\tcaf\xe9\0"),
            "[31mred\n\tcaf\u{fffd}"
        );
        assert_eq!(tail(b""), "");
    }

    #[test]
    fn a_file_without_a_newline_is_cut_by_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        assert_eq!(tail_of_file(&path).unwrap(), None);
        std::fs::write(&path, "x".repeat(3 * MAX_TAIL)).unwrap();
        assert_eq!(tail_of_file(&path).unwrap().unwrap().len(), MAX_TAIL);
    }
}
