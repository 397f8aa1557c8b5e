//! OpenGL on a Wayland surface: libEGL and libwayland-egl, opened at run time.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

use anyhow::{Context as _, Result, ensure};
use openuvr_proto::units::Size;

use super::libwayland::{Object, Proxy};

/// An opaque object of EGL.
type Handle = *mut c_void;

/// Constants of EGL/egl.h and EGL/eglext.h.
mod number {
    use std::ffi::{c_int, c_uint};

    pub(super) const OPENGL_API: c_uint = 0x30A2;
    pub(super) const PLATFORM_WAYLAND: c_uint = 0x31D8;
    pub(super) const ALPHA_SIZE: c_int = 0x3021;
    pub(super) const BLUE_SIZE: c_int = 0x3022;
    pub(super) const GREEN_SIZE: c_int = 0x3023;
    pub(super) const RED_SIZE: c_int = 0x3024;
    pub(super) const DEPTH_SIZE: c_int = 0x3025;
    pub(super) const SURFACE_TYPE: c_int = 0x3033;
    pub(super) const NONE: c_int = 0x3038;
    pub(super) const RENDERABLE_TYPE: c_int = 0x3040;
    pub(super) const WINDOW_BIT: c_int = 4;
    pub(super) const OPENGL_BIT: c_int = 8;
}

/// The functions of libEGL 1.5 in use, with the types of EGL/egl.h.
struct Functions {
    display: unsafe extern "C" fn(c_uint, *mut Proxy, *const isize) -> Handle,
    initialize: unsafe extern "C" fn(Handle, *mut c_int, *mut c_int) -> c_uint,
    bind_api: unsafe extern "C" fn(c_uint) -> c_uint,
    choose_config:
        unsafe extern "C" fn(Handle, *const c_int, *mut Handle, c_int, *mut c_int) -> c_uint,
    config_attribute: unsafe extern "C" fn(Handle, Handle, c_int, *mut c_int) -> c_uint,
    create_context: unsafe extern "C" fn(Handle, Handle, Handle, *const c_int) -> Handle,
    create_surface: unsafe extern "C" fn(Handle, Handle, Handle, *const c_int) -> Handle,
    make_current: unsafe extern "C" fn(Handle, Handle, Handle, Handle) -> c_uint,
    swap_interval: unsafe extern "C" fn(Handle, c_int) -> c_uint,
    swap: unsafe extern "C" fn(Handle, Handle) -> c_uint,
    function: unsafe extern "C" fn(*const c_char) -> *const c_void,
    error: unsafe extern "C" fn() -> c_int,
    destroy_surface: unsafe extern "C" fn(Handle, Handle) -> c_uint,
    destroy_context: unsafe extern "C" fn(Handle, Handle) -> c_uint,
    terminate: unsafe extern "C" fn(Handle) -> c_uint,
}

/// The functions of libwayland-egl in use, with the types of wayland-egl-core.h.
struct WindowFunctions {
    create: unsafe extern "C" fn(*mut Proxy, c_int, c_int) -> Handle,
    resize: unsafe extern "C" fn(Handle, c_int, c_int, c_int, c_int),
    destroy: unsafe extern "C" fn(Handle),
}

/// The OpenGL context of a surface, current on this thread. It must be dropped before the surface's connection.
pub(super) struct Egl {
    functions: Functions,
    window_functions: WindowFunctions,
    display: Handle,
    /// This and the next two handles are null until the objects are created.
    window: Handle,
    surface: Handle,
    context: Handle,
    /// The last field, so that the libraries are closed last: the functions belong to them.
    _libraries: [libloading::Library; 2],
}

/// Maximum number of configurations that are considered; Mesa offers about 50.
const CONFIGS: usize = 256;

impl Egl {
    /// Creates a context for this surface, without vertical synchronisation, because the scene has its own clock.
    ///
    /// # Errors
    /// Returns an error if a library is missing or the display has no OpenGL.
    pub(super) fn open(display: Object, surface: Object, size: Size) -> Result<Egl> {
        let open = |name: &str| {
            // SAFETY: the library's initialisation has no effects on this program.
            unsafe { libloading::Library::new(name) }
        };
        let window_library = open("libwayland-egl.so.1")
            .context("libwayland-egl is missing (apt install libwayland-egl1)")?;
        let library =
            open("libEGL.so.1").context("libEGL is missing (apt install libegl1 libegl-mesa0)")?;
        // SAFETY: the types are those of the headers.
        let (functions, window_functions) = unsafe {
            let functions = Functions {
                display: *(library.get(c"eglGetPlatformDisplay"))
                    .context("libEGL is older than EGL 1.5 (update the OpenGL driver)")?,
                initialize: *library.get(c"eglInitialize")?,
                bind_api: *library.get(c"eglBindAPI")?,
                choose_config: *library.get(c"eglChooseConfig")?,
                config_attribute: *library.get(c"eglGetConfigAttrib")?,
                create_context: *library.get(c"eglCreateContext")?,
                create_surface: *library.get(c"eglCreateWindowSurface")?,
                make_current: *library.get(c"eglMakeCurrent")?,
                swap_interval: *library.get(c"eglSwapInterval")?,
                swap: *library.get(c"eglSwapBuffers")?,
                function: *library.get(c"eglGetProcAddress")?,
                error: *library.get(c"eglGetError")?,
                destroy_surface: *library.get(c"eglDestroySurface")?,
                destroy_context: *library.get(c"eglDestroyContext")?,
                terminate: *library.get(c"eglTerminate")?,
            };
            let window_functions = WindowFunctions {
                create: *window_library.get(c"wl_egl_window_create")?,
                resize: *window_library.get(c"wl_egl_window_resize")?,
                destroy: *window_library.get(c"wl_egl_window_destroy")?,
            };
            (functions, window_functions)
        };
        let mut egl = Egl {
            functions,
            window_functions,
            display: null_mut(),
            window: null_mut(),
            surface: null_mut(),
            context: null_mut(),
            _libraries: [library, window_library],
        };
        egl.start(display, surface, size)?;
        Ok(egl)
    }

    fn start(&mut self, display: Object, surface: Object, size: Size) -> Result<()> {
        let egl = &self.functions;
        // SAFETY: display and surface are alive; every other pointer comes from EGL, and was checked, or points to a
        // local that outlives the call.
        unsafe {
            self.display = (egl.display)(number::PLATFORM_WAYLAND, display.proxy(), null());
            let started = (egl.initialize)(self.display, null_mut(), null_mut());
            ensure!(
                !self.display.is_null() && started != 0,
                "this Wayland display has no OpenGL (EGL {}): apt install libegl-mesa0",
                self.error()
            );
            ensure!(
                (egl.bind_api)(number::OPENGL_API) != 0,
                "this EGL has no desktop OpenGL: apt install libegl-mesa0"
            );
            let config = self.config()?;
            let none = [number::NONE];
            self.context = (egl.create_context)(self.display, config, null_mut(), none.as_ptr());
            ensure!(
                !self.context.is_null(),
                "can't create an OpenGL context on this display: EGL {}",
                self.error()
            );
            let [width, height] = sides(size);
            self.window = (self.window_functions.create)(surface.proxy(), width, height);
            ensure!(!self.window.is_null(), "no memory is left for a window");
            self.surface = (egl.create_surface)(self.display, config, self.window, none.as_ptr());
            let current =
                (egl.make_current)(self.display, self.surface, self.surface, self.context);
            ensure!(
                !self.surface.is_null() && current != 0,
                "this display's OpenGL can't draw to windows: EGL {}",
                self.error()
            );
            (egl.swap_interval)(self.display, 0);
        }
        Ok(())
    }

    /// A configuration with 8 bits per colour, without alpha if possible, so that the compositor need not blend the
    /// window.
    fn config(&self) -> Result<Handle> {
        let attributes = [
            (number::SURFACE_TYPE, number::WINDOW_BIT),
            (number::RENDERABLE_TYPE, number::OPENGL_BIT),
            (number::RED_SIZE, 8),
            (number::GREEN_SIZE, 8),
            (number::BLUE_SIZE, 8),
            (number::DEPTH_SIZE, 24),
        ];
        let mut flat: Vec<c_int> = attributes.iter().flat_map(|&(k, v)| [k, v]).collect();
        flat.push(number::NONE);
        let mut configs = [null_mut(); CONFIGS];
        let mut count = 0;
        // SAFETY: the display is initialised; EGL writes at most CONFIGS handles, and their number.
        unsafe {
            let most = CONFIGS as c_int;
            let (list, into) = (flat.as_ptr(), configs.as_mut_ptr());
            (self.functions.choose_config)(self.display, list, into, most, &raw mut count);
        }
        let bits = |config: Handle, attribute: c_int| {
            let mut bits = 0;
            // SAFETY: the display is initialised, and the configuration belongs to it.
            unsafe {
                (self.functions.config_attribute)(self.display, config, attribute, &raw mut bits)
            };
            bits
        };
        let found = &configs[..usize::try_from(count).unwrap_or(0).min(CONFIGS)];
        // The sizes above are minimums, and EGL returns configurations with more colour bits first.
        let exact = found
            .iter()
            .filter(|config| bits(**config, number::RED_SIZE) == 8);
        let best = exact.min_by_key(|config| bits(**config, number::ALPHA_SIZE));
        best.copied().context(
            "this display has no OpenGL (EGL) with 24-bit colour: apt install libegl-mesa0",
        )
    }

    fn error(&self) -> String {
        // SAFETY: the function takes no arguments.
        format!("error {:#x}", unsafe { (self.functions.error)() })
    }

    /// Passes the drawn picture to the compositor.
    pub(super) fn swap(&self) {
        // SAFETY: display and surface are alive.
        unsafe { (self.functions.swap)(self.display, self.surface) };
    }

    /// Sets the size of the next picture.
    pub(super) fn resize(&self, size: Size) {
        let [width, height] = sides(size);
        // SAFETY: the window is alive.
        unsafe { (self.window_functions.resize)(self.window, width, height, 0, 0) };
    }

    /// An OpenGL function, or null.
    pub(super) fn function(&self, name: &CStr) -> *const c_void {
        // SAFETY: the name is NUL-terminated.
        unsafe { (self.functions.function)(name.as_ptr()) }
    }
}

fn sides(size: Size) -> [c_int; 2] {
    [size.width, size.height].map(|side| c_int::try_from(side).unwrap_or(c_int::MAX))
}

impl Drop for Egl {
    fn drop(&mut self) {
        let egl = &self.functions;
        // SAFETY: nothing uses these objects afterwards; objects that were not created are null.
        unsafe {
            if self.display.is_null() {
                return;
            }
            (egl.make_current)(self.display, null_mut(), null_mut(), null_mut());
            if !self.surface.is_null() {
                (egl.destroy_surface)(self.display, self.surface);
            }
            if !self.window.is_null() {
                (self.window_functions.destroy)(self.window);
            }
            if !self.context.is_null() {
                (egl.destroy_context)(self.display, self.context);
            }
            (egl.terminate)(self.display);
        }
    }
}
