//! The application's OpenGL context from a GLX or EGL binding, and the lookup of its functions.

use std::ffi::{CStr, c_char, c_void};

use libloading::os::unix::Library;
use openuvr_media::capture::gl::{Native, Sharing};
use openxr_sys as xr;
use openxr_sys::platform::EglGetProcAddressMNDX;

use crate::debug::with_message;
use crate::ffi::Outcome;

/// Names of the library, with the usual one first.
const GLX: [&str; 3] = ["libGLX.so.0", "libGL.so.1", "libGL.so"];
const EGL: [&str; 1] = ["libEGL.so.1"];

type GlxGetProcAddress = unsafe extern "C" fn(*const c_char) -> *const c_void;

/// An OpenGL context of the application.
pub(crate) struct Binding {
    pub(super) native: Native,
    pub(super) sharing: Sharing,
    find: Find,
    /// Keeps the library loaded while its functions are in use.
    library: Option<Library>,
}

enum Find {
    Glx(GlxGetProcAddress),
    Egl(EglGetProcAddressMNDX),
}

/// A library that the application has loaded.
fn loaded(names: &[&str]) -> Option<Library> {
    let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD;
    // SAFETY: RTLD_NOLOAD loads no library.
    let open = |name: &&str| unsafe { Library::open(Some(*name), flags).ok() };
    names.iter().find_map(open)
}

impl Binding {
    /// Reads a GLX binding.
    ///
    /// # Errors
    /// `XR_ERROR_GRAPHICS_DEVICE_INVALID` if the display or the context is null, or if no usable GLX library is loaded.
    pub(crate) fn glx(binding: &xr::GraphicsBindingOpenGLXlibKHR) -> Outcome<Binding> {
        let invalid = xr::Result::ERROR_GRAPHICS_DEVICE_INVALID;
        if binding.x_display.is_null() || binding.glx_context.is_null() {
            return Err(with_message(
                invalid,
                c"the display or the OpenGL context is null",
            ));
        }
        let library = loaded(&GLX);
        let library = library
            .ok_or_else(|| with_message(invalid, c"no GLX library is loaded in this process"))?;
        // SAFETY: `GlxGetProcAddress` is the type of glXGetProcAddressARB.
        let find = unsafe { library.get::<GlxGetProcAddress>(b"glXGetProcAddressARB\0") };
        let find = *find.map_err(|_| invalid)?;
        Ok(Binding {
            native: Native {
                display: binding.x_display,
                drawable: binding.glx_drawable,
                context: binding.glx_context,
            },
            // All calls are made on threads that may use the context, and therefore also the display, so libX11 need
            // not be checked.
            sharing: Sharing::Glx { threads: true },
            find: Find::Glx(find),
            library: Some(library),
        })
    }

    /// Reads an EGL binding.
    ///
    /// # Errors
    /// `XR_ERROR_GRAPHICS_DEVICE_INVALID` if the display or the context is null. `XR_ERROR_VALIDATION_FAILURE` if the
    /// binding has no `getProcAddress`.
    pub(crate) fn egl(binding: &xr::GraphicsBindingEGLMNDX) -> Outcome<Binding> {
        let find = binding.get_proc_address;
        let find = find.ok_or(xr::Result::ERROR_VALIDATION_FAILURE)?;
        if binding.display.is_null() || binding.context.is_null() {
            let message = c"the display or the EGL context is null";
            return Err(with_message(
                xr::Result::ERROR_GRAPHICS_DEVICE_INVALID,
                message,
            ));
        }
        Ok(Binding {
            native: Native {
                display: binding.display,
                drawable: 0,
                context: binding.context,
            },
            sharing: Sharing::Egl,
            find: Find::Egl(find),
            // Before EGL 1.5, eglGetProcAddress does not return EGL's own functions.
            library: loaded(&EGL),
        })
    }

    /// Address of a function of OpenGL, GLX or EGL; null if there is none.
    pub(super) fn function(&self, name: &CStr) -> *const c_void {
        // SAFETY: `name` is NUL-terminated, and the result is not called here.
        unsafe {
            let found = match self.find {
                Find::Glx(find) => find(name.as_ptr()),
                Find::Egl(find) => {
                    find(name.as_ptr()).map_or(std::ptr::null(), |found| found as *const c_void)
                }
            };
            if !found.is_null() {
                return found;
            }
            let of = |library: &Library| {
                let symbol = library.get::<*const c_void>(name.to_bytes_with_nul());
                symbol.map_or(std::ptr::null(), |symbol| *symbol)
            };
            self.library.as_ref().map_or(std::ptr::null(), of)
        }
    }
}
