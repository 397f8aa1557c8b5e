//! Capture from an X display: the whole, a part, or one window even when others cover it.
//!
//! XDamage says when the application has drawn, MIT-SHM brings the rows that changed, XComposite
//! keeps a window's pixels apart from what covers them. Not a screen grabber with a clock: if
//! nothing is drawn, nothing happens. The pointer isn't in the picture: see
//! [`cursor`](super::cursor).
//!
//! Damage is asked for at the level *bounding box*, and subtracted each time it was reported.
//! Raw rectangles would come once per drawing request (thousands for one repaint of a toolkit,
//! queued in the server while the encoder works); *non-empty* carries no rectangle, so that a
//! swap could not be told from a part. A bounding box is one event for a swap, carries its
//! rectangle, and is silent until the box grows, which the subtraction makes up for. Only for a
//! region it is *delta rectangles*: a box around what was drawn on both sides of the region would
//! claim the region, too.
//!
//! Protocols: X11 core, DAMAGE 1.1, Composite 0.4, MIT-SHM 1.2 (`AttachFd`), all of them from
//! `xorgproto`.

pub(super) mod display;
mod find;
mod image;
mod settle;
mod surface;
mod sys;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use x11rb::connection::Connection;
use x11rb::errors::ReplyError;
use x11rb::protocol::Event;
use x11rb::protocol::damage::{ConnectionExt as _, Damage, NotifyEvent, ReportLevel};
use x11rb::protocol::shm::ConnectionExt as _;
use x11rb::protocol::xfixes::ConnectionExt as _;

use self::display::Display;
use self::image::Image;
use self::settle::{Area, Settle};
use self::surface::{News, Surface};
use super::pace::Pace;
use super::{Capture, CaptureError, CaptureEvent, Waker};
use crate::picture::Picture;

pub use self::settle::SettleRule;

/// What to capture.
#[derive(Clone, Debug)]
pub struct Target {
    /// The X display, such as `:0`; `None`: what the environment variable DISPLAY says.
    pub display: Option<String>,
    /// What of it.
    pub what: What,
}

/// What of a display to capture.
#[derive(Clone, Debug)]
pub enum What {
    /// All of it.
    Display,
    /// One window, whether or not others cover it.
    Window(WindowQuery),
    /// A rectangle, in the display's pixels; what lies outside the display is cut off.
    Region {
        /// Its left edge.
        x: i32,
        /// Its upper edge.
        y: i32,
        /// Its sides.
        size: Size,
    },
}

/// Which window to capture.
#[derive(Clone, Debug)]
pub struct WindowQuery {
    /// How it is called.
    pub name: WindowName,
    /// How long to wait until it is there to be seen, such as for an application that starts.
    pub wait: Duration,
}

/// How a window is called.
#[derive(Clone, Debug)]
pub enum WindowName {
    /// Its X id, as `xwininfo` shows it.
    Id(u32),
    /// A part of its title or class, upper and lower case alike; of several, the largest window.
    Text(String),
}

/// Where the captured target lies on its display; shared, since windows move.
#[derive(Clone, Debug)]
pub struct Viewport(Arc<Mutex<(i32, i32, Size)>>);

impl Viewport {
    /// A target at `x`, `y` on the display, in pixels.
    #[must_use]
    pub fn new(x: i32, y: i32, size: Size) -> Viewport {
        Viewport(Arc::new(Mutex::new((x, y, size))))
    }

    /// Its left and upper edge on the display and its size now, in pixels. From any thread.
    #[must_use]
    pub fn now(&self) -> (i32, i32, Size) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has moved. From any thread.
    pub fn set(&self, x: i32, y: i32, size: Size) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (x, y, size);
    }
}

/// How often a picture may fail to be fetched in a row. Each failure means that the target
/// changed between our look at it and the request, and the next look is right.
const FAILURES: u32 = 5;

/// A [`Capture`] of an X display. It owns its connection; dropping it ends all it asked for.
pub struct X11Capture {
    display: Display,
    surface: Surface,
    image: Image,
    damage: Damage,
    settle: Settle,
    rule: SettleRule,
    pace: Pace,
    /// Set if pictures are taken by the clock: the time between them, and when the next is due.
    poll: Option<(Duration, Instant)>,
    waker: Waker,
    viewport: Viewport,
    /// Damage not yet in the picture.
    dirty: Area,
    /// Whether damage was reported since it was last subtracted: until then the server is silent.
    reported: bool,
    /// The last picture's request, and what it covered: reports from before it are old news.
    fetched: Option<(u64, Area)>,
    /// Whether the target is to be looked at again, or only its place.
    remade: bool,
    moved: bool,
    destroyed: bool,
    hidden: bool,
    failures: u32,
}

/// Connects to `target`'s display and begins to capture it. The first call of [`Capture::next`]
/// gives its picture as it is.
///
/// # Errors
/// [`CaptureError`] in one line if the display can't be reached, lacks an extension or isn't a
/// display of 24 bit pixels on this machine, or if the window or region isn't there.
pub fn open(target: &Target) -> Result<X11Capture, CaptureError> {
    open_while(target, &mut || true)
}

/// The same, for a person who may lose patience: while a window is waited for, `goes_on` is asked
/// every few milliseconds, and first when the window was not there at once.
///
/// # Errors
/// As [`open`]; the window isn't there when `goes_on` says no.
pub fn open_while(
    target: &Target,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<X11Capture, CaptureError> {
    X11Capture::open(target, goes_on)
}

impl X11Capture {
    fn open(
        target: &Target,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<X11Capture, CaptureError> {
        let mut needs = vec!["MIT-SHM", "DAMAGE", "XFIXES"];
        if matches!(target.what, What::Window(_)) {
            needs.push("Composite");
        }
        let display = Display::open(target.display.as_deref(), &needs)?;
        check_pixels(&display)?;
        let damage = display.new_id()?;
        let surface = Surface::open(&display, &target.what, goes_on)?;
        let watched = surface.watched(&display);
        let level = match target.what {
            What::Region { .. } => ReportLevel::DELTA_RECTANGLES,
            What::Display | What::Window(_) => ReportLevel::BOUNDING_BOX,
        };
        let begin = || -> Result<(), ReplyError> {
            let conn = &display.conn;
            conn.shm_query_version()?.reply()?;
            conn.xfixes_query_version(5, 0)?.reply()?;
            conn.damage_query_version(1, 1)?.reply()?;
            conn.damage_create(damage, watched, level)?.check()
        };
        begin().map_err(|e| CaptureError(format!("{}: can't watch damage: {e}", display.name)))?;
        let size = surface.size().unwrap_or_default();
        let (x, y) = surface.place().unwrap_or_default();
        let rule = SettleRule::default();
        let mut capture = X11Capture {
            image: Image::new(&display, size)?,
            settle: Settle::new(rule, size),
            rule,
            pace: Pace::unlimited(),
            poll: None,
            waker: Waker::new()?,
            viewport: Viewport::new(x, y, size),
            dirty: Area::whole(size),
            reported: true,
            fetched: None,
            remade: false,
            moved: false,
            destroyed: false,
            hidden: false,
            failures: 0,
            display,
            surface,
            damage,
        };
        capture.settle.damaged(capture.display.now(), capture.dirty);
        Ok(capture)
    }

    /// Where the target lies on the display: left and upper edge and size, in pixels. Up to date
    /// as of the last [`Capture::next`].
    #[must_use]
    pub fn viewport(&self) -> (i32, i32, Size) {
        self.viewport.now()
    }

    /// The same for other threads, always up to date.
    #[must_use]
    pub fn shared_viewport(&self) -> Viewport {
        self.viewport.clone()
    }

    /// Captures at most `fps` frames a second (see [`Pace`]); 0: every one.
    pub fn limit_fps(&mut self, fps: f64) {
        let waits = self.pace.due().is_some();
        self.pace = Pace::new(fps);
        if waits {
            self.pace.offer(self.display.now());
        }
    }

    /// Takes the whole picture `fps` times a second, drawn or not, as screen grabbers do: for
    /// measuring what waiting for the application is worth. Below 0.1 and above 1000: as these.
    pub fn poll(&mut self, fps: f64) {
        let period = Duration::from_secs_f64(1.0 / fps.clamp(0.1, 1000.0));
        self.poll = Some((period, self.display.now()));
    }

    /// Frames that the application drew and that were never captured, because a newer one came
    /// before the cap let them pass.
    #[must_use]
    pub fn superseded(&self) -> u64 {
        self.pace.superseded()
    }

    /// Other constants for the decision when a burst of drawing is a picture.
    pub fn set_settle_rule(&mut self, rule: SettleRule) {
        self.rule = rule;
        let waits = self.settle.due().is_some();
        self.settle = Settle::new(rule, self.image.size());
        if waits {
            self.settle.damaged(self.display.now(), Area::EMPTY);
        }
    }

    /// Takes in every event that has arrived.
    fn hear(&mut self) -> Result<(), CaptureError> {
        loop {
            let event = self.display.conn.poll_for_event();
            let Some(event) = event.map_err(|e| self.display.broke(e))? else {
                return Ok(());
            };
            match &event {
                Event::DamageNotify(e) => self.hear_damage(e),
                Event::Error(e) => tracing::debug!("{}: {e:?}", self.display.name),
                _ => match self.surface.news(&self.display, &event) {
                    Some(News::Moved) => self.moved = true,
                    Some(News::Remade) => self.remade = true,
                    Some(News::Destroyed) => self.destroyed = true,
                    None => {}
                },
            }
        }
    }

    fn hear_damage(&mut self, event: &NotifyEvent) {
        self.reported = true;
        let area = self.surface.touched(event.area);
        if area.is_empty() {
            return;
        }
        // The server says up to which of our requests it had come when it reported.
        if let Some((request, covered)) = self.fetched
            && is_before(event.sequence, request)
            && area.within(covered) == area
        {
            return;
        }
        self.dirty = self.dirty.around(area);
        self.settle.damaged(self.display.now(), area);
    }

    /// Looks at the target again if something has happened to it; what the caller must know.
    fn follow(&mut self) -> Result<Option<CaptureEvent>, CaptureError> {
        if self.destroyed {
            return Ok(Some(CaptureEvent::Ended("window destroyed")));
        }
        if !std::mem::take(&mut self.remade) {
            if std::mem::take(&mut self.moved) {
                self.surface.find_place(&self.display)?;
                self.tell_viewport();
            }
            return Ok(None);
        }
        self.surface.renew(&self.display)?;
        let Some(size) = self.surface.size() else {
            self.pace.cancel();
            self.settle = Settle::new(self.rule, self.image.size());
            self.dirty = Area::EMPTY;
            let first = !std::mem::replace(&mut self.hidden, true);
            return Ok(first.then_some(CaptureEvent::Hidden));
        };
        self.hidden = false;
        self.tell_viewport();
        // All of it is new, and about to be painted.
        self.dirty = Area::whole(size);
        self.fetched = None;
        self.pace.cancel();
        self.settle = Settle::new(self.rule, size);
        self.settle.damaged(self.display.now(), Area::EMPTY);
        if size == self.image.size() {
            return Ok(None);
        }
        let image = Image::new(&self.display, size)?;
        std::mem::replace(&mut self.image, image).release(&self.display);
        Ok(Some(CaptureEvent::Resized(size)))
    }

    fn tell_viewport(&self) {
        if let (Some((x, y)), Some(size)) = (self.surface.place(), self.surface.size()) {
            self.viewport.set(x, y, size);
        }
    }

    /// Brings the damaged rows into the picture. `false` if the target has changed meanwhile.
    fn fetch(&mut self) -> Result<bool, CaptureError> {
        let Some((drawable, origin)) = self.surface.pixels() else {
            self.pace.cancel();
            return Ok(false);
        };
        let whole = Area::whole(self.image.size());
        let covered = Area {
            top: self.dirty.top,
            bottom: self.dirty.bottom,
            ..whole
        }
        .within(whole);
        let row = |n: i32| u16::try_from(n).unwrap_or(0);
        let rows = row(covered.top)..row(covered.bottom);
        if rows.is_empty() {
            self.pace.cancel();
            return Ok(false);
        }
        match self.image.fetch(&self.display, drawable, origin, rows) {
            Ok(request) => {
                self.fetched = Some((request, covered));
                self.dirty = Area::EMPTY;
                self.failures = 0;
                Ok(true)
            }
            Err(ReplyError::X11Error(e)) if self.failures < FAILURES => {
                tracing::debug!("{}: looking at the target again: {e:?}", self.display.name);
                self.failures += 1;
                self.remade = true;
                Ok(false)
            }
            Err(ReplyError::X11Error(e)) => Err(CaptureError(format!(
                "{}: can't read the target's pixels: {e:?}",
                self.display.name
            ))),
            Err(e) => Err(self.display.broke(e)),
        }
    }

    /// Makes the server report the next damage, whatever it covers.
    fn subtract(&mut self) -> Result<(), CaptureError> {
        if std::mem::take(&mut self.reported) {
            self.display
                .conn
                .damage_subtract(self.damage, x11rb::NONE, x11rb::NONE)
                .map_err(|e| self.display.broke(e))?;
        }
        Ok(())
    }
}

impl Capture for X11Capture {
    fn size(&self) -> Size {
        self.image.size()
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError> {
        let until = timeout.map(|span| self.display.now() + span);
        loop {
            if self.waker.lower() {
                return Ok(CaptureEvent::Woken);
            }
            self.hear()?;
            // Travels with the next request for pixels, in front of it.
            self.subtract()?;
            if let Some(event) = self.follow()? {
                return Ok(event);
            }
            let now = self.display.now();
            let has_come = |at: Option<Instant>| at.is_some_and(|at| at <= now);
            if let Some((period, due)) = &mut self.poll {
                if *due <= now {
                    // One that was missed is left out.
                    let next = *due + *period;
                    *due = if next > now { next } else { now + *period };
                    self.dirty = Area::whole(self.image.size());
                    if self.fetch()? {
                        return Ok(CaptureEvent::Frame);
                    }
                    continue;
                }
                let next = until.map_or(*due, |until| until.min(*due));
                if has_come(until) {
                    self.display.flush()?;
                    return Ok(CaptureEvent::TimedOut);
                }
                self.display.wait(Some(self.waker.fd()), Some(next))?;
                continue;
            }
            if has_come(self.settle.due()) {
                self.settle.release(now);
                self.pace.offer(now);
            }
            // A held frame whose time comes while the next is being painted waits for that one.
            if has_come(self.pace.due()) && self.settle.due().is_none() {
                if self.fetch()? {
                    self.pace.take(now);
                    return Ok(CaptureEvent::Frame);
                }
                continue;
            }
            if has_come(until) {
                self.display.flush()?;
                return Ok(CaptureEvent::TimedOut);
            }
            let next = [self.settle.due(), self.pace.due(), until];
            // While the next frame is painted, the held one's time doesn't count.
            let next = match next {
                [Some(settled), _, until] => [Some(settled), None, until],
                other => other,
            };
            let next = next.into_iter().flatten().min();
            self.display.wait(Some(self.waker.fd()), next)?;
        }
    }

    fn picture(&self) -> Option<Picture<'_>> {
        self.image.picture()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

/// Whether 16-bit sequence number `event` is older than `request`, counted around the end.
fn is_before(event: u16, request: u64) -> bool {
    let [low, high, ..] = request.to_le_bytes();
    event.wrapping_sub(u16::from_le_bytes([low, high])) > u16::MAX / 2
}

/// Pixels must be what [`PixelFormat::Bgrx`](crate::picture::PixelFormat::Bgrx) says.
fn check_pixels(display: &Display) -> Result<(), CaptureError> {
    let setup = display.conn.setup();
    let depth = display.screen().root_depth;
    let four_bytes = setup
        .pixmap_formats
        .iter()
        .any(|f| f.depth == depth && f.bits_per_pixel == 32);
    let little = setup.image_byte_order == x11rb::protocol::xproto::ImageOrder::LSB_FIRST;
    if (depth == 24 || depth == 32) && four_bytes && little {
        return Ok(());
    }
    Err(CaptureError(format!(
        "{}: its pixels have depth {depth}; run it with 24 bits a pixel on a little-endian machine",
        display.name
    )))
}

#[cfg(test)]
mod tests {
    use super::is_before;

    #[test]
    fn sequence_numbers_wrap() {
        assert!(is_before(4, 5));
        assert!(!is_before(5, 5));
        assert!(!is_before(6, 5));
        assert!(is_before(65_535, 65_536 + 2));
        assert!(!is_before(2, 65_535));
    }
}
