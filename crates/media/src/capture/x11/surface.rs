//! The captured surface: the location of its pixels, its size, and its position on the display.

use openuvr_proto::units::Size;
use x11rb::connection::Connection;
use x11rb::errors::ReplyError;
use x11rb::protocol::Event;
use x11rb::protocol::composite::{ConnectionExt as _, Redirect};
use x11rb::protocol::xproto::{
    ChangeWindowAttributesAux, Colormap, ConnectionExt as _, Drawable, EventMask, MapState, Pixmap,
    Rectangle, Visualid, Window,
};

use super::debounce::Area;
use super::display::Display;
use super::{CaptureArea, find};
use crate::capture::CaptureError;

/// The bit in an event's type that marks an event sent by another client (X protocol, `SendEvent`).
const SENT: u8 = 0x80;

/// The display, a region of it, or a window's pixmap.
pub(super) struct Surface {
    kind: Kind,
    /// `None` while the surface is not viewable.
    shown: Option<SurfaceGeometry>,
}

enum Kind {
    /// The root window, or a region of it.
    Root { part: Option<Area> },
    Window {
        id: Window,
        /// The window's ancestor among the root's children: the window manager's frame, or the
        /// window itself.
        top: Window,
        /// The storage that XComposite keeps for the window, even while other windows cover it. Valid until the window
        /// is resized or mapped again.
        pixmap: Option<Pixmap>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct SurfaceGeometry {
    drawable: Drawable,
    /// The position of the picture's first pixel in the drawable.
    origin: (i16, i16),
    /// The position of the picture's first pixel on the display.
    place: (i32, i32),
    size: Size,
    /// The visual and colour map of the surface's pixels.
    visual: Visualid,
    colormap: Colormap,
}

/// The effect of an X event on the surface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SurfaceChange {
    /// Only the surface's position on the display has changed.
    Moved,
    /// The location or size of the surface's pixels has changed, or the surface was mapped or unmapped. Requires
    /// [`Surface::renew`].
    Remade,
    /// The surface was destroyed.
    Destroyed,
}

impl Surface {
    /// Finds the target and selects its events. Waits for a window while `goes_on` returns true.
    pub(super) fn open(
        display: &Display,
        area: &CaptureArea,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Surface, CaptureError> {
        let kind = match area {
            CaptureArea::Display => Kind::Root { part: None },
            CaptureArea::Region { x, y, size } => {
                let whole = Area::whole(*size);
                Kind::Root {
                    part: Some(Area {
                        left: *x,
                        top: *y,
                        right: whole.right.saturating_add(*x),
                        bottom: whole.bottom.saturating_add(*y),
                    }),
                }
            }
            CaptureArea::Window(query) => {
                let id = find::window(display, query, goes_on)?;
                Kind::Window {
                    id,
                    top: id,
                    pixmap: None,
                }
            }
        };
        let mut surface = Surface { kind, shown: None };
        surface
            .subscribe(display)
            .map_err(|e| surface.cannot(display, &e))?;
        surface.renew(display)?;
        if surface.shown.is_none() {
            return Err(surface.cannot(display, &"no part of the captured area is visible"));
        }
        Ok(surface)
    }

    fn cannot(&self, display: &Display, why: &dyn std::fmt::Display) -> CaptureError {
        let name = &display.name;
        let screen = display.screen();
        let of = (screen.width_in_pixels, screen.height_in_pixels);
        CaptureError(match self.kind {
            Kind::Root { part: None } => format!("{name}: can't capture the display: {why}"),
            Kind::Root { part: Some(a) } => format!(
                "{name}: can't capture the region at {},{}: {why}; the display is {}x{}",
                a.left, a.top, of.0, of.1
            ),
            Kind::Window { id, .. } => format!("{name}: can't capture window {id:#x}: {why}"),
        })
    }

    fn subscribe(&self, display: &Display) -> Result<(), ReplyError> {
        let conn = &display.conn;
        let select = |window, mask| {
            let aux = ChangeWindowAttributesAux::new().event_mask(mask);
            conn.change_window_attributes(window, &aux)?.check()
        };
        match self.kind {
            // RandR reports the root's new size as a core event, too.
            Kind::Root { .. } => select(display.root(), EventMask::STRUCTURE_NOTIFY),
            Kind::Window { id, .. } => {
                // Selects events of the root's children, because a window manager moves and unmaps its frame, not the
                // window.
                select(display.root(), EventMask::SUBSTRUCTURE_NOTIFY)?;
                select(id, EventMask::STRUCTURE_NOTIFY)?;
                conn.composite_query_version(0, 4)?.reply()?;
                conn.composite_redirect_window(id, Redirect::AUTOMATIC)?
                    .check()
            }
        }
    }

    /// The window whose damage is watched.
    pub(super) fn watched(&self, display: &Display) -> Window {
        match self.kind {
            Kind::Root { .. } => display.root(),
            Kind::Window { id, .. } => id,
        }
    }

    /// The window, if the target is a window.
    pub(super) fn window(&self) -> Option<Window> {
        match self.kind {
            Kind::Root { .. } => None,
            Kind::Window { id, .. } => Some(id),
        }
    }

    /// Switches to another window after the old one was destroyed. [`Surface::renew`] must then be called. Returns
    /// `false` if the new window is destroyed, too.
    pub(super) fn becomes(
        &mut self,
        display: &Display,
        window: Window,
    ) -> Result<bool, CaptureError> {
        let old = std::mem::replace(
            &mut self.kind,
            Kind::Window {
                id: window,
                top: window,
                pixmap: None,
            },
        );
        if let Kind::Window {
            pixmap: Some(pixmap),
            ..
        } = old
        {
            let _ = display.conn.free_pixmap(pixmap);
        }
        self.shown = None;
        match self.subscribe(display) {
            Ok(()) => Ok(true),
            Err(ReplyError::X11Error(_)) => Ok(false),
            Err(e) => Err(display.broke(e)),
        }
    }

    /// The effect of `event`; `None` if it has no effect.
    pub(super) fn change_of(&self, display: &Display, event: &Event) -> Option<SurfaceChange> {
        let (id, top) = match self.kind {
            Kind::Root { .. } => (display.root(), display.root()),
            Kind::Window { id, top, .. } => (id, top),
        };
        let ours = |window| window == id || window == top;
        match event {
            Event::DestroyNotify(e) if e.window == id => Some(SurfaceChange::Destroyed),
            Event::ConfigureNotify(e) if e.window == id => {
                let size = Size::new(e.width.into(), e.height.into());
                let root = matches!(self.kind, Kind::Root { .. });
                // A window's storage includes its border, so the storage is replaced when the border changes. An event
                // that a window manager has sent may state any border.
                let border = (!root && e.response_type & SENT == 0).then_some(e.border_width);
                let keeps = |border: u16| {
                    (self.shown).is_some_and(|s| i16::try_from(border) == Ok(s.origin.0))
                };
                let same = self.shown.is_some_and(|s| s.size == size) && border.is_none_or(keeps);
                // The size of a region of the display changes only if the display's edge cuts the region.
                Some(if same || (root && self.unclipped(size)) {
                    SurfaceChange::Moved
                } else {
                    SurfaceChange::Remade
                })
            }
            Event::ConfigureNotify(e) if e.window == top => Some(SurfaceChange::Moved),
            Event::ReparentNotify(e) if e.window == id => Some(SurfaceChange::Remade),
            Event::MapNotify(e) if ours(e.window) => Some(SurfaceChange::Remade),
            Event::UnmapNotify(e) if ours(e.window) => Some(SurfaceChange::Remade),
            _ => None,
        }
    }

    fn unclipped(&self, display_size: Size) -> bool {
        let Kind::Root { part: Some(part) } = self.kind else {
            return false;
        };
        let cut = part.within(Area::whole(display_size));
        cut == part
            && self
                .shown
                .is_some_and(|s| Area::whole(s.size) == at_origin(part))
    }

    /// Queries the location of the surface's pixels, after [`SurfaceChange::Remade`].
    pub(super) fn renew(&mut self, display: &Display) -> Result<(), CaptureError> {
        let looked = match &mut self.kind {
            Kind::Root { part } => query_root(display, *part),
            Kind::Window { id, top, pixmap } => {
                if let Some(old) = pixmap.take() {
                    let _ = display.conn.free_pixmap(old);
                }
                query_window(display, *id, top, pixmap)
            }
        };
        self.shown = match looked {
            Ok(shown) => shown,
            // The window has changed again or was destroyed during the query. The event that reports this is queued.
            Err(ReplyError::X11Error(_)) => None,
            Err(e) => return Err(display.broke(e)),
        };
        Ok(())
    }

    /// Queries the surface's position on the display, after [`SurfaceChange::Moved`].
    pub(super) fn query_position(&mut self, display: &Display) -> Result<(), CaptureError> {
        if let (Kind::Window { id, .. }, Some(shown)) = (&self.kind, &mut self.shown) {
            match position_of(display, *id) {
                Ok(place) => shown.place = place,
                Err(ReplyError::X11Error(_)) => {}
                Err(e) => return Err(display.broke(e)),
            }
        }
        Ok(())
    }

    /// The picture's size; `None` while the surface is not viewable.
    pub(super) fn size(&self) -> Option<Size> {
        self.shown.map(|s| s.size)
    }

    /// The drawable, and the position of the picture's first pixel in it.
    pub(super) fn pixels(&self) -> Option<(Drawable, (i16, i16))> {
        self.shown.map(|s| (s.drawable, s.origin))
    }

    /// The visual and colour map of the surface's pixels.
    pub(super) fn visual(&self) -> Option<(Visualid, Colormap)> {
        self.shown.map(|s| (s.visual, s.colormap))
    }

    /// The position of the picture's first pixel on the display.
    pub(super) fn position(&self) -> Option<(i32, i32)> {
        self.shown.map(|s| s.place)
    }

    /// The part of the picture touched by damage to the watched window.
    pub(super) fn touched(&self, damage: Rectangle) -> Area {
        let Some(shown) = self.shown else {
            return Area::EMPTY;
        };
        // Damage is relative to the watched window. If the target is a window, its picture has the same origin.
        let (x, y) = match self.kind {
            Kind::Root { .. } => shown.place,
            Kind::Window { .. } => (0, 0),
        };
        let left = i32::from(damage.x) - x;
        let top = i32::from(damage.y) - y;
        Area {
            left,
            top,
            right: left + i32::from(damage.width),
            bottom: top + i32::from(damage.height),
        }
        .within(Area::whole(shown.size))
    }
}

fn at_origin(area: Area) -> Area {
    Area {
        left: 0,
        top: 0,
        right: area.right - area.left,
        bottom: area.bottom - area.top,
    }
}

fn query_root(
    display: &Display,
    part: Option<Area>,
) -> Result<Option<SurfaceGeometry>, ReplyError> {
    let root = display.root();
    let now = display.conn.get_geometry(root)?.reply()?;
    let whole = Area::whole(Size::new(now.width.into(), now.height.into()));
    let cut = part.unwrap_or(whole).within(whole);
    if cut.is_empty() {
        return Ok(None);
    }
    // A program may have installed its own colour map.
    let installed = display.conn.list_installed_colormaps(root)?.reply()?;
    let colormap = installed.cmaps.first().copied();
    // The root's sides fit in 16 bits, so the corner's coordinates do, too.
    let corner = |n| i16::try_from(n).unwrap_or(i16::MAX);
    Ok(Some(SurfaceGeometry {
        drawable: root,
        origin: (corner(cut.left), corner(cut.top)),
        place: (cut.left, cut.top),
        size: Size::new(
            (cut.right - cut.left).unsigned_abs(),
            (cut.bottom - cut.top).unsigned_abs(),
        ),
        visual: display.screen().root_visual,
        colormap: colormap.unwrap_or(display.screen().default_colormap),
    }))
}

fn query_window(
    display: &Display,
    id: Window,
    top: &mut Window,
    pixmap: &mut Option<Pixmap>,
) -> Result<Option<SurfaceGeometry>, ReplyError> {
    let conn = &display.conn;
    *top = top_of(display, id)?;
    let attributes = conn.get_window_attributes(id)?.reply()?;
    if attributes.map_state != MapState::VIEWABLE {
        return Ok(None);
    }
    let Ok(named) = conn.generate_id() else {
        return Ok(None);
    };
    conn.composite_name_window_pixmap(id, named)?.check()?;
    *pixmap = Some(named);
    let border = conn.get_geometry(id)?.reply()?.border_width;
    // The pixmap's size is queried, because the window's size may have changed. The pixmap includes the border.
    let now = conn.get_geometry(named)?.reply()?;
    let inner = |side: u16| u32::from(side.saturating_sub(2 * border));
    let border = i16::try_from(border).unwrap_or(0);
    Ok(Some(SurfaceGeometry {
        drawable: named,
        origin: (border, border),
        place: position_of(display, id)?,
        size: Size::new(inner(now.width), inner(now.height)),
        visual: attributes.visual,
        colormap: attributes.colormap,
    }))
}

fn position_of(display: &Display, id: Window) -> Result<(i32, i32), ReplyError> {
    let at = display
        .conn
        .translate_coordinates(id, display.root(), 0, 0)?
        .reply()?;
    Ok((at.dst_x.into(), at.dst_y.into()))
}

/// The ancestor of `id` that is a child of the root.
fn top_of(display: &Display, id: Window) -> Result<Window, ReplyError> {
    let mut window = id;
    loop {
        let parent = display.conn.query_tree(window)?.reply()?.parent;
        if parent == display.root() || parent == x11rb::NONE {
            return Ok(window);
        }
        window = parent;
    }
}
