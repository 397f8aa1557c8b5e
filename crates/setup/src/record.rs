//! The record of the changes. `openuvr setup --undo` uses it to reverse them.
//!
//! A change is recorded before it is made, and removed from the record after its reversal. Therefore, even if the
//! program is interrupted, the record contains all changes that were made. The file is replaced atomically. It contains
//! no secrets, so all users may read it. A lock on its folder keeps a second process from changing the record.
//!
//! The reversal runs the recorded commands as root. A record that another account could have written is refused.

use std::fs::{self, File, Metadata, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::changes::Change;
use crate::system::System;

/// Debian's packages of the portal use the same folder.
const FOLDER: &str = "/var/lib/openuvr";
pub(crate) const FILE: &str = "/var/lib/openuvr/setup.json";

/// The format of the file.
const VERSION: u32 = 1;

/// The changes of all steps.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    steps: Vec<Entry>,
}

/// The changes of a step, in their order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) step: String,
    pub(crate) changes: Vec<Change>,
}

/// The record in memory. It can be changed only while the folder is locked.
#[derive(Debug)]
pub(crate) struct Record {
    contents: Contents,
    lock: Option<File>,
}

impl Record {
    /// Reads the record. If there is no file, the record is empty.
    ///
    /// # Errors
    /// Returns an error if the file is damaged, or was written by a later version.
    pub(crate) fn read(system: &System<'_>) -> Result<Record> {
        let contents = match system.read(FILE)? {
            None => Contents {
                version: VERSION,
                steps: Vec::new(),
            },
            Some(text) => parse(&text)?,
        };
        Ok(Record {
            contents,
            lock: None,
        })
    }

    /// Creates and locks the folder, and reads the record.
    ///
    /// # Errors
    /// As [`read`](Self::read); also if another process holds the lock, if the folder cannot be created, or if another
    /// account owns the folder or the file.
    pub(crate) fn open(system: &System<'_>) -> Result<Record> {
        let folder = system.path(FOLDER);
        let made = fs::create_dir_all(folder.parent().unwrap_or(&folder));
        let made = made.and_then(|()| system.make_folder(FOLDER));
        let lock = made.and_then(|()| File::open(&folder));
        let lock = lock.with_context(|| {
            format!("can't create {FOLDER}; check that its file system is writable and has space")
        })?;
        let data = lock.metadata();
        let data = data.with_context(|| format!("can't read {FOLDER}"))?;
        check_owner(FOLDER, &data)?;
        if let Ok(data) = fs::symlink_metadata(system.path(FILE)) {
            check_owner(FILE, &data)?;
        }
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("another openuvr setup is running: wait until it has ended")
            }
            Err(TryLockError::Error(why)) => {
                return Err(why).with_context(|| format!("can't lock {FOLDER}"));
            }
        }
        Ok(Record {
            lock: Some(lock),
            ..Record::read(system)?
        })
    }

    /// The steps with changes, in the order in which they were made.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.contents.steps
    }

    /// The texts that setup has written into a file.
    pub(crate) fn texts(&self, path: &Path) -> &[String] {
        let mut all = self.contents.steps.iter().flat_map(|entry| &entry.changes);
        let texts = all.find_map(|change| match change {
            Change::File(file) if file.path == path => Some(&*file.texts),
            _ => None,
        });
        texts.unwrap_or_default()
    }

    /// Adds a change that is about to be made. Returns the recorded change, and whether it is new. The recorded change
    /// of a file also contains the texts that earlier runs have written.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written. In this case, the change must not be made.
    pub(crate) fn add(
        &mut self,
        system: &System<'_>,
        step: &str,
        change: &Change,
    ) -> Result<(Change, bool)> {
        let mut contents = self.contents.clone();
        let position = contents.steps.iter().position(|entry| entry.step == step);
        let position = position.unwrap_or_else(|| {
            contents.steps.push(Entry {
                step: step.to_owned(),
                changes: Vec::new(),
            });
            contents.steps.len() - 1
        });
        let changes = &mut contents.steps[position].changes;
        let known = changes.iter_mut().find(|known| is_same(known, change));
        let (recorded, is_new) = match known {
            Some(Change::File(known)) => {
                if let Change::File(file) = change
                    && known.text() != file.text()
                {
                    known.texts.extend(file.texts.iter().cloned());
                }
                (Change::File(known.clone()), false)
            }
            Some(known) => (known.clone(), false),
            None => {
                changes.push(change.clone());
                (change.clone(), true)
            }
        };
        self.replace(system, contents)?;
        Ok((recorded, is_new))
    }

    /// Removes a change after its reversal.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written. The reversal can be repeated.
    pub(crate) fn remove(
        &mut self,
        system: &System<'_>,
        step: &str,
        change: &Change,
    ) -> Result<()> {
        let mut contents = self.contents.clone();
        for entry in &mut contents.steps {
            if entry.step == step {
                entry.changes.retain(|known| known != change);
            }
        }
        contents.steps.retain(|entry| !entry.changes.is_empty());
        self.replace(system, contents)
    }

    fn replace(&mut self, system: &System<'_>, contents: Contents) -> Result<()> {
        assert!(self.lock.is_some(), "the record is changed under its lock");
        if contents.steps.is_empty() {
            system.remove(FILE)?;
        } else if contents != self.contents {
            let mut text = serde_json::to_string_pretty(&contents)?;
            text.push('\n');
            system.write(FILE, &text)?;
        }
        self.contents = contents;
        Ok(())
    }

    /// Removes the folder if it is empty. Call it last.
    pub(crate) fn close(self, system: &System<'_>) {
        // The portal's data may be in the folder.
        let _ = fs::remove_dir(system.path(FOLDER));
    }
}

/// Fails if another account owns the path.
fn check_owner(path: &str, data: &Metadata) -> Result<()> {
    let owner = data.uid();
    if owner != geteuid().as_raw() {
        bail!(
            "can't trust the record {FILE}: the account with the user id {owner} owns {path}, and could have written the \
             record; check the record, then run chown root: {path}"
        );
    }
    Ok(())
}

/// Whether two changes are recorded as one. For a device, the values `before` may differ. The recorded change then
/// keeps the values of the first run.
fn is_same(known: &Change, change: &Change) -> bool {
    match (known, change) {
        (Change::File(known), Change::File(file)) => known.path == file.path,
        (Change::Node(known), Change::Node(node)) => known.path == node.path,
        (known, change) => known == change,
    }
}

fn parse(text: &str) -> Result<Contents> {
    /// The field that exists in all versions of the format.
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    if let Ok(Version { version }) = serde_json::from_str(text)
        && version > VERSION
    {
        bail!("{FILE} was written by a later version of openuvr: use that version");
    }
    serde_json::from_str(text).with_context(|| {
        format!("{FILE} is damaged: undo the changes that it lists by hand, then remove the file")
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;
    use crate::changes::files::TextFile;
    use crate::system::Installed;

    fn file(text: &str) -> Change {
        Change::File(TextFile::new("/etc/a.conf", text))
    }

    #[test]
    fn changes_are_recorded_once_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let system = System::new(root.path(), &Installed, true);
        let mut record = Record::open(&system).unwrap();
        let reload = Change::Reload(vec!["true".to_owned()]);
        assert_eq!(
            record.add(&system, "one", &file("a")).unwrap(),
            (file("a"), true)
        );
        assert!(record.add(&system, "one", &reload).unwrap().1);
        assert!(!record.add(&system, "one", &reload).unwrap().1);
        // The second text of a file is added to the first one.
        let (both, is_new) = record.add(&system, "one", &file("b")).unwrap();
        assert!(!is_new);
        assert_eq!(record.texts(Path::new("/etc/a.conf")), ["a", "b"]);
        let read = Record::read(&system).unwrap();
        assert_eq!(read.contents, record.contents);
        assert_eq!(read.entries()[0].changes, [both.clone(), reload.clone()]);

        record.remove(&system, "one", &both).unwrap();
        record.remove(&system, "one", &reload).unwrap();
        assert!(record.entries().is_empty());
        record.close(&system);
        assert!(!system.path(FOLDER).exists());
    }

    #[test]
    fn a_second_process_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let system = System::new(root.path(), &Installed, true);
        let record = Record::open(&system).unwrap();
        let why = Record::open(&system).unwrap_err().to_string();
        assert!(why.contains("another openuvr setup is running"), "{why}");
        assert!(Record::read(&system).unwrap().entries().is_empty());
        drop(record);
        Record::open(&system).unwrap();
    }

    #[test]
    fn a_record_of_another_account_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let system = System::new(root.path(), &Installed, true);
        let folder = system.path(FOLDER);
        let refused = |path: &str| {
            let why = Record::open(&system).unwrap_err().to_string();
            assert!(why.contains(&format!(" owns {path}, ")), "{why}");
        };
        if !geteuid().is_root() {
            // The folder is a link to `/usr`, which belongs to root.
            fs::create_dir_all(folder.parent().unwrap()).unwrap();
            symlink("/usr", &folder).unwrap();
            refused(FOLDER);
            return;
        }
        fs::create_dir_all(&folder).unwrap();
        chown(&folder, Some(1), None).unwrap();
        refused(FOLDER);
        chown(&folder, Some(0), None).unwrap();
        fs::write(system.path(FILE), "").unwrap();
        chown(system.path(FILE), Some(1), None).unwrap();
        refused(FILE);
    }

    #[test]
    fn a_damaged_or_later_record_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let system = System::new(root.path(), &Installed, true);
        fs::create_dir_all(system.path(FOLDER)).unwrap();
        let cases = [
            ("", "is damaged"),
            ("{\"version\": 1}", "is damaged"),
            (
                "{\"version\": 1, \"steps\": [{\"step\": \"a\", \"changes\": [{\"x\": 1}]}]}",
                "is damaged",
            ),
            ("{\"version\": 2, \"plans\": []}", "later version"),
        ];
        for (text, words) in cases {
            fs::write(system.path(FILE), text).unwrap();
            let why = format!("{:#}", Record::open(&system).unwrap_err());
            assert!(why.contains(words), "{text}: {why}");
            assert_eq!(system.read(FILE).unwrap().unwrap(), text);
        }
    }
}
