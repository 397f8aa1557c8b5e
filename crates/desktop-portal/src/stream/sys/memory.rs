//! Shared memory into which a compositor has written a picture.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use openuvr_proto::units::Size;
use rustix::fs::fstat;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The largest mapping, in bytes: a picture of the largest size with 4 bytes per pixel and as much padding.
const LARGEST: usize = Size::MAX_SIDE as usize * Size::MAX_SIDE as usize * 8;

/// A mapping of a buffer for reading.
///
/// The mapping stays valid after the compositor or libpipewire has released the buffer. If a compositor shrinks a file
/// that it has not sealed, a signal ends this process. This is accepted, because the compositor is trusted: it controls
/// the whole screen.
#[derive(Debug)]
pub(in crate::stream) struct Mapping {
    start: NonNull<u8>,
    length: usize,
    /// The buffer's offset in the mapping.
    offset: usize,
}

// SAFETY: the mapping is read-only memory that only this value owns, and any thread may read or unmap it.
unsafe impl Send for Mapping {}
// SAFETY: threads only read the mapping, so they need no exclusive access.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `size` bytes of `file` from `offset`.
    ///
    /// # Errors
    /// Returns a short reason if the size is invalid, if the file ends before `offset` plus `size`, or if the file
    /// cannot be mapped.
    pub(super) fn new(file: BorrowedFd<'_>, offset: u32, size: u32) -> Result<Mapping, String> {
        let (offset, size) = (offset as usize, size as usize);
        // The file is mapped from its beginning, because `mmap` requires a page-aligned offset.
        let length = offset.checked_add(size).filter(|length| *length <= LARGEST);
        let length = length.filter(|_| size > 0);
        let length =
            length.ok_or_else(|| format!("a buffer has the invalid size of {size} bytes"))?;
        let info = fstat(file)
            .map_err(|cause| format!("can't determine the size of a buffer: {cause}"))?;
        if u64::try_from(info.st_size).unwrap_or(0) < length as u64 {
            return Err(format!(
                "a buffer was announced with {length} bytes, but has {}",
                info.st_size
            ));
        }
        let null = std::ptr::null_mut();
        // SAFETY: the kernel chooses the address, so the new mapping overlaps no other memory.
        let start = unsafe { mmap(null, length, ProtFlags::READ, MapFlags::SHARED, file, 0) };
        let start = start.map_err(|cause| format!("a buffer can't be mapped: {cause}"))?;
        let start = NonNull::new(start.cast::<u8>()).ok_or("a buffer was mapped to page zero")?;
        Ok(Mapping {
            start,
            length,
            offset,
        })
    }

    /// The bytes of the buffer. The compositor writes to them only while it owns the buffer. A faulty compositor may
    /// change pixels that are being read. The only effect is a wrong picture.
    pub(in crate::stream) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is mapped for `length` bytes until `self` is dropped.
        let all = unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) };
        &all[self.offset..]
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly the range that `mmap` returned, and no reference outlives `self`. The call can't
        // fail for such a range.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    #[test]
    fn a_buffer_that_is_shorter_than_announced_is_refused() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 8192).unwrap();
        rustix::io::pwrite(&file, b"abc", 100).unwrap();
        let mapping = Mapping::new(file.as_fd(), 100, 8092).unwrap();
        assert_eq!(&mapping.bytes()[..3], b"abc");
        assert_eq!(mapping.bytes().len(), 8092);
        for (offset, size) in [(0, 8193), (100, 8093), (u32::MAX, u32::MAX), (0, 0)] {
            assert!(
                Mapping::new(file.as_fd(), offset, size).is_err(),
                "{offset} {size}"
            );
        }
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        assert!(Mapping::new(pipe.as_fd(), 0, 1).is_err());
    }
}
