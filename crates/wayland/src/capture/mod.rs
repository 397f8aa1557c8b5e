//! Capture of an output or a window of a Wayland compositor, driven by its damage reports.
//!
//! The compositor copies the output into this program's shared memory only after it has drawn something. A request for
//! the next picture is outstanding while the newest one is encoded. Three buffers are used in rotation: one for the
//! request, one for the newest picture, and one for a picture that the frame rate limit delays.
//!
//! `ext-image-copy-capture-v1` is used if the compositor has it. This protocol can also capture single windows, and the
//! pointer as a separate stream ([`cursor`](crate::cursor)). With `wlr-screencopy-unstable-v1`, version 3, the pointer
//! can only be drawn into the picture.

mod buffers;
mod compositor;
mod copy;
mod outputs;
mod screencopy;
mod session;
mod turn;

use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;

use self::buffers::Buffers;
pub(super) use self::compositor::pointer::PointerWatch;
use self::session::Session;
use self::turn::{Transform, Turned};
use openuvr_media::capture::pace::Pace;
use openuvr_media::capture::{Capture, CaptureError, CaptureEvent, Waker};
use openuvr_media::damage::Block;
use openuvr_media::picture::Picture;

/// The capture target.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The name or the socket of the display. `None` selects the display in the environment variable `WAYLAND_DISPLAY`.
    pub display: Option<String>,
    /// The name of the output, such as `DP-1`. `None` selects the first output with a mode.
    pub output: Option<String>,
    /// A part of the title or application of the window to capture, ignoring case. `None` selects the whole output.
    pub window: Option<String>,
    /// Whether the compositor draws its pointer into the picture.
    pub pointer: bool,
}

/// Maximum number of consecutive failed copies; with one more, the output counts as hidden. A mode change makes one
/// copy fail.
const FAILURES: u32 = 3;

/// How long to wait before the next copy after a failed copy of a hidden output (guess: for a screen that is switched
/// on, a tenth of a second is soon enough).
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A [`Capture`] of an output or a window. It owns its connection.
pub struct WaylandCapture {
    session: Session,
    buffers: Buffers,
    turned: Turned,
    pace: Pace,
    waker: Waker,
    watched: bool,
    /// The size of the next picture if it has been announced, otherwise that of the last picture.
    size: Size,
    /// The area in which the next picture differs from the newest one; `None` if unknown.
    pending: Option<Block>,
    /// The area in which the newest picture differs from the previous one.
    changed: Option<Block>,
    /// Whether the next copy is made without waiting for damage.
    refresh: bool,
    hidden: bool,
    failures: u32,
    retry_at: Option<Instant>,
}

/// Connects to the display and starts to capture the output. The first frame that [`Capture::next`] reports is the
/// current picture.
///
/// # Errors
/// [`CaptureError`], in one line, if the display cannot be reached, lacks the protocols, or has no such output or
/// window.
pub fn open(target: &Target) -> Result<WaylandCapture, CaptureError> {
    open_while(target, &mut || false)
}

/// Like [`open`], but waits for a missing window while `keep_waiting` returns `true`. `keep_waiting` is called about
/// ten times per second.
///
/// # Errors
/// As for [`open`].
pub fn open_while(
    target: &Target,
    keep_waiting: &mut dyn FnMut() -> bool,
) -> Result<WaylandCapture, CaptureError> {
    let mut session = Session::open(target, keep_waiting)?;
    let size = session.first_size()?;
    if !size.is_valid() {
        let (name, subject) = (&session.compositor.name, session.subject_name());
        let remedy = match target.window {
            Some(_) => "show the window first, or choose another one with --window",
            None => "switch the output on, or choose another one with --output",
        };
        return Err(CaptureError(format!(
            "{name}: the {subject} has no picture: {remedy}"
        )));
    }
    Ok(WaylandCapture {
        session,
        buffers: Buffers::default(),
        turned: Turned::default(),
        pace: Pace::unlimited(),
        waker: Waker::new()?,
        watched: true,
        size,
        pending: None,
        changed: None,
        refresh: true,
        hidden: false,
        failures: 0,
        retry_at: None,
    })
}

impl WaylandCapture {
    /// The output's name.
    #[must_use]
    pub fn output(&self) -> &str {
        self.session.output_name()
    }

    /// The captured output or window, for messages, such as `output DP-1`.
    #[must_use]
    pub fn subject(&self) -> String {
        self.session.subject_name()
    }

    /// Advances the copy in progress. Returns an event if the caller must handle one.
    fn advance(&mut self, now: Instant) -> Result<Option<CaptureEvent>, CaptureError> {
        if self.session.take_switched() {
            // The copy that is in progress belongs to the previous output.
            self.buffers.cancel();
            self.refresh = true;
        }
        if !self.session.has_subject() {
            self.abandon();
            self.pace.cancel();
            return Ok(match self.session.is_window() {
                true => Some(CaptureEvent::Ended("the window was closed")),
                false => self.hide(),
            });
        }
        if self.retry_at.is_some_and(|at| at > now) {
            return Ok(None);
        }
        self.retry_at = None;
        if self.session.is_failed() {
            self.abandon();
            self.failures += 1;
            if self.failures > FAILURES {
                self.retry_at = Some(now + RETRY_INTERVAL);
                self.pace.cancel();
                return Ok(self.hide());
            }
        }
        if let Some(event) = self.complete(now) {
            return Ok(Some(event));
        }
        if self.hidden && self.buffers.has_waiting() {
            self.hidden = false;
            return Ok(Some(CaptureEvent::Shown));
        }
        if self.watched && self.session.is_idle() {
            self.session.request(self.refresh);
        }
        if let Some(form) = self.session.offered() {
            if self.buffers.fit(&self.session.compositor, form)? {
                self.pending = None;
                self.refresh = true;
                self.pace.cancel();
            }
            let (buffer, stale) = self.buffers.lend();
            self.session.copy(buffer, &stale, self.refresh);
            return Ok(self.resize(self.session.transform()));
        }
        Ok(None)
    }

    /// Ends the copy in progress. The next copy does not wait for damage.
    fn abandon(&mut self) {
        self.session.end_copy();
        self.buffers.cancel();
        self.refresh = true;
    }

    /// Takes the finished copy, if there is one. Returns an event if the size of the pictures has changed.
    fn complete(&mut self, now: Instant) -> Option<CaptureEvent> {
        let copied = self.session.take_copied()?;
        self.failures = 0;
        self.refresh = false;
        let turned = copied.transform.unwrap_or(self.session.transform());
        let size = self.buffers.size();
        let clip = |block: &Block| copy::clip(block, size, copied.bottom_up);
        let damage = copied.damage.as_ref().map(clip);
        let joined = |known: &Block| damage.as_ref().map(|new| known.joined(new));
        self.pending = match (self.buffers.has_waiting(), &self.pending) {
            (true, Some(known)) => joined(known),
            (true, None) => None,
            (false, _) => damage.clone(),
        };
        self.buffers.completed(&copied, turned);
        self.pace.offer(now);
        self.resize(turned)
    }

    /// Records the size of the next pictures, which are rotated by `turned`. Returns an event if the size has changed.
    fn resize(&mut self, turned: Transform) -> Option<CaptureEvent> {
        let size = turned.turned(self.buffers.size());
        let changed = std::mem::replace(&mut self.size, size) != size;
        changed.then_some(CaptureEvent::Resized(size))
    }

    fn hide(&mut self) -> Option<CaptureEvent> {
        let first = !std::mem::replace(&mut self.hidden, true);
        first.then_some(CaptureEvent::Hidden)
    }

    /// Makes the waiting picture the newest one, if it is due. Returns whether this has happened.
    fn pass(&mut self, now: Instant) -> bool {
        if !self.watched
            || !self.buffers.has_waiting()
            || self.pace.due().is_none_or(|due| due > now)
        {
            return false;
        }
        self.pace.take(now);
        let known = self.buffers.has_shown();
        self.buffers.show();
        self.changed = self.pending.take().filter(|_| known);
        let transform = self.buffers.transform();
        if !transform.is_normal()
            && let Some(picture) = self.buffers.picture()
        {
            self.turned.turn(&picture, transform);
            self.changed = None;
        }
        true
    }
}

impl Capture for WaylandCapture {
    fn size(&self) -> Size {
        self.size
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError> {
        let until = timeout.map(|span| clock::now() + span);
        loop {
            if self.waker.lower() {
                return Ok(CaptureEvent::Woken);
            }
            self.session.dispatch()?;
            let now = clock::now();
            if let Some(event) = self.advance(now)? {
                return Ok(event);
            }
            // The request is sent now, so that the compositor handles it while the caller encodes.
            self.session.compositor.flush()?;
            if self.pass(now) {
                return Ok(CaptureEvent::Frame);
            }
            if until.is_some_and(|until| until <= now) {
                return Ok(CaptureEvent::TimedOut);
            }
            let due = self.pace.due().filter(|_| self.buffers.has_waiting());
            let next = [due, self.retry_at, until].into_iter().flatten().min();
            self.session.compositor.wait(&self.waker, next)?;
        }
    }

    fn picture(&self) -> Option<Picture<'_>> {
        match self.buffers.transform().is_normal() {
            true => self.buffers.picture(),
            false => self.turned.picture(),
        }
    }

    fn changed(&self) -> Option<Block> {
        self.changed.clone()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn limit_fps(&mut self, fps: f64) {
        self.pace.limit(fps);
    }

    /// Sets whether there are viewers; initially, `true`. When viewers return, older pictures are discarded, so that
    /// the viewers get the current contents.
    fn set_watched(&mut self, watched: bool) {
        if !watched {
            self.abandon();
        }
        if watched && !self.watched {
            self.buffers.forget();
            self.pace.cancel();
            self.pending = None;
            self.refresh = true;
        }
        self.watched = watched;
    }
}
