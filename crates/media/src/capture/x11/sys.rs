//! Memory that the X server writes pictures into.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Result;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A memfd of a fixed length, mapped for reading.
#[derive(Debug)]
pub(super) struct SharedMemory {
    start: *const u8,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone, is never written to through it, and has no tie
// to the thread that made it.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// `len` zero bytes (`len` > 0), and the descriptor with which another process maps them.
    pub(super) fn new(len: usize) -> Result<(SharedMemory, OwnedFd)> {
        let fd = memfd_create(
            "openuvr-picture",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        ftruncate(&fd, len as u64)?;
        // Nobody who gets the descriptor can take pages away from under the mapping.
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ,
                MapFlags::SHARED,
                &fd,
                0,
            )?
        };
        let memory = SharedMemory {
            start: start.cast_const().cast(),
            len,
        };
        Ok((memory, fd))
    }

    /// The bytes. The caller must not let the X server write (no request for an image may be in
    /// flight) while it holds them.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is a live mapping of `len` bytes whose file is sealed against
        // shrinking. The server stores into it only while it carries out an image request, and
        // `Image` waits for the reply to each with exclusive access before it lends bytes again.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; no borrow of it outlives `self`.
        // It can only fail for arguments that `mmap` did not return.
        let _ = unsafe { munmap(self.start.cast_mut().cast(), self.len) };
    }
}
