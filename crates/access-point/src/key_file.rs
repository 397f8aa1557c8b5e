//! The key of the access point. It is stored in a file, so that clients that have joined once can join again after a
//! restart of the access point.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};

use crate::passphrase::Passphrase;

/// The key in the first line of a file. If the file does not exist, or with `replace`, a new key is generated and written.
///
/// # Errors
/// Returns a one-line error if the file cannot be read or written, has no key, or is readable by other users.
pub(crate) fn open(path: &Path, replace: bool) -> Result<Passphrase> {
    let shown = path.display();
    let key = match File::open(path) {
        _ if replace => return create(path).with_context(|| format!("can't write {shown}")),
        Err(why) if why.kind() == ErrorKind::NotFound => {
            return create(path).with_context(|| format!("can't write {shown}"));
        }
        Err(why) => return Err(why).with_context(|| format!("can't read {shown}")),
        Ok(file) => {
            let mode = file
                .metadata()
                .with_context(|| format!("can't read {shown}"))?
                .mode();
            if mode & 0o077 != 0 {
                bail!(
                    "{shown}: others can read this key: run chmod 600 '{shown}', or use --new-key"
                );
            }
            Passphrase::from_first_line(file).with_context(|| format!("can't read {shown}"))?
        }
    };
    key.ok_or_else(|| {
        anyhow!("{shown}: its first line is not a key of 8 to 63 printable ASCII characters: change it, or use --new-key")
    })
}

fn create(path: &Path) -> Result<Passphrase> {
    let key = Passphrase::generate().ok_or_else(|| anyhow!("the system has no random numbers"))?;
    if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    // Remove an existing file, because the mode applies only to a new one.
    match fs::remove_file(path) {
        Err(why) if why.kind() != ErrorKind::NotFound => return Err(why.into()),
        _ => {}
    }
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{}", key.text())?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_kept_until_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/access-point.key");
        let first = open(&path, false).unwrap();
        assert_eq!(open(&path, false).unwrap(), first);
        let second = open(&path, true).unwrap();
        assert_ne!(first, second);
        assert_eq!(open(&path, false).unwrap(), second);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn exposed_and_invalid_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "12345678\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let why = open(&path, false).unwrap_err().to_string();
        assert!(why.contains("chmod 600"), "{why}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(open(&path, false).is_ok());
        for text in ["", "short\n", "\u{1b}[2J1234567\n"] {
            fs::write(&path, text).unwrap();
            let why = open(&path, false).unwrap_err().to_string();
            assert!(why.contains("is not a key"), "{why}");
        }
        assert!(open(folder.path(), false).is_err());
    }
}
