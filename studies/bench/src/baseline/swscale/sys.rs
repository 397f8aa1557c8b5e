//! libswscale, opened at run time. Pixel formats are looked up by name, and the library's context is an opaque pointer.
//! No structure of a particular version is declared.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use openuvr_media::convert::ConvertError;
use openuvr_proto::units::Size;

/// Padding in bytes after a plane, because the library's vector code may access memory after the plane. Two AVX-512
/// registers exceed the overrun of any of its loops (guess, generous).
pub(super) const BEHIND: usize = 128;

/// Major versions of libswscale and of the matching libavutil, newest first: FFmpeg 4 to 8.
const MAJORS: [(u32, u32); 5] = [(9, 60), (8, 59), (7, 58), (6, 57), (5, 56)];

const SWS_BICUBIC: c_int = 4;
const SWS_CS_ITU709: c_int = 1;
/// 1.0 in the library's 16.16 fixed point.
const ONE: c_int = 1 << 16;

type Planes = *const *const u8;

struct Functions {
    context: unsafe extern "C" fn(
        c_int,
        c_int,
        c_int,
        c_int,
        c_int,
        c_int,
        c_int,
        *const c_void,
        *const c_void,
        *const f64,
    ) -> *mut c_void,
    colours: unsafe extern "C" fn(
        *mut c_void,
        *const c_int,
        c_int,
        *const c_int,
        c_int,
        c_int,
        c_int,
        c_int,
    ) -> c_int,
    coefficients: unsafe extern "C" fn(c_int) -> *const c_int,
    scale: unsafe extern "C" fn(
        *mut c_void,
        Planes,
        *const c_int,
        c_int,
        c_int,
        *const *mut u8,
        *const c_int,
    ) -> c_int,
    free: unsafe extern "C" fn(*mut c_void),
    format: unsafe extern "C" fn(*const c_char) -> c_int,
    /// The last field, so that the libraries are dropped after the functions, which must not outlive them.
    _libraries: [libloading::Library; 2],
}

/// The open library.
pub(super) struct Library(Arc<Functions>);

impl Library {
    /// Opens the newest supported version that is installed.
    pub(super) fn open() -> Result<Library, ConvertError> {
        for (swscale, avutil) in MAJORS {
            // SAFETY: neither library has an initialiser with preconditions.
            let opened = unsafe {
                (
                    libloading::Library::new(format!("libswscale.so.{swscale}")),
                    libloading::Library::new(format!("libavutil.so.{avutil}")),
                )
            };
            let (Ok(scale), Ok(util)) = opened else {
                continue;
            };
            // SAFETY: in all these major versions, the functions have the types declared above, according to their
            // public headers.
            let functions = unsafe { Functions::of(scale, util) };
            return functions
                .map(|functions| Library(Arc::new(functions)))
                .map_err(|e| ConvertError(format!("libswscale.so.{swscale} is unusable: {e}")));
        }
        Err(ConvertError(
            "no libswscale of the major versions 5 to 9 is installed: apt install ffmpeg".into(),
        ))
    }

    /// A conversion of pictures of `size` from BGRX to NV12, in BT.709, from full to limited range.
    pub(super) fn scaler(&self, size: Size) -> Result<Scaler, ConvertError> {
        let library = &*self.0;
        let format = |name: &CStr| {
            // SAFETY: the name is NUL-terminated.
            unsafe { (library.format)(name.as_ptr()) }
        };
        let side = |n: u32| c_int::try_from(n).unwrap_or(c_int::MAX);
        let (width, height) = (side(size.width), side(size.height));
        let (from, to) = (format(c"bgr0"), format(c"nv12"));
        // SAFETY: each of the last three arguments may be null, which stands for "none". For an unknown format (-1),
        // the function returns null.
        let handle = unsafe {
            (library.context)(
                width,
                height,
                from,
                width,
                height,
                to,
                SWS_BICUBIC,
                std::ptr::null(),
                std::ptr::null(),
                std::ptr::null(),
            )
        };
        let handle = NonNull::new(handle).ok_or_else(|| {
            ConvertError(format!("libswscale can't convert BGRX of {size} to NV12"))
        })?;
        let scaler = Scaler {
            library: self.0.clone(),
            handle,
            width: size.width as usize,
        };
        // SAFETY: the handle has just been created. The table is static and belongs to the library.
        let set = unsafe {
            let table = (library.coefficients)(SWS_CS_ITU709);
            (library.colours)(handle.as_ptr(), table, 1, table, 0, 0, ONE, ONE)
        };
        if set < 0 {
            return Err(ConvertError("libswscale does not support BT.709".into()));
        }
        Ok(scaler)
    }
}

impl Functions {
    /// # Safety
    /// The two libraries are a pair from [`MAJORS`].
    unsafe fn of(
        scale: libloading::Library,
        util: libloading::Library,
    ) -> Result<Functions, libloading::Error> {
        // SAFETY: the caller upholds this function's requirements.
        unsafe {
            Ok(Functions {
                context: *scale.get(b"sws_getContext")?,
                colours: *scale.get(b"sws_setColorspaceDetails")?,
                coefficients: *scale.get(b"sws_getCoefficients")?,
                scale: *scale.get(b"sws_scale")?,
                free: *scale.get(b"sws_freeContext")?,
                format: *util.get(b"av_get_pix_fmt")?,
                _libraries: [scale, util],
            })
        }
    }
}

/// A conversion of pictures of one size.
pub(super) struct Scaler {
    library: Arc<Functions>,
    handle: NonNull<c_void>,
    width: usize,
}

// SAFETY: any thread may use a context, but only one at a time, which `&mut self` ensures.
unsafe impl Send for Scaler {}

impl Scaler {
    /// Converts `count` rows, beginning with row `first` (both numbers are even). `data` begins with these rows, which
    /// are `stride` bytes apart. [`BEHIND`] bytes of memory must follow the input and both planes.
    pub(super) fn rows(
        &mut self,
        first: usize,
        count: usize,
        data: &[u8],
        stride: usize,
        luma: &mut Vec<u8>,
        chroma: &mut Vec<u8>,
    ) -> Result<(), ConvertError> {
        let rows = first + count;
        let fits = data.len() >= stride * (count - 1) + self.width * 4
            && luma.len() >= self.width * rows
            && chroma.len() >= self.width * rows / 2
            && [&*luma, &*chroma]
                .iter()
                .all(|plane| plane.capacity() >= plane.len() + BEHIND);
        if !fits {
            return Err(ConvertError(
                "the picture's planes are too short for libswscale".into(),
            ));
        }
        let number = |n: usize| c_int::try_from(n).unwrap_or(c_int::MAX);
        let null = std::ptr::null_mut();
        let from = [data.as_ptr(), null, null, null];
        let from_strides = [number(stride), 0, 0, 0];
        let to = [luma.as_mut_ptr(), chroma.as_mut_ptr(), null, null];
        let to_strides = [number(self.width), number(self.width), 0, 0];
        // SAFETY: the input and the planes contain all rows that are read and written (checked above), and `BEHIND`
        // bytes of memory follow each of them. After the planes, these bytes are the vectors' spare capacity. After the
        // upper rows of the picture, they are the picture's last rows. The last rows themselves are passed as a copy,
        // whose spare capacity follows it.
        let done = unsafe {
            (self.library.scale)(
                self.handle.as_ptr(),
                from.as_ptr().cast(),
                from_strides.as_ptr(),
                number(first),
                number(count),
                to.as_ptr(),
                to_strides.as_ptr(),
            )
        };
        if done < 0 {
            return Err(ConvertError(format!("libswscale failed with error {done}")));
        }
        Ok(())
    }
}

impl Drop for Scaler {
    fn drop(&mut self) {
        // SAFETY: the handle was created by this library and is no longer used.
        unsafe { (self.library.free)(self.handle.as_ptr()) }
    }
}
