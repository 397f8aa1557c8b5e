//! The windows, and their places, as on a kiosk: a single window fills the display, further ones and dialogs lie above
//! it, centred, and can be moved. The newest has the keyboard focus.

use smithay::reexports::wayland_protocols::xdg::shell::server::xdg_toplevel::State as WindowState;
use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::utils::{Logical, Point, Rectangle, Size};
use smithay::wayland::compositor::with_states;
use smithay::wayland::shell::xdg::{SurfaceCachedState, ToplevelSurface};

use crate::content;

/// A top-level window.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) toplevel: ToplevelSurface,
    /// Whether it has a picture.
    pub(crate) mapped: bool,
    /// Whether its application requested the whole display.
    pub(crate) wants_all: bool,
    pub(crate) full_screen: bool,
    /// Where the user has moved it.
    pub(crate) moved: Option<Point<i32, Logical>>,
    /// Windows have increasing numbers.
    number: u64,
}

impl Window {
    /// Its root surface.
    pub(crate) fn surface(&self) -> &WlSurface {
        self.toplevel.wl_surface()
    }

    /// Its rectangle without shadows, relative to the root surface.
    pub(crate) fn geometry(&self) -> Rectangle<i32, Logical> {
        geometry(self.surface())
    }
}

/// The rectangle of a window or popup without shadows, relative to its root surface.
pub(crate) fn geometry(surface: &WlSurface) -> Rectangle<i32, Logical> {
    with_states(surface, |states| {
        let all = Rectangle::from_size(content::of(states).borrow().logical);
        let mut state = states.cached_state.get::<SurfaceCachedState>();
        let set = state.current().geometry;
        set.filter(|set| set.size.w > 0 && set.size.h > 0)
            .unwrap_or(all)
    })
}

/// All windows, from the lowest to the topmost.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    pub(crate) all: Vec<Window>,
    /// The window that has the keyboard focus while it is visible.
    chosen: Option<WlSurface>,
    /// The number of windows so far.
    made: u64,
}

impl Windows {
    /// Adds a window on top.
    pub(crate) fn add(&mut self, toplevel: ToplevelSurface) {
        self.all.push(Window {
            toplevel,
            mapped: false,
            wants_all: false,
            full_screen: false,
            moved: None,
            number: self.made,
        });
        self.made += 1;
    }

    /// The window with this root surface.
    pub(crate) fn of(&mut self, surface: &WlSurface) -> Option<&mut Window> {
        self.all
            .iter_mut()
            .find(|window| window.surface() == surface)
    }

    /// Whether the window with this index fills the display: the oldest one without a parent, or one that requested it.
    fn fills(&self, index: usize) -> bool {
        let Some(window) = self.all.get(index) else {
            return false;
        };
        // The first one stays as it is when another one comes.
        let alone = |other: &&Window| other.toplevel.parent().is_none();
        let first = self
            .all
            .iter()
            .filter(alone)
            .map(|other| other.number)
            .min();
        window.wants_all || (alone(&window) && first == Some(window.number))
    }

    /// Sets the pending size and state of all windows for a display of `all`, and sends them to configured ones.
    pub(crate) fn arrange(&mut self, all: Size<i32, Logical>, focus: Option<&WlSurface>) {
        for index in 0..self.all.len() {
            let fills = self.fills(index);
            let window = &self.all[index];
            window.toplevel.with_pending_state(|state| {
                // Without a size the window has its own.
                state.size = fills.then_some(all);
                state.bounds = Some(all);
                let mut set = |which, on: bool| {
                    if on {
                        state.states.set(which)
                    } else {
                        state.states.unset(which)
                    }
                };
                set(WindowState::Fullscreen, window.full_screen);
                set(WindowState::Maximized, fills && !window.full_screen);
                set(WindowState::Activated, focus == Some(window.surface()));
            });
            if window.toplevel.is_initial_configure_sent() {
                window.toplevel.send_pending_configure();
            }
        }
    }

    /// The indices of mapped windows in drawing order: those that fill the display without having requested it are the
    /// lowest, and children lie above their parents.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.all.len())
            .filter(|index| self.all[*index].mapped)
            .collect();
        order.sort_by_key(|index| !self.fills(*index) || self.all[*index].full_screen);
        // Each child directly above its parent's group; chains are short, and circles end by the bound.
        for _ in 0..order.len() {
            let below = |order: &[usize]| {
                order.iter().enumerate().find_map(|(at, index)| {
                    let parent = self.all[*index].toplevel.parent()?;
                    let of = order
                        .iter()
                        .position(|other| *self.all[*other].surface() == parent)?;
                    (of > at).then_some((at, of))
                })
            };
            let Some((child, parent)) = below(&order) else {
                break;
            };
            let index = order.remove(child);
            order.insert(parent, index);
        }
        order
    }

    /// The position of a window's geometry on a display of this size.
    pub(crate) fn position(&self, index: usize, all: Size<i32, Logical>) -> Point<i32, Logical> {
        let window = &self.all[index];
        let size = window.geometry().size;
        if let Some(moved) = window.moved.filter(|_| !self.fills(index)) {
            return moved;
        }
        let parent = window.toplevel.parent().and_then(|parent| {
            let of = self
                .all
                .iter()
                .position(|other| *other.surface() == parent)?;
            // A parent of a parent is a rare case, for which the display is as good.
            let at = match self.all[of].moved {
                Some(moved) if !self.fills(of) => moved,
                _ => centred(Rectangle::from_size(all), self.all[of].geometry().size, all),
            };
            Some(Rectangle::new(at, self.all[of].geometry().size))
        });
        centred(parent.unwrap_or(Rectangle::from_size(all)), size, all)
    }

    /// Puts a window on top.
    pub(crate) fn raise(&mut self, surface: &WlSurface) {
        if let Some(at) = self.all.iter().position(|w| w.surface() == surface) {
            let window = self.all.remove(at);
            self.all.push(window);
        }
    }

    /// Chooses the window that has the keyboard focus as long as it is visible.
    pub(crate) fn activate(&mut self, surface: &WlSurface) {
        self.chosen = Some(surface.clone());
    }

    /// The window that should have the keyboard focus: the chosen one, or the topmost.
    pub(crate) fn active(&self) -> Option<&WlSurface> {
        let order = self.order();
        let chosen = order
            .iter()
            .find(|index| self.chosen.as_ref() == Some(self.all[**index].surface()));
        chosen
            .or(order.last())
            .map(|index| self.all[*index].surface())
    }
}

/// The position of a rectangle of `size` centred on `on`, within a display of `all`. Of one that is larger than the
/// display the upper left corner is visible.
fn centred(
    on: Rectangle<i32, Logical>,
    size: Size<i32, Logical>,
    all: Size<i32, Logical>,
) -> Point<i32, Logical> {
    let along = |from: i32, has: i32, takes: i32, all: i32| {
        let middle = i64::from(from) + (i64::from(has) - i64::from(takes)) / 2;
        let last = (i64::from(all) - i64::from(takes)).max(0);
        i32::try_from(middle.clamp(0, last)).unwrap_or(0)
    };
    Point::from((
        along(on.loc.x, on.size.w, size.w, all.w),
        along(on.loc.y, on.size.h, size.h, all.h),
    ))
}
