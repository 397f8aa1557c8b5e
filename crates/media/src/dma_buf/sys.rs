//! Mappings of dma-bufs for reading.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// `DMA_BUF_IOCTL_SYNC`, whose argument is a structure of one 64-bit number.
const SYNC: rustix::ioctl::Opcode = opcode::write::<u64>(b'b', 0);
/// `DMA_BUF_SYNC_READ`.
const READ: u64 = 1;
/// `DMA_BUF_SYNC_END`; its absence is `DMA_BUF_SYNC_START`.
const END: u64 = 1 << 2;

/// A dma-buf that is mapped for reading. Creating this value begins the CPU's access, and dropping it ends the access.
pub(super) struct Map {
    start: NonNull<u8>,
    len: usize,
    fd: OwnedFd,
}

// SAFETY: the mapping is plain memory owned only by this value; no thread-local state depends on its address.
unsafe impl Send for Map {}
// SAFETY: shared references only read.
unsafe impl Sync for Map {}

impl Map {
    pub(super) fn new(fd: BorrowedFd<'_>) -> io::Result<Map> {
        let fd = fd.try_clone_to_owned()?;
        // The size of a dma-buf never changes.
        let len = usize::try_from(seek(&fd, SeekFrom::End(0))?).map_err(io::Error::other)?;
        let (access, flags) = (ProtFlags::READ, MapFlags::SHARED);
        // SAFETY: a new mapping at an address chosen by the kernel overlaps nothing.
        let start = unsafe { mmap(std::ptr::null_mut(), len, access, flags, &fd, 0) }?;
        let start = NonNull::new(start.cast::<u8>())
            .ok_or_else(|| io::Error::other("the kernel mapped page zero"))?;
        let map = Map { start, len, fd };
        // The request also refuses a file that is not a dma-buf. Such a file could be truncated, which would make the
        // mapping unreadable.
        map.sync(READ)?;
        Ok(map)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` points to `len` initialised bytes until this value is dropped, because a dma-buf has a fixed
        // size. The owner of the picture prevents the device from writing to it while the picture exists.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    fn sync(&self, flags: u64) -> io::Result<()> {
        loop {
            // SAFETY: for a dma-buf, the kernel reads a number of this size. Other files refuse the request.
            match unsafe { ioctl(&self.fd, Setter::<SYNC, u64>::new(flags)) } {
                Err(Errno::INTR | Errno::AGAIN) => {}
                other => return Ok(other?),
            }
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // The request matters only if the CPU has written to the memory. This mapping is read-only, so an error has no
        // effect.
        let _ = self.sync(READ | END);
        // SAFETY: the range is exactly the range that `mmap` returned, and no reference outlives `self`. `munmap` can't
        // fail for such a range, so there is nothing to report.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
