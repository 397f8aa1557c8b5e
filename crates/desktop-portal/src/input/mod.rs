//! Input to a session by the portal RemoteDesktop.

mod keys;

use std::collections::BTreeSet;
use std::sync::Arc;

use openuvr_media::input_sink::{InputError, InputSink};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::units::Size;
use openuvr_wayland::session_keyboard;

use self::keys::{Keys, Step};
use crate::session::{Command, Connected, Wheel};

/// One notch of the wheel in units of `REL_WHEEL_HI_RES`.
const NOTCH: i16 = 120;

/// The distance that a notch scrolls, as libinput reports it to a compositor.
const NOTCH_DISTANCE: f64 = 15.0;

/// Presses keys and buttons of a session, and releases all of them when dropped. The portal takes events in order; no call
/// waits for it.
pub struct PortalInput {
    session: Arc<Connected>,
    /// The node of the stream to which positions belong.
    node: u32,
    /// The size of the stream in the desktop's units.
    extent: Size,
    keys: Keys,
    buttons: BTreeSet<u16>,
}

impl PortalInput {
    pub(crate) fn new(
        session: Arc<Connected>,
        display: Option<&str>,
        node: u32,
        extent: Size,
    ) -> PortalInput {
        // Without the map each key is pressed as it is.
        let keyboard = session_keyboard::keyboard(display).inspect_err(|why| {
            tracing::warn!(
                "text is typed right only if client and desktop have the same keyboard layout: {why}"
            );
        });
        PortalInput {
            session,
            node,
            extent,
            keys: Keys::new(keyboard.ok()),
            buttons: BTreeSet::new(),
        }
    }

    fn send(&self, command: Command) -> Result<(), InputError> {
        match self.session.send(command) {
            true => Ok(()),
            false => Err(InputError(
                "the desktop's portal takes no input: the session has ended, or its desktop hangs"
                    .to_owned(),
            )),
        }
    }

    fn steps(&self, steps: Vec<Step>) -> Result<(), InputError> {
        steps.into_iter().try_for_each(|step| {
            self.send(match step {
                Step::Key(code, pressed) => Command::Key(code.0.into(), pressed),
                Step::Symbol(symbol, pressed) => Command::Symbol(symbol.cast_signed(), pressed),
            })
        })
    }

    fn release(&mut self) -> Result<(), InputError> {
        let steps = self.keys.release_all();
        self.steps(steps)?;
        for button in std::mem::take(&mut self.buttons) {
            self.send(Command::Button(button.into(), false))?;
        }
        Ok(())
    }

    /// The wheel turned: whole notches as such, anything else smoothly.
    fn turn(&self, dx: i16, dy: i16) -> Result<(), InputError> {
        // The portal counts down and to the right.
        self.send(Command::Wheel(match (dx % NOTCH, dy % NOTCH) {
            (0, 0) => Wheel::Notches((dx / NOTCH).into(), -i32::from(dy / NOTCH)),
            _ => {
                let distance = |moved: i16| NOTCH_DISTANCE * f64::from(moved) / f64::from(NOTCH);
                Wheel::Smooth(distance(dx), -distance(dy))
            }
        }))
    }
}

impl InputSink for PortalInput {
    fn apply(&mut self, event: &InputEvent) -> Result<(), InputError> {
        match *event {
            InputEvent::Key {
                code,
                text,
                pressed: true,
            } => {
                let steps = self.keys.press(code, text);
                self.steps(steps)
            }
            InputEvent::Key {
                code,
                pressed: false,
                ..
            } => {
                let steps = self.keys.release(code);
                self.steps(steps)
            }
            InputEvent::PointerAbsolute { x, y } => {
                let along = |at: u16, side: u32| f64::from(at) / 65_536.0 * f64::from(side);
                let (x, y) = (along(x, self.extent.width), along(y, self.extent.height));
                self.send(Command::MoveTo(self.node, x, y))
            }
            InputEvent::PointerRelative { dx, dy } => {
                self.send(Command::Move(dx.into(), dy.into()))
            }
            InputEvent::Button { button, pressed } => {
                let changed = match pressed {
                    true => self.buttons.insert(button.0),
                    false => self.buttons.remove(&button.0),
                };
                match changed {
                    true => self.send(Command::Button(button.0.into(), pressed)),
                    false => Ok(()),
                }
            }
            InputEvent::Wheel { dx, dy } => self.turn(dx, dy),
            InputEvent::ReleaseAll => self.release(),
            // The portal has a keyboard, a pointer and a touch screen, and pads are handled elsewhere.
            InputEvent::Device { .. }
            | InputEvent::PadConnected { .. }
            | InputEvent::PadDisconnected { .. }
            | InputEvent::Pad { .. } => Ok(()),
        }
    }

    fn release_all(&mut self) -> Result<(), InputError> {
        self.release()
    }

    /// Positions are relative to the stream, wherever its screen is.
    fn set_viewport(&mut self, _x: i32, _y: i32, _size: Size) {}
}

impl Drop for PortalInput {
    fn drop(&mut self) {
        // A session that has ended holds no keys.
        if self.release().is_ok() {
            self.session.flush();
        }
    }
}
