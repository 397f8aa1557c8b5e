//! The pointer: position, buttons and wheel. Position and wheel are collected until the end of each frame of pointer
//! events, or until a button changes.

use openuvr_proto::input::event::{Button, InputEvent};
use wayland_client::protocol::wl_pointer::{self, Axis, AxisSource, ButtonState, WlPointer};
use wayland_client::protocol::wl_seat::{self, Capability, WlSeat};
use wayland_client::{Connection, Dispatch, QueueHandle, WEnum};
use wayland_protocols::wp::cursor_shape::v1::client::wp_cursor_shape_device_v1::WpCursorShapeDeviceV1;
use wayland_protocols::xdg::shell::client::xdg_toplevel::ResizeEdge;

use super::State;
use crate::window::{LocalPointer, SCALE_ONE};
use openuvr_media::input_source::SourceEvent;
use openuvr_media::input_source::shortcuts::HELD;
use openuvr_media::window::placement::Placement;

/// The pointer's state.
#[derive(Default)]
pub(super) struct Pointer {
    pub(super) proxy: Option<WlPointer>,
    shapes: Option<WpCursorShapeDeviceV1>,
    /// The last position that was sent.
    sent: Option<(u16, u16)>,
    /// The position in the current frame of events, in logical pixels.
    at: Option<(f64, f64)>,
    wheel: [Wheel; 2],
    /// Whether the scrolling in this frame comes from a wheel with notches, not from a finger.
    notched: bool,
}

/// The wheel's turn along one axis in the current frame.
#[derive(Clone, Copy, Default)]
struct Wheel {
    /// In 120ths of a notch, from `axis_value120`.
    fine: i32,
    /// In notches, from `axis_discrete`, which older compositors send.
    notches: i32,
    /// In logical pixels.
    pixels: f64,
    /// The fraction of a 120th of a notch that has not been sent yet.
    rest: f64,
}

/// The motion of a finger, in logical pixels, that equals one notch. libinput reports this value for a notch of a usual
/// wheel, 15 degrees.
const PIXELS_PER_NOTCH: f64 = 15.0;

/// One notch in units of `REL_WHEEL_HI_RES`.
const NOTCH: i32 = 120;

impl Wheel {
    /// Takes the turn of this frame in whole 120ths of a notch, and keeps the fraction.
    fn take(&mut self, notched: bool) -> i32 {
        let turned = match (self.fine, self.notches) {
            (0, 0) if !notched => self.pixels * f64::from(NOTCH) / PIXELS_PER_NOTCH,
            // Each notch is reported together with a distance, which must not count additionally.
            (0, notches) => f64::from(notches.saturating_mul(NOTCH)),
            (fine, _) => f64::from(fine),
        };
        self.rest += turned;
        let whole = self.rest.trunc().clamp(-32_000.0, 32_000.0);
        // A wheel turn beyond the clamped range is discarded.
        self.rest = (self.rest - whole).fract();
        (self.fine, self.notches, self.pixels) = (0, 0, 0.0);
        // The clamp ensures the range.
        #[allow(clippy::cast_possible_truncation)]
        let whole = whole as i32;
        whole
    }
}

impl State {
    fn pointer_present(&mut self, seat: &WlSeat, present: bool) {
        match (present, self.pointer.proxy.is_some()) {
            (true, false) => {
                let proxy = seat.get_pointer(&self.queue, ());
                let shapes = (self.globals.shapes.as_ref())
                    .map(|shapes| shapes.get_pointer(&proxy, &self.queue, ()));
                self.pointer.shapes = shapes;
                self.pointer.proxy = Some(proxy);
                self.grab_at_start();
                self.follow_request();
            }
            (false, true) => {
                self.release();
                self.change(|scene| (scene.pointer_inside, scene.pointer) = (false, None));
                if let Some(shapes) = self.pointer.shapes.take() {
                    shapes.destroy();
                }
                if let Some(proxy) = self.pointer.proxy.take() {
                    proxy.release();
                }
                // The removed device can no longer release its buttons.
                self.send(InputEvent::ReleaseAll);
            }
            _ => {}
        }
    }

    /// Sends the pointer's position, if it has changed and the pointer is not locked. `x` and `y` are in logical
    /// pixels. The new position replaces an older one that is the last event in the queue.
    pub(super) fn pointer_at(&mut self, (x, y): (f64, f64)) {
        if self.grab.is_active() {
            return;
        }
        let place = {
            let scene = self.stage.scene();
            let factor = f64::from(scene.scale) / f64::from(SCALE_ONE);
            // The conversion from `f64` to an integer saturates, and windows are smaller than the limit.
            #[allow(clippy::cast_possible_truncation)]
            let pixel = |at: f64| (at * factor).floor() as i32;
            let window = scene.window();
            let whole = Placement::fit(window, window);
            (scene.placement().unwrap_or(whole)).place(pixel(x), pixel(y))
        };
        if self.pointer.sent.replace(place) == Some(place) {
            return;
        }
        if let Some(SourceEvent::Input(InputEvent::PointerAbsolute { .. })) = self.ready.back() {
            self.ready.pop_back();
        }
        let (x, y) = place;
        self.send(InputEvent::PointerAbsolute { x, y });
    }

    fn button(&mut self, serial: u32, button: u32, pressed: bool) {
        self.pointer_frame();
        let moves = pressed && self.keyboard.modifiers() & HELD == HELD && !self.grab.is_active();
        if let Some(seat) = self.globals.seat.as_ref().filter(|_| moves) {
            let toplevel = &self.stage.surfaces.toplevel;
            match Button(u16::try_from(button).unwrap_or(0)) {
                Button::LEFT => return toplevel._move(seat, serial),
                Button::RIGHT => return toplevel.resize(seat, serial, ResizeEdge::BottomRight),
                _ => {}
            }
        }
        if pressed {
            self.press_already_held();
        }
        if let Ok(button) = u16::try_from(button) {
            let button = Button(button);
            self.send(InputEvent::Button { button, pressed });
        }
    }

    /// Sends the last position of the frame, and the sum of its wheel events.
    fn pointer_frame(&mut self) {
        if let Some(at) = self.pointer.at.take() {
            self.pointer_at(at);
        }
        let notched = std::mem::take(&mut self.pointer.notched);
        let [down, right] = &mut self.pointer.wheel;
        let (down, right) = (down.take(notched), right.take(notched));
        if (down, right) != (0, 0) {
            let turn = |turn: i32| i16::try_from(turn).unwrap_or(0);
            // A positive vertical turn means down in Wayland, and up in the protocol.
            let (dx, dy) = (turn(right), turn(-down));
            self.send(InputEvent::Wheel { dx, dy });
        }
    }

    fn pointer_entered(&mut self, proxy: &WlPointer, serial: u32, at: (f64, f64)) {
        let local = LocalPointer {
            pointer: proxy.clone(),
            shapes: self.pointer.shapes.clone(),
            serial,
        };
        self.pointer.at = Some(at);
        self.change(|scene| (scene.pointer_inside, scene.pointer) = (true, Some(local)));
        let stage = std::sync::Arc::clone(&self.stage);
        stage.define_cursor(&mut stage.scene());
    }

    fn wheel(&mut self, axis: WEnum<Axis>) -> Option<&mut Wheel> {
        let [down, right] = &mut self.pointer.wheel;
        match axis {
            WEnum::Value(Axis::VerticalScroll) => Some(down),
            WEnum::Value(Axis::HorizontalScroll) => Some(right),
            _ => None,
        }
    }
}

impl Dispatch<WlPointer, ()> for State {
    fn event(
        state: &mut State,
        proxy: &WlPointer,
        event: wl_pointer::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        match event {
            wl_pointer::Event::Enter {
                serial,
                surface_x,
                surface_y,
                ..
            } => state.pointer_entered(proxy, serial, (surface_x, surface_y)),
            wl_pointer::Event::Leave { .. } => {
                state.pointer.at = None;
                state.change(|scene| (scene.pointer_inside, scene.pointer) = (false, None));
            }
            wl_pointer::Event::Motion {
                surface_x,
                surface_y,
                ..
            } => state.pointer.at = Some((surface_x, surface_y)),
            wl_pointer::Event::Button {
                serial,
                button,
                state: WEnum::Value(pressed),
                ..
            } => state.button(serial, button, pressed == ButtonState::Pressed),
            wl_pointer::Event::Axis { axis, value, .. } => {
                if let Some(wheel) = state.wheel(axis) {
                    wheel.pixels += value;
                }
            }
            wl_pointer::Event::AxisSource {
                axis_source: WEnum::Value(source),
            } => state.pointer.notched = source == AxisSource::Wheel,
            wl_pointer::Event::AxisDiscrete { axis, discrete } => {
                if let Some(wheel) = state.wheel(axis) {
                    wheel.notches = wheel.notches.saturating_add(discrete);
                }
            }
            wl_pointer::Event::AxisValue120 { axis, value120 } => {
                if let Some(wheel) = state.wheel(axis) {
                    wheel.fine = wheel.fine.saturating_add(value120);
                }
            }
            wl_pointer::Event::Frame => state.pointer_frame(),
            _ => {}
        }
    }
}

impl Dispatch<WlSeat, ()> for State {
    fn event(
        state: &mut State,
        seat: &WlSeat,
        event: wl_seat::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        if let wl_seat::Event::Capabilities {
            capabilities: WEnum::Value(has),
        } = event
        {
            state.keyboard_present(seat, has.contains(Capability::Keyboard));
            state.pointer_present(seat, has.contains(Capability::Pointer));
            state.touch_present(seat, has.contains(Capability::Touch));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_turns_by_its_most_precise_report_and_keeps_fractions() {
        let mut wheel = Wheel {
            fine: 30,
            notches: 1,
            pixels: 15.0,
            rest: 0.0,
        };
        assert_eq!(wheel.take(true), 30);
        wheel.notches = -2;
        wheel.pixels = -30.0;
        assert_eq!(wheel.take(true), -240);
        // The distance of an incomplete notch does not count.
        wheel.pixels = 5.0;
        assert_eq!(wheel.take(true), 0);
        // For a finger, an eighth of a pixel is one 120th of a notch.
        let turns: Vec<i32> = (0..4)
            .map(|_| {
                wheel.pixels = 0.0625;
                wheel.take(false)
            })
            .collect();
        assert_eq!(turns, [0, 1, 0, 1]);
        wheel.pixels = f64::MAX;
        assert_eq!(wheel.take(false), 32_000);
    }
}
