//! Pointers of games and editors: relative motion, locks and confinement, cursor shapes.

use smithay::input::pointer::PointerHandle;
use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::utils::{Logical, Point};
use smithay::wayland::pointer_constraints::{PointerConstraintsHandler, with_pointer_constraint};
use smithay::wayland::tablet_manager::TabletSeatHandler;

use crate::state::State;

impl PointerConstraintsHandler for State {
    fn new_constraint(&mut self, _: &WlSurface, _: &PointerHandle<State>) {
        self.apply_constraint();
    }

    fn cursor_position_hint(
        &mut self,
        surface: &WlSurface,
        pointer: &PointerHandle<State>,
        location: Point<f64, Logical>,
    ) {
        let active = with_pointer_constraint(surface, pointer, |constraint| {
            constraint.is_some_and(|constraint| constraint.is_active())
        });
        let shown = self
            .scene
            .iter()
            .find(|element| element.surface.surface == *surface);
        if let (true, Some(element)) = (active, shown) {
            pointer.set_location(element.surface.at.to_f64() + location);
        }
    }
}

impl State {
    /// Activates the constraint of the surface under the pointer, if the surface has one.
    pub(crate) fn apply_constraint(&mut self) {
        let focus = self.pointer.current_focus();
        if let Some(surface) = &focus {
            with_pointer_constraint(surface, &self.pointer, |constraint| {
                if let Some(constraint) = constraint
                    && !constraint.is_active()
                {
                    constraint.activate();
                }
            });
        }
        self.pointer_lock_changed();
    }
}

/// Tablet tools are not forwarded, but the cursor-shape protocol refers to them.
impl TabletSeatHandler for State {}

smithay::delegate_relative_pointer!(State);
smithay::delegate_pointer_constraints!(State);
smithay::delegate_cursor_shape!(State);
