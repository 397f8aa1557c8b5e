//! The lock-free ring of one site. The woken thread fills it, and the writer drains it.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use openuvr_proto::time::Instant;

/// Capacity in samples, which take 96 KiB.
pub(super) const CAPACITY: usize = 4096;

/// Times at which a wake-up was intended, sent and received: ns of `CLOCK_MONOTONIC`.
pub(crate) type Sample = [i64; 3];

#[derive(Debug)]
pub(crate) struct Ring {
    /// The site's name, and its number among sites of this name.
    pub(super) of: String,
    number: usize,
    /// When the oldest unreceived wake-up was sent; 0 if none is pending.
    pending: AtomicI64,
    /// The receiving thread's [`thread_id`]; 0 until the thread has run.
    receiver: AtomicUsize,
    /// Number of samples written. Modified only by the woken thread.
    written: AtomicU64,
    /// Number of samples read. Modified only by the writer.
    read: AtomicU64,
    lost: AtomicU64,
    slots: Box<[[AtomicI64; 3]]>,
}

/// A number unique among living threads.
fn thread_id() -> usize {
    thread_local!(static ID: u8 = const { 0 });
    ID.with(|id| std::ptr::from_ref(id).addr())
}

impl Ring {
    pub(super) fn new(of: &str, number: usize) -> Ring {
        Ring {
            of: of.to_owned(),
            number,
            pending: AtomicI64::new(0),
            receiver: AtomicUsize::new(0),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            slots: (0..CAPACITY).map(|_| Default::default()).collect(),
        }
    }

    pub(crate) fn name(&self) -> String {
        match self.number {
            0 | 1 => self.of.clone(),
            number => format!("{}-{number}", self.of),
        }
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) fn sent(&self, now: Instant) {
        if self.receiver.load(Ordering::Relaxed) != thread_id() {
            // Fails if an earlier wake-up is pending. The earlier one counts.
            let orders = (Ordering::Release, Ordering::Relaxed);
            let _ = (self.pending).compare_exchange(0, now.0, orders.0, orders.1);
        }
    }

    pub(super) fn received(&self, now: Instant) {
        self.receiver.store(thread_id(), Ordering::Relaxed);
        // Most iterations of the thread were not caused by a recorded wake-up, and end here.
        if self.pending.load(Ordering::Relaxed) == 0 {
            return;
        }
        let sent = self.pending.swap(0, Ordering::Acquire);
        // A wake-up sent after `now` was read would otherwise have a negative latency.
        if sent != 0 {
            self.push([sent, sent, now.0.max(sent)]);
        }
    }

    pub(super) fn woke(&self, deadline: Instant, now: Instant) {
        if now >= deadline {
            self.push([deadline.0, deadline.0, now.0]);
        }
    }

    fn push(&self, sample: Sample) {
        let written = self.written.load(Ordering::Relaxed);
        let pending = written - self.read.load(Ordering::Acquire);
        if pending >= CAPACITY as u64 {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for (slot, time) in self.slot(written).iter().zip(sample) {
            slot.store(time, Ordering::Relaxed);
        }
        self.written.store(written + 1, Ordering::Release);
    }

    /// Reads all samples.
    pub(crate) fn drain(&self, mut each: impl FnMut(Sample)) {
        let written = self.written.load(Ordering::Acquire);
        let read = self.read.load(Ordering::Relaxed);
        for number in read..written {
            let [intended, sent, received] = self.slot(number);
            each([intended, sent, received].map(|slot| slot.load(Ordering::Relaxed)));
        }
        self.read.store(written, Ordering::Release);
    }

    fn slot(&self, number: u64) -> &[AtomicI64; 3] {
        // The remainder is less than the capacity, so it fits into a usize.
        &self.slots[usize::try_from(number % CAPACITY as u64).unwrap_or(0)]
    }
}
