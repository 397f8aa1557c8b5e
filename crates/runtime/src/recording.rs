//! Writes the samples of [`scheduling_latency`](crate::scheduling_latency) into files of a folder, in a background
//! thread.

mod file;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;

use self::file::SampleFile;
use crate::sched::{Scheduler, ThreadRole};
use crate::scheduling_latency::SchedulingLatencies;

/// The interval at which rings are drained. At this interval, a ring overflows above 40 000 samples a second, which is
/// over a hundred times a site's rate.
const DRAIN_INTERVAL: Duration = Duration::from_millis(100);

/// A recording into a folder, until it is finished or dropped.
#[derive(Debug)]
pub struct Recording {
    latencies: SchedulingLatencies,
    stop: Arc<AtomicBool>,
    writer: Option<JoinHandle<io::Result<u64>>>,
}

impl Recording {
    /// Starts recording into a folder, which is created if missing. Each site has a file `SITE.jitter` in the format of
    /// `studies/probes/README.md`. An existing file of this name is overwritten.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created or the thread cannot be started.
    pub fn start(folder: &Path) -> io::Result<Recording> {
        fs::create_dir_all(folder)?;
        let latencies = SchedulingLatencies::on();
        let stop = Arc::<AtomicBool>::default();
        let writer = Writer {
            latencies: latencies.clone(),
            folder: folder.to_owned(),
            start: clock::now(),
            files: Vec::new(),
        };
        let stopped = stop.clone();
        let role = ThreadRole::Background;
        let writer =
            Scheduler::ordinary().spawn(role, "ouvr-latencies", move || writer.run(&stopped))?;
        Ok(Recording {
            latencies,
            stop,
            writer: Some(writer),
        })
    }

    /// The object that creates the wake-up sites of this recording.
    #[must_use]
    pub fn scheduling_latencies(&self) -> SchedulingLatencies {
        self.latencies.clone()
    }

    /// Writes the remaining samples. Returns the number of samples lost because a ring was full.
    ///
    /// # Errors
    /// Returns an error if a file could not be written completely.
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
        // Only `finish` returns errors.
        let _ = self.end();
    }
}

/// The thread that drains the rings.
struct Writer {
    latencies: SchedulingLatencies,
    folder: PathBuf,
    start: Instant,
    /// The files, in the order of the sites.
    files: Vec<SampleFile>,
}

impl Writer {
    fn run(mut self, stop: &AtomicBool) -> io::Result<u64> {
        while !stop.load(Ordering::Acquire) {
            self.drain()?;
            std::thread::park_timeout(DRAIN_INTERVAL);
        }
        self.drain()?;
        let end = clock::now();
        for file in &mut self.files {
            file.finish(end)?;
        }
        let rings = self.latencies.rings();
        Ok(rings.iter().map(|ring| ring.lost()).sum())
    }

    fn drain(&mut self) -> io::Result<()> {
        let rings = self.latencies.rings();
        for ring in &rings[self.files.len()..] {
            let name = ring.name();
            let path = self.folder.join(format!("{name}.jitter"));
            self.files
                .push(SampleFile::create(&path, &name, self.start)?);
        }
        for (ring, file) in rings.iter().zip(&mut self.files) {
            ring.drain(|sample| file.push(sample));
            file.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
