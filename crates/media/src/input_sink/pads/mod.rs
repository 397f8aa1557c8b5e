//! Game pads at the host: presents the player's pads to the application as devices, and returns the application's force
//! feedback.

pub mod game;
pub mod seats;
pub mod server;
pub mod uinput;

use std::time::Duration;

use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::pad::{MAX_PADS, PadId, PadIdentity, PadState, Rumble};

use super::InputError;
use crate::waker::Waker;

/// Presents pads. The host's control thread owns it.
pub trait PadSink: Send {
    /// Adds a pad, with nothing held. The pad must not exist yet.
    ///
    /// # Errors
    /// [`InputError`] if it can't be created.
    fn plug(&mut self, pad: PadId, identity: &PadIdentity) -> Result<(), InputError>;

    /// Removes a pad.
    fn unplug(&mut self, pad: PadId);

    /// Changes the state of an existing pad from `before` to `now`.
    ///
    /// # Errors
    /// [`InputError`] if the change can't be delivered.
    fn held(&mut self, pad: PadId, before: &PadState, now: &PadState) -> Result<(), InputError>;
}

/// The source of the pads' rumble. A separate thread owns it.
pub trait RumbleSource: Send {
    /// Waits for the next change of a pad's rumble, at most `timeout` (`None`: no limit). Returns `None` if there is no
    /// change, for example on timeout or when woken.
    fn next(&mut self, timeout: Option<Duration>) -> Option<(PadId, Rumble)>;

    /// The waker that makes a waiting [`RumbleSource::next`] return.
    fn waker(&self) -> Waker;
}

/// The devices of the player's pads.
pub struct Pads {
    /// Receives the pads' state.
    pub sink: Box<dyn PadSink>,
    /// Reports the pads' rumble.
    pub rumble: Box<dyn RumbleSource>,
}

/// The player's pads as presented, with their states.
pub struct VirtualPads {
    sink: Box<dyn PadSink>,
    held: [Option<PadState>; MAX_PADS as usize],
}

impl VirtualPads {
    /// Creates the value with no pads plugged in.
    #[must_use]
    pub fn new(sink: Box<dyn PadSink>) -> VirtualPads {
        VirtualPads {
            sink,
            held: Default::default(),
        }
    }

    /// Handles an event if it concerns pads.
    ///
    /// # Errors
    /// [`InputError`] of the sink. A pad that can't be created stays absent.
    pub fn take(&mut self, event: &InputEvent) -> Result<(), InputError> {
        match *event {
            InputEvent::PadConnected { pad, identity } => {
                self.unplug(pad);
                self.sink.plug(pad, &identity)?;
                self.held[pad.index()] = Some(PadState::NEUTRAL);
                Ok(())
            }
            InputEvent::PadDisconnected { pad } => {
                self.unplug(pad);
                Ok(())
            }
            InputEvent::Pad { pad, state } => self.hold(pad, state),
            InputEvent::ReleaseAll => self.release_all(),
            _ => Ok(()),
        }
    }

    /// Releases everything held on all pads; they stay plugged in.
    ///
    /// # Errors
    /// Returns the first error of the sink.
    pub fn release_all(&mut self) -> Result<(), InputError> {
        let held = |pad| self.hold(pad, PadState::NEUTRAL);
        PadId::all().map(held).fold(Ok(()), Result::and)
    }

    /// Unplugs all pads, because their player has left or was replaced.
    pub fn unplug_all(&mut self) {
        PadId::all().for_each(|pad| self.unplug(pad));
    }

    fn hold(&mut self, pad: PadId, now: PadState) -> Result<(), InputError> {
        let Some(held) = &mut self.held[pad.index()] else {
            return Ok(());
        };
        let before = std::mem::replace(held, now);
        match before == now {
            true => Ok(()),
            false => self.sink.held(pad, &before, &now),
        }
    }

    /// Unplugs the pad after releasing everything held on it.
    fn unplug(&mut self, pad: PadId) {
        if self.held[pad.index()].is_some() {
            let _ = self.hold(pad, PadState::NEUTRAL);
            self.held[pad.index()] = None;
            self.sink.unplug(pad);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use openuvr_proto::input::pad::{PadButton, PadName};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<String>>>);

    impl PadSink for Sink {
        fn plug(&mut self, pad: PadId, identity: &PadIdentity) -> Result<(), InputError> {
            let name = identity.name;
            self.0
                .lock()
                .unwrap()
                .push(format!("+{} {name}", pad.number()));
            Ok(())
        }

        fn unplug(&mut self, pad: PadId) {
            self.0.lock().unwrap().push(format!("-{}", pad.number()));
        }

        fn held(&mut self, pad: PadId, was: &PadState, now: &PadState) -> Result<(), InputError> {
            let words = format!("{} {}>{}", pad.number(), was.buttons, now.buttons);
            self.0.lock().unwrap().push(words);
            Ok(())
        }
    }

    #[test]
    fn an_unplugged_pad_is_released_first() {
        let sink = Sink::default();
        let mut pads = VirtualPads::new(Box::new(sink.clone()));
        let pad = PadId::new(1).unwrap();
        let connected = InputEvent::PadConnected {
            pad,
            identity: PadIdentity {
                name: PadName::new("x"),
                vendor: 0,
                product: 0,
                buttons: 0,
                sticks: [true; 2],
                rumbles: false,
            },
        };
        let state = PadState::NEUTRAL.with(PadButton::East, true);
        let press = InputEvent::Pad { pad, state };
        let unplugged = InputEvent::PadDisconnected { pad };
        for event in [
            press, // of an unknown pad
            connected,
            press,
            press,
            InputEvent::ReleaseAll,
            press,
            unplugged,
            unplugged,
            connected,
            press,
            connected,
        ] {
            pads.take(&event).unwrap();
        }
        pads.release_all().unwrap();
        pads.unplug_all();
        let said = sink.0.lock().unwrap().join(", ");
        let first = "+1 x, 1 0>2, 1 2>0, 1 0>2, 1 2>0, -1";
        assert_eq!(said, format!("{first}, +1 x, 1 0>2, 1 2>0, -1, +1 x, -1"));
    }
}
