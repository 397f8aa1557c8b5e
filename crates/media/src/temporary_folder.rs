//! Private folders of running processes. The owner of a folder keeps a file in it locked. If the owner is killed, the
//! lock becomes free, and another process of the same user removes the folder.
//!
//! Several machines may share the folder of temporary files, and may not see each other's locks. Therefore, the lock
//! file contains the boot id of its machine.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// The lock file in a [`TemporaryFolder`].
const LOCK: &str = ".openuvr.lock";

/// A folder that only this user can access. Dropping this value removes the folder.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    _lock: File,
}

impl TemporaryFolder {
    /// Creates a folder in `parent`, to which other users may have access. The folder's name consists of `prefix` and
    /// an unpredictable part. Also removes the abandoned folders with this prefix.
    ///
    /// # Errors
    /// Returns an error if the folder or its lock cannot be created.
    pub fn create(parent: &Path, prefix: &str) -> io::Result<TemporaryFolder> {
        remove_abandoned(parent, prefix, LOCK);
        // The hash is keyed with system randomness. The name is short, because the folder contains sockets (unix(7)).
        let random = RandomState::new().hash_one(std::process::id()) >> 32;
        let name = format!("{prefix}{random:08x}");
        // The folder gets its final name after its file is locked. Otherwise, another process could take the folder for
        // abandoned.
        let (new, path) = (parent.join(format!(".{name}")), parent.join(name));
        DirBuilder::new().mode(0o700).create(&new)?;
        let locked = || -> io::Result<File> {
            let lock = File::create_new(new.join(LOCK))?;
            lock.try_lock()?;
            mark(&lock);
            fs::rename(&new, &path)?;
            Ok(lock)
        };
        match locked() {
            Ok(lock) => Ok(TemporaryFolder { path, _lock: lock }),
            Err(why) => {
                let _ = fs::remove_dir_all(&new);
                Err(why)
            }
        }
    }

    /// The folder's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = remove(&self.path, LOCK);
    }
}

/// Writes this machine's boot id to a lock file that was just opened. If this fails, the folder remains if its owner is
/// killed.
pub fn mark(mut lock: &File) {
    let _ = lock.write_all(boot_id().as_bytes());
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Removes abandoned folders in `parent`: folders of this user with the prefix `prefix`, in which the file `lock` has
/// this machine's boot id ([`mark`]) and is not locked. Failures are ignored, because the next call tries again.
pub fn remove_abandoned(parent: &Path, prefix: &str, lock: &str) {
    let boot_id = boot_id();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_own = |of: &fs::Metadata| of.is_dir() && of.uid() == geteuid().as_raw();
        if !name.as_encoded_bytes().starts_with(prefix.as_bytes())
            || !entry.metadata().as_ref().is_ok_and(is_own)
        {
            continue;
        }
        let mut options = OpenOptions::new();
        // On NFS, an exclusive lock requires that the file is open for writing (flock(2)).
        options.read(true).write(true);
        options.custom_flags(libc::O_NOFOLLOW);
        if let Ok(file) = options.open(entry.path().join(lock))
            && matches!(file.try_lock(), Ok(()))
            && io::read_to_string(&file).is_ok_and(|of| of == boot_id && !of.is_empty())
        {
            let _ = remove(&entry.path(), lock);
        }
    }
}

/// Removes a folder. Its file `lock` is removed last: if another file cannot be removed now, [`remove_abandoned`] finds
/// the folder by this file, and tries again.
///
/// # Errors
/// Returns an error if a part of the folder cannot be removed.
pub fn remove(folder: &Path, lock: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == lock {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    fs::remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_abandoned_folders_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let create = || TemporaryFolder::create(parent.path(), "of-a-test-").unwrap();
        let used = create();
        let mode = fs::metadata(used.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let names = ["of-a-test-1", "of-a-test-2", "of-a-test-3", "other-1"];
        let [abandoned, without_lock, elsewhere, other] = names.map(|name| {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("file"), "").unwrap();
            folder
        });
        for folder in [&abandoned, &other] {
            fs::write(folder.join(LOCK), boot_id()).unwrap();
        }
        fs::write(elsewhere.join(LOCK), "another machine").unwrap();
        let next = create();
        assert_ne!(used.path(), next.path());
        assert!(!abandoned.exists());
        for folder in [used.path(), next.path(), &without_lock, &elsewhere, &other] {
            assert!(folder.exists(), "{}", folder.display());
        }
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_with_a_file_that_stays_keeps_its_lock() {
        let parent = tempfile::tempdir().unwrap();
        let allow = |folder: &Path, mode| {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        };
        for n in 0..16 {
            // The file system determines the order of the entries, so the test tries several names and orders of
            // creation.
            let folder = parent.path().join(format!("{n}"));
            let fixed = folder.join(format!("fixed-{n}"));
            fs::create_dir(&folder).unwrap();
            if n % 2 == 0 {
                fs::write(folder.join(LOCK), "").unwrap();
            }
            fs::create_dir(&fixed).unwrap();
            fs::write(fixed.join("file"), "").unwrap();
            fs::write(folder.join(LOCK), "").unwrap();
            allow(&fixed, 0o500);
            let removed = remove(&folder, LOCK);
            // Root may remove the file.
            assert_eq!(removed.is_err(), folder.join(LOCK).exists());
            assert_eq!(removed.is_err(), folder.exists());
            if removed.is_err() {
                allow(&fixed, 0o700);
                remove(&folder, LOCK).unwrap();
                assert!(!folder.exists());
            }
        }
    }
}
