//! The display as applications see it: wl_output, xdg_output, wp_fractional_scale.

use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::wayland::compositor::with_states;
use smithay::wayland::fractional_scale::{FractionalScaleHandler, with_fractional_scale};
use smithay::wayland::output::OutputHandler;

use crate::state::State;

impl OutputHandler for State {}

impl FractionalScaleHandler for State {
    fn new_fractional_scale(&mut self, surface: WlSurface) {
        with_states(&surface, |states| {
            with_fractional_scale(states, |scale| scale.set_preferred_scale(self.scale));
        });
        self.prefer_scale(&surface);
    }
}

smithay::delegate_output!(State);
smithay::delegate_fractional_scale!(State);
