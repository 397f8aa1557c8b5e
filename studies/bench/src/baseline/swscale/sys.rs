//! libswscale, opened at run time. Pixel formats are looked up by name, and its context stays
//! behind a pointer, so no structure of any version is declared.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use openuvr_media::convert::ConvertError;
use openuvr_proto::units::Size;

/// Padding after a plane that the library's vector code may touch: two AVX-512 registers exceed any
/// of its loops (guess, generous).
pub(super) const BEHIND: usize = 128;

/// Majors of libswscale and the libavutil that belongs to it, newest first: FFmpeg 4 to 8.
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
    /// Dropped after the functions, which must not outlive them.
    _libraries: [libloading::Library; 2],
}

/// The open library.
pub(super) struct Library(Arc<Functions>);

impl Library {
    /// The newest supported version that is installed.
    pub(super) fn open() -> Result<Library, ConvertError> {
        for (swscale, avutil) in MAJORS {
            // SAFETY: neither has an initialiser with preconditions.
            let opened = unsafe {
                (
                    libloading::Library::new(format!("libswscale.so.{swscale}")),
                    libloading::Library::new(format!("libavutil.so.{avutil}")),
                )
            };
            let (Ok(scale), Ok(util)) = opened else {
                continue;
            };
            // SAFETY: in all these majors the functions have the types declared above, as their
            // public headers say.
            let functions = unsafe { Functions::of(scale, util) };
            return functions
                .map(|functions| Library(Arc::new(functions)))
                .map_err(|e| ConvertError(format!("libswscale.so.{swscale} is unusable: {e}")));
        }
        Err(ConvertError(
            "no libswscale of the majors 5 to 9 is installed: apt install ffmpeg \
             brings it"
                .into(),
        ))
    }

    /// A conversion of BGRX to NV12 of `size`, BT.709, full to limited range.
    pub(super) fn scaler(&self, size: Size) -> Result<Scaler, ConvertError> {
        let library = &*self.0;
        let format = |name: &CStr| {
            // SAFETY: a string that ends in NUL.
            unsafe { (library.format)(name.as_ptr()) }
        };
        let side = |n: u32| c_int::try_from(n).unwrap_or(c_int::MAX);
        let (width, height) = (side(size.width), side(size.height));
        let (from, to) = (format(c"bgr0"), format(c"nv12"));
        // SAFETY: null stands for "none" in each of the last three places; an unknown format (-1)
        // is answered by null.
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
        // SAFETY: the handle was just made; the table is the library's own, and static.
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
    /// Both libraries are of a pair in [`MAJORS`].
    unsafe fn of(
        scale: libloading::Library,
        util: libloading::Library,
    ) -> Result<Functions, libloading::Error> {
        // SAFETY: the caller upholds the requirements.
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

/// A conversion of one size.
pub(super) struct Scaler {
    library: Arc<Functions>,
    handle: NonNull<c_void>,
    width: usize,
}

// SAFETY: a context may be used from any thread, one call at a time: `&mut self` ensures that.
unsafe impl Send for Scaler {}

impl Scaler {
    /// Converts `count` rows from row `first` on (both even), which start `data` and are `stride`
    /// apart. The input and both planes are followed by [`BEHIND`] bytes of memory.
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
            return Err(ConvertError("planes too short for libswscale".into()));
        }
        let number = |n: usize| c_int::try_from(n).unwrap_or(c_int::MAX);
        let null = std::ptr::null_mut();
        let from = [data.as_ptr(), null, null, null];
        let from_strides = [number(stride), 0, 0, 0];
        let to = [luma.as_mut_ptr(), chroma.as_mut_ptr(), null, null];
        let to_strides = [number(self.width), number(self.width), 0, 0];
        // SAFETY: the planes hold all rows that are read and written (checked above), with memory
        // after the last: the capacity of the vectors, the rest of the picture for its
        // upper part, and the capacity of the copy for its last rows.
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
            return Err(ConvertError(format!("libswscale failed with {done}")));
        }
        Ok(())
    }
}

impl Drop for Scaler {
    fn drop(&mut self) {
        // SAFETY: it was created by this library and is no longer used.
        unsafe { (self.library.free)(self.handle.as_ptr()) }
    }
}
