//! The resource limits of a session. They are checked by polling, because not every machine allows its users to set
//! limits (cgroups). A container engine with limits applies them itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::descendants;

/// The interval at which the use of memory is checked.
const MEMORY_INTERVAL: Duration = Duration::from_secs(1);

/// The interval at which the use of disk space is checked.
const DISK_INTERVAL: Duration = Duration::from_secs(2);

/// The maximum number of files of a session, which also bounds the time of a check.
const MAX_FILES: usize = 200_000;

/// The limits of a session.
pub(super) struct Limits {
    memory: Option<u64>,
    disk: u64,
    folders: [PathBuf; 2],
    memory_at: Instant,
    disk_at: Instant,
}

impl Limits {
    /// Creates limits in bytes for memory and disk space. `folders` are the home directory and the session's own
    /// folder.
    pub(super) fn new(memory: Option<u64>, disk: u64, folders: [&Path; 2]) -> Limits {
        let now = Instant::now();
        Limits {
            memory,
            disk,
            folders: folders.map(Path::to_owned),
            memory_at: now,
            disk_at: now,
        }
    }

    /// The limit that has been exceeded, as a message.
    pub(super) fn exceeded(&mut self) -> Option<String> {
        let now = Instant::now();
        if let Some(limit) = self.memory
            && now >= self.memory_at
        {
            self.memory_at = now + MEMORY_INTERVAL;
            if descendants::memory() > limit {
                let limit = mebibytes(limit);
                return Some(format!("memory limit exceeded ({limit} MiB)"));
            }
        }
        if now >= self.disk_at {
            self.disk_at = now + DISK_INTERVAL;
            let [home, own] = &self.folders;
            // A temporary home directory lies in the session's own folder.
            let all = [own, home].into_iter();
            let apart = all.take(if home.starts_with(own) { 1 } else { 2 });
            // Reaches 0 at the first file beyond the maximum.
            let mut files = MAX_FILES + 1;
            let taken = apart
                .map(|folder| disk_usage(folder, &mut files))
                .sum::<u64>();
            if taken > self.disk {
                let (limit, home) = (mebibytes(self.disk), home.display());
                return Some(format!(
                    "disk limit of {limit} MiB exceeded by the files in {home} and the temporary files together"
                ));
            }
            if files == 0 {
                let home = home.display();
                return Some(format!(
                    "more than {MAX_FILES} files in {home} and the temporary folder together"
                ));
            }
        }
        None
    }
}

fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// The disk space of the files below `folder` in bytes. Links are not followed, and files removed meanwhile are
/// skipped.
fn disk_usage(folder: &Path, files: &mut usize) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let mut folders = vec![folder.to_owned()];
    let mut sum = 0_u64;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else {
                continue;
            };
            if *files == 0 {
                return sum;
            }
            *files -= 1;
            // st_blocks is in units of 512 bytes (stat(2)).
            sum = sum.saturating_add(about.blocks().saturating_mul(512));
            if about.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_files_count_and_links_do_not() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        fs::create_dir(folder.join("in")).unwrap();
        std::os::unix::fs::symlink("/", folder.join("all")).unwrap();
        let before = disk_usage(folder, &mut 1000);
        fs::write(folder.join("in/file"), vec![1; 1 << 20]).unwrap();
        let after = disk_usage(folder, &mut 1000);
        assert!(after >= before + (1 << 20), "{before} {after}");
        let mut limits = Limits::new(None, 1 << 19, [&folder.join("in"), folder]);
        let why = limits.exceeded().unwrap();
        assert!(why.contains("limit of 1 MiB"), "{why}");
    }
}
