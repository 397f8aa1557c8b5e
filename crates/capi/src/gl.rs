//! An OpenGL pixel buffer object of the application as the source of pictures.
//!
//! What it is not: it links no OpenGL. The functions are those of the library that the application
//! has loaded.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;
use std::time::Instant;

use openuvr_media::capture::gl::{ReadBack, Reading, Sharing, Submit, What};
use openuvr_media::capture::submit::Ticket;
use openuvr_runtime::guest::Guest;

use crate::error::OPENUVR_ERROR::OPENUVR_ERROR_THREAD;
use crate::error::{Failure, Outcome};
use crate::picture::Layout;
use crate::words::BufferName;

/// Where the functions of GLX and EGL are, whatever the application linked.
const GLX: [&CStr; 2] = [c"libGL.so.1", c"libGLX.so.0"];
const EGL: [&CStr; 1] = [c"libEGL.so.1"];

type Current = unsafe extern "C" fn() -> *mut c_void;
type Loader = unsafe extern "C" fn(*const c_char) -> *const c_void;

/// An OpenGL context, and what tells which one a thread has.
struct Context {
    handle: *mut c_void,
    egl: bool,
    of_thread: Current,
}

/// What reads the buffer, in the context in which it was first given.
pub(crate) struct PixelBuffer {
    context: Context,
    read_back: ReadBack,
    /// Why a picture was left out last.
    skipped: Option<&'static str>,
}

// SAFETY: it is only used where its context is current, which is asked before each use.
unsafe impl Send for PixelBuffer {}

/// What became of a picture.
pub(crate) enum Given {
    /// It is with the host; `None`: which is over.
    Taken(Option<Ticket>),
    /// It soon will be: the GPU is at work on it.
    UnderWay,
    /// It was left out, for this reason; whether that is news.
    Skipped(&'static str, bool),
}

impl PixelBuffer {
    /// For the context that is current on this thread.
    fn new(guest: &Guest) -> Outcome<PixelBuffer> {
        let context = Context::current()?;
        let (libraries, name, sharing) = match context.egl {
            true => (&EGL[..], c"eglGetProcAddress", Sharing::Egl),
            // Whether the application has called XInitThreads is not known.
            false => (
                &GLX[..],
                c"glXGetProcAddressARB",
                Sharing::Glx { threads: false },
            ),
        };
        let loader = find(libraries, name);
        if loader.is_null() {
            return Err(Failure::failed("the OpenGL library has no loader"));
        }
        // SAFETY: a function of this name has this type (GLX 1.4, EGL 1.5).
        let loader = unsafe { std::mem::transmute::<*const c_void, Loader>(loader) };
        // SAFETY: any name may be asked for.
        let mut load = |name: &CStr| unsafe { loader(name.as_ptr()) };
        let frames = guest.frames().clone();
        let submit: Submit = std::sync::Arc::new(move |frame, drawn| frames.submit(frame, drawn));
        // SAFETY: the functions are the driver's. At each use the context is current, as is asked in
        // `read`; at the end see `end`.
        let read_back = unsafe { ReadBack::new(&mut load, sharing, submit) };
        Ok(PixelBuffer {
            context,
            read_back: read_back.map_err(|e| Failure::failed(e.to_string()))?,
            skipped: None,
        })
    }

    /// Hands over what the buffer holds. With `until`, at most until then, it returns when the GPU has
    /// finished, and then there is a ticket.
    pub(crate) fn read(
        place: &mut Option<PixelBuffer>,
        guest: &Guest,
        name: BufferName,
        layout: &Layout,
        until: Option<Instant>,
    ) -> Outcome<Given> {
        let this = match place {
            Some(this) => this,
            None => place.insert(PixelBuffer::new(guest)?),
        };
        if !this.context.is_current() {
            // None at all is told in other words.
            Context::current()?;
            return Err(Failure::new(
                OPENUVR_ERROR_THREAD,
                "another OpenGL context is current than at the first picture: call \
                 openuvr_release_buffer where that one is",
            ));
        }
        // SAFETY: the application says that a `GLuint` stays there.
        let name = unsafe { name.0.cast::<u32>().read_unaligned() };
        let what = What::Buffer {
            name,
            offset: 0,
            format: layout.format.packed(),
            stride: layout.stride,
        };
        Ok(
            match this.read_back.read(layout.size, what, guest.drawn()) {
                Reading::Submitted(ticket) => Given::Taken(ticket),
                Reading::UnderWay => {
                    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                    match left.and_then(|left| this.read_back.finish(left)) {
                        Some(ticket) => Given::Taken(Some(ticket)),
                        None => Given::UnderWay,
                    }
                }
                Reading::Skipped(why) => {
                    let news = this.skipped.replace(why) != Some(why);
                    Given::Skipped(why, news)
                }
            },
        )
    }

    /// The end, before its context is destroyed. Where that is not current, what was allocated in it
    /// goes with it.
    pub(crate) fn end(self) {
        let current = self.context.is_current();
        self.read_back.retire(current);
    }
}

impl Context {
    /// That of this thread. Looks through the libraries of the process.
    fn current() -> Outcome<Context> {
        let of = |libraries: &[&CStr], name: &CStr, egl| {
            let function = find(libraries, name);
            if function.is_null() {
                return None;
            }
            // SAFETY: a function of this name has this type (GLX 1.4, EGL 1.5).
            let of_thread = unsafe { std::mem::transmute::<*const c_void, Current>(function) };
            // SAFETY: it may always be called.
            let handle = unsafe { of_thread() };
            (!handle.is_null()).then_some(Context {
                handle,
                egl,
                of_thread,
            })
        };
        let context = of(&GLX, c"glXGetCurrentContext", false)
            .or_else(|| of(&EGL, c"eglGetCurrentContext", true));
        context.ok_or_else(|| {
            Failure::new(
                OPENUVR_ERROR_THREAD,
                "no OpenGL context of GLX or EGL is current on this thread: call it where the \
                 pixel buffer is filled",
            )
        })
    }

    /// Whether this thread has it.
    fn is_current(&self) -> bool {
        // SAFETY: it may always be called; its library stays as long as the context, which the
        // application does not destroy before it is released.
        unsafe { (self.of_thread)() == self.handle }
    }
}

/// A function of the first of these libraries that this process has loaded; null if none has it.
fn find(libraries: &[&CStr], name: &CStr) -> *const c_void {
    for library in libraries {
        // SAFETY: opened only if it is there already, so that nothing is run; closed again, which
        // leaves it to whoever loaded it.
        let found = unsafe {
            let library = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if library.is_null() {
                continue;
            }
            let found = libc::dlsym(library, name.as_ptr());
            libc::dlclose(library);
            found
        };
        if !found.is_null() {
            return found;
        }
    }
    null()
}
