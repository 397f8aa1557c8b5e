//! Converts reports of a pointing device to motions, buttons and wheel turns, without I/O.
//!
//! Limitations: motion is sent unaccelerated, one pixel for each step. A touch pad moves the pointer with one finger
//! and has no gestures. On a touch screen, the first finger is the pointer with its left button.

use std::collections::BTreeSet;

use openuvr_media::input_event::Event;
use openuvr_proto::input::event::{Button, EV_ABS, EV_KEY, EV_REL, InputEvent};

const REL_X: u16 = 0;
const REL_Y: u16 = 1;
const REL_HWHEEL: u16 = 6;
const REL_WHEEL: u16 = 8;
const REL_WHEEL_HI_RES: u16 = 11;
const REL_HWHEEL_HI_RES: u16 = 12;
const ABS_X: u16 = 0;
const ABS_Y: u16 = 1;
const BTN_TOUCH: u16 = 0x14a;

/// One notch in units of `REL_WHEEL_HI_RES`.
const NOTCH: i32 = 120;

/// The fraction of the display's width that the pointer moves when a finger moves across a whole touch pad (a guess:
/// two thirds).
const PAD_REACH: (i64, i64) = (2, 3);

/// How a device points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// With relative steps: a mouse.
    Mouse {
        /// Whether the wheel is reported in parts of a notch in addition to whole notches.
        fine_wheel: bool,
    },
    /// With positions on the display: a tablet.
    Tablet(Axes),
    /// With positions of a finger on the display.
    TouchScreen(Axes),
    /// With positions of a finger outside of the display.
    TouchPad(Axes),
}

/// The minimum and the maximum value of the horizontal and of the vertical axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Axes {
    pub(super) x: (i32, i32),
    pub(super) y: (i32, i32),
}

/// The result of a report, in the order in which it is sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Report {
    /// Steps of the pointer in pixels.
    pub(super) moved: (i32, i32),
    /// A position on the display.
    pub(super) at: Option<(i32, i32)>,
    /// Buttons and wheel.
    pub(super) events: Vec<InputEvent>,
}

/// A pointing device.
#[derive(Debug)]
pub(super) struct Pointer {
    kind: Kind,
    report: Report,
    /// The buttons that are down.
    down: BTreeSet<u16>,
    wheel: (i32, i32),
    /// The newest position, in the device's units.
    axes: (i32, i32),
    axes_changed: bool,
    touching: bool,
    /// The finger's position in the previous report.
    finger: Option<(i32, i32)>,
    /// The part of the touch pad's motion that is less than a pixel: the remainder of the division in `finger_moved`.
    rest: (i64, i64),
}

impl Pointer {
    pub(super) fn new(kind: Kind) -> Pointer {
        Pointer {
            kind,
            report: Report::default(),
            down: BTreeSet::new(),
            wheel: (0, 0),
            axes: (0, 0),
            axes_changed: false,
            touching: false,
            finger: None,
            rest: (0, 0),
        }
    }

    /// Handles an event that does not end a report.
    pub(super) fn event(&mut self, event: &Event) {
        let fine = matches!(self.kind, Kind::Mouse { fine_wheel: true });
        match (event.kind, event.code) {
            (EV_REL, REL_X) => {
                self.report.moved.0 = self.report.moved.0.saturating_add(event.value)
            }
            (EV_REL, REL_Y) => {
                self.report.moved.1 = self.report.moved.1.saturating_add(event.value)
            }
            (EV_REL, REL_WHEEL_HI_RES) => self.wheel.1 = self.wheel.1.saturating_add(event.value),
            (EV_REL, REL_HWHEEL_HI_RES) => self.wheel.0 = self.wheel.0.saturating_add(event.value),
            (EV_REL, REL_WHEEL) if !fine => {
                self.wheel.1 = self
                    .wheel
                    .1
                    .saturating_add(event.value.saturating_mul(NOTCH));
            }
            (EV_REL, REL_HWHEEL) if !fine => {
                self.wheel.0 = self
                    .wheel
                    .0
                    .saturating_add(event.value.saturating_mul(NOTCH));
            }
            (EV_ABS, ABS_X) => (self.axes.0, self.axes_changed) = (event.value, true),
            (EV_ABS, ABS_Y) => (self.axes.1, self.axes_changed) = (event.value, true),
            (EV_KEY, BTN_TOUCH) => self.touch(event.value != 0),
            // BTN_LEFT to BTN_TASK
            (EV_KEY, 0x110..=0x117) if event.value != 2 => {
                let pressed = event.value != 0;
                self.button(Button(event.code), pressed);
            }
            _ => {}
        }
    }

    fn touch(&mut self, touching: bool) {
        self.touching = touching;
        self.finger = None;
        if let Kind::TouchScreen(_) = self.kind {
            self.button(Button::LEFT, touching);
        }
    }

    fn button(&mut self, button: Button, pressed: bool) {
        match pressed {
            true => self.down.insert(button.0),
            false => self.down.remove(&button.0),
        };
        self.report
            .events
            .push(InputEvent::Button { button, pressed });
    }

    /// Handles lost events: discards the incomplete report, and returns releases of all buttons that may be down.
    pub(super) fn release(&mut self) -> Vec<InputEvent> {
        let mut down = std::mem::take(&mut self.down);
        // A release in the discarded report is not sent in any other way.
        for event in std::mem::take(&mut self.report).events {
            if let InputEvent::Button { button, .. } = event {
                down.insert(button.0);
            }
        }
        (self.wheel, self.axes_changed, self.finger) = ((0, 0), false, None);
        let released = down.into_iter().map(|button| InputEvent::Button {
            button: Button(button),
            pressed: false,
        });
        released.collect()
    }

    /// Ends a report on a display of this size.
    pub(super) fn end_report(&mut self, display: (i32, i32)) -> Report {
        let (right, up) = std::mem::take(&mut self.wheel);
        if (right, up) != (0, 0) {
            let turn = |turn: i32| i16::try_from(turn.clamp(-32_000, 32_000)).unwrap_or(0);
            let (dx, dy) = (turn(right), turn(up));
            self.report.events.push(InputEvent::Wheel { dx, dy });
        }
        let changed = std::mem::take(&mut self.axes_changed);
        match self.kind {
            Kind::Mouse { .. } => {}
            Kind::Tablet(axes) | Kind::TouchScreen(axes) => {
                if changed {
                    self.report.at = Some((
                        on_display(self.axes.0, axes.x, display.0),
                        on_display(self.axes.1, axes.y, display.1),
                    ));
                }
            }
            Kind::TouchPad(axes) if self.touching && changed => {
                if let Some(before) = self.finger.replace(self.axes) {
                    self.finger_moved(before, axes, display);
                }
            }
            Kind::TouchPad(_) => {}
        }
        std::mem::take(&mut self.report)
    }

    /// Moves the pointer in proportion to the motion of the finger, with the same factor across and down.
    fn finger_moved(&mut self, before: (i32, i32), axes: Axes, display: (i32, i32)) {
        let length = (i64::from(axes.x.1) - i64::from(axes.x.0)).max(1) * PAD_REACH.1;
        let reach = i64::from(display.0) * PAD_REACH.0;
        let along = |now: i32, before: i32, rest: &mut i64| {
            *rest += (i64::from(now) - i64::from(before)) * reach;
            let whole = *rest / length;
            *rest -= whole * length;
            i32::try_from(whole).unwrap_or(0)
        };
        self.report.moved = (
            along(self.axes.0, before.0, &mut self.rest.0),
            along(self.axes.1, before.1, &mut self.rest.1),
        );
    }
}

/// Converts a position between the minimum and the maximum value to a pixel.
fn on_display(value: i32, (least, greatest): (i32, i32), pixels: i32) -> i32 {
    let length = (i64::from(greatest) - i64::from(least) + 1).max(1);
    let along = (i64::from(value) - i64::from(least)) * i64::from(pixels) / length;
    i32::try_from(along)
        .unwrap_or(0)
        .clamp(0, (pixels - 1).max(0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const AXES: Axes = Axes {
        x: (0, 32_767),
        y: (0, 32_767),
    };
    const DISPLAY: (i32, i32) = (1280, 720);

    fn report(pointer: &mut Pointer, events: &[(u16, u16, i32)]) -> Report {
        for (kind, code, value) in events.iter().copied() {
            pointer.event(&Event {
                time: Duration::ZERO,
                kind,
                code,
                value,
            });
        }
        pointer.end_report(DISPLAY)
    }

    #[test]
    fn a_mouse_moves_by_steps_and_turns_its_wheel() {
        let mut mouse = Pointer::new(Kind::Mouse { fine_wheel: false });
        let got = report(
            &mut mouse,
            &[
                (EV_REL, REL_X, 3),
                (EV_REL, REL_Y, -2),
                (EV_KEY, 0x110, 1),
                (EV_REL, REL_WHEEL, -1),
            ],
        );
        assert_eq!(got.moved, (3, -2));
        let press = InputEvent::Button {
            button: Button::LEFT,
            pressed: true,
        };
        assert_eq!(got.events, [press, InputEvent::Wheel { dx: 0, dy: -120 }]);
        assert_eq!(report(&mut mouse, &[]), Report::default());
        // A mouse with a fine wheel also reports whole notches, which must not count twice.
        let mut fine = Pointer::new(Kind::Mouse { fine_wheel: true });
        let got = report(
            &mut fine,
            &[
                (EV_REL, REL_WHEEL_HI_RES, 30),
                (EV_REL, REL_WHEEL, 1),
                (EV_REL, REL_HWHEEL_HI_RES, -60),
            ],
        );
        assert_eq!(got.events, [InputEvent::Wheel { dx: -60, dy: 30 }]);
    }

    #[test]
    fn lost_events_release_the_buttons_that_may_be_down() {
        let mut mouse = Pointer::new(Kind::Mouse { fine_wheel: false });
        let down = [
            (EV_KEY, 0x110, 1),
            (EV_KEY, 0x111, 1),
            (EV_KEY, 0x112, 1),
            (EV_KEY, 0x112, 0),
        ];
        report(&mut mouse, &down);
        // A report that is cut off by the loss.
        for (kind, code, value) in [(EV_REL, REL_X, 9), (EV_KEY, 0x111, 0)] {
            mouse.event(&Event {
                time: Duration::ZERO,
                kind,
                code,
                value,
            });
        }
        let up = |code| InputEvent::Button {
            button: Button(code),
            pressed: false,
        };
        assert_eq!(mouse.release(), [up(0x110), up(0x111)]);
        assert_eq!(mouse.release(), []);
        assert_eq!(report(&mut mouse, &[]), Report::default());
    }

    #[test]
    fn a_tablet_points_at_the_whole_display() {
        let mut tablet = Pointer::new(Kind::Tablet(AXES));
        let mut at = |x, y| report(&mut tablet, &[(EV_ABS, ABS_X, x), (EV_ABS, ABS_Y, y)]).at;
        assert_eq!(at(0, 0), Some((0, 0)));
        assert_eq!(at(32_767, 32_767), Some((1279, 719)));
        assert_eq!(at(16_384, 16_384), Some((640, 360)));
        assert_eq!(at(-5, 40_000), Some((0, 719)));
    }

    #[test]
    fn a_finger_on_the_display_is_the_left_button() {
        let mut screen = Pointer::new(Kind::TouchScreen(AXES));
        let down = [(EV_KEY, BTN_TOUCH, 1), (EV_ABS, ABS_X, 16_384)];
        let got = report(&mut screen, &down);
        assert_eq!(got.at, Some((640, 0)));
        let button = |pressed| InputEvent::Button {
            button: Button::LEFT,
            pressed,
        };
        assert_eq!(got.events, [button(true)]);
        let got = report(&mut screen, &[(EV_KEY, BTN_TOUCH, 0)]);
        assert_eq!((got.at, got.events), (None, vec![button(false)]));
    }

    #[test]
    fn a_finger_on_a_pad_moves_the_pointer_from_where_it_is() {
        let axes = Axes {
            x: (0, 1279),
            y: (0, 1279),
        };
        let mut pad = Pointer::new(Kind::TouchPad(axes));
        let mut x = |events: &[(u16, u16, i32)]| report(&mut pad, events).moved.0;
        assert_eq!(x(&[(EV_KEY, BTN_TOUCH, 1), (EV_ABS, ABS_X, 100)]), 0);
        let steps: i32 = (101..=400).map(|at| x(&[(EV_ABS, ABS_X, at)])).sum();
        assert_eq!(steps, 200);
        assert_eq!(x(&[(EV_KEY, BTN_TOUCH, 0)]), 0);
        assert_eq!(x(&[(EV_KEY, BTN_TOUCH, 1), (EV_ABS, ABS_X, 1000)]), 0);
    }
}
