//! GLX: swaps of X11 windows, and the ends of contexts and displays.
#![allow(
    non_snake_case,
    reason = "the names are those of the functions in front of which ours stand"
)]
#![allow(
    clippy::unused_unit,
    reason = "one macro makes functions with and without a result"
)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr::null_mut;

use openuvr_media::capture::gl::Sharing;
use openuvr_proto::units::Size;

use super::known::Known;
use super::readers::{self, Api, Current, Outcome, Window, shows};
use super::{hooks, in_place_of};
use crate::process::guarded;
use crate::real::{self, NextFunction};
use crate::windows::Place;
use crate::x_display;

type Display = *mut c_void;
type Drawable = c_ulong;
type Context = *mut c_void;
type Config = *mut c_void;

hooks! { HOOKED [13]:
    /// Shows a picture.
    SWAP_BUFFERS glXSwapBuffers(display: Display, drawable: Drawable) -> (),
        otherwise (), |real| shows(&Shown { display, drawable }, || {
            // SAFETY: the arguments are the caller's.
            unsafe { real(display, drawable) }
        });
    /// Shows a picture at a time (`GLX_OML_sync_control`).
    SWAP_BUFFERS_AT glXSwapBuffersMscOML(
        display: Display, drawable: Drawable, at: i64, divisor: i64, remainder: i64
    ) -> i64,
        otherwise -1, |real| shows(&Shown { display, drawable }, || {
            // SAFETY: the arguments are the caller's.
            unsafe { real(display, drawable, at, divisor, remainder) }
        });
    /// Finds a function.
    GET_PROC_ADDRESS glXGetProcAddress(name: *const c_char) -> *mut c_void,
        otherwise null_mut(), |real| {
            // SAFETY: the name is the caller's.
            unsafe { in_place_of(real(name), name) }
        };
    /// Finds a function.
    GET_PROC_ADDRESS_ARB glXGetProcAddressARB(name: *const c_char) -> *mut c_void,
        otherwise null_mut(), |real| {
            // SAFETY: the name is the caller's.
            unsafe { in_place_of(real(name), name) }
        };
    /// Makes a context.
    CREATE_CONTEXT glXCreateContext(
        display: Display, visual: *mut c_void, shared: Context, direct: c_int
    ) -> Context,
        otherwise null_mut(), |real| {
            // SAFETY: the arguments are the caller's.
            let context = unsafe { real(display, visual, shared, direct) };
            guarded(|| made(display, context));
            context
        };
    /// Makes a context (GLX 1.3).
    CREATE_NEW_CONTEXT glXCreateNewContext(
        display: Display, config: Config, kind: c_int, shared: Context, direct: c_int
    ) -> Context,
        otherwise null_mut(), |real| {
            // SAFETY: the arguments are the caller's.
            let context = unsafe { real(display, config, kind, shared, direct) };
            guarded(|| made(display, context));
            context
        };
    /// Makes a context (`GLX_ARB_create_context`).
    CREATE_CONTEXT_ATTRIBS glXCreateContextAttribsARB(
        display: Display, config: Config, shared: Context, direct: c_int, attributes: *const c_int
    ) -> Context,
        otherwise null_mut(), |real| {
            // SAFETY: the arguments are the caller's.
            let context = unsafe { real(display, config, shared, direct, attributes) };
            guarded(|| made(display, context));
            context
        };
    /// Ends a context, and with it what its pictures were read with.
    DESTROY_CONTEXT glXDestroyContext(display: Display, context: Context) -> (),
        otherwise (), |real| {
            guarded(|| destroyed(context));
            // SAFETY: the arguments are the caller's.
            unsafe { real(display, context) }
        };
    /// Ends this process's part of a context (`GLX_EXT_import_context`).
    FREE_CONTEXT glXFreeContextEXT(display: Display, context: Context) -> (),
        otherwise (), |real| {
            guarded(|| destroyed(context));
            // SAFETY: the arguments are the caller's.
            unsafe { real(display, context) }
        };
    /// Makes a surface of a window.
    CREATE_WINDOW glXCreateWindow(
        display: Display, config: Config, window: c_ulong, attributes: *const c_int
    ) -> Drawable,
        otherwise 0, |real| {
            // SAFETY: the arguments are the caller's.
            let surface = unsafe { real(display, config, window, attributes) };
            guarded(|| {
                if let Ok(window) = u32::try_from(window) {
                    SURFACES.made((display.addr(), surface), window);
                }
            });
            surface
        };
    /// Ends a surface.
    DESTROY_WINDOW glXDestroyWindow(display: Display, surface: Drawable) -> (),
        otherwise (), |real| {
            guarded(|| SURFACES.unmade(&(display.addr(), surface)));
            // SAFETY: the arguments are the caller's.
            unsafe { real(display, surface) }
        };
    /// Opens a connection.
    OPEN_DISPLAY XOpenDisplay(name: *const c_char) -> Display,
        otherwise null_mut(), |real| {
            // SAFETY: the argument is the caller's.
            let display = unsafe { real(name) };
            guarded(|| opened(display));
            display
        };
    /// Ends a connection, and with it all contexts on it.
    CLOSE_DISPLAY XCloseDisplay(display: Display) -> c_int,
        otherwise 0, |real| {
            guarded(|| closed(display));
            // SAFETY: the argument is the caller's.
            unsafe { real(display) }
        };
}

/// `glXSwapBuffers` does not say.
impl Outcome for () {
    fn is_shown(&self) -> bool {
        true
    }
}

/// `glXSwapBuffersMscOML` counts swaps.
impl Outcome for i64 {
    fn is_shown(&self) -> bool {
        *self != -1
    }
}

/// A window that shows a picture.
struct Shown {
    display: Display,
    drawable: Drawable,
}

impl Window for Shown {
    fn current(&self) -> Option<Current> {
        let same = |now: &Current| {
            now.window == self.drawable && now.context.display == self.display.addr()
        };
        current().filter(same)
    }

    fn size(&self) -> Option<Size> {
        /// GLX 1.3, section 3.3.6.
        const WIDTH: c_int = 0x801D;
        const HEIGHT: c_int = 0x801E;
        type Query = unsafe extern "C" fn(Display, Drawable, c_int, *mut c_uint);
        static QUERY: NextFunction = NextFunction::new(c"glXQueryDrawable");
        // SAFETY: that is its type.
        let query: Query = unsafe { QUERY.function() }?;
        let side = |what| {
            let mut side = 0;
            // SAFETY: the window is the caller's, who shows a picture in it.
            unsafe { query(self.display, self.drawable, what, &raw mut side) };
            side
        };
        Some(Size::new(side(WIDTH), side(HEIGHT)))
    }

    fn place(&self) -> Option<Place> {
        // GLX 1.2 draws in windows themselves.
        let window = SURFACES.of(&(self.display.addr(), self.drawable));
        let window = window.or_else(|| u32::try_from(self.drawable).ok())?;
        Some(Place {
            // SAFETY: the display is the caller's.
            display: unsafe { x_display::of_xlib(self.display) }?,
            window,
        })
    }

    fn sharing(&self) -> Sharing {
        // Whether the game has called XInitThreads is not known; libX11 does it itself from 1.8 on.
        Sharing::Glx { threads: false }
    }

    fn function(&self, name: &CStr) -> *const c_void {
        type Find = unsafe extern "C" fn(*const c_char) -> *mut c_void;
        // SAFETY: that is its type.
        let find: Option<Find> = unsafe { GET_PROC_ADDRESS_ARB.function() };
        let found = match find {
            // SAFETY: a name.
            Some(find) if name.to_bytes().starts_with(b"gl") => unsafe { find(name.as_ptr()) },
            _ => null_mut(),
        };
        let found = if found.is_null() {
            real::find(name)
        } else {
            found
        };
        found.cast_const()
    }
}

/// What is current on this thread.
fn current() -> Option<Current> {
    type Ask<T> = unsafe extern "C" fn() -> T;
    static CONTEXT: NextFunction = NextFunction::new(c"glXGetCurrentContext");
    static DISPLAY: NextFunction = NextFunction::new(c"glXGetCurrentDisplay");
    static DRAWABLE: NextFunction = NextFunction::new(c"glXGetCurrentDrawable");
    // SAFETY: those are their types. They may be called at any time.
    let (context, display, drawable) = unsafe {
        (
            CONTEXT.function::<Ask<Context>>()?(),
            DISPLAY.function::<Ask<Display>>()?(),
            DRAWABLE.function::<Ask<Drawable>>()?(),
        )
    };
    (!context.is_null()).then(|| Current {
        context: named(display, context),
        window: drawable,
    })
}

fn named(display: Display, context: Context) -> readers::Context {
    readers::Context {
        api: Api::Glx,
        display: display.addr(),
        address: context.addr(),
    }
}

fn made(display: Display, context: Context) {
    if let (Some(readers), false) = (readers::readers(), context.is_null()) {
        readers.made(named(display, context));
    }
}

/// It is about to be destroyed: at once, or, where it is current, when it is so no longer.
fn destroyed(context: Context) {
    if let Some(readers) = readers::readers_in_use() {
        let same = |of: &readers::Context| of.api == Api::Glx && of.address == context.addr();
        readers.retire(current(), same);
    }
}

/// A connection was opened.
fn opened(display: Display) {
    if display.is_null() {
        return;
    }
    // SAFETY: it was opened just now.
    if let Some(name) = unsafe { x_display::of_xlib(display) } {
        DISPLAYS.made(display.addr(), name);
    }
}

/// The name of the X display of a connection of Xlib, if it is one that is open.
pub(super) fn display_name(display: usize) -> Option<String> {
    DISPLAYS.of(&display)
}

/// A connection is about to be closed. Which displays of EGL are on it is not known: what their
/// contexts have may go with it.
fn closed(display: Display) {
    if let Some(readers) = readers::readers_in_use() {
        let on_it = |of: &readers::Context| of.api == Api::Glx && of.display == display.addr();
        readers.retire(None, on_it);
        readers.give_up(|of| of.api == Api::Egl);
    }
    SURFACES.forget(|(on, _)| *on == display.addr());
    DISPLAYS.unmade(&display.addr());
}

/// The windows of surfaces of `glXCreateWindow`, by their connection and name.
static SURFACES: Known<(usize, Drawable), u32> = Known::new();

/// The names of the displays of connections, by their address.
static DISPLAYS: Known<usize, String> = Known::new();
