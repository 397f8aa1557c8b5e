//! What a session may take of this machine: looked at now and then, since not every machine lets its users limit
//! it (cgroups). An engine that can limit it does so by itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::descendants;

/// How often memory is looked at …
const MEMORY_EVERY: Duration = Duration::from_secs(1);

/// … and the disk.
const DISK_EVERY: Duration = Duration::from_secs(2);

/// Files that are looked at in one look; more count as too many.
const MOST_FILES: usize = 200_000;

/// The limits of a session.
pub(super) struct Limits {
    memory: Option<u64>,
    disk: u64,
    folders: [PathBuf; 2],
    memory_at: Instant,
    disk_at: Instant,
}

impl Limits {
    /// So many bytes of memory, and so many in these folders: the home, and the session's own.
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

    /// What the session takes too much of.
    pub(super) fn exceeded(&mut self) -> Option<String> {
        let now = Instant::now();
        if let Some(most) = self.memory
            && now >= self.memory_at
        {
            self.memory_at = now + MEMORY_EVERY;
            if descendants::memory() > most {
                let most = megabytes(most);
                return Some(format!("the session took more than {most} MB of memory"));
            }
        }
        if now >= self.disk_at {
            self.disk_at = now + DISK_EVERY;
            let [home, own] = &self.folders;
            // A home that goes with the session lies in the session's own folder.
            let all = [own, home].into_iter();
            let apart = all.take(if home.starts_with(own) { 1 } else { 2 });
            let mut files = MOST_FILES;
            let taken = apart.map(|folder| taken(folder, &mut files)).sum::<u64>();
            if taken > self.disk {
                let (most, home) = (megabytes(self.disk), home.display());
                return Some(format!(
                    "the session wrote more than {most} MB: into {home}, or temporary files"
                ));
            }
            if files == 0 {
                return Some(format!("the session wrote more than {MOST_FILES} files"));
            }
        }
        None
    }
}

fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// Bytes that the files below `folder` take on the disk. Links are not followed; what goes meanwhile counts
/// nothing.
fn taken(folder: &Path, files: &mut usize) -> u64 {
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
            // st_blocks counts 512 bytes each (stat(2)).
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
    fn what_is_written_counts_and_links_do_not() {
        let folder = std::env::temp_dir().join(format!("openuvr-limits-{}", std::process::id()));
        fs::create_dir_all(folder.join("in")).unwrap();
        std::os::unix::fs::symlink("/", folder.join("all")).unwrap();
        let before = taken(&folder, &mut 1000);
        fs::write(folder.join("in/file"), vec![1; 1 << 20]).unwrap();
        let after = taken(&folder, &mut 1000);
        assert!(after >= before + (1 << 20), "{before} {after}");
        let mut limits = Limits::new(None, 1 << 19, [&folder.join("in"), &folder]);
        let why = limits.exceeded().unwrap();
        assert!(why.contains("more than 1 MB"), "{why}");
        fs::remove_dir_all(folder).unwrap();
    }
}
