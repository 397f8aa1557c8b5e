//! A second context that shares the buffers and fences of the application's context. It has no window, and is created
//! through GLX or EGL with the functions that the caller's loader finds.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use super::super::{Loader, Sharing};
use super::capabilities::{Gl, text};
use super::current::Current;
use super::functions::functions;

type Ptr = *mut c_void;

functions! {
    /// GLX 1.4 and `GLX_ARB_create_context`.
    Glx {
        context: c"glXGetCurrentContext"() -> Ptr;
        display: c"glXGetCurrentDisplay"() -> Ptr;
        drawable: c"glXGetCurrentDrawable"() -> c_ulong;
        read_drawable: c"glXGetCurrentReadDrawable"() -> c_ulong;
        query: c"glXQueryContext"(Ptr, Ptr, c_int, *mut c_int) -> c_int;
        direct: c"glXIsDirect"(Ptr, Ptr) -> c_int;
        extensions: c"glXQueryExtensionsString"(Ptr, c_int) -> *const c_char;
        choose: c"glXChooseFBConfig"(Ptr, c_int, *const c_int, *mut c_int) -> *mut Ptr;
        create: c"glXCreateContextAttribsARB"(Ptr, Ptr, Ptr, c_int, *const c_int) -> Ptr;
        make_current: c"glXMakeContextCurrent"(Ptr, c_ulong, c_ulong, Ptr) -> c_int;
        destroy: c"glXDestroyContext"(Ptr, Ptr);
    }
}

functions! {
    /// EGL 1.4.
    Egl {
        context: c"eglGetCurrentContext"() -> Ptr;
        display: c"eglGetCurrentDisplay"() -> Ptr;
        surface: c"eglGetCurrentSurface"(c_int) -> Ptr;
        query: c"eglQueryContext"(Ptr, Ptr, c_int, *mut c_int) -> c_uint;
        extensions: c"eglQueryString"(Ptr, c_int) -> *const c_char;
        api: c"eglQueryAPI"() -> c_uint;
        bind_api: c"eglBindAPI"(c_uint) -> c_uint;
        choose: c"eglChooseConfig"(Ptr, *const c_int, *mut Ptr, c_int, *mut c_int) -> c_uint;
        create: c"eglCreateContext"(Ptr, Ptr, Ptr, *const c_int) -> Ptr;
        make_current: c"eglMakeCurrent"(Ptr, Ptr, Ptr, Ptr) -> c_uint;
        destroy: c"eglDestroyContext"(Ptr, Ptr) -> c_uint;
    }
}

/// Attribute names; versions and profiles have the same values in GLX and EGL.
const GLX_FBCONFIG_ID: c_int = 0x8013;
const GLX_SCREEN: c_int = 0x800C;
const GLX_CONTEXT_MAJOR: c_int = 0x2091;
const GLX_CONTEXT_MINOR: c_int = 0x2092;
const GLX_CONTEXT_PROFILE: c_int = 0x9126;
const EGL_CONFIG_ID: c_int = 0x3028;
const EGL_EXTENSIONS: c_int = 0x3055;
const EGL_CONTEXT_CLIENT_TYPE: c_int = 0x3097;
const EGL_CONTEXT_MAJOR: c_int = 0x3098;
const EGL_CONTEXT_MINOR: c_int = 0x30FB;
const EGL_CONTEXT_PROFILE: c_int = 0x30FD;
const EGL_DRAW: c_int = 0x3059;
const EGL_READ: c_int = 0x305A;
const EGL_NONE: c_int = 0x3038;
const CORE: c_int = 1;
const COMPATIBLE: c_int = 2;
const EMBEDDED: c_int = 4;
/// `GL_CONTEXT_PROFILE_MASK`, available from GL 3.2 on.
const CONTEXT_PROFILE: c_uint = 0x9126;

/// The functions to create a shared context.
#[derive(Clone)]
pub(super) enum Maker {
    Glx(Glx, Xlib),
    Egl(Egl),
}

impl Maker {
    /// `None` if sharing is impossible because functions are missing or the display is restricted
    /// to one thread.
    ///
    /// # Safety
    /// `loader` must find the driver's functions.
    pub(super) unsafe fn new(loader: Loader<'_>, sharing: Sharing) -> Option<Maker> {
        // SAFETY: the caller upholds this function's contract.
        unsafe {
            match sharing {
                Sharing::Glx { threads } => {
                    let xlib = Xlib::find()?;
                    if !threads && !xlib.threads {
                        return None;
                    }
                    Some(Maker::Glx(Glx::load(loader)?, xlib))
                }
                Sharing::Egl => Some(Maker::Egl(Egl::load(loader)?)),
                Sharing::None => None,
            }
        }
    }

    /// The current context of this thread.
    pub(super) fn current(&self) -> Current {
        match self {
            Maker::Glx(glx, _) => glx.current(),
            Maker::Egl(egl) => egl.current(),
        }
    }

    /// Makes `other` current. Returns whether that succeeded.
    ///
    /// # Safety
    /// `other` must be valid and not current on another thread.
    pub(super) unsafe fn make_current(&self, other: &Current) -> bool {
        match self {
            Maker::Glx(glx, _) => glx.restore(other),
            Maker::Egl(egl) => egl.restore(other),
        }
    }

    /// Creates a context that shares buffers and fences with the current context.
    ///
    /// # Safety
    /// The context of `gl` must be current.
    pub(super) unsafe fn share(self, gl: &Gl) -> Option<Shared> {
        // SAFETY: the caller upholds this function's contract.
        unsafe {
            match self {
                Maker::Glx(glx, xlib) => share_glx(glx, &xlib, gl),
                Maker::Egl(egl) => share_egl(egl, gl),
            }
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a drawable is as wide as a pointer"
)]
impl Glx {
    fn current(&self) -> Current {
        // SAFETY: these functions may be called at any time.
        unsafe {
            Current {
                display: (self.display)(),
                draw: (self.drawable)() as usize as Ptr,
                read: (self.read_drawable)() as usize as Ptr,
                context: (self.context)(),
                api: 0,
            }
        }
    }

    /// Makes `to` current. `to` contains a display even without a context, because releasing a context needs a display.
    fn restore(&self, to: &Current) -> bool {
        let of = |drawable: Ptr| drawable.addr() as c_ulong;
        // SAFETY: `to` was current on this thread earlier, or the caller passes a display and context that are still
        // valid.
        unsafe { (self.make_current)(to.display, of(to.draw), of(to.read), to.context) != 0 }
    }
}

impl Egl {
    fn current(&self) -> Current {
        // SAFETY: these functions may be called at any time.
        unsafe {
            Current {
                display: (self.display)(),
                draw: (self.surface)(EGL_DRAW),
                read: (self.surface)(EGL_READ),
                context: (self.context)(),
                api: (self.api)(),
            }
        }
    }

    fn restore(&self, to: &Current) -> bool {
        // SAFETY: `to` was current on this thread earlier, or the caller passes a display and context that are still
        // valid.
        unsafe {
            let done = (self.make_current)(to.display, to.draw, to.read, to.context) != 0;
            if to.api != 0 {
                (self.bind_api)(to.api);
            }
            done
        }
    }
}

/// The shared context. Any thread may hold it, but only one thread at a time.
#[derive(Clone)]
pub(super) struct Shared {
    maker: ContextApi,
    display: Ptr,
    context: Ptr,
}

#[derive(Clone)]
enum ContextApi {
    Glx(Glx),
    /// Includes the client API, which each thread selects separately.
    Egl(Egl, c_uint),
}

// SAFETY: GLX and EGL allow any thread to use a context that no other thread holds. For GLX, `Maker::new` has checked
// that several threads may use the display.
unsafe impl Send for Shared {}

impl Shared {
    /// Makes the context current on this thread, or releases it. Returns whether that succeeded.
    pub(super) fn make_current(&self, yes: bool) -> bool {
        let context = if yes { self.context } else { null_mut() };
        // SAFETY: display and context are valid until `destroy`, which their owner calls after the
        // thread that holds the context has ended.
        unsafe {
            match &self.maker {
                ContextApi::Glx(glx) => (glx.make_current)(self.display, 0, 0, context) != 0,
                ContextApi::Egl(egl, api) => {
                    (egl.bind_api)(*api);
                    (egl.make_current)(self.display, null_mut(), null_mut(), context) != 0
                }
            }
        }
    }

    /// The current context of this thread.
    pub(super) fn current(&self) -> Current {
        match &self.maker {
            ContextApi::Glx(glx) => glx.current(),
            ContextApi::Egl(egl, _) => egl.current(),
        }
    }

    /// Restores the previous context.
    pub(super) fn restore(&self, before: &Current) {
        if before.context.is_null() {
            self.make_current(false);
            if let ContextApi::Egl(egl, _) = &self.maker {
                // SAFETY: `before.api` was bound when the current context was queried.
                unsafe { (egl.bind_api)(before.api) };
            }
            return;
        }
        match &self.maker {
            ContextApi::Glx(glx) => glx.restore(before),
            ContextApi::Egl(egl, _) => egl.restore(before),
        };
    }

    /// Destroys the context. No thread may hold it.
    pub(super) fn destroy(self) {
        // SAFETY: display and context are still valid: the contracts of `ReadBack::new` and `PrivateContext::new`
        // forbid closing the display before this call.
        unsafe {
            match &self.maker {
                ContextApi::Glx(glx) => (glx.destroy)(self.display, self.context),
                ContextApi::Egl(egl, _) => {
                    (egl.destroy)(self.display, self.context);
                }
            }
        }
    }
}

/// The profile of the current context, which the shared context must have, too.
fn profile(gl: &Gl) -> c_int {
    if gl.version.embedded {
        EMBEDDED
    } else if gl.version.is(3, 2) && gl.integer(CONTEXT_PROFILE) & CORE != 0 {
        CORE
    } else {
        COMPATIBLE
    }
}

/// # Safety
/// The context of `gl` must be current, and must have been created through GLX.
unsafe fn share_glx(glx: Glx, xlib: &Xlib, gl: &Gl) -> Option<Shared> {
    // A context without a window needs version 3.0 or later (GLX_ARB_create_context).
    if !gl.version.is(3, 0) {
        return None;
    }
    let number = |n: u32| c_int::try_from(n).unwrap_or(0);
    // SAFETY: display and context are the current ones. The lists end in 0. Results are read only if the call
    // succeeded.
    unsafe {
        let (display, own) = ((glx.display)(), (glx.context)());
        if display.is_null() || own.is_null() || (glx.direct)(display, own) == 0 {
            return None;
        }
        let query = |name| {
            let mut value = 0;
            ((glx.query)(display, own, name, &raw mut value) == 0).then_some(value)
        };
        let screen = query(GLX_SCREEN)?;
        let extensions = text((glx.extensions)(display, screen))?;
        if !extensions.contains("GLX_ARB_create_context_profile") {
            return None;
        }
        let wanted = [GLX_FBCONFIG_ID, query(GLX_FBCONFIG_ID)?, 0];
        let mut count = 0;
        let configs = (glx.choose)(display, screen, wanted.as_ptr(), &raw mut count);
        if configs.is_null() {
            return None;
        }
        let config = (count > 0).then(|| *configs);
        (xlib.free)(configs.cast());
        let attributes = [
            GLX_CONTEXT_MAJOR,
            number(gl.version.major),
            GLX_CONTEXT_MINOR,
            number(gl.version.minor),
            GLX_CONTEXT_PROFILE,
            profile(gl),
            0,
        ];
        let context = xlib.without_errors(display, || {
            let context = (glx.create)(display, config?, own, 1, attributes.as_ptr());
            (!context.is_null()).then_some(context)
        })?;
        Some(Shared {
            maker: ContextApi::Glx(glx),
            display,
            context,
        })
    }
}

/// # Safety
/// The context of `gl` must be current, and must have been created through EGL.
unsafe fn share_egl(egl: Egl, gl: &Gl) -> Option<Shared> {
    let number = |n: u32| c_int::try_from(n).unwrap_or(0);
    // SAFETY: display and context are the current ones. The lists end in EGL_NONE. Results are read only if the call
    // succeeded.
    unsafe {
        let (display, own) = ((egl.display)(), (egl.context)());
        if display.is_null() || own.is_null() {
            return None;
        }
        let extensions = text((egl.extensions)(display, EGL_EXTENSIONS))?;
        if !extensions.contains("EGL_KHR_surfaceless_context") {
            return None;
        }
        let query = |name| {
            let mut value = 0;
            ((egl.query)(display, own, name, &raw mut value) != 0).then_some(value)
        };
        let api = query(EGL_CONTEXT_CLIENT_TYPE)?.cast_unsigned();
        let mut config = null_mut();
        match query(EGL_CONFIG_ID)? {
            // The context was created without a configuration.
            0 => {}
            id => {
                let (wanted, mut count) = ([EGL_CONFIG_ID, id, EGL_NONE], 0);
                (egl.choose)(display, wanted.as_ptr(), &raw mut config, 1, &raw mut count);
                if count < 1 {
                    return None;
                }
            }
        }
        let mut attributes = vec![EGL_CONTEXT_MAJOR, number(gl.version.major)];
        if !gl.version.embedded {
            attributes.extend([EGL_CONTEXT_MINOR, number(gl.version.minor)]);
            if gl.version.is(3, 2) {
                attributes.extend([EGL_CONTEXT_PROFILE, profile(gl)]);
            }
        }
        attributes.push(EGL_NONE);
        let before = (egl.api)();
        (egl.bind_api)(api);
        let context = (egl.create)(display, config, own, attributes.as_ptr());
        (egl.bind_api)(before);
        (!context.is_null()).then_some(Shared {
            maker: ContextApi::Egl(egl, api),
            display,
            context,
        })
    }
}

/// Functions of the libX11 that the application has loaded.
#[derive(Clone)]
pub(super) struct Xlib {
    free: unsafe extern "C" fn(Ptr) -> c_int,
    sync: unsafe extern "C" fn(Ptr, c_int) -> c_int,
    handler: unsafe extern "C" fn(Option<Handler>) -> Option<Handler>,
    /// Whether any thread may use a display without `XInitThreads`. True from libX11 1.8, the first
    /// version with `XFreeThreads`.
    threads: bool,
    _library: Arc<libloading::os::unix::Library>,
}

type Handler = unsafe extern "C" fn(Ptr, Ptr) -> c_int;

impl Xlib {
    /// Finds the functions. `None` if the application has not loaded libX11.
    fn find() -> Option<Xlib> {
        use libloading::os::unix::Library;
        const NOLOAD: c_int = libc::RTLD_NOW | libc::RTLD_NOLOAD;
        // SAFETY: with `NOLOAD`, no library is loaded, so no initialiser runs. The fields have the types of libX11's
        // functions.
        unsafe {
            let library = Library::open(Some("libX11.so.6"), NOLOAD).ok()?;
            Some(Xlib {
                free: *library.get(b"XFree\0").ok()?,
                sync: *library.get(b"XSync\0").ok()?,
                handler: *library.get(b"XSetErrorHandler\0").ok()?,
                threads: (library.get::<unsafe extern "C" fn() -> c_int>(b"XFreeThreads\0"))
                    .is_ok(),
                _library: Arc::new(library),
            })
        }
    }

    /// Calls `f` and ignores X errors. Otherwise, Xlib would end the process.
    fn without_errors<R>(&self, display: Ptr, f: impl FnOnce() -> R) -> R {
        unsafe extern "C" fn ignore(_: Ptr, _: Ptr) -> c_int {
            0
        }
        // SAFETY: the display is open. `sync` returns after all errors have arrived, and the old handler is restored
        // after that.
        unsafe {
            let before = (self.handler)(Some(ignore));
            let result = f();
            (self.sync)(display, 0);
            (self.handler)(before);
            result
        }
    }
}
