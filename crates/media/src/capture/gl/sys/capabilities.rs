//! Capabilities of an OpenGL or OpenGL ES context.

use std::collections::HashSet;
use std::ffi::{CStr, c_int, c_uint};

use super::super::Loader;
use super::functions::{
    Base, Binding, Buffers, Copies, Framebuffers, Indexed, ReadBuffer, Storage, Transfer, storage,
};
use crate::capture::CaptureError;
use crate::picture::PixelFormat;

const VERSION: c_uint = 0x1F02;
const EXTENSIONS: c_uint = 0x1F03;
const NUM_EXTENSIONS: c_uint = 0x821D;
const RGBA: c_uint = 0x1908;
const BGRA: c_uint = 0x80E1;

const CONTEXT_FLAGS: c_uint = 0x821E;
const FORWARD_COMPATIBLE: c_int = 0x1;
const CONTEXT_PROFILE_MASK: c_uint = 0x9126;
const COMPATIBILITY_PROFILE: c_int = 0x2;

const PACK_SWAP_BYTES: c_uint = 0x0D00;
const PACK_ROW_LENGTH: c_uint = 0x0D02;
const PACK_SKIP_ROWS: c_uint = 0x0D03;
const PACK_SKIP_PIXELS: c_uint = 0x0D04;
const PACK_ALIGNMENT: c_uint = 0x0D05;
/// `GL_MESA_pack_invert`.
const PACK_INVERT: c_uint = 0x8758;
/// `GL_ANGLE_pack_reverse_row_order`.
const PACK_REVERSE_ROW_ORDER: c_uint = 0x93A4;

/// A context's version, functions and capabilities.
pub(super) struct Gl {
    pub(super) version: Version,
    pub(super) base: Base,
    pub(super) read_buffer: Option<ReadBuffer>,
    pub(super) framebuffers: Option<(Framebuffers, Targets)>,
    pub(super) binding: Option<Binding>,
    pub(super) buffers: Option<Buffers>,
    pub(super) copies: Option<Copies>,
    pub(super) storage: Option<Storage>,
    /// See [`packing`].
    pub(super) packing: Vec<(c_uint, c_int)>,
    /// `Some` in a context with the fixed-function pipeline.
    pub(super) transfer: Option<Transfer>,
    /// Whether pixel transfer has the imaging subset (`GL_ARB_imaging`).
    pub(super) imaging: bool,
    /// Pixel format in which a window is read.
    pub(super) format: (c_uint, PixelFormat),
}

/// The number of framebuffer bindings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Targets {
    /// One, for both drawing and reading.
    One,
    /// One each for drawing and reading.
    Two,
}

/// A version of OpenGL or of OpenGL ES (`embedded`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Version {
    pub(super) embedded: bool,
    pub(super) major: u32,
    pub(super) minor: u32,
}

impl Version {
    /// From `GL_VERSION`: "4.5 (Core Profile) Mesa 22", "OpenGL ES 3.2 Mesa 22",
    /// "OpenGL ES-CM 1.1".
    pub(super) fn parse(words: &str) -> Option<Version> {
        let number = words
            .split(' ')
            .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
        let mut parts = number.split('.').map(|part| part.parse().ok());
        Some(Version {
            embedded: words.starts_with("OpenGL ES"),
            major: parts.next()??,
            minor: parts.next()??,
        })
    }

    pub(super) fn is(self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }

    /// Whether the version is at least `gl` for OpenGL, or `es` for OpenGL ES.
    pub(super) fn has(self, gl: (u32, u32), es: (u32, u32)) -> bool {
        let (major, minor) = if self.embedded { es } else { gl };
        self.is(major, minor)
    }
}

impl Gl {
    /// # Safety
    /// A context must be current, and every function that `loader` returns must be the driver's function of that name.
    pub(super) unsafe fn load(loader: Loader<'_>) -> Result<Gl, CaptureError> {
        let missing = |what| {
            CaptureError(format!(
                "capture from this OpenGL context needs {what}, which the context lacks"
            ))
        };
        // SAFETY: the caller guarantees that the context is current and that `loader` returns the driver's functions. A
        // loader may return a pointer for any name. Therefore, only functions of the context's version and extensions
        // are looked up.
        let base = unsafe { Base::load(loader) }.ok_or_else(|| missing("glReadPixels"))?;
        // SAFETY: the context is current (the caller's guarantee), and every context supports a query of this string.
        let words = unsafe { text((base.string)(VERSION)) }.ok_or_else(|| {
            CaptureError(
                "no OpenGL context is current on this thread: make one current first".into(),
            )
        })?;
        let version = Version::parse(&words)
            .ok_or_else(|| CaptureError(format!("\"{words}\" is not an OpenGL version")))?;
        // SAFETY: the caller guarantees that the context is current and that `loader` returns the driver's functions.
        let extensions = unsafe { extensions(&base, version, loader) };
        let has = |name: &str| extensions.contains(name);
        let desktop = !version.embedded;
        let two = version.has((3, 0), (3, 0))
            || has("GL_ARB_framebuffer_object")
            || (desktop && has("GL_EXT_framebuffer_object") && has("GL_EXT_framebuffer_blit"));
        let one = !desktop && version.is(2, 0) || desktop && has("GL_EXT_framebuffer_object");
        let mapped = version.has((3, 2), (3, 0))
            || desktop && version.is(2, 1) && has("GL_ARB_map_buffer_range") && has("GL_ARB_sync");
        let bound = version.has((2, 1), (3, 0))
            || has("GL_ARB_pixel_buffer_object")
            || has("GL_NV_pixel_buffer_object");
        let copied = version.has((3, 1), (3, 0)) || desktop && has("GL_ARB_copy_buffer");
        // SAFETY: the caller guarantees that the context is current and that `loader` returns the driver's functions.
        let (read_buffer, framebuffers, binding, buffers, copies) = unsafe {
            (
                (desktop || version.is(3, 0))
                    .then(|| ReadBuffer::load(loader))
                    .flatten(),
                (two || one).then(|| Framebuffers::load(loader)).flatten(),
                bound.then(|| Binding::load(loader)).flatten(),
                mapped.then(|| Buffers::load(loader)).flatten(),
                copied.then(|| Copies::load(loader)).flatten(),
            )
        };
        // SAFETY: the caller guarantees that the context is current and that `loader` returns the driver's functions.
        let transfer = unsafe {
            has_fixed_function(&base, version, &has)
                .then(|| Transfer::load(loader))
                .flatten()
        };
        let lasting = if desktop && (version.is(4, 4) || has("GL_ARB_buffer_storage")) {
            Some(c"glBufferStorage")
        } else if version.embedded && has("GL_EXT_buffer_storage") {
            Some(c"glBufferStorageEXT")
        } else {
            None
        };
        Ok(Gl {
            version,
            base,
            read_buffer,
            framebuffers: framebuffers.zip(Some(if two { Targets::Two } else { Targets::One })),
            binding,
            buffers,
            copies,
            // SAFETY: the caller guarantees that the context is current and that `loader` returns the driver's
            // functions.
            storage: lasting.and_then(|name| unsafe { storage(loader, name) }),
            packing: packing(&version, &has),
            imaging: transfer.is_some() && has("GL_ARB_imaging"),
            transfer,
            format: if desktop && version.is(1, 2) || has("GL_EXT_read_format_bgra") {
                (BGRA, PixelFormat::Bgrx)
            } else {
                (RGBA, PixelFormat::Rgbx)
            },
        })
    }

    /// Returns an integer state variable that the context has.
    pub(super) fn integer(&self, name: c_uint) -> c_int {
        // SAFETY: the contract of `ReadBack::new` requires that the context is current.
        unsafe { integer(&self.base, name) }
    }
}

/// # Safety
/// The current context must have `name` as a state variable that is a single integer.
unsafe fn integer(base: &Base, name: c_uint) -> c_int {
    let mut value = 0;
    // SAFETY: the caller upholds this function's contract. Each parameter is one number, so the call writes one number.
    unsafe { (base.integers)(name, &raw mut value) };
    value
}

/// Whether this is OpenGL (not ES) with the fixed-function pipeline. Versions before 3.1 have the pipeline if the
/// context is not forward-compatible. Later versions have it if the context declares it.
///
/// # Safety
/// The context of this version must be current.
unsafe fn has_fixed_function(base: &Base, version: Version, has: &dyn Fn(&str) -> bool) -> bool {
    // SAFETY: the caller upholds this function's contract; each parameter is queried only in versions that have it.
    unsafe {
        match version {
            Version { embedded: true, .. } => false,
            _ if has("GL_ARB_compatibility") => true,
            of if of.is(3, 2) => integer(base, CONTEXT_PROFILE_MASK) & COMPATIBILITY_PROFILE != 0,
            of if of.is(3, 1) => false,
            of if of.is(3, 0) => integer(base, CONTEXT_FLAGS) & FORWARD_COMPATIBLE == 0,
            _ => true,
        }
    }
}

/// The context's packing parameters and the values that a read needs.
fn packing(gl: &Version, has: &dyn Fn(&str) -> bool) -> Vec<(c_uint, c_int)> {
    // With this alignment, rows of 4-byte pixels have no padding at any length.
    let mut all = vec![(PACK_ALIGNMENT, 4)];
    if !gl.embedded || gl.is(3, 0) {
        all.extend([
            (PACK_ROW_LENGTH, 0),
            (PACK_SKIP_ROWS, 0),
            (PACK_SKIP_PIXELS, 0),
        ]);
    }
    if !gl.embedded {
        all.push((PACK_SWAP_BYTES, 0));
    }
    if has("GL_MESA_pack_invert") {
        all.push((PACK_INVERT, 0));
    }
    if has("GL_ANGLE_pack_reverse_row_order") {
        all.push((PACK_REVERSE_ROW_ORDER, 0));
    }
    all
}

/// # Safety
/// `words` must be null or a NUL-terminated string that outlives this call.
pub(super) unsafe fn text(words: *const std::ffi::c_char) -> Option<String> {
    if words.is_null() {
        return None;
    }
    // SAFETY: the caller upholds this function's contract.
    let words = unsafe { CStr::from_ptr(words) };
    Some(words.to_string_lossy().into_owned())
}

/// # Safety
/// See [`Gl::load`].
unsafe fn extensions(base: &Base, version: Version, loader: Loader<'_>) -> HashSet<String> {
    // SAFETY: the caller upholds this function's contract; each name is queried only in versions that have it.
    unsafe {
        if version.is(3, 0) {
            let Some(indexed) = Indexed::load(loader) else {
                return HashSet::new();
            };
            let mut count = 0;
            (base.integers)(NUM_EXTENSIONS, &raw mut count);
            (0..count.cast_unsigned())
                .filter_map(|index| text((indexed.string)(EXTENSIONS, index)))
                .collect()
        } else {
            let all = text((base.string)(EXTENSIONS)).unwrap_or_default();
            all.split(' ').map(str::to_owned).collect()
        }
    }
}
