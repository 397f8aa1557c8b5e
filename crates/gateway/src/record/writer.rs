//! The recorder's thread: what waits becomes fragments, and each fragment one write.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use openuvr_runtime::clock;

use super::Shared;
use super::fragments::{Contents, Fragments};
use super::queue::Item;

/// How often it is looked whether a picture that stays is to be written.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What a recording has become.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// What is in the file.
    pub written: Contents,
    /// Frames that are not.
    pub missed: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// It could not be written to its end, of which the person was told.
    pub failed: bool,
}

pub(super) struct Writer {
    file: File,
    /// The file was not there before.
    made: bool,
    fragments: Fragments,
    shared: Arc<Shared>,
    /// Bytes of whole fragments in the file.
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

    /// Until the queue is closed and empty, or the file can't be written.
    pub(super) fn run(mut self, items: &Receiver<Item>) -> Summary {
        while !self.failed {
            match items.recv_timeout(LOOK_EVERY) {
                Ok(item) => {
                    self.shared.queue.taken(&item);
                    match item {
                        Item::Frame(frame) => self.fragments.frame(frame),
                        Item::Sound(sound) => self.fragments.sound(sound),
                        Item::End => break,
                    }
                }
                // An end that found no room.
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
            // An empty file would only be in the way of the next start.
            let _ = std::fs::remove_file(&self.shared.file);
        }
        Summary {
            written: self.written,
            missed: self.shared.queue.all_missed(),
            bytes: self.whole,
            failed: self.failed,
        }
    }

    /// Writes what has become whole.
    fn write(&mut self) {
        while let Some((bytes, written)) = self.fragments.poll() {
            if self.failed {
                return;
            }
            if self.whole == 0 && !self.made {
                // A pipe has no length.
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

    /// What is in the file stays playable, and the stream goes on.
    fn fail(&mut self, why: &std::io::Error) {
        self.failed = true;
        self.shared.queue.close(clock::now());
        // A part of a fragment is of no use.
        let _ = self.file.set_len(self.whole);
        let file = self.shared.file.display();
        (self.shared.tell)(&format!(
            "{file} ends here, it can't be written any more: {why}; the stream goes on"
        ));
        drop(self.shared.leave());
    }
}
