//! EGL: swaps of windows on any platform, and the lifetimes of contexts and displays.
#![allow(non_snake_case, reason = "the names of the hooked functions")]

use std::env;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use openuvr_media::capture::gl::Sharing;
use openuvr_proto::units::Size;

use super::glx;
use super::handle_map::HandleMap;
use super::readers::{self, Api, Current, SwapResult, Window, swap};
use super::{hooks, replace_address};
use crate::process::guarded;
use crate::real::{self, NextFunction};
use crate::stream::started_stream;
use crate::windows::{Key, XWindow};
use crate::x_display;

type Display = *mut c_void;
type Surface = *mut c_void;
type Context = *mut c_void;
type Config = *mut c_void;
type Boolean = c_uint;

/// Constants of EGL 1.5: false, and the surface for drawing.
const FALSE: Boolean = 0;
const DRAW: c_int = 0x3059;

/// `EGL_KHR_platform_x11`, `EGL_EXT_platform_xcb`.
const PLATFORM_X11: c_uint = 0x31D5;
const PLATFORM_XCB: c_uint = 0x31DC;

hooks! { HOOKED [14]:
    /// Presents a frame.
    SWAP_BUFFERS eglSwapBuffers(display: Display, surface: Surface) -> Boolean,
        otherwise FALSE, |real| swap(&SwapTarget { display, surface }, || {
            // SAFETY: the caller's arguments are forwarded unchanged.
            unsafe { real(display, surface) }
        });
    /// Presents a frame with damage (`EGL_KHR_swap_buffers_with_damage`).
    SWAP_BUFFERS_KHR eglSwapBuffersWithDamageKHR(
        display: Display, surface: Surface, parts: *const c_int, count: c_int
    ) -> Boolean,
        otherwise FALSE, |real| swap(&SwapTarget { display, surface }, || {
            // SAFETY: the caller's arguments are forwarded unchanged.
            unsafe { real(display, surface, parts, count) }
        });
    /// Presents a frame with damage (`EGL_EXT_swap_buffers_with_damage`).
    SWAP_BUFFERS_EXT eglSwapBuffersWithDamageEXT(
        display: Display, surface: Surface, parts: *const c_int, count: c_int
    ) -> Boolean,
        otherwise FALSE, |real| swap(&SwapTarget { display, surface }, || {
            // SAFETY: the caller's arguments are forwarded unchanged.
            unsafe { real(display, surface, parts, count) }
        });
    /// Finds a function.
    GET_PROC_ADDRESS eglGetProcAddress(name: *const c_char) -> *mut c_void,
        otherwise null_mut(), |real| {
            // SAFETY: the caller's name is forwarded unchanged.
            unsafe { replace_address(real(name), name) }
        };
    /// Finds a display.
    GET_DISPLAY eglGetDisplay(native: *mut c_void) -> Display,
        otherwise null_mut(), |real| {
            // SAFETY: the caller's argument is forwarded unchanged.
            let display = unsafe { real(native) };
            // `eglGetDisplay` does not specify the platform of `native`. If `native` is a known Xlib display, the
            // display's name is recorded.
            guarded(|| register_display(display, glx::display_name(native.addr())));
            display
        };
    /// Finds a display of a platform (EGL 1.5).
    GET_PLATFORM_DISPLAY eglGetPlatformDisplay(
        platform: c_uint, native: *mut c_void, attributes: *const isize
    ) -> Display,
        otherwise null_mut(), |real| {
            // SAFETY: the caller's arguments are forwarded unchanged.
            let display = unsafe { real(platform, native, attributes) };
            guarded(|| register_platform_display(display, platform, native));
            display
        };
    /// Finds a display of a platform (`EGL_EXT_platform_base`).
    GET_PLATFORM_DISPLAY_EXT eglGetPlatformDisplayEXT(
        platform: c_uint, native: *mut c_void, attributes: *const c_int
    ) -> Display,
        otherwise null_mut(), |real| {
            // SAFETY: the caller's arguments are forwarded unchanged.
            let display = unsafe { real(platform, native, attributes) };
            guarded(|| register_platform_display(display, platform, native));
            display
        };
    /// Creates a surface of a window.
    CREATE_SURFACE eglCreateWindowSurface(
        display: Display, config: Config, window: *mut c_void, attributes: *const c_int
    ) -> Surface,
        otherwise null_mut(), |real| {
            // SAFETY: the caller's arguments are forwarded unchanged.
            let surface = unsafe { real(display, config, window, attributes) };
            guarded(|| register_surface(display, surface, window.addr()));
            surface
        };
    /// Creates a surface of a window (EGL 1.5).
    CREATE_PLATFORM_SURFACE eglCreatePlatformWindowSurface(
        display: Display, config: Config, window: *mut c_void, attributes: *const isize
    ) -> Surface,
        otherwise null_mut(), |real| {
            // SAFETY: the caller's arguments are forwarded unchanged.
            let surface = unsafe { real(display, config, window, attributes) };
            guarded(|| register_platform_surface(display, surface, window));
            surface
        };
    /// Creates a surface of a window (`EGL_EXT_platform_base`).
    CREATE_PLATFORM_SURFACE_EXT eglCreatePlatformWindowSurfaceEXT(
        display: Display, config: Config, window: *mut c_void, attributes: *const c_int
    ) -> Surface,
        otherwise null_mut(), |real| {
            // SAFETY: the caller's arguments are forwarded unchanged.
            let surface = unsafe { real(display, config, window, attributes) };
            guarded(|| register_platform_surface(display, surface, window));
            surface
        };
    /// Destroys a surface.
    DESTROY_SURFACE eglDestroySurface(display: Display, surface: Surface) -> Boolean,
        otherwise FALSE, |real| {
            guarded(|| SURFACES.remove(&surface.addr()));
            // SAFETY: the caller's arguments are forwarded unchanged.
            unsafe { real(display, surface) }
        };
    /// Creates a context.
    CREATE_CONTEXT eglCreateContext(
        display: Display, config: Config, shared: Context, attributes: *const c_int
    ) -> Context,
        otherwise null_mut(), |real| {
            // SAFETY: the caller's arguments are forwarded unchanged.
            let context = unsafe { real(display, config, shared, attributes) };
            guarded(|| context_created(display, context));
            context
        };
    /// Destroys a context, and its read-back resources.
    DESTROY_CONTEXT eglDestroyContext(display: Display, context: Context) -> Boolean,
        otherwise FALSE, |real| {
            guarded(|| context_destroyed(|of| of.address == context.addr()));
            // SAFETY: the caller's arguments are forwarded unchanged.
            unsafe { real(display, context) }
        };
    /// Terminates a display, and all its contexts.
    TERMINATE eglTerminate(display: Display) -> Boolean,
        otherwise FALSE, |real| {
            guarded(|| context_destroyed(|of| of.display == display.addr()));
            // SAFETY: the caller's argument is forwarded unchanged.
            unsafe { real(display) }
        };
}

impl SwapResult for Boolean {
    fn succeeded(&self) -> bool {
        *self != FALSE
    }
}

/// The window of a swap.
struct SwapTarget {
    display: Display,
    surface: Surface,
}

impl Window for SwapTarget {
    fn current(&self) -> Option<Current> {
        let same = |now: &Current| {
            now.window == self.surface.addr() as u64 && now.context.display == self.display.addr()
        };
        current().filter(same)
    }

    fn size(&self) -> Option<Size> {
        /// EGL 1.5, section 3.5.6.
        const HEIGHT: c_int = 0x3056;
        const WIDTH: c_int = 0x3057;
        type Query = unsafe extern "C" fn(Display, Surface, c_int, *mut c_int) -> Boolean;
        static QUERY: NextFunction = NextFunction::new(c"eglQuerySurface");
        // SAFETY: `Query` is the type of `eglQuerySurface`.
        let query: Query = unsafe { QUERY.function() }?;
        let side = |what| {
            let mut side = 0;
            // SAFETY: display and surface are the arguments of the application's swap call, so they are valid until
            // that call returns.
            let known = unsafe { query(self.display, self.surface, what, &raw mut side) };
            u32::try_from(side).ok().filter(|_| known != FALSE)
        };
        Some(Size::new(side(WIDTH)?, side(HEIGHT)?))
    }

    /// For an unknown display, the X display that the environment names is assumed, because it is EGL's default.
    fn x_window(&self) -> Option<XWindow> {
        Some(XWindow {
            id: SURFACES.get(&self.surface.addr())?,
            display: (DISPLAYS.get(&self.display.addr())).or_else(|| env::var("DISPLAY").ok())?,
        })
    }

    fn sharing(&self) -> Sharing {
        Sharing::Egl
    }

    fn function(&self, name: &CStr) -> *const c_void {
        type Find = unsafe extern "C" fn(*const c_char) -> *mut c_void;
        // SAFETY: `Find` is the type of `eglGetProcAddress`.
        let find: Option<Find> = unsafe { GET_PROC_ADDRESS.function() };
        // Before EGL 1.5, `eglGetProcAddress` returns only extension functions.
        let found = real::find(name);
        match find {
            // SAFETY: `name` is a zero-terminated string.
            Some(find) if found.is_null() => unsafe { find(name.as_ptr()) }.cast_const(),
            _ => found.cast_const(),
        }
    }
}

/// The current context of this thread and its surface.
fn current() -> Option<Current> {
    type Get = unsafe extern "C" fn() -> *mut c_void;
    type GetFor = unsafe extern "C" fn(c_int) -> Surface;
    static CONTEXT: NextFunction = NextFunction::new(c"eglGetCurrentContext");
    static DISPLAY: NextFunction = NextFunction::new(c"eglGetCurrentDisplay");
    static SURFACE: NextFunction = NextFunction::new(c"eglGetCurrentSurface");
    // SAFETY: `Get` and `GetFor` are the types of these functions in EGL 1.5, which allows calls at any time.
    let (context, display, surface) = unsafe {
        (
            CONTEXT.function::<Get>()?(),
            DISPLAY.function::<Get>()?(),
            SURFACE.function::<GetFor>()?(DRAW),
        )
    };
    (!context.is_null()).then(|| Current {
        context: context_key(display, context),
        window: surface.addr() as u64,
    })
}

fn context_key(display: Display, context: Context) -> readers::Context {
    readers::Context {
        api: Api::Egl,
        display: display.addr(),
        address: context.addr(),
    }
}

fn context_created(display: Display, context: Context) {
    if let (Some(readers), false) = (readers::readers(), context.is_null()) {
        readers.insert(context_key(display, context));
    }
}

/// Handles contexts that are about to be destroyed. The driver destroys a current context only when the context is no
/// longer current.
fn context_destroyed(which: impl Fn(&readers::Context) -> bool) {
    if let Some(readers) = readers::readers_in_use() {
        let which = |of: &readers::Context| of.api == Api::Egl && which(of);
        readers.retire(current(), which);
    }
}

/// Records an EGL display. `name` is the name of the X display behind it, if known.
fn register_display(display: Display, name: Option<String>) {
    if let (false, Some(name)) = (display.is_null(), name) {
        DISPLAYS.insert(display.addr(), name);
    }
}

/// Records a display of a platform; `native` is null for the default one.
fn register_platform_display(display: Display, platform: c_uint, native: *mut c_void) {
    if display.is_null() {
        return;
    }
    if !matches!(platform, PLATFORM_X11 | PLATFORM_XCB) {
        WITHOUT_X.insert(display.addr(), ());
        return;
    }
    WITHOUT_X.remove(&display.addr());
    if native.is_null() {
        return;
    }
    let name = match platform {
        // SAFETY: the platform's extension requires `native` to be an open Xlib display, and the real function accepted
        // `native`.
        PLATFORM_X11 => unsafe { x_display::of_xlib(native) },
        // SAFETY: as above, with an open XCB connection.
        _ => unsafe { x_display::of_xcb(native) },
    };
    register_display(display, name);
}

/// X display names, by the address of the EGL display.
static DISPLAYS: HandleMap<usize, String> = HandleMap::new();

/// EGL displays of platforms without X windows, such as Wayland.
static WITHOUT_X: HandleMap<usize, ()> = HandleMap::new();

/// X windows, by the address of the EGL surface.
static SURFACES: HandleMap<usize, u32> = HandleMap::new();

/// Records the X window of a surface. On unknown platforms, a window may be a pointer, which does not fit into an X
/// identifier.
fn register_surface(display: Display, surface: Surface, window: usize) {
    if surface.is_null() || WITHOUT_X.get(&display.addr()).is_some() {
        return;
    }
    if let Ok(window) = u32::try_from(window) {
        SURFACES.insert(surface.addr(), window);
    }
    // The driver may use the address of a destroyed surface again, for another window.
    if let Some(stream) = started_stream() {
        stream.remove(Key(display.addr(), surface.addr() as u64));
    }
}

/// The platform functions take a pointer. On X11, it points to the window's identifier (`EGL_EXT_platform_x11`). On
/// other platforms, it points to an object whose first bytes may look like an identifier: a `wl_egl_window` starts with
/// its version.
fn register_platform_surface(display: Display, surface: Surface, window: *mut c_void) {
    if !surface.is_null() && !window.is_null() && WITHOUT_X.get(&display.addr()).is_none() {
        // SAFETY: the real function has just created a surface from `window`, so `window` points to an X window
        // identifier, or to a larger object of another platform.
        let name = unsafe { window.cast::<u32>().read_unaligned() };
        register_surface(display, surface, name as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::without_provenance_mut as handle;

    use super::*;

    /// `EGL_KHR_platform_wayland`.
    const PLATFORM_WAYLAND: c_uint = 0x31D8;

    #[test]
    fn a_window_of_wayland_is_no_x_window() {
        let (wayland, x11) = (handle(0x1000), handle(0x2000));
        register_platform_display(wayland, PLATFORM_WAYLAND, null_mut());
        register_platform_display(x11, PLATFORM_X11, null_mut());
        // The first field of a `wl_egl_window`, and the identifier of an X window.
        let mut start = 3_u32;
        let window: *mut c_void = (&raw mut start).cast();
        register_platform_surface(wayland, handle(0x3000), window);
        register_platform_surface(x11, handle(0x4000), window);
        assert_eq!(SURFACES.get(&0x3000), None);
        assert_eq!(SURFACES.get(&0x4000), Some(3));
        // The driver may use the address of a terminated display again.
        register_platform_display(wayland, PLATFORM_XCB, null_mut());
        register_platform_surface(wayland, handle(0x5000), window);
        assert_eq!(SURFACES.get(&0x5000), Some(3));
    }
}
