//! Translates a registered device's events to keyboard and mouse events.
//!
//! Events without a counterpart (axes and buttons of a pad or a pen) stay unchanged.

use std::collections::BTreeMap;

use openuvr_proto::id::DeviceId;
use openuvr_proto::input::event::{Button, EV_KEY, EV_REL, EV_SYN, InputEvent, KeyCode};

// `linux/input-event-codes.h`
const REL_X: u16 = 0;
const REL_Y: u16 = 1;
const REL_HWHEEL: u16 = 6;
const REL_WHEEL: u16 = 8;
const REL_WHEEL_HI_RES: u16 = 0x0b;
const REL_HWHEEL_HI_RES: u16 = 0x0c;
/// Units of high-resolution wheels in a notch.
const NOTCH: i32 = 120;

/// The translation of one event: at most three events, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Translated([Option<InputEvent>; 3]);

impl From<InputEvent> for Translated {
    fn from(event: InputEvent) -> Translated {
        Translated([Some(event), None, None])
    }
}

impl Iterator for Translated {
    type Item = InputEvent;

    fn next(&mut self) -> Option<InputEvent> {
        self.0.iter_mut().find_map(Option::take)
    }
}

/// A device's motion since its last report.
#[derive(Debug, Default)]
struct Accumulated {
    moved: (i32, i32),
    /// Wheel motion in notches, and in fractions of a notch. A device that reports fractions
    /// reports both.
    notches: (i32, i32),
    parts: (i32, i32),
    /// Whether an event was passed unchanged, so that the end of its report must be passed, too.
    raw: bool,
}

/// Translates the events of all devices that are not mapped.
#[derive(Debug, Default)]
pub(super) struct Translator {
    devices: BTreeMap<DeviceId, Accumulated>,
}

impl Translator {
    pub(super) fn take(
        &mut self,
        device: DeviceId,
        kind: u16,
        code: u16,
        value: i32,
    ) -> Translated {
        let since = self.devices.entry(device).or_default();
        if kind == EV_REL
            && let Some(sum) = since.axis(code)
        {
            *sum = sum.saturating_add(value);
            return Translated::default();
        }
        let pressed = value != 0;
        let usual = match (kind, code) {
            (EV_SYN, 0) => return std::mem::take(since).report(device),
            // BTN_LEFT to BTN_TASK
            (EV_KEY, 0x110..=0x117) => InputEvent::Button {
                button: Button(code),
                pressed,
            },
            (EV_KEY, 0..0x100 | 0x160..) => InputEvent::Key {
                code: KeyCode(code),
                text: None,
                pressed,
            },
            _ => {
                since.raw = true;
                InputEvent::Device {
                    device,
                    kind,
                    code,
                    value,
                }
            }
        };
        Translated::from(usual)
    }
}

impl Accumulated {
    fn axis(&mut self, code: u16) -> Option<&mut i32> {
        Some(match code {
            REL_X => &mut self.moved.0,
            REL_Y => &mut self.moved.1,
            REL_HWHEEL => &mut self.notches.0,
            REL_WHEEL => &mut self.notches.1,
            REL_HWHEEL_HI_RES => &mut self.parts.0,
            REL_WHEEL_HI_RES => &mut self.parts.1,
            _ => return None,
        })
    }

    fn report(self, device: DeviceId) -> Translated {
        let wheel = |parts: i32, notches: i32| match parts {
            0 => notches.saturating_mul(NOTCH),
            parts => parts,
        };
        let (dx, dy) = (short(self.moved.0), short(self.moved.1));
        let motion = InputEvent::PointerRelative { dx, dy };
        let (x, y) = (
            short(wheel(self.parts.0, self.notches.0)),
            short(wheel(self.parts.1, self.notches.1)),
        );
        let turn = InputEvent::Wheel { dx: x, dy: y };
        let report = InputEvent::Device {
            device,
            kind: EV_SYN,
            code: 0,
            value: 0,
        };
        Translated([
            ((dx, dy) != (0, 0)).then_some(motion),
            ((x, y) != (0, 0)).then_some(turn),
            self.raw.then_some(report),
        ])
    }
}

/// Clamps a motion to 16 bits. No hand moves further between two reports.
fn short(v: i32) -> i16 {
    let bounded = v.clamp(i16::MIN.into(), i16::MAX.into());
    i16::try_from(bounded).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(events: &[(u16, u16, i32)]) -> Vec<InputEvent> {
        let mut translator = Translator::default();
        let take = |&(kind, code, value): &_| translator.take(DeviceId(1), kind, code, value);
        events.iter().flat_map(take).collect()
    }

    const REPORT: (u16, u16, i32) = (EV_SYN, 0, 0);

    #[test]
    fn a_keyboard_and_a_mouse() {
        let key = |code, pressed| InputEvent::Key {
            code: KeyCode(code),
            text: None,
            pressed,
        };
        let keys = [(EV_KEY, 30, 1), REPORT, (EV_KEY, 30, 0), REPORT];
        assert_eq!(usual(&keys), [key(30, true), key(30, false)]);
        let mouse = [
            (EV_REL, REL_X, 3),
            (EV_REL, REL_Y, -4),
            REPORT,
            (EV_KEY, 0x110, 1),
            (EV_REL, REL_X, 40_000),
            REPORT,
            // Both events report the same notch.
            (EV_REL, REL_WHEEL, -1),
            (EV_REL, REL_WHEEL_HI_RES, -120),
            (EV_REL, REL_HWHEEL, 1),
            REPORT,
        ];
        let moved = |dx, dy| InputEvent::PointerRelative { dx, dy };
        let press = InputEvent::Button {
            button: Button::LEFT,
            pressed: true,
        };
        let turned = InputEvent::Wheel { dx: 120, dy: -120 };
        assert_eq!(
            usual(&mouse),
            [moved(3, -4), press, moved(i16::MAX, 0), turned]
        );
    }

    #[test]
    fn pad_events_are_unchanged() {
        let pad = [(EV_KEY, 0x130, 1), (3, 0, -32_768), REPORT];
        let raw = |&(kind, code, value): &(u16, u16, i32)| InputEvent::Device {
            device: DeviceId(1),
            kind,
            code,
            value,
        };
        assert_eq!(usual(&pad), pad.iter().map(raw).collect::<Vec<_>>());
    }
}
