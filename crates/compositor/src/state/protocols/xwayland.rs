//! xwayland_shell, which is visible only to Xwayland, and the windows of X11 applications: handles the reports of the
//! X11 window manager.

use smithay::reexports::wayland_protocols::xwayland::shell::v1::server::xwayland_shell_v1::{
    self, XwaylandShellV1,
};
use smithay::reexports::wayland_protocols::xwayland::shell::v1::server::xwayland_surface_v1::{
    self, XwaylandSurfaceV1,
};
use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::reexports::wayland_server::{
    Client, DataInit, Dispatch, DisplayHandle, GlobalDispatch, New, Resource as _,
};
use smithay::utils::{Logical, Point, Rectangle};
use smithay::wayland::compositor::give_role;

use crate::state::{ClientState, State};
use crate::windows::{OverrideWindow, Role, X11Window};
use crate::xwayland::wire::{About, Report, SurfaceName, WindowId};

/// The role of a surface with an X11 window's pixels. Before Xwayland 23.1, such a surface has no role.
pub(crate) const XWAYLAND_ROLE: &str = "xwayland_surface";

impl State {
    /// Handles a report of the window manager.
    pub(crate) fn reported(&mut self, report: Report) {
        if self.x11.is_none() {
            // The server has ended in the meantime.
            return;
        }
        match report {
            Report::Requested(id, about) => self.x11_requested(id, about),
            Report::Changed(id, about) => self.x11_changed(id, about),
            Report::Resize(id, size, at) => {
                if let Some(window) = self.windows.x11(id) {
                    window.moved = at.map(Point::from).or(window.moved);
                    if let Role::X11(window) = &mut window.role {
                        window.about.size = size;
                    }
                }
                if let Some(x11) = &mut self.x11 {
                    // The request is answered even if nothing changes.
                    x11.placed.remove(&id);
                }
                self.arrange();
            }
            Report::Hidden(id) => self.x11_hidden(id),
            Report::Override(id, place) => self.x11_override(id, place),
            Report::Surface(id, name) => {
                if let Some(x11) = &mut self.x11 {
                    x11.unpaired.retain(|(other, _)| *other != id);
                    x11.unpaired.push((id, name));
                }
            }
            Report::Activate(id) => {
                let surface = self.windows.x11(id).and_then(|of| of.surface().cloned());
                if let Some(surface) = surface {
                    self.windows.raise(&surface);
                    self.windows.activate(&surface);
                    self.arrange();
                }
            }
            Report::Move(id) => {
                let surface = self.windows.x11(id).and_then(|of| of.surface().cloned());
                let under = self.pointer.current_focus();
                // Only the window under the pointer may follow the pointer.
                if let Some(surface) = surface.filter(|of| under.as_ref() == Some(of)) {
                    self.drag(&surface);
                }
            }
            Report::Copied(types) => self.x11_copied(types),
            Report::Paste(kind, target) => self.x11_pastes(kind, target),
            Report::Ended(why) => self.end_x11(&why),
        }
    }

    fn x11_requested(&mut self, id: WindowId, about: About) {
        if self.windows.x11(id).is_some() {
            return self.x11_changed(id, about);
        }
        self.windows.overrides.retain(|window| window.id != id);
        self.windows.add(Role::X11(X11Window {
            id,
            surface: None,
            about,
            place: Rectangle::default(),
        }));
        self.x11_changed(id, about);
    }

    fn x11_changed(&mut self, id: WindowId, about: About) {
        if let Some(window) = self.windows.x11(id) {
            window.full_screen = about.full_screen;
            window.wants_all = about.full_screen || about.maximized;
            if let Role::X11(window) = &mut window.role {
                window.about = about;
            }
        }
        self.arrange();
    }

    fn x11_hidden(&mut self, id: WindowId) {
        let known = |window: &crate::windows::Window| window.x11().is_some_and(|of| of.id == id);
        self.windows.all.retain(|window| !known(window));
        self.windows.overrides.retain(|window| window.id != id);
        if let Some(x11) = &mut self.x11 {
            x11.unpaired.retain(|(other, _)| *other != id);
        }
        self.count_windows();
        self.arrange();
    }

    fn x11_override(&mut self, id: WindowId, place: Rectangle<i32, Logical>) {
        let overrides = &mut self.windows.overrides;
        match overrides.iter_mut().find(|window| window.id == id) {
            Some(window) => window.place = place,
            None => overrides.push(OverrideWindow {
                id,
                surface: None,
                place,
            }),
        }
        self.dirty = true;
    }

    /// Assigns surfaces to X11 windows, if both are known. Do not call it while a request is being handled: a new
    /// object of this request can already be found, but is not complete yet.
    pub(crate) fn pair_surfaces(&mut self) {
        let Some(x11) = self.x11.as_mut().filter(|x11| !x11.unpaired.is_empty()) else {
            return;
        };
        let handle = &self.handle;
        let mut found = Vec::new();
        let windows = &mut self.windows;
        x11.unpaired.retain(|(id, name)| {
            let known = windows.x11(*id).is_some()
                || windows.overrides.iter().any(|window| window.id == *id);
            let surface = match name {
                SurfaceName::Object(number) => x11
                    .client
                    .object_from_protocol_id::<WlSurface>(handle, *number)
                    .ok(),
                SurfaceName::Serial(serial) => x11.serials.get(serial).cloned(),
            };
            match surface.filter(|_| known) {
                Some(surface) => {
                    found.push((*id, surface));
                    false
                }
                None => true,
            }
        });
        for (id, surface) in found {
            if let Some(window) = self.windows.x11(id) {
                if let Role::X11(window) = &mut window.role {
                    window.surface = Some(surface.clone());
                }
                window.mapped = false;
                self.window_committed(&surface);
            } else if let Some(window) = self.windows.overrides.iter_mut().find(|of| of.id == id) {
                window.surface = Some(surface);
                self.count_windows();
                self.arrange();
            }
        }
    }

    /// Handles the commit of a surface that is not a window of xdg_shell.
    pub(super) fn x11_committed(&mut self, surface: &WlSurface) {
        if self.windows.of(surface).is_some() {
            self.window_committed(surface);
        }
    }

    /// Handles the destruction of a surface, which may belong to an X11 window.
    pub(super) fn x11_surface_destroyed(&mut self, surface: &WlSurface) {
        if let Some(x11) = &mut self.x11 {
            x11.serials.retain(|_, other| other != surface);
        }
        let mut changed = false;
        for window in &mut self.windows.all {
            if let Role::X11(x11) = &mut window.role
                && x11.surface.as_ref() == Some(surface)
            {
                x11.surface = None;
                window.mapped = false;
                changed = true;
            }
        }
        for window in &mut self.windows.overrides {
            if window.surface.as_ref() == Some(surface) {
                window.surface = None;
                changed = true;
            }
        }
        if changed {
            self.count_windows();
            self.arrange();
        }
    }
}

impl GlobalDispatch<XwaylandShellV1, ()> for State {
    fn bind(
        _: &mut State,
        _: &DisplayHandle,
        _: &Client,
        shell: New<XwaylandShellV1>,
        (): &(),
        init: &mut DataInit<'_, State>,
    ) {
        init.init(shell, ());
    }

    fn can_view(client: Client, (): &()) -> bool {
        client
            .get_data::<ClientState>()
            .is_some_and(|data| data.is_xwayland)
    }
}

impl Dispatch<XwaylandShellV1, ()> for State {
    fn request(
        _: &mut State,
        _: &Client,
        shell: &XwaylandShellV1,
        request: xwayland_shell_v1::Request,
        (): &(),
        _: &DisplayHandle,
        init: &mut DataInit<'_, State>,
    ) {
        if let xwayland_shell_v1::Request::GetXwaylandSurface { id, surface } = request {
            if give_role(&surface, XWAYLAND_ROLE).is_err() {
                shell.post_error(
                    xwayland_shell_v1::Error::Role,
                    "the surface already has a role",
                );
            }
            init.init(id, surface);
        }
    }
}

impl Dispatch<XwaylandSurfaceV1, WlSurface> for State {
    fn request(
        state: &mut State,
        _: &Client,
        _: &XwaylandSurfaceV1,
        request: xwayland_surface_v1::Request,
        surface: &WlSurface,
        _: &DisplayHandle,
        _: &mut DataInit<'_, State>,
    ) {
        if let xwayland_surface_v1::Request::SetSerial {
            serial_lo,
            serial_hi,
        } = request
        {
            let serial = u64::from(serial_lo) | u64::from(serial_hi) << 32;
            if let Some(x11) = &mut state.x11 {
                // A surface has only one serial number, so the limit on the number of surfaces also limits this map.
                x11.serials.retain(|_, other| other != surface);
                x11.serials.insert(serial, surface.clone());
            }
        }
    }
}
