//! Captures an X display, a region of it, or one window, even while other windows cover that window.
//!
//! XDamage reports drawing, MIT-SHM transfers changed pixels, and XComposite keeps a window's pixels separate from the
//! pixels of windows in front. This is not a periodic screen grabber: while nothing is drawn, no pixels are
//! transferred. The picture does not include the pointer; see [`cursor`](super::cursor).
//!
//! The damage level is *bounding box*, and the damage is subtracted after each report. *Raw rectangles* would arrive
//! once per drawing request (thousands for one repaint of a toolkit, queued in the server while the encoder works).
//! *Non-empty* reports no rectangle, so a swap would look like partial drawing. With a bounding box, a swap is one
//! event with its rectangle. After that event, the server reports nothing until the box grows, so the damage must be
//! subtracted. For a region of the display, the level is *delta rectangles*: a bounding box of drawing to the left and
//! to the right of the region would include the region itself.
//!
//! Protocols: X11 core, DAMAGE 1.1, Composite 0.4, MIT-SHM 1.2 (`AttachFd`), all of them from
//! `xorgproto`.

mod debounce;
pub(super) mod display;
mod find;
mod image;
mod successor;
mod surface;
#[cfg(test)]
mod tests;
mod transients;
mod viewport;

use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use x11rb::connection::Connection;
use x11rb::errors::ReplyError;
use x11rb::protocol::Event;
use x11rb::protocol::damage::{ConnectionExt as _, Damage, NotifyEvent, ReportLevel};
use x11rb::protocol::shm::ConnectionExt as _;
use x11rb::protocol::xfixes::ConnectionExt as _;

use self::debounce::{Area, DamageDebounce};
use self::display::Display;
use self::image::Image;
use self::successor::{Successor, SuccessorState};
use self::surface::{Surface, SurfaceChange};
use self::transients::Transients;
pub use self::viewport::Viewport;
use super::pace::Pace;
use super::{Capture, CaptureError, CaptureEvent, Waker};
use crate::damage::Block;
use crate::picture::Picture;
use crate::pixel_layout::PixelLayout;

/// The capture target.
#[derive(Clone, Debug)]
pub struct Target {
    /// The X display, such as `:0`; `None`: the environment variable DISPLAY.
    pub display: Option<String>,
    /// The captured part.
    pub area: CaptureArea,
}

/// The part of a display to capture.
#[derive(Clone, Debug)]
pub enum CaptureArea {
    /// The complete display.
    Display,
    /// One window, even while other windows cover it.
    Window(WindowQuery),
    /// A rectangle in the display's pixels, clipped to the display.
    Region {
        /// Left edge.
        x: i32,
        /// Upper edge.
        y: i32,
        /// Width and height.
        size: Size,
    },
}

/// The window to capture.
#[derive(Clone, Debug)]
pub struct WindowQuery {
    /// The window's id or text.
    pub name: WindowName,
    /// Maximum wait until the window is viewable, for example while an application starts.
    pub wait: Duration,
}

/// Identifies a window.
#[derive(Clone, Debug)]
pub enum WindowName {
    /// The window's X id, as reported by `xwininfo`.
    Id(u32),
    /// A part of the window's title or class, ignoring case. If several windows match, the largest is captured.
    Text(String),
}

/// Number of consecutive failed fetches that are tolerated. Each failure means that the target changed between the
/// query of its geometry and the request for its pixels; the next query is up to date.
const FAILURES: u32 = 5;

/// A [`Capture`] of an X display. It owns its connection; dropping it frees all server resources.
pub struct X11Capture {
    display: Display,
    surface: Surface,
    /// `None` if the target is not a window.
    transients: Option<Transients>,
    /// `None` if the target is not a window.
    successor: Option<Successor>,
    image: Image,
    damage: Damage,
    debounce: DamageDebounce,
    pace: Pace,
    waker: Waker,
    viewport: Viewport,
    /// Whether there are viewers. Without viewers, damage is neither subtracted nor fetched, so the server soon stops
    /// reporting it.
    watched: bool,
    /// Damage not yet in the picture.
    dirty: Area,
    /// Whether damage has been reported since the last subtraction. After a report, the server reports nothing until
    /// more area is damaged.
    reported: bool,
    /// The area in which the last picture differs from the previous picture; `None` if unknown.
    changed: Option<Block>,
    /// The last fetch's sequence number and area. Earlier reports for this area are outdated.
    fetched: Option<(u64, Area)>,
    /// Whether the target must be queried again (`remade`), or only its position (`moved`).
    remade: bool,
    moved: bool,
    destroyed: bool,
    hidden: bool,
    /// Whether the target was hidden and is visible again, and the caller has not been notified.
    back: bool,
    failures: u32,
}

/// Connects to `target`'s display and starts to capture it. The first call of [`Capture::next`]
/// returns the current picture.
///
/// # Errors
/// [`CaptureError`] in one line if the display can't be reached, lacks an extension, is remote or
/// has an unsupported pixel layout, or if the window or region does not exist.
pub fn open(target: &Target) -> Result<X11Capture, CaptureError> {
    open_while(target, &mut || true)
}

/// Like [`open`], but cancellable. After each unsuccessful search for a window, `goes_on` is called. The searches are
/// 50 ms or less apart.
///
/// # Errors
/// As [`open`], and also if the window has not been found when `goes_on` returns false.
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
        if matches!(target.area, CaptureArea::Window(_)) {
            needs.push("Composite");
        }
        let display = Display::open(target.display.as_deref(), &needs)?;
        let surface = Surface::open(&display, &target.area, goes_on)?;
        let damage = watch(&display, &surface, &target.area)?;
        let transients = (surface.window().is_some()).then(|| Transients::new(&display));
        let transients = transients.transpose()?;
        let successor = (surface.window()).map(|window| Successor::of(&display, window));
        let successor = successor.transpose()?;
        let size = surface.size().unwrap_or_default();
        let (x, y) = surface.position().unwrap_or_default();
        let mut capture = X11Capture {
            image: Image::new(&display, size, form_of(&display, &surface)?)?,
            debounce: DamageDebounce::new(size),
            pace: Pace::unlimited(),
            waker: Waker::new()?,
            viewport: Viewport::new(x, y, size),
            watched: true,
            dirty: Area::whole(size),
            reported: true,
            changed: None,
            fetched: None,
            remade: false,
            moved: false,
            destroyed: false,
            hidden: false,
            back: false,
            failures: 0,
            display,
            surface,
            transients,
            successor,
            damage,
        };
        capture.viewport.set_window(capture.surface.window());
        capture.debounce.damaged(clock::now(), capture.dirty);
        Ok(capture)
    }

    /// The target's position on the display, which [`Capture::next`] keeps up to date. Any thread may read it.
    #[must_use]
    pub fn shared_viewport(&self) -> Viewport {
        self.viewport.clone()
    }

    /// Captures at most `fps` frames per second (see [`Pace`]); 0: no limit.
    pub fn limit_fps(&mut self, fps: f64) {
        self.pace.limit(fps);
    }

    /// Processes all events that have arrived.
    fn drain_events(&mut self) -> Result<(), CaptureError> {
        loop {
            let event = self.display.conn.poll_for_event_with_sequence();
            let Some((event, request)) = event.map_err(|e| self.display.broke(e))? else {
                return Ok(());
            };
            if let Some(transients) = &mut self.transients {
                transients.handle_event(&self.display, &event);
            }
            if let Some(successor) = &mut self.successor {
                successor.handle_event(&self.display, &event);
            }
            match &event {
                Event::DamageNotify(e) if e.damage == self.damage => self.on_damage(e, request),
                Event::DamageNotify(e) => {
                    let place = self.surface.position();
                    let touched = self.transients.as_ref();
                    let touched = touched.and_then(|c| c.touched(&self.display, e, place));
                    if let Some(area) = touched.filter(|area| !area.is_empty()) {
                        self.dirty = self.dirty.around(area);
                        self.debounce.damaged(clock::now(), area);
                    }
                }
                Event::Error(e) => tracing::debug!("{}: {e:?}", self.display.name),
                _ => match self.surface.change_of(&self.display, &event) {
                    Some(SurfaceChange::Moved) => self.moved = true,
                    Some(SurfaceChange::Remade) => self.remade = true,
                    Some(SurfaceChange::Destroyed) => self.destroyed = true,
                    None => {}
                },
            }
        }
    }

    /// Processes a damage report. The server had executed our requests up to `heard` when it
    /// reported the damage.
    fn on_damage(&mut self, event: &NotifyEvent, heard: u64) {
        self.reported = true;
        let area = self.surface.touched(event.area);
        if area.is_empty() {
            return;
        }
        if let Some((request, covered)) = self.fetched
            && heard < request
            && area.within(covered) == area
        {
            return;
        }
        self.dirty = self.dirty.around(area);
        self.debounce.damaged(clock::now(), area);
    }

    /// Queries the target again after a change. Returns the event for the caller.
    fn follow(&mut self) -> Result<Option<CaptureEvent>, CaptureError> {
        if self.destroyed {
            return self.follow_successor();
        }
        if !std::mem::take(&mut self.remade) {
            if std::mem::take(&mut self.moved) {
                self.surface.query_position(&self.display)?;
                self.update_viewport();
                if let Some(transients) = &mut self.transients {
                    transients.forget();
                }
            }
            self.update_transients()?;
            return Ok(None);
        }
        if let Some(transients) = &mut self.transients {
            transients.forget();
        }
        self.surface.renew(&self.display)?;
        let Some(size) = self.surface.size() else {
            self.pace.cancel();
            self.debounce = DamageDebounce::new(self.image.size());
            self.dirty = Area::EMPTY;
            let first = !std::mem::replace(&mut self.hidden, true);
            return Ok(first.then_some(CaptureEvent::Hidden));
        };
        self.back |= std::mem::take(&mut self.hidden);
        self.update_viewport();
        self.forget_all(size);
        // The target will soon be painted.
        self.debounce.damaged(clock::now(), Area::EMPTY);
        let form = form_of(&self.display, &self.surface)?;
        let resized = size != self.image.size();
        if resized || form != *self.image.form() {
            let image = Image::new(&self.display, size, form)?;
            std::mem::replace(&mut self.image, image).release(&self.display);
        }
        Ok(resized.then_some(CaptureEvent::Resized(size)))
    }

    /// If windows have appeared, disappeared or moved, searches again for menus and dialogs in front of the window.
    fn update_transients(&mut self) -> Result<(), CaptureError> {
        let (Some(place), Some(size)) = (self.surface.position(), self.surface.size()) else {
            return Ok(());
        };
        let (Some(window), Some(transients)) = (self.surface.window(), &mut self.transients) else {
            return Ok(());
        };
        if transients.are_stale() {
            let changed = transients.renew(&self.display, window, place, size)?;
            if !changed.is_empty() {
                self.dirty = self.dirty.around(changed);
                self.debounce.damaged(clock::now(), changed);
            }
        }
        Ok(())
    }

    /// Switches to the window that replaces the destroyed one, or ends the capture if there is none.
    fn follow_successor(&mut self) -> Result<Option<CaptureEvent>, CaptureError> {
        let Some(successor) = &mut self.successor else {
            return Ok(Some(CaptureEvent::Ended("window destroyed")));
        };
        match successor.search(&self.display)? {
            SuccessorState::Pending if !std::mem::replace(&mut self.hidden, true) => {
                self.forget_all(self.image.size());
                self.dirty = Area::EMPTY;
                Ok(Some(CaptureEvent::Hidden))
            }
            SuccessorState::Pending => Ok(None),
            SuccessorState::Absent => Ok(Some(CaptureEvent::Ended("window destroyed"))),
            SuccessorState::Window(window) => {
                if !self.surface.becomes(&self.display, window)? {
                    return Ok(None);
                }
                *successor = Successor::of(&self.display, window)?;
                self.damage = self.display.new_id()?;
                let level = ReportLevel::BOUNDING_BOX;
                let created = self.display.conn.damage_create(self.damage, window, level);
                created.map_err(|e| self.display.broke(e))?;
                self.reported = true;
                self.destroyed = false;
                self.remade = true;
                Ok(None)
            }
        }
    }

    /// Makes the next fetch read the complete target, which has this size. Discards waiting frames.
    fn forget_all(&mut self, size: Size) {
        self.dirty = Area::whole(size);
        self.fetched = None;
        self.pace.cancel();
        self.debounce = DamageDebounce::new(size);
    }

    fn update_viewport(&self) {
        if let (Some((x, y)), Some(size)) = (self.surface.position(), self.surface.size()) {
            self.viewport.set(x, y, size);
        }
        self.viewport.set_window(self.surface.window());
    }

    /// Fetches damaged areas into the picture. `false` if there is nothing to fetch, or if the target has changed in
    /// the meantime.
    fn fetch(&mut self) -> Result<bool, CaptureError> {
        let (Some((drawable, origin)), Some((_, colormap))) =
            (self.surface.pixels(), self.surface.visual())
        else {
            self.pace.cancel();
            return Ok(false);
        };
        let covered = self.dirty.within(Area::whole(self.image.size()));
        let Some(block) = covered.block().filter(|_| !covered.is_empty()) else {
            self.pace.cancel();
            return Ok(false);
        };
        let known = self.image.picture().is_some();
        let from = (drawable, colormap);
        match self.image.fetch(&self.display, from, origin, &block) {
            Ok(request) => {
                self.paint_transients(covered)?;
                self.changed = known.then_some(block);
                self.fetched = Some((request, covered));
                self.dirty = Area::EMPTY;
                self.failures = 0;
                Ok(true)
            }
            Err(ReplyError::X11Error(e)) if self.failures < FAILURES => {
                tracing::debug!(
                    "{}: querying the target again after an error: {e:?}",
                    self.display.name
                );
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

    /// Paints menus and dialogs into the area just fetched.
    fn paint_transients(&mut self, covered: Area) -> Result<(), CaptureError> {
        let (Some(transients), Some(place)) = (&mut self.transients, self.surface.position())
        else {
            return Ok(());
        };
        match transients.paint(&self.display, place, covered, &mut self.image) {
            // The display has been resized in the meantime, so the transients must be found again.
            Err(ReplyError::X11Error(_)) => transients.forget(),
            painted => painted.map_err(|e| self.display.broke(e))?,
        }
        Ok(())
    }

    /// Makes the server report the next damage, regardless of its area.
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

/// The next action.
enum Step {
    /// A new picture is available.
    Frame,
    /// No picture yet, but events may have arrived in the meantime.
    Again,
    /// Wait for the server, at most until this time; `None`: no limit.
    Wait(Option<Instant>),
}

impl X11Capture {
    /// Captures a picture, if one is due.
    fn step(&mut self, now: Instant) -> Result<Step, CaptureError> {
        if self.destroyed {
            return Ok(Step::Wait(Some(now + successor::POLL_INTERVAL)));
        }
        if !self.watched {
            return Ok(Step::Wait(None));
        }
        let has_come = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if has_come(self.debounce.due()) {
            self.debounce.release(now);
            self.pace.offer(now);
        }
        // If a waiting frame becomes due while the next frame is being painted, the next frame replaces it.
        if has_come(self.pace.due()) && self.debounce.due().is_none() {
            if !self.fetch()? {
                return Ok(Step::Again);
            }
            self.pace.take(now);
            return Ok(Step::Frame);
        }
        // While the next frame is being painted, the waiting frame's due time is ignored.
        Ok(Step::Wait(self.debounce.due().or(self.pace.due())))
    }
}

fn form_of(display: &Display, surface: &Surface) -> Result<PixelLayout, CaptureError> {
    let visual = surface.visual().map(|(visual, _)| visual);
    display.form(visual.unwrap_or(display.screen().root_visual))
}

/// Makes the server report damage of the captured surface.
fn watch(display: &Display, surface: &Surface, area: &CaptureArea) -> Result<u32, CaptureError> {
    let damage = display.new_id()?;
    let level = match area {
        CaptureArea::Region { .. } => ReportLevel::DELTA_RECTANGLES,
        CaptureArea::Display | CaptureArea::Window(_) => ReportLevel::BOUNDING_BOX,
    };
    let begin = || -> Result<(), ReplyError> {
        let conn = &display.conn;
        conn.shm_query_version()?.reply()?;
        conn.xfixes_query_version(5, 0)?.reply()?;
        conn.damage_query_version(1, 1)?.reply()?;
        conn.damage_create(damage, surface.watched(display), level)?
            .check()
    };
    begin().map_err(|e| CaptureError(format!("{}: can't watch damage: {e}", display.name)))?;
    Ok(damage)
}

impl Capture for X11Capture {
    fn limit_fps(&mut self, fps: f64) {
        X11Capture::limit_fps(self, fps);
    }

    fn size(&self) -> Size {
        self.image.size()
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError> {
        let until = timeout.map(|span| clock::now() + span);
        loop {
            if self.waker.lower() {
                return Ok(CaptureEvent::Woken);
            }
            self.drain_events()?;
            if self.watched {
                // This request is sent together with the next request for pixels, and precedes it.
                self.subtract()?;
            }
            if std::mem::take(&mut self.back) {
                return Ok(CaptureEvent::Shown);
            }
            let changed = self.moved || self.remade || self.destroyed;
            let stale = self.transients.as_ref().is_some_and(Transients::are_stale);
            if changed || (stale && self.surface.size().is_some()) {
                if let Some(event) = self.follow()? {
                    return Ok(event);
                }
                if !self.destroyed {
                    // Events may have arrived with the replies. Such events do not make the socket readable.
                    continue;
                }
            }
            let now = clock::now();
            let next = match self.step(now)? {
                Step::Frame => return Ok(CaptureEvent::Frame),
                Step::Again => continue,
                Step::Wait(next) => next,
            };
            if until.is_some_and(|until| until <= now) {
                self.display.flush()?;
                return Ok(CaptureEvent::TimedOut);
            }
            let next = next.into_iter().chain(until).min();
            self.display.wait([Some(self.waker.fd()), None], next)?;
        }
    }

    fn picture(&self) -> Option<Picture<'_>> {
        self.image.picture()
    }

    fn changed(&self) -> Option<Block> {
        self.changed.clone()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// A source counts as watched by default. The first viewer gets the current contents: an older picture is
    /// discarded, and [`Capture::next`] returns a new picture even if nothing is drawn.
    fn set_watched(&mut self, watched: bool) {
        let begins = watched && !self.watched;
        self.watched = watched;
        if begins && let Some(size) = self.surface.size() {
            self.image.forget();
            self.forget_all(size);
            self.debounce.damaged(clock::now(), self.dirty);
        }
    }
}
