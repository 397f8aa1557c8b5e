//! The queue to the recorder's disk: bounded in bytes, non-blocking for producers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_runtime::host::Payload;

/// Maximum number of queued bytes: 13 s at 20 Mb/s.
pub(super) const MAX_BYTES: usize = 32 << 20;

/// Maximum number of queued frames and sound payloads: 13 s of 240 frames and 400 payloads per second.
const MAX_ITEMS: usize = 8192;

/// An encoded H.264 frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Capture time.
    pub captured: Instant,
    /// Whether it is a key frame.
    pub key: bool,
    /// The picture size, if this frame announces it.
    pub size: Option<Size>,
    /// The maximum frame rate, if this frame announces it.
    pub fps: Option<u16>,
    /// Its slices in Annex B form.
    pub bytes: Vec<u8>,
}

/// An Opus packet or an AAC access unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sound {
    /// Capture time of its first sample.
    pub captured: Instant,
    /// Samples per channel at 48 kHz.
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

/// Why frames are missing in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// The queue to the disk is full.
    Disk,
    /// The queue to the recorder's thread is full, because that thread got no processor time.
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
    queued_bytes: AtomicUsize,
    closed: AtomicBool,
    /// When the queue was closed, on the host's clock.
    closed_at: AtomicI64,
    /// Incremented when the recorder leaves a host. The sound listener of an earlier host then stops.
    generation: AtomicU64,
    /// Frames missing in the file.
    missed: AtomicU64,
    /// Causes already reported.
    reported: [AtomicBool; 2],
}

impl Queue {
    pub(super) fn new() -> (Arc<Queue>, Receiver<Item>) {
        let (items, inbox) = sync_channel(MAX_ITEMS);
        let queue = Queue {
            items,
            queued_bytes: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            closed_at: AtomicI64::new(0),
            generation: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            reported: [AtomicBool::new(false), AtomicBool::new(false)],
        };
        (Arc::new(queue), inbox)
    }

    /// Adds a frame. Returns whether there was room.
    pub(super) fn frame(&self, frame: Frame) -> bool {
        self.put(Item::Frame(frame))
    }

    /// Adds a sound packet. If there is no room, the packet is dropped, and the sound has a gap.
    pub(super) fn sound(&self, sound: Sound) {
        self.put(Item::Sound(sound));
    }

    fn put(&self, item: Item) -> bool {
        let bytes = item.bytes();
        if self.is_closed() || self.queued_bytes.load(Ordering::Relaxed) + bytes > MAX_BYTES {
            return false;
        }
        // The bytes are counted first, because the writer may take the item at once.
        self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let taken = self.items.try_send(item).is_ok();
        if !taken {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        taken
    }

    /// Called when the writer has taken this item.
    pub(super) fn taken(&self, item: &Item) {
        self.queued_bytes.fetch_sub(item.bytes(), Ordering::Relaxed);
    }

    /// Whether there is room for a key frame and the frames after it.
    pub(super) fn has_room(&self) -> bool {
        self.queued_bytes.load(Ordering::Relaxed) < MAX_BYTES / 2
    }

    /// Closes the queue: the recording ended at this time.
    pub(super) fn close(&self, at: Instant) {
        self.closed_at.store(at.0, Ordering::Relaxed);
        self.closed.store(true, Ordering::Release);
        // If there is no room for this item, the writer notices the end when it has drained the queue.
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

    /// Counts a frame that is missing in the file.
    pub(super) fn missed(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether this cause must be reported. Each cause is reported once.
    pub(super) fn is_news(&self, cause: Cause) -> bool {
        !self.reported[cause as usize].swap(true, Ordering::Relaxed)
    }

    pub(super) fn all_missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}
