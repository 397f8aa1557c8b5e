//! Pictures in a dma-buf, which are mapped and read by the CPU. They do not stay in GPU memory.

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

/// The application's description of a picture in a dma-buf.
pub(crate) struct DmaBuf {
    pub(crate) fd: c_int,
    /// The offset of the picture, in bytes.
    pub(crate) offset: u64,
    /// The tiling, a `DRM_FORMAT_MOD_` number.
    pub(crate) modifier: u64,
}

/// Passes the picture of `len` bytes in `buffer` to `copy`.
pub(crate) fn read<T>(buffer: &DmaBuf, len: usize, copy: impl FnOnce(&[u8]) -> T) -> Outcome<T> {
    if buffer.modifier != 0 {
        return Err(Failure::unavailable(format!(
            "a dma-buf with the modifier {:#x} is not linear, so this library can't read it: use a linear buffer \
             (DRM_FORMAT_MOD_LINEAR) or an OpenGL pixel buffer",
            buffer.modifier
        )));
    }
    if buffer.fd < 0 {
        return Err(Failure::argument(
            "dma_buf is negative, so it is not a descriptor",
        ));
    }
    // SAFETY: the descriptor is not negative, and is not used after this call. If it is not open, the first system call
    // fails.
    let fd = unsafe { BorrowedFd::borrow_raw(buffer.fd) };
    let wrong = |what: &str| Failure::argument(format!("dma_buf {}: {what}", fd.as_raw_fd()));
    let map = Map::new(fd, buffer.offset, len).map_err(|why| wrong(&why))?;
    map.sync(BEGIN).map_err(|why| wrong(&why))?;
    let copied = copy(map.bytes());
    map.sync(END).map_err(|why| wrong(&why))?;
    Ok(copied)
}

/// A mapped buffer that cannot shrink below the mapped size.
struct Map<'a> {
    fd: BorrowedFd<'a>,
    /// Whether CPU access must be synchronized with the device.
    device: bool,
    start: *mut c_void,
    mapped: usize,
    /// Offset and length of the picture.
    at: usize,
    len: usize,
}

impl<'a> Map<'a> {
    fn new(fd: BorrowedFd<'a>, offset: u64, len: usize) -> Result<Map<'a>, String> {
        let device = sync(fd, BEGIN).is_ok();
        if device {
            let _ = sync(fd, END);
        }
        // If a file were truncated during the read, SIGBUS would kill the application.
        let sealed = fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        if !device && !sealed {
            return Err(
                "the descriptor is neither a dma-buf nor a memfd that is sealed against shrinking"
                    .to_owned(),
            );
        }
        let size = match device {
            // The seek has no side effect, because a dma-buf has no file position (`dma_buf_llseek` in the kernel).
            true => rustix::fs::seek(fd, rustix::fs::SeekFrom::End(0)).unwrap_or(0),
            false => fstat(fd).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0)),
        };
        let at = usize::try_from(offset).map_err(|_| "the offset is too large".to_owned())?;
        let end = at.checked_add(len).filter(|end| *end as u64 <= size);
        let mapped = end.ok_or_else(|| {
            format!("a picture of {len} bytes at offset {offset} does not fit into the buffer of {size} bytes")
        })?;
        // SAFETY: the kernel chooses the address, so the new mapping overlaps no other memory.
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
            start: start.map_err(|e| format!("cannot map the buffer: {e}"))?,
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
        // SAFETY: `start` is mapped for `at + len` bytes until `self` is dropped, and the file is at least that long.
        // Concurrent writes change only bytes of the picture, and every byte value is valid.
        unsafe { std::slice::from_raw_parts(self.start.cast::<u8>().add(self.at), self.len) }
    }
}

impl Drop for Map<'_> {
    fn drop(&mut self) {
        // SAFETY: `new` created this mapping, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.start, self.mapped) };
    }
}

fn sync(fd: BorrowedFd<'_>, what: u64) -> std::io::Result<()> {
    loop {
        // SAFETY: the request reads only the eight bytes of `what`. Files of other kinds reject the request.
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
