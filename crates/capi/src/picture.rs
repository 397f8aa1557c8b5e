//! Pictures of the application in plain memory: copied, or used in place.

use std::ffi::{c_int, c_void};

use openuvr_media::capture::pool::Pool;
use openuvr_media::capture::submit::Frame;
use openuvr_media::picture::{Picture, PixelFormat, Plane, RowOrder};
use openuvr_proto::units::Size;

use crate::callback_scope::CallbackScope;
use crate::dma_buf::{self, DmaBuf};
use crate::error::{Failure, Outcome};
use crate::ffi::Sized32;

/// The order of a pixel's bytes in memory.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_PIXEL_FORMAT {
    /// Blue, green, red, ignored: the fastest format. OpenGL's `GL_BGRA` with `GL_UNSIGNED_BYTE`.
    OPENUVR_PIXEL_FORMAT_BGRX = 1,
    /// Red, green, blue, ignored. `GL_RGBA` with `GL_UNSIGNED_BYTE`.
    OPENUVR_PIXEL_FORMAT_RGBX = 2,
    /// Red, green, blue, as in the paper's listing. `GL_RGB` with `GL_UNSIGNED_BYTE`.
    OPENUVR_PIXEL_FORMAT_RGB = 3,
    /// Blue, green, red. `GL_BGR` with `GL_UNSIGNED_BYTE`.
    OPENUVR_PIXEL_FORMAT_BGR = 4,
}

use OPENUVR_PIXEL_FORMAT::*;

const FORMATS: &[OPENUVR_PIXEL_FORMAT] = &[
    OPENUVR_PIXEL_FORMAT_BGRX,
    OPENUVR_PIXEL_FORMAT_RGBX,
    OPENUVR_PIXEL_FORMAT_RGB,
    OPENUVR_PIXEL_FORMAT_BGR,
];

/// A picture. Set `size` to `sizeof(struct openuvr_picture)` and unused fields to 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_picture {
    /// Bytes of this structure.
    pub size: u32,
    /// Width in pixels, 1 to 16384.
    pub width: u32,
    /// Height in pixels, 1 to 16384.
    pub height: u32,
    /// An `OPENUVR_PIXEL_FORMAT`.
    pub format: u32,
    /// Bytes from the start of a row to the start of the next; 0: no padding.
    pub stride: usize,
    /// The first byte in memory; NULL with a dma-buf.
    pub data: *const c_void,
    /// 1: the first row in memory is the lowest, as in OpenGL; 0: the highest.
    pub bottom_up: u32,
    /// At the MUD: the frame's number.
    pub id: u32,
    /// 1: use `dma_buf`, not `data`.
    pub is_dma_buf: u32,
    /// The descriptor of a linear dma-buf (or of a sealed memfd). It is mapped and read before the call returns, and not
    /// kept.
    pub dma_buf: c_int,
    /// The offset of the picture in the dma-buf, in bytes.
    pub offset: u64,
    /// The tiling, a `DRM_FORMAT_MOD_` number. Only 0, linear, is supported.
    pub modifier: u64,
    /// If not NULL, `data` is lent: it is used in place, without a copy. This function is called once, with `user`,
    /// when `data` (or the dma-buf) is no longer needed: on a thread of the library after a later picture, or on the
    /// caller's thread before the submitting call returns. If the submitting call fails, this function is not called.
    /// The exceptions are `OPENUVR_ERROR_TIMEOUT` and `OPENUVR_ERROR_ENDED`: with these errors, it is called as after a
    /// success. The function must not call functions of this library.
    pub release: Option<unsafe extern "C" fn(user: *mut c_void)>,
    /// The argument of `release`.
    pub user: *mut c_void,
}

// SAFETY: the type is `repr(C)`, with only numbers, pointers and an optional function, so every bit pattern is valid.
unsafe impl Sized32 for openuvr_picture {}

impl Default for openuvr_picture {
    fn default() -> openuvr_picture {
        openuvr_picture {
            size: crate::size_of32::<openuvr_picture>(),
            width: 0,
            height: 0,
            format: 0,
            stride: 0,
            data: std::ptr::null(),
            bottom_up: 0,
            id: 0,
            is_dma_buf: 0,
            dma_buf: -1,
            offset: 0,
            modifier: 0,
            release: None,
            user: std::ptr::null_mut(),
        }
    }
}

/// The validated layout of a picture in memory: every row is inside [`Layout::bytes`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) size: Size,
    pub(crate) format: OPENUVR_PIXEL_FORMAT,
    pub(crate) stride: usize,
    pub(crate) bottom_up: bool,
}

impl Layout {
    /// Checks the layout. With `stride` 0, a row has its own size, rounded up to a multiple of `align`.
    pub(crate) fn new(
        size: Size,
        format: u32,
        stride: usize,
        align: usize,
        bottom_up: bool,
    ) -> Outcome<Layout> {
        let format = format_of(format)?;
        if !size.is_valid() {
            return Err(Failure::argument(format!(
                "invalid picture size {size}: each side must be 1 to {}",
                Size::MAX_SIDE
            )));
        }
        let row = size.width as usize * format.bytes();
        let stride = match stride {
            0 => row.next_multiple_of(align),
            stride if (row..=row * 16 + 65_536).contains(&stride) => stride,
            stride => {
                return Err(Failure::argument(format!(
                    "invalid stride {stride}: a row of {} pixels has {row} bytes",
                    size.width
                )));
            }
        };
        Ok(Layout {
            size,
            format,
            stride,
            bottom_up,
        })
    }

    /// The size in bytes, from the first byte to the last.
    pub(crate) fn bytes(&self) -> usize {
        let row = self.size.width as usize * self.format.bytes();
        self.stride * (self.size.height as usize - 1) + row
    }

    /// The picture with this layout whose bytes are `data`.
    fn picture<'a>(&self, data: &'a [u8]) -> Picture<'a> {
        let plane = Plane {
            data,
            stride: self.stride,
        };
        Picture {
            size: self.size,
            format: self.format.packed(),
            rows: match self.bottom_up {
                true => RowOrder::BottomUp,
                false => RowOrder::TopDown,
            },
            planes: [plane, Plane::EMPTY, Plane::EMPTY],
        }
    }
}

pub(crate) fn format_of(word: u32) -> Outcome<OPENUVR_PIXEL_FORMAT> {
    let found = FORMATS.iter().find(|known| **known as u32 == word);
    found.copied().ok_or_else(|| {
        Failure::argument(format!(
            "{word} is not an OPENUVR_PIXEL_FORMAT; use a value of this type, such as OPENUVR_PIXEL_FORMAT_BGRX"
        ))
    })
}

impl OPENUVR_PIXEL_FORMAT {
    /// Bytes of a pixel.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            OPENUVR_PIXEL_FORMAT_BGRX | OPENUVR_PIXEL_FORMAT_RGBX => 4,
            OPENUVR_PIXEL_FORMAT_RGB | OPENUVR_PIXEL_FORMAT_BGR => 3,
        }
    }

    /// The internal format.
    pub(crate) const fn packed(self) -> PixelFormat {
        match self {
            OPENUVR_PIXEL_FORMAT_BGRX => PixelFormat::Bgrx,
            OPENUVR_PIXEL_FORMAT_RGBX => PixelFormat::Rgbx,
            OPENUVR_PIXEL_FORMAT_RGB => PixelFormat::Rgb,
            OPENUVR_PIXEL_FORMAT_BGR => PixelFormat::Bgr,
        }
    }
}

pub(crate) fn check(picture: &openuvr_picture) -> Outcome<Layout> {
    let size = Size::new(picture.width, picture.height);
    let bottom_up = picture.bottom_up != 0;
    let layout = Layout::new(size, picture.format, picture.stride, 1, bottom_up)?;
    if picture.is_dma_buf == 0 && picture.data.is_null() {
        return Err(Failure::null("the picture's data"));
    }
    Ok(layout)
}

/// A frame for the host, either copied or in the application's memory.
///
/// # Safety
/// `picture` describes valid memory.
pub(crate) unsafe fn taken(picture: &openuvr_picture, pool: &Pool) -> Outcome<Box<dyn Frame>> {
    let layout = check(picture)?;
    if picture.is_dma_buf != 0 {
        let copy = |bytes: &[u8]| pool.copy_of(&layout.picture(bytes));
        let buffer = DmaBuf {
            fd: picture.dma_buf,
            offset: picture.offset,
            modifier: picture.modifier,
        };
        let frame = dma_buf::read(&buffer, layout.bytes(), copy)?;
        give_back(picture);
        return Ok(Box::new(frame));
    }
    // SAFETY: the header requires that the picture is readable. The limits of size and stride keep the slice shorter
    // than `isize::MAX`.
    let bytes = unsafe { std::slice::from_raw_parts(picture.data.cast::<u8>(), layout.bytes()) };
    Ok(match Release::of(picture) {
        Some(release) => Box::new(Lent {
            layout,
            bytes,
            _release: release,
        }),
        None => Box::new(pool.copy_of(&layout.picture(bytes))),
    })
}

/// Releases a picture that is not used.
pub(crate) fn give_back(picture: &openuvr_picture) {
    drop(Release::of(picture));
}

/// Calls the application's `release` when it is dropped.
struct Release {
    call: unsafe extern "C" fn(*mut c_void),
    user: *mut c_void,
}

// SAFETY: the header documents that threads of the library call the callback, so the application expects calls on other
// threads.
unsafe impl Send for Release {}

impl Release {
    /// `None` if the application has set no callback.
    fn of(picture: &openuvr_picture) -> Option<Release> {
        let user = picture.user;
        picture.release.map(|call| Release { call, user })
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        let _inside = CallbackScope::enter();
        // SAFETY: the header documents this call. A `Release` is dropped once, so the callback is called once.
        unsafe { (self.call)(self.user) }
    }
}

/// A picture in the application's memory, until it is released.
struct Lent {
    layout: Layout,
    /// Valid until `_release` is dropped.
    bytes: &'static [u8],
    _release: Release,
}

impl Frame for Lent {
    fn picture(&self) -> Picture<'_> {
        self.layout.picture(self.bytes)
    }
}
