//! Converts the player's input to events of the display's seat.

use std::collections::BTreeSet;

use openuvr_clock as clock;
use openuvr_proto::input::event::{Button, InputEvent};
use smithay::backend::input::{Axis, AxisSource, ButtonState};
use smithay::input::pointer::{AxisFrame, ButtonEvent, MotionEvent, RelativeMotionEvent};
use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::utils::{Logical, Point, SERIAL_COUNTER};
use smithay::wayland::pointer_constraints::{PointerConstraint, with_pointer_constraint};

use crate::scene;
use crate::state::State;
use crate::state::frames::milliseconds;

/// One notch of the wheel in units of `REL_WHEEL_HI_RES`.
const NOTCH: f64 = 120.0;

/// The scroll distance of a notch in units of windows, as in libinput.
const NOTCH_DISTANCE: f64 = 15.0;

/// Pressed buttons.
pub(crate) type Buttons = BTreeSet<u16>;

impl State {
    pub(crate) fn apply(&mut self, event: &InputEvent) {
        match *event {
            InputEvent::Key {
                code,
                text,
                pressed,
            } => self.key(code, text, pressed),
            InputEvent::PointerAbsolute { x, y } => {
                let size = self.pictures.size();
                let along = |place: u16, length: u32| {
                    let pixel = u64::from(place) * u64::from(length) / 65_535;
                    let last = u64::from(length.max(1)) - 1;
                    // This is the position of the pixel's upper left corner.
                    #[expect(clippy::cast_precision_loss, reason = "below 2^16")]
                    let pixel = pixel.min(last) as f64;
                    pixel / self.scale
                };
                let to = Point::from((along(x, size.width), along(y, size.height)));
                let from = self.absolute.unwrap_or(to);
                self.absolute = Some(to);
                if self.pointer_is_locked() {
                    self.point(None, to - from);
                } else {
                    let delta = to - self.pointer.current_location();
                    self.point(Some(to), delta);
                }
            }
            InputEvent::PointerRelative { dx, dy } => {
                let delta = Point::from((f64::from(dx), f64::from(dy))).downscale(self.scale);
                let to =
                    (!self.pointer_is_locked()).then(|| self.pointer.current_location() + delta);
                self.point(to, delta);
            }
            InputEvent::Button { button, pressed } => self.button(button, pressed),
            InputEvent::Wheel { dx, dy } => self.turn(dx, dy),
            InputEvent::ReleaseAll => self.release_all(),
            // Gamepads and the raw events of devices are handled elsewhere: `input_sink::device`, `input_sink::pads`.
            InputEvent::Device { .. }
            | InputEvent::PadConnected { .. }
            | InputEvent::PadDisconnected { .. }
            | InputEvent::Pad { .. } => {}
        }
    }

    /// The surface at a position, and the position of the surface's upper left corner.
    fn target(&self, at: Point<f64, Logical>) -> Option<(WlSurface, Point<f64, Logical>)> {
        let shown = scene::under(&self.scene, at)?;
        Some((shown.surface.clone(), shown.at.to_f64()))
    }

    /// Gives the pointer's focus to the surface under it after the scene has changed. During a drag, the focus stays.
    /// Before its first motion, the pointer is over no surface.
    pub(crate) fn follow_scene(&mut self) {
        if !self.has_moved || self.pointer.is_grabbed() || !std::mem::take(&mut self.retarget) {
            return;
        }
        let pointer = self.pointer.clone();
        let here = pointer.current_location();
        let target = self.target(here);
        if target == self.pointed {
            return;
        }
        self.pointed.clone_from(&target);
        let event = MotionEvent {
            location: here,
            serial: SERIAL_COUNTER.next_serial(),
            time: milliseconds(clock::now()),
        };
        pointer.motion(self, target, &event);
        pointer.frame(self);
        self.apply_constraint();
    }

    /// Reports the motion `delta`, and moves the pointer to `to`. `to` is `None` if the pointer is locked.
    fn point(&mut self, to: Option<Point<f64, Logical>>, delta: Point<f64, Logical>) {
        self.has_moved = true;
        // The newest commits determine which surface is under the pointer.
        self.update_scene();
        let pointer = self.pointer.clone();
        let now = clock::now();
        let here = pointer.current_location();
        let relative = RelativeMotionEvent {
            delta,
            delta_unaccel: delta,
            utime: u64::try_from(now.0 / 1000).unwrap_or(0),
        };
        let target = self.target(here);
        pointer.relative_motion(self, target, &relative);
        if let Some(to) = to {
            let area = self.area().to_f64();
            let to = Point::from((
                to.x.clamp(0.0, (area.w - 1.0).max(0.0)),
                to.y.clamp(0.0, (area.h - 1.0).max(0.0)),
            ));
            let to = self.confined(here, to);
            let event = MotionEvent {
                location: to,
                serial: SERIAL_COUNTER.next_serial(),
                time: milliseconds(now),
            };
            let target = self.target(to);
            self.pointed.clone_from(&target);
            pointer.motion(self, target, &event);
        }
        pointer.frame(self);
        self.apply_constraint();
    }

    /// The position that the pointer reaches on its way from `from` to `to`. It must not leave the surface or region
    /// that confines it.
    fn confined(&self, from: Point<f64, Logical>, to: Point<f64, Logical>) -> Point<f64, Logical> {
        let Some(shown) = scene::under(&self.scene, from) else {
            return to;
        };
        // The closure holds the lock of the surface's state. The search for the next target also takes this lock, so it
        // must stay outside of the closure.
        let confining = with_pointer_constraint(&shown.surface, &self.pointer, |constraint| {
            let constraint = constraint.filter(|constraint| constraint.is_active())?;
            match &*constraint {
                PointerConstraint::Confined(confined) => Some(confined.region().cloned()),
                PointerConstraint::Locked(_) => None,
            }
        });
        let Some(region) = confining else {
            return to;
        };
        let (at, size) = (shown.at.to_f64(), shown.size.to_f64());
        let to = Point::from((
            to.x.clamp(at.x, at.x + (size.w - 1.0).max(0.0)),
            to.y.clamp(at.y, at.y + (size.h - 1.0).max(0.0)),
        ));
        let inside = |to: Point<f64, Logical>| {
            let stays = scene::under(&self.scene, to).is_some_and(|s| s.surface == shown.surface);
            let local = (to - at).to_i32_floor();
            stays && region.as_ref().is_none_or(|region| region.contains(local))
        };
        // Along an edge of the region, the pointer slides.
        let ways = [to, Point::from((to.x, from.y)), Point::from((from.x, to.y))];
        ways.into_iter().find(|to| inside(*to)).unwrap_or(from)
    }

    fn button(&mut self, button: Button, pressed: bool) {
        let changes = match pressed {
            true => self.buttons.insert(button.0),
            false => self.buttons.remove(&button.0),
        };
        if !changes {
            return;
        }
        let pointer = self.pointer.clone();
        if pressed {
            let at = pointer.current_location();
            let window = scene::under(&self.scene, at).map(|shown| shown.window.clone());
            self.clicked(window.as_ref());
        }
        let event = ButtonEvent {
            serial: SERIAL_COUNTER.next_serial(),
            time: milliseconds(clock::now()),
            button: button.0.into(),
            state: match pressed {
                true => ButtonState::Pressed,
                false => ButtonState::Released,
            },
        };
        pointer.button(self, &event);
        pointer.frame(self);
        // A drag that has ended may have moved the pointer to another surface.
        self.retarget = true;
    }

    fn turn(&mut self, dx: i16, dy: i16) {
        let mut frame = AxisFrame::new(milliseconds(clock::now())).source(AxisSource::Wheel);
        // Up is positive in the player's events, and negative in Wayland.
        for (axis, turned) in [
            (Axis::Horizontal, i32::from(dx)),
            (Axis::Vertical, -i32::from(dy)),
        ] {
            if turned != 0 {
                frame = frame
                    .v120(axis, turned)
                    .value(axis, f64::from(turned) / NOTCH * NOTCH_DISTANCE);
            }
        }
        let pointer = self.pointer.clone();
        pointer.axis(self, frame);
        pointer.frame(self);
    }

    /// Releases every pressed key and button.
    pub(crate) fn release_all(&mut self) {
        self.release_keys();
        for button in std::mem::take(&mut self.buttons) {
            self.buttons.insert(button);
            self.button(Button(button), false);
        }
    }
}
