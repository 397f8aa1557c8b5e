//! Windows and popups: xdg_shell, xdg_decoration (the compositor draws no decorations), xdg_activation.

use smithay::desktop::{PopupKind, find_popup_root_surface, get_popup_toplevel_coords};
use smithay::desktop::{PopupKeyboardGrab, PopupPointerGrab};
use smithay::input::Seat;
use smithay::input::pointer::Focus;
use smithay::reexports::wayland_protocols::xdg::decoration::zv1::server::zxdg_toplevel_decoration_v1::Mode;
use smithay::reexports::wayland_server::protocol::wl_output::WlOutput;
use smithay::reexports::wayland_server::protocol::wl_seat::WlSeat;
use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::utils::{Rectangle, SERIAL_COUNTER, Serial};
use smithay::wayland::compositor::{get_role, with_states};
use smithay::wayland::shell::xdg::decoration::XdgDecorationHandler;
use smithay::wayland::shell::xdg::{
    PopupSurface, PositionerState, ToplevelSurface, XDG_POPUP_ROLE, XDG_TOPLEVEL_ROLE,
    XdgShellHandler, XdgShellState,
};
use smithay::wayland::xdg_activation::{
    XdgActivationHandler, XdgActivationState, XdgActivationToken, XdgActivationTokenData,
};

use crate::content;
use crate::state::State;
use crate::state::move_grab::MoveGrab;
use crate::state::protocols::xwayland::XWAYLAND_ROLE;
use crate::windows::Role;

impl State {
    /// Handles the commit of a window or popup, or of a subsurface of it.
    pub(super) fn shell_committed(&mut self, root: &WlSurface) {
        match get_role(root) {
            Some(XDG_TOPLEVEL_ROLE) => self.window_committed(root),
            None | Some(XWAYLAND_ROLE) => self.x11_committed(root),
            Some(XDG_POPUP_ROLE) => {
                let popup = self.popups.find_popup(root);
                if let Some(PopupKind::Xdg(popup)) = popup
                    && !popup.is_initial_configure_sent()
                {
                    // An error is ignored: the call fails only for a popup that must not be configured again.
                    let _ = popup.send_configure();
                }
            }
            _ => {}
        }
    }

    pub(super) fn window_committed(&mut self, root: &WlSurface) {
        let shown = with_states(root, |states| content::of(states).borrow().is_shown());
        let Some(window) = self.windows.of(root) else {
            return;
        };
        let changed = std::mem::replace(&mut window.mapped, shown) != shown;
        // The first commit requests a configuration. A window whose first commit wrongly contains a buffer also gets
        // the configuration, so that the window does not wait forever.
        let unconfigured = window
            .toplevel()
            .filter(|toplevel| !toplevel.is_initial_configure_sent());
        if let Some(toplevel) = unconfigured.cloned() {
            self.arrange();
            toplevel.send_configure();
        }
        if changed {
            if shown {
                // The newest window has the focus.
                self.windows.activate(root);
            }
            self.count_windows();
            self.arrange();
        }
    }

    /// Stores the number of visible windows for other threads.
    pub(crate) fn count_windows(&self) {
        let mapped = self.windows.all.iter().filter(|window| window.mapped);
        let overrides = self.windows.overrides.iter();
        let overrides = overrides.filter(|window| window.surface.is_some());
        self.ends.set_windows(mapped.count() + overrides.count());
    }

    fn fill(&mut self, surface: &ToplevelSurface, wants_all: bool, full_screen: bool) {
        if let Some(window) = self.windows.of(surface.wl_surface()) {
            (window.wants_all, window.full_screen) = (wants_all, full_screen);
        }
        self.arrange();
        // Each request is answered, even if nothing changes.
        if surface.is_initial_configure_sent() {
            surface.send_configure();
        }
    }

    /// Keeps a popup within the display.
    fn constrain(&self, popup: &PopupSurface) {
        let Ok(root) = find_popup_root_surface(&PopupKind::Xdg(popup.clone())) else {
            return;
        };
        let windows = &self.windows;
        let Some(index) = windows.all.iter().position(|w| w.surface() == Some(&root)) else {
            return;
        };
        let area = self.area();
        let mut within = Rectangle::from_size(area);
        within.loc -= windows.position(index, area);
        within.loc -= get_popup_toplevel_coords(&PopupKind::Xdg(popup.clone()));
        popup.with_pending_state(|state| {
            state.geometry = state.positioner.get_unconstrained_geometry(within);
        });
    }
}

impl XdgShellHandler for State {
    fn xdg_shell_state(&mut self) -> &mut XdgShellState {
        &mut self.globals.shell
    }

    fn new_toplevel(&mut self, surface: ToplevelSurface) {
        self.prefer_scale(surface.wl_surface());
        self.windows.add(Role::Xdg(surface));
    }

    fn toplevel_destroyed(&mut self, surface: ToplevelSurface) {
        self.windows
            .all
            .retain(|window| window.surface() != Some(surface.wl_surface()));
        self.count_windows();
        self.arrange();
    }

    fn parent_changed(&mut self, _: ToplevelSurface) {
        self.arrange();
    }

    fn new_popup(&mut self, surface: PopupSurface, positioner: PositionerState) {
        surface.with_pending_state(|state| {
            state.geometry = positioner.get_geometry();
            state.positioner = positioner;
        });
        self.constrain(&surface);
        self.prefer_scale(surface.wl_surface());
        // An error is ignored: the call fails only if the parent is gone.
        let _ = self.popups.track_popup(PopupKind::Xdg(surface));
    }

    fn popup_destroyed(&mut self, _: PopupSurface) {
        self.popups.cleanup();
        self.dirty = true;
        // The surface under the pointer may be gone after the next request.
        self.update_scene();
        self.follow_scene();
    }

    fn reposition_request(
        &mut self,
        surface: PopupSurface,
        positioner: PositionerState,
        token: u32,
    ) {
        surface.with_pending_state(|state| {
            state.geometry = positioner.get_geometry();
            state.positioner = positioner;
        });
        self.constrain(&surface);
        surface.send_repositioned(token);
    }

    fn grab(&mut self, surface: PopupSurface, seat: WlSeat, serial: Serial) {
        let Some(seat) = Seat::<State>::from_resource(&seat) else {
            return;
        };
        let popup = PopupKind::Xdg(surface);
        let Ok(root) = find_popup_root_surface(&popup) else {
            return;
        };
        let Ok(mut grab) = self.popups.grab_popup(root, popup, &seat, serial) else {
            return;
        };
        let (keyboard, pointer) = (self.keyboard.clone(), self.pointer.clone());
        let another = |held: bool, has: &dyn Fn(Serial) -> bool| {
            held && !(has(serial) || has(grab.previous_serial().unwrap_or(serial)))
        };
        if another(keyboard.is_grabbed(), &|s| keyboard.has_grab(s))
            || another(pointer.is_grabbed(), &|s| pointer.has_grab(s))
        {
            grab.ungrab(smithay::desktop::PopupUngrabStrategy::All);
            return;
        }
        keyboard.set_focus(self, grab.current_grab(), serial);
        keyboard.set_grab(self, PopupKeyboardGrab::new(&grab), serial);
        pointer.set_grab(self, PopupPointerGrab::new(&grab), serial, Focus::Keep);
    }

    fn move_request(&mut self, surface: ToplevelSurface, _: WlSeat, serial: Serial) {
        if self.pointer.has_grab(serial) {
            self.drag(surface.wl_surface());
        }
    }

    fn maximize_request(&mut self, surface: ToplevelSurface) {
        self.fill(&surface, true, false);
    }

    fn unmaximize_request(&mut self, surface: ToplevelSurface) {
        self.fill(&surface, false, false);
    }

    fn fullscreen_request(&mut self, surface: ToplevelSurface, _: Option<WlOutput>) {
        self.fill(&surface, true, true);
    }

    fn unfullscreen_request(&mut self, surface: ToplevelSurface) {
        self.fill(&surface, false, false);
    }
}

impl XdgDecorationHandler for State {
    fn new_decoration(&mut self, toplevel: ToplevelSurface) {
        undecorated(&toplevel);
    }

    fn request_mode(&mut self, toplevel: ToplevelSurface, _: Mode) {
        undecorated(&toplevel);
    }

    fn unset_mode(&mut self, toplevel: ToplevelSurface) {
        undecorated(&toplevel);
    }
}

/// Asks the window to draw no title bar. The compositor draws none, either.
fn undecorated(toplevel: &ToplevelSurface) {
    toplevel.with_pending_state(|state| state.decoration_mode = Some(Mode::ServerSide));
    if toplevel.is_initial_configure_sent() {
        toplevel.send_configure();
    }
}

impl XdgActivationHandler for State {
    fn activation_state(&mut self) -> &mut XdgActivationState {
        &mut self.globals.activation
    }

    fn token_created(&mut self, _: XdgActivationToken, _: XdgActivationTokenData) -> bool {
        // Old tokens are removed, so that clients cannot accumulate tokens without limit.
        self.globals
            .activation
            .retain_tokens(|_, data| data.timestamp.elapsed().as_secs() < 10);
        self.globals.activation.tokens().count() < 64
    }

    fn request_activation(
        &mut self,
        _: XdgActivationToken,
        _: XdgActivationTokenData,
        surface: WlSurface,
    ) {
        self.windows.raise(&surface);
        self.windows.activate(&surface);
        self.arrange();
    }
}

impl State {
    /// Makes a window follow the pointer until the pointer button is released.
    pub(crate) fn drag(&mut self, surface: &WlSurface) {
        let pointer = self.pointer.clone();
        let Some(start) = pointer.grab_start_data() else {
            return;
        };
        let area = self.area();
        let mut windows = self.windows.all.iter();
        let Some(index) = windows.position(|window| window.surface() == Some(surface)) else {
            return;
        };
        let at = self.windows.position(index, area);
        let grab = MoveGrab::new(start, surface.clone(), at);
        pointer.set_grab(self, grab, SERIAL_COUNTER.next_serial(), Focus::Clear);
    }

    /// Raises the window on which a button was pressed, and gives it the keyboard focus.
    pub(crate) fn clicked(&mut self, window: Option<&WlSurface>) {
        if self.pointer.is_grabbed() {
            return;
        }
        // Menus of X11 applications are above all other windows, and do not take the focus.
        if let Some(window) = window.filter(|window| self.windows.of(window).is_some()) {
            self.windows.raise(window);
            self.windows.activate(window);
            self.arrange();
        }
    }
}

smithay::delegate_xdg_shell!(State);
smithay::delegate_xdg_decoration!(State);
smithay::delegate_xdg_activation!(State);
