//! The window on an X display: Xlib and GLX.

use std::ffi::{CStr, CString, c_int, c_ulong, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use anyhow::{Context as _, Result, bail};
use openuvr_proto::units::Size;
use x11_dl::{glx, keysym, xlib};

use super::event::{Direction, Event};

/// A window with a current OpenGL context. It belongs to the thread that opened it.
pub(crate) struct X11Window {
    x: xlib::Xlib,
    glx: glx::Glx,
    display: *mut xlib::Display,
    window: c_ulong,
    context: glx::GLXContext,
    close_atom: c_ulong,
    size: Size,
    /// Pressed keys, so that a repeat does not count as a press.
    held: [bool; 256],
}

impl X11Window {
    /// Opens a window on the display with this name.
    ///
    /// # Errors
    /// Returns an error if there is no such display, it has no OpenGL, or a library is missing.
    pub(crate) fn open(named: &str, size: Size, full_screen: bool) -> Result<X11Window> {
        let x = xlib::Xlib::open().context("libX11 is missing (apt install libx11-6)")?;
        let glx = glx::Glx::open().context("libGL is missing (apt install libgl1)")?;
        let name = CString::new(named)?;
        // SAFETY: Xlib takes a NUL-terminated name; every pointer passed to Xlib and GLX below comes from them or
        // points to a local that outlives the call. The display is checked for null before use, and closed only in
        // `drop`.
        unsafe {
            (x.XSetErrorHandler)(Some(ignore_error));
            let display = (x.XOpenDisplay)(name.as_ptr());
            if display.is_null() {
                bail!(
                    "can't open the X display {named}: check that it is running and that you have access"
                );
            }
            let screen = (x.XDefaultScreen)(display);
            let root = (x.XRootWindow)(display, screen);
            let size = if full_screen {
                let side = |pixels: c_int| u32::try_from(pixels).unwrap_or(1);
                let width = side((x.XDisplayWidth)(display, screen));
                Size::new(width, side((x.XDisplayHeight)(display, screen)))
            } else {
                size
            };
            let attributes = [
                (glx::GLX_X_RENDERABLE, 1),
                (glx::GLX_DOUBLEBUFFER, 1),
                (glx::GLX_RED_SIZE, 8),
                (glx::GLX_GREEN_SIZE, 8),
                (glx::GLX_BLUE_SIZE, 8),
                (glx::GLX_DEPTH_SIZE, 24),
                (0, 0),
            ];
            let flat: Vec<c_int> = attributes.iter().flat_map(|&(k, v)| [k, v]).collect();
            let mut count = 0;
            let configs = (glx.glXChooseFBConfig)(display, screen, flat.as_ptr(), &mut count);
            if configs.is_null() || count < 1 {
                bail!(
                    "this display has no OpenGL (GLX) with 24-bit colour: start the X server with +extension GLX"
                );
            }
            let config = *configs;
            (x.XFree)(configs.cast());
            let visual = (glx.glXGetVisualFromFBConfig)(display, config);
            if visual.is_null() {
                bail!("this display's OpenGL configuration can't be used for a window");
            }
            let mut set: xlib::XSetWindowAttributes = MaybeUninit::zeroed().assume_init();
            set.colormap = (x.XCreateColormap)(display, root, (*visual).visual, xlib::AllocNone);
            set.event_mask = xlib::KeyPressMask
                | xlib::KeyReleaseMask
                | xlib::ButtonPressMask
                | xlib::PointerMotionMask
                | xlib::StructureNotifyMask;
            let window = (x.XCreateWindow)(
                display,
                root,
                0,
                0,
                size.width,
                size.height,
                0,
                (*visual).depth,
                1, // InputOutput
                (*visual).visual,
                xlib::CWColormap | xlib::CWEventMask | xlib::CWBorderPixel,
                &mut set,
            );
            (x.XFree)(visual.cast());
            (x.XStoreName)(display, window, c"OpenUVR scene".as_ptr());
            let atom = |name: &CStr| (x.XInternAtom)(display, name.as_ptr(), 0);
            let mut close_atom = atom(c"WM_DELETE_WINDOW");
            (x.XSetWMProtocols)(display, window, &mut close_atom, 1);
            if full_screen {
                let state = atom(c"_NET_WM_STATE_FULLSCREEN");
                (x.XChangeProperty)(
                    display,
                    window,
                    atom(c"_NET_WM_STATE"),
                    xlib::XA_ATOM,
                    32,
                    xlib::PropModeReplace,
                    (&raw const state).cast(),
                    1,
                );
            }
            let context =
                (glx.glXCreateNewContext)(display, config, glx::GLX_RGBA_TYPE, null_mut(), 1);
            if context.is_null() {
                bail!("can't create an OpenGL context on this display");
            }
            let mut supported = 0;
            (x.XkbSetDetectableAutoRepeat)(display, 1, &mut supported);
            (x.XMapWindow)(display, window);
            (glx.glXMakeCurrent)(display, window, context);
            let window = X11Window {
                x,
                glx,
                display,
                window,
                context,
                close_atom,
                size,
                held: [false; 256],
            };
            window.no_vertical_sync();
            Ok(window)
        }
    }

    /// The window's size in pixels.
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// The events since the last call, without waiting.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        // SAFETY: the display is open; XNextEvent fills the event it is given, and each union
        // field is read only after its type has been checked.
        unsafe {
            while (self.x.XPending)(self.display) > 0 {
                let mut event = MaybeUninit::<xlib::XEvent>::zeroed().assume_init();
                (self.x.XNextEvent)(self.display, &mut event);
                match event.type_ {
                    xlib::KeyPress | xlib::KeyRelease => {
                        let down = event.type_ == xlib::KeyPress;
                        let symbol = (self.x.XLookupKeysym)(&mut event.key, 0);
                        let held = &mut self.held[event.key.keycode as usize & 255];
                        if down && !*held {
                            events.push(Event::Press);
                        }
                        *held = down;
                        if let Some(direction) = direction(symbol) {
                            events.push(Event::Walk(direction, down));
                        }
                    }
                    xlib::ButtonPress => events.push(Event::Press),
                    xlib::MotionNotify => {
                        let at = event.motion;
                        let part = |place: c_int, all: u32| place as f32 / all.max(1) as f32;
                        events.push(Event::Look(
                            part(at.x, self.size.width),
                            part(at.y, self.size.height),
                        ));
                    }
                    xlib::MapNotify => {
                        // Without a window manager, the window must take the keyboard focus itself.
                        (self.x.XSetInputFocus)(
                            self.display,
                            self.window,
                            xlib::RevertToPointerRoot,
                            xlib::CurrentTime,
                        );
                    }
                    xlib::ConfigureNotify => {
                        let side = |pixels: c_int| u32::try_from(pixels).unwrap_or(1).max(1);
                        let is = event.configure;
                        let size = Size::new(side(is.width), side(is.height));
                        if size != self.size {
                            self.size = size;
                            events.push(Event::Resized(size));
                        }
                    }
                    xlib::ClientMessage
                        if event.client_message.data.get_long(0) as c_ulong == self.close_atom =>
                    {
                        events.push(Event::Close);
                    }
                    _ => {}
                }
            }
        }
        events
    }

    /// Shows the drawn picture, and returns when the X server has displayed it.
    pub(crate) fn swap(&self) {
        // SAFETY: display, window and context are alive and current on this thread.
        unsafe {
            (self.glx.glXSwapBuffers)(self.display, self.window);
            (self.x.XSync)(self.display, 0);
        }
    }

    /// An OpenGL function of the context, or null.
    pub(crate) fn gl_function(&self, name: &CStr) -> *const c_void {
        // SAFETY: the name is NUL-terminated.
        let found = unsafe { (self.glx.glXGetProcAddressARB)(name.as_ptr().cast()) };
        found.map_or(null(), |function| function as *const c_void)
    }

    /// Disables vertical synchronisation, because the scene has its own clock.
    fn no_vertical_sync(&self) {
        // SAFETY: the functions have the types that GLX_EXT_swap_control and
        // GLX_MESA_swap_control give them, and are called only where the extension is listed.
        unsafe {
            let screen = (self.x.XDefaultScreen)(self.display);
            let list = (self.glx.glXQueryExtensionsString)(self.display, screen);
            if list.is_null() {
                return;
            }
            let list = CStr::from_ptr(list).to_string_lossy();
            let has = |name: &str| list.split(' ').any(|word| word == name);
            let find = |name: &CStr| (self.glx.glXGetProcAddressARB)(name.as_ptr().cast());
            if has("GLX_EXT_swap_control")
                && let Some(function) = find(c"glXSwapIntervalEXT")
            {
                type Ext = unsafe extern "C" fn(*mut xlib::Display, c_ulong, c_int);
                std::mem::transmute::<unsafe extern "C" fn(), Ext>(function)(
                    self.display,
                    self.window,
                    0,
                );
            } else if has("GLX_MESA_swap_control")
                && let Some(function) = find(c"glXSwapIntervalMESA")
            {
                type Mesa = unsafe extern "C" fn(std::ffi::c_uint) -> c_int;
                std::mem::transmute::<unsafe extern "C" fn(), Mesa>(function)(0);
            }
        }
    }
}

impl Drop for X11Window {
    fn drop(&mut self) {
        // SAFETY: context, window and display are alive until here and not used afterwards.
        unsafe {
            (self.glx.glXMakeCurrent)(self.display, 0, null_mut());
            (self.glx.glXDestroyContext)(self.display, self.context);
            (self.x.XDestroyWindow)(self.display, self.window);
            (self.x.XCloseDisplay)(self.display);
        }
    }
}

/// X errors (a destroyed window, refused focus) must not end the program; Xlib's default handler exits.
unsafe extern "C" fn ignore_error(_: *mut xlib::Display, _: *mut xlib::XErrorEvent) -> c_int {
    0
}

fn direction(symbol: c_ulong) -> Option<Direction> {
    Some(match u32::try_from(symbol).ok()? {
        keysym::XK_w | keysym::XK_Up => Direction::Forward,
        keysym::XK_s | keysym::XK_Down => Direction::Back,
        keysym::XK_a | keysym::XK_Left => Direction::Left,
        keysym::XK_d | keysym::XK_Right => Direction::Right,
        _ => return None,
    })
}
