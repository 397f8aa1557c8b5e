//! Converts the player's input to Bevy's messages.

use std::collections::HashMap;

use bevy::ecs::system::SystemParam;
use bevy::input::ButtonState;
use bevy::input::keyboard::{Key, KeyboardInput};
use bevy::input::mouse::{MouseButtonInput, MouseMotion, MouseScrollUnit, MouseWheel};
use bevy::input::touch::TouchPhase;
use bevy::prelude::*;
use bevy::window::CursorMoved;
use openuvr_proto::input::event::{Button, InputEvent};
use openuvr_proto::units::Size;

use crate::keys;

/// Wheel units per notch.
const NOTCH: f32 = 120.0;

/// A message of Bevy.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Event {
    Key(KeyboardInput),
    Button(MouseButtonInput),
    Moved(CursorMoved),
    Motion(MouseMotion),
    Wheel(MouseWheel),
}

#[derive(SystemParam)]
pub(crate) struct Writers<'w> {
    keys: MessageWriter<'w, KeyboardInput>,
    buttons: MessageWriter<'w, MouseButtonInput>,
    moved: MessageWriter<'w, CursorMoved>,
    motion: MessageWriter<'w, MouseMotion>,
    wheel: MessageWriter<'w, MouseWheel>,
}

impl Writers<'_> {
    pub(crate) fn write(&mut self, event: Event) {
        match event {
            Event::Key(message) => {
                self.keys.write(message);
            }
            Event::Button(message) => {
                self.buttons.write(message);
            }
            Event::Moved(message) => {
                self.moved.write(message);
            }
            Event::Motion(message) => {
                self.motion.write(message);
            }
            Event::Wheel(message) => {
                self.wheel.write(message);
            }
        }
    }
}

/// The state of the player's keyboard and mouse.
#[derive(Default)]
pub(crate) struct Player {
    /// The pressed keys by their Linux codes, each with the values with which its press was reported.
    keys: HashMap<u16, (KeyCode, Key)>,
    buttons: Vec<MouseButton>,
    /// The pointer's position in the picture.
    pointer: Option<Vec2>,
}

impl Player {
    /// Converts an input event to messages, and passes them to `write`. `size` is the size of the picture in pixels.
    pub(crate) fn take(
        &mut self,
        event: InputEvent,
        window: Entity,
        size: Size,
        write: &mut impl FnMut(Event),
    ) {
        match event {
            InputEvent::Key {
                code,
                text,
                pressed: true,
            } => {
                // A second press without a release is ignored.
                if self.keys.contains_key(&code.0) {
                    return;
                }
                let key_code = keys::physical(code.0);
                let logical_key = keys::logical(key_code, code, text);
                self.keys.insert(code.0, (key_code, logical_key.clone()));
                write(Event::Key(KeyboardInput {
                    key_code,
                    logical_key,
                    state: ButtonState::Pressed,
                    text: text.map(|text| text.to_string().into()),
                    repeat: false,
                    window,
                }));
            }
            InputEvent::Key { code, .. } => self.release_key(code.0, window, write),
            InputEvent::Button { button, pressed } => {
                self.press_button(mouse_button(button), pressed, window, write);
            }
            InputEvent::PointerAbsolute { x, y } => {
                let size = Vec2::new(size.width as f32, size.height as f32);
                let position = Vec2::new(x.into(), y.into()) / f32::from(u16::MAX) * size;
                let delta = self.pointer.map(|before| position - before);
                self.pointer = Some(position);
                write(Event::Moved(CursorMoved {
                    window,
                    position,
                    delta,
                }));
                if let Some(delta) = delta {
                    write(Event::Motion(MouseMotion { delta }));
                }
            }
            InputEvent::PointerRelative { dx, dy } => {
                let delta = Vec2::new(dx.into(), dy.into());
                write(Event::Motion(MouseMotion { delta }));
            }
            // Like winit, Bevy reports the direction in which the content moves, so a turn of the wheel to the right is
            // negative.
            InputEvent::Wheel { dx, dy } => write(Event::Wheel(MouseWheel {
                unit: MouseScrollUnit::Line,
                x: -f32::from(dx) / NOTCH,
                y: f32::from(dy) / NOTCH,
                window,
                phase: TouchPhase::Moved,
            })),
            InputEvent::ReleaseAll => self.release_all(window, write),
            // The host offers neither pads nor registered devices.
            InputEvent::Device { .. }
            | InputEvent::PadConnected { .. }
            | InputEvent::PadDisconnected { .. }
            | InputEvent::Pad { .. } => {}
        }
    }

    fn release_key(&mut self, code: u16, window: Entity, write: &mut impl FnMut(Event)) {
        let Some((key_code, logical_key)) = self.keys.remove(&code) else {
            return;
        };
        write(Event::Key(KeyboardInput {
            key_code,
            logical_key,
            state: ButtonState::Released,
            text: None,
            repeat: false,
            window,
        }));
    }

    fn press_button(
        &mut self,
        button: MouseButton,
        pressed: bool,
        window: Entity,
        write: &mut impl FnMut(Event),
    ) {
        if self.buttons.contains(&button) == pressed {
            return;
        }
        let state = match pressed {
            true => {
                self.buttons.push(button);
                ButtonState::Pressed
            }
            false => {
                self.buttons.retain(|held| *held != button);
                ButtonState::Released
            }
        };
        write(Event::Button(MouseButtonInput {
            button,
            state,
            window,
        }));
    }

    fn release_all(&mut self, window: Entity, write: &mut impl FnMut(Event)) {
        let mut codes: Vec<u16> = self.keys.keys().copied().collect();
        codes.sort_unstable();
        for code in codes {
            self.release_key(code, window, write);
        }
        for button in self.buttons.clone() {
            self.press_button(button, false, window, write);
        }
    }
}

fn mouse_button(button: Button) -> MouseButton {
    match button {
        Button::LEFT => MouseButton::Left,
        Button::RIGHT => MouseButton::Right,
        Button::MIDDLE => MouseButton::Middle,
        Button::SIDE => MouseButton::Back,
        Button::EXTRA => MouseButton::Forward,
        Button(other) => MouseButton::Other(other),
    }
}

#[cfg(test)]
mod tests {
    use openuvr_proto::input::event::KeyCode as LinuxKey;

    use super::*;

    const WINDOW: Entity = Entity::PLACEHOLDER;
    const SIZE: Size = Size::new(640, 360);

    fn events(player: &mut Player, input: &[InputEvent]) -> Vec<Event> {
        let mut events = Vec::new();
        for event in input {
            player.take(*event, WINDOW, SIZE, &mut |event| events.push(event));
        }
        events
    }

    fn key(code: u16, text: Option<char>, pressed: bool) -> InputEvent {
        InputEvent::Key {
            code: LinuxKey(code),
            text,
            pressed,
        }
    }

    fn keyboard(code: KeyCode, logical: Key, text: Option<&str>, pressed: bool) -> Event {
        Event::Key(KeyboardInput {
            key_code: code,
            logical_key: logical,
            state: match pressed {
                true => ButtonState::Pressed,
                false => ButtonState::Released,
            },
            text: text.map(Into::into),
            repeat: false,
            window: WINDOW,
        })
    }

    #[test]
    fn a_release_has_the_meaning_of_its_press() {
        // On a German keyboard, the key at the position of the American Y types a z.
        let z = || Key::Character("z".into());
        let input = [
            key(21, Some('z'), true),
            key(21, Some('z'), true),
            key(21, None, false),
            key(21, None, false),
        ];
        let expected = [
            keyboard(KeyCode::KeyY, z(), Some("z"), true),
            keyboard(KeyCode::KeyY, z(), None, false),
        ];
        assert_eq!(events(&mut Player::default(), &input), expected);
    }

    #[test]
    fn everything_that_is_held_is_released() {
        let mut player = Player::default();
        let input = [
            key(42, None, true),
            key(57, Some(' '), true),
            InputEvent::Button {
                button: Button::RIGHT,
                pressed: true,
            },
        ];
        assert_eq!(events(&mut player, &input).len(), 3);
        let released = events(&mut player, &[InputEvent::ReleaseAll]);
        let expected = [
            keyboard(KeyCode::ShiftLeft, Key::Shift, None, false),
            keyboard(KeyCode::Space, Key::Space, None, false),
            Event::Button(MouseButtonInput {
                button: MouseButton::Right,
                state: ButtonState::Released,
                window: WINDOW,
            }),
        ];
        assert_eq!(released, expected);
        assert!(events(&mut player, &[InputEvent::ReleaseAll]).is_empty());
    }

    #[test]
    fn the_pointer_moves_in_pixels_and_the_wheel_in_notches() {
        let mut player = Player::default();
        let input = [
            InputEvent::PointerAbsolute { x: 0, y: 0 },
            InputEvent::PointerAbsolute { x: 65535, y: 0 },
            InputEvent::PointerRelative { dx: -3, dy: 4 },
            InputEvent::Wheel { dx: 120, dy: -60 },
        ];
        let moved = |x: f32, delta: Option<Vec2>| {
            Event::Moved(CursorMoved {
                window: WINDOW,
                position: Vec2::new(x, 0.0),
                delta,
            })
        };
        let motion = |x: f32, y: f32| {
            Event::Motion(MouseMotion {
                delta: Vec2::new(x, y),
            })
        };
        let expected = [
            moved(0.0, None),
            moved(640.0, Some(Vec2::new(640.0, 0.0))),
            motion(640.0, 0.0),
            motion(-3.0, 4.0),
            Event::Wheel(MouseWheel {
                unit: MouseScrollUnit::Line,
                x: -1.0,
                y: -0.5,
                window: WINDOW,
                phase: TouchPhase::Moved,
            }),
        ];
        assert_eq!(events(&mut player, &input), expected);
    }
}
