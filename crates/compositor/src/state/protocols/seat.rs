//! wl_seat and zwp_text_input: the focus, and the cursor's image.

use smithay::input::pointer::CursorImageStatus;
use smithay::input::{Seat, SeatHandler, SeatState};
use smithay::reexports::wayland_server::Resource as _;
use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::wayland::selection::data_device::set_data_device_focus;
use smithay::wayland::selection::primary_selection::set_primary_focus;

use crate::state::State;

impl SeatHandler for State {
    type KeyboardFocus = WlSurface;
    type PointerFocus = WlSurface;
    type TouchFocus = WlSurface;

    fn seat_state(&mut self) -> &mut SeatState<State> {
        &mut self.seats
    }

    fn focus_changed(&mut self, seat: &Seat<State>, focused: Option<&WlSurface>) {
        let client = focused.and_then(|surface| surface.client());
        set_data_device_focus(&self.handle, seat, client.clone());
        set_primary_focus(&self.handle, seat, client);
    }

    fn cursor_image(&mut self, _: &Seat<State>, image: CursorImageStatus) {
        // smithay holds the pointer's lock during this call, so the image is sent later, in the event loop.
        self.cursor.set(image);
    }
}

smithay::delegate_seat!(State);
smithay::delegate_text_input_manager!(State);
