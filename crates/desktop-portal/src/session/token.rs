//! The permission that a desktop has given, as a token of its portal. With it, the next session starts without a permission
//! dialog.
//!
//! A portal issues a new token with each session, and accepts each token only once.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The longest accepted token, in bytes. Those of xdg-desktop-portal are UUIDs.
const LONGEST: usize = 256;

/// The token in the file; `None` if there is no file or it contains something else.
pub(super) fn load(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let token = text.trim();
    let plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    (plain && !token.is_empty() && token.len() <= LONGEST).then(|| token.to_owned())
}

/// Stores the token in the file, which only this user can read.
///
/// # Errors
/// Returns a one-line error if the file cannot be written.
pub(super) fn save(file: &Path, token: &str) -> Result<(), String> {
    let failed = |cause: std::io::Error| {
        format!(
            "can't store the desktop's permission in {}: {cause}; at the next start, the desktop asks again",
            file.display()
        )
    };
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let new = file.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(&new).and_then(|mut opened| {
        opened.write_all(token.as_bytes())?;
        opened.sync_all()
    });
    written
        .and_then(|()| fs::rename(&new, file))
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_token_is_kept_for_this_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config/permission");
        assert_eq!(load(&file), None);
        save(&file, "6f1c2a34").unwrap();
        save(&file, "7a").unwrap();
        assert_eq!(load(&file).as_deref(), Some("7a"));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        for other in ["", "two words", "\u{7}", &"x".repeat(LONGEST + 1)] {
            fs::write(&file, other).unwrap();
            assert_eq!(load(&file), None, "{other:?}");
        }
        let why = save(Path::new("/proc/none/file"), "x").unwrap_err();
        assert!(!why.contains('\n'), "{why}");
    }
}
