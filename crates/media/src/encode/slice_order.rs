//! Puts the slices of a picture into order if several threads encode it.
//!
//! With sliced threads, libx264 delivers slices from several threads concurrently and out of order (measured with two
//! threads or more). The encoder threads of this crate do the same. The next slice in order goes to the sink
//! immediately; later slices wait. One thread delivers at a time, outside of the lock, so that no encoder thread waits
//! for the sink of another.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Slice;

/// The sink of one frame.
pub(super) type Sink<'a> = &'a mut (dyn FnMut(Slice<'_>) + Send);

/// Buffers reused from frame to frame: one per slice in flight.
pub(super) type Pool = Vec<Vec<u8>>;

/// Delivers the slices of one picture to its sink, in order.
pub(super) struct SliceOrder<'a> {
    queue: Mutex<Queue>,
    /// Locked only by the thread that has set [`Queue::delivering`], so it is never contended.
    sink: Mutex<Sink<'a>>,
    total_mbs: u32,
}

/// The results of a picture.
pub(super) struct Outcome {
    /// Whether every macroblock was delivered.
    pub(super) complete: bool,
    /// Bytes delivered.
    pub(super) bytes: usize,
    /// See [`Slice::clean_after`].
    pub(super) clean_after: Option<u16>,
    /// The buffers, for the next frame.
    pub(super) pool: Pool,
}

struct Queue {
    /// SPS and PPS, to be sent before slice 0.
    parameter_sets: Vec<u8>,
    /// See [`Slice::clean_after`].
    clean_after: Option<u16>,
    waiting: Vec<QueuedSlice>,
    pool: Pool,
    next_mb: u32,
    index: u8,
    bytes: usize,
    delivering: bool,
}

struct QueuedSlice {
    first_mb: u32,
    mbs: u32,
    bytes: Vec<u8>,
}

impl<'a> SliceOrder<'a> {
    /// Creates the order for a picture of `total_mbs` macroblocks.
    pub(super) fn new(total_mbs: u32, pool: Pool, sink: Sink<'a>) -> SliceOrder<'a> {
        SliceOrder {
            queue: Mutex::new(Queue {
                parameter_sets: Vec::new(),
                clean_after: None,
                waiting: Vec::new(),
                pool,
                next_mb: 0,
                index: 0,
                bytes: 0,
                delivering: false,
            }),
            sink: Mutex::new(sink),
            total_mbs,
        }
    }

    /// An empty buffer, from the pool if possible.
    pub(super) fn buffer(&self) -> Vec<u8> {
        lock(&self.queue).pool.pop().unwrap_or_default()
    }

    /// Returns a buffer to the pool.
    pub(super) fn unused(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        lock(&self.queue).pool.push(buffer);
    }

    /// Takes a parameter set, which must be sent before slice 0.
    pub(super) fn parameter_set(&self, mut bytes: Vec<u8>) {
        let mut queue = lock(&self.queue);
        queue.parameter_sets.extend_from_slice(&bytes);
        bytes.clear();
        queue.pool.push(bytes);
    }

    /// Reports that the picture starts an intra refresh, which completes this many frames later. Must be called before
    /// the slices of the picture are delivered.
    pub(super) fn clean_after(&self, frames: u16) {
        lock(&self.queue).clean_after = Some(frames);
    }

    /// Takes the slice of the macroblocks `first_mb..first_mb + mbs`, and delivers slices that are
    /// next in order.
    pub(super) fn slice(&self, first_mb: u32, mbs: u32, bytes: Vec<u8>) {
        let mut queue = lock(&self.queue);
        queue.waiting.push(QueuedSlice {
            first_mb,
            mbs,
            bytes,
        });
        if queue.delivering {
            // The delivering thread checks again before it stops.
            return;
        }
        queue.delivering = true;
        while let Some(mut next) = queue.take_next() {
            let slice = Slice {
                index: queue.index,
                first_mb: u16::try_from(next.first_mb).unwrap_or(u16::MAX),
                mbs: u16::try_from(next.mbs).unwrap_or(u16::MAX),
                last: next.first_mb + next.mbs == self.total_mbs,
                clean_after: queue.clean_after,
                bytes: &next.bytes,
            };
            queue.index = queue.index.saturating_add(1);
            queue.next_mb += next.mbs;
            queue.bytes += next.bytes.len();
            drop(queue);
            // After a panic, `delivering` stays set, and the sink is not called again for this
            // frame.
            lock(&self.sink)(slice);
            queue = lock(&self.queue);
            next.bytes.clear();
            queue.pool.push(next.bytes);
        }
        queue.delivering = false;
    }

    /// Ends the picture.
    pub(super) fn finish(self) -> Outcome {
        let queue = (self.queue.into_inner()).unwrap_or_else(PoisonError::into_inner);
        Outcome {
            complete: queue.next_mb == self.total_mbs && !queue.delivering,
            bytes: queue.bytes,
            clean_after: queue.clean_after,
            pool: queue.pool,
        }
    }
}

impl Queue {
    fn take_next(&mut self) -> Option<QueuedSlice> {
        let place = (self.waiting.iter()).position(|slice| slice.first_mb == self.next_mb)?;
        let mut next = self.waiting.swap_remove(place);
        if next.first_mb == 0 && !self.parameter_sets.is_empty() {
            next.bytes.splice(0..0, self.parameter_sets.drain(..));
        }
        Some(next)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_follow_parameter_sets_in_order() {
        let mut seen = Vec::new();
        let mut sink = |s: Slice<'_>| seen.push((s.index, s.first_mb, s.last, s.bytes.to_vec()));
        let order = SliceOrder::new(9, Pool::new(), &mut sink);
        order.slice(6, 3, vec![6]);
        order.parameter_set(vec![67]);
        order.slice(3, 3, vec![3]);
        order.parameter_set(vec![68]);
        order.slice(0, 3, vec![0]);
        let outcome = order.finish();
        assert!(outcome.complete);
        assert_eq!(outcome.bytes, 5);
        let expected = vec![
            (0, 0, false, vec![67, 68, 0]),
            (1, 3, false, vec![3]),
            (2, 6, true, vec![6]),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn threads_never_call_the_sink_concurrently() {
        let inside = std::sync::atomic::AtomicBool::new(false);
        let mut seen = Vec::new();
        let mut sink = |slice: Slice<'_>| {
            assert!(!inside.swap(true, std::sync::atomic::Ordering::SeqCst));
            seen.push(slice.first_mb);
            std::thread::yield_now();
            inside.store(false, std::sync::atomic::Ordering::SeqCst);
        };
        let order = SliceOrder::new(200, Pool::new(), &mut sink);
        std::thread::scope(|scope| {
            for half in [100, 0] {
                let order = &order;
                scope.spawn(move || (half..half + 100).for_each(|mb| order.slice(mb, 1, vec![1])));
            }
        });
        assert!(order.finish().complete);
        assert_eq!(seen, (0..200).collect::<Vec<u16>>());
    }

    #[test]
    fn a_missing_slice_is_incomplete() {
        let mut sink = |_: Slice<'_>| {};
        let order = SliceOrder::new(9, Pool::new(), &mut sink);
        order.slice(0, 3, vec![0]);
        order.slice(6, 3, vec![0]);
        assert!(!order.finish().complete);
    }
}
