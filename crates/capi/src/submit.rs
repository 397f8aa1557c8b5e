//! Submission of pictures by the application.

use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use openuvr_media::capture::gl::SkipReason;
use openuvr_media::capture::submit::{FrameDemand, Ticket};
use openuvr_proto::units::Size;
use openuvr_runtime::lock::lock;

use crate::callback_scope::CallbackScope;
use crate::error::OPENUVR_ERROR::{OPENUVR_ERROR_ENDED, OPENUVR_ERROR_TIMEOUT};
use crate::error::{DONE, Failure, Outcome};
use crate::ffi::read;
use crate::gl::{Reader, Source, SubmitOutcome, unreadable};
use crate::handle::{Handle, call};
use crate::host::{Host, Started, openuvr_context};
use crate::log::OPENUVR_LOG_LEVEL;
use crate::picture::{check, give_back, openuvr_picture, taken};

/// The timeout of a synchronous call (guess). Encoding and sending a picture normally take milliseconds.
const WAIT: Duration = Duration::from_secs(1);

/// Marks the start of drawing a picture: the input retrieved so far is in that picture, which makes the measured
/// motion-to-photon latency exact. Without this call, the input retrieved until the picture is submitted counts. From any
/// thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_begin_frame(context: *mut openuvr_context) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let started = handle.started()?;
            started.accept_input();
            started.guest.begin_frame();
            Ok(DONE)
        })
    }
}

/// Checks whether a picture is needed now, so that an application need not read back or convert pictures that are not
/// needed. Returns 1 if a picture is needed; the next submitted picture then counts as needed, whenever it is
/// submitted. Returns 0 if no MUD watches or pictures come faster than the target rate (`openuvr_last_error` returns
/// which), and `OPENUVR_ERROR_ENDED` when the stream has ended. While no MUD watches, one picture per second is needed,
/// so that a MUD that joins sees a picture at once. The submitting functions make this check themselves. From any
/// thread; on a thread where the application's OpenGL context is current, not between `glBegin` and `glEnd`.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_wants(context: *mut openuvr_context) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let started = handle.started()?;
            started.end_polling();
            if let Ok(mut reader) = handle.inner.pixels.try_lock()
                && let Some(reader) = reader.as_mut()
            {
                // Submits pictures that the GPU has finished, which otherwise happens only with the next picture.
                reader.poll();
            }
            let wanted = started.wanted();
            started
                .promised
                .store(wanted == FrameDemand::Now, Ordering::Relaxed);
            match started.may(wanted) {
                Ok(()) => Ok(1),
                Err(why) => handle.finish_submit(Err(why)),
            }
        })
    }
}

/// Submits a picture in plain memory or in a dma-buf. With `wait` 0, it returns when the picture has been copied (or lent,
/// see `release`), and a newer picture replaces one that has not been encoded yet. With `wait` 1, it returns when the
/// picture has been encoded and sent (paper, V-E), or after a second with `OPENUVR_ERROR_TIMEOUT`; in this case the host has
/// the picture and may still send it. A picture that is not needed now, because no MUD watches or pictures come faster than
/// the target rate, is not copied; that is not an error (see `openuvr_wants`). Returns 1 if the picture was accepted, 0 if
/// it was not needed (`openuvr_last_error` returns the reason), and `OPENUVR_ERROR_ENDED` when the stream has ended. The
/// size may change between pictures. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `picture` is NULL or describes valid memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_picture(
    context: *mut openuvr_context,
    picture: *const openuvr_picture,
    wait: c_int,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let picture = read(picture, openuvr_picture::default(), "the picture")?;
            let started = handle.started()?;
            started.end_polling();
            started.accept_input();
            let given = || {
                if let Err(why) = started.may(started.wanted()) {
                    // A picture that is not needed is checked, too: an error must not depend on whether a MUD is
                    // watching.
                    check(&picture)?;
                    give_back(&picture);
                    return Err(why);
                }
                let ticket = started.guest.submit(taken(&picture, &handle.inner.pool)?);
                started.given(ticket, until(wait != 0))
            };
            handle.finish_submit(given())
        })
    }
}

/// Why a picture was not accepted.
enum SubmitError {
    /// It is not needed now, which is normal.
    Unwanted(&'static str),
    /// It was skipped for a transient reason.
    LeftOut(SkipReason),
    Failed(Failure),
}

impl From<Failure> for SubmitError {
    fn from(failure: Failure) -> SubmitError {
        SubmitError::Failed(failure)
    }
}

impl Started {
    /// A picture that the application draws in `on_input` shows the event of this callback.
    fn accept_input(&self) {
        if CallbackScope::is_now() {
            self.guest.accept_input();
        }
    }

    /// Ends the polling of the pixel buffer, because the application submits its pictures itself. In a callback, polling
    /// continues until a call outside of callbacks: the polling thread may be running the callback, and cannot wait for
    /// itself.
    fn end_polling(&self) {
        if CallbackScope::is_now() {
            return;
        }
        let poller = lock(&self.poller).take();
        drop(poller);
    }

    /// Whether a picture is needed now. After `openuvr_wants` has returned 1, one picture counts as needed in any case.
    fn wanted(&self) -> FrameDemand {
        if self.promised.swap(false, Ordering::Relaxed) && !self.guest.is_over() {
            return FrameDemand::Now;
        }
        self.guest.wanted()
    }

    /// An error if no picture is needed now.
    fn may(&self, wanted: FrameDemand) -> Result<(), SubmitError> {
        match wanted {
            FrameDemand::Now => Ok(()),
            FrameDemand::Unwatched => Err(SubmitError::Unwanted(
                "no MUD is watching: until one joins, only one picture per second is accepted",
            )),
            FrameDemand::TooSoon => Err(SubmitError::Unwanted(
                "pictures come faster than OPENUVR_FEATURE_TARGET_FPS: some are skipped",
            )),
            FrameDemand::Closed => Err(self.ended().into()),
        }
    }

    /// The error of a stream that has ended.
    fn ended(&self) -> Failure {
        let why = self
            .end
            .get()
            .map_or("the stream has ended", String::as_str);
        Failure::new(OPENUVR_ERROR_ENDED, why)
    }

    /// Completes a submission. If there is a deadline, waits for the picture of `ticket`.
    fn given(&self, ticket: Option<Ticket>, until: Option<Instant>) -> Result<(), SubmitError> {
        let ticket = ticket.ok_or_else(|| self.ended())?;
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match left.is_none_or(|left| self.guest.wait(ticket, left)) {
            true => Ok(()),
            false => Err(self
                .late("the picture was not encoded and sent within a second")
                .into()),
        }
    }

    /// The error after a timeout.
    fn late(&self, why: &str) -> Failure {
        match self.guest.is_over() {
            true => self.ended(),
            false => Failure::new(OPENUVR_ERROR_TIMEOUT, why),
        }
    }
}

/// Submits the picture in the pixel buffer (continuous mode, the paper's default): it is copied after the OpenGL
/// commands that fill the buffer, and encoded and sent in the background. The application may fill the buffer again at
/// once. A newer picture replaces one that has not been encoded yet. If an application never calls this or another
/// submitting function, the library polls its pixel buffer instead: see `openuvr_init_thread`. Returns 1 if the picture
/// was accepted; 0 if it was not, because no MUD watches, pictures come faster than the target rate, or the GPU is behind
/// (`openuvr_last_error` returns the reason); `OPENUVR_ERROR_FAILED` if the buffer does not exist, is mapped, or is too
/// small for its width, height and format; `OPENUVR_ERROR_ENDED` when the stream has ended. On the thread where the
/// OpenGL context of the pixel buffer is current, outside of `glBegin` and `glEnd`; does not change the OpenGL state.
///
/// # Safety
/// `context` is NULL or a context that is not closed; the address of its pixel buffer's name is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_frame_ready(context: *mut openuvr_context) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            handle.finish_submit(handle.submit_buffer(false))
        })
    }
}

/// Submits the picture in the pixel buffer and waits, for at most a second, until it has been encoded and sent (synchronous
/// mode, paper V-E): the application runs in step with the stream. Returns 1 if the picture was sent, 0 if none is needed
/// now. Otherwise like `openuvr_frame_ready`. On the thread where the OpenGL context of the pixel buffer is current.
///
/// # Safety
/// `context` is NULL or a context that is not closed; the address of its pixel buffer's name is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_frame(context: *mut openuvr_context) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            handle.finish_submit(handle.submit_buffer(true))
        })
    }
}

/// Submits the picture in the back buffer of the current OpenGL context's window (GLX or EGL), without a pixel buffer
/// and without a second copy. Call it before each swap. `width` and `height` are those of the window; with 0 and 0 they
/// are queried, which takes an X server round trip per picture. With `wait` 0, it returns when the read has been queued
/// on the GPU, like `openuvr_frame_ready`; with `wait` 1, when the picture has been encoded and sent, like
/// `openuvr_send_frame`. The return values are those of `openuvr_frame_ready` and `openuvr_send_frame`, respectively.
/// Call `openuvr_release_buffer` or `openuvr_close` before the OpenGL context is destroyed, as for a pixel buffer. On
/// the thread where the OpenGL context is current, outside of `glBegin` and `glEnd`; does not change the OpenGL state.
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
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let size = Size::new(width, height);
            if !size.is_valid() && (width, height) != (0, 0) {
                let why = format!(
                    "invalid window size {size}: each side must be 1 to {}",
                    Size::MAX_SIDE
                );
                return Err(Failure::argument(why));
            }
            let source = Source::Window(Some(size).filter(|size| size.is_valid()));
            handle.finish_submit(handle.submit_gl(|| Ok(source), wait != 0))
        })
    }
}

/// Releases the OpenGL context of the pixel buffer or of `openuvr_capture_gl`, and ends the polling of the buffer. Call
/// this or `openuvr_close` before the context is destroyed or its display closed, because the stream has pictures in the
/// memory of the context. This function copies these pictures, and may wait for an encode. When it returns, no thread of
/// the library uses the context. The stream continues: the next picture may come from another context. Does nothing if
/// no context is in use. Call it on the thread where the context is current: a call on another thread does not free the
/// library's objects in the context, which are then freed only with the context. Do not call it in a callback, where it
/// cannot end the polling.
///
/// # Safety
/// `context` is NULL or a context that is not closed; the OpenGL context is not destroyed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_release_buffer(context: *mut openuvr_context) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            if let Some(started) = handle.running() {
                started.end_polling();
            }
            if let Some(pixels) = lock(&handle.inner.pixels).take() {
                pixels.end();
            }
            Ok(DONE)
        })
    }
}

/// The deadline of a call that starts now; `None` if it does not wait.
fn until(wait: bool) -> Option<Instant> {
    wait.then(|| Instant::now() + WAIT)
}

impl Handle<Host> {
    fn submit_buffer(&self, wait: bool) -> Result<(), SubmitError> {
        let source = || {
            let settings = lock(&self.settings);
            let name = settings.buffer.ok_or_else(|| {
                let why = "this context has no pixel buffer: use openuvr_capture_gl or \
                           openuvr_send_picture";
                Failure::state(why)
            })?;
            Ok(Source::Buffer(name, settings.layout()?))
        };
        self.submit_gl(source, wait)
    }

    fn submit_gl(
        &self,
        source: impl FnOnce() -> Outcome<Source>,
        wait: bool,
    ) -> Result<(), SubmitError> {
        let started = self.started()?;
        started.end_polling();
        started.accept_input();
        let mut reader = lock(&self.inner.pixels);
        let source = source()?;
        if let Err(why) = started.may(started.wanted()) {
            if let Some(reader) = reader.as_mut() {
                reader.poll();
            }
            return Err(why);
        }
        // The same deadline applies to both waits: for the GPU and for the host.
        let until = until(wait);
        match Reader::read(&mut reader, &started.guest, source, until)? {
            SubmitOutcome::Taken(ticket) => started.given(ticket, until),
            SubmitOutcome::UnderWay if wait => {
                let why = "the GPU did not finish the picture within a second";
                Err(started.late(why).into())
            }
            SubmitOutcome::UnderWay => Ok(()),
            SubmitOutcome::Skipped(why @ SkipReason::RingFull) if !wait => {
                Err(SubmitError::LeftOut(why))
            }
            // Like the other delays of a waiting call, this is reported as a timeout, after which the application may
            // continue.
            SubmitOutcome::Skipped(SkipReason::RingFull) => Err(started
                .late("the host returned no buffer for the picture within a second")
                .into()),
            SubmitOutcome::Skipped(why) => Err(unreadable(why, source).into()),
        }
    }

    /// The result of a submitting call or of `openuvr_wants`. Stores the reason for a skipped picture, and logs the
    /// reason if the [`SkipLog`](crate::skip_log::SkipLog) permits it.
    fn finish_submit(&self, given: Result<(), SubmitError>) -> Outcome {
        use OPENUVR_LOG_LEVEL::{OPENUVR_LOG_INFO, OPENUVR_LOG_WARNING};
        let mut skip_log = lock(&self.inner.skip_log);
        let error = match given {
            Ok(()) => {
                skip_log.on_accepted();
                return Ok(1);
            }
            Err(error) => error,
        };
        let now = Instant::now();
        let (level, line) = match error {
            SubmitError::Failed(failure) => {
                let known = !skip_log.should_log(&failure.why, now);
                return Err(Failure { known, ..failure });
            }
            SubmitError::Unwanted(why) => {
                self.set_message(why);
                let line = skip_log.should_log_once(why, now).then(|| why.to_owned());
                (OPENUVR_LOG_INFO, line)
            }
            SubmitError::LeftOut(why) => {
                let why = format!("picture skipped: {why}");
                let line = skip_log.should_log(&why, now).then(|| why.clone());
                self.set_message(why);
                (OPENUVR_LOG_WARNING, line)
            }
        };
        // The callback may be slow, so it is not called under the lock.
        drop(skip_log);
        if let Some(line) = line {
            self.log.write(level, &line);
        }
        Ok(0)
    }
}
