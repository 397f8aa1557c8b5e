//! Input to a session through the portal RemoteDesktop.

mod keys;

use std::collections::BTreeSet;
use std::sync::Arc;

use openuvr_media::input_sink::{InputError, InputSink};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::units::Size;
use openuvr_wayland::output_sizes::{OutputSize, output_sizes};
use openuvr_wayland::{display, session_keyboard};

use self::keys::{Keys, Step};
use crate::session::{Command, Connected, Permitted, Wheel};

/// One notch of the wheel in units of `REL_WHEEL_HI_RES`.
const NOTCH: i16 = 120;

/// The distance that a notch scrolls, as libinput reports it to a compositor.
const NOTCH_DISTANCE: f64 = 15.0;

/// `KEY_UNKNOWN` of Linux: no keyboard layout has a symbol for it.
const NO_KEY: i32 = 240;

/// Presses keys and buttons of a session, and releases all of them when dropped. The portal handles events in order.
/// Calls do not wait for the portal, but the drop waits for at most a second until the portal has received the
/// releases.
pub struct PortalInput {
    session: Arc<Connected>,
    permitted: Permitted,
    /// The node of the stream to which positions belong.
    node: u32,
    /// The size of the stream in the desktop's units.
    extent: Size,
    keys: Keys,
    buttons: BTreeSet<u16>,
    /// Whether the compositor is KDE's.
    is_kwin: bool,
}

impl PortalInput {
    /// Creates the input. Input that is not permitted is discarded, with one warning.
    pub(crate) fn new(
        session: Arc<Connected>,
        display: Option<&str>,
        node: u32,
        extent: Size,
        permitted: Permitted,
    ) -> PortalInput {
        for (accepts, what) in [
            (permitted.keyboard, "keys"),
            (permitted.pointer, "pointer input"),
        ] {
            if !accepts {
                tracing::warn!(
                    "the player's {what} can't reach the desktop: its user has not allowed this; start the host again \
                     and allow keyboard and pointer"
                );
            }
        }
        if permitted.keyboard {
            // GNOME creates the session's keyboard at the first key event. If the machine has no other keyboard,
            // applications learn of this keyboard only then, and the event is lost. Therefore, an unused key is pressed
            // first.
            for pressed in [true, false] {
                // An error is ignored: if the portal has ended, the first real event also fails, and its error is
                // returned.
                let _ = session.send(Command::Key(NO_KEY, pressed));
            }
        }
        let (is_kwin, outputs) = compositor(display).unwrap_or_default();
        // Without a keymap, each key is pressed as the physical key.
        let keyboard = session_keyboard::keyboard(display).inspect_err(|why| {
            tracing::warn!(
                "text is typed correctly only if client and desktop have the same keyboard layout: {why}"
            );
        });
        PortalInput {
            session,
            permitted,
            node,
            extent: logical(extent, &outputs),
            keys: Keys::new(keyboard.ok()),
            buttons: BTreeSet::new(),
            is_kwin,
        }
    }

    fn send(&self, command: Command) -> Result<(), InputError> {
        if !command.is_permitted(self.permitted) {
            return Ok(());
        }
        match self.session.send(command) {
            true => Ok(()),
            false => Err(InputError(
                "the desktop's portal accepts no input: the session has ended, or the desktop hangs"
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

    fn turn(&self, dx: i16, dy: i16) -> Result<(), InputError> {
        self.send(Command::Wheel(wheel(dx, dy, self.is_kwin)))
    }
}

/// Converts a rotation of the wheel. Whole notches stay notches, and any other rotation becomes a smooth distance. In
/// the portal, down and right are positive. KDE's portal scrolls only a pixel for each notch, and for smooth rotations,
/// it treats up as positive (xdg-desktop-portal-kde 5.27.5 and 6.7.4: src/waylandintegration.cpp).
fn wheel(dx: i16, dy: i16, is_kwin: bool) -> Wheel {
    let distance = |moved: i16| NOTCH_DISTANCE * f64::from(moved) / f64::from(NOTCH);
    match (dx % NOTCH, dy % NOTCH) {
        _ if is_kwin => Wheel::Smooth(distance(dx), distance(dy)),
        (0, 0) => Wheel::Notches((dx / NOTCH).into(), -i32::from(dy / NOTCH)),
        _ => Wheel::Smooth(distance(dx), -distance(dy)),
    }
}

/// Whether the compositor is KDE's, and its outputs.
///
/// # Errors
/// Returns an error if the compositor cannot be queried.
fn compositor(name: Option<&str>) -> Result<(bool, Vec<OutputSize>), String> {
    let connection = display::connect(name)?;
    let is_kwin = display::interfaces(&connection)?.contains_key("org_kde_plasma_shell");
    Ok((is_kwin, output_sizes(&connection)))
}

/// The size of a stream in the desktop's units. `stated` is the size that the portal reports: in these units or, as in
/// KDE 5.27, in pixels.
fn logical(stated: Size, outputs: &[OutputSize]) -> Size {
    if outputs.iter().any(|output| output.logical == stated) {
        return stated;
    }
    let scaled = outputs.iter().find(|output| output.pixels == stated);
    scaled.map_or(stated, |output| output.logical)
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
            // The portal has only a keyboard, a pointer and a touch screen. Game pads are handled in
            // `openuvr_media::input_sink::pads`.
            InputEvent::Device { .. }
            | InputEvent::PadConnected { .. }
            | InputEvent::PadDisconnected { .. }
            | InputEvent::Pad { .. } => Ok(()),
        }
    }

    fn release_all(&mut self) -> Result<(), InputError> {
        self.release()
    }

    /// Does nothing: positions are relative to the stream, so the position of its screen does not matter.
    fn set_viewport(&mut self, _x: i32, _y: i32, _size: Size) {}
}

impl Drop for PortalInput {
    fn drop(&mut self) {
        // Releasing the keys fails only if the session has ended or hangs.
        if self.release().is_ok() {
            self.session.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notches_stay_notches_except_in_kde() {
        assert_eq!(wheel(0, 240, false), Wheel::Notches(0, -2));
        assert_eq!(wheel(-120, 0, false), Wheel::Notches(-1, 0));
        assert_eq!(wheel(0, 40, false), Wheel::Smooth(0.0, -5.0));
        // This is the distance that libinput reports for two notches.
        assert_eq!(wheel(0, 240, true), Wheel::Smooth(0.0, 30.0));
    }

    #[test]
    fn a_size_in_pixels_becomes_one_in_the_desktops_units() {
        let size = Size::new;
        let scaled = OutputSize {
            pixels: size(1920, 1080),
            logical: size(1280, 720),
        };
        let plain = OutputSize {
            pixels: size(1920, 1080),
            logical: size(1920, 1080),
        };
        assert_eq!(logical(size(1920, 1080), &[scaled]), size(1280, 720));
        assert_eq!(logical(size(1280, 720), &[scaled]), size(1280, 720));
        // The stream shows a window, or the desktop does not list its outputs.
        assert_eq!(logical(size(300, 200), &[scaled]), size(300, 200));
        assert_eq!(logical(size(1920, 1080), &[]), size(1920, 1080));
        // Either output may be the shared one, so the stated size is used.
        let both = [scaled, plain];
        assert_eq!(logical(size(1920, 1080), &both), size(1920, 1080));
    }
}
