//! Devices of libavutil (`AVHWDeviceContext`), pools of pictures in a device's memory (`AVHWFramesContext`), and the
//! fields of `AVCodecContext` that refer to them.
//!
//! These structures differ between major versions. The offsets of the fields are therefore derived at run time from
//! values that the library itself provides, and checked before they are used:
//! - In `AVCodecContext`, `hw_device_ctx` directly precedes the option `hwaccel_flags` in all supported major versions.
//!   From version 61 on, `hw_frames_ctx` directly precedes `hw_device_ctx`. Up to version 60, one or two `int`s are
//!   between `hw_frames_ctx` and the option `max_pixels` (`avcodec.h` of FFmpeg 4.4, 5.1, 6.1 and 7.1). libavcodec's
//!   option table (`AVOption`) states the offsets of the options.
//! - In `AVHWFramesContext`, the fields in use follow `device_ctx`. Its value is known, so the code finds the fields by
//!   this value.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

#[cfg(feature = "host")]
use openuvr_proto::units::Size;

use super::{AvCodecContext, AvFrame, Functions};

/// `AV_HWDEVICE_TYPE_NONE`.
const NO_DEVICE: c_int = 0;

/// From this major version of libavcodec on, `hw_frames_ctx` directly precedes `hw_device_ctx`.
const ADJACENT_SINCE: c_uint = 61;

/// Number of pictures in an encoder's pool, as in FFmpeg's example `vaapi_encode.c`. Some devices can't extend a pool
/// later.
#[cfg(feature = "host")]
const POOL: c_int = 20;

/// The first fields of `AVBufferRef`, which are the same in all versions.
#[repr(C)]
pub(crate) struct AvBufferRef {
    _buffer: *mut c_void,
    data: *mut u8,
}

/// The first fields of `AVOption`, which are the same in all versions.
#[repr(C)]
struct AvOption {
    _name: *const c_char,
    _help: *const c_char,
    offset: c_int,
}

/// The fields of `AVHWFramesContext` from `device_ctx` on.
#[cfg(feature = "host")]
#[repr(C)]
struct FramesFields {
    _device: *mut u8,
    _of_device: *mut c_void,
    _free: *mut c_void,
    _opaque: *mut c_void,
    _pool: *mut c_void,
    initial_pool_size: c_int,
    format: c_int,
    software_format: c_int,
    width: c_int,
    height: c_int,
}

/// The functions of libavutil for devices.
pub(crate) struct HardwareFunctions {
    device_type: unsafe extern "C" fn(*const c_char) -> c_int,
    create_device: unsafe extern "C" fn(
        *mut *mut AvBufferRef,
        c_int,
        *const c_char,
        *mut c_void,
        c_int,
    ) -> c_int,
    #[cfg(feature = "host")]
    alloc_frames: unsafe extern "C" fn(*mut AvBufferRef) -> *mut AvBufferRef,
    #[cfg(feature = "host")]
    init_frames: unsafe extern "C" fn(*mut AvBufferRef) -> c_int,
    #[cfg(feature = "host")]
    take_frame: unsafe extern "C" fn(*mut AvBufferRef, *mut AvFrame, c_int) -> c_int,
    transfer: unsafe extern "C" fn(*mut AvFrame, *const AvFrame, c_int) -> c_int,
    alloc_buffer: unsafe extern "C" fn(usize) -> *mut AvBufferRef,
    add_reference: unsafe extern "C" fn(*const AvBufferRef) -> *mut AvBufferRef,
    remove_reference: unsafe extern "C" fn(*mut *mut AvBufferRef),
    references: unsafe extern "C" fn(*const AvBufferRef) -> c_int,
    find_option: unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        *const c_char,
        c_int,
        c_int,
    ) -> *const AvOption,
}

impl HardwareFunctions {
    /// Looks up the functions.
    ///
    /// # Safety
    /// `util` must be a supported libavutil.
    pub(super) unsafe fn of(
        util: &libloading::Library,
    ) -> Result<HardwareFunctions, libloading::Error> {
        // SAFETY: the functions have these types in all supported versions, except that libavutil 56 declares the size
        // of a buffer as an `int`. The only size passed to it is 1, for which the calling convention makes no
        // difference between the types.
        unsafe {
            Ok(HardwareFunctions {
                device_type: *util.get(b"av_hwdevice_find_type_by_name")?,
                create_device: *util.get(b"av_hwdevice_ctx_create")?,
                #[cfg(feature = "host")]
                alloc_frames: *util.get(b"av_hwframe_ctx_alloc")?,
                #[cfg(feature = "host")]
                init_frames: *util.get(b"av_hwframe_ctx_init")?,
                #[cfg(feature = "host")]
                take_frame: *util.get(b"av_hwframe_get_buffer")?,
                transfer: *util.get(b"av_hwframe_transfer_data")?,
                alloc_buffer: *util.get(b"av_buffer_alloc")?,
                add_reference: *util.get(b"av_buffer_ref")?,
                remove_reference: *util.get(b"av_buffer_unref")?,
                references: *util.get(b"av_buffer_get_ref_count")?,
                find_option: *util.get(b"av_opt_find")?,
            })
        }
    }
}

/// A counted reference to a buffer of libavutil.
struct Reference {
    functions: Arc<Functions>,
    buffer: NonNull<AvBufferRef>,
}

// SAFETY: libavutil counts references atomically, and `&self` only reads the pointer.
unsafe impl Send for Reference {}

impl Reference {
    fn new(functions: &Arc<Functions>, buffer: *mut AvBufferRef) -> Option<Reference> {
        NonNull::new(buffer).map(|buffer| Reference {
            functions: Arc::clone(functions),
            buffer,
        })
    }

    /// The content of the buffer.
    #[cfg(feature = "host")]
    fn data(&self) -> *mut u8 {
        // SAFETY: `self` holds the reference.
        unsafe { self.buffer.as_ref() }.data
    }

    /// Creates another reference, which the caller must release. Null if memory is exhausted.
    fn another(&self) -> *mut AvBufferRef {
        // SAFETY: `self` holds the reference.
        unsafe { (self.functions.hardware.add_reference)(self.buffer.as_ptr()) }
    }

    /// Number of references to the buffer.
    fn count(&self) -> c_int {
        // SAFETY: `self` holds the reference.
        unsafe { (self.functions.hardware.references)(self.buffer.as_ptr()) }
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let mut buffer = self.buffer.as_ptr();
        // SAFETY: `self` owns the reference, and nothing uses it afterwards.
        unsafe { (self.functions.hardware.remove_reference)(&raw mut buffer) }
    }
}

pub(crate) struct Device(Reference);

impl Device {
    /// Opens the device at `path`, or the default device of the type `kind`, such as `vaapi`.
    ///
    /// # Errors
    /// Returns a message if the library does not know the type, or if the device can't be opened.
    pub(crate) fn open(
        functions: &Arc<Functions>,
        kind: &str,
        path: Option<&str>,
    ) -> Result<Device, String> {
        let text = |text: &str| CString::new(text).map_err(|e| e.to_string());
        let (name, path) = (text(kind)?, path.map(text).transpose()?);
        // SAFETY: the name is NUL-terminated.
        let number = unsafe { (functions.hardware.device_type)(name.as_ptr()) };
        if number == NO_DEVICE {
            return Err(format!(
                "this libavutil was built without the device type {kind}"
            ));
        }
        let path = path.as_deref().map_or(std::ptr::null(), CStr::as_ptr);
        let mut buffer = std::ptr::null_mut();
        // SAFETY: the path is null or NUL-terminated. The library writes a reference to `buffer`, and this function
        // owns that reference.
        let code = unsafe {
            (functions.hardware.create_device)(
                &raw mut buffer,
                number,
                path,
                std::ptr::null_mut(),
                0,
            )
        };
        if code < 0 {
            return Err(functions.error(&format!("open a device of the type {kind}"), code));
        }
        let device = Reference::new(functions, buffer).map(Device);
        device.ok_or_else(|| "out of memory for a device".to_owned())
    }

    /// Makes a codec use the device.
    ///
    /// # Errors
    /// Returns a message if the offset of the device's field in the context is unknown.
    ///
    /// # Safety
    /// `context` must have been allocated by the device's library, must not be open yet, and must have no other user now.
    #[cfg(feature = "client")]
    pub(crate) unsafe fn attach(&self, context: *mut AvCodecContext) -> Result<(), String> {
        let places = Places::of(&self.0.functions)?;
        // SAFETY: the caller upholds this function's contract, and `Places::of` has checked the offset.
        unsafe { put(context, places.device, &self.0) }
    }
}

/// A pool of pictures in a device's memory.
#[cfg(feature = "host")]
pub(crate) struct FramePool(Reference);

#[cfg(feature = "host")]
impl FramePool {
    /// Allocates a pool of pictures of `size`. `format` is libavutil's number of the device's opaque pixel format;
    /// `software` is libavutil's number of the layout of its pixels, such as NV12.
    ///
    /// # Errors
    /// Returns the library's message.
    pub(crate) fn new(
        device: &Device,
        (format, software): (c_int, c_int),
        size: Size,
    ) -> Result<FramePool, String> {
        let functions = &device.0.functions;
        // SAFETY: `device` holds a reference to the device. The result is checked below.
        let buffer = unsafe { (functions.hardware.alloc_frames)(device.0.buffer.as_ptr()) };
        let pool = Reference::new(functions, buffer)
            .map(FramePool)
            .ok_or("out of memory for a pool of pictures")?;
        let fields = pool
            .fields(device.0.data())
            .ok_or("this libavutil has an unknown layout of AVHWFramesContext")?;
        let side = |n: u32| c_int::try_from(n).unwrap_or(c_int::MAX);
        // SAFETY: `fields` has found the fields of the new pool, which has no other user yet.
        let code = unsafe {
            let fields = &mut *fields;
            fields.initial_pool_size = POOL;
            (fields.format, fields.software_format) = (format, software);
            (fields.width, fields.height) = (side(size.width), side(size.height));
            (functions.hardware.init_frames)(pool.0.buffer.as_ptr())
        };
        match code {
            code if code < 0 => Err(functions.error("allocate pictures in the device", code)),
            _ => Ok(pool),
        }
    }

    /// Finds the fields of a new pool by the address of its device. In a new pool, both formats are −1, and width,
    /// height and initial size are 0.
    fn fields(&self, device: *mut u8) -> Option<*mut FramesFields> {
        let words = self.0.data().cast::<*mut u8>();
        // Before `device_ctx` are the class, an internal pointer (up to libavutil 58), and a reference to the device.
        (2..=3).find_map(|n| {
            // SAFETY: the structure has more than three words. The fields are read only if this word is the device's
            // address.
            let fields = unsafe { words.add(n) };
            // SAFETY: as above.
            if unsafe { fields.read() } != device {
                return None;
            }
            let fields = fields.cast::<FramesFields>();
            // SAFETY: from `device_ctx` on, the fields are the same in all supported versions.
            let found = unsafe { &*fields };
            let unset = (found.format, found.software_format) == (-1, -1)
                && (found.width, found.height, found.initial_pool_size) == (0, 0, 0);
            unset.then_some(fields)
        })
    }

    /// Makes an encoder take pictures from this pool.
    ///
    /// # Errors
    /// Returns a message if the offset of the pool's field in the context is unknown.
    ///
    /// # Safety
    /// `context` must have been allocated by the pool's library, must not be open yet, and must have no other user now.
    pub(crate) unsafe fn attach(&self, context: *mut AvCodecContext) -> Result<(), String> {
        let places = Places::of(&self.0.functions)?;
        // SAFETY: the caller upholds this function's contract, and `Places::of` has checked the offset.
        unsafe { put(context, places.frames, &self.0) }
    }

    /// Copies the picture of `from` from main memory to a picture of the pool. Afterwards, `to` references the copy.
    ///
    /// # Errors
    /// Returns the library's message.
    ///
    /// # Safety
    /// Both must be valid frames of this library without other users. The picture of `to`, if there is one, is
    /// released.
    pub(crate) unsafe fn upload(&self, from: &AvFrame, to: *mut AvFrame) -> Result<(), String> {
        let functions = &self.0.functions;
        // SAFETY: the caller upholds this function's contract.
        let code = unsafe {
            (functions.frame_unref)(to);
            (functions.hardware.take_frame)(self.0.buffer.as_ptr(), to, 0)
        };
        if code < 0 {
            return Err(functions.error("take a picture of the device", code));
        }
        // SAFETY: the caller upholds this function's contract. `to` now has a picture in the device's memory.
        let code = unsafe { (functions.hardware.transfer)(to, from, 0) };
        match code {
            code if code < 0 => Err(functions.error("copy a picture to the device", code)),
            _ => Ok(()),
        }
    }
}

/// Copies the picture of `from` from a device's memory to main memory. Afterwards, `to` references the copy.
///
/// # Errors
/// Returns the library's message.
///
/// # Safety
/// Both must be valid frames of this library without other users. The picture of `to`, if there is one, is released.
#[cfg(any(feature = "client", test))]
pub(crate) unsafe fn download(
    functions: &Functions,
    from: &AvFrame,
    to: *mut AvFrame,
) -> Result<(), String> {
    // SAFETY: the caller upholds this function's contract. Without a picture, the library chooses the format and
    // allocates the memory.
    let code = unsafe {
        (functions.frame_unref)(to);
        (functions.hardware.transfer)(to, from, 0)
    };
    if code < 0 {
        return Err(functions.error("copy a picture from the device", code));
    }
    // SAFETY: the caller guarantees that `to` is a valid frame without another user.
    unsafe { (*to).pts = from.pts };
    Ok(())
}

/// Offsets of `hw_frames_ctx` and `hw_device_ctx` in `AVCodecContext`, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Places {
    frames: usize,
    device: usize,
}

impl Places {
    /// Derives the offsets and tests them with a context that is freed afterwards.
    fn of(functions: &Arc<Functions>) -> Result<Places, String> {
        // SAFETY: a context without a codec is allowed.
        let mut context = unsafe { (functions.alloc_context)(std::ptr::null()) };
        if context.is_null() {
            return Err("out of memory for a codec".to_owned());
        }
        // SAFETY: this function allocated the context above, and owns it.
        let places = unsafe { Places::derived(functions, context) };
        // SAFETY: the call only allocates one byte, and `Reference::new` checks the result.
        let buffer = unsafe { (functions.hardware.alloc_buffer)(1) };
        let buffer = Reference::new(functions, buffer);
        let placed = places.zip(buffer.as_ref()).is_some_and(|(places, buffer)| {
            // SAFETY: this function owns the context, and `put` checks that both fields are null.
            unsafe {
                put(context, places.frames, buffer).is_ok()
                    && put(context, places.device, buffer).is_ok()
            }
        });
        // SAFETY: this library allocated the object, and nothing uses it afterwards.
        unsafe { (functions.free_context)(&raw mut context) };
        // The library has released the references if, and only if, they were in its fields.
        let released = buffer.is_some_and(|buffer| buffer.count() == 1);
        places.filter(|_| placed && released).ok_or_else(|| {
            format!(
                "libavcodec {} has an unknown layout of AVCodecContext; choose an encoder or decoder without a device",
                functions.avcodec
            )
        })
    }

    /// Derives the offsets from the offsets of the adjacent options. `None` if the options are not where they are
    /// expected.
    ///
    /// # Safety
    /// `context` must be a context of this library.
    unsafe fn derived(functions: &Functions, context: *mut AvCodecContext) -> Option<Places> {
        let offset = |name: &CStr| {
            // SAFETY: a context starts with its class, as options require; the name is NUL-terminated, and a found option
            // is a constant of the library.
            let option = unsafe {
                (functions.hardware.find_option)(
                    context.cast(),
                    name.as_ptr(),
                    std::ptr::null(),
                    0,
                    0,
                )
                .as_ref()
            };
            usize::try_from(option?.offset).ok()
        };
        let word = size_of::<*mut c_void>();
        let flags = offset(c"hwaccel_flags")?;
        let pixels = offset(c"max_pixels")?;
        let device = flags.checked_sub(word)?;
        let (frames, neighbour) = if functions.avcodec >= ADJACENT_SINCE {
            let more = offset(c"extra_hw_frames")?;
            (
                device.checked_sub(word)?,
                more == flags + size_of::<c_int>(),
            )
        } else {
            (pixels.checked_sub(2 * word)?, device == pixels + 8)
        };
        let aligned = frames.is_multiple_of(word) && device.is_multiple_of(word);
        let behind = frames >= size_of::<AvCodecContext>();
        (neighbour && aligned && behind).then_some(Places { frames, device })
    }
}

/// Writes a new reference to `buffer` to the field at offset `place` of a context.
///
/// # Errors
/// Returns a message if the field already has a value, or if memory is exhausted.
///
/// # Safety
/// `context` must be a context without other users, and `place` must be the offset of one of its pointers.
unsafe fn put(
    context: *mut AvCodecContext,
    place: usize,
    buffer: &Reference,
) -> Result<(), String> {
    // SAFETY: the caller upholds this function's contract.
    let field = unsafe { context.cast::<u8>().add(place).cast::<*mut AvBufferRef>() };
    // SAFETY: as above; the offset is a multiple of a pointer's size.
    if !unsafe { field.read() }.is_null() {
        return Err("the codec already has a device or a pool of pictures".to_owned());
    }
    let reference = buffer.another();
    if reference.is_null() {
        return Err("out of memory for a reference to a device or a pool of pictures".to_owned());
    }
    // SAFETY: the caller guarantees that the context has no other user, and that `place` is the offset of a pointer.
    unsafe { field.write(reference) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_installed_library_releases_both_references() {
        let functions = Functions::load().expect("libavcodec");
        let places = Places::of(&functions).expect("known");
        assert!(places.frames < places.device, "{places:?}");
    }

    #[test]
    fn missing_devices_are_refused_with_their_type() {
        let functions = Functions::load().expect("libavcodec");
        let why = |kind, path| Device::open(&functions, kind, path).err();
        let unknown = why("vaapy", None).expect("no such type");
        assert!(unknown.contains("vaapy"), "{unknown}");
        let missing = why("vaapi", Some("/nonexistent/renderD128")).expect("no such device");
        assert!(missing.contains("vaapi"), "{missing}");
    }

    /// Requires a device that libavutil can open, such as lavapipe with `OPENUVR_TEST_DEVICE=vulkan`.
    #[cfg(feature = "host")]
    #[test]
    #[ignore = "needs a device: OPENUVR_TEST_DEVICE=vulkan or vaapi"]
    fn a_picture_survives_the_way_to_a_device_and_back() {
        let kind = std::env::var("OPENUVR_TEST_DEVICE").expect("OPENUVR_TEST_DEVICE");
        let functions = Functions::load().expect("libavcodec");
        let device = Device::open(&functions, &kind, None).expect("a device");
        let size = Size::new(640, 368);
        let name = CString::new(kind).unwrap();
        // SAFETY: the names are NUL-terminated.
        let (format, nv12) = unsafe {
            (
                (functions.pixel_format)(name.as_ptr()),
                (functions.pixel_format)(c"nv12".as_ptr()),
            )
        };
        let pool = FramePool::new(&device, (format, nv12), size).expect("a pool");
        // SAFETY: the frames are allocated here, used by one call at a time, and freed once. The planes have the sizes of
        // an NV12 picture.
        unsafe {
            let mut all: [*mut AvFrame; 3] = std::array::from_fn(|_| (functions.frame_alloc)());
            let [from, on_device, back] = all;
            ((*from).format, (*from).width, (*from).height) = (nv12, 640, 368);
            assert_eq!((functions.frame_buffer)(from, 0), 0);
            for row in 0..368 {
                for column in 0..640_usize {
                    let stride = usize::try_from((*from).linesize[0]).unwrap();
                    let value = u8::try_from((row * 3 + column * 5) % 251).unwrap();
                    (*from).data[0].add(row * stride + column).write(value);
                }
            }
            pool.upload(&*from, on_device).expect("uploaded");
            assert_eq!((*on_device).format, format);
            (*on_device).pts = 77;
            download(&functions, &*on_device, back).expect("downloaded");
            assert_eq!(((*back).format, (*back).pts), (nv12, 77));
            for row in [0, 1, 200, 367] {
                let line = |frame: *mut AvFrame| {
                    let stride = usize::try_from((*frame).linesize[0]).unwrap();
                    std::slice::from_raw_parts((*frame).data[0].add(row * stride), 640)
                };
                assert_eq!(line(from), line(back), "row {row}");
            }
            for frame in &mut all {
                (functions.frame_free)(&raw mut *frame);
            }
        }
    }
}
