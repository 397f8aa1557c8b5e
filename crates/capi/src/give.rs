//! How an application gives its pictures to the host.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use openuvr_media::capture::submit::Ticket;

use crate::border::read;
use crate::error::OPENUVR_ERROR::{OPENUVR_ERROR_OVER, OPENUVR_ERROR_TIMEOUT};
use crate::error::{DONE, Failure, Outcome};
use crate::gl::{Given, PixelBuffer};
use crate::held::{Held, call, lock};
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
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            held.started()?.guest.begin_frame();
            Ok(DONE)
        })
    }
}

/// Gives a picture in plain memory or a dma-buf. With `wait` 0 it returns when the picture is copied
/// (or lent, see `release`), and the newest picture wins; with 1 it returns when the picture is
/// encoded and sent (paper, V-E), or a second later with `OPENUVR_ERROR_TIMEOUT`: it is with the host
/// then, which may still send it. A picture that nobody wants now, because no MUD watches or pictures
/// come faster than the target rate, is not copied: that is no error. Returns 1 if the picture was
/// taken, 0 if it was not wanted, `OPENUVR_ERROR_OVER` if none will be any more because the stream has
/// ended. The size may change from picture to picture. From any thread.
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
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            let picture = read(picture, openuvr_picture::default(), "the picture")?;
            let started = held.started()?;
            let wanted = started.wants();
            if !matches!(wanted, Ok(true)) {
                // Checked all the same: a mistake must not wait for somebody to watch.
                check(&picture)?;
                give_back(&picture);
                return wanted.map(|_| 0);
            }
            let ticket = started.guest.submit(taken(&picture, &held.inner.pool)?);
            started.given(ticket, until(wait != 0))
        })
    }
}

impl Started {
    /// Whether a picture is wanted now.
    fn wants(&self) -> Outcome<bool> {
        match self.guest.is_over() {
            true => Err(self.over()),
            false => Ok(self.guest.wants()),
        }
    }

    /// The stream has ended.
    fn over(&self) -> Failure {
        let why = self
            .end
            .get()
            .map_or("the stream has ended", String::as_str);
        Failure::new(OPENUVR_ERROR_OVER, why)
    }

    /// A picture was handed over, if there is a ticket; waits for it, if there is an end of waiting.
    fn given(&self, ticket: Option<Ticket>, until: Option<Instant>) -> Outcome {
        let ticket = ticket.ok_or_else(|| self.over())?;
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match left.is_none_or(|left| self.guest.wait(ticket, left)) {
            true => Ok(1),
            false => Err(self.late("the picture was not encoded and sent within a second")),
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
/// if not: no MUD watches, pictures come faster than the target rate, or the GPU is behind;
/// `OPENUVR_ERROR_OVER` when the stream has ended. On the thread where the OpenGL context of the pixel
/// buffer is current, outside of `glBegin` and `glEnd`; changes none of its state.
///
/// # Safety
/// `context` is NULL or a context that is not closed, whose pixel buffer's name lies where it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_frame_ready(context: *mut openuvr_context) -> c_int {
    // SAFETY: as ours.
    unsafe { call(context.cast::<Held<Host>>(), |held| held.give_buffer(false)) }
}

/// The same, and returns when the picture is encoded and sent (synchronous mode, paper V-E), at most
/// a second later: the application is in step with the stream. Returns 1 if the picture was sent, 0 if
/// nobody wants one now. On the thread where the OpenGL context of the pixel buffer is current.
///
/// # Safety
/// `context` is NULL or a context that is not closed, whose pixel buffer's name lies where it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_frame(context: *mut openuvr_context) -> c_int {
    // SAFETY: as ours.
    unsafe { call(context.cast::<Held<Host>>(), |held| held.give_buffer(true)) }
}

/// Lets go of the OpenGL context of the pixel buffer: to be called, or `openuvr_close`, before that
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
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            if let Some(pixels) = lock(&held.inner.pixels).take() {
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

impl Held<Host> {
    fn give_buffer(&self, wait: bool) -> Outcome {
        let started = self.started()?;
        let mut pixels = lock(&self.inner.pixels);
        let (name, layout) = {
            let settings = lock(&self.settings);
            let name = settings.buffer.ok_or_else(|| {
                let why = "this context has no pixel buffer: give pictures by openuvr_send_picture";
                Failure::state(why)
            })?;
            (name, settings.layout()?)
        };
        if !started.wants()? {
            return Ok(0);
        }
        // One for the GPU and the host.
        let until = until(wait);
        match PixelBuffer::read(&mut pixels, &started.guest, name, &layout, until)? {
            Given::Taken(ticket) => started.given(ticket, until),
            Given::UnderWay if wait => {
                Err(started.late("the GPU has not finished the picture within a second"))
            }
            Given::UnderWay => Ok(1),
            Given::Skipped(why, _) if wait => Err(Failure::failed(format!(
                "the pixel buffer was not read: {why}"
            ))),
            Given::Skipped(why, news) => {
                if news {
                    let line = format!("a picture was left out: {why}");
                    self.log.tell(OPENUVR_LOG_LEVEL::OPENUVR_LOG_WARNING, &line);
                }
                Ok(0)
            }
        }
    }
}
