//! What waits for the recorder's disk: bounded in bytes, and nobody waits to put something in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_runtime::host::Payload;

/// Bytes that may wait for the disk: 13 s at 20 Mb/s.
pub(super) const MOST: usize = 32 << 20;

/// Frames and payloads of sound that may wait: 13 s of 240 frames and 400 payloads a second.
const ITEMS: usize = 8192;

/// A frame of H.264 as the encoder has made it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// When it was captured.
    pub captured: Instant,
    /// Decoding can begin with it.
    pub key: bool,
    /// The picture's size, if it is known with this frame.
    pub size: Option<Size>,
    /// The most frames a second, if they are known with this frame.
    pub fps: Option<u16>,
    /// Its slices in Annex B form.
    pub bytes: Vec<u8>,
}

/// An Opus packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sound {
    /// When what it decodes to first was captured.
    pub captured: Instant,
    /// Samples a channel, of 48 000 a second.
    pub samples: u16,
    /// The packet.
    pub bytes: Vec<u8>,
}

impl From<&Payload<'_>> for Sound {
    fn from(payload: &Payload<'_>) -> Sound {
        Sound {
            captured: payload.captured,
            samples: payload.samples,
            bytes: payload.bytes.to_vec(),
        }
    }
}

/// Why frames are not in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// More waits for the disk than may.
    Disk,
    /// More waited for the recorder's thread than may: it got no processor.
    Processor,
}

pub(super) enum Item {
    Frame(Frame),
    Sound(Sound),
    End,
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Item::Frame(frame) => frame.bytes.len(),
            Item::Sound(sound) => sound.bytes.len(),
            Item::End => 0,
        }
    }
}

pub(super) struct Queue {
    items: SyncSender<Item>,
    waiting: AtomicUsize,
    closed: AtomicBool,
    /// When that was, on the host's clock.
    closed_at: AtomicI64,
    /// Of whom is recorded: who belonged to one before is heard no more.
    generation: AtomicU64,
    /// Frames that are not in the file.
    missed: AtomicU64,
    /// The person knows of these causes.
    told: [AtomicBool; 2],
}

impl Queue {
    pub(super) fn new() -> (Arc<Queue>, Receiver<Item>) {
        let (items, inbox) = sync_channel(ITEMS);
        let queue = Queue {
            items,
            waiting: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            closed_at: AtomicI64::new(0),
            generation: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            told: [AtomicBool::new(false), AtomicBool::new(false)],
        };
        (Arc::new(queue), inbox)
    }

    /// Whether it was taken.
    pub(super) fn frame(&self, frame: Frame) -> bool {
        self.put(Item::Frame(frame))
    }

    /// What finds no room is silence in the file.
    pub(super) fn sound(&self, sound: Sound) {
        self.put(Item::Sound(sound));
    }

    fn put(&self, item: Item) -> bool {
        let bytes = item.bytes();
        if self.is_closed() || self.waiting.load(Ordering::Relaxed) + bytes > MOST {
            return false;
        }
        // Before: the writer may have taken it at once.
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
        let taken = self.items.try_send(item).is_ok();
        if !taken {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
        taken
    }

    /// The writer has taken it.
    pub(super) fn taken(&self, item: &Item) {
        self.waiting.fetch_sub(item.bytes(), Ordering::Relaxed);
    }

    /// Whether a key frame would find room, and what follows it for a while.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < MOST / 2
    }

    /// Nothing more is taken: the recording ended at this moment.
    pub(super) fn close(&self, at: Instant) {
        self.closed_at.store(at.0, Ordering::Relaxed);
        self.closed.store(true, Ordering::Release);
        // Without room the writer finds out when it has taken what waits.
        let _ = self.items.try_send(Item::End);
    }

    /// When it was closed.
    pub(super) fn closed_at(&self) -> Instant {
        Instant(self.closed_at.load(Ordering::Relaxed))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(super) fn next_generation(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// One more frame is not in the file.
    pub(super) fn missed(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the person is to be told of this cause: once.
    pub(super) fn is_news(&self, cause: Cause) -> bool {
        !self.told[cause as usize].swap(true, Ordering::Relaxed)
    }

    pub(super) fn all_missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}
