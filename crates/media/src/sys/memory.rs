//! Memory that we share with an X server: a sealed memfd and its mapping. Not who may touch it
//! when: its owners wait for the server's word.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapping of a memfd of a fixed length, present in memory from the start (no page fault in a
/// frame).
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory owned by this value alone; no thread-local state is tied to
// its address.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// `len` zero bytes (at least one) and the descriptor with which the server maps them, sealed so
    /// that neither side can take pages away from the other.
    pub(crate) fn new(len: usize) -> io::Result<(SharedMemory, OwnedFd)> {
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
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe { mmap(std::ptr::null_mut(), len, access, flags, &file, 0) }?;
        let start = NonNull::new(start.cast::<u8>())
            .ok_or_else(|| io::Error::other("the kernel mapped page zero"))?;
        Ok((SharedMemory { start, len }, file))
    }

    /// The bytes. The caller must not let the server write (no request for an image may be in
    /// flight) while it holds them.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len` initialised bytes until drop, and the seals keep the
        // file from shrinking. The server writes only while it carries out an image request, and
        // who asks for one has exclusive access until its reply is there.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes to write, under the same condition.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above: the server only reads it, or writes while it carries out a request whose
        // reply is waited for. `&mut self` makes this the only reference in this process.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what `mmap` returned, and no reference outlives `self`.
        // It can't fail for such a range, so there is nothing to report.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
