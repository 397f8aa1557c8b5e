//! Memory that an X server reads while we write: a sealed memfd and its mapping.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A writable mapping of a memfd, present in memory from the start (no page fault in a frame).
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory owned by this value alone; no thread-local state is tied to
// its address.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `len` zero bytes (at least one) and the descriptor behind them, sealed against shrinking
    /// so that neither side can make the other fault.
    pub(super) fn new(len: usize) -> io::Result<(OwnedFd, Mapping)> {
        let len = len.max(1);
        let file = memfd_create(
            "openuvr-picture",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        ftruncate(&file, u64::try_from(len).map_err(io::Error::other)?)?;
        fcntl_add_seals(&file, SealFlags::SHRINK)?;
        let (access, flags) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::POPULATE,
        );
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe { mmap(std::ptr::null_mut(), len, access, flags, &file, 0) }?;
        let start = NonNull::new(start.cast::<u8>())
            .ok_or_else(|| io::Error::other("the kernel mapped page zero"))?;
        Ok((file, Mapping { start, len }))
    }

    /// The bytes. The X server has them mapped read-only.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `start` is valid for `len` initialised bytes until drop, the seal keeps the
        // file from shrinking, and `&mut self` makes this the only reference in this process.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what `mmap` returned, and no reference outlives `self`.
        // It can't fail for such a range, so there is nothing to report.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
