//! How long our own threads take to hear of each other, and of their timers: recorded while host or client
//! run, so that `openuvr lab jitter analyse` reads it. Off unless somebody asks.
//!
//! Each place where one thread wakes another, or a timer wakes one, is a [`Site`]: the thread that is woken
//! writes a sample into a ring of its own, which nobody else writes to, and a thread without urgency empties
//! the rings into files. Neither waits for the other: what finds a ring full is lost and counted. Off, a
//! site costs a comparison; on, a call of the clock at each end and three stores.
//!
//! What it is not: it says nothing of waits that the outside ends, such as a datagram, a picture, or a
//! block that a sound device wants: nobody knows when those were sent.

mod file;
mod ring;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_proto::time::Instant;

use self::file::SampleFile;
use self::ring::Ring;
use crate::clock;
use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};

/// How often rings are emptied: one of [`ring::CAPACITY`] is then full at 40 000 samples a second, and no
/// site has a hundredth of that.
const EMPTIED_EVERY: Duration = Duration::from_millis(100);
/// Threads that come and go have a site each; beyond so many, new ones are not recorded.
const MOST_SITES: usize = 64;

/// Where sites come from. Clones share it; the default records nothing.
#[derive(Clone, Debug, Default)]
pub struct Handoffs(Option<Arc<Sites>>);

#[derive(Debug, Default)]
struct Sites(Mutex<Vec<Arc<Ring>>>);

/// A place at which one thread is woken: by others, or by its timer. Clones are the same place. One thread
/// at a time calls [`received`](Site::received) and [`woke`](Site::woke).
#[derive(Clone, Debug, Default)]
pub struct Site(Option<Arc<Ring>>);

impl Handoffs {
    /// A new place; a name that is taken gets a number. The name is that of its file.
    #[must_use]
    pub fn site(&self, name: &str) -> Site {
        let Some(sites) = &self.0 else {
            return Site::default();
        };
        let mut all = lock(&sites.0);
        if all.len() >= MOST_SITES {
            return Site::default();
        }
        let taken = all.iter().filter(|ring| ring.of == name).count();
        let ring = Arc::new(Ring::new(name, taken + 1));
        all.push(ring.clone());
        Site(Some(ring))
    }
}

impl Site {
    /// The calling thread is about to wake the other one. Of several before that takes notice the first
    /// counts. A thread that wakes itself hands nothing over.
    pub fn sent(&self) {
        if let Some(ring) = &self.0 {
            ring.sent(clock::now());
        }
    }

    /// The calling thread is awake; what was sent to it since the last time has arrived.
    pub fn received(&self) {
        if let Some(ring) = &self.0 {
            ring.received(clock::now());
        }
    }

    /// The calling thread slept until `deadline`, if that has passed.
    pub fn woke(&self, deadline: Instant) {
        if let Some(ring) = &self.0 {
            ring.woke(deadline, clock::now());
        }
    }
}

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
        let sites = Arc::<Sites>::default();
        let stop = Arc::<AtomicBool>::default();
        let writer = Writer {
            sites: sites.clone(),
            folder: folder.to_owned(),
            begin: clock::now(),
            files: Vec::new(),
        };
        let stopped = stop.clone();
        let role = ThreadRole::Background;
        let writer =
            Scheduler::ordinary().spawn(role, "ouvr-handoffs", move || writer.run(&stopped))?;
        Ok(Recording {
            handoffs: Handoffs(Some(sites)),
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
    sites: Arc<Sites>,
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
        let rings = lock(&self.sites.0).clone();
        Ok(rings.iter().map(|ring| ring.lost()).sum())
    }

    fn empty(&mut self) -> io::Result<()> {
        let rings = lock(&self.sites.0).clone();
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
