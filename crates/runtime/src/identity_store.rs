//! Stores a machine's identities: one secret key per role, in a file readable only by its owner.
//!
//! The file holds a comment line and a line of 64 hexadecimal digits. The list of trusted peers is in
//! [`crate::trust_store`].

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use openuvr_proto::control::identity::Identity;
use zeroize::Zeroizing;

use crate::store::{Lock, StoreError, failed, from_hex, replace, to_hex};

/// The owner of a machine's identity. A machine that is both host and client has two identities, so that they cannot be
/// correlated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyOwner {
    /// `host.key`
    Host,
    /// `client.key`
    Client,
}

impl KeyOwner {
    fn file(self) -> &'static str {
        match self {
            KeyOwner::Host => "host.key",
            KeyOwner::Client => "client.key",
        }
    }
}

/// The identity of `role` in the folder `dir` (see [`crate::store::config_dir`]). It is created and stored with mode
/// 0600 on the first call.
///
/// # Errors
/// [`StoreError::Exposed`] if others may read the key. [`StoreError::Corrupt`] if the file holds no key; the file is
/// not changed. Another [`StoreError`] if the file cannot be read or written.
pub fn load_or_create(dir: &Path, role: KeyOwner) -> Result<Identity, StoreError> {
    let path = dir.join(role.file());
    // Without the lock, because the folder may be read-only. Key files are replaced atomically.
    if let Some(identity) = load(&path)? {
        return Ok(identity);
    }
    let lock = Lock::take(dir)?;
    // Another process may have created the key in the meantime.
    if let Some(identity) = load(&path)? {
        return Ok(identity);
    }
    let identity = Identity::generate()?;
    let digits = Zeroizing::new(to_hex(&identity.to_bytes()));
    let content = Zeroizing::new(format!("{COMMENT}\n{}\n", *digits));
    replace(&lock, &path, content.as_bytes())?;
    Ok(identity)
}

const COMMENT: &str =
    "# OpenUVR secret key (X25519). A reader of this file can impersonate this machine.";

fn load(path: &Path) -> Result<Option<Identity>, StoreError> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed("access", path, e)),
    };
    if meta.mode() & 0o077 != 0 {
        return Err(StoreError::Exposed {
            path: path.to_owned(),
            mode: meta.mode() & 0o777,
        });
    }
    let Some(text) = crate::store::read(path)?.map(Zeroizing::new) else {
        return Ok(None);
    };
    let corrupt = |line, what: &str| StoreError::Corrupt {
        path: path.to_owned(),
        line,
        what: what.to_owned(),
    };
    let mut key = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bytes = from_hex(line)
            .ok_or_else(|| corrupt(index + 1, "expected a secret key of 64 hexadecimal digits"))?;
        if key.replace(Identity::from_bytes(bytes)).is_some() {
            return Err(corrupt(index + 1, "duplicate key"));
        }
    }
    let lines = text.lines().count().max(1);
    key.map(Some).ok_or_else(|| corrupt(lines, "no key found"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::store::ensure_dir;
    use crate::store::tests::private_folder;

    #[test]
    fn an_identity_is_made_once_per_role() {
        let temp = private_folder();
        let dir = temp.path().join("deeper/openuvr");
        let host = load_or_create(&dir, KeyOwner::Host).unwrap();
        let again = load_or_create(&dir, KeyOwner::Host).unwrap();
        let client = load_or_create(&dir, KeyOwner::Client).unwrap();
        assert_eq!(host.public(), again.public());
        assert_ne!(host.public(), client.public());
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&dir.join("host.key")), 0o600);
        assert_eq!(mode(&dir), 0o700);
    }

    #[test]
    fn a_stored_identity_is_loaded_without_writing() {
        let temp = private_folder();
        let stored = load_or_create(temp.path(), KeyOwner::Host).unwrap();
        // As in a read-only folder, the lock cannot be opened for writing.
        let lock = temp.path().join(".lock");
        fs::remove_file(&lock).unwrap();
        fs::create_dir(&lock).unwrap();
        let loaded = load_or_create(temp.path(), KeyOwner::Host).unwrap();
        assert_eq!(loaded.public(), stored.public());
        ensure_dir(temp.path()).unwrap();
        assert!(load_or_create(temp.path(), KeyOwner::Client).is_err());
    }

    #[test]
    fn simultaneous_first_starts_agree_on_one_identity() {
        let temp = private_folder();
        let keys: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        load_or_create(temp.path(), KeyOwner::Host)
                            .unwrap()
                            .public()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
    }

    #[test]
    fn an_exposed_key_is_refused_with_a_remedy() {
        let temp = private_folder();
        load_or_create(temp.path(), KeyOwner::Client).unwrap();
        let path = temp.path().join("client.key");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let why = load_or_create(temp.path(), KeyOwner::Client)
            .unwrap_err()
            .to_string();
        assert!(
            why.ends_with(&format!("run: chmod 600 '{}'", path.display())),
            "{why}"
        );
    }

    #[test]
    fn a_corrupt_key_is_reported_and_not_changed() {
        let temp = private_folder();
        let path = temp.path().join("host.key");
        for (content, line) in [
            ("", 1),
            ("# only a comment\n", 1),
            ("# c\nabc\n", 2),
            (&format!("{}\n{}\n", "11".repeat(32), "22".repeat(32)), 2),
        ] {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let why = load_or_create(temp.path(), KeyOwner::Host)
                .unwrap_err()
                .to_string();
            assert!(
                why.starts_with(&format!("{}:{line}: ", path.display())),
                "{why}"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }
}
