//! Translates a client's packets into the host's input events.

use openuvr_proto::input::event::{Button, InputEvent, KeyCode};

use super::keys::key_of;
use super::packet::{InputPacket, TouchPhase};
use super::pads::{Pads, state};

/// Pointer buttons, from number 1 on.
const BUTTONS: [Button; 5] = [
    Button::LEFT,
    Button::MIDDLE,
    Button::RIGHT,
    Button::SIDE,
    Button::EXTRA,
];

/// Translates the packets of one client.
#[derive(Clone, Debug, Default)]
pub struct Translator {
    pads: Pads,
    /// The finger that holds the left button. The pointer follows the first finger.
    finger: Option<u32>,
}

impl Translator {
    /// Calls `each` with the events of a packet, in order.
    pub fn events(&mut self, packet: &InputPacket, mut each: impl FnMut(InputEvent)) {
        match *packet {
            InputPacket::Key { code, pressed } => {
                if let Some(code) = key_of(code) {
                    let text = None;
                    each(InputEvent::Key {
                        code,
                        text,
                        pressed,
                    });
                }
            }
            InputPacket::Text(ref text) => {
                let characters = text.chars().filter(|c| !c.is_control());
                for character in characters {
                    for (text, pressed) in [(Some(character), true), (None, false)] {
                        each(InputEvent::Key {
                            code: KeyCode::NONE,
                            text,
                            pressed,
                        });
                    }
                }
            }
            InputPacket::PointerAbsolute { at, edge } => {
                let (x, y) = (scaled(at.0, edge.0), scaled(at.1, edge.1));
                each(InputEvent::PointerAbsolute { x, y });
            }
            InputPacket::PointerRelative { dx, dy } => {
                each(InputEvent::PointerRelative { dx, dy });
            }
            InputPacket::Button { number, pressed } => {
                let index = usize::from(number).checked_sub(1);
                if let Some(button) = index.and_then(|index| BUTTONS.get(index)) {
                    let button = *button;
                    each(InputEvent::Button { button, pressed });
                }
            }
            InputPacket::Wheel { dx, dy } => each(InputEvent::Wheel { dx, dy }),
            InputPacket::Touch { phase, finger, at } => self.touch(phase, finger, at, each),
            InputPacket::Pad {
                number,
                connected,
                buttons,
                triggers,
                sticks,
            } => {
                let state = state(buttons, triggers, sticks);
                self.pads.state(number, connected, state, each);
            }
            InputPacket::PadArrived {
                number,
                kind,
                abilities,
            } => self.pads.arrived(number, kind, abilities, each),
        }
    }

    /// Converts a touch into pointer motion with the left button.
    fn touch(
        &mut self,
        phase: TouchPhase,
        finger: u32,
        at: (f32, f32),
        mut each: impl FnMut(InputEvent),
    ) {
        let is_first = self.finger == Some(finger);
        let mut place = || {
            let (x, y) = (fraction(at.0), fraction(at.1));
            each(InputEvent::PointerAbsolute { x, y });
        };
        let pressed = match phase {
            TouchPhase::Hovered if self.finger.is_none() => {
                place();
                return;
            }
            TouchPhase::Moved if is_first => {
                place();
                return;
            }
            TouchPhase::Began if self.finger.is_none() => {
                place();
                self.finger = Some(finger);
                true
            }
            TouchPhase::Ended if is_first => {
                place();
                self.finger = None;
                false
            }
            TouchPhase::AllEnded if self.finger.is_some() => {
                self.finger = None;
                false
            }
            _ => return,
        };
        let button = Button::LEFT;
        each(InputEvent::Button { button, pressed });
    }
}

/// Scales a position from the range 0 to `edge` to the range 0 to 65 535.
fn scaled(at: u16, edge: u16) -> u16 {
    let edge = u32::from(edge).max(1);
    let position = u32::from(at).min(edge) * u32::from(u16::MAX) / edge;
    u16::try_from(position).unwrap_or(u16::MAX)
}

/// Scales a position from the range 0 to 1 to the range 0 to 65 535.
fn fraction(at: f32) -> u16 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "within the range by the clamp"
    )]
    #[expect(clippy::cast_sign_loss, reason = "not negative by the clamp")]
    let position = (at.clamp(0.0, 1.0) * f32::from(u16::MAX)).round() as u16;
    position
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(translator: &mut Translator, packet: &InputPacket) -> Vec<InputEvent> {
        let mut events = Vec::new();
        translator.events(packet, |event| events.push(event));
        events
    }

    #[test]
    fn positions_cover_the_picture() {
        let mut translator = Translator::default();
        let mut at = |x, y| {
            let packet = InputPacket::PointerAbsolute {
                at: (x, y),
                edge: (1279, 0),
            };
            events(&mut translator, &packet)[0]
        };
        let absolute = |x, y| InputEvent::PointerAbsolute { x, y };
        assert_eq!(at(0, 0), absolute(0, 0));
        assert_eq!(at(1279, 0), absolute(65_535, 0));
        assert_eq!(at(u16::MAX, u16::MAX), absolute(65_535, 65_535));
    }

    #[test]
    fn text_is_typed_without_control_characters() {
        let text = InputPacket::Text("é\u{1b}\n".to_owned());
        let typed = events(&mut Translator::default(), &text);
        let key = |text, pressed| InputEvent::Key {
            code: KeyCode::NONE,
            text,
            pressed,
        };
        assert_eq!(typed, [key(Some('é'), true), key(None, false)]);
    }

    #[test]
    fn the_first_finger_is_the_pointer() {
        let mut translator = Translator::default();
        let mut touch = |phase, finger| {
            let at = (1.0, -3.0);
            let packet = InputPacket::Touch { phase, finger, at };
            events(&mut translator, &packet)
        };
        let place = InputEvent::PointerAbsolute { x: u16::MAX, y: 0 };
        let left = |pressed| InputEvent::Button {
            button: Button::LEFT,
            pressed,
        };
        assert_eq!(touch(TouchPhase::Began, 5), [place, left(true)]);
        assert_eq!(touch(TouchPhase::Began, 6), []);
        assert_eq!(touch(TouchPhase::Moved, 6), []);
        assert_eq!(touch(TouchPhase::Moved, 5), [place]);
        assert_eq!(touch(TouchPhase::Ended, 6), []);
        assert_eq!(touch(TouchPhase::Ended, 5), [place, left(false)]);
        assert_eq!(touch(TouchPhase::AllEnded, 0), []);
        assert_eq!(touch(TouchPhase::Hovered, 0), [place]);
    }

    #[test]
    fn unknown_keys_and_buttons_are_ignored() {
        let mut translator = Translator::default();
        for packet in [
            InputPacket::Key {
                code: 0,
                pressed: true,
            },
            InputPacket::Button {
                number: 0,
                pressed: true,
            },
            InputPacket::Button {
                number: 6,
                pressed: true,
            },
        ] {
            assert_eq!(events(&mut translator, &packet), []);
        }
    }
}
