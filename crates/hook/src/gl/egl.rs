//! EGL: swaps of windows of any system, and the ends of contexts and displays.
#![allow(
    non_snake_case,
    reason = "the names are those of the functions in front of which ours stand"
)]

use std::env;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use openuvr_media::capture::gl::Sharing;
use openuvr_proto::units::Size;

use super::glx;
use super::known::Known;
use super::readers::{self, Api, Current, Outcome, Window, shows};
use super::{hooks, in_place_of};
use crate::process::guarded;
use crate::real::{self, NextFunction};
use crate::windows::Place;
use crate::x_display;

type Display = *mut c_void;
type Surface = *mut c_void;
type Context = *mut c_void;
type Config = *mut c_void;
type Boolean = c_uint;

/// EGL 1.5, the table of names: no, and the surface that is drawn to.
const FALSE: Boolean = 0;
const DRAW: c_int = 0x3059;

/// `EGL_KHR_platform_x11`, `EGL_EXT_platform_xcb`.
const PLATFORM_X11: c_uint = 0x31D5;
const PLATFORM_XCB: c_uint = 0x31DC;

hooks! { HOOKED [14]:
    /// Shows a picture.
    SWAP_BUFFERS eglSwapBuffers(display: Display, surface: Surface) -> Boolean,
        otherwise FALSE, |real| shows(&Shown { display, surface }, || {
            // SAFETY: the arguments are the caller's.
            unsafe { real(display, surface) }
        });
    /// Shows a picture of which only parts are new (`EGL_KHR_swap_buffers_with_damage`).
    SWAP_BUFFERS_KHR eglSwapBuffersWithDamageKHR(
        display: Display, surface: Surface, parts: *const c_int, count: c_int
    ) -> Boolean,
        otherwise FALSE, |real| shows(&Shown { display, surface }, || {
            // SAFETY: the arguments are the caller's.
            unsafe { real(display, surface, parts, count) }
        });
    /// The same (`EGL_EXT_swap_buffers_with_damage`).
    SWAP_BUFFERS_EXT eglSwapBuffersWithDamageEXT(
        display: Display, surface: Surface, parts: *const c_int, count: c_int
    ) -> Boolean,
        otherwise FALSE, |real| shows(&Shown { display, surface }, || {
            // SAFETY: the arguments are the caller's.
            unsafe { real(display, surface, parts, count) }
        });
    /// Finds a function.
    GET_PROC_ADDRESS eglGetProcAddress(name: *const c_char) -> *mut c_void,
        otherwise null_mut(), |real| {
            // SAFETY: the name is the caller's.
            unsafe { in_place_of(real(name), name) }
        };
    /// Finds a display.
    GET_DISPLAY eglGetDisplay(native: *mut c_void) -> Display,
        otherwise null_mut(), |real| {
            // SAFETY: the argument is the caller's.
            let display = unsafe { real(native) };
            // What it is a display of is not said: of those that Xlib has opened the name is known.
            guarded(|| found(display, glx::display_name(native.addr())));
            display
        };
    /// Finds a display of a platform (EGL 1.5).
    GET_PLATFORM_DISPLAY eglGetPlatformDisplay(
        platform: c_uint, native: *mut c_void, attributes: *const isize
    ) -> Display,
        otherwise null_mut(), |real| {
            // SAFETY: the arguments are the caller's.
            let display = unsafe { real(platform, native, attributes) };
            guarded(|| found_on(display, platform, native));
            display
        };
    /// The same (`EGL_EXT_platform_base`).
    GET_PLATFORM_DISPLAY_EXT eglGetPlatformDisplayEXT(
        platform: c_uint, native: *mut c_void, attributes: *const c_int
    ) -> Display,
        otherwise null_mut(), |real| {
            // SAFETY: the arguments are the caller's.
            let display = unsafe { real(platform, native, attributes) };
            guarded(|| found_on(display, platform, native));
            display
        };
    /// Makes a surface of a window.
    CREATE_SURFACE eglCreateWindowSurface(
        display: Display, config: Config, window: *mut c_void, attributes: *const c_int
    ) -> Surface,
        otherwise null_mut(), |real| {
            // SAFETY: the arguments are the caller's.
            let surface = unsafe { real(display, config, window, attributes) };
            guarded(|| drawn_in(surface, window.addr()));
            surface
        };
    /// Makes a surface of a window (EGL 1.5).
    CREATE_PLATFORM_SURFACE eglCreatePlatformWindowSurface(
        display: Display, config: Config, window: *mut c_void, attributes: *const isize
    ) -> Surface,
        otherwise null_mut(), |real| {
            // SAFETY: the arguments are the caller's.
            let surface = unsafe { real(display, config, window, attributes) };
            guarded(|| drawn_behind(surface, window));
            surface
        };
    /// The same (`EGL_EXT_platform_base`).
    CREATE_PLATFORM_SURFACE_EXT eglCreatePlatformWindowSurfaceEXT(
        display: Display, config: Config, window: *mut c_void, attributes: *const c_int
    ) -> Surface,
        otherwise null_mut(), |real| {
            // SAFETY: the arguments are the caller's.
            let surface = unsafe { real(display, config, window, attributes) };
            guarded(|| drawn_behind(surface, window));
            surface
        };
    /// Ends a surface.
    DESTROY_SURFACE eglDestroySurface(display: Display, surface: Surface) -> Boolean,
        otherwise FALSE, |real| {
            guarded(|| SURFACES.unmade(&surface.addr()));
            // SAFETY: the arguments are the caller's.
            unsafe { real(display, surface) }
        };
    /// Makes a context.
    CREATE_CONTEXT eglCreateContext(
        display: Display, config: Config, shared: Context, attributes: *const c_int
    ) -> Context,
        otherwise null_mut(), |real| {
            // SAFETY: the arguments are the caller's.
            let context = unsafe { real(display, config, shared, attributes) };
            guarded(|| made(display, context));
            context
        };
    /// Ends a context, and with it what its pictures were read with.
    DESTROY_CONTEXT eglDestroyContext(display: Display, context: Context) -> Boolean,
        otherwise FALSE, |real| {
            guarded(|| destroyed(|of| of.address == context.addr()));
            // SAFETY: the arguments are the caller's.
            unsafe { real(display, context) }
        };
    /// Ends a connection, and with it all contexts on it.
    TERMINATE eglTerminate(display: Display) -> Boolean,
        otherwise FALSE, |real| {
            guarded(|| destroyed(|of| of.display == display.addr()));
            // SAFETY: the argument is the caller's.
            unsafe { real(display) }
        };
}

impl Outcome for Boolean {
    fn is_shown(&self) -> bool {
        *self != FALSE
    }
}

/// A window that shows a picture.
struct Shown {
    display: Display,
    surface: Surface,
}

impl Window for Shown {
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
        // SAFETY: that is its type.
        let query: Query = unsafe { QUERY.function() }?;
        let side = |what| {
            let mut side = 0;
            // SAFETY: the surface is the caller's, who shows a picture in it.
            let known = unsafe { query(self.display, self.surface, what, &raw mut side) };
            u32::try_from(side).ok().filter(|_| known != FALSE)
        };
        Some(Size::new(side(WIDTH)?, side(HEIGHT)?))
    }

    /// One that was not found through these functions is that of the environment, as EGL's default is.
    fn place(&self) -> Option<Place> {
        Some(Place {
            window: SURFACES.of(&self.surface.addr())?,
            display: (DISPLAYS.of(&self.display.addr())).or_else(|| env::var("DISPLAY").ok())?,
        })
    }

    fn sharing(&self) -> Sharing {
        Sharing::Egl
    }

    fn function(&self, name: &CStr) -> *const c_void {
        type Find = unsafe extern "C" fn(*const c_char) -> *mut c_void;
        // SAFETY: that is its type.
        let find: Option<Find> = unsafe { GET_PROC_ADDRESS.function() };
        // Before EGL 1.5 it knows extensions only.
        let found = real::find(name);
        match find {
            // SAFETY: a name.
            Some(find) if found.is_null() => unsafe { find(name.as_ptr()) }.cast_const(),
            _ => found.cast_const(),
        }
    }
}

/// What is current on this thread.
fn current() -> Option<Current> {
    type Ask = unsafe extern "C" fn() -> *mut c_void;
    type AskFor = unsafe extern "C" fn(c_int) -> Surface;
    static CONTEXT: NextFunction = NextFunction::new(c"eglGetCurrentContext");
    static DISPLAY: NextFunction = NextFunction::new(c"eglGetCurrentDisplay");
    static SURFACE: NextFunction = NextFunction::new(c"eglGetCurrentSurface");
    // SAFETY: those are their types. They may be called at any time.
    let (context, display, surface) = unsafe {
        (
            CONTEXT.function::<Ask>()?(),
            DISPLAY.function::<Ask>()?(),
            SURFACE.function::<AskFor>()?(DRAW),
        )
    };
    (!context.is_null()).then(|| Current {
        context: named(display, context),
        window: surface.addr() as u64,
    })
}

fn named(display: Display, context: Context) -> readers::Context {
    readers::Context {
        api: Api::Egl,
        display: display.addr(),
        address: context.addr(),
    }
}

fn made(display: Display, context: Context) {
    if let (Some(readers), false) = (readers::readers(), context.is_null()) {
        readers.made(named(display, context));
    }
}

/// These are about to be destroyed: at once, or, where one is current, when it is so no longer.
fn destroyed(which: impl Fn(&readers::Context) -> bool) {
    if let Some(readers) = readers::readers_in_use() {
        let which = |of: &readers::Context| of.api == Api::Egl && which(of);
        readers.retire(current(), which);
    }
}

/// A display was found; `name` is that of the X display, if it is on one that is known.
fn found(display: Display, name: Option<String>) {
    if let (false, Some(name)) = (display.is_null(), name) {
        DISPLAYS.made(display.addr(), name);
    }
}

/// A display of a platform was found on `native`, which is null for the default one.
fn found_on(display: Display, platform: c_uint, native: *mut c_void) {
    if display.is_null() || native.is_null() {
        return;
    }
    let name = match platform {
        // SAFETY: by what the platform's extension says of it; the function has taken it.
        PLATFORM_X11 => unsafe { x_display::of_xlib(native) },
        // SAFETY: the same.
        PLATFORM_XCB => unsafe { x_display::of_xcb(native) },
        _ => None,
    };
    found(display, name);
}

/// The names of the X displays that displays of EGL are on, by their address.
static DISPLAYS: Known<usize, String> = Known::new();

/// The windows of surfaces, by their address.
static SURFACES: Known<usize, u32> = Known::new();

/// On systems other than X11 a window is a pointer, which no X window is as large as.
fn drawn_in(surface: Surface, window: usize) {
    if let (false, Ok(window)) = (surface.is_null(), u32::try_from(window)) {
        SURFACES.made(surface.addr(), window);
    }
}

/// The platforms' functions take a pointer: on X11 to the window's name (`EGL_EXT_platform_x11`),
/// elsewhere to an object, which does not begin with a name that an X server knows.
fn drawn_behind(surface: Surface, window: *mut c_void) {
    if !surface.is_null() && !window.is_null() {
        // SAFETY: the function has made a surface of it, so that it is a pointer to something.
        let name = unsafe { window.cast::<u32>().read_unaligned() };
        drawn_in(surface, name as usize);
    }
}
