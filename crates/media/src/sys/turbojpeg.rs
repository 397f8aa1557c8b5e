//! libjpeg-turbo's own API (TurboJPEG), loaded at run time: compresses and decompresses one band.
//! The callers divide pictures into bands.
//!
//! This module declares the part of turbojpeg.h that is unchanged since libjpeg-turbo 2.0 (Debian 10), including 3.x:
//! the ABI of `libturbojpeg.so.0`.

use std::ffi::{CStr, OsString, c_char, c_int, c_uchar, c_ulong, c_void};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

#[cfg(feature = "host")]
use crate::picture::{Picture, PixelFormat, RowOrder};

/// `TJPF_BGRX`: 4 bytes per pixel, the fourth unused.
const PIXELS_BGRX: c_int = 3;
/// `TJPF_RGB`, `TJPF_BGR` and `TJPF_RGBX`.
#[cfg(feature = "host")]
const PIXELS_RGB: c_int = 0;
#[cfg(feature = "host")]
const PIXELS_BGR: c_int = 1;
#[cfg(feature = "host")]
const PIXELS_RGBX: c_int = 2;
/// The caller's buffer is large enough and must not be reallocated.
#[cfg(feature = "host")]
const FLAG_NO_REALLOC: c_int = 1024;
/// The bottom row comes first in memory.
#[cfg(feature = "host")]
const FLAG_BOTTOM_UP: c_int = 2;
/// Chroma is repeated, not interpolated. With 4:2:0, this needs no second pass.
#[cfg(feature = "client")]
const FLAG_FAST_UPSAMPLE: c_int = 256;
/// Refuses bands with hundreds of scans, because decoding them takes long. Available since
/// libjpeg-turbo 2.1, and ignored before.
#[cfg(feature = "client")]
const FLAG_LIMIT_SCANS: c_int = 32768;
/// Treats a truncated band as an error.
#[cfg(feature = "client")]
const FLAG_STOP_ON_WARNING: c_int = 8192;

/// Chroma sampling, with TurboJPEG's numbers.
#[cfg(feature = "host")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(crate) enum Sampling {
    /// Full resolution (`TJSAMP_444`).
    Full = 0,
    /// One sample per four pixels (`TJSAMP_420`).
    Quarter = 2,
}

type Handle = *mut c_void;

struct Functions {
    #[cfg(feature = "host")]
    init_compress: unsafe extern "C" fn() -> Handle,
    #[cfg(feature = "host")]
    compress: unsafe extern "C" fn(
        Handle,
        *const c_uchar,
        c_int,
        c_int,
        c_int,
        c_int,
        *mut *mut c_uchar,
        *mut c_ulong,
        c_int,
        c_int,
        c_int,
    ) -> c_int,
    #[cfg(feature = "host")]
    buffer_size: unsafe extern "C" fn(c_int, c_int, c_int) -> c_ulong,
    #[cfg(feature = "client")]
    init_decompress: unsafe extern "C" fn() -> Handle,
    #[cfg(feature = "client")]
    header: unsafe extern "C" fn(
        Handle,
        *const c_uchar,
        c_ulong,
        *mut c_int,
        *mut c_int,
        *mut c_int,
        *mut c_int,
    ) -> c_int,
    #[cfg(feature = "client")]
    decompress: unsafe extern "C" fn(
        Handle,
        *const c_uchar,
        c_ulong,
        *mut c_uchar,
        c_int,
        c_int,
        c_int,
        c_int,
        c_int,
    ) -> c_int,
    destroy: unsafe extern "C" fn(Handle) -> c_int,
    error: unsafe extern "C" fn(Handle) -> *mut c_char,
    /// Declared after the functions, which must not outlive it.
    _library: libloading::Library,
}

/// The loaded library.
#[derive(Clone)]
pub(crate) struct Library(Arc<Functions>);

impl Library {
    /// Loads `path`, or the system's `libturbojpeg.so.0`.
    ///
    /// # Errors
    /// Returns the path, the reason, and the package to install.
    pub(crate) fn open(path: Option<OsString>) -> Result<Library, String> {
        let file = path.unwrap_or_else(|| "libturbojpeg.so.0".into());
        // SAFETY: libjpeg-turbo has no initialiser with preconditions.
        let opened = unsafe { super::open([&file]) };
        (opened.and_then(|library| Functions::load(library).map_err(|e| super::words(&e))))
            .map(|functions| Library(Arc::new(functions)))
            .map_err(|reason| {
                format!(
                    "{} can't be used ({reason}): JPEG needs libjpeg-turbo; apt install \
                     libturbojpeg0 (on Ubuntu, libturbojpeg), or set OPENUVR_TURBOJPEG to the path \
                     of a libturbojpeg.so.0",
                    Path::new(&file).display()
                )
            })
    }

    fn handle(&self, init: unsafe extern "C" fn() -> Handle) -> Result<Instance, String> {
        // SAFETY: the function takes no arguments.
        let handle = NonNull::new(unsafe { init() }).ok_or("libjpeg-turbo is out of memory")?;
        Ok(Instance {
            library: self.clone(),
            handle,
        })
    }
}

impl Functions {
    fn load(library: libloading::Library) -> Result<Functions, libloading::Error> {
        // SAFETY: the functions have these types in every libturbojpeg.so.0 that has them.
        unsafe {
            Ok(Functions {
                #[cfg(feature = "host")]
                init_compress: *library.get(b"tjInitCompress")?,
                #[cfg(feature = "host")]
                compress: *library.get(b"tjCompress2")?,
                #[cfg(feature = "host")]
                buffer_size: *library.get(b"tjBufSize")?,
                #[cfg(feature = "client")]
                init_decompress: *library.get(b"tjInitDecompress")?,
                #[cfg(feature = "client")]
                header: *library.get(b"tjDecompressHeader3")?,
                #[cfg(feature = "client")]
                decompress: *library.get(b"tjDecompress2")?,
                destroy: *library.get(b"tjDestroy")?,
                error: *library.get(b"tjGetErrorStr2")?,
                _library: library,
            })
        }
    }
}

/// A compressor's or decompressor's state.
struct Instance {
    library: Library,
    handle: NonNull<c_void>,
}

// SAFETY: the library keeps its whole state behind the handle. Any thread may call the library, but calls must not
// overlap. Only methods with `&mut self` call it.
unsafe impl Send for Instance {}

impl Instance {
    fn error(&mut self, what: &str) -> String {
        // SAFETY: the text belongs to the handle, is NUL-terminated, and is copied before the next
        // call.
        let text = unsafe { CStr::from_ptr((self.library.0.error)(self.handle.as_ptr())) };
        format!(
            "libjpeg-turbo could not {what} ({})",
            text.to_string_lossy()
        )
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: this library created the handle, and nothing uses it afterwards. The call fails only without a
        // handle.
        unsafe { (self.library.0.destroy)(self.handle.as_ptr()) };
    }
}

fn number(n: usize) -> Result<c_int, String> {
    c_int::try_from(n).map_err(|_| format!("{n} is too large for libjpeg-turbo"))
}

/// Compresses rows to JPEG. Each thread needs its own compressor.
#[cfg(feature = "host")]
pub(crate) struct Compressor(Instance);

#[cfg(feature = "host")]
impl Compressor {
    /// A new compressor.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(crate) fn new(library: &Library) -> Result<Compressor, String> {
        (library.handle(library.0.init_compress)).map(Compressor)
    }

    /// Appends `band` (packed: [`PixelFormat::packed`]) as a JPEG of `quality` 1–100 (libjpeg's
    /// scale) to `out`.
    ///
    /// # Errors
    /// Returns an error if `band` is not packed or too short, or if the library refuses it; `out`
    /// is then unchanged.
    pub(crate) fn compress(
        &mut self,
        band: &Picture<'_>,
        sampling: Sampling,
        quality: u8,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let pixels = pixels_of(band)?;
        let (width, rows) = (band.size.width as usize, band.size.height as usize);
        let (data, stride) = (band.planes[0].data, band.planes[0].stride);
        let (columns, lines, pitch) = (number(width)?, number(rows)?, number(stride)?);
        let functions = &*self.0.library.0;
        // SAFETY: the function takes only numbers.
        let room = unsafe { (functions.buffer_size)(columns, lines, sampling as c_int) };
        let room = usize::try_from(room)
            .ok()
            .filter(|room| *room <= 1 << 30)
            .ok_or_else(|| format!("libjpeg-turbo can't encode {width}x{rows} pixels"))?;
        out.reserve(room);
        let mut size = c_ulong::try_from(room).unwrap_or(c_ulong::MAX);
        // SAFETY: `data` holds `rows` rows of `width` pixels (checked by `pixels_of`), which are only read. `out` has
        // `room` spare bytes, which are sufficient according to the library. With this flag, the library writes only
        // there.
        let code = unsafe {
            let mut place = out.as_mut_ptr().add(out.len());
            (functions.compress)(
                self.0.handle.as_ptr(),
                data.as_ptr(),
                columns,
                pitch,
                lines,
                pixels,
                &raw mut place,
                &raw mut size,
                sampling as c_int,
                c_int::from(quality.clamp(1, 100)),
                match band.rows {
                    RowOrder::TopDown => FLAG_NO_REALLOC,
                    RowOrder::BottomUp => FLAG_NO_REALLOC | FLAG_BOTTOM_UP,
                },
            )
        };
        if code != 0 {
            return Err(self.0.error("encode a band"));
        }
        let written = usize::try_from(size).unwrap_or(0).min(room);
        // SAFETY: the library wrote this many bytes there.
        unsafe { out.set_len(out.len() + written) };
        Ok(())
    }
}

/// The library's pixel format of `band`, after checking its length.
#[cfg(feature = "host")]
fn pixels_of(band: &Picture<'_>) -> Result<c_int, String> {
    let (pixels, each) = match band.format {
        PixelFormat::Bgrx => (PIXELS_BGRX, 4),
        PixelFormat::Rgbx => (PIXELS_RGBX, 4),
        PixelFormat::Bgr => (PIXELS_BGR, 3),
        PixelFormat::Rgb => (PIXELS_RGB, 3),
        planar => {
            return Err(format!(
                "unsupported pixel format {planar:?} for libjpeg-turbo"
            ));
        }
    };
    let (width, rows) = (band.size.width as usize, band.size.height as usize);
    let (data, stride) = (band.planes[0].data, band.planes[0].stride);
    let needed = (stride.checked_mul(rows.saturating_sub(1)))
        .and_then(|n| n.checked_add(width.checked_mul(each)?));
    if width == 0 || rows == 0 || stride < width * each || needed.is_none_or(|n| n > data.len()) {
        return Err("a band of a picture has too few bytes for its size".into());
    }
    Ok(pixels)
}

/// Decompresses JPEG to rows.
#[cfg(feature = "client")]
pub(crate) struct Decompressor(Instance);

#[cfg(feature = "client")]
impl Decompressor {
    /// A new decompressor.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(crate) fn new(library: &Library) -> Result<Decompressor, String> {
        (library.handle(library.0.init_decompress)).map(Decompressor)
    }

    /// Decompresses a JPEG of `rows` rows of `width` pixels into `bgrx`, without padding.
    ///
    /// # Errors
    /// Returns an error if the data is not a complete JPEG or has a different size, or if the length of `bgrx` does not
    /// match; the contents of `bgrx` are then unspecified.
    pub(crate) fn decompress(
        &mut self,
        jpeg: &[u8],
        size: (usize, usize),
        bgrx: &mut [u8],
    ) -> Result<(), String> {
        let outcome = self.try_decompress(jpeg, size, bgrx);
        if outcome.is_err() {
            // After a damaged JPEG, libjpeg-turbo 2.1 may fail to read the size of the next JPEG (found by the test
            // with damaged bytes).
            let library = &self.0.library;
            self.0 = library.handle(library.0.init_decompress)?;
        }
        outcome
    }

    fn try_decompress(
        &mut self,
        jpeg: &[u8],
        (width, rows): (usize, usize),
        bgrx: &mut [u8],
    ) -> Result<(), String> {
        let functions = &*self.0.library.0;
        let length = c_ulong::try_from(jpeg.len()).map_err(|_| "a band is too large")?;
        let (mut columns, mut lines, mut sampling, mut colour) = (0, 0, 0, 0);
        // SAFETY: `jpeg` has `length` bytes, which are only read. The library writes to four local numbers.
        let code = unsafe {
            (functions.header)(
                self.0.handle.as_ptr(),
                jpeg.as_ptr(),
                length,
                &raw mut columns,
                &raw mut lines,
                &raw mut sampling,
                &raw mut colour,
            )
        };
        if code != 0 {
            return Err(self.0.error("read a band's header"));
        }
        if (columns, lines) != (number(width)?, number(rows)?) {
            return Err(format!(
                "a band of {width}x{rows} contains a JPEG of {columns}x{lines}"
            ));
        }
        if width.checked_mul(rows).and_then(|n| n.checked_mul(4)) != Some(bgrx.len()) {
            return Err("a band does not fit its picture".into());
        }
        // SAFETY: the target has space for exactly the requested size (checked above): the library
        // fails if the JPEG's size differs.
        let code = unsafe {
            (functions.decompress)(
                self.0.handle.as_ptr(),
                jpeg.as_ptr(),
                length,
                bgrx.as_mut_ptr(),
                columns,
                0,
                lines,
                PIXELS_BGRX,
                FLAG_FAST_UPSAMPLE | FLAG_LIMIT_SCANS | FLAG_STOP_ON_WARNING,
            )
        };
        if code != 0 {
            return Err(self.0.error("decode a band"));
        }
        Ok(())
    }
}
