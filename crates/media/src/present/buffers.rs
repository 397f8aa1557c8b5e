//! Picture buffers shared with a display server. Tracks the server's reads of each buffer, and the
//! rows in which the buffer differs from the newest picture.
//!
//! A picture may change only some rows. The other rows are copied from the displayed picture if the buffer's own rows
//! are older. [`Buffers`] does no I/O; its owner reports the server's reads.

use std::ops::Range;
use std::os::fd::OwnedFd;

use openuvr_proto::units::Size;

use super::PresentError;
use crate::sys::memory::SharedMemory;

/// Number of buffers: one on the screen (kept for repaints), one that the server may still read,
/// and one to write.
const COUNT: usize = 3;

/// Buffers for BGRX pictures of one size with packed rows. The key of each buffer is the server's name for it.
pub struct Buffers<K> {
    size: Size,
    all: Vec<Buffer<K>>,
    /// The buffer for the next picture.
    next: Option<NextBuffer<K>>,
}

struct Buffer<K> {
    key: K,
    memory: SharedMemory,
    /// Rows that differ from the newest picture.
    behind: Range<u32>,
    /// The number of requests that read the buffer and have not completed.
    readers: u32,
}

/// The buffer for the next picture.
struct NextBuffer<K> {
    key: K,
    /// The displayed picture.
    shown: Option<K>,
    /// Rows from the top that are at least as new as the displayed picture; the rows below may be older.
    rows: u32,
    /// The range of `rows` that differs from the displayed picture.
    painted: Range<u32>,
    /// The range of `rows` that was requested since the last call of [`Buffers::take_new_rows`].
    new: Range<u32>,
}

impl<K: Copy + Eq> Buffers<K> {
    /// Creates black buffers; `share` passes a buffer to the server.
    pub fn new(
        size: Size,
        mut share: impl FnMut(OwnedFd) -> Result<K, PresentError>,
    ) -> Result<Buffers<K>, PresentError> {
        let mut all = Vec::with_capacity(COUNT);
        for _ in 0..COUNT {
            let (memory, file) = SharedMemory::new(size.pixels() * 4).map_err(|cause| {
                PresentError(format!(
                    "out of memory for a {size} picture buffer: {cause}"
                ))
            })?;
            all.push(Buffer {
                key: share(file)?,
                memory,
                // All buffers are black, like the initial picture.
                behind: 0..0,
                readers: 0,
            });
        }
        Ok(Buffers {
            size,
            all,
            next: None,
        })
    }

    /// The size of the pictures.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The server's names for the buffers.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.all.iter().map(|buffer| buffer.key)
    }

    /// Returns a buffer without readers that is not `kept`.
    pub fn free(&self, kept: Option<K>) -> Option<K> {
        let free = |each: &&Buffer<K>| each.readers == 0 && Some(each.key) != kept;
        self.all.iter().find(free).map(|buffer| buffer.key)
    }

    /// Whether there is a buffer for the next picture.
    pub fn is_started(&self) -> bool {
        self.next.is_some()
    }

    /// Selects the buffer for the next picture, which differs from the picture in `shown` only in
    /// the rows that are requested.
    pub fn start(&mut self, key: K, shown: Option<K>) {
        self.next = Some(NextBuffer {
            key,
            shown,
            rows: 0,
            painted: 0..0,
            new: 0..0,
        });
    }

    /// The memory of the whole next picture.
    pub fn whole(&mut self) -> Option<&mut [u8]> {
        self.rows(0..self.size.height)
    }

    /// The memory of rows of the next picture. They must be requested from top to bottom. Rows that
    /// are not requested keep the displayed picture.
    pub fn rows(&mut self, rows: Range<u32>) -> Option<&mut [u8]> {
        self.keep_rows(rows.start);
        let next = self.next.as_mut()?;
        next.rows = next.rows.max(rows.end);
        next.painted = around(&next.painted, &rows);
        next.new = around(&next.new, &rows);
        let row = self.size.width as usize * 4;
        let key = next.key;
        let buffer = self.all.iter_mut().find(|each| each.key == key)?;
        buffer.behind = around(&buffer.behind, &rows);
        let bytes = rows.start as usize * row..rows.end as usize * row;
        buffer.memory.bytes_mut().get_mut(bytes)
    }

    /// The next picture's rows that were requested since the last call, and have been painted.
    pub fn take_new_rows(&mut self) -> Range<u32> {
        let next = self.next.as_mut();
        next.map_or(0..0, |next| std::mem::take(&mut next.new))
    }

    /// The buffer of the next picture, and the number of its rows from the top that are valid after the requested rows
    /// have been painted.
    pub fn valid_rows(&self) -> Option<(K, u32)> {
        self.next.as_ref().map(|next| (next.key, next.rows))
    }

    /// Completes the next picture, which is the newest from now on. Returns its buffer, and the
    /// rows in which it differs from the previous picture.
    pub fn finish(&mut self) -> Option<(K, Range<u32>)> {
        self.keep_rows(self.size.height);
        let NextBuffer { key, painted, .. } = self.next.take()?;
        for buffer in &mut self.all {
            buffer.behind = match buffer.key == key {
                true => 0..0,
                false => around(&buffer.behind, &painted),
            };
        }
        Some((key, painted))
    }

    /// Updates the rows above `end`: copies the rows that are older than the displayed picture from that picture.
    fn keep_rows(&mut self, end: u32) {
        let Some(next) = self.next.as_mut().filter(|next| next.rows < end) else {
            return;
        };
        let (key, shown, from) = (next.key, next.shown, next.rows);
        next.rows = end;
        let at = |key| self.all.iter().position(|each| each.key == key);
        // Before the first picture, the buffers are black.
        let (Some(to), Some(shown)) = (at(key), shown.and_then(at)) else {
            return;
        };
        let Ok([to, shown]) = self.all.get_disjoint_mut([to, shown]) else {
            return;
        };
        let stale = to.behind.start.max(from)..to.behind.end.min(end);
        if stale.is_empty() {
            return;
        }
        let row = self.size.width as usize * 4;
        let bytes = stale.start as usize * row..stale.end as usize * row;
        if let Some(from) = shown.memory.bytes().get(bytes.clone())
            && let Some(to) = to.memory.bytes_mut().get_mut(bytes)
        {
            to.copy_from_slice(from);
        }
    }

    /// Records `requests` more requests that read `key` and will report their completion.
    pub fn reading(&mut self, key: K, requests: u32) {
        if let Some(buffer) = self.all.iter_mut().find(|each| each.key == key) {
            buffer.readers += requests;
        }
    }

    /// The number of requests that read `key` and have not completed.
    pub fn readers(&self, key: K) -> u32 {
        let buffer = self.all.iter().find(|each| each.key == key);
        buffer.map_or(0, |buffer| buffer.readers)
    }

    /// Records a completion.
    pub fn completed(&mut self, key: K) {
        if let Some(buffer) = self.all.iter_mut().find(|each| each.key == key) {
            buffer.readers = buffer.readers.saturating_sub(1);
        }
    }
}

/// The smallest range that contains both ranges.
fn around(one: &Range<u32>, other: &Range<u32>) -> Range<u32> {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => other.clone(),
        (_, true) => one.clone(),
        _ => one.start.min(other.start)..one.end.max(other.end),
    }
}
