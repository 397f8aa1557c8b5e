//! Windows of the same application in front of the captured window: menus, tooltips and dialogs. Their pixels are read
//! from the display, in areas that no other application covers.
//!
//! Unlike the captured window, these windows are not redirected. Redirection could close an open menu: a server that
//! changes a window's storage may break the window's grab.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use openuvr_proto::units::Size;
use x11rb::errors::ReplyError;
use x11rb::protocol::Event;
use x11rb::protocol::damage::{ConnectionExt as _, Damage, NotifyEvent, ReportLevel};
use x11rb::protocol::xproto::{
    ConnectionExt as _, GetGeometryReply, ImageFormat, MapState, Window, WindowClass,
};

use super::debounce::Area;
use super::display::Display;
use super::image::Image;
use crate::application::{Application, Atoms, WindowScope};
use crate::capture::CaptureError;
use crate::pixel_layout::PixelLayout;

/// Maximum number of fetched areas. A partially covered menu has a few.
const MAX_AREAS: usize = 64;

/// The windows in front of the captured window.
pub(super) struct Transients {
    atoms: Atoms,
    /// Whether each window in front belongs to the application. The entry of a window is removed when the window is
    /// mapped or unmapped.
    known: HashMap<Window, bool>,
    /// Whether a window has appeared, disappeared or moved.
    stale: bool,
    /// Watches the display while there are transients.
    damage: Option<Damage>,
    /// The disjoint areas of the transients in the picture.
    parts: Vec<Area>,
    /// The pixel layout of the display.
    form: PixelLayout,
}

impl Transients {
    pub(super) fn new(display: &Display) -> Result<Transients, CaptureError> {
        Ok(Transients {
            atoms: Atoms::of(&display.conn).map_err(|e| display.broke(e))?,
            known: HashMap::new(),
            stale: true,
            damage: None,
            parts: Vec::new(),
            form: display.form(display.screen().root_visual)?,
        })
    }

    /// Handles events of the root's children.
    pub(super) fn handle_event(&mut self, display: &Display, event: &Event) {
        let window = match event {
            Event::MapNotify(e) if e.event == display.root() => e.window,
            Event::UnmapNotify(e) if e.event == display.root() => e.window,
            Event::DestroyNotify(e) if e.event == display.root() => e.window,
            Event::ConfigureNotify(e) if e.event == display.root() => {
                self.stale = true;
                return;
            }
            Event::CirculateNotify(_) => {
                self.stale = true;
                return;
            }
            _ => return,
        };
        self.known.remove(&window);
        self.stale = true;
    }

    /// Marks the areas as outdated, because the captured window has moved or was replaced.
    pub(super) fn forget(&mut self) {
        self.stale = true;
    }

    /// Whether [`Transients::renew`] must be called.
    pub(super) fn are_stale(&self) -> bool {
        self.stale
    }

    /// Finds the transients' areas in the picture of `window`. The picture is at `place` on the display. Returns the
    /// changed part of the picture.
    pub(super) fn renew(
        &mut self,
        display: &Display,
        window: Window,
        place: (i32, i32),
        size: Size,
    ) -> Result<Area, CaptureError> {
        self.stale = false;
        let parts = match self.find(display, window, place, size) {
            Ok(parts) => parts,
            // A window was destroyed in the meantime. The event that reports this is queued.
            Err(ReplyError::X11Error(_)) => Vec::new(),
            Err(e) => return Err(display.broke(e)),
        };
        if parts == self.parts {
            return Ok(Area::EMPTY);
        }
        let all = self.parts.iter().chain(&parts);
        let changed = all.fold(Area::EMPTY, |sum, part| sum.around(*part));
        self.parts = parts;
        self.watch(display)?;
        Ok(changed)
    }

    /// Makes the server report damage of the display while there are transients.
    fn watch(&mut self, display: &Display) -> Result<(), CaptureError> {
        let conn = &display.conn;
        let done = match (self.damage, self.parts.is_empty()) {
            (None, false) => {
                let damage = display.new_id()?;
                self.damage = Some(damage);
                let level = ReportLevel::DELTA_RECTANGLES;
                conn.damage_create(damage, display.root(), level)
            }
            (Some(damage), true) => {
                self.damage = None;
                conn.damage_destroy(damage)
            }
            _ => return Ok(()),
        };
        done.map(drop).map_err(|e| display.broke(e))
    }

    /// The part of the picture touched by a report of [`Transients::watch`]; `None` for other events.
    pub(super) fn touched(
        &self,
        display: &Display,
        event: &NotifyEvent,
        place: Option<(i32, i32)>,
    ) -> Option<Area> {
        if event.drawable != display.root() {
            return None;
        }
        if let Some(damage) = self.damage {
            // This request has no reply, so an error is reported at the next use of the connection.
            let _ = (display.conn).damage_subtract(damage, x11rb::NONE, x11rb::NONE);
        }
        let (x, y) = place?;
        let (left, top) = (i32::from(event.area.x) - x, i32::from(event.area.y) - y);
        let drawn = Area {
            left,
            top,
            right: left + i32::from(event.area.width),
            bottom: top + i32::from(event.area.height),
        };
        let parts = self.parts.iter().map(|part| part.within(drawn));
        let parts = parts.filter(|part| !part.is_empty());
        Some(parts.fold(Area::EMPTY, Area::around))
    }

    /// Paints the transients into the area just fetched.
    pub(super) fn paint(
        &self,
        display: &Display,
        place: (i32, i32),
        covered: Area,
        image: &mut Image,
    ) -> Result<(), ReplyError> {
        if self.parts.is_empty() {
            return Ok(());
        }
        let cells = (self.form).cells(&display.conn, display.screen().default_colormap)?;
        for part in &self.parts {
            let part = part.within(covered).within(Area::whole(image.size()));
            if part.is_empty() {
                continue;
            }
            let side = |n: i32| u16::try_from(n).unwrap_or(0);
            let at = |n: i32| i16::try_from(n).unwrap_or(i16::MAX);
            let pixels = display.conn.get_image(
                ImageFormat::Z_PIXMAP,
                display.root(),
                at(part.left + place.0),
                at(part.top + place.1),
                side(part.right - part.left),
                side(part.bottom - part.top),
                !0,
            )?;
            image.write_area(part, &pixels.reply()?.data, (&self.form, cells.as_slice()));
        }
        Ok(())
    }

    fn find(
        &mut self,
        display: &Display,
        window: Window,
        place: (i32, i32),
        size: Size,
    ) -> Result<Vec<Area>, ReplyError> {
        let front = self.in_front(display, window)?;
        if !front.iter().any(|window| self.belongs(*window)) {
            return Ok(Vec::new());
        }
        // The setup has the screen's size at the time of the connection; RandR may have changed it.
        let root = display.conn.get_geometry(display.root())?;
        let mut requested = Vec::new();
        for &window in &front {
            let attributes = display.conn.get_window_attributes(window)?;
            requested.push((window, attributes, display.conn.get_geometry(window)?));
        }
        let root = root.reply()?;
        let screen = Size::new(root.width.into(), root.height.into());
        let seen = at(Area::whole(screen), (-place.0, -place.1)).within(Area::whole(size));
        let mut parts = Vec::new();
        for (window, attributes, geometry) in requested {
            let (Ok(attributes), Ok(geometry)) = (attributes.reply(), geometry.reply()) else {
                continue;
            };
            if attributes.map_state != MapState::VIEWABLE
                || attributes.class != WindowClass::INPUT_OUTPUT
            {
                continue;
            }
            let area = covered(&geometry, place);
            parts = without(&parts, area);
            let area = area.within(seen);
            if self.belongs(window) && !area.is_empty() {
                parts.push(area);
            }
            parts.truncate(MAX_AREAS);
        }
        Ok(parts)
    }

    /// The windows in front of the captured window, lowest first. Also determines whether each of them belongs to the
    /// application.
    fn in_front(&mut self, display: &Display, window: Window) -> Result<Vec<Window>, ReplyError> {
        let conn = &display.conn;
        let application = Application::of(
            conn,
            self.atoms,
            display.root(),
            (window, WindowScope::Transients),
        )?;
        let mut front = conn.query_tree(display.root())?.reply()?.children;
        let own = front.iter().position(|w| *w == application.top());
        front.drain(..=own.unwrap_or(front.len().saturating_sub(1)));
        for &window in &front {
            if let Entry::Vacant(unknown) = self.known.entry(window) {
                unknown.insert(application.has(conn, window)?);
            }
        }
        Ok(front)
    }

    /// Whether a window is known to belong to the application.
    fn belongs(&self, window: Window) -> bool {
        self.known.get(&window) == Some(&true)
    }
}

/// The area of a window, with its border, in the picture at `place`.
fn covered(geometry: &GetGeometryReply, place: (i32, i32)) -> Area {
    let border = 2 * u32::from(geometry.border_width);
    let sides = Size::new(
        u32::from(geometry.width) + border,
        u32::from(geometry.height) + border,
    );
    let corner = (
        i32::from(geometry.x) - place.0,
        i32::from(geometry.y) - place.1,
    );
    at(Area::whole(sides), corner)
}

/// `area` moved by an offset.
fn at(area: Area, (x, y): (i32, i32)) -> Area {
    Area {
        left: area.left + x,
        top: area.top + y,
        right: area.right + x,
        bottom: area.bottom + y,
    }
}

/// The remainder of `parts` outside of `area`.
fn without(parts: &[Area], area: Area) -> Vec<Area> {
    let mut left = Vec::new();
    for part in parts {
        let cut = part.within(area);
        if cut.is_empty() {
            left.push(*part);
            continue;
        }
        let beside = [
            Area {
                bottom: cut.top,
                ..*part
            },
            Area {
                top: cut.bottom,
                ..*part
            },
            Area {
                right: cut.left,
                top: cut.top,
                bottom: cut.bottom,
                ..*part
            },
            Area {
                left: cut.right,
                top: cut.top,
                bottom: cut.bottom,
                ..*part
            },
        ];
        left.extend(beside.into_iter().filter(|part| !part.is_empty()));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn area(left: i32, top: i32, right: i32, bottom: i32) -> Area {
        Area {
            left,
            top,
            right,
            bottom,
        }
    }

    #[test]
    fn covered_areas_are_cut_out() {
        let menu = area(10, 10, 30, 30);
        assert_eq!(without(&[menu], area(30, 10, 40, 30)), [menu]);
        assert_eq!(without(&[menu], area(0, 0, 40, 40)), []);
        let around = without(&[menu], area(15, 15, 20, 20));
        assert_eq!(
            around,
            [
                area(10, 10, 30, 15),
                area(10, 20, 30, 30),
                area(10, 15, 15, 20),
                area(20, 15, 30, 20),
            ]
        );
    }
}
