//! The SQLite database file. It contains the signing key and password hashes, so only its owner can access it. The
//! portal also checks whether the file has been replaced while it is open, and copies it before an upgrade of its tables.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::geteuid;
use sqlx::AnyPool;
use tracing::{info, warn};

use super::StoreError;

/// The permissions that other users must not have for the file: reading, writing and execution.
const OTHERS_MODE: u32 = 0o077;

/// The permissions that other users must not have for the file's folder: reading and writing. Search is allowed,
/// because the home directories of applications' accounts are below the folder.
const OTHERS_FOLDER_MODE: u32 = 0o066;

/// Identifies the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DatabaseFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl DatabaseFile {
    /// Checks the database file, whose folder must exist. Creates the file if it is missing. SQLite creates its other
    /// files (`-wal`, `-shm`) with the same mode.
    ///
    /// # Errors
    /// Returns an error if the file or its folder is not writable or cannot be made private. Also returns an error if
    /// the file is empty, because a database is never empty.
    pub(super) fn prepare(path: &Path) -> Result<DatabaseFile, StoreError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let unusable = |at: &Path, why: &dyn std::fmt::Display| StoreError::Unusable {
            path: at.to_owned(),
            why: why.to_string(),
        };
        let writable = |at: &Path| access(at, Access::WRITE_OK).map_err(io::Error::from);
        writable(folder).map_err(|why| unusable(folder, &why))?;
        tighten(folder, OTHERS_FOLDER_MODE).map_err(|why| unusable(folder, &why))?;
        let mut options = OpenOptions::new();
        // An existing file is not opened here: closing it again would release all locks of this process on the file
        // (POSIX, fcntl).
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
            match tighten(Path::new(&name), OTHERS_MODE) {
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

    /// Removes the file that [`prepare`](Self::prepare) has created, if the file is still empty because SQLite could
    /// not write to it. Otherwise, the next start would refuse the empty file.
    pub(super) fn remove_if_empty(&self) {
        if fs::metadata(&self.path).is_ok_and(|of| of.len() == 0) {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Checks that the name still refers to the open file.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match fs::metadata(&self.path) {
            Ok(of) if (of.dev(), of.ino()) == (self.device, self.inode) => Ok(()),
            _ => Err(StoreError::Gone(self.path.clone())),
        }
    }

    /// Copies the database, whose tables have this version. The copy replaces an earlier one of the same version, and is
    /// complete even after a power loss.
    ///
    /// # Errors
    /// Returns an error if the copy cannot be made. An earlier copy is then unchanged.
    pub(super) async fn copy(&self, pool: &AnyPool, version: i64) -> Result<(), StoreError> {
        let copy = self.copy_of(version);
        let part = copy.with_extension("part");
        let made = make_copy(pool, &part, &copy).await;
        made.map_err(|why| {
            // An error is ignored, because the next copy removes the file first.
            let _ = fs::remove_file(&part);
            StoreError::NotCopied {
                path: copy.clone(),
                why,
            }
        })?;
        info!(
            "upgrading the database; {} is a copy that the previous version can use",
            copy.display()
        );
        Ok(())
    }

    /// The copy of the database with tables of this version, if it exists.
    pub(super) fn existing_copy(&self, version: i64) -> Option<PathBuf> {
        Some(self.copy_of(version)).filter(|copy| copy.is_file())
    }

    fn copy_of(&self, version: i64) -> PathBuf {
        self.path
            .with_file_name(format!("portal-version-{version}.sqlite"))
    }
}

/// Copies the open database to `part`, and then renames the copy to `copy`. An error is the reason only, without the
/// path.
async fn make_copy(pool: &AnyPool, part: &Path, copy: &Path) -> Result<(), String> {
    let text = |why: io::Error| why.to_string();
    match fs::remove_file(part) {
        Err(why) if why.kind() != ErrorKind::NotFound => return Err(why.to_string()),
        _ => {}
    }
    // The file is created first, to set its mode. SQLite accepts an empty file, and keeps the mode.
    let mut private = OpenOptions::new();
    private.write(true).create_new(true).mode(0o600);
    private.open(part).map_err(text)?;
    let name = part.to_str().ok_or("its path is not UTF-8")?;
    let copied = sqlx::query("VACUUM INTO $1").bind(name).execute(pool).await;
    copied.map_err(|why| match why {
        sqlx::Error::Database(why) => why.message().to_owned(),
        why => why.to_string(),
    })?;
    // SQLite does not wait until the copy is on the disk ("VACUUM", section 2.1).
    File::open(part)
        .and_then(|file| file.sync_all())
        .map_err(text)?;
    fs::rename(part, copy).map_err(text)?;
    let folder = copy.parent().unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(text)
}

/// Removes the permissions `others` of a file or folder.
///
/// # Errors
/// Returns an error if a file of another user has one of these permissions, or if all users may write to a folder of
/// another user.
fn tighten(path: &Path, others: u32) -> io::Result<()> {
    let of = fs::metadata(path)?;
    let mode = of.mode() & 0o7777;
    if mode & others == 0 {
        return Ok(());
    }
    let tight = mode & !others;
    if of.uid() == geteuid().as_raw() || geteuid().is_root() {
        warn!(
            "{}: mode {mode:o} gave access to others; changed to {tight:o}",
            path.display()
        );
        return fs::set_permissions(path, Permissions::from_mode(tight));
    }
    // On a cluster, the folder is a volume that belongs to root and to the volume's group (Kubernetes, fsGroup).
    match of.is_dir() && mode & 0o002 == 0 {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "it belongs to another user, and its mode {mode:o} gives access to others: change it to {tight:o}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn loose_permissions_are_tightened() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let file = folder.path().join("portal.sqlite");
        let wal = folder.path().join("portal.sqlite-wal");
        for path in [&file, &wal] {
            fs::write(path, "not empty").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        }
        let prepared = DatabaseFile::prepare(&file).unwrap();
        assert_eq!(
            (mode(folder.path()), mode(&file), mode(&wal)),
            (0o711, 0o600, 0o600)
        );
        prepared.check().unwrap();
        fs::rename(&wal, &file).unwrap();
        assert!(matches!(prepared.check(), Err(StoreError::Gone(_))));
    }

    #[test]
    fn an_empty_file_is_no_database() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("portal.sqlite");
        DatabaseFile::prepare(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        // An empty file remains if the portal is killed before SQLite writes to it, or after a power loss.
        assert!(matches!(
            DatabaseFile::prepare(&file),
            Err(StoreError::Empty(_))
        ));
    }
}
