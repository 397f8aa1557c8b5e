//! Writes what [`crate::handoffs`] records into a folder, in a thread without urgency.

mod file;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_proto::time::Instant;

use self::file::SampleFile;
use crate::clock;
use crate::handoffs::Handoffs;
use crate::sched::{Scheduler, ThreadRole};

/// How often rings are emptied: one is then full at 40 000 samples a second, and no site has a hundredth of
/// that.
const EMPTIED_EVERY: Duration = Duration::from_millis(100);

/// What is being recorded into a folder, until it is finished or dropped.
#[derive(Debug)]
pub struct Recording {
    handoffs: Handoffs,
    stop: Arc<AtomicBool>,
    writer: Option<JoinHandle<io::Result<u64>>>,
}

impl Recording {
    /// Begins to record into a folder, which is made if it is not there: a file `SITE.jitter` for each
    /// site, in the format of `probes/README.md`. Files of an earlier recording with the same names are
    /// overwritten.
    ///
    /// # Errors
    /// The folder can't be made, or no thread started.
    pub fn begin(folder: &Path) -> io::Result<Recording> {
        fs::create_dir_all(folder)?;
        let handoffs = Handoffs::on();
        let stop = Arc::<AtomicBool>::default();
        let writer = Writer {
            handoffs: handoffs.clone(),
            folder: folder.to_owned(),
            begin: clock::now(),
            files: Vec::new(),
        };
        let stopped = stop.clone();
        let role = ThreadRole::Background;
        let writer =
            Scheduler::ordinary().spawn(role, "ouvr-handoffs", move || writer.run(&stopped))?;
        Ok(Recording {
            handoffs,
            stop,
            writer: Some(writer),
        })
    }

    /// For those who wake each other.
    #[must_use]
    pub fn handoffs(&self) -> Handoffs {
        self.handoffs.clone()
    }

    /// Writes the rest; how many samples were lost, because rings were full.
    ///
    /// # Errors
    /// A file could not be written to its end.
    pub fn finish(mut self) -> io::Result<u64> {
        self.end()
    }

    fn end(&mut self) -> io::Result<u64> {
        self.stop.store(true, Ordering::Release);
        match self.writer.take() {
            Some(writer) => {
                writer.thread().unpark();
                let panicked = |_| io::Error::other("the thread that writes samples panicked");
                writer.join().map_err(panicked)?
            }
            None => Ok(0),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // Who wants to know calls `finish`.
        let _ = self.end();
    }
}

/// The thread that empties the rings.
struct Writer {
    handoffs: Handoffs,
    folder: PathBuf,
    begin: Instant,
    /// In the order of the sites.
    files: Vec<SampleFile>,
}

impl Writer {
    fn run(mut self, stop: &AtomicBool) -> io::Result<u64> {
        while !stop.load(Ordering::Acquire) {
            self.empty()?;
            std::thread::park_timeout(EMPTIED_EVERY);
        }
        self.empty()?;
        let end = clock::now();
        for file in &mut self.files {
            file.finish(end)?;
        }
        let rings = self.handoffs.rings();
        Ok(rings.iter().map(|ring| ring.lost()).sum())
    }

    fn empty(&mut self) -> io::Result<()> {
        let rings = self.handoffs.rings();
        for ring in &rings[self.files.len()..] {
            let name = ring.name();
            let path = self.folder.join(format!("{name}.jitter"));
            self.files
                .push(SampleFile::create(&path, &name, self.begin)?);
        }
        for (ring, file) in rings.iter().zip(&mut self.files) {
            ring.empty(|sample| file.push(sample));
            file.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
