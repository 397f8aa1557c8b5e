//! Tests whether a different account of the machine can open the files of a portal's database. They contain the ticket
//! signing key and the password hashes. The folder is made world-readable before each start of the portal, and the
//! database before the second start.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use rustix::process::geteuid;

use super::table::{Figures, Judged, Row};
use super::victim::PortalFolder;

/// An account that owns no files: the kernel's overflow UID.
const UNPRIVILEGED: u32 = 65534;

/// The database, and the files that SQLite keeps next to it while it is open. The ticket key is initially only in
/// `-wal`, later in the database.
const FILES: [&str; 3] = ["portal.sqlite", "portal.sqlite-wal", "portal.sqlite-shm"];

/// A world-readable file as a control: another account must be able to read it.
const CONTROL: &str = "for-all";

/// Starts a portal in a world-readable folder, then starts it again with a world-readable database. Each time, tries to
/// open the files as a different account.
///
/// # Errors
/// Returns an error if a portal cannot be started, or has ended.
pub(super) fn attack(name: String) -> Result<Row> {
    let place = PortalFolder::new("")?;
    let data = place.path().join("data");
    set_mode(place.path(), 0o755)?;
    fs::create_dir(&data).with_context(|| format!("can't make {}", data.display()))?;
    set_mode(&data, 0o755)?;
    place.add_account()?;
    let figures = Figures::start(None);
    let mut tried = FileAttempts::default();
    let victim = place.start()?;
    tried.open_all(&data)?;
    let place = victim.stop();
    // Set the modes that an older portal would have left.
    set_mode(&data.join(FILES[0]), 0o644)?;
    set_mode(&data, 0o755)?;
    let mut victim = place.start()?;
    tried.open_all(&data)?;
    victim.portal.check()?;
    let struck = tried.files;
    Ok(figures.end(name, struck, None, tried.judged()))
}

#[derive(Default)]
struct FileAttempts {
    files: u64,
    /// The files that others can read.
    read: Vec<String>,
    /// The reason why the result is inconclusive; `None` if it is conclusive.
    void: Option<String>,
}

impl FileAttempts {
    /// Tries all files in the folder.
    fn open_all(&mut self, folder: &Path) -> Result<()> {
        let control = folder.join(CONTROL);
        fs::write(&control, "for all").context("can't write into the portal's folder")?;
        set_mode(&control, 0o644)?;
        if !others_can_read(&control)? {
            self.void = Some("other accounts can't read a world-readable file".to_owned());
        }
        fs::remove_file(&control)?;
        for file in FILES {
            if !folder.join(file).is_file() {
                self.void = Some(format!("the portal's folder has no {file}"));
            }
        }
        for entry in fs::read_dir(folder)?.flatten() {
            if !entry.file_type()?.is_file() {
                continue;
            }
            self.files += 1;
            if others_can_read(&entry.path())? {
                let name = entry.file_name().to_string_lossy().into_owned();
                self.read.push(name);
            }
        }
        Ok(())
    }

    fn judged(self) -> Judged {
        let FileAttempts { files, read, void } = self;
        let held = read.is_empty() && void.is_none();
        let account = match geteuid().is_root() {
            true => "another account",
            false => "another account (judged by the file modes)",
        };
        let words = match void {
            Some(why) => format!("inconclusive: {why}"),
            None if held => format!("{account} can read none of {files} files"),
            None => format!("{account} can read {}", read.join(", ")),
        };
        Judged { words, held }
    }
}

/// Whether an account that is neither the file's owner nor in its group can read the file. As root, this function tries
/// to open the file as such an account. Otherwise, it only reads the file's mode, and a file that the group can read
/// counts, too.
fn others_can_read(file: &Path) -> Result<bool> {
    let of = fs::metadata(file).with_context(|| format!("can't look at {}", file.display()))?;
    let by_mode = of.permissions().mode() & 0o044 != 0;
    if !geteuid().is_root() {
        return Ok(by_mode);
    }
    let tried = Command::new("cat")
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .uid(UNPRIVILEGED)
        .gid(UNPRIVILEGED)
        .status();
    // A container may lack that account.
    Ok(tried.map_or(by_mode, |tried| tried.success()))
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .with_context(|| format!("can't set the mode of {}", path.display()))
}
