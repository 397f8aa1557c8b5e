//! The picture buffers shared with the X server (MIT-SHM), and their pending reads.
//!
//! Spec: MIT Shared Memory Extension, version 1.2 (segments passed as file descriptors).

use std::ops::Range;

use openuvr_proto::units::Size;
use x11rb::connection::Connection;
use x11rb::protocol::shm::{self, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

use crate::present::PresentError;
use crate::sys::memory::SharedMemory;

/// Number of buffers: one on the screen (kept for repaints), one that the server may still read,
/// and one to write.
const COUNT: usize = 3;

/// Buffers for BGRX pictures of one size, rows packed.
pub(super) struct Buffers {
    size: Size,
    all: Vec<Buffer>,
}

struct Buffer {
    segment: shm::Seg,
    memory: SharedMemory,
    /// Rows that differ from the newest picture.
    behind: Range<u32>,
    /// Our requests that read it and have not completed.
    readers: u32,
}

impl Buffers {
    /// Shares new buffers with the server.
    pub(super) fn new(conn: &RustConnection, size: Size) -> Result<Buffers, PresentError> {
        let mut all = Vec::with_capacity(COUNT);
        for _ in 0..COUNT {
            let (memory, file) = SharedMemory::new(size.pixels() * 4).map_err(|cause| {
                PresentError(format!(
                    "out of memory for a {size} picture buffer: {cause}"
                ))
            })?;
            let refused = |cause: &dyn std::fmt::Display| {
                PresentError(format!(
                    "the X server can't share memory with this program ({cause}); run the client \
                     on the machine of its display, not through ssh -X or TCP"
                ))
            };
            let segment = conn.generate_id().map_err(|cause| refused(&cause))?;
            conn.shm_attach_fd(segment, file, true)
                .map_err(|cause| refused(&cause))?
                .check()
                .map_err(|cause| refused(&cause))?;
            all.push(Buffer {
                segment,
                memory,
                // All are black, the initial picture.
                behind: 0..0,
                readers: 0,
            });
        }
        Ok(Buffers { size, all })
    }

    /// The size of the pictures.
    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// A buffer without readers that is not `kept`.
    pub(super) fn free(&self, kept: Option<shm::Seg>) -> Option<shm::Seg> {
        let free = |each: &&Buffer| each.readers == 0 && Some(each.segment) != kept;
        self.all.iter().find(free).map(|buffer| buffer.segment)
    }

    /// The bytes of a buffer.
    pub(super) fn bytes(&mut self, segment: shm::Seg) -> Option<&mut [u8]> {
        let buffer = self.all.iter_mut().find(|each| each.segment == segment)?;
        Some(buffer.memory.bytes_mut())
    }

    /// The rows of a buffer that differ from the newest picture.
    pub(super) fn behind(&self, segment: shm::Seg) -> Range<u32> {
        let buffer = self.all.iter().find(|each| each.segment == segment);
        buffer.map_or(0..0, |buffer| buffer.behind.clone())
    }

    /// Records that these rows of a buffer no longer contain the newest picture.
    pub(super) fn wrote(&mut self, segment: shm::Seg, rows: &Range<u32>) {
        if let Some(buffer) = self.all.iter_mut().find(|each| each.segment == segment) {
            buffer.behind = around(&buffer.behind, rows);
        }
    }

    /// Records that the newest picture is in this buffer, and differs from the previous one in
    /// `rows`.
    pub(super) fn newest(&mut self, segment: shm::Seg, rows: &Range<u32>) {
        for buffer in &mut self.all {
            buffer.behind = match buffer.segment == segment {
                true => 0..0,
                false => around(&buffer.behind, rows),
            };
        }
    }

    /// Copies bytes from one buffer to the same position in another.
    pub(super) fn copy(&mut self, from: shm::Seg, to: shm::Seg, bytes: Range<usize>) {
        let at = |segment| self.all.iter().position(|each| each.segment == segment);
        if let (Some(from), Some(to)) = (at(from), at(to))
            && let Ok([from, to]) = self.all.get_disjoint_mut([from, to])
            && let Some(from) = from.memory.bytes().get(bytes.clone())
            && let Some(to) = to.memory.bytes_mut().get_mut(bytes)
        {
            to.copy_from_slice(from);
        }
    }

    /// Records `requests` more requests that read `segment` and will report their completion.
    pub(super) fn reading(&mut self, segment: shm::Seg, requests: u32) {
        if let Some(buffer) = self.all.iter_mut().find(|each| each.segment == segment) {
            buffer.readers += requests;
        }
    }

    /// Records a completion.
    pub(super) fn completed(&mut self, segment: shm::Seg) {
        if let Some(buffer) = self.all.iter_mut().find(|each| each.segment == segment) {
            buffer.readers = buffer.readers.saturating_sub(1);
        }
    }

    /// Detaches them from the server, which keeps its own mapping until then.
    pub(super) fn detach(self, conn: &RustConnection) {
        for buffer in &self.all {
            // A server that is gone has detached them already.
            let _ = conn.shm_detach(buffer.segment);
        }
    }
}

/// The range from the first to the last row of both.
pub(super) fn around(one: &Range<u32>, other: &Range<u32>) -> Range<u32> {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => other.clone(),
        (_, true) => one.clone(),
        _ => one.start.min(other.start)..one.end.max(other.end),
    }
}
