//! Reads the pixels of a client's shared memory, which the client may change or truncate at any time.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use smithay::reexports::wayland_server::protocol::wl_buffer::WlBuffer;
use smithay::reexports::wayland_server::protocol::wl_shm::Format;
use smithay::wayland::shm::{BufferAccessError, with_buffer_contents};

use super::Pixels;

/// A buffer of shared memory while it is mapped.
pub(crate) struct ClientPixels<'a> {
    first: *const u8,
    stride: usize,
    size: (u32, u32),
    /// Whether red comes first in memory. If so, red and blue are exchanged.
    red_first: bool,
    /// Whether the alpha byte has no meaning.
    opaque: bool,
    lifetime: PhantomData<&'a ()>,
}

/// Calls `read` with the pixels of a buffer. Returns `Ok(None)` if the buffer's format is not supported, or if the
/// buffer lies outside its pool.
///
/// # Errors
/// Returns an error if `buffer` is not in shared memory, or if the client has truncated the memory. In the latter case,
/// the client is disconnected, and some of the pixels read were zero.
pub(crate) fn with_pixels<T>(
    buffer: &WlBuffer,
    read: impl FnOnce(&ClientPixels<'_>) -> T,
) -> Result<Option<T>, BufferAccessError> {
    with_buffer_contents(buffer, |pool, length, about| {
        let (red_first, opaque) = match about.format {
            Format::Argb8888 => (false, false),
            Format::Xrgb8888 => (false, true),
            Format::Abgr8888 => (true, false),
            Format::Xbgr8888 => (true, true),
            _ => return None,
        };
        let offset = usize::try_from(about.offset).ok()?;
        let stride = usize::try_from(about.stride).ok()?;
        let (width, height) = (
            u32::try_from(about.width).ok().filter(|side| *side > 0)?,
            u32::try_from(about.height).ok().filter(|side| *side > 0)?,
        );
        let row = width as usize * 4;
        let end = (height as usize - 1)
            .checked_mul(stride)?
            .checked_add(offset)?
            .checked_add(row)?;
        if stride < row || end > length || pool.is_null() {
            return None;
        }
        // SAFETY: `offset` is at most `end`, which is at most the length of the mapping that starts at `pool`.
        let first = unsafe { pool.add(offset) };
        Some(read(&ClientPixels {
            first,
            stride,
            size: (width, height),
            red_first,
            opaque,
            lifetime: PhantomData,
        }))
    })
}

impl ClientPixels<'_> {
    fn at(&self, x: u32, y: u32) -> *const u8 {
        let (x, y) = (x.min(self.size.0 - 1), y.min(self.size.1 - 1));
        // SAFETY: `with_pixels` has checked that the mapping contains `size` pixels of 4 bytes in rows of `stride`, and
        // the position is clamped to these pixels.
        unsafe { self.first.add(y as usize * self.stride + x as usize * 4) }
    }
}

impl Pixels for ClientPixels<'_> {
    fn size(&self) -> (u32, u32) {
        self.size
    }

    fn pixel(&self, x: u32, y: u32) -> u32 {
        let mut bytes = [0; 4];
        // SAFETY: `at` points to 4 bytes within the mapping, which exists as long as `self`. If the client truncates
        // the file, smithay handles the SIGBUS. The client may write at the same time, so no reference is created;
        // every byte value is valid.
        unsafe { std::ptr::copy_nonoverlapping(self.at(x, y), bytes.as_mut_ptr(), 4) };
        if self.red_first {
            bytes.swap(0, 2);
        }
        if self.opaque {
            bytes[3] = 0xff;
        }
        u32::from_le_bytes(bytes)
    }

    fn copy(&self, x: u32, y: u32, row: &mut [u8]) {
        let fits = x < self.size.0 && row.len() / 4 <= (self.size.0 - x) as usize;
        if !fits || y >= self.size.1 || !row.len().is_multiple_of(4) {
            return;
        }
        // SAFETY: the check above ensures that the mapping contains the row's bytes from `x` on. `row` is memory of
        // this process and does not overlap the mapping. SIGBUS and concurrent writes: as in `pixel`.
        unsafe { std::ptr::copy_nonoverlapping(self.at(x, y), row.as_mut_ptr(), row.len()) };
        if self.red_first {
            for pixel in row.chunks_exact_mut(4) {
                pixel.swap(0, 2);
            }
        }
    }
}
