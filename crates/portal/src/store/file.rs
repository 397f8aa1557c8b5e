//! The file of SQLite's database: the owner's alone, since it has the key of tickets and the hashes of passwords, and
//! the same file for as long as it is open.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::geteuid;
use tracing::warn;

use super::StoreError;

/// What others may do with the file: nothing.
const OF_OTHERS: u32 = 0o077;

/// What others may do in its folder: go through it, where the homes of applications' accounts lie below.
const OF_OTHERS_IN_FOLDER: u32 = 0o066;

/// Which file it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DatabaseFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl DatabaseFile {
    /// The file, made if there is none, in a folder that is there. SQLite gives its further files (`-wal`, `-shm`)
    /// the mode of this one.
    ///
    /// # Errors
    /// It or its folder can't be written to or made the owner's alone, or it is empty, which no database is.
    pub(super) fn prepare(path: &Path) -> Result<DatabaseFile, StoreError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let unusable = |at: &Path, why: &dyn std::fmt::Display| StoreError::Unusable {
            path: at.to_owned(),
            why: why.to_string(),
        };
        let writable = |at: &Path| access(at, Access::WRITE_OK).map_err(io::Error::from);
        writable(folder).map_err(|why| unusable(folder, &why))?;
        tighten(folder, OF_OTHERS_IN_FOLDER).map_err(|why| unusable(folder, &why))?;
        let mut options = OpenOptions::new();
        // Never opened where it is there: a file's locks are lost where its process closes it once (POSIX, fcntl).
        match options.write(true).create_new(true).mode(0o600).open(path) {
            Ok(_) => {}
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {
                let of = fs::metadata(path).map_err(|why| unusable(path, &why))?;
                writable(path).map_err(|why| unusable(path, &why))?;
                if of.len() == 0 {
                    return Err(StoreError::Empty(path.to_owned()));
                }
            }
            Err(why) => return Err(unusable(path, &why)),
        }
        for end in ["", "-wal", "-shm"] {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            match tighten(Path::new(&name), OF_OTHERS) {
                Err(why) if why.kind() != ErrorKind::NotFound => {
                    return Err(unusable(Path::new(&name), &why));
                }
                _ => {}
            }
        }
        let of = fs::metadata(path).map_err(|why| unusable(path, &why))?;
        Ok(DatabaseFile {
            path: path.to_owned(),
            device: of.dev(),
            inode: of.ino(),
        })
    }

    /// Whether the file of this name is still the one that is open.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match fs::metadata(&self.path) {
            Ok(of) if (of.dev(), of.ino()) == (self.device, self.inode) => Ok(()),
            _ => Err(StoreError::Gone(self.path.clone())),
        }
    }
}

/// Takes from others what they may not do.
///
/// # Errors
/// It is another user's, and others may write to it or, of a file, read it.
fn tighten(path: &Path, others: u32) -> io::Result<()> {
    let of = fs::metadata(path)?;
    let mode = of.mode() & 0o7777;
    if mode & others == 0 {
        return Ok(());
    }
    let tight = mode & !others;
    if of.uid() == geteuid().as_raw() || geteuid().is_root() {
        warn!(
            "{}: mode {mode:o} let others in; it is {tight:o} now",
            path.display()
        );
        return fs::set_permissions(path, Permissions::from_mode(tight));
    }
    // A volume of a cluster is root's, and its group's (Kubernetes, fsGroup).
    match of.is_dir() && mode & 0o002 == 0 {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "it is another user's, and its mode {mode:o} lets others in: make it {tight:o}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::SessionId;

    fn folder() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("openuvr-store-{}", SessionId::random()));
        fs::create_dir(&folder).unwrap();
        folder
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_loose_is_tightened() {
        let folder = folder();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        let file = folder.join("portal.sqlite");
        let wal = folder.join("portal.sqlite-wal");
        for path in [&file, &wal] {
            fs::write(path, "not empty").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        }
        let prepared = DatabaseFile::prepare(&file).unwrap();
        assert_eq!(
            (mode(&folder), mode(&file), mode(&wal)),
            (0o711, 0o600, 0o600)
        );
        prepared.check().unwrap();
        fs::rename(&wal, &file).unwrap();
        assert!(matches!(prepared.check(), Err(StoreError::Gone(_))));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_empty_file_is_no_database() {
        let folder = folder();
        let file = folder.join("portal.sqlite");
        DatabaseFile::prepare(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        // As a portal leaves it that was killed before SQLite wrote to it, or a disk that lost power.
        assert!(matches!(
            DatabaseFile::prepare(&file),
            Err(StoreError::Empty(_))
        ));
        fs::remove_dir_all(&folder).unwrap();
    }
}
