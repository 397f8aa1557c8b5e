//! A recorder: one more subscriber, which writes the frames and the sound that all others get into a file, without
//! coding anything again.
//!
//! ```text
//!  host ── slices ──► subscriber ─┐ bounded                        fragments of half a second
//!       ── payloads ──────────────┴─ queue ──► writer ── fragments ──► mp4 ──► FILE
//! ```
//!
//! The file is a fragmented MP4 (ISO/IEC 14496-12 section 8.8): what it holds is playable up to its last fragment,
//! however the program ends. H.264 keeps its parameter sets in the stream, so that a picture
//! whose size changes goes on in the same file. The first ones are in the sample entry, too, which is `avc1` (ISO/IEC
//! 14496-15): that of streams which change theirs would be `avc3`, and VLC 3 shows no picture of it; all players that
//! were tried read changed ones in an `avc1` track.
//!
//! Nobody waits for the disk. What the writer is behind waits in memory, up to a limit; then frames are left out up to
//! a key frame, which is asked for when there is room again.

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

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::{SubscribeRequest, SubscriberKind};
use openuvr_proto::id::SubscriberId;
use openuvr_proto::send::intake::Intake;
use openuvr_runtime::clock;
use openuvr_runtime::host::{GatewayHost, SubscribeError, codec_of};
use openuvr_runtime::lock::lock;
use openuvr_runtime::sched::{Scheduler, ThreadRole};

use self::fragments::Fragments;
use self::queue::{Queue, Sound};
use self::subscriber::Frames;
pub use self::writer::Summary;
use self::writer::Writer;

/// How long the end of a recording may take (guess: a disk that wakes up needs some seconds).
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the frames on their way here may take at the end (guess: a thread that gets no processor for so long has lost
/// frames before).
const DRAINS_WITHIN: Duration = Duration::from_secs(1);

/// What is to be recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordSetup {
    /// Where to.
    pub file: PathBuf,
    /// A file that is there already is replaced.
    pub overwrite: bool,
    /// The host has sound.
    pub sound: bool,
}

/// Why nothing is recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It is not replaced unasked.
    #[error("{} is there already: name another file, or give --record-overwrite", .0.display())]
    Exists(PathBuf),
    /// The file can't be made.
    #[error("can't write {}: {error}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The system gives no thread.
    #[error("can't start a thread: {0}")]
    Thread(io::Error),
    /// The host does not let it in.
    #[error("{0}")]
    Refused(SubscribeError),
    /// None of its encoders makes what the file can hold.
    #[error("this host makes no H.264, and nothing else is recorded: add x264 to --encoder")]
    NoH264,
}

/// Tells the person something, in a line; from any thread, waits for nobody.
pub type Notify = Arc<dyn Fn(&str) + Send + Sync>;

/// A recording that goes on. Dropping it ends it, as [`Recorder::finish`] does.
pub struct Recorder {
    shared: Arc<Shared>,
    sound: bool,
    end: Option<Receiver<Summary>>,
}

/// What the recorder's threads share.
struct Shared {
    file: PathBuf,
    queue: Arc<Queue>,
    tell: Notify,
    followed: Mutex<Option<RecordedHost>>,
}

/// The host that is recorded.
struct RecordedHost {
    host: Arc<dyn GatewayHost>,
    id: SubscriberId,
    /// Whether it has ended.
    over: Arc<AtomicBool>,
    /// Disconnected when its last frame was taken.
    drained: Receiver<()>,
}

impl Recorder {
    /// Makes the file, and a thread that writes it. What goes wrong later `tell` says, once for each kind.
    ///
    /// # Errors
    /// [`RecordError`]
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
            // Nobody may wait for it any more.
            let _ = ended.try_send(writer.run(&items));
        };
        // It is not waited for by its handle: a disk may hold it for ever.
        (scheduler.spawn(ThreadRole::Background, "ouvr-record", run))
            .map_err(RecordError::Thread)?;
        Ok(Recorder {
            shared,
            sound: setup.sound,
            end: Some(end),
        })
    }

    /// From now on `host` is recorded; what was recorded of another before stays in front.
    ///
    /// # Errors
    /// [`RecordError`]
    pub fn follow(&self, host: Arc<dyn GatewayHost>) -> Result<(), RecordError> {
        drop(self.shared.leave());
        if self.shared.queue.is_closed() {
            // It ended early, which was told.
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
        let over = Arc::new(AtomicBool::new(false));
        let (drains, drained) = sync_channel(1);
        let frames = Frames::new(queue, tell, words.to_string(), over.clone(), drains);
        let subscribed = host.subscribe(request, Box::new(frames));
        let (id, _) = subscribed.map_err(|why| match why {
            SubscribeError::Refused(openuvr_proto::control::negotiate::Refusal::NoCommonCodec) => {
                RecordError::NoH264
            }
            why => RecordError::Refused(why),
        })?;
        if self.sound {
            let queue = self.shared.queue.clone();
            let open = queue.generation();
            host.listen(Box::new(move |payload| {
                let goes_on = queue.generation() == open && !queue.is_closed();
                if goes_on {
                    queue.sound(Sound::from(payload));
                }
                goes_on
            }));
        }
        *lock(&self.shared.followed) = Some(RecordedHost {
            host,
            id,
            over,
            drained,
        });
        if self.shared.queue.is_closed() {
            drop(self.shared.leave());
        }
        Ok(())
    }

    /// Whether there is a host that is recorded, which has not ended.
    #[must_use]
    pub fn is_following(&self) -> bool {
        let followed = lock(&self.shared.followed);
        (followed.as_ref()).is_some_and(|host| !host.over.load(Ordering::Acquire))
    }

    /// Ends it when all that waits is in the file. `None`: the disk does not take it.
    #[must_use]
    pub fn finish(mut self) -> Option<Summary> {
        self.end()
    }

    fn end(&mut self) -> Option<Summary> {
        let end = self.end.take()?;
        let ended = clock::now();
        if let Some(drained) = self.shared.leave() {
            // What was encoded until now may still be on its way here.
            let _ = drained.recv_timeout(DRAINS_WITHIN);
        }
        self.shared.queue.close(ended);
        end.recv_timeout(PATIENCE).ok()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Shared {
    /// Takes no more frames; what is disconnected when the last one was taken.
    fn leave(&self) -> Option<Receiver<()>> {
        self.queue.next_generation();
        let RecordedHost {
            host, id, drained, ..
        } = lock(&self.followed).take()?;
        host.unsubscribe(id);
        Some(drained)
    }
}

/// The file, and whether it was not there before. What is in one that was stays until something takes its place.
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
