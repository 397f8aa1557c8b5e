//! Pictures of the application's OpenGL context: the back buffer of its window, or a pixel buffer object.
//!
//! OpenGL is not linked. The functions come from the library that the application has loaded.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use openuvr_media::capture::RenderInfo;
use openuvr_media::capture::gl::{
    Native, PrivateContext, ReadBack, ReadSource, ReadStatus, Sharing, SkipReason, Submit,
};
use openuvr_media::capture::submit::Ticket;
use openuvr_proto::units::Size;
use openuvr_runtime::guest::Guest;

use crate::enums::BufferName;
use crate::error::OPENUVR_ERROR::OPENUVR_ERROR_THREAD;
use crate::error::{Failure, Outcome};
use crate::picture::Layout;

/// The libraries with the functions of GLX and EGL.
const GLX: [&CStr; 2] = [c"libGL.so.1", c"libGLX.so.0"];
const EGL: [&CStr; 1] = [c"libEGL.so.1"];

type Current = unsafe extern "C" fn() -> *mut c_void;
type Loader = unsafe extern "C" fn(*const c_char) -> *const c_void;

/// An OpenGL context, and the function that returns the current context of a thread.
struct Context {
    handle: *mut c_void,
    egl: bool,
    of_thread: Current,
}

/// Reads pictures in the OpenGL context in which it was created.
pub(crate) struct Reader {
    context: Context,
    read_back: ReadBack,
}

// SAFETY: the reader's OpenGL objects are used only while its context is current on the calling thread, which is
// checked before each use.
unsafe impl Send for Reader {}

/// The source of a picture.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// A pixel buffer: the address of its name, and its layout.
    Buffer(BufferName, Layout),
    /// The back buffer of the window, and the window's size; `None`: the size is queried.
    Window(Option<Size>),
}

/// The result of a submission.
pub(crate) enum SubmitOutcome {
    /// The host has the picture; `None`: the stream has ended.
    Taken(Option<Ticket>),
    /// The GPU has not finished the read.
    UnderWay,
    /// The picture was skipped, for this reason.
    Skipped(SkipReason),
}

impl Reader {
    /// Creates a reader for the context that is current on this thread.
    fn new(guest: &Guest) -> Outcome<Reader> {
        let context = Context::current()?;
        let (functions, sharing) = Functions::of(&context)?;
        let mut load = |name: &CStr| functions.find(name);
        let frames = guest.frames().clone();
        let submit: Submit = std::sync::Arc::new(move |frame, drawn| frames.submit(frame, drawn));
        // SAFETY: the functions are the driver's. `read` and `poll` check that the context is current; `end` releases
        // the objects before the context is destroyed.
        let read_back = unsafe { ReadBack::new(&mut load, sharing, submit) };
        Ok(Reader {
            context,
            read_back: read_back.map_err(|e| Failure::failed(e.to_string()))?,
        })
    }

    /// Submits the picture of `source`. With a deadline `until`, it waits for the GPU, and returns a ticket if the GPU has
    /// finished in time.
    pub(crate) fn read(
        reader: &mut Option<Reader>,
        guest: &Guest,
        source: Source,
        until: Option<Instant>,
    ) -> Outcome<SubmitOutcome> {
        let this = match reader {
            Some(this) => this,
            None => reader.insert(Reader::new(guest)?),
        };
        if !this.context.is_current() {
            // Returns a different error if no context is current at all.
            Context::current()?;
            return Err(Failure::new(
                OPENUVR_ERROR_THREAD,
                "the first picture came from another OpenGL context: first call openuvr_release_buffer while that \
                 context is current",
            ));
        }
        let (size, what) = match source {
            Source::Window(Some(size)) => (size, ReadSource::Window),
            Source::Window(None) => (this.context.window_size()?, ReadSource::Window),
            Source::Buffer(name, layout) => (layout.size, buffer(name, layout)),
        };
        let drawn = guest.drawn(size);
        let status = read_when_free(until, || this.read_back.read(size, what, drawn));
        Ok(match status {
            ReadStatus::Submitted(ticket) => SubmitOutcome::Taken(ticket),
            ReadStatus::Pending => {
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                match left.and_then(|left| this.read_back.finish(left)) {
                    Some(ticket) => SubmitOutcome::Taken(Some(ticket)),
                    None => SubmitOutcome::UnderWay,
                }
            }
            ReadStatus::Skipped(why) => SubmitOutcome::Skipped(why),
        })
    }

    /// Submits the pictures that the GPU has finished meanwhile, if the context is current here.
    pub(crate) fn poll(&mut self) {
        if self.context.is_current() {
            self.read_back.poll();
        }
    }

    /// Ends the reader before its context is destroyed. If the context is not current, objects allocated in it are
    /// freed only with the context.
    pub(crate) fn end(self) {
        let current = self.context.is_current();
        self.read_back.retire(current);
    }
}

/// The failure for a picture that cannot be read. Most causes last until the application corrects them.
pub(crate) fn unreadable(why: SkipReason, source: Source) -> Failure {
    let why = match (why, source) {
        (SkipReason::TooSmall { .. }, Source::Buffer(_, layout)) => format!(
            "{why} for {} in {:?} with a stride of {} bytes; set OPENUVR_FEATURE_WIDTH, HEIGHT and \
             FORMAT to the values passed to glReadPixels, or allocate a larger buffer",
            layout.size, layout.format, layout.stride
        ),
        _ => why.to_string(),
    };
    Failure::failed(format!("cannot read the picture: {why}"))
}

/// The interval at which a waiting call checks whether the host has returned a buffer of the ring (guess).
const RETURNED: Duration = Duration::from_millis(1);

/// Reads a picture. With a deadline, repeats the read while the host and the GPU use all buffers of the ring, because a
/// waiting application wants this picture, not a newer one.
fn read_when_free(until: Option<Instant>, mut read: impl FnMut() -> ReadStatus) -> ReadStatus {
    loop {
        let status = read();
        let full = status == ReadStatus::Skipped(SkipReason::RingFull);
        if !full || until.is_none_or(|until| Instant::now() >= until) {
            return status;
        }
        std::thread::sleep(RETURNED);
    }
}

/// The pixel buffer as a source of pixels.
fn buffer(name: BufferName, layout: Layout) -> ReadSource {
    // SAFETY: the header requires that the address holds a `GLuint`.
    let name = unsafe { name.0.cast::<u32>().read_unaligned() };
    ReadSource::Buffer {
        name,
        offset: 0,
        format: layout.format.packed(),
        stride: layout.stride,
    }
}

/// The function that finds the functions of the application's OpenGL library.
#[derive(Clone, Copy)]
struct Functions(Loader);

impl Functions {
    /// The function loader of the library that created `context`, and the way to share the context's buffers.
    fn of(context: &Context) -> Outcome<(Functions, Sharing)> {
        let (libraries, name, sharing) = match context.egl {
            true => (&EGL[..], c"eglGetProcAddress", Sharing::Egl),
            // Xlib may not be initialised for threads, because some applications do not call XInitThreads.
            false => (
                &GLX[..],
                c"glXGetProcAddressARB",
                Sharing::Glx { threads: false },
            ),
        };
        let loader = find(libraries, name);
        if loader.is_null() {
            return Err(Failure::failed("the OpenGL library has no function loader"));
        }
        // SAFETY: GLX 1.4 and EGL 1.5 define this type for the function of this name.
        let loader = unsafe { std::mem::transmute::<*const c_void, Loader>(loader) };
        Ok((Functions(loader), sharing))
    }

    fn find(self, name: &CStr) -> *const c_void {
        // SAFETY: the loader accepts any NUL-terminated name.
        unsafe { (self.0)(name.as_ptr()) }
    }
}

/// An OpenGL context for a thread of this library. It shares the buffers of the application's context.
pub(crate) struct SharingContext {
    functions: Functions,
    private: PrivateContext,
}

impl SharingContext {
    /// Shares the buffers of the context that is current on this thread; `None` if no context is current. The result must
    /// be dropped before that context is destroyed.
    pub(crate) fn of_current() -> Option<Outcome<SharingContext>> {
        Context::current().ok().map(|context| {
            let (functions, sharing) = Functions::of(&context)?;
            let native = Native {
                display: context.display(),
                drawable: 0,
                context: context.handle,
            };
            let mut load = |name: &CStr| functions.find(name);
            // SAFETY: the functions are the driver's, the context is current on this thread, and the header requires that
            // the context stays valid until `openuvr_release_buffer` or `openuvr_close`.
            let private = unsafe { PrivateContext::new(&mut load, sharing, native) };
            let private = private.map_err(|e| Failure::failed(e.to_string()))?;
            Ok(SharingContext { functions, private })
        })
    }

    /// Makes the context current on this thread, and calls `work` with a copier of the application's buffers. The copier
    /// passes its pictures to `submit`.
    pub(crate) fn copy_buffers(
        mut self,
        submit: Submit,
        work: impl FnOnce(&mut BufferCopier),
    ) -> Outcome<()> {
        let functions = self.functions;
        let mut load = |name: &CStr| functions.find(name);
        let Some(_entered) = self.private.enter() else {
            return Err(Failure::failed(
                "the OpenGL context of the library's thread cannot be made current",
            ));
        };
        // SAFETY: the functions are the driver's. The private context stays current on this thread until `_entered` is
        // dropped, and the copier is dropped before `_entered`.
        let read_back = unsafe { ReadBack::new(&mut load, Sharing::None, submit) };
        let mut copier = BufferCopier(read_back.map_err(|e| Failure::failed(e.to_string()))?);
        work(&mut copier);
        copier.0.retire(true);
        Ok(())
    }
}

/// Copies pictures out of the application's pixel buffer.
pub(crate) struct BufferCopier(ReadBack);

impl BufferCopier {
    /// Copies the buffer, and waits at most `timeout` for the GPU. The picture is passed to the copier's `submit`.
    pub(crate) fn copy(
        &mut self,
        name: BufferName,
        layout: Layout,
        timeout: Duration,
    ) -> Result<(), SkipReason> {
        let what = buffer(name, layout);
        match self.0.read(layout.size, what, RenderInfo::default()) {
            ReadStatus::Submitted(_) => Ok(()),
            ReadStatus::Pending => {
                let _ = self.0.finish(timeout);
                Ok(())
            }
            ReadStatus::Skipped(why) => Err(why),
        }
    }
}

impl Context {
    /// Finds the current context of this thread. Searches the libraries of the process for the functions that return
    /// it.
    fn current() -> Outcome<Context> {
        let of = |libraries: &[&CStr], name: &CStr, egl| {
            let function = find(libraries, name);
            if function.is_null() {
                return None;
            }
            // SAFETY: GLX 1.4 and EGL 1.5 define this type for the functions of these names.
            let of_thread = unsafe { std::mem::transmute::<*const c_void, Current>(function) };
            // SAFETY: the function has no preconditions.
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
                "no OpenGL context (GLX or EGL) is current on this thread: call this function on the rendering thread",
            )
        })
    }

    /// The display of the context that is current on this thread.
    fn display(&self) -> *mut c_void {
        let function = match self.egl {
            true => find(&EGL, c"eglGetCurrentDisplay"),
            false => find(&GLX, c"glXGetCurrentDisplay"),
        };
        if function.is_null() {
            return null_mut();
        }
        // SAFETY: GLX 1.4 and EGL 1.5 define this type for the functions of these names, which have no preconditions.
        unsafe { std::mem::transmute::<*const c_void, Current>(function)() }
    }

    /// Whether it is current on this thread.
    fn is_current(&self) -> bool {
        // SAFETY: the function may be called at any time. Its library stays loaded as long as the context exists. The
        // application destroys the context only after `openuvr_release_buffer` or `openuvr_close`.
        unsafe { (self.of_thread)() == self.handle }
    }

    /// The size of this thread's window. This context must be current. Queries the X server, or EGL.
    fn window_size(&self) -> Outcome<Size> {
        let unknown = || Failure::failed("cannot query the window's size: pass width and height");
        match self.egl {
            true => egl_size(),
            false => glx_size(),
        }
        .ok_or_else(unknown)
    }
}

/// The size of the current GLX drawable.
fn glx_size() -> Option<Size> {
    /// GLX 1.4, section 3.3.6.
    const WIDTH: c_int = 0x801D;
    const HEIGHT: c_int = 0x801E;
    type Drawable = unsafe extern "C" fn() -> c_ulong;
    type Query = unsafe extern "C" fn(*mut c_void, c_ulong, c_int, *mut c_uint);
    let [display, drawable, query] = [
        c"glXGetCurrentDisplay",
        c"glXGetCurrentDrawable",
        c"glXQueryDrawable",
    ]
    .map(|name| find(&GLX, name));
    if display.is_null() || drawable.is_null() || query.is_null() {
        return None;
    }
    // SAFETY: GLX 1.4 defines these types for the functions of these names.
    let (display, drawable, query) = unsafe {
        (
            std::mem::transmute::<*const c_void, Current>(display),
            std::mem::transmute::<*const c_void, Drawable>(drawable),
            std::mem::transmute::<*const c_void, Query>(query),
        )
    };
    // SAFETY: both functions have no preconditions.
    let (display, drawable) = unsafe { (display(), drawable()) };
    if display.is_null() || drawable == 0 {
        return None;
    }
    let side = |what| {
        let mut side = 0;
        // SAFETY: display and drawable belong to this thread's context, and the function writes one number, to `side`.
        unsafe { query(display, drawable, what, &raw mut side) };
        side
    };
    Some(Size::new(side(WIDTH), side(HEIGHT)))
}

/// The size of the current EGL surface.
fn egl_size() -> Option<Size> {
    /// EGL 1.5, sections 3.7.4 and 3.5.6.
    const DRAW: c_int = 0x3059;
    const WIDTH: c_int = 0x3057;
    const HEIGHT: c_int = 0x3056;
    type Surface = unsafe extern "C" fn(c_int) -> *mut c_void;
    type Query = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, *mut c_int) -> c_uint;
    let [display, surface, query] = [
        c"eglGetCurrentDisplay",
        c"eglGetCurrentSurface",
        c"eglQuerySurface",
    ]
    .map(|name| find(&EGL, name));
    if display.is_null() || surface.is_null() || query.is_null() {
        return None;
    }
    // SAFETY: EGL 1.5 defines these types for the functions of these names.
    let (display, surface, query) = unsafe {
        (
            std::mem::transmute::<*const c_void, Current>(display),
            std::mem::transmute::<*const c_void, Surface>(surface),
            std::mem::transmute::<*const c_void, Query>(query),
        )
    };
    // SAFETY: both functions have no preconditions.
    let (display, surface) = unsafe { (display(), surface(DRAW)) };
    if display.is_null() || surface.is_null() {
        return None;
    }
    let side = |what| {
        let mut side = 0;
        // SAFETY: display and surface belong to this thread's context, and the function writes one number, to `side`.
        let known = unsafe { query(display, surface, what, &raw mut side) };
        (known != 0).then(|| u32::try_from(side).ok()).flatten()
    };
    Some(Size::new(side(WIDTH)?, side(HEIGHT)?))
}

/// Finds a function in the first of these libraries that this process has loaded; null if none has it.
fn find(libraries: &[&CStr], name: &CStr) -> *const c_void {
    for library in libraries {
        // SAFETY: the library is opened only if it is already loaded, so that no constructors run. The close only drops this
        // reference.
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

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: ReadStatus = ReadStatus::Skipped(SkipReason::RingFull);

    /// Reads from a ring that is full for the first `full` reads. Returns the result, and the number of reads.
    fn read(full: u32, until: Option<Instant>) -> (ReadStatus, u32) {
        let mut reads = 0;
        let status = read_when_free(until, || {
            reads += 1;
            match reads <= full {
                true => FULL,
                false => ReadStatus::Pending,
            }
        });
        (status, reads)
    }

    #[test]
    fn a_waiting_read_repeats_until_a_buffer_is_free() {
        let now = Instant::now();
        let later = Some(now + Duration::from_secs(600));
        assert_eq!(read(3, later), (ReadStatus::Pending, 4));
        assert_eq!(read(3, Some(now)), (FULL, 1), "the time is over");
        assert_eq!(read(3, None), (FULL, 1), "continuous mode never waits");
    }

    #[test]
    fn a_waiting_read_reports_other_reasons_at_once() {
        let later = Some(Instant::now() + Duration::from_secs(600));
        let mapped = ReadStatus::Skipped(SkipReason::Mapped);
        assert_eq!(read_when_free(later, || mapped), mapped);
    }
}
