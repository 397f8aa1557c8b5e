//! The windows and their positions. As on a kiosk, the first window fills the display, and so does each window that
//! requests it. Other windows and dialogs lie above it, centred, and can be moved. The keyboard focus goes to the
//! newest window, or to another one that the user clicks or that requests the focus.

use smithay::reexports::wayland_protocols::xdg::shell::server::xdg_toplevel::State as WindowState;
use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::utils::{Logical, Point, Rectangle, Size};
use smithay::wayland::compositor::with_states;
use smithay::wayland::shell::xdg::{SurfaceCachedState, ToplevelSurface};

use crate::content;
use crate::xwayland::wire::{About, Placement, WindowId};

/// The kind of window.
#[derive(Debug)]
pub(crate) enum Role {
    /// A toplevel of xdg_shell.
    Xdg(ToplevelSurface),
    /// A window of an X11 application.
    X11(X11Window),
}

/// A managed window of an X11 application.
#[derive(Debug)]
pub(crate) struct X11Window {
    pub(crate) id: WindowId,
    /// The surface with the window's pixels, after the window has been mapped.
    pub(crate) surface: Option<WlSurface>,
    pub(crate) about: About,
    /// The window's position and size.
    pub(crate) place: Rectangle<i32, Logical>,
}

/// An X11 window that places itself (override-redirect): a menu, a tooltip, an old game.
#[derive(Debug)]
pub(crate) struct OverrideWindow {
    pub(crate) id: WindowId,
    pub(crate) surface: Option<WlSurface>,
    pub(crate) place: Rectangle<i32, Logical>,
}

/// A top-level window.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) role: Role,
    /// Whether the window has a picture.
    pub(crate) mapped: bool,
    /// Whether the application requested the whole display for the window.
    pub(crate) wants_all: bool,
    pub(crate) full_screen: bool,
    /// The position to which the user has moved the window.
    pub(crate) moved: Option<Point<i32, Logical>>,
    /// Whether the window has its own position although it fills the display, for a conformance suite.
    #[cfg(feature = "conformance")]
    pub(crate) floats: bool,
    /// The window's serial number. A newer window has a higher number.
    number: u64,
}

impl Window {
    /// The window's root surface. An X11 window has none before it is mapped.
    pub(crate) fn surface(&self) -> Option<&WlSurface> {
        match &self.role {
            Role::Xdg(toplevel) => Some(toplevel.wl_surface()),
            Role::X11(window) => window.surface.as_ref(),
        }
    }

    /// The toplevel of xdg_shell.
    pub(crate) fn toplevel(&self) -> Option<&ToplevelSurface> {
        match &self.role {
            Role::Xdg(toplevel) => Some(toplevel),
            Role::X11(_) => None,
        }
    }

    /// The window of an X11 application.
    pub(crate) fn x11(&self) -> Option<&X11Window> {
        match &self.role {
            Role::Xdg(_) => None,
            Role::X11(window) => Some(window),
        }
    }

    /// The window's rectangle without shadows, relative to the root surface.
    pub(crate) fn geometry(&self) -> Rectangle<i32, Logical> {
        match &self.role {
            Role::Xdg(toplevel) => geometry(toplevel.wl_surface()),
            Role::X11(window) => Rectangle::from_size(window.place.size),
        }
    }

    /// Whether the window accompanies no other window.
    fn is_alone(&self) -> bool {
        match &self.role {
            Role::Xdg(toplevel) => toplevel.parent().is_none(),
            Role::X11(window) => !window.about.accompanies,
        }
    }

    fn is_parent_of(&self, child: &Window) -> bool {
        match (&self.role, &child.role) {
            (Role::Xdg(toplevel), Role::Xdg(child)) => {
                child.parent().as_ref() == Some(toplevel.wl_surface())
            }
            (Role::X11(window), Role::X11(child)) => child.about.parent == Some(window.id),
            _ => false,
        }
    }

    /// Whether the window accepts the keyboard focus.
    fn takes_focus(&self) -> bool {
        self.x11().is_none_or(|window| window.about.takes_focus)
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
    /// Windows that position themselves and lie above all others, from the oldest to the newest.
    pub(crate) overrides: Vec<OverrideWindow>,
    /// The window that has the keyboard focus while it is visible.
    chosen: Option<WlSurface>,
    /// The number of windows that have been added so far.
    made: u64,
}

impl Windows {
    pub(crate) fn add(&mut self, role: Role) {
        self.all.push(Window {
            role,
            mapped: false,
            wants_all: false,
            full_screen: false,
            moved: None,
            #[cfg(feature = "conformance")]
            floats: false,
            number: self.made,
        });
        self.made += 1;
    }

    /// The window with this root surface.
    pub(crate) fn of(&mut self, surface: &WlSurface) -> Option<&mut Window> {
        self.all
            .iter_mut()
            .find(|window| window.surface() == Some(surface))
    }

    pub(crate) fn x11(&mut self, id: WindowId) -> Option<&mut Window> {
        self.all
            .iter_mut()
            .find(|window| window.x11().is_some_and(|window| window.id == id))
    }

    /// The index of the window's parent.
    fn parent(&self, index: usize) -> Option<usize> {
        let child = &self.all[index];
        self.all
            .iter()
            .position(|window| window.is_parent_of(child))
    }

    /// Whether the window with this index fills the display. The oldest window without a parent does, and so does any
    /// window that requested it.
    fn fills(&self, index: usize) -> bool {
        let Some(window) = self.all.get(index) else {
            return false;
        };
        // The first window still fills the display when another one is added.
        let alone = self.all.iter().filter(|other| other.is_alone());
        let first = alone.map(|other| other.number).min();
        window.wants_all || (window.is_alone() && first == Some(window.number))
    }

    /// Sets the pending size and state of all windows for a display of size `all`. Sends them to windows that have
    /// already been configured.
    pub(crate) fn arrange(&mut self, all: Size<i32, Logical>, focus: Option<&WlSurface>) {
        for index in 0..self.all.len() {
            let fills = self.fills(index);
            let size = self.x11_size(index, all);
            let at = self.position_of(index, size, all);
            let window = &mut self.all[index];
            let toplevel = match &mut window.role {
                Role::Xdg(toplevel) => toplevel,
                Role::X11(window) => {
                    window.place = Rectangle::new(at, size);
                    continue;
                }
            };
            toplevel.with_pending_state(|state| {
                // If no size is set, the window chooses its own.
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
                set(WindowState::Activated, focus == Some(toplevel.wl_surface()));
            });
            if toplevel.is_initial_configure_sent() {
                toplevel.send_pending_configure();
            }
        }
    }

    /// The size of an X11 window on a display of this size; zero for a window of xdg_shell.
    fn x11_size(&self, index: usize, all: Size<i32, Logical>) -> Size<i32, Logical> {
        let window = &self.all[index];
        let Some(X11Window { about, .. }) = window.x11() else {
            return Size::default();
        };
        if window.full_screen {
            return all;
        }
        about.limits.nearest(match self.fills(index) {
            true => all,
            false => Size::from((about.size.w.min(all.w), about.size.h.min(all.h))),
        })
    }

    /// The indices of mapped windows in drawing order. Windows that fill the display but are not full-screen are the
    /// lowest, and children lie above their parents.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.all.len())
            .filter(|index| self.all[*index].mapped)
            .collect();
        order.sort_by_key(|index| !self.fills(*index) || self.all[*index].full_screen);
        // Moves each child that lies below its parent to directly above the parent. Chains of parents are short, and
        // the limit on the iterations ends cycles.
        for _ in 0..order.len() {
            let below = |order: &[usize]| {
                order.iter().enumerate().find_map(|(at, index)| {
                    let parent = self.parent(*index)?;
                    let of = order.iter().position(|other| *other == parent)?;
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
        self.position_of(index, self.all[index].geometry().size, all)
    }

    /// Like `position`, for a window that is about to have this size.
    fn position_of(
        &self,
        index: usize,
        size: Size<i32, Logical>,
        all: Size<i32, Logical>,
    ) -> Point<i32, Logical> {
        let window = &self.all[index];
        let fills = self.fills(index);
        #[cfg(feature = "conformance")]
        let fills = fills && !window.floats;
        if let Some(moved) = window.moved.filter(|_| !fills) {
            return moved;
        }
        let parent = self.parent(index).map(|of| {
            // A parent that itself has a parent is rare. Such a parent is assumed to be centred on the display.
            let at = match self.all[of].moved {
                Some(moved) if !self.fills(of) => moved,
                _ => centred(Rectangle::from_size(all), self.all[of].geometry().size, all),
            };
            Rectangle::new(at, self.all[of].geometry().size)
        });
        centred(parent.unwrap_or(Rectangle::from_size(all)), size, all)
    }

    pub(crate) fn raise(&mut self, surface: &WlSurface) {
        if let Some(at) = self.all.iter().position(|w| w.surface() == Some(surface)) {
            let window = self.all.remove(at);
            self.all.push(window);
        }
    }

    /// Chooses the window that has the keyboard focus as long as it is visible.
    pub(crate) fn activate(&mut self, surface: &WlSurface) {
        self.chosen = Some(surface.clone());
    }

    /// The window that should have the keyboard focus: the chosen window if it is visible, otherwise the topmost window
    /// that accepts the focus, otherwise the newest window that positions itself.
    pub(crate) fn active(&self) -> Option<&WlSurface> {
        let order = self.order();
        let chosen = order.iter().find(|index| {
            self.chosen.is_some() && self.chosen.as_ref() == self.all[**index].surface()
        });
        let topmost = order.iter().rfind(|index| self.all[**index].takes_focus());
        let managed = chosen
            .or(topmost)
            .and_then(|index| self.all[*index].surface());
        // An old game may have only windows that position themselves.
        managed.or_else(|| {
            let overrides = self.overrides.iter().rev();
            overrides
                .filter_map(|window| window.surface.as_ref())
                .next()
        })
    }

    pub(crate) fn x11_with(&self, surface: &WlSurface) -> Option<WindowId> {
        let windows = self.all.iter().filter_map(Window::x11);
        windows
            .filter(|window| window.surface.as_ref() == Some(surface))
            .map(|window| window.id)
            .next()
    }

    /// The positions of all X11 windows.
    pub(crate) fn x11_places(&self) -> impl Iterator<Item = (WindowId, Placement)> {
        self.all.iter().enumerate().filter_map(|(index, window)| {
            let place = Placement {
                at: window.x11()?.place,
                fills: self.fills(index),
                full_screen: window.full_screen,
            };
            Some((window.x11()?.id, place))
        })
    }
}

/// The position of a rectangle of size `size`, centred on `on`, within a display of size `all`. If the rectangle is
/// larger than the display, its upper left corner is visible.
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
