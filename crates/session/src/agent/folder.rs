//! The two folders of a session. The first one contains the session's own files, and is removed when the session ends.
//! The second one is the home directory of the session's application, and may be persistent.
//!
//! This program holds a lock on the session's folder, and another on a persistent home directory. The host inherits the
//! locks (flock(2): a lock belongs to the open file, not to the process), so the folders stay locked until this program
//! and the host have ended, for whatever reason. Before they end, they end the application. The application does not
//! inherit the locks, because it could then release them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use openuvr_media::temporary_folder::{mark, remove, remove_abandoned};
use openuvr_proto::control::ticket::SessionUuid;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

/// The lock file in a folder that is in use.
const LOCK: &str = ".openuvr-session.lock";

/// The beginning of the names of sessions' folders.
const PREFIX: &str = "ouvr-";

/// The folder for a session's own files. Dropping this value removes the folder.
pub(super) struct SessionFolder {
    path: PathBuf,
    _lock: File,
}

impl SessionFolder {
    /// Creates the folder. If an earlier session with this id was killed, its files are removed. Also removes the
    /// folders of other sessions of this user that were killed together with their hosts.
    ///
    /// # Errors
    /// Returns an error if the session is already running on this machine, or if the folder cannot be created.
    pub(super) fn create(session: SessionUuid) -> Result<SessionFolder> {
        let parent = std::env::temp_dir();
        remove_abandoned(&parent, PREFIX, LOCK);
        // The name is short, because the folder contains sockets (unix(7): 108 bytes).
        let name = session.to_string().replace('-', "");
        let path = parent.join(format!("{PREFIX}{name}"));
        // A new folder gets its name after it has been locked. Otherwise, another session could take it for abandoned.
        let new = parent.join(format!(".{PREFIX}{name}"));
        let first = if path.exists() { &path } else { &new };
        let made = DirBuilder::new().mode(0o700).create(first);
        match made {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => check_owner(first)?,
            made => made.with_context(|| format!("can't create {}", first.display()))?,
        }
        let lock = lock(first)?;
        let Some(lock) = lock else {
            bail!("the session {session} is already running on this machine");
        };
        // The folder of an earlier session may have the mark of an earlier boot.
        mark(&lock);
        if first != &path {
            fs::rename(first, &path).with_context(|| format!("can't create {}", path.display()))?;
        }
        for entry in fs::read_dir(&path)?
            .flatten()
            .filter(|e| e.file_name() != LOCK)
        {
            let old = entry.path();
            let gone = match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(&old),
                false => fs::remove_file(&old),
            };
            gone.with_context(|| format!("can't remove {}", old.display()))?;
        }
        let folder = SessionFolder { path, _lock: lock };
        for inside in [folder.keys(), folder.temporary()] {
            DirBuilder::new().mode(0o700).create(inside)?;
        }
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Allows other accounts to traverse the folder, in order to access their own files in it. They cannot list it.
    pub(super) fn allow_traversal(&self) -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::Permissions::from_mode(0o711);
        fs::set_permissions(&self.path, mode).with_context(|| {
            format!(
                "can't make {} accessible to other accounts",
                self.path.display()
            )
        })
    }

    /// The folder of the host's key. An application in a sandbox or of another account cannot access this folder,
    /// unless the host runs inside the application.
    pub(super) fn keys(&self) -> PathBuf {
        self.path.join("keys")
    }

    /// The socket for a portal on this machine. `crates/portal/src/sessions/link.rs` uses the same name.
    pub(super) fn socket(&self) -> PathBuf {
        self.path.join("portal")
    }

    /// The folder for temporary files of host and application.
    pub(super) fn temporary(&self) -> PathBuf {
        self.path.join("t")
    }
}

impl Drop for SessionFolder {
    fn drop(&mut self) {
        let _ = remove(&self.path, LOCK);
    }
}

/// Checks that an existing folder belongs to this user, and that no other user can read or write it. Other users may
/// create folders next to it.
fn check_owner(path: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let about = fs::symlink_metadata(path)?;
    let mine = about.is_dir() && about.uid() == rustix::process::geteuid().as_raw();
    match mine && about.mode() & 0o066 == 0 {
        true => Ok(()),
        false => bail!(
            "{} must be a directory of this user that others can't read or write: remove it",
            path.display()
        ),
    }
}

/// The home directory of the application.
pub(super) struct SaveFolder {
    home: PathBuf,
    _lock: Option<File>,
}

impl SaveFolder {
    /// Opens the persistent home directory `wanted`, which is created if necessary. Without `wanted`, creates a home
    /// directory in the session's folder. With `shared`, the home directory will belong to another account, so that
    /// account gets access to the parent folders created here.
    ///
    /// # Errors
    /// Returns an error if another session uses the directory, or if it cannot be created.
    pub(super) fn open(
        wanted: Option<&Path>,
        folder: &SessionFolder,
        shared: bool,
    ) -> Result<SaveFolder> {
        let Some(wanted) = wanted else {
            let home = folder.path().join("home");
            DirBuilder::new().mode(0o700).create(&home)?;
            return Ok(SaveFolder { home, _lock: None });
        };
        let shown = wanted.display();
        let above = match wanted.parent() {
            Some(above) if shared => DirBuilder::new().recursive(true).mode(0o711).create(above),
            _ => Ok(()),
        };
        above.with_context(|| format!("can't create the parent folders of {shown}"))?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(wanted);
        made.with_context(|| format!("can't create the save folder {shown}"))?;
        let home = wanted.canonicalize()?;
        match lock(&home).with_context(|| format!("can't use the save folder {shown}"))? {
            Some(lock) => Ok(SaveFolder {
                home,
                _lock: Some(lock),
            }),
            None => bail!("save folder in use by another session: {shown}; end that session first"),
        }
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }
}

/// Locks a folder for this process and the host that it will start. Returns `None` if another process has locked the
/// folder.
fn lock(folder: &Path) -> Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    // Other users of the folder must not redirect the write through a link.
    options.custom_flags(libc::O_NOFOLLOW);
    let file = options.open(folder.join(LOCK))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(why) => return Err(why.into()),
    }
    fcntl_setfd(&file, FdFlags::empty())?;
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_session_and_its_saves_have_one_owner() {
        let id = SessionUuid::generate().unwrap();
        let folder = SessionFolder::create(id).unwrap();
        let again = SessionFolder::create(id).err().unwrap().to_string();
        assert!(again.contains("already running"), "{again}");
        let saves = folder.path().join("saves");
        let held = SaveFolder::open(Some(&saves), &folder, false).unwrap();
        let other = SaveFolder::open(Some(&saves), &folder, false)
            .err()
            .unwrap()
            .to_string();
        assert!(other.contains("in use by another session"), "{other}");
        drop(held);
        SaveFolder::open(Some(&saves), &folder, false).unwrap();
        fs::write(folder.path().join("left"), "x").unwrap();
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_of_an_earlier_boot_is_marked_again() {
        let id = SessionUuid::generate().unwrap();
        let path = SessionFolder::create(id).unwrap().path().to_owned();
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        let earlier = "00000000-0000-0000-0000-000000000000\n";
        fs::write(path.join(LOCK), earlier).unwrap();
        let folder = SessionFolder::create(id).unwrap();
        assert_eq!(folder.path(), path);
        let expected = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        assert_eq!(fs::read_to_string(path.join(LOCK)).unwrap(), expected);
    }

    #[test]
    fn the_folder_of_a_killed_session_is_removed() {
        let [killed, next] = [(); 2].map(|()| SessionUuid::generate().unwrap());
        let folder = SessionFolder::create(killed).unwrap();
        let path = folder.path().to_owned();
        drop(folder);
        // As after SIGKILL: the folder exists, and the lock is free.
        fs::create_dir(&path).unwrap();
        mark(&File::create(path.join(LOCK)).unwrap());
        let other = SessionFolder::create(next).unwrap();
        assert!(other.path().exists());
        // A session of another test may already be removing the folder.
        let until = Instant::now() + Duration::from_secs(60);
        while path.exists() {
            assert!(Instant::now() < until, "the folder is still there");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
