//! The recorder's thread: assembles queued items into fragments and writes each fragment at once.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use openuvr_clock as clock;

use super::Shared;
use super::fragments::{Contents, Fragments};
use super::queue::Item;

/// Interval at which fragments are checked while no item arrives, as for a still picture.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Result of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Contents of the file.
    pub written: Contents,
    /// Missing frames.
    pub missed: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Writing failed before the end of the recording. The failure has been reported.
    pub failed: bool,
}

pub(super) struct Writer {
    file: File,
    /// Whether the file did not exist before.
    made: bool,
    fragments: Fragments,
    shared: Arc<Shared>,
    /// Length of the complete fragments in the file, in bytes.
    whole: u64,
    written: Contents,
    failed: bool,
}

impl Writer {
    pub(super) fn new(
        (file, made): (File, bool),
        fragments: Fragments,
        shared: Arc<Shared>,
    ) -> Writer {
        Writer {
            file,
            made,
            fragments,
            shared,
            whole: 0,
            written: Contents::default(),
            failed: false,
        }
    }

    /// Runs until the queue is closed and empty, or writing fails.
    pub(super) fn run(mut self, items: &Receiver<Item>) -> Summary {
        while !self.failed {
            match items.recv_timeout(POLL_INTERVAL) {
                Ok(item) => {
                    self.shared.queue.taken(&item);
                    match item {
                        Item::Frame(frame) => self.fragments.frame(frame),
                        Item::Sound(sound) => self.fragments.sound(sound),
                        Item::End => break,
                    }
                }
                // The queue was full when it was closed, so it does not contain `Item::End`.
                Err(RecvTimeoutError::Timeout) if self.shared.queue.is_closed() => break,
                Err(RecvTimeoutError::Timeout) => self.fragments.idle(clock::now()),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.write();
        }
        self.fragments.finish(self.shared.queue.closed_at());
        self.write();
        let is_file = self.file.metadata().is_ok_and(|meta| meta.is_file());
        if self.whole == 0 && self.made && is_file {
            // By default, the next recording would refuse to overwrite an empty file.
            let _ = std::fs::remove_file(&self.shared.file);
        }
        Summary {
            written: self.written,
            missed: self.shared.queue.all_missed(),
            bytes: self.whole,
            failed: self.failed,
        }
    }

    /// Writes the completed fragments.
    fn write(&mut self) {
        while let Some((bytes, written)) = self.fragments.poll() {
            if self.failed {
                return;
            }
            if self.whole == 0 && !self.made {
                // The error is ignored: the call fails for a pipe, which has no length.
                let _ = self.file.set_len(0);
            }
            match self.file.write_all(&bytes) {
                Ok(()) => {
                    self.whole += bytes.len() as u64;
                    self.written = written;
                }
                Err(why) => self.fail(&why),
            }
        }
    }

    /// Ends the recording after an error. The file stays playable, and the stream continues.
    fn fail(&mut self, why: &std::io::Error) {
        self.failed = true;
        self.shared.queue.close(clock::now());
        // A partial fragment is useless, so the file is truncated to the complete fragments.
        let _ = self.file.set_len(self.whole);
        let file = self.shared.file.display();
        (self.shared.tell)(&format!(
            "the recording {file} ends: cannot write: {why}; the stream continues"
        ));
        drop(self.shared.leave());
    }
}
