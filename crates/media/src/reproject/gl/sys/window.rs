//! A GLX 1.4 context for a window of another connection.
//!
//! By default, Xlib ends a program at the first error. Therefore, from the first window on, errors are logged, and
//! [`Window::swap`] reports a server that is gone. Errors of other displays are passed to the previous handler.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use openuvr_proto::units::Size;
use x11_dl::{glx, xlib};

/// `GLX_ARB_create_context`, `GLX_ARB_create_context_profile`.
const CONTEXT_MAJOR: c_int = 0x2091;
const CONTEXT_MINOR: c_int = 0x2092;
const CONTEXT_PROFILE: c_int = 0x9126;
const CORE: c_int = 1;

/// A window and its context, which is current on the owning thread.
pub(super) struct Window {
    x: xlib::Xlib,
    glx: glx::Glx,
    display: *mut xlib::Display,
    window: xlib::XID,
    context: glx::GLXContext,
    /// Set when the server no longer responds. Xlib keeps the address of this flag until the display is closed.
    gone: Arc<AtomicBool>,
}

impl Window {
    /// Makes a context current for a window with this visual.
    pub(super) fn open(display: &str, window: u32, visual: u32) -> Result<Window, String> {
        let x = xlib::Xlib::open().map_err(|e| format!("can't load libX11: {e}"))?;
        let glx = glx::Glx::open().map_err(|e| format!("can't load libGL: {e}"))?;
        let name =
            CString::new(display).map_err(|_| format!("{display:?} is not a display name"))?;
        handle_errors(&x);
        // SAFETY: `handle_errors` has called XInitThreads, before any other Xlib function; the name
        // is NUL-terminated.
        let connection = unsafe { (x.XOpenDisplay)(name.as_ptr()) };
        if connection.is_null() {
            return Err(format!("libX11 can't connect to display {display}"));
        }
        ours().push(connection.addr());
        let mut it = Window {
            x,
            glx,
            display: connection,
            window: window.into(),
            context: null_mut(),
            gone: Arc::default(),
        };
        it.survive();
        it.context = it.create(visual)?;
        it.make_current()?;
        it.wait_for_refreshes();
        Ok(it)
    }

    /// Makes Xlib return after the server is gone. This needs libX11 1.7; older versions end the program.
    fn survive(&self) {
        type Handler = unsafe extern "C" fn(*mut xlib::Display, *mut c_void);
        type Set = unsafe extern "C" fn(*mut xlib::Display, Handler, *mut c_void);
        unsafe extern "C" fn note(_: *mut xlib::Display, gone: *mut c_void) {
            // SAFETY: `gone` is the flag of this display's window, and the window outlives the display.
            unsafe { &*gone.cast::<AtomicBool>() }.store(true, Ordering::Release);
        }
        // SAFETY: libX11 is already loaded and stays loaded, so its initialisers have run. The function has this type.
        unsafe {
            let Ok(library) = libloading::Library::new("libX11.so.6") else {
                return;
            };
            if let Ok(set) = library.get::<Set>(b"XSetIOErrorExitHandler\0") {
                let gone = Arc::as_ptr(&self.gone).cast_mut().cast();
                set(self.display, note, gone);
            }
        }
    }

    fn create(&self, visual: u32) -> Result<glx::GLXContext, String> {
        let (x, glx, display) = (&self.x, &self.glx, self.display);
        // SAFETY: the display is open. The lists of attributes end in 0 and outlive the calls. GLX's results are freed
        // as specified. The function has the type that its extension specifies, and the extension is checked first.
        unsafe {
            if (glx.glXQueryExtension)(display, null_mut(), null_mut()) == 0 {
                return Err("the X server lacks GLX".to_owned());
            }
            let screen = (x.XDefaultScreen)(display);
            if !self.has_extension("GLX_ARB_create_context_profile") {
                return Err(
                    "the display's OpenGL is too old (no GLX_ARB_create_context_profile)"
                        .to_owned(),
                );
            }
            let wanted = [
                glx::GLX_DOUBLEBUFFER,
                1,
                glx::GLX_RENDER_TYPE,
                glx::GLX_RGBA_BIT,
                glx::GLX_DRAWABLE_TYPE,
                glx::GLX_WINDOW_BIT,
                0,
            ];
            let mut count = 0;
            let found = (glx.glXChooseFBConfig)(display, screen, wanted.as_ptr(), &raw mut count);
            let configs = match found.is_null() {
                true => &[],
                false => std::slice::from_raw_parts(found, usize::try_from(count).unwrap_or(0)),
            };
            let attribute = |config, name| {
                let mut value = 0;
                (glx.glXGetFBConfigAttrib)(display, config, name, &raw mut value);
                value
            };
            let fits = |config: &&glx::GLXFBConfig| {
                attribute(**config, glx::GLX_VISUAL_ID) == visual.cast_signed()
                    && attribute(**config, glx::GLX_SAMPLE_BUFFERS) == 0
            };
            let config = configs.iter().find(fits).copied();
            if !found.is_null() {
                (x.XFree)(found.cast());
            }
            let config = config.ok_or("OpenGL does not support this display's default visual")?;
            type Create = unsafe extern "C" fn(
                *mut xlib::Display,
                glx::GLXFBConfig,
                glx::GLXContext,
                c_int,
                *const c_int,
            ) -> glx::GLXContext;
            let create = self.function(c"glXCreateContextAttribsARB");
            if create.is_null() {
                return Err("libGL lacks glXCreateContextAttribsARB".to_owned());
            }
            let create: Create = std::mem::transmute(create);
            let wanted = [CONTEXT_MAJOR, 3, CONTEXT_MINOR, 3, CONTEXT_PROFILE, CORE, 0];
            let context = create(display, config, null_mut(), 1, wanted.as_ptr());
            // Waits for an error, which arrives after the call.
            (x.XSync)(display, 0);
            match context.is_null() {
                true => Err("the driver lacks OpenGL 3.3".to_owned()),
                false => Ok(context),
            }
        }
    }

    /// A function of OpenGL or GLX, or null. For unknown names, Mesa returns a stub.
    pub(super) fn function(&self, name: &CStr) -> *const c_void {
        // SAFETY: the name is NUL-terminated.
        let function = unsafe { (self.glx.glXGetProcAddressARB)(name.as_ptr().cast()) };
        function.map_or(null(), |function| function as *const c_void)
    }

    fn has_extension(&self, name: &str) -> bool {
        // SAFETY: the display stays open until `self` is dropped. The string belongs to libGL, and lives as long as the
        // display.
        let all = unsafe {
            let screen = (self.x.XDefaultScreen)(self.display);
            let all: *const c_char = (self.glx.glXQueryExtensionsString)(self.display, screen);
            if all.is_null() {
                return false;
            }
            CStr::from_ptr(all)
        };
        all.to_string_lossy().split(' ').any(|one| one == name)
    }

    /// Makes swaps take effect at a refresh of the display, if the driver has an extension for it.
    fn wait_for_refreshes(&self) {
        type ForWindow = unsafe extern "C" fn(*mut xlib::Display, xlib::XID, c_int);
        type ForContext = unsafe extern "C" fn(c_int) -> c_int;
        let set = self.function(c"glXSwapIntervalEXT");
        if self.has_extension("GLX_EXT_swap_control") && !set.is_null() {
            // SAFETY: `ForWindow` is the type of the extension's function. The display stays open until `self` is
            // dropped, and the caller of `open` keeps the window.
            unsafe {
                std::mem::transmute::<*const c_void, ForWindow>(set)(self.display, self.window, 1)
            };
            return;
        }
        let set = self.function(c"glXSwapIntervalMESA");
        if self.has_extension("GLX_MESA_swap_control") && !set.is_null() {
            // SAFETY: `ForContext` is the type of the extension's function, and the context is current.
            unsafe { std::mem::transmute::<*const c_void, ForContext>(set)(1) };
        }
    }

    /// Makes the context current on this thread, if it is not current already.
    pub(super) fn make_current(&self) -> Result<(), String> {
        // SAFETY: `self` owns display and context until it is dropped. No other thread uses them, because this type is
        // not `Send`.
        let made = unsafe {
            (self.glx.glXGetCurrentContext)() == self.context
                || (self.glx.glXMakeCurrent)(self.display, self.window, self.context) != 0
        };
        match made {
            true => Ok(()),
            false => Err("OpenGL can't draw on the window".to_owned()),
        }
    }

    pub(super) fn swap(&self) -> Result<(), String> {
        self.make_current()?;
        // SAFETY: the display stays open until `self` is dropped. If the window is gone, the X server reports an error,
        // which `log` handles.
        unsafe { (self.glx.glXSwapBuffers)(self.display, self.window) };
        match self.gone.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err("the X server is gone".to_owned()),
        }
    }

    pub(super) fn resize(&self, size: Size) {
        // SAFETY: the display stays open until `self` is dropped. If the window is gone, the X server reports an error,
        // which `log` handles.
        unsafe {
            (self.x.XResizeWindow)(self.display, self.window, size.width, size.height);
            (self.x.XFlush)(self.display);
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the context is destroyed before its display is closed; a display may be closed even if its server is
        // gone.
        unsafe {
            if !self.context.is_null() {
                if (self.glx.glXGetCurrentContext)() == self.context {
                    (self.glx.glXMakeCurrent)(self.display, 0, null_mut());
                }
                (self.glx.glXDestroyContext)(self.display, self.context);
            }
            (self.x.XCloseDisplay)(self.display);
        }
        ours().retain(|display| *display != self.display.addr());
    }
}

type Handler = unsafe extern "C" fn(*mut xlib::Display, *mut xlib::XErrorEvent) -> c_int;
type EndHandler = unsafe extern "C" fn(*mut xlib::Display) -> c_int;

/// The displays of open windows.
fn ours() -> std::sync::MutexGuard<'static, Vec<usize>> {
    static OURS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The previous handlers of errors and of lost connections.
static BEFORE: OnceLock<(Option<Handler>, Option<EndHandler>)> = OnceLock::new();

/// Installs handlers that log errors of the displays in [`ours`], instead of ending the program.
fn handle_errors(x: &xlib::Xlib) {
    unsafe extern "C" fn log(display: *mut xlib::Display, event: *mut xlib::XErrorEvent) -> c_int {
        if ours().contains(&display.addr()) {
            // SAFETY: Xlib calls this with an event that outlives the call.
            let (code, request) = unsafe { ((*event).error_code, (*event).request_code) };
            tracing::debug!(code, request, "the X server refused a request of OpenGL");
            return 0;
        }
        match BEFORE.get().and_then(|(before, _)| *before) {
            // SAFETY: the previous handler is called as Xlib would call it.
            Some(before) => unsafe { before(display, event) },
            None => 0,
        }
    }
    unsafe extern "C" fn ended(display: *mut xlib::Display) -> c_int {
        // For the displays in [`ours`], Xlib calls the exit handler next, which reports the error. The default handler
        // would end the program here.
        match BEFORE.get().and_then(|(_, before)| *before) {
            // SAFETY: the previous handler is called as Xlib would call it.
            Some(before) if !ours().contains(&display.addr()) => unsafe { before(display) },
            _ => 0,
        }
    }
    // SAFETY: XInitThreads may be called at any time and repeatedly; the handlers are static
    // functions.
    BEFORE.get_or_init(|| unsafe {
        (x.XInitThreads)();
        (
            (x.XSetErrorHandler)(Some(log)),
            (x.XSetIOErrorHandler)(Some(ended)),
        )
    });
}
