//! Transfers of text through pipes, from and to other programs. These programs may be slow, dead or hostile.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use openuvr_media::clipboard::ReadFailure;

/// How long another program may take for a transfer (guess: far more than a running one needs).
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of programs that paste at the same time. If there are more, the oldest ones do not get the rest of
/// the text.
const MAX_PASTES: usize = 16;

/// Maximum number of bytes that are read at once.
const CHUNK: usize = 16 * 1024;

/// Text that another program is writing.
pub(super) struct Incoming {
    file: OwnedFd,
    bytes: Vec<u8>,
    deadline: Instant,
}

/// The progress of reading.
pub(super) enum ReadStep {
    /// More data is expected.
    Waiting,
    /// The text is complete.
    Complete(Arc<str>),
    /// Reading has failed, so there is no text.
    Failed(ReadFailure),
}

impl Incoming {
    /// Creates a pipe. `ask` passes its write end to the other program.
    pub(super) fn start(ask: impl FnOnce(&OwnedFd)) -> std::io::Result<Incoming> {
        let (file, other) = std::io::pipe()?;
        let (file, other) = (OwnedFd::from(file), OwnedFd::from(other));
        set_nonblocking(&file)?;
        ask(&other);
        Ok(Incoming {
            file,
            bytes: Vec::new(),
            deadline: clock::now() + PATIENCE,
        })
    }

    pub(super) fn file(&self) -> &OwnedFd {
        &self.file
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Reads the available bytes. Fails if the whole text has more than `most` bytes.
    pub(super) fn read(&mut self, most: usize) -> ReadStep {
        let mut chunk = [0; CHUNK];
        loop {
            match rustix::io::read(&self.file, &mut chunk) {
                Ok(0) => {
                    let text = String::from_utf8(std::mem::take(&mut self.bytes));
                    return text.map_or(ReadStep::Failed(ReadFailure::NotText), |text| {
                        ReadStep::Complete(text.into())
                    });
                }
                Ok(count) => self.bytes.extend_from_slice(&chunk[..count]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if clock::now() < self.deadline => return ReadStep::Waiting,
                Err(_) => return ReadStep::Failed(ReadFailure::NoAnswer),
            }
            if self.bytes.len() > most {
                return ReadStep::Failed(ReadFailure::TooLong);
            }
        }
    }
}

/// Text for programs that paste.
#[derive(Default)]
pub(super) struct Outgoing {
    pastes: Vec<Paste>,
}

struct Paste {
    file: OwnedFd,
    text: Arc<str>,
    written: usize,
    deadline: Instant,
}

impl Outgoing {
    /// Adds a program's pipe.
    pub(super) fn add(&mut self, file: OwnedFd, text: Arc<str>) {
        if set_nonblocking(&file).is_err() {
            return;
        }
        if self.pastes.len() == MAX_PASTES {
            self.pastes.remove(0);
        }
        self.pastes.push(Paste {
            file,
            text,
            written: 0,
            deadline: clock::now() + PATIENCE,
        });
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &OwnedFd> {
        self.pastes.iter().map(|paste| &paste.file)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pastes.iter().map(|paste| paste.deadline).min()
    }

    /// Writes as many bytes as the pipes accept. Closes pipes whose text is complete, and pipes that are broken or too
    /// slow.
    pub(super) fn write(&mut self) {
        let now = clock::now();
        self.pastes.retain_mut(|paste| {
            loop {
                let rest = paste.text.as_bytes().get(paste.written..);
                let Some(rest) = rest.filter(|rest| !rest.is_empty()) else {
                    return false;
                };
                match rustix::io::write(&paste.file, rest) {
                    Ok(count) => paste.written += count,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return now < paste.deadline,
                    Err(_) => return false,
                }
            }
        });
    }
}

fn set_nonblocking(file: &OwnedFd) -> Result<(), Errno> {
    let flags = fcntl_getfl(file.as_fd())?;
    fcntl_setfl(file.as_fd(), flags | OFlags::NONBLOCK)
}
