//! On-disk state of a session. With it, a restarted portal resumes after a crash at any point.
//!
//! ```text
//! FOLDER/lock                 locked by the running portal
//! FOLDER/SESSION/spec.json    the launch specification; the folder is created with it atomically, by rename
//! FOLDER/SESSION/begun        created before the session program starts, so that the program is never started twice
//! FOLDER/SESSION/held         the program's standard input, locked while the program runs
//! FOLDER/SESSION/process.json the program's process
//! FOLDER/SESSION/said         the program's standard output, with the endpoint
//! FOLDER/SESSION/log          the program's standard error
//! FOLDER/SESSION/stop         exists if the session must end
//! FOLDER/SESSION/end.json     the session's end
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use openuvr_proto::printable::is_printable;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::process::{self, Process};
use crate::launch::log::{MAX_LOG, tail_of_file};
use crate::launch::{LaunchSpec, MAX_LINE, SessionId};

/// Maximum length of a JSON file in bytes. The specification is the longest of these files.
const MAX_FILE: u64 = 1024 * 1024;

/// How long to wait until another portal releases the lock, and the retry interval. A new child of a killed portal
/// holds the lock until the child calls execve(2), which a busy machine may delay. The values are guesses.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The end of a session, or the time since which its state is unknown.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) enum End {
    Ended { code: Option<i32>, why: String },
    Lost { since: SystemTime },
}

/// The folder of one session.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

/// All sessions under `root`. Removes incomplete folders, which have not been renamed to the id of a session.
pub(super) fn all(root: &Path) -> io::Result<Vec<(SessionId, Folder)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(".new-") {
            let _ = fs::remove_dir_all(entry.path());
        } else if let Ok(session) = name.parse() {
            found.push((session, Folder { path: entry.path() }));
        }
    }
    Ok(found)
}

/// Creates the folder of all sessions and locks it for this process. Blocks for up to [`LOCK_TIMEOUT`].
///
/// # Errors
/// Returns an error if the folder cannot be created, or if another portal uses it ([`ErrorKind::WouldBlock`]).
pub(super) fn take(root: &Path) -> io::Result<File> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(root)?;
    let lock = open(&root.join("lock"))?;
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                thread::sleep(LOCK_RETRY_INTERVAL)
            }
            Err(why) => return Err(why.into()),
        }
    }
}

impl Folder {
    /// Creates a session's folder; `None` if it exists.
    pub(super) fn make(root: &Path, spec: &LaunchSpec) -> io::Result<Option<Folder>> {
        let path = root.join(spec.session.to_string());
        if path.exists() {
            return Ok(None);
        }
        let new = root.join(format!(".new-{}", SessionId::random()));
        fs::DirBuilder::new().mode(0o700).create(&new)?;
        let folder = Folder { path: new };
        let made = (folder.write("spec.json", spec)).and_then(|()| fs::rename(&folder.path, &path));
        match made {
            Ok(()) => Ok(Some(Folder { path })),
            Err(why) => {
                let _ = fs::remove_dir_all(&folder.path);
                match why.kind() {
                    // Another call has created the folder in the meantime.
                    ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => Ok(None),
                    _ => Err(why),
                }
            }
        }
    }

    pub(super) fn spec(&self) -> io::Result<LaunchSpec> {
        let spec = self.read("spec.json")?;
        spec.ok_or_else(|| io::Error::new(ErrorKind::NotFound, "no spec.json"))
    }

    /// Launch time of the session.
    pub(super) fn launched(&self) -> Option<SystemTime> {
        fs::metadata(self.path.join("spec.json"))
            .ok()?
            .modified()
            .ok()
    }

    /// Marks the session as started. Called before its program starts. Returns an error if the session is already
    /// marked.
    pub(super) fn mark_started(&self) -> io::Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(self.path.join("begun"))?;
        file.sync_all()
    }

    pub(super) fn has_started(&self) -> bool {
        self.path.join("begun").exists()
    }

    pub(super) fn order_stop(&self) {
        let _ = open(&self.path.join("stop"));
    }

    pub(super) fn is_to_stop(&self) -> bool {
        self.path.join("stop").exists()
    }

    /// The files for the program's standard input, output and error. The file for standard input stays locked as long
    /// as a process has it open.
    pub(super) fn files(&self) -> io::Result<[File; 3]> {
        let held = open(&self.path.join("held"))?;
        held.try_lock()?;
        let append = |name| {
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(0o600);
            options.open(self.path.join(name))
        };
        Ok([held, append("said")?, append("log")?])
    }

    pub(super) fn write_process(&self, process: &Process) -> io::Result<()> {
        self.write("process.json", process)
    }

    /// The program's process; `None` if it is not running. Finds the process even if the portal was killed before it
    /// stored the process's number.
    pub(super) fn process(&self) -> Option<Process> {
        let written: Option<Process> = self.read("process.json").ok().flatten();
        match written {
            Some(process) => process.is_alive().then_some(process),
            None => {
                let held = self.path.join("held");
                // If the file is not locked, no process has it as standard input.
                let free = File::open(&held).is_ok_and(|file| file.try_lock_shared().is_ok());
                if free {
                    return None;
                }
                process::reads(&fs::canonicalize(held).ok()?)
            }
        }
    }

    /// The beginning of the program's standard output.
    pub(super) fn output(&self) -> Vec<u8> {
        let mut said = Vec::new();
        if let Ok(file) = File::open(self.path.join("said")) {
            let _ = file.take(MAX_LINE as u64 + 2).read_to_end(&mut said);
        }
        said
    }

    /// The end reason in the program's last output line, `{"why": …}`.
    pub(super) fn last_reason(&self) -> Option<String> {
        let end: serde_json::Value = serde_json::from_str(&self.last_line("said")?).ok()?;
        Some(end.get("why")?.as_str()?.to_owned())
    }

    /// The last line that the session's programs have written to standard error, as printable text; `None` if there is
    /// no line.
    pub(super) fn last_words(&self) -> Option<String> {
        self.last_line("log")
    }

    /// The end of the standard error of the session's programs.
    pub(super) fn log(&self) -> io::Result<Option<String>> {
        tail_of_file(&self.path.join("log"))
    }

    fn last_line(&self, name: &str) -> Option<String> {
        let mut log = File::open(self.path.join(name)).ok()?;
        let length = log.metadata().ok()?.len();
        let tail = length.min(1000);
        log.seek(SeekFrom::Start(length - tail)).ok()?;
        let mut end = Vec::new();
        log.take(tail).read_to_end(&mut end).ok()?;
        let text = String::from_utf8_lossy(&end);
        let line = text
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty())?;
        Some(
            line.chars()
                .filter(|c| is_printable(*c))
                .take(900)
                .collect(),
        )
    }

    /// Truncates output files that have grown too long, but keeps the endpoint line.
    pub(super) fn trim(&self) {
        let long = |name| {
            let path = self.path.join(name);
            let length = fs::metadata(&path).map_or(0, |of| of.len());
            (length > MAX_LOG).then_some(path)
        };
        if let Some(path) = long("log")
            && let Ok(file) = OpenOptions::new().write(true).open(path)
        {
            // Writers opened the file for appending, so they continue at its new end.
            let _ = file.set_len(0);
        }
        if let Some(path) = long("said")
            && let Ok(file) = OpenOptions::new().write(true).open(path)
        {
            let line = self
                .output()
                .iter()
                .position(|byte| *byte == b'\n')
                .unwrap_or(0);
            let _ = file.set_len(line as u64 + 1);
        }
    }

    pub(super) fn end(&self) -> Option<End> {
        self.read("end.json").ok().flatten()
    }

    pub(super) fn write_end(&self, end: &End) -> io::Result<()> {
        self.write("end.json", end)
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let file = match File::open(self.path.join(name)) {
            Ok(file) => file,
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(why),
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut bytes)?;
        Ok(Some(serde_json::from_slice(&bytes)?))
    }

    /// Writes a file atomically, even if the power fails.
    fn write<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        let new = self.path.join(format!(".{name}"));
        let mut file = open(&new)?;
        file.set_len(0)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        file.sync_all()?;
        fs::rename(&new, self.path.join(name))
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).open(path)
}
