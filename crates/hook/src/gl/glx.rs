//! GLX: swaps of X11 windows, and the lifetimes of contexts and displays.
#![allow(non_snake_case, reason = "the names of the hooked functions")]
#![allow(
    clippy::unused_unit,
    reason = "one macro creates functions with and without a result"
)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr::null_mut;

use openuvr_media::capture::gl::Sharing;
use openuvr_proto::units::Size;

use super::handle_map::HandleMap;
use super::readers::{self, Api, Current, SwapResult, Window, swap};
use super::{hooks, replace_address};
use crate::process::guarded;
use crate::real::{self, NextFunction};
use crate::windows::XWindow;
use crate::x_display;

type Display = *mut c_void;
type Drawable = c_ulong;
type Context = *mut c_void;
type Config = *mut c_void;

hooks! { HOOKED [13]:
    /// Presents a frame.
    SWAP_BUFFERS glXSwapBuffers(display: Display, drawable: Drawable) -> (),
        otherwise (), |real| swap(&SwapTarget { display, drawable }, || {
            // SAFETY: the caller's arguments are forwarded unchanged.
            unsafe { real(display, drawable) }
        });
    /// Presents a frame at a given time (`GLX_OML_sync_control`).
    SWAP_BUFFERS_AT glXSwapBuffersMscOML(
        display: Display, drawable: Drawable, at: i64, divisor: i64, remainder: i64
    ) -> i64,
        otherwise -1, |real| swap(&SwapTarget { display, drawable }, || {
            // SAFETY: the caller's arguments are forwarded unchanged.
            unsafe { real(display, drawable, at, divisor, remainder) }
        });
    /// Finds a function.
    GET_PROC_ADDRESS glXGetProcAddress(name: *const c_char) -> *mut c_void,
        otherwise null_mut(), |real| {
            // SAFETY: the caller's name is forwarded unchanged.
            unsafe { replace_address(real(name), name) }
        };
    /// Finds a function.
    GET_PROC_ADDRESS_ARB glXGetProcAddressARB(name: *const c_char) -> *mut c_void,
        otherwise null_mut(), |real| {
            // SAFETY: the caller's name is forwarded unchanged.
            unsafe { replace_address(real(name), name) }
        };
    /// Creates a context.
    CREATE_CONTEXT glXCreateContext(
        display: Display, visual: *mut c_void, shared: Context, direct: c_int
    ) -> Context,
        otherwise null_mut(), |real| {
            // SAFETY: the caller's arguments are forwarded unchanged.
            let context = unsafe { real(display, visual, shared, direct) };
            guarded(|| context_created(display, context));
            context
        };
    /// Creates a context (GLX 1.3).
    CREATE_NEW_CONTEXT glXCreateNewContext(
        display: Display, config: Config, kind: c_int, shared: Context, direct: c_int
    ) -> Context,
        otherwise null_mut(), |real| {
            // SAFETY: the caller's arguments are forwarded unchanged.
            let context = unsafe { real(display, config, kind, shared, direct) };
            guarded(|| context_created(display, context));
            context
        };
    /// Creates a context (`GLX_ARB_create_context`).
    CREATE_CONTEXT_ATTRIBS glXCreateContextAttribsARB(
        display: Display, config: Config, shared: Context, direct: c_int, attributes: *const c_int
    ) -> Context,
        otherwise null_mut(), |real| {
            // SAFETY: the caller's arguments are forwarded unchanged.
            let context = unsafe { real(display, config, shared, direct, attributes) };
            guarded(|| context_created(display, context));
            context
        };
    /// Destroys a context, and its read-back resources.
    DESTROY_CONTEXT glXDestroyContext(display: Display, context: Context) -> (),
        otherwise (), |real| {
            guarded(|| context_destroyed(context));
            // SAFETY: the caller's arguments are forwarded unchanged.
            unsafe { real(display, context) }
        };
    /// Frees this process's part of a context (`GLX_EXT_import_context`).
    FREE_CONTEXT glXFreeContextEXT(display: Display, context: Context) -> (),
        otherwise (), |real| {
            guarded(|| context_destroyed(context));
            // SAFETY: the caller's arguments are forwarded unchanged.
            unsafe { real(display, context) }
        };
    /// Creates a surface of a window.
    CREATE_WINDOW glXCreateWindow(
        display: Display, config: Config, window: c_ulong, attributes: *const c_int
    ) -> Drawable,
        otherwise 0, |real| {
            // SAFETY: the caller's arguments are forwarded unchanged.
            let surface = unsafe { real(display, config, window, attributes) };
            guarded(|| {
                if let Ok(window) = u32::try_from(window) {
                    SURFACES.insert((display.addr(), surface), window);
                }
            });
            surface
        };
    /// Destroys a surface.
    DESTROY_WINDOW glXDestroyWindow(display: Display, surface: Drawable) -> (),
        otherwise (), |real| {
            guarded(|| SURFACES.remove(&(display.addr(), surface)));
            // SAFETY: the caller's arguments are forwarded unchanged.
            unsafe { real(display, surface) }
        };
    /// Opens a connection.
    OPEN_DISPLAY XOpenDisplay(name: *const c_char) -> Display,
        otherwise null_mut(), |real| {
            // SAFETY: the caller's argument is forwarded unchanged.
            let display = unsafe { real(name) };
            guarded(|| display_opened(display));
            display
        };
    /// Closes a connection, and destroys all its contexts.
    CLOSE_DISPLAY XCloseDisplay(display: Display) -> c_int,
        otherwise 0, |real| {
            guarded(|| display_closing(display));
            // SAFETY: the caller's argument is forwarded unchanged.
            unsafe { real(display) }
        };
}

/// `glXSwapBuffers` has no result.
impl SwapResult for () {
    fn succeeded(&self) -> bool {
        true
    }
}

/// `glXSwapBuffersMscOML` returns a swap count, or -1.
impl SwapResult for i64 {
    fn succeeded(&self) -> bool {
        *self != -1
    }
}

/// The window of a swap.
struct SwapTarget {
    display: Display,
    drawable: Drawable,
}

impl Window for SwapTarget {
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
        // SAFETY: `Query` is the type of `glXQueryDrawable`.
        let query: Query = unsafe { QUERY.function() }?;
        let side = |what| {
            let mut side = 0;
            // SAFETY: display and drawable are the arguments of the application's swap call, so they are valid until
            // that call returns.
            unsafe { query(self.display, self.drawable, what, &raw mut side) };
            side
        };
        Some(Size::new(side(WIDTH), side(HEIGHT)))
    }

    fn x_window(&self) -> Option<XWindow> {
        // GLX 1.2 draws to windows directly.
        let window = SURFACES.get(&(self.display.addr(), self.drawable));
        let window = window.or_else(|| u32::try_from(self.drawable).ok())?;
        Some(XWindow {
            // SAFETY: the display is the argument of the application's swap call, so it is open until that call
            // returns.
            display: unsafe { x_display::of_xlib(self.display) }?,
            id: window,
        })
    }

    fn sharing(&self) -> Sharing {
        // Some games do not call XInitThreads. From version 1.8 on, libX11 itself calls it.
        Sharing::Glx { threads: false }
    }

    fn function(&self, name: &CStr) -> *const c_void {
        type Find = unsafe extern "C" fn(*const c_char) -> *mut c_void;
        // SAFETY: `Find` is the type of `glXGetProcAddressARB`.
        let find: Option<Find> = unsafe { GET_PROC_ADDRESS_ARB.function() };
        let found = match find {
            // SAFETY: `name` is a zero-terminated string.
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

/// The current context of this thread and its drawable.
fn current() -> Option<Current> {
    type Get<T> = unsafe extern "C" fn() -> T;
    static CONTEXT: NextFunction = NextFunction::new(c"glXGetCurrentContext");
    static DISPLAY: NextFunction = NextFunction::new(c"glXGetCurrentDisplay");
    static DRAWABLE: NextFunction = NextFunction::new(c"glXGetCurrentDrawable");
    // SAFETY: `Get` describes the types of these functions in GLX 1.3, which allows calls at any time.
    let (context, display, drawable) = unsafe {
        (
            CONTEXT.function::<Get<Context>>()?(),
            DISPLAY.function::<Get<Display>>()?(),
            DRAWABLE.function::<Get<Drawable>>()?(),
        )
    };
    (!context.is_null()).then(|| Current {
        context: context_key(display, context),
        window: drawable,
    })
}

fn context_key(display: Display, context: Context) -> readers::Context {
    readers::Context {
        api: Api::Glx,
        display: display.addr(),
        address: context.addr(),
    }
}

fn context_created(display: Display, context: Context) {
    if let (Some(readers), false) = (readers::readers(), context.is_null()) {
        readers.insert(context_key(display, context));
    }
}

/// Handles a context that is about to be destroyed. The driver destroys a current context only when the context is no
/// longer current.
fn context_destroyed(context: Context) {
    if let Some(readers) = readers::readers_in_use() {
        let same = |of: &readers::Context| of.api == Api::Glx && of.address == context.addr();
        readers.retire(current(), same);
    }
}

/// Handles a connection that was opened.
fn display_opened(display: Display) {
    if display.is_null() {
        return;
    }
    // SAFETY: `XOpenDisplay` has just returned this display, and the application does not know it yet.
    if let Some(name) = unsafe { x_display::of_xlib(display) } {
        DISPLAYS.insert(display.addr(), name);
    }
}

/// The display name of an open Xlib connection.
pub(super) fn display_name(display: usize) -> Option<String> {
    DISPLAYS.get(&display)
}

/// Handles a connection that is about to be closed. EGL displays may use this connection, so the resources of all EGL
/// contexts are also released.
fn display_closing(display: Display) {
    if let Some(readers) = readers::readers_in_use() {
        let on_it = |of: &readers::Context| of.api == Api::Glx && of.display == display.addr();
        readers.retire(None, on_it);
        readers.release(|of| of.api == Api::Egl);
    }
    SURFACES.remove_where(|(on, _)| *on == display.addr());
    DISPLAYS.remove(&display.addr());
}

/// X windows, by the connection and the identifier of the surface that `glXCreateWindow` has created.
static SURFACES: HandleMap<(usize, Drawable), u32> = HandleMap::new();

/// Display names, by the address of the connection.
static DISPLAYS: HandleMap<usize, String> = HandleMap::new();
