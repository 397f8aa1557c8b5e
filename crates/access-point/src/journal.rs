//! The record of changes to this machine's network, and their reversal.
//!
//! A change is recorded before it is made, in a file for the interface. After a kill or a crash, the next start finds
//! the file and reverses its changes first. A restart of the machine undoes the changes, and also empties the folder
//! that contains the file. A lock on a second file shows whether the process that made the changes is still running.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::card::Card;
use crate::iw::interfaces::{self, is_name};
use crate::programs::{ProcessId, Program};

/// How long a step of the reversal may take.
const STEP: Duration = Duration::from_secs(15);

/// Maximum size of a file that is read.
const LONGEST: u64 = 64 << 10;

/// The changes to an interface: additions, and the previous values of changed settings.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Changes {
    pub(crate) interface: String,
    /// Started programs.
    #[serde(default)]
    pub(crate) processes: Vec<ProcessId>,
    /// Added addresses, with their prefix lengths.
    #[serde(default)]
    pub(crate) addresses: Vec<String>,
    /// The previous mode.
    pub(crate) mode: Option<String>,
    /// Whether the interface was up before; `None` if this was not recorded.
    pub(crate) up: Option<bool>,
    /// The previous country.
    pub(crate) country: Option<String>,
    /// The added profile of NetworkManager.
    pub(crate) profile: Option<String>,
    /// The identifier of the previous connection.
    pub(crate) connection: Option<String>,
    /// Files that were written outside the journal's folder.
    #[serde(default)]
    pub(crate) files: Vec<PathBuf>,
}

/// The folder of the journal's files: a system folder for root, otherwise a folder of the user's session.
///
/// # Errors
/// Returns an error if it cannot be created, or belongs to another user.
pub(crate) fn folder() -> Result<PathBuf> {
    let base = match geteuid().is_root() {
        true => PathBuf::from("/run"),
        false => std::env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .ok_or_else(|| {
                anyhow!("this user has no session (XDG_RUNTIME_DIR is not set): log in, or run the command as root")
            })?,
    };
    let folder = base.join("openuvr-radio");
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder);
    made.with_context(|| format!("can't create {}", folder.display()))?;
    let data = fs::symlink_metadata(&folder)?;
    if !data.is_dir() || data.uid() != geteuid().as_raw() {
        bail!(
            "{} is not a folder of this user: remove it",
            folder.display()
        );
    }
    Ok(folder)
}

/// The record of an interface. Its changes are reversed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    changes: Changes,
    /// Locked until this value is dropped.
    _lock: File,
}

impl Journal {
    /// Begins the record of an interface, after reversing the changes of an interrupted process.
    ///
    /// # Errors
    /// Returns an error if another process uses the interface, or if the folder is unusable.
    pub(crate) fn open(folder: &Path, interface: &str) -> Result<Journal> {
        let lock = lock(folder, interface)?;
        let lock = lock.ok_or_else(|| {
            anyhow!(
                "{interface} is already used by another openuvr program on this machine: end that program first"
            )
        })?;
        let journal = Journal {
            folder: folder.to_owned(),
            changes: Changes {
                interface: interface.to_owned(),
                ..Changes::default()
            },
            _lock: lock,
        };
        for problem in reverse_file(&journal.path()) {
            eprintln!("openuvr: {problem}");
        }
        Ok(journal)
    }

    fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.toml", self.changes.interface))
    }

    pub(crate) fn interface(&self) -> &str {
        &self.changes.interface
    }

    /// Records a change that is about to be made.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written. In this case, the change must not be made.
    pub(crate) fn record(&mut self, change: impl FnOnce(&mut Changes)) -> Result<()> {
        change(&mut self.changes);
        let text = toml::to_string(&self.changes).context("can't record the changes")?;
        let name = format!("{}.toml", self.changes.interface);
        write_file(&self.folder, &name, &text).map(drop)
    }

    /// Writes a file for this interface that only this user can read. The reversal of the changes also removes the
    /// file.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        write_file(&self.folder, &format!("{}.{name}", self.interface()), text)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        for problem in reverse_file(&self.path()) {
            eprintln!("openuvr: {problem}");
        }
    }
}

/// Reverses the changes of all interrupted processes, and returns the names of the changed interfaces.
///
/// # Errors
/// Returns an error if the folder cannot be read.
pub(crate) fn reverse_interrupted(folder: &Path) -> Result<Vec<String>> {
    let mut interfaces = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let file = entry.path();
        let name = file.file_name().and_then(|name| name.to_str());
        let Some(interface) = name.and_then(|name| name.strip_suffix(".toml")) else {
            continue;
        };
        // A running process holds the lock, and reverses its changes itself.
        let Some(_lock) = (is_name(interface).then(|| lock(folder, interface)))
            .transpose()?
            .flatten()
        else {
            continue;
        };
        for problem in reverse_file(&file) {
            eprintln!("openuvr: {problem}");
        }
        interfaces.push(interface.to_owned());
    }
    Ok(interfaces)
}

/// The lock of an interface; `None` if another process has it.
fn lock(folder: &Path, interface: &str) -> Result<Option<File>> {
    let path = folder.join(format!("{interface}.lock"));
    let mut options = File::options();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    let file = options.open(&path);
    let file = file.with_context(|| format!("can't open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(why)) => {
            Err(why).with_context(|| format!("can't lock {}", path.display()))
        }
    }
}

/// Replaces a file atomically: a crash leaves the old one or the new one.
fn write_file(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let (path, new) = (folder.join(name), folder.join(format!("{name}.new")));
    let write = || -> std::io::Result<()> {
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&new)?.write_all(text.as_bytes())?;
        fs::rename(&new, &path)
    };
    write().with_context(|| format!("can't write {}", path.display()))?;
    Ok(path)
}

/// Reverses the changes that a file records, and removes this file and the other files of its interface. Returns the
/// problems, one line each.
fn reverse_file(path: &Path) -> Vec<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
    let mut problems = match read {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(why) => vec![format!("can't read {}: {why}", path.display())],
        Ok(_) => match toml::from_str::<Changes>(&text) {
            Ok(changes) if is_name(&changes.interface) => reverse(&changes),
            _ => vec![format!(
                "{} is damaged, so openuvr can't undo the changes recorded in it: restart this machine to undo them",
                path.display()
            )],
        },
    };
    // The lock file remains, because another process may have opened it. After a removal, the next process would lock a
    // different file.
    let interface = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default();
    let files = path.parent().and_then(|folder| fs::read_dir(folder).ok());
    for file in files.into_iter().flatten().flatten() {
        let name = file.file_name();
        let suffix = name
            .to_str()
            .and_then(|name| name.strip_prefix(interface)?.strip_prefix('.'));
        // The name of another interface may begin with this name and a dot.
        let is_own =
            |suffix: &str| suffix != "lock" && !suffix.trim_end_matches(".new").contains('.');
        if suffix.is_some_and(is_own)
            && let Err(why) = fs::remove_file(file.path())
        {
            problems.push(format!("can't remove {}: {why}", file.path().display()));
        }
    }
    problems
}

/// Reverses the changes that were made. Each step is skipped if there is nothing to do. Returns the problems.
fn reverse(changes: &Changes) -> Vec<String> {
    for process in &changes.processes {
        process.end();
    }
    for file in &changes.files {
        // An error is ignored: the file may not have been written.
        let _ = fs::remove_file(file);
    }
    let mut problems = Vec::new();
    let mut must = |program: &Program, words: &[&str]| {
        if let Err(why) = program.run(words, STEP) {
            problems.push(why.to_string());
        }
    };
    if let (Some(profile), Some(nmcli)) = (&changes.profile, Program::find("nmcli")) {
        // An error is ignored: the profile may not have been added, or may already be gone.
        let _ = nmcli.run(&["connection", "delete", "id", profile], STEP);
        if let Some(connection) = &changes.connection {
            let words = [
                "connection",
                "up",
                "uuid",
                connection,
                "ifname",
                &changes.interface,
            ];
            must(&nmcli, &words);
        }
    }
    let iw = Program::find("iw");
    // For a card that has been unplugged, there is nothing to reverse.
    if let (Some(card), Some(ip)) = (Card::of(&changes.interface), Program::find("ip")) {
        let interface = card.interface.as_str();
        for address in &changes.addresses {
            // An error is ignored: if the interface was down in the meantime, the address is already gone.
            let _ = ip.run(&["address", "del", address, "dev", interface], STEP);
        }
        if let (Some(mode), Some(iw)) = (&changes.mode, &iw)
            && mode_of(iw, interface).as_ref() != Some(mode)
        {
            // The mode can be changed only while the interface is down.
            must(&ip, &["link", "set", interface, "down"]);
            must(iw, &["dev", interface, "set", "type", mode]);
        }
        if let Some(up) = changes.up.filter(|up| card.is_up() != *up) {
            let word = if up { "up" } else { "down" };
            must(&ip, &["link", "set", interface, word]);
        }
    }
    if let (Some(country), Some(iw)) = (&changes.country, &iw) {
        must(iw, &["reg", "set", country]);
    }
    problems
}

/// The current mode of an interface.
fn mode_of(iw: &Program, interface: &str) -> Option<String> {
    let listed = iw.run(&["dev"], STEP).ok()?;
    let all = interfaces::parse(&listed).into_iter();
    let found = all.into_iter().find(|one| one.name == interface);
    found.map(|one| one.mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_process_leaves_a_record() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keep");
        fs::write(&file, "").unwrap();
        let mut journal = Journal::open(folder.path(), "wlan99").unwrap();
        journal
            .record(|changes| changes.files.push(file.clone()))
            .unwrap();
        journal.write("conf", "secret").unwrap();
        let mode = fs::metadata(folder.path().join("wlan99.conf"))
            .unwrap()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        // The journal refuses a second process.
        let why = Journal::open(folder.path(), "wlan99").unwrap_err();
        assert!(why.to_string().contains("already used"), "{why}");
        assert!(reverse_interrupted(folder.path()).unwrap().is_empty());
        // Creates the state that a killed process leaves: its changes have not been reversed, and the lock is free.
        let left = fs::read(folder.path().join("wlan99.toml")).unwrap();
        drop(journal);
        assert!(!file.exists() && !folder.path().join("wlan99.toml").exists());
        fs::write(folder.path().join("wlan99.toml"), left).unwrap();
        fs::write(folder.path().join("wlan99.conf"), "secret").unwrap();
        let others = ["wlan9.conf", "wlan99.1.conf", "wlan99.1.lock"];
        for other in others {
            fs::write(folder.path().join(other), "another").unwrap();
        }
        fs::write(&file, "").unwrap();
        assert_eq!(reverse_interrupted(folder.path()).unwrap(), ["wlan99"]);
        assert!(!file.exists() && !folder.path().join("wlan99.conf").exists());
        for other in others {
            assert!(folder.path().join(other).exists(), "{other}");
        }
    }

    #[test]
    fn a_damaged_record_is_removed_and_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wlan99.toml");
        for text in ["\0", "interface = 7", "interface = \"../x\"", "other = 1"] {
            fs::write(&path, text).unwrap();
            let problems = reverse_file(&path);
            assert!(problems[0].contains("damaged"), "{problems:?}");
            assert!(!path.exists());
        }
        assert!(reverse_file(&path).is_empty());
    }

    #[test]
    fn records_are_written_as_they_are_read() {
        let changes = Changes {
            interface: "wlan0".to_owned(),
            addresses: vec!["192.168.71.1/24".to_owned()],
            mode: Some("managed".to_owned()),
            up: Some(false),
            country: Some("00".to_owned()),
            ..Changes::default()
        };
        let text = toml::to_string(&changes).unwrap();
        assert_eq!(toml::from_str::<Changes>(&text).unwrap(), changes);
    }
}
