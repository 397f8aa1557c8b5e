//! Pictures of an application that draws with OpenGL, read back from its own context, in its own
//! process: a ring of pixel buffers into which the GPU writes while the application goes on, handed
//! over ([`Frame`]) where they lie, without a copy.
//!
//! The application keeps its state, its errors and its pace. It never waits for a picture: the
//! GPU's fence is looked at once, which is enough where it draws in software; otherwise a thread
//! with a context of its own, that shares the application's buffers, waits for it. Where there can
//! be no such thread, the next [`ReadBack::read`] or [`ReadBack::poll`] finds the picture, so that it
//! leaves up to a frame later.
//!
//! | context | way |
//! |---|---|
//! | GL 4.4, ES 3.1 with `EXT_buffer_storage` | pixel buffers that stay mapped; a thread may wait |
//! | GL 3.2, ES 3.0 | pixel buffers that are mapped when they are finished |
//! | older | `glReadPixels` into ordinary memory: the application waits, as it always does then |
//!
//! Rows come as OpenGL has them, the lowest first; nothing is turned here. A multisampled window is
//! resolved by `glReadPixels` itself, and an sRGB one is read as it is stored.
//!
//! Measured with Mesa's software renderer at 1280x720: the ring costs what a bare `glReadPixels` does
//! (`docs/adr/0009-reading-opengl.md`, which also says why no shader converts colours).
//!
//! What it is not: it links no OpenGL and looks up no function itself but through the loader that it
//! is given, and it opens no window.

mod sys;

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use super::RenderInfo;
use super::submit::{Frame, Ticket};
use crate::picture::PixelFormat;

pub use sys::{ContextGuard, Native, PrivateContext, ReadBack};

/// Finds a function of OpenGL, GLX or EGL by its name, or null: `glXGetProcAddress`,
/// `eglGetProcAddress` or the dynamic linker. What it finds must be the driver's own.
pub type Loader<'a> = &'a mut dyn FnMut(&CStr) -> *const c_void;

/// Where finished pictures go: called on the application's thread or on the one that waits, never on
/// two at once. Usually [`Submitter::submit`](super::submit::Submitter::submit).
pub type Submit = Arc<dyn Fn(Box<dyn Frame>, RenderInfo) -> Option<Ticket> + Send + Sync>;

/// How the application's context was made: how to make one that shares its buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// By GLX. Another thread may use its display only if libX11 is 1.8 or newer (found out here)
    /// or if the application has called `XInitThreads`, which is said with `threads`.
    Glx {
        /// The application has called `XInitThreads`.
        threads: bool,
    },
    /// By EGL.
    Egl,
    /// In another way, or there shall be no second context.
    None,
}

/// What is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadSource {
    /// What is drawn in the window and not yet swapped; of a window without a back buffer, what it
    /// shows.
    Window,
    /// What is drawn in the first colour attachment of a framebuffer object, which has one sample a pixel.
    Framebuffer {
        /// Its name in OpenGL.
        name: u32,
    },
    /// A pixel buffer into which the application has read a picture: it is copied on the GPU, so
    /// that the application may write to it again at once.
    Buffer {
        /// Its name in OpenGL.
        name: u32,
        /// Where the picture begins in it, in bytes.
        offset: usize,
        /// A packed format.
        format: PixelFormat,
        /// Bytes from a row to the next.
        stride: usize,
    },
}

/// What became of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadStatus {
    /// It is with the host already (`None`: which is gone).
    Submitted(Option<Ticket>),
    /// The GPU is at work on it.
    Pending,
    /// It was left out.
    Skipped(SkipReason),
}

/// Why a picture was left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SkipReason {
    /// The host or the GPU is at work on all buffers of the ring.
    #[error("the host or the GPU is behind: no buffer is free")]
    RingFull,
    /// The picture has no pixels, or its sides are too long.
    #[error("the window has no size")]
    NoSize,
    /// No window is bound for reading.
    #[error("there is no window to read from")]
    NoWindow,
    /// The name belongs to no buffer object of this context.
    #[error("there is no such pixel buffer: was it generated, bound and filled in this context?")]
    NoBuffer,
    /// The buffer ends before the picture does.
    #[error("the pixel buffer has {has} bytes, and the picture needs {needs}")]
    TooSmall {
        /// Bytes of the buffer.
        has: usize,
        /// Bytes up to the picture's end.
        needs: usize,
    },
    /// The buffer is mapped, so that it can't be copied.
    #[error("the pixel buffer is mapped: unmap it first")]
    Mapped,
    /// The context, its driver or the layout rules it out.
    #[error("{0}")]
    Unsupported(&'static str),
}
