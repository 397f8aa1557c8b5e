//! Pictures of an OpenGL application, read back in the application's own context and process. The GPU writes into a
//! ring of pixel buffers while the application continues. The buffers are passed to the host ([`Frame`]) without a
//! copy.
//!
//! The application's state and errors stay as they are. [`ReadBack::read`] waits for the GPU only in two cases: in the
//! oldest contexts (last row of the table), and if the read-back is [stateless](ReadBack::stateless). Otherwise, `read`
//! checks the GPU's fence once. With a software renderer, the fence is usually signalled by then. If the fence is not
//! signalled yet, a thread waits for it. This thread has its own context, which shares the application's buffers. If no
//! such thread is possible, a later [`ReadBack::read`] or [`ReadBack::poll`] submits the picture, usually up to a frame
//! late.
//!
//! | context | method |
//! |---|---|
//! | GL 4.4, ES 3.1 with `EXT_buffer_storage` | persistently mapped pixel buffers; a thread may wait |
//! | GL 3.2, ES 3.0 | pixel buffers that are mapped when finished |
//! | older | `glReadPixels` into ordinary memory: the application waits |
//!
//! Rows keep OpenGL's order, lowest first. `glReadPixels` resolves a multisampled window; an sRGB
//! window is read as stored.
//!
//! Measured with Mesa's software renderer at 1280x720: the ring costs as much as a bare
//! `glReadPixels` (`docs/adr/0009-reading-opengl.md`, which also explains why no shader converts
//! colours).
//!
//! This module links no OpenGL, looks up functions only through the loader passed to it, and opens
//! no window.

mod sys;

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use super::RenderInfo;
use super::submit::{Frame, Ticket};
use crate::picture::PixelFormat;

pub use sys::{ContextGuard, Native, PrivateContext, ReadBack};

/// Looks up a function of OpenGL, GLX or EGL by name, for example with `glXGetProcAddress`, `eglGetProcAddress` or the
/// dynamic linker. Returns null if there is none. The result must be the driver's own function.
pub type Loader<'a> = &'a mut dyn FnMut(&CStr) -> *const c_void;

/// Receives finished pictures, on the application's thread or on the waiting thread, never on both at the same time.
/// Usually [`Submitter::submit`](super::submit::Submitter::submit).
pub type Submit = Arc<dyn Fn(Box<dyn Frame>, RenderInfo) -> Option<Ticket> + Send + Sync>;

/// The method by which the application's context was created. It determines how to create a context that shares the
/// buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Through GLX. A second thread may use the context's display only if libX11 is 1.8 or newer (detected here) or the
    /// application has called `XInitThreads` (`threads`).
    Glx {
        /// The application has called `XInitThreads`.
        threads: bool,
    },
    /// Through EGL.
    Egl,
    /// The context was created by other means, or no second context is necessary.
    None,
}

/// The pixels to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadSource {
    /// The window's back buffer before the swap. If the window has no back buffer, the visible
    /// pixels.
    Window,
    /// The first colour attachment of a framebuffer object with one sample per pixel.
    Framebuffer {
        /// Its OpenGL name.
        name: u32,
    },
    /// A pixel buffer into which the application has read a picture. The picture is copied on the GPU, so the
    /// application may overwrite it immediately.
    Buffer {
        /// Its OpenGL name.
        name: u32,
        /// The picture's offset in the buffer, in bytes.
        offset: usize,
        /// A packed format.
        format: PixelFormat,
        /// Bytes from one row to the next.
        stride: usize,
    },
}

/// The result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadStatus {
    /// The picture was passed to the host; `None` if the host is gone.
    Submitted(Option<Ticket>),
    /// The GPU is still working on the picture.
    Pending,
    /// The picture was skipped.
    Skipped(SkipReason),
}

/// Why a picture was skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SkipReason {
    /// All buffers of the ring are in use, by the host or by the GPU.
    #[error("the host or the GPU is behind: no buffer is free")]
    RingFull,
    /// The picture has no pixels, or its sides are too long.
    #[error("the picture's size is zero, or a side is too long")]
    NoSize,
    /// No window is bound for reading.
    #[error("no window is bound for reading")]
    NoWindow,
    /// The framebuffer object has no complete picture to read.
    #[error("the framebuffer to read from is incomplete")]
    Incomplete,
    /// The context has no buffer object with this name.
    #[error("unknown pixel buffer: generate, bind and fill it in this context")]
    NoBuffer,
    /// The picture does not fit in the buffer.
    #[error("the pixel buffer has {has} bytes; the picture needs {needs}")]
    TooSmall {
        /// Size of the buffer in bytes.
        has: usize,
        /// Bytes up to the end of the picture.
        needs: usize,
    },
    /// The buffer is mapped and can't be copied.
    #[error("the pixel buffer is mapped: unmap it first")]
    Mapped,
    /// The context, its driver or the layout does not support reading the picture.
    #[error("{0}")]
    Unsupported(&'static str),
}
