//! zwp_idle_inhibit. Requests are accepted and have no effect, because a display without a screen never becomes idle.

use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::wayland::idle_inhibit::IdleInhibitHandler;

use crate::state::State;

impl IdleInhibitHandler for State {
    fn inhibit(&mut self, _: WlSurface) {}

    fn uninhibit(&mut self, _: WlSurface) {}
}

smithay::delegate_idle_inhibit!(State);
