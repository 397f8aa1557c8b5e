//! Test contexts: through GLX in an X window, or through EGL in an X window or without one.

use std::ffi::{CStr, CString, c_char, c_int, c_ulong, c_void};
use std::ptr::{null, null_mut};

use glow::HasContext as _;
use openuvr_proto::units::Size;
use x11_dl::{glx, xlib};

/// Requested properties of a context.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContextConfig {
    /// `None`: the driver's default.
    pub(super) version: Option<(c_int, c_int)>,
    pub(super) profile: Profile,
    pub(super) samples: c_int,
    pub(super) double: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Profile {
    Compatible,
    Core,
    Embedded,
}

impl ContextConfig {
    pub(super) const DEFAULT: ContextConfig = ContextConfig {
        version: None,
        profile: Profile::Compatible,
        samples: 0,
        double: true,
    };

    pub(super) fn of(profile: Profile, major: c_int, minor: c_int) -> ContextConfig {
        ContextConfig {
            version: Some((major, minor)),
            profile,
            ..ContextConfig::DEFAULT
        }
    }
}

/// A window with a context, which one thread at a time can make current.
pub(super) trait Context: Send {
    fn find(&self, name: &CStr) -> *const c_void;
    fn make_current(&self, yes: bool);
    fn swap(&self);
    fn resize(&self, size: Size);
    /// Destroys the context, not the window.
    fn destroy(&mut self);
}

/// Keeps the libraries loaded until the process ends. A thread that has used a library calls into it on exit, possibly
/// after the end of the test that opened the library.
fn keep() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        for name in ["libX11.so.6", "libGL.so.1", "libEGL.so.1"] {
            // SAFETY: none of these libraries has an initialiser with preconditions.
            std::mem::forget(unsafe { libloading::Library::new(name) });
        }
    });
}

pub(super) fn functions(context: &dyn Context) -> glow::Context {
    // SAFETY: the context is current on this thread, as each test ensures.
    unsafe { glow::Context::from_loader_function_cstr(|name| context.find(name)) }
}

pub(super) struct Glx {
    x: xlib::Xlib,
    glx: glx::Glx,
    display: *mut xlib::Display,
    window: c_ulong,
    context: glx::GLXContext,
}

// SAFETY: XInitThreads is called first, and the tests make a context current on one thread at a
// time.
unsafe impl Send for Glx {}

const GLX_CONTEXT_MAJOR: c_int = 0x2091;
const GLX_CONTEXT_MINOR: c_int = 0x2092;
const GLX_CONTEXT_PROFILE: c_int = 0x9126;
const GLX_SAMPLES: c_int = 100_001;
const GLX_SAMPLE_BUFFERS: c_int = 100_000;

impl Glx {
    /// Opens a window on `display` with a current context; `None` if the requested context is not available.
    pub(super) fn open(
        display: &str,
        size: Size,
        wanted: ContextConfig,
        share: Option<&Glx>,
    ) -> Option<Glx> {
        keep();
        let x = xlib::Xlib::open().expect("libX11");
        let glx = glx::Glx::open().expect("libGL");
        let name = CString::new(display).expect("a name");
        // SAFETY: the calls are as Xlib and GLX require. Pointers come from these libraries, or point to locals that
        // outlive the calls.
        unsafe {
            (x.XInitThreads)();
            let display = share.map_or_else(|| (x.XOpenDisplay)(name.as_ptr()), |s| s.display);
            assert!(!display.is_null());
            let screen = (x.XDefaultScreen)(display);
            let attributes = [
                glx::GLX_DOUBLEBUFFER,
                c_int::from(wanted.double),
                glx::GLX_RED_SIZE,
                8,
                glx::GLX_GREEN_SIZE,
                8,
                glx::GLX_BLUE_SIZE,
                8,
                GLX_SAMPLE_BUFFERS,
                c_int::from(wanted.samples > 0),
                GLX_SAMPLES,
                wanted.samples,
                0,
            ];
            let mut count = 0;
            let configs =
                (glx.glXChooseFBConfig)(display, screen, attributes.as_ptr(), &raw mut count);
            if configs.is_null() || count < 1 {
                return None;
            }
            let config = *configs;
            let visual = (glx.glXGetVisualFromFBConfig)(display, config);
            let window = window(&x, display, (*visual).visual, (*visual).depth, size);
            let shared = share.map_or(null_mut(), |share| share.context);
            let context = match wanted.version {
                None => (glx.glXCreateNewContext)(display, config, glx::GLX_RGBA_TYPE, shared, 1),
                Some((major, minor)) => {
                    type Create = unsafe extern "C" fn(
                        *mut xlib::Display,
                        glx::GLXFBConfig,
                        glx::GLXContext,
                        c_int,
                        *const c_int,
                    ) -> glx::GLXContext;
                    let create =
                        (glx.glXGetProcAddressARB)(c"glXCreateContextAttribsARB".as_ptr().cast());
                    let create: Create = std::mem::transmute(create?);
                    let profile = match wanted.profile {
                        Profile::Core => 1,
                        Profile::Compatible => 2,
                        Profile::Embedded => 4,
                    };
                    let attributes = [
                        GLX_CONTEXT_MAJOR,
                        major,
                        GLX_CONTEXT_MINOR,
                        minor,
                        GLX_CONTEXT_PROFILE,
                        profile,
                        0,
                    ];
                    create(display, config, shared, 1, attributes.as_ptr())
                }
            };
            if context.is_null() {
                return None;
            }
            (glx.glXMakeCurrent)(display, window, context);
            Some(Glx {
                x,
                glx,
                display,
                window,
                context,
            })
        }
    }
}

/// A window on the screen.
///
/// # Safety
/// The display must be open and have the visual.
unsafe fn window(
    x: &xlib::Xlib,
    display: *mut xlib::Display,
    visual: *mut xlib::Visual,
    depth: c_int,
    size: Size,
) -> c_ulong {
    // SAFETY: the caller upholds this function's contract, and `set` outlives the call.
    unsafe {
        let root = (x.XDefaultRootWindow)(display);
        let mut set: xlib::XSetWindowAttributes = std::mem::zeroed();
        set.colormap = (x.XCreateColormap)(display, root, visual, xlib::AllocNone);
        let window = (x.XCreateWindow)(
            display,
            root,
            0,
            0,
            size.width,
            size.height,
            0,
            depth,
            1,
            visual,
            xlib::CWColormap | xlib::CWBorderPixel,
            &raw mut set,
        );
        (x.XMapWindow)(display, window);
        (x.XSync)(display, 0);
        window
    }
}

impl Context for Glx {
    fn find(&self, name: &CStr) -> *const c_void {
        // SAFETY: the name ends in NUL.
        let function = unsafe { (self.glx.glXGetProcAddressARB)(name.as_ptr().cast()) };
        function.map_or(null(), |function| function as *const c_void)
    }

    fn make_current(&self, yes: bool) {
        let (window, context) = if yes {
            (self.window, self.context)
        } else {
            (0, null_mut())
        };
        // SAFETY: display, window and context are valid or null; no other thread holds the context.
        unsafe { (self.glx.glXMakeCurrent)(self.display, window, context) };
    }

    fn swap(&self) {
        // SAFETY: the display and the window exist until `self` is dropped.
        unsafe { (self.glx.glXSwapBuffers)(self.display, self.window) };
    }

    fn resize(&self, size: Size) {
        // SAFETY: the display and the window exist until `self` is dropped.
        unsafe {
            (self.x.XResizeWindow)(self.display, self.window, size.width, size.height);
            (self.x.XSync)(self.display, 0);
        }
    }

    fn destroy(&mut self) {
        // SAFETY: display and context are valid.
        unsafe {
            self.make_current(false);
            (self.glx.glXDestroyContext)(self.display, self.context);
        }
        self.context = null_mut();
    }
}

impl Drop for Glx {
    fn drop(&mut self) {
        if !self.context.is_null() {
            self.destroy();
        }
    }
}

/// The required EGL functions.
struct EglFunctions {
    find: unsafe extern "C" fn(*const c_char) -> *const c_void,
    platform_display: unsafe extern "C" fn(c_int, *const c_void, *const isize) -> *mut c_void,
    initialize: unsafe extern "C" fn(*mut c_void, *mut c_int, *mut c_int) -> c_int,
    bind_api: unsafe extern "C" fn(c_int) -> c_int,
    choose: unsafe extern "C" fn(
        *mut c_void,
        *const c_int,
        *mut *mut c_void,
        c_int,
        *mut c_int,
    ) -> c_int,
    attribute: unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, *mut c_int) -> c_int,
    window: unsafe extern "C" fn(*mut c_void, *mut c_void, c_ulong, *const c_int) -> *mut c_void,
    pbuffer: unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_int) -> *mut c_void,
    create:
        unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, *const c_int) -> *mut c_void,
    current: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void) -> c_int,
    swap: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    destroy: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    _library: libloading::Library,
}

/// A context in an X window, or without a window, rendered by Mesa in software or by a GPU.
pub(super) struct Egl {
    functions: EglFunctions,
    x: Option<(xlib::Xlib, *mut xlib::Display, c_ulong)>,
    display: *mut c_void,
    surface: *mut c_void,
    context: *mut c_void,
}

// SAFETY: EGL may be used from any thread, and the tests make a context current on one thread at a time.
unsafe impl Send for Egl {}

const EGL_PLATFORM_DEVICE: c_int = 0x313F;
const EGL_PLATFORM_X11: c_int = 0x31D5;
const EGL_WINDOW: c_int = 4;
const EGL_NATIVE_VISUAL: c_int = 0x302E;
const EGL_PLATFORM_SURFACELESS: c_int = 0x31DD;
const EGL_SURFACE_TYPE: c_int = 0x3033;
const EGL_PBUFFER: c_int = 1;
const EGL_RENDERABLE_TYPE: c_int = 0x3040;
const EGL_RED_SIZE: c_int = 0x3024;
const EGL_GREEN_SIZE: c_int = 0x3023;
const EGL_BLUE_SIZE: c_int = 0x3022;
const EGL_NONE: c_int = 0x3038;
const EGL_WIDTH: c_int = 0x3057;
const EGL_HEIGHT: c_int = 0x3056;
const EGL_OPENGL_API: c_int = 0x30A2;
const EGL_OPENGL_ES_API: c_int = 0x30A0;
const EGL_CONTEXT_MAJOR: c_int = 0x3098;
const EGL_CONTEXT_MINOR: c_int = 0x30FB;
const EGL_CONTEXT_PROFILE: c_int = 0x30FD;

impl Egl {
    /// A current context with a surface of `size` on an X display or without one; `None` if unavailable. Without a
    /// display, the renderer is Mesa's software renderer, or the GPU whose EGL device number is in
    /// `OPENUVR_EGL_DEVICE`.
    pub(super) fn open(display: Option<&str>, size: Size, wanted: ContextConfig) -> Option<Egl> {
        keep();
        // SAFETY: libEGL's and Xlib's functions have these types. Pointers come from these libraries, or point to
        // locals that outlive the calls.
        unsafe {
            let library = libloading::Library::new("libEGL.so.1").ok()?;
            let functions = EglFunctions {
                find: *library.get(b"eglGetProcAddress\0").ok()?,
                platform_display: *library.get(b"eglGetPlatformDisplay\0").ok()?,
                initialize: *library.get(b"eglInitialize\0").ok()?,
                bind_api: *library.get(b"eglBindAPI\0").ok()?,
                choose: *library.get(b"eglChooseConfig\0").ok()?,
                attribute: *library.get(b"eglGetConfigAttrib\0").ok()?,
                window: *library.get(b"eglCreateWindowSurface\0").ok()?,
                pbuffer: *library.get(b"eglCreatePbufferSurface\0").ok()?,
                create: *library.get(b"eglCreateContext\0").ok()?,
                current: *library.get(b"eglMakeCurrent\0").ok()?,
                swap: *library.get(b"eglSwapBuffers\0").ok()?,
                destroy: *library.get(b"eglDestroyContext\0").ok()?,
                _library: library,
            };
            let x = display.map(|name| {
                let x = xlib::Xlib::open().expect("libX11");
                let name = CString::new(name).expect("a name");
                (x.XInitThreads)();
                let display = (x.XOpenDisplay)(name.as_ptr());
                assert!(!display.is_null());
                (x, display)
            });
            let (platform, native): (_, *const c_void) = match (&x, device(&functions)) {
                (Some((_, display)), _) => (EGL_PLATFORM_X11, display.cast()),
                (None, Some(device)) => (EGL_PLATFORM_DEVICE, device),
                (None, None) => (EGL_PLATFORM_SURFACELESS, null()),
            };
            let display = (functions.platform_display)(platform, native, null());
            if display.is_null() || (functions.initialize)(display, null_mut(), null_mut()) == 0 {
                return None;
            }
            let embedded = wanted.profile == Profile::Embedded;
            let api = if embedded {
                EGL_OPENGL_ES_API
            } else {
                EGL_OPENGL_API
            };
            (functions.bind_api)(api);
            let attributes = [
                EGL_SURFACE_TYPE,
                if x.is_some() { EGL_WINDOW } else { EGL_PBUFFER },
                EGL_RENDERABLE_TYPE,
                if embedded { 4 } else { 8 },
                EGL_NONE,
            ];
            let (mut configs, mut count) = (vec![null_mut(); 500], 0);
            (functions.choose)(
                display,
                attributes.as_ptr(),
                configs.as_mut_ptr(),
                500,
                &raw mut count,
            );
            configs.truncate(usize::try_from(count).ok()?);
            let attribute = |config, name| {
                let mut value = 0;
                (functions.attribute)(display, config, name, &raw mut value);
                value
            };
            // `eglChooseConfig` puts configurations with more bits first, so the first one may have more than 8 bits
            // per colour.
            let usual = |config: &*mut c_void| {
                let bits = [EGL_RED_SIZE, EGL_GREEN_SIZE, EGL_BLUE_SIZE];
                bits.iter().all(|name| attribute(*config, *name) == 8)
                    && x.as_ref().is_none_or(|(x, display)| {
                        let visual = (x.XDefaultVisual)(*display, 0);
                        attribute(*config, EGL_NATIVE_VISUAL)
                            == c_int::try_from((x.XVisualIDFromVisual)(visual)).unwrap_or(0)
                    })
            };
            let config = configs.into_iter().find(usual)?;
            let x = x.map(|(x, display)| {
                let visual = (x.XDefaultVisual)(display, 0);
                let depth = (x.XDefaultDepth)(display, 0);
                let window = window(&x, display, visual, depth, size);
                (x, display, window)
            });
            let side = |side: u32| c_int::try_from(side).expect("small");
            let sides = [
                EGL_WIDTH,
                side(size.width),
                EGL_HEIGHT,
                side(size.height),
                EGL_NONE,
            ];
            let surface = match &x {
                Some((.., window)) => (functions.window)(display, config, *window, null()),
                None => (functions.pbuffer)(display, config, sides.as_ptr()),
            };
            let mut attributes = Vec::new();
            if let Some((major, minor)) = wanted.version {
                attributes.extend([EGL_CONTEXT_MAJOR, major, EGL_CONTEXT_MINOR, minor]);
                if !embedded && (major, minor) >= (3, 2) {
                    let profile = if wanted.profile == Profile::Core {
                        1
                    } else {
                        2
                    };
                    attributes.extend([EGL_CONTEXT_PROFILE, profile]);
                }
            }
            attributes.push(EGL_NONE);
            let context = (functions.create)(display, config, null_mut(), attributes.as_ptr());
            if context.is_null() {
                return None;
            }
            let egl = Egl {
                functions,
                x,
                display,
                surface,
                context,
            };
            egl.make_current(true);
            Some(egl)
        }
    }
}

/// The requested device.
fn device(functions: &EglFunctions) -> Option<*const c_void> {
    type Devices = unsafe extern "C" fn(c_int, *mut *const c_void, *mut c_int) -> c_int;
    let number: usize = std::env::var("OPENUVR_EGL_DEVICE").ok()?.parse().ok()?;
    // SAFETY: the type is that of EGL_EXT_device_enumeration; the list has the given length.
    unsafe {
        let devices = (functions.find)(c"eglQueryDevicesEXT".as_ptr());
        assert!(!devices.is_null(), "EGL_EXT_device_enumeration");
        let devices: Devices = std::mem::transmute(devices);
        let (mut all, mut count) = ([null(); 16], 0);
        devices(16, all.as_mut_ptr(), &raw mut count);
        let all = &all[..usize::try_from(count).ok()?];
        Some(*all.get(number).expect("a device of this number"))
    }
}

impl Context for Egl {
    fn find(&self, name: &CStr) -> *const c_void {
        // SAFETY: the name ends in NUL.
        unsafe { (self.functions.find)(name.as_ptr()) }
    }

    fn make_current(&self, yes: bool) {
        let (surface, context) = if yes {
            (self.surface, self.context)
        } else {
            (null_mut(), null_mut())
        };
        // SAFETY: display, surface and context are valid or null; no other thread holds the context.
        unsafe { (self.functions.current)(self.display, surface, surface, context) };
    }

    fn swap(&self) {
        // SAFETY: display and surface are valid.
        unsafe { (self.functions.swap)(self.display, self.surface) };
    }

    fn resize(&self, size: Size) {
        let (x, display, window) = self.x.as_ref().expect("only a window can be resized");
        // SAFETY: the display and the window exist until `self` is dropped.
        unsafe {
            (x.XResizeWindow)(*display, *window, size.width, size.height);
            (x.XSync)(*display, 0);
        }
    }

    fn destroy(&mut self) {
        self.make_current(false);
        // SAFETY: display and context are valid.
        unsafe { (self.functions.destroy)(self.display, self.context) };
        self.context = null_mut();
    }
}

impl Drop for Egl {
    fn drop(&mut self) {
        if !self.context.is_null() {
            self.destroy();
        }
    }
}

/// Draws cells of 8 × 8 pixels, each in its own colour, starting at the top.
pub(super) fn draw(gl: &glow::Context, size: Size, seed: u32) {
    let (width, height) = (size.width, size.height);
    // SAFETY: the context is current.
    unsafe {
        gl.enable(glow::SCISSOR_TEST);
        for top in (0..height).step_by(8) {
            for left in (0..width).step_by(8) {
                let [r, g, b] = colour(left, top, seed).map(|c| f32::from(c) / 255.0);
                gl.clear_color(r, g, b, 1.0);
                let rows = 8.min(height - top);
                let number = |n: u32| i32::try_from(n).expect("small");
                gl.scissor(number(left), number(height - top - rows), 8, number(rows));
                gl.clear(glow::COLOR_BUFFER_BIT);
            }
        }
        gl.disable(glow::SCISSOR_TEST);
    }
}

/// Red, green and blue of the pixel at column `x` and row `y`, counted from the top.
pub(super) fn colour(x: u32, y: u32, seed: u32) -> [u8; 3] {
    let cell = (y / 8 * 251 + x / 8).wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(40_503);
    let [a, b, c, _] = cell.wrapping_mul(2_246_822_519).to_le_bytes();
    [a, b, c]
}
