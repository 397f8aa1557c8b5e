//! Small pictures with alpha, in memory shared with the compositor. They show the text, the pointer and the black
//! background.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use wayland_client::Proxy as _;
use wayland_client::backend::protocol::Message;
use wayland_client::backend::{Backend, ObjectData, ObjectId};
use wayland_client::protocol::wl_buffer::WlBuffer;
use wayland_client::protocol::wl_shm::{self, WlShm};
use wayland_client::protocol::wl_shm_pool::{self, WlShmPool};
use wayland_client::protocol::wl_surface::WlSurface;

use openuvr_media::sys::memory::SharedMemory;

/// A picture. Its memory is written once. Dropping the picture destroys its buffer, but the compositor keeps the memory
/// as long as it shows the picture.
pub(crate) struct Image {
    buffer: WlBuffer,
    size: (u16, u16),
}

impl Image {
    /// A picture of premultiplied ARGB pixels, row by row; `None` if it is empty or there is no memory.
    pub(crate) fn new(shm: &WlShm, size: (u16, u16), argb: &[u32]) -> Option<Image> {
        let (width, height) = (usize::from(size.0), usize::from(size.1));
        if width == 0 || height == 0 {
            return None;
        }
        let (mut memory, file) = SharedMemory::new(width * height * 4).ok()?;
        for (to, pixel) in memory.bytes_mut().chunks_exact_mut(4).zip(argb) {
            // `argb8888` is little-endian on every machine.
            to.copy_from_slice(&pixel.to_le_bytes());
        }
        let buffer = buffer(
            shm,
            file.as_fd(),
            (size.0.into(), size.1.into()),
            wl_shm::Format::Argb8888,
            Arc::new(Ignored),
        );
        Some(Image { buffer, size })
    }

    /// Makes the picture the next contents of a surface.
    pub(crate) fn attach(&self, surface: &WlSurface) {
        surface.attach(Some(&self.buffer), 0, 0);
        surface.damage_buffer(0, 0, self.size.0.into(), self.size.1.into());
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        self.buffer.destroy();
    }
}

/// A buffer that consists of the whole `file`, with packed rows of 4 bytes per pixel. Its events go to `data`. If the
/// connection has failed, the buffer is inert.
pub(crate) fn buffer(
    shm: &WlShm,
    file: std::os::fd::BorrowedFd<'_>,
    (width, height): (i32, i32),
    format: wl_shm::Format,
    data: Arc<dyn ObjectData>,
) -> WlBuffer {
    let inert = || WlBuffer::inert(shm.backend().clone());
    let request = wl_shm::Request::CreatePool {
        fd: file,
        size: width.saturating_mul(height).saturating_mul(4),
    };
    let Ok(pool) = shm.send_constructor::<WlShmPool>(request, Arc::new(Ignored)) else {
        return inert();
    };
    let request = wl_shm_pool::Request::CreateBuffer {
        offset: 0,
        width,
        height,
        stride: width.saturating_mul(4),
        format: wayland_client::WEnum::Value(format),
    };
    let made = pool.send_constructor(request, data);
    // The buffer keeps the memory alive.
    pool.destroy();
    made.unwrap_or_else(|_| inert())
}

/// The data of an object whose events are ignored.
pub(crate) struct Ignored;

impl ObjectData for Ignored {
    fn event(
        self: Arc<Self>,
        _: &Backend,
        _: Message<ObjectId, std::os::fd::OwnedFd>,
    ) -> Option<Arc<dyn ObjectData>> {
        None
    }

    fn destroyed(&self, _: ObjectId) {}
}
