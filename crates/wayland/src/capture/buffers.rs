//! Three shared-memory buffers for the compositor's copies.

use std::os::fd::AsFd as _;

use openuvr_proto::units::Size;
use wayland_client::protocol::wl_buffer::WlBuffer;

use super::compositor::Compositor;
use super::copy::{BufferForm, Copied, readable};
use super::turn::Transform;
use openuvr_media::capture::CaptureError;
use openuvr_media::damage::Block;
use openuvr_media::picture::{Picture, PixelFormat, Plane, RowOrder};
use openuvr_media::sys::memory::SharedMemory;

/// The buffers. One may be the target of a copy, one may wait to be passed to the caller, and one may be the newest
/// picture.
#[derive(Default)]
pub(super) struct Buffers {
    form: Option<BufferForm>,
    format: Option<PixelFormat>,
    all: Vec<Buffer>,
    lent: Option<usize>,
    waiting: Option<usize>,
    shown: Option<usize>,
}

struct Buffer {
    memory: SharedMemory,
    proxy: WlBuffer,
    bottom_up: bool,
    transform: Transform,
    /// The area in which the buffer differs from the newest copy; `None` if it may differ everywhere.
    stale: Option<Block>,
}

const COUNT: usize = 3;

const NOTHING: Block = Block {
    columns: 0..0,
    rows: 0..0,
};

impl Buffers {
    /// Replaces the buffers with new, empty ones if they do not have this form yet. Returns whether it has replaced
    /// them.
    ///
    /// # Errors
    /// Returns an error if the pixel format is not supported, the size is invalid, or there is no memory.
    pub(super) fn fit(
        &mut self,
        compositor: &Compositor,
        form: BufferForm,
    ) -> Result<bool, CaptureError> {
        if self.form == Some(form) {
            return Ok(false);
        }
        let display = &compositor.name;
        let format = readable(form.format).ok_or_else(|| {
            CaptureError(format!(
                "{display}: can't read its pictures in the pixel format {:?}: configure its compositor to \
                 render with 8 bits per colour",
                form.format
            ))
        })?;
        let row = form.size.width as usize * format.packed().unwrap_or(4);
        let stride = form.stride as usize;
        if !form.size.is_valid() || stride < row || stride > row.saturating_mul(2).max(4096) {
            return Err(CaptureError(format!(
                "{display}: its compositor announced an invalid picture format: {} with {} bytes per row",
                form.size, form.stride
            )));
        }
        *self = Buffers {
            form: Some(form),
            format: Some(format),
            ..Buffers::default()
        };
        for _ in 0..COUNT {
            let length = stride * form.size.height as usize;
            let shared = SharedMemory::new(length);
            let (memory, file) = shared.map_err(|cause| {
                CaptureError(format!(
                    "{display}: can't allocate memory for its pictures: {cause}"
                ))
            })?;
            let proxy = compositor.buffer(file.as_fd(), length, form)?;
            self.all.push(Buffer {
                memory,
                proxy,
                bottom_up: false,
                transform: Transform::default(),
                stale: None,
            });
        }
        Ok(true)
    }

    /// A buffer for the next copy, and the area in which it differs from the newest copy. Call [`fit`](Buffers::fit)
    /// first.
    pub(super) fn lend(&mut self) -> (&WlBuffer, Block) {
        let used = [self.waiting, self.shown];
        let free = (0..COUNT).find(|at| !used.contains(&Some(*at)));
        // At most two of the three buffers are in use.
        let at = free.unwrap_or(0);
        self.lent = Some(at);
        let all = self.size();
        let all = Block {
            columns: 0..all.width,
            rows: 0..all.height,
        };
        let buffer = &self.all[at];
        (&buffer.proxy, buffer.stale.clone().unwrap_or(all))
    }

    /// Makes the lent buffer the waiting buffer after the copy into it has finished. An older waiting buffer is free
    /// again. `turned` is the rotation that the compositor has applied to the picture.
    pub(super) fn completed(&mut self, copied: &Copied, turned: Transform) {
        let Some(at) = self.lent.take() else {
            return;
        };
        for buffer in &mut self.all {
            buffer.stale = match (&buffer.stale, &copied.damage) {
                (Some(known), Some(new)) => Some(known.joined(new)),
                _ => None,
            };
        }
        let buffer = &mut self.all[at];
        buffer.stale = Some(NOTHING);
        buffer.bottom_up = copied.bottom_up;
        buffer.transform = turned;
        self.waiting = Some(at);
    }

    /// Handles a failed or abandoned copy. The changes that this copy would have contained are unknown.
    pub(super) fn cancel(&mut self) {
        self.lent = None;
        for buffer in &mut self.all {
            buffer.stale = None;
        }
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    pub(super) fn has_shown(&self) -> bool {
        self.shown.is_some()
    }

    /// Makes the waiting picture the newest one.
    pub(super) fn show(&mut self) {
        if let Some(at) = self.waiting.take() {
            self.shown = Some(at);
        }
    }

    /// Discards all pictures.
    pub(super) fn forget(&mut self) {
        (self.lent, self.waiting, self.shown) = (None, None, None);
    }

    /// The rotation that the compositor has applied to the newest picture.
    pub(super) fn transform(&self) -> Transform {
        let shown = self.shown.map(|at| self.all[at].transform);
        shown.unwrap_or_default()
    }

    /// The newest picture, with the compositor's rotation.
    pub(super) fn picture(&self) -> Option<Picture<'_>> {
        let (form, format) = (self.form?, self.format?);
        let buffer = &self.all[self.shown?];
        let plane = Plane {
            data: buffer.memory.bytes(),
            stride: form.stride as usize,
        };
        Some(Picture {
            size: form.size,
            format,
            rows: match buffer.bottom_up {
                true => RowOrder::BottomUp,
                false => RowOrder::TopDown,
            },
            planes: [plane, Plane::EMPTY, Plane::EMPTY],
        })
    }

    /// The size of the buffers.
    pub(super) fn size(&self) -> Size {
        self.form.map(|form| form.size).unwrap_or_default()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.proxy.destroy();
    }
}
