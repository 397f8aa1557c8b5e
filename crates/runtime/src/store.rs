//! Small files that survive a power loss and concurrent programs.
//!
//! A file is replaced atomically (temporary file, fsync, rename, fsync of the folder). A writer holds the folder's lock
//! from reading to replacing, so that a running host and `openuvr devices` do not lose each other's changes. Readers
//! take no lock, and see either the old file or the new one. The contents are described in [`crate::identity_store`]
//! and [`crate::trust_store`].

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt as _, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use openuvr_proto::control::identity::NoRandomness;

/// The default configuration folder, with keys and trust: `$XDG_CONFIG_HOME/openuvr`, or otherwise `~/.config/openuvr`
/// (XDG Base Directory Specification 0.8: a relative path in the variable counts as unset).
///
/// # Errors
/// [`StoreError::NoHome`] if neither `XDG_CONFIG_HOME` nor `HOME` is set to an absolute path.
pub fn config_dir() -> Result<PathBuf, StoreError> {
    config_dir_from(|name| std::env::var_os(name).map(PathBuf::from))
}

fn config_dir_from(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, StoreError> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".config")))
        .ok_or(StoreError::NoHome)?;
    Ok(base.join("openuvr"))
}

/// Why a store could not be read or changed. After an error, the store is unchanged, unless only the fsync of the
/// folder failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no configuration folder.
    #[error(
        "neither XDG_CONFIG_HOME nor HOME is set: set the configuration folder (--config-dir FOLDER)"
    )]
    NoHome,
    /// An operating system error.
    #[error("can't {what} {}: {source}", path.display())]
    Io {
        /// The failed operation.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file's content is invalid. The file is not changed.
    #[error("{}:{line}: {what}; fix the line, or move the file away to start over", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The error.
        what: String,
    },
    /// The permissions let other users read a secret key.
    #[error(
        "{}: others can read this secret key (mode {mode:03o}); if another user may have read it, remove the file and \
         pair again; otherwise, run: chmod 600 '{}'",
        path.display(), path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The permissions let other users change the trusted peers.
    #[error(
        "{}: others can change the trusted peers (mode {mode:03o}); if no other user has changed them, run: chmod \
         go-w '{}'",
        path.display(), path.display()
    )]
    Writable {
        /// The file or folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file or folder belongs to another user, so its permission bits give no protection.
    #[error(
        "{}: owned by another user (id {owner}); the trusted peers must not be writable by others: change \
         its owner with chown, or choose another folder (--config-dir FOLDER)",
        path.display()
    )]
    Foreign {
        /// The file or folder.
        path: PathBuf,
        /// Its owner's user id.
        owner: u32,
    },
    /// The path names a folder, a device or a pipe. It is not read, because the read might never end.
    #[error("{}: not a regular file", path.display())]
    NoFile {
        /// Its path.
        path: PathBuf,
    },
    /// The file is too long to be one of OpenUVR's.
    #[error("{}: not a file of OpenUVR, because it is longer than {} KiB", path.display(), MAX_FILE >> 10)]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// No keys can be generated.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// No device has this name or fingerprint.
    #[error("no device has the name or fingerprint '{which}': run `openuvr devices list`")]
    NoSuchDevice {
        /// The name or fingerprint given.
        which: String,
    },
    /// More than one device matches this name or fingerprint.
    #[error(
        "'{which}' matches {count} devices: specify the fingerprint, or more of its digits (`openuvr devices list`)"
    )]
    Ambiguous {
        /// The name or fingerprint given.
        which: String,
        /// The number of matching devices.
        count: usize,
    },
}

/// Creates `dir` (mode 0700) if it does not exist.
///
/// # Errors
/// [`StoreError`] if the folder cannot be created, or if others may change it.
pub fn ensure_dir(dir: &Path) -> Result<(), StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| failed("create folder", dir, e))?;
    let meta = fs::metadata(dir).map_err(|e| failed("access", dir, e))?;
    check_owner(dir, &meta)
}

/// Holds a folder's lock until it is dropped.
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock of `dir`. The folder is created if it does not exist (mode 0700).
    ///
    /// # Errors
    /// [`StoreError`] if the folder cannot be created or locked, or if others may change it.
    pub fn take(dir: &Path) -> Result<Lock, StoreError> {
        ensure_dir(dir)?;
        let path = dir.join(".lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|e| failed("open", &path, e))?;
        file.lock().map_err(|e| failed("lock", &path, e))?;
        Ok(Lock { _file: file })
    }
}

/// Like [`write_whole`], for a caller that has read the file and changed its content. The caller holds the folder's
/// lock from the read to the end of this call.
pub(crate) fn replace(_lock: &Lock, path: &Path, content: &[u8]) -> Result<(), StoreError> {
    write_whole(path, content)
}

/// Replaces the file at `path` atomically. The new file has mode 0600 and this content.
///
/// # Errors
/// [`StoreError::Io`] if the file cannot be written. The old file is then unchanged, unless only the fsync of the
/// folder failed. The temporary file is removed.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let temporary = path.with_added_extension("new");
    match fs::remove_file(&temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(failed("remove", &temporary, e));
        }
        _ => {}
    }
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()
    };
    let written = write().map_err(|e| failed("write", &temporary, e));
    let replaced =
        written.and_then(|()| fs::rename(&temporary, path).map_err(|e| failed("replace", path, e)));
    if let Err(why) = replaced {
        // A part of a secret key must not stay behind, for example if the disk is full.
        let _ = fs::remove_file(&temporary);
        return Err(why);
    }
    // A bare file name has an empty parent.
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|e| failed("write folder", folder, e))
}

/// Identifies a version of a file. [`replace`] creates a new inode for each version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    inode: u64,
    modified: (i64, i64),
    length: u64,
}

impl Stamp {
    /// The stamp of the file at `path`; `None` if there is no file.
    pub(crate) fn of(path: &Path) -> Result<Option<Stamp>, StoreError> {
        match fs::metadata(path) {
            Ok(meta) => Ok(Some(Stamp {
                inode: meta.ino(),
                modified: (meta.mtime(), meta.mtime_nsec()),
                length: meta.len(),
            })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed("access", path, e)),
        }
    }
}

/// The maximum length in bytes of a file of keys, trust or settings. It is enough for some thousand devices.
pub const MAX_FILE: u64 = 1 << 20;

/// Reads a file of keys or trust; `None` if it does not exist.
///
/// # Errors
/// The errors of [`read_text`], and [`StoreError::Writable`] or [`StoreError::Foreign`] if others may change the file
/// or its folder.
pub(crate) fn read(path: &Path) -> Result<Option<String>, StoreError> {
    if let Some(folder) = path.parent()
        && let Ok(meta) = fs::metadata(folder)
    {
        check_owner(folder, &meta)?;
    }
    match open(path)? {
        Some((file, meta)) => {
            check_owner(path, &meta)?;
            text_of(path, file).map(Some)
        }
        None => Ok(None),
    }
}

/// Reads the file at `path`, of at most [`MAX_FILE`] bytes; `None` if it does not exist. `/dev/null` reads as an empty
/// file.
///
/// # Errors
/// [`StoreError::NoFile`], [`StoreError::TooLong`], [`StoreError::Corrupt`] if it is not UTF-8, or [`StoreError::Io`].
pub fn read_text(path: &Path) -> Result<Option<String>, StoreError> {
    match open(path)? {
        Some((file, _)) => text_of(path, file).map(Some),
        None => Ok(None),
    }
}

/// Opens a regular file, or `/dev/null`. Other files are refused, because a pipe may block the reader and reading a
/// device may never end.
fn open(path: &Path) -> Result<Option<(File, Metadata)>, StoreError> {
    let mut options = OpenOptions::new();
    // Opening a pipe without a writer would block.
    let opened = options.read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed("read", path, e)),
    };
    let meta = file.metadata().map_err(|e| failed("access", path, e))?;
    // `/dev/null` is the character device 1:3 (Linux, Documentation/admin-guide/devices.txt).
    let is_null = meta.file_type().is_char_device() && meta.rdev() == libc::makedev(1, 3);
    if !(meta.is_file() || is_null) {
        return Err(StoreError::NoFile {
            path: path.to_owned(),
        });
    }
    Ok(Some((file, meta)))
}

fn text_of(path: &Path, file: File) -> Result<String, StoreError> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE + 1).read_to_end(&mut bytes);
    read.map_err(|e| failed("read", path, e))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(StoreError::TooLong {
            path: path.to_owned(),
        });
    }
    String::from_utf8(bytes).map_err(|_| StoreError::Corrupt {
        path: path.to_owned(),
        line: 1,
        what: "not UTF-8 text".to_owned(),
    })
}

/// Checks that only this user and the superuser may change a file or folder.
fn check_owner(path: &Path, meta: &Metadata) -> Result<(), StoreError> {
    let owner = meta.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(StoreError::Foreign {
            path: path.to_owned(),
            owner,
        });
    }
    if meta.mode() & 0o022 != 0 {
        return Err(StoreError::Writable {
            path: path.to_owned(),
            mode: meta.mode() & 0o777,
        });
    }
    Ok(())
}

/// An error of the operation `what` on `path`.
pub(crate) fn failed(what: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io {
        what,
        path: path.to_owned(),
        source,
    }
}

/// `bytes` as lower-case hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The 32 bytes that 64 hexadecimal digits represent.
pub(crate) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A temporary folder for this user only, whatever the umask.
    pub(crate) fn private_folder() -> TempDir {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::Permissions::from_mode(0o700);
        tempfile::Builder::new()
            .permissions(mode)
            .tempdir()
            .unwrap()
    }

    #[test]
    fn the_folder_follows_the_environment() {
        let dir = |xdg: Option<&str>, home: Option<&str>| {
            config_dir_from(|name| match name {
                "XDG_CONFIG_HOME" => xdg.map(PathBuf::from),
                _ => home.map(PathBuf::from),
            })
        };
        assert_eq!(
            dir(Some("/c"), Some("/h")).unwrap(),
            Path::new("/c/openuvr")
        );
        assert_eq!(
            dir(Some("c"), Some("/h")).unwrap(),
            Path::new("/h/.config/openuvr")
        );
        assert!(matches!(dir(None, None), Err(StoreError::NoHome)));
    }

    #[test]
    fn a_replaced_file_is_private_complete_and_has_a_new_stamp() {
        let dir = private_folder();
        let path = dir.path().join("file.toml");
        let lock = Lock::take(dir.path()).unwrap();
        fs::write(path.with_added_extension("new"), "left behind by a crash").unwrap();
        replace(&lock, &path, b"one").unwrap();
        let first = Stamp::of(&path).unwrap();
        replace(&lock, &path, b"two").unwrap();
        assert_ne!(Stamp::of(&path).unwrap(), first);
        assert_eq!(read(&path).unwrap().unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(!path.with_added_extension("new").exists());
    }

    #[test]
    fn a_failed_replacement_leaves_no_temporary_file() {
        let dir = private_folder();
        let path = dir.path().join("file.toml");
        // A file cannot replace a folder.
        fs::create_dir(&path).unwrap();
        let why = write_whole(&path, b"secret").unwrap_err().to_string();
        assert!(why.starts_with("can't replace "), "{why}");
        assert!(!path.with_added_extension("new").exists());
    }

    #[test]
    fn a_file_writable_by_others_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = private_folder();
        let path = dir.path().join("file.toml");
        fs::write(&path, "x").unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for (file, folder) in [
            (0o664, 0o700),
            (0o602, 0o700),
            (0o600, 0o770),
            (0o600, 0o707),
        ] {
            set(&path, file);
            set(dir.path(), folder);
            let why = read(&path).unwrap_err().to_string();
            let which = if folder == 0o700 { &path } else { dir.path() };
            let remedy = format!("run: chmod go-w '{}'", which.display());
            assert!(why.ends_with(&remedy), "{why}");
            assert_eq!(Lock::take(dir.path()).is_err(), folder != 0o700);
            // `read_text`, which reads settings, does not check permissions.
            assert_eq!(read_text(&path).unwrap().unwrap(), "x");
        }
        set(&path, 0o644);
        set(dir.path(), 0o755);
        assert_eq!(read(&path).unwrap().unwrap(), "x");
        // A file of another user, if this test may change owners.
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
            let why = read(&path).unwrap_err().to_string();
            assert!(why.contains("another user (id 65534)"), "{why}");
        }
    }

    #[test]
    fn only_regular_files_of_a_megabyte_are_read() {
        let dir = private_folder();
        let file = dir.path().join("file");
        let length = usize::try_from(MAX_FILE).unwrap();
        fs::write(&file, "x".repeat(length)).unwrap();
        assert_eq!(read_text(&file).unwrap().unwrap().len(), length);
        fs::write(&file, "x".repeat(length + 1)).unwrap();
        assert!(matches!(read_text(&file), Err(StoreError::TooLong { .. })));
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        for path in [
            &pipe,
            dir.path(),
            Path::new("/dev/zero"),
            Path::new("/dev/urandom"),
        ] {
            let why = read_text(path).unwrap_err();
            assert!(matches!(why, StoreError::NoFile { .. }), "{why}");
        }
        assert_eq!(read_text(Path::new("/dev/null")).unwrap().unwrap(), "");
        assert!(read_text(&dir.path().join("nothing")).unwrap().is_none());
    }

    #[test]
    fn hex_goes_both_ways() {
        let bytes = std::array::from_fn(|n| u8::try_from(n * 7).unwrap());
        assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        assert_eq!(from_hex(&"+1".repeat(32)), None);
        assert_eq!(from_hex("00"), None);
    }
}
