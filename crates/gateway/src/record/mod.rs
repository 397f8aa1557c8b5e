//! A recorder: one more subscriber, which writes the existing encoded frames and sound to a file without transcoding.
//!
//! ```text
//!  host ── slices ──► subscriber ─┐ bounded                        fragments of half a second
//!       ── payloads ──────────────┴─ queue ──► writer ── fragments ──► mp4 ──► FILE
//! ```
//!
//! The file is a fragmented MP4 (ISO/IEC 14496-12 section 8.8), which is playable up to its last fragment even if the
//! program is killed. The parameter sets of H.264 stay in the stream, so that the picture size can change within a
//! file. The first sets are also in the sample entry, which is `avc1` (ISO/IEC 14496-15). The entry for streams with
//! changing sets would be `avc3`, but VLC 3 shows no picture with it. All tested players accept changed sets in `avc1`.
//!
//! Only the writer waits for the disk. The queue to the writer is bounded in memory. When it is full, frames are
//! dropped until the next key frame, which is requested when there is room.

pub mod fragments;
mod mp4;
mod queue;
mod subscriber;
mod track;
mod writer;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::{SubscribeRequest, SubscriberKind};
use openuvr_proto::id::SubscriberId;
use openuvr_proto::send::intake::Intake;
use openuvr_runtime::host::{GatewayHost, Payload, SoundCodec, SubscribeError, codec_of};
use openuvr_runtime::lock::lock;
use openuvr_runtime::sched::{Scheduler, ThreadRole};

use self::fragments::Fragments;
use self::queue::{Queue, Sound};
use self::subscriber::Frames;
pub use self::writer::Summary;
use self::writer::Writer;

/// Timeout for finishing a recording (guess: a disk that spins up needs some seconds).
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for frames in transit at the end (guess: a thread that is starved for longer has already lost frames).
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Configuration of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordSetup {
    /// The file.
    pub file: PathBuf,
    /// Whether an existing file is overwritten.
    pub overwrite: bool,
    /// The codec of the sound; `None` if the host has no sound.
    pub sound: Option<SoundCodec>,
}

/// Why a recording does not start.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file exists and must not be overwritten.
    #[error("{} already exists: choose another file, or use --record-overwrite", .0.display())]
    Exists(PathBuf),
    /// The file cannot be created.
    #[error("cannot write {}: {error}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The system provides no thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The host refused the subscription.
    #[error("{0}")]
    Refused(SubscribeError),
    /// None of the host's encoders produces H.264.
    #[error("recording needs H.264, which this host does not encode: add x264 to --encoder")]
    NoH264,
}

/// Shows a line to the user. Callable from any thread; does not block.
pub type Notify = Arc<dyn Fn(&str) + Send + Sync>;

/// A running recording. Dropping this ends the recording, as [`Recorder::finish`] does.
pub struct Recorder {
    shared: Arc<Shared>,
    sound: Option<SoundCodec>,
    end: Option<Receiver<Summary>>,
}

/// State shared by the recorder's threads.
struct Shared {
    file: PathBuf,
    queue: Arc<Queue>,
    tell: Notify,
    followed: Mutex<Option<RecordedHost>>,
}

struct RecordedHost {
    host: Arc<dyn GatewayHost>,
    id: SubscriberId,
    /// Whether the subscription has ended.
    unsubscribed: Arc<AtomicBool>,
    /// This channel is disconnected after the last frame of the subscription.
    drained: Receiver<()>,
}

impl Recorder {
    /// Creates the file and the thread that writes it. Reports later errors through `tell`, once for each kind.
    ///
    /// # Errors
    /// [`RecordError`] if the file or the thread cannot be created.
    pub fn create(
        setup: RecordSetup,
        scheduler: &Scheduler,
        tell: Notify,
    ) -> Result<Recorder, RecordError> {
        let (file, made) = open(&setup)?;
        let (queue, items) = Queue::new();
        let shared = Arc::new(Shared {
            file: setup.file,
            queue,
            tell,
            followed: Mutex::default(),
        });
        let writer = Writer::new((file, made), Fragments::new(setup.sound), shared.clone());
        let (ended, end) = sync_channel(1);
        let run = move || {
            // An error is ignored, because the receiver may already be gone.
            let _ = ended.try_send(writer.run(&items));
        };
        // The thread is never joined, because a disk may block it indefinitely.
        (scheduler.spawn(ThreadRole::Background, "ouvr-record", run))
            .map_err(RecordError::Thread)?;
        Ok(Recorder {
            shared,
            sound: setup.sound,
            end: Some(end),
        })
    }

    /// Records `host` from now on. Its frames follow those of the previous host in the file.
    ///
    /// # Errors
    /// [`RecordError`] if the host refuses the subscription or has no H.264 encoder.
    pub fn follow(&self, host: Arc<dyn GatewayHost>) -> Result<(), RecordError> {
        drop(self.shared.leave());
        if self.shared.queue.is_closed() {
            // The recording has already ended, and this was reported.
            return Ok(());
        }
        let codec = codec_of("x264").ok_or(RecordError::NoH264)?;
        let words = self.shared.file.display();
        let request = SubscribeRequest {
            kind: SubscriberKind::Recorder,
            intake: Intake::Complete,
            codecs: 1 << codec,
            software: "the host's recorder".to_owned(),
            ..SubscribeRequest::new(Role::Observer, &format!("recording to {words}"))
        };
        let (queue, tell) = (self.shared.queue.clone(), self.shared.tell.clone());
        let unsubscribed = Arc::new(AtomicBool::new(false));
        let (drains, drained) = sync_channel(1);
        let frames = Frames::new(queue, tell, words.to_string(), unsubscribed.clone(), drains);
        let subscribed = host.subscribe(request, Box::new(frames));
        let (id, _) = subscribed.map_err(|why| match why {
            SubscribeError::Refused(openuvr_proto::control::negotiate::Refusal::NoCommonCodec) => {
                RecordError::NoH264
            }
            why => RecordError::Refused(why),
        })?;
        if let Some(codec) = self.sound {
            let queue = self.shared.queue.clone();
            let open = queue.generation();
            let listener = Box::new(move |payload: &Payload<'_>| {
                let goes_on = queue.generation() == open && !queue.is_closed();
                if goes_on {
                    queue.sound(Sound::from(payload));
                }
                goes_on
            });
            host.listen(codec, listener);
        }
        *lock(&self.shared.followed) = Some(RecordedHost {
            host,
            id,
            unsubscribed,
            drained,
        });
        if self.shared.queue.is_closed() {
            drop(self.shared.leave());
        }
        Ok(())
    }

    /// Whether a host is being recorded.
    #[must_use]
    pub fn is_following(&self) -> bool {
        let followed = lock(&self.shared.followed);
        (followed.as_ref()).is_some_and(|host| !host.unsubscribed.load(Ordering::Acquire))
    }

    /// Writes all queued data and ends the recording. Blocks for up to eleven seconds. Returns `None` if the disk did
    /// not accept the data in time.
    #[must_use]
    pub fn finish(mut self) -> Option<Summary> {
        self.end()
    }

    fn end(&mut self) -> Option<Summary> {
        let end = self.end.take()?;
        let ended = clock::now();
        if let Some(drained) = self.shared.leave() {
            // Frames that are already encoded may still be in transit. A timeout is ignored.
            let _ = drained.recv_timeout(DRAIN_TIMEOUT);
        }
        self.shared.queue.close(ended);
        end.recv_timeout(FINISH_TIMEOUT).ok()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Shared {
    /// Unsubscribes. The receiver is disconnected after the last frame.
    fn leave(&self) -> Option<Receiver<()>> {
        self.queue.next_generation();
        let RecordedHost {
            host, id, drained, ..
        } = lock(&self.followed).take()?;
        host.unsubscribe(id);
        Some(drained)
    }
}

/// Opens the file. Returns whether it is new. An existing file keeps its content until the first write.
fn open(setup: &RecordSetup) -> Result<(File, bool), RecordError> {
    let file = || setup.file.clone();
    let new = (OpenOptions::new().write(true).create_new(true)).open(&setup.file);
    let opened = match new {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match setup.overwrite {
            true => OpenOptions::new().write(true).open(&setup.file),
            false => return Err(RecordError::Exists(file())),
        }
        .map(|opened| (opened, false)),
        new => new.map(|opened| (opened, true)),
    };
    opened.map_err(|error| RecordError::File {
        file: file(),
        error,
    })
}
