//! libx264, loaded at run time: the bindings, the check of its build number, and an encoder with a
//! callback that can't pass a panic to C. The parent module chooses settings.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::Cell;
use std::ffi::{CStr, OsString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) use bindings::{
    X264_BUILD, X264_CSP_BGRA, X264_CSP_I444, X264_CSP_NV12, X264_KEYINT_MAX_INFINITE,
    X264_LOG_NONE, X264_RC_ABR, X264_RC_CQP, x264_param_t,
};
use bindings::{
    X264_CSP_VFLIP, X264_MBINFO_CONSTANT, X264_QP_AUTO, X264_TYPE_AUTO, X264_TYPE_IDR, x264_nal_t,
    x264_picture_t, x264_t,
};

use openuvr_proto::units::Size;

use crate::encode::EncodeError;
use crate::picture::{Picture, PixelFormat, Plane, RowOrder};

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    unreachable_pub,
    dead_code,
    clippy::all,
    clippy::pedantic
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/x264.rs"));
}

/// Kinds of NAL unit (ITU-T H.264 table 7-1).
const NAL_SLICE: c_int = 1;
const NAL_SLICE_IDR: c_int = 5;
const NAL_SPS: c_int = 7;
const NAL_PPS: c_int = 8;

/// `X264_PARAM_BAD_NAME` of x264.h.
const BAD_NAME: c_int = -1;

/// The reason why a parameter was not set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ParameterError {
    /// The library has no parameter of this name.
    Name,
    /// The library refuses the value.
    Value,
}

/// libx264, in exactly the build for which the bindings were generated, because its structures change with every build.
/// The library's only version check is the name of one symbol.
#[derive(Clone)]
pub(super) struct Library(Arc<Functions>);

struct Functions {
    preset: unsafe extern "C" fn(*mut x264_param_t, *const c_char, *const c_char) -> c_int,
    parse: unsafe extern "C" fn(*mut x264_param_t, *const c_char, *const c_char) -> c_int,
    open: unsafe extern "C" fn(*mut x264_param_t) -> *mut x264_t,
    reconfigure: unsafe extern "C" fn(*mut x264_t, *mut x264_param_t) -> c_int,
    close: unsafe extern "C" fn(*mut x264_t),
    encode: unsafe extern "C" fn(
        *mut x264_t,
        *mut *mut x264_nal_t,
        *mut c_int,
        *mut x264_picture_t,
        *mut x264_picture_t,
    ) -> c_int,
    picture_init: unsafe extern "C" fn(*mut x264_picture_t),
    invalidate: unsafe extern "C" fn(*mut x264_t, i64) -> c_int,
    intra_refresh: unsafe extern "C" fn(*mut x264_t),
    nal_encode: unsafe extern "C" fn(*mut x264_t, *mut u8, *mut x264_nal_t),
    /// Declared after the functions, which must not outlive it.
    _library: libloading::Library,
}

impl Library {
    /// Loads `path`, or the system's `libx264.so.<build>`.
    ///
    /// # Errors
    /// [`EncodeError`] with the required build, the builds found, and what to do.
    pub(super) fn open(path: Option<OsString>) -> Result<Library, EncodeError> {
        let file = path.unwrap_or_else(|| format!("libx264.so.{X264_BUILD}").into());
        // SAFETY: libx264 has no initialiser with preconditions. A path set by the user is trusted, like any program
        // that the user runs.
        let library = unsafe { libloading::Library::new(&file) };
        (library.and_then(Functions::load))
            .map(|functions| Library(Arc::new(functions)))
            .map_err(|error| missing(&file, &error))
    }

    /// The library's parameters for `preset` and `tune`. `None` if the library does not have this preset or tuning.
    pub(super) fn preset(&self, preset: &CStr, tune: &CStr) -> Option<x264_param_t> {
        let mut parameters = MaybeUninit::<x264_param_t>::zeroed();
        // SAFETY: the structure has the layout of this build (checked by `open`), and both strings
        // are NUL-terminated.
        let failed =
            unsafe { (self.0.preset)(parameters.as_mut_ptr(), preset.as_ptr(), tune.as_ptr()) };
        // SAFETY: the library has written the parameters. Bytes that it left at zero are valid, too.
        (failed == 0).then(|| unsafe { parameters.assume_init() })
    }

    /// Sets the parameter `name`, as the program x264 does with `--name value`.
    pub(super) fn set(
        &self,
        parameters: &mut x264_param_t,
        name: &CStr,
        value: &CStr,
    ) -> Result<(), ParameterError> {
        // SAFETY: the structure has the layout of this build (checked by `open`), and both strings are NUL-terminated.
        let code = unsafe { (self.0.parse)(parameters, name.as_ptr(), value.as_ptr()) };
        match code {
            0 => Ok(()),
            BAD_NAME => Err(ParameterError::Name),
            _ => Err(ParameterError::Value),
        }
    }

    /// An encoder with `parameters`. [`Encoder::encode`] delivers its slices.
    pub(super) fn encoder(&self, parameters: &x264_param_t) -> Result<Encoder, EncodeError> {
        let mut own = *parameters;
        own.nalu_process = Some(on_nal);
        // SAFETY: `own` has this build's layout, and the library copies it. Only `Encoder::encode` submits pictures,
        // and it sets the `opaque` that the callback needs.
        let handle = unsafe { (self.0.open)(&raw mut own) };
        match NonNull::new(handle) {
            Some(handle) => Ok(Encoder {
                library: self.clone(),
                handle,
                newest: None,
                flags: Vec::new(),
            }),
            None => Err(EncodeError(format!(
                "libx264 refused to encode {}x{} with {} threads: try a smaller picture or fewer threads",
                own.i_width, own.i_height, own.i_threads
            ))),
        }
    }
}

impl Functions {
    fn load(library: libloading::Library) -> Result<Functions, libloading::Error> {
        // SAFETY: the symbol with the build number exists, so the other symbols have the types of this build's header.
        unsafe {
            Ok(Functions {
                open: *library.get(format!("x264_encoder_open_{X264_BUILD}").as_bytes())?,
                preset: *library.get(b"x264_param_default_preset")?,
                parse: *library.get(b"x264_param_parse")?,
                reconfigure: *library.get(b"x264_encoder_reconfig")?,
                close: *library.get(b"x264_encoder_close")?,
                encode: *library.get(b"x264_encoder_encode")?,
                picture_init: *library.get(b"x264_picture_init")?,
                invalidate: *library.get(b"x264_encoder_invalidate_reference")?,
                intra_refresh: *library.get(b"x264_encoder_intra_refresh")?,
                nal_encode: *library.get(b"x264_nal_encode")?,
                _library: library,
            })
        }
    }
}

fn missing(file: &OsString, error: &libloading::Error) -> EncodeError {
    let found = installed();
    let found = if found.is_empty() {
        "no libx264 was found".to_owned()
    } else {
        format!("found {}", found.join(", "))
    };
    // libloading provides the dynamic linker's message as the source of its error.
    let reason = std::error::Error::source(error).map_or(error.to_string(), ToString::to_string);
    EncodeError(format!(
        "{} can't be used ({reason}): libx264 build {X264_BUILD} is required, {found}; \
         apt install libx264-{X264_BUILD}, or set OPENUVR_X264 to the path of a library of build \
         {X264_BUILD}, or choose --encoder openh264, or build OpenUVR from its sources, with the installed \
         libx264-dev",
        Path::new(file).display()
    ))
}

/// Every `libx264.so.*` in the folders of common distributions and in `LD_LIBRARY_PATH`.
fn installed() -> Vec<String> {
    let mut folders: Vec<PathBuf> = std::env::var_os("LD_LIBRARY_PATH")
        .map(|paths| std::env::split_paths(&paths).collect())
        .unwrap_or_default();
    for folder in ["/usr/local/lib", "/usr/lib", "/usr/lib64", "/lib", "/lib64"] {
        folders.push(folder.into());
        folders.push(format!("{folder}/{}-linux-gnu", std::env::consts::ARCH).into());
    }
    let mut found: Vec<String> = folders
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|entries| entries.flatten())
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("libx264.so.")
        })
        .filter_map(|entry| entry.path().canonicalize().ok())
        .map(|path| path.display().to_string())
        .collect();
    found.sort();
    found.dedup();
    found
}

/// One picture and its parameters.
pub(super) struct Input<'a> {
    /// The picture, in the encoder's size and format. The caller must have checked that it is
    /// complete.
    pub(super) picture: &'a Picture<'a>,
    pub(super) key_frame: bool,
    /// `None` if the library controls the rate.
    pub(super) qp: Option<u8>,
    pub(super) pts: i64,
    /// For each macroblock, in raster order, whether its source equals its source in the previous frame. The caller
    /// must have checked the length.
    pub(super) unchanged: Option<&'a [bool]>,
}

pub(super) struct Encoder {
    library: Library,
    handle: NonNull<x264_t>,
    /// The decoder's view of the newest frame: planes with strides. The library owns the planes,
    /// and they are valid until the next frame is encoded.
    newest: Option<[(NonNull<u8>, usize); 3]>,
    /// A picture's flags: one per macroblock.
    flags: Vec<u8>,
}

// SAFETY: any thread may use a handle, but only one call at a time, which `&mut self` ensures.
unsafe impl Send for Encoder {}

/// The target of a picture's `opaque` pointer.
struct Call<'a> {
    functions: &'a Functions,
    on_nal: &'a (dyn Fn(Nal<'_>) + Sync),
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Encoder {
    /// Encodes one picture, and passes each NAL unit to `on_nal`, concurrently from the encoder's
    /// threads. All these calls end before this method returns. Returns whether the picture is a
    /// key frame.
    ///
    /// # Panics
    /// Panics after the library has returned if `on_nal` has panicked.
    pub(super) fn encode(
        &mut self,
        input: &Input<'_>,
        on_nal: &(dyn Fn(Nal<'_>) + Sync),
    ) -> Result<bool, EncodeError> {
        let functions = &*self.library.0;
        let call = Call {
            functions,
            on_nal,
            panic: Mutex::new(None),
        };
        let mut picture = MaybeUninit::<x264_picture_t>::zeroed();
        let mut out = MaybeUninit::<x264_picture_t>::zeroed();
        // SAFETY: both structures have this build's layout, and all-zero bytes are valid for them.
        let (mut picture, mut out) = unsafe {
            (functions.picture_init)(picture.as_mut_ptr());
            (functions.picture_init)(out.as_mut_ptr());
            (picture.assume_init(), out.assume_init())
        };
        describe(input, &mut self.flags, &mut picture)?;
        picture.opaque = (&raw const call).cast_mut().cast();
        self.newest = None;
        let (mut nals, mut count) = (std::ptr::null_mut(), 0);
        // SAFETY: the caller has checked that the planes hold the complete picture, and that there is one flag per
        // macroblock. The library only reads planes and flags, and only during this call. `call` outlives this call and
        // all callbacks, because the library waits for the threads that make the callbacks.
        let size = unsafe {
            (functions.encode)(
                self.handle.as_ptr(),
                &raw mut nals,
                &raw mut count,
                &raw mut picture,
                &raw mut out,
            )
        };
        let panic = call.panic.into_inner();
        if let Some(panic) = panic.unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
        if size <= 0 {
            return Err(EncodeError(format!(
                "libx264 could not encode frame {} (it returned {size}): the next frame must be a key frame",
                input.pts
            )));
        }
        self.newest = decoded_planes(&out);
        // `b_keyframe` also marks the start of an intra refresh.
        Ok(out.i_type == X264_TYPE_IDR.cast_signed())
    }
}

/// Describes `input` for the library without copying its planes; `flags` is memory for one flag per macroblock.
fn describe(
    input: &Input<'_>,
    flags: &mut Vec<u8>,
    picture: &mut x264_picture_t,
) -> Result<(), EncodeError> {
    let kind = if input.key_frame {
        X264_TYPE_IDR
    } else {
        X264_TYPE_AUTO
    };
    picture.i_type = kind.cast_signed();
    picture.i_qpplus1 = match input.qp {
        Some(qp) => c_int::from(qp) + 1,
        None => X264_QP_AUTO.cast_signed(),
    };
    picture.i_pts = input.pts;
    let (layout, planes) = match input.picture.format {
        PixelFormat::Nv12 => (X264_CSP_NV12, 2),
        PixelFormat::I444 => (X264_CSP_I444, 3),
        PixelFormat::Bgrx => (X264_CSP_BGRA, 1),
        _ => {
            return Err(EncodeError("unsupported pixel format for libx264".into()));
        }
    };
    let flip = match input.picture.rows {
        RowOrder::TopDown => 0,
        RowOrder::BottomUp => X264_CSP_VFLIP,
    };
    picture.img.i_csp = (layout | flip).cast_signed();
    picture.img.i_plane = c_int::try_from(planes).unwrap_or(0);
    for (i, plane) in input.picture.planes[..planes].iter().enumerate() {
        picture.img.plane[i] = plane.data.as_ptr().cast_mut();
        picture.img.i_stride[i] = c_int::try_from(plane.stride)
            .map_err(|_| EncodeError("a stride is over 2 GiB".into()))?;
    }
    if let Some(unchanged) = input.unchanged {
        let constant = u8::try_from(X264_MBINFO_CONSTANT).unwrap_or(0);
        let flag = |same: &bool| if *same { constant } else { 0 };
        flags.clear();
        flags.extend(unchanged.iter().map(flag));
        picture.prop.mb_info = flags.as_mut_ptr();
    }
    Ok(())
}

/// The library's reconstructed picture; `None` if the library does not provide one.
fn decoded_planes(out: &x264_picture_t) -> Option<[(NonNull<u8>, usize); 3]> {
    let planes: [_; 3] = std::array::from_fn(|i| {
        let stride = usize::try_from(out.img.i_stride[i]).unwrap_or(0);
        (NonNull::new(out.img.plane[i]), stride)
    });
    match planes {
        [(Some(luma), stride), (Some(second), other), third] => {
            let third = (third.0.unwrap_or(luma), third.1);
            Some([(luma, stride), (second, other), third])
        }
        _ => None,
    }
}

impl Encoder {
    /// The decoder's view of the newest frame, if the library provides it, for an encoder of
    /// `format` and `size`. Planes of NV12 or I444, with the top row first.
    pub(super) fn newest(&self, format: PixelFormat, size: Size) -> Option<[Plane<'_>; 3]> {
        let height = size.height as usize;
        let rows = match format {
            PixelFormat::Nv12 => [height, height / 2, 0],
            PixelFormat::I444 => [height; 3],
            _ => return None,
        };
        let width = size.width as usize;
        let newest = self.newest?;
        let mut planes = [Plane::EMPTY; 3];
        for ((plane, (data, stride)), rows) in planes.iter_mut().zip(newest).zip(rows) {
            if rows == 0 {
                continue;
            }
            if stride < width {
                return None;
            }
            let bytes = stride * (rows - 1) + width;
            // SAFETY: the library has reported that its reconstruction of the newest frame starts at `data`, with at
            // least `rows` rows, `stride` bytes apart. The library keeps the data unchanged until the next frame is
            // encoded or the encoder is closed. Both need `self` mutably or by value, so they are impossible while the
            // result borrows `self`.
            let data = unsafe { std::slice::from_raw_parts(data.as_ptr(), bytes) };
            *plane = Plane { data, stride };
        }
        Some(planes)
    }

    /// Discards all references with a timestamp of `pts` or later. If none is left, the next
    /// picture is a key frame.
    pub(super) fn forget_from(&mut self, pts: i64) -> Result<(), EncodeError> {
        // SAFETY: no picture is being encoded, because `encode` needs `&mut self`, too.
        let result = unsafe { (self.library.0.invalidate)(self.handle.as_ptr(), pts) };
        if result < 0 {
            return Err(EncodeError(format!(
                "libx264 can't discard the references from {pts} on (it returned {result}): ask for \
                 a key frame"
            )));
        }
        Ok(())
    }

    /// Starts an intra refresh with the next picture, or after the current refresh. Requires an encoder with
    /// `b_intra_refresh`.
    pub(super) fn refresh(&mut self) {
        // SAFETY: no picture is being encoded, because `encode` needs `&mut self`, too.
        unsafe { (self.library.0.intra_refresh)(self.handle.as_ptr()) }
    }

    /// Applies the values that may change at run time: bitrate and buffer size.
    pub(super) fn reconfigure(&mut self, parameters: &x264_param_t) -> Result<(), EncodeError> {
        let mut own = *parameters;
        own.nalu_process = Some(on_nal);
        // SAFETY: `own` has this build's layout and the library copies from it.
        let failed = unsafe { (self.library.0.reconfigure)(self.handle.as_ptr(), &raw mut own) };
        if failed == 0 {
            return Ok(());
        }
        Err(EncodeError(format!(
            "libx264 refused a bitrate of {} kb/s: the bitrate is unchanged",
            own.rc.i_bitrate
        )))
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: this library opened the object, and nothing uses it afterwards.
        unsafe { (self.library.0.close)(self.handle.as_ptr()) }
    }
}

/// A complete NAL unit before emulation prevention.
pub(super) struct Nal<'a> {
    handle: *mut x264_t,
    nal: *mut x264_nal_t,
    functions: &'a Functions,
    _callback: PhantomData<&'a mut x264_nal_t>,
}

impl Nal<'_> {
    fn read(&self) -> &x264_nal_t {
        // SAFETY: the library's unit is valid during the callback, and nothing else writes to it.
        unsafe { &*self.nal }
    }

    pub(super) fn is_slice(&self) -> bool {
        matches!(self.read().i_type, NAL_SLICE | NAL_SLICE_IDR)
    }

    pub(super) fn is_parameter_set(&self) -> bool {
        matches!(self.read().i_type, NAL_SPS | NAL_PPS)
    }

    /// First macroblock and number of macroblocks, if it is a slice.
    pub(super) fn macroblocks(&self) -> Option<(u32, u32)> {
        if !self.is_slice() {
            return None;
        }
        let first = u32::try_from(self.read().i_first_mb).ok()?;
        let last = u32::try_from(self.read().i_last_mb).ok()?;
        Some((first, last.checked_sub(first)? + 1))
    }

    /// Writes the unit to `bytes` with its start code. Takes `self` by value, because the library can write a unit only
    /// once.
    pub(super) fn encode(self, bytes: &mut Vec<u8>) {
        let payload = usize::try_from(self.read().i_payload).unwrap_or(0);
        bytes.clear();
        // `x264.h` requires this space: 1.5 times the payload, 5 bytes for the start code, and 64 bytes for vector
        // writes.
        bytes.reserve(payload * 3 / 2 + 5 + 64);
        // SAFETY: the buffer has the space that the library requires. After the call, it starts with the unit's
        // payload, so these bytes are initialised.
        unsafe {
            (self.functions.nal_encode)(self.handle, bytes.as_mut_ptr(), self.nal);
            let written = usize::try_from((*self.nal).i_payload).unwrap_or(0);
            bytes.set_len(written.min(bytes.capacity()));
        }
    }
}

unsafe extern "C" fn on_nal(handle: *mut x264_t, nal: *mut x264_nal_t, opaque: *mut c_void) {
    // SAFETY: `Encoder::encode` has set the picture's `opaque` to a `Call` that outlives the callback and is only
    // borrowed as shared.
    let call = unsafe { &*opaque.cast::<Call<'_>>() };
    let nal = Nal {
        handle,
        nal,
        functions: call.functions,
        _callback: PhantomData,
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (call.on_nal)(nal))) {
        *call.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
    }
}

/// Raises the calling thread's priority by one level, or restores it. Without real-time scheduling
/// or permission, nothing happens. The call is cheap if nothing changes.
pub(super) fn boost_priority(more: bool) {
    thread_local! {
        static REQUESTED: Cell<bool> = const { Cell::new(false) };
        static RAISED: Cell<bool> = const { Cell::new(false) };
    }
    if REQUESTED.replace(more) == more || !more && !RAISED.replace(false) {
        return;
    }
    let mut now = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 means the calling thread, and `now` is a `sched_param`, which the calls write and read.
    unsafe {
        let policy = libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK;
        if policy == libc::SCHED_FIFO && libc::sched_getparam(0, &raw mut now) == 0 {
            now.sched_priority += if more { 1 } else { -1 };
            RAISED.set(libc::sched_setparam(0, &raw const now) == 0 && more);
        }
    }
}
