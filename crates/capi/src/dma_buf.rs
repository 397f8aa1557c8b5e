//! Pictures in a dma-buf: mapped, and read by the processor.
//!
//! What it is not: a way for pictures to stay in the GPU's memory.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::{Failure, Outcome};

/// `DMA_BUF_IOCTL_SYNC` of linux/dma-buf.h: `_IOW('b', 0, u64)`.
const SYNC: libc::c_ulong = 0x4008_6200;
/// `DMA_BUF_SYNC_READ` with `DMA_BUF_SYNC_START`, and with `DMA_BUF_SYNC_END`.
const BEGIN: u64 = 1;
const END: u64 = 1 | 1 << 2;

/// Where a picture lies, as the application says.
pub(crate) struct DmaBuf {
    /// The descriptor.
    pub(crate) fd: c_int,
    /// Where the picture begins in it, in bytes.
    pub(crate) offset: u64,
    /// How it is tiled, a `DRM_FORMAT_MOD_` number.
    pub(crate) modifier: u64,
}

/// Has `copy` read the picture, which has `len` bytes, out of `buffer`.
pub(crate) fn read<T>(buffer: &DmaBuf, len: usize, copy: impl FnOnce(&[u8]) -> T) -> Outcome<T> {
    if buffer.modifier != 0 {
        return Err(Failure::unavailable(format!(
            "a dma-buf with the modifier {:#x} is tiled, which only its GPU can read: a linear one \
             (DRM_FORMAT_MOD_LINEAR) or an OpenGL pixel buffer would work",
            buffer.modifier
        )));
    }
    if buffer.fd < 0 {
        return Err(Failure::argument("dma_buf is no descriptor"));
    }
    // SAFETY: not negative; that it is open is found out by the first call that uses it, and it is
    // not kept.
    let fd = unsafe { BorrowedFd::borrow_raw(buffer.fd) };
    let wrong = |what: &str| Failure::argument(format!("dma_buf {}: {what}", fd.as_raw_fd()));
    let map = Map::new(fd, buffer.offset, len).map_err(|why| wrong(&why))?;
    map.sync(BEGIN).map_err(|why| wrong(&why))?;
    let copied = copy(map.bytes());
    map.sync(END).map_err(|why| wrong(&why))?;
    Ok(copied)
}

/// A mapped buffer that can't shrink below what is mapped.
struct Map<'a> {
    fd: BorrowedFd<'a>,
    /// Whether the processor's and the device's view have to be brought together.
    device: bool,
    start: *mut c_void,
    mapped: usize,
    /// Where the picture begins, and its length.
    at: usize,
    len: usize,
}

impl<'a> Map<'a> {
    fn new(fd: BorrowedFd<'a>, offset: u64, len: usize) -> Result<Map<'a>, String> {
        let device = sync(fd, BEGIN).is_ok();
        if device {
            let _ = sync(fd, END);
        }
        // Memory that somebody may cut off while it is read would end the application by SIGBUS.
        let sealed = fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        if !device && !sealed {
            return Err(
                "neither a dma-buf nor a memfd that is sealed against shrinking".to_owned(),
            );
        }
        let size = match device {
            // It has no place to read from, so none is moved: dma_buf_llseek of the kernel.
            true => rustix::fs::seek(fd, rustix::fs::SeekFrom::End(0)).unwrap_or(0),
            false => fstat(fd).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0)),
        };
        let at = usize::try_from(offset).map_err(|_| "its offset is too large".to_owned())?;
        let end = at.checked_add(len).filter(|end| *end as u64 <= size);
        let mapped = end.ok_or_else(|| {
            format!("it has {size} bytes, the picture of {len} at {offset} would end behind them")
        })?;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ,
                MapFlags::SHARED,
                fd,
                0,
            )
        };
        Ok(Map {
            fd,
            device,
            start: start.map_err(|e| format!("it can't be mapped: {e}"))?,
            mapped,
            at,
            len,
        })
    }

    fn sync(&self, what: u64) -> Result<(), String> {
        match self.device {
            true => sync(self.fd, what).map_err(|e| format!("DMA_BUF_IOCTL_SYNC failed: {e}")),
            false => Ok(()),
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped from `start` for `at + len` bytes until this is dropped, and the file is as
        // long. Who writes into it meanwhile spoils the picture's bytes, of which any are valid.
        unsafe { std::slice::from_raw_parts(self.start.cast::<u8>().add(self.at), self.len) }
    }
}

impl Drop for Map<'_> {
    fn drop(&mut self) {
        // SAFETY: mapped by us, and nobody borrows from it any more.
        let _ = unsafe { munmap(self.start, self.mapped) };
    }
}

fn sync(fd: BorrowedFd<'_>, what: u64) -> std::io::Result<()> {
    loop {
        // SAFETY: the request reads the eight bytes of `what`; another kind of file refuses it.
        if unsafe { libc::ioctl(fd.as_raw_fd(), SYNC, &raw const what) } == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR | libc::EAGAIN) => {}
            _ => return Err(error),
        }
    }
}
