//! Touch: the first finger moves the host's pointer and holds its left button, because the protocol has no touch
//! events.

use openuvr_proto::input::event::{Button, InputEvent};
use wayland_client::protocol::wl_seat::WlSeat;
use wayland_client::protocol::wl_touch::{self, WlTouch};
use wayland_client::{Connection, Dispatch, QueueHandle};

use super::State;

/// The touch screen's state.
#[derive(Default)]
pub(super) struct Touch {
    proxy: Option<WlTouch>,
    /// The finger that moves the pointer.
    finger: Option<i32>,
}

impl State {
    pub(super) fn touch_present(&mut self, seat: &WlSeat, present: bool) {
        match (present, self.touch.proxy.is_some()) {
            (true, false) => {
                self.touch.proxy = Some(seat.get_touch(&self.queue, ()));
            }
            (false, true) => {
                self.lift();
                if let Some(proxy) = self.touch.proxy.take() {
                    proxy.release();
                }
            }
            _ => {}
        }
    }

    /// Releases the button, if a finger is holding it.
    fn lift(&mut self) {
        if self.touch.finger.take().is_some() {
            self.send(InputEvent::Button {
                button: Button::LEFT,
                pressed: false,
            });
        }
    }
}

impl Dispatch<WlTouch, ()> for State {
    fn event(
        state: &mut State,
        _: &WlTouch,
        event: wl_touch::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        match event {
            wl_touch::Event::Down { id, x, y, .. } if state.touch.finger.is_none() => {
                state.touch.finger = Some(id);
                state.pointer_at((x, y));
                state.press_already_held();
                state.send(InputEvent::Button {
                    button: Button::LEFT,
                    pressed: true,
                });
            }
            wl_touch::Event::Motion { id, x, y, .. } if state.touch.finger == Some(id) => {
                state.pointer_at((x, y));
            }
            wl_touch::Event::Up { id, .. } if state.touch.finger == Some(id) => state.lift(),
            wl_touch::Event::Cancel => state.lift(),
            _ => {}
        }
    }
}
