//! Memory shared with an X server: a sealed memfd and its mapping. The owners wait for the server's replies to
//! synchronise access.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapping of a memfd of fixed length, populated from the start (no page faults in a frame).
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory owned only by this value; no thread-local state depends on
// its address.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Returns `len` zero bytes (at least one), and the file descriptor with which the server maps them. The file is
    /// sealed, so that neither process can shrink it.
    pub fn new(len: usize) -> io::Result<(SharedMemory, OwnedFd)> {
        let len = len.max(1);
        let file = memfd_create(
            "openuvr-picture",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        ftruncate(&file, u64::try_from(len).map_err(io::Error::other)?)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let (access, flags) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::POPULATE,
        );
        // SAFETY: a new mapping at an address chosen by the kernel overlaps nothing.
        let start = unsafe { mmap(std::ptr::null_mut(), len, access, flags, &file, 0) }?;
        let start = NonNull::new(start.cast::<u8>())
            .ok_or_else(|| io::Error::other("the kernel mapped page zero"))?;
        Ok((SharedMemory { start, len }, file))
    }

    /// The bytes. While they are borrowed, no image request may be pending, because the server writes
    /// to them during such a request.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` points to `len` initialised bytes until this value is dropped, and seals prevent the X server
        // from shrinking the file. The server writes only during an image request. The sender of the request has
        // exclusive access to this value until the reply arrives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes for writing. The server must not read or write them while they are borrowed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, the server writes only during an image request, and the sender of the request waits
        // for the reply. At other times, the server only reads. `&mut self` makes this the only reference in this
        // process.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the range is exactly the range that `mmap` returned, and no reference outlives `self`. `munmap` can't
        // fail for such a range, so there is nothing to report.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
