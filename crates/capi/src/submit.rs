//! How an application gives its pictures to the host.

use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use openuvr_media::capture::gl::Skipped;
use openuvr_media::capture::submit::{Ticket, Wanted};
use openuvr_proto::units::Size;
use openuvr_runtime::lock::lock;

use crate::error::OPENUVR_ERROR::{OPENUVR_ERROR_ENDED, OPENUVR_ERROR_TIMEOUT};
use crate::error::{DONE, Failure, Outcome};
use crate::ffi::read;
use crate::gl::{Reader, Source, SubmitOutcome};
use crate::handle::{Handle, call};
use crate::host::{Host, Started, openuvr_context};
use crate::log::OPENUVR_LOG_LEVEL;
use crate::picture::{check, give_back, openuvr_picture, taken};

/// How long a synchronous call waits for a picture to be encoded and sent: a frame takes
/// milliseconds, so that something is wrong long before (guess).
const WAIT: Duration = Duration::from_secs(1);

/// The application begins to draw a picture. Whatever input it has taken until now is in that
/// picture: what is measured from a person's act to the picture is exact then. Without this call it
/// is what was taken when the picture is given. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_begin_frame(context: *mut openuvr_context) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            handle.started()?.guest.begin_frame();
            Ok(DONE)
        })
    }
}

/// Whether a picture is wanted now: ask before it is read back or converted, and do neither if it is
/// not. Returns 1 if it is; then the next picture that is given is taken, whenever that is. Returns 0 if
/// nobody watches or pictures come faster than the target rate: `openuvr_last_error` says which;
/// `OPENUVR_ERROR_ENDED` when the stream has ended. While nobody watches one picture a second is wanted
/// all the same, so that a MUD that joins sees something at once. The functions that give a picture ask
/// themselves: this is for who does work before. From any thread; where the application's OpenGL context
/// is current, not between `glBegin` and `glEnd`.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_wants(context: *mut openuvr_context) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let started = handle.started()?;
            if let Ok(mut reader) = handle.inner.pixels.try_lock()
                && let Some(reader) = reader.as_mut()
            {
                // Where no picture is given now, none would be handed over that was read before.
                reader.poll();
            }
            let wanted = started.wanted();
            started
                .promised
                .store(wanted == Wanted::Now, Ordering::Relaxed);
            match started.may(wanted) {
                Ok(()) => Ok(1),
                Err(why) => handle.answer(Err(why)),
            }
        })
    }
}

/// Gives a picture in plain memory or a dma-buf. With `wait` 0 it returns when the picture is copied
/// (or lent, see `release`), and the newest picture wins; with 1 it returns when the picture is
/// encoded and sent (paper, V-E), or a second later with `OPENUVR_ERROR_TIMEOUT`: it is with the host
/// then, which may still send it. A picture that nobody wants now, because no MUD watches or pictures
/// come faster than the target rate, is not copied: that is no error (see `openuvr_wants`). Returns 1 if
/// the picture was taken, 0 if it was not wanted (`openuvr_last_error` says why), `OPENUVR_ERROR_ENDED` if
/// none will be any more because the stream has ended. The size may change from picture to picture. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `picture` is NULL or what it says of its
/// memory is true.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_picture(
    context: *mut openuvr_context,
    picture: *const openuvr_picture,
    wait: c_int,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let picture = read(picture, openuvr_picture::default(), "the picture")?;
            let started = handle.started()?;
            let given = || {
                if let Err(why) = started.may(started.wanted()) {
                    // Checked all the same: a mistake must not wait for somebody to watch.
                    check(&picture)?;
                    give_back(&picture);
                    return Err(why);
                }
                let ticket = started.guest.submit(taken(&picture, &handle.inner.pool)?);
                started.given(ticket, until(wait != 0))
            };
            handle.answer(given())
        })
    }
}

/// Why a picture was not taken.
enum SubmitError {
    /// It is not wanted now, as is usual.
    Unwanted(&'static str),
    /// It was left out, and the next one may not be.
    LeftOut(Skipped),
    /// Something is wrong.
    Failed(Failure),
}

impl From<Failure> for SubmitError {
    fn from(failure: Failure) -> SubmitError {
        SubmitError::Failed(failure)
    }
}

impl Started {
    /// Whether a picture is wanted now; once so if that was promised.
    fn wanted(&self) -> Wanted {
        if self.promised.swap(false, Ordering::Relaxed) && !self.guest.is_over() {
            return Wanted::Now;
        }
        self.guest.wanted()
    }

    /// The same, in words.
    fn may(&self, wanted: Wanted) -> Result<(), SubmitError> {
        match wanted {
            Wanted::Now => Ok(()),
            Wanted::Unwatched => Err(SubmitError::Unwanted(
                "nobody watches: one picture a second is taken, for who comes next",
            )),
            Wanted::TooSoon => Err(SubmitError::Unwanted(
                "pictures come faster than OPENUVR_FEATURE_TARGET_FPS: some are not taken",
            )),
            Wanted::Never => Err(self.over().into()),
        }
    }

    /// The stream has ended.
    fn over(&self) -> Failure {
        let why = self
            .end
            .get()
            .map_or("the stream has ended", String::as_str);
        Failure::new(OPENUVR_ERROR_ENDED, why)
    }

    /// A picture was handed over, if there is a ticket; waits for it, if there is an end of waiting.
    fn given(&self, ticket: Option<Ticket>, until: Option<Instant>) -> Result<(), SubmitError> {
        let ticket = ticket.ok_or_else(|| self.over())?;
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match left.is_none_or(|left| self.guest.wait(ticket, left)) {
            true => Ok(()),
            false => Err(self
                .late("the picture was not encoded and sent within a second")
                .into()),
        }
    }

    /// What was waited for did not happen.
    fn late(&self, why: &str) -> Failure {
        match self.guest.is_over() {
            true => self.over(),
            false => Failure::new(OPENUVR_ERROR_TIMEOUT, why),
        }
    }
}

/// The pixel buffer holds a whole picture (continuous mode, the paper's usual one): it is copied
/// behind the OpenGL commands that fill it, and encoded and sent while the application goes on, which
/// may fill the buffer again at once. The newest picture wins. Returns 1 if the picture was taken, 0
/// if not: no MUD watches, pictures come faster than the target rate, or the GPU is behind
/// (`openuvr_last_error` says which); `OPENUVR_ERROR_FAILED` if the buffer can't be read because it is none,
/// too small for the width, height and format that were set, or mapped; `OPENUVR_ERROR_ENDED` when the
/// stream has ended. On the thread where the OpenGL context of the pixel buffer is current, outside of
/// `glBegin` and `glEnd`; changes none of its state.
///
/// # Safety
/// `context` is NULL or a context that is not closed, whose pixel buffer's name lies where it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_frame_ready(context: *mut openuvr_context) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            handle.answer(handle.give_buffer(false))
        })
    }
}

/// The same, and returns when the picture is encoded and sent (synchronous mode, paper V-E), at most
/// a second later: the application is in step with the stream. Returns 1 if the picture was sent, 0 if
/// nobody wants one now. On the thread where the OpenGL context of the pixel buffer is current.
///
/// # Safety
/// `context` is NULL or a context that is not closed, whose pixel buffer's name lies where it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_frame(context: *mut openuvr_context) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            handle.answer(handle.give_buffer(true))
        })
    }
}

/// The window of the current OpenGL context (GLX or EGL) holds a whole picture that is not swapped yet:
/// it is read from its back buffer, without a pixel buffer of the application and without a second copy.
/// Call it before each swap. `width` and `height` are those of the window, or both 0: they are asked for,
/// which costs a question to the X server for each picture. With `wait` 0 it returns when the reading is
/// queued on the GPU, as `openuvr_frame_ready` does, with 1 when the picture is encoded and sent, as
/// `openuvr_send_frame`; it returns what these return. A context of this library whose pictures come so
/// needs no pixel buffer. Before the OpenGL context is destroyed, `openuvr_release_buffer` or
/// `openuvr_close` is to be called, as for a pixel buffer. On the thread where the OpenGL context is
/// current, outside of `glBegin` and `glEnd`; changes none of its state.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_capture_gl(
    context: *mut openuvr_context,
    width: u32,
    height: u32,
    wait: c_int,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let size = Size::new(width, height);
            if !size.is_valid() && (width, height) != (0, 0) {
                let why = format!("a window of {size}: its sides are 1 to {}", Size::MAX_SIDE);
                return Err(Failure::argument(why));
            }
            let source = Source::Window(Some(size).filter(|size| size.is_valid()));
            handle.answer(handle.give_gl(|| Ok(source), wait != 0))
        })
    }
}

/// Lets go of the OpenGL context of the pixel buffer or of `openuvr_capture_gl`: to be called, or `openuvr_close`, before that
/// context is destroyed or its display closed, for the stream holds pictures in its memory. They are
/// copied out of it, and no thread of the library uses it any more when this returns (the length of
/// an encode). The stream goes on: the next picture may come from another context. Does nothing if no
/// pixel buffer is in use. On the thread where the context is current; elsewhere, what was allocated
/// in it is freed with it.
///
/// # Safety
/// `context` is NULL or a context that is not closed; the OpenGL context is not destroyed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_release_buffer(context: *mut openuvr_context) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            if let Some(pixels) = lock(&handle.inner.pixels).take() {
                pixels.end();
            }
            Ok(DONE)
        })
    }
}

/// When a call that waits from now on gives up; `None` for one that does not.
fn until(wait: bool) -> Option<Instant> {
    wait.then(|| Instant::now() + WAIT)
}

impl Handle<Host> {
    fn give_buffer(&self, wait: bool) -> Result<(), SubmitError> {
        let source = || {
            let settings = lock(&self.settings);
            let name = settings.buffer.ok_or_else(|| {
                let why = "this context has no pixel buffer: give pictures by openuvr_capture_gl or \
                           openuvr_send_picture";
                Failure::state(why)
            })?;
            Ok(Source::Buffer(name, settings.layout()?))
        };
        self.give_gl(source, wait)
    }

    fn give_gl(
        &self,
        source: impl FnOnce() -> Outcome<Source>,
        wait: bool,
    ) -> Result<(), SubmitError> {
        let started = self.started()?;
        let mut reader = lock(&self.inner.pixels);
        let source = source()?;
        if let Err(why) = started.may(started.wanted()) {
            if let Some(reader) = reader.as_mut() {
                reader.poll();
            }
            return Err(why);
        }
        // One for the GPU and the host.
        let until = until(wait);
        match Reader::read(&mut reader, &started.guest, source, until)? {
            SubmitOutcome::Taken(ticket) => started.given(ticket, until),
            SubmitOutcome::UnderWay if wait => {
                let why = "the GPU has not finished the picture within a second";
                Err(started.late(why).into())
            }
            SubmitOutcome::UnderWay => Ok(()),
            SubmitOutcome::Skipped(why @ Skipped::Behind) if !wait => {
                Err(SubmitError::LeftOut(why))
            }
            SubmitOutcome::Skipped(why) => Err(unreadable(why, source).into()),
        }
    }

    /// What a call returns that gave a picture, or asked whether one is wanted. Why one was not taken
    /// can be asked for, and reaches the log when it begins.
    fn answer(&self, given: Result<(), SubmitError>) -> Outcome {
        use OPENUVR_LOG_LEVEL::{OPENUVR_LOG_INFO, OPENUVR_LOG_WARNING};
        let mut left_out = lock(&self.inner.left_out);
        let not_taken = match given {
            Ok(()) => {
                left_out.taken();
                return Ok(1);
            }
            Err(not_taken) => not_taken,
        };
        let now = Instant::now();
        let (level, line) = match not_taken {
            SubmitError::Failed(failure) => {
                let known = !left_out.is_news(&failure.why, now);
                return Err(Failure { known, ..failure });
            }
            SubmitError::Unwanted(why) => {
                self.remark(why);
                let line = left_out.is_new(why, now).then(|| why.to_owned());
                (OPENUVR_LOG_INFO, line)
            }
            SubmitError::LeftOut(why) => {
                let why = format!("a picture was left out: {why}");
                let line = left_out.is_news(&why, now).then(|| why.clone());
                self.remark(why);
                (OPENUVR_LOG_WARNING, line)
            }
        };
        // The callback may take its time.
        drop(left_out);
        if let Some(line) = line {
            self.log.tell(level, &line);
        }
        Ok(0)
    }
}

/// A picture can't be read until the application does something about it.
fn unreadable(why: Skipped, source: Source) -> Failure {
    let why = match (why, source) {
        (Skipped::TooSmall { .. }, Source::Buffer(_, layout)) => format!(
            "{why}: {} in {:?} with rows {} bytes apart; set OPENUVR_FEATURE_WIDTH, HEIGHT and \
             FORMAT to what glReadPixels reads, or allocate more",
            layout.size, layout.format, layout.stride
        ),
        _ => why.to_string(),
    };
    Failure::failed(format!("the picture was not read: {why}"))
}
