//! The game pads of the client's machine. Their input goes to the host while this client is the player and its window
//! has the focus. The host sends rumble back. If the host does not accept pads, no thread is started. A motion sensor
//! may deflect a stick of the first pad.

use std::sync::Mutex;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::input_source::pads::mapping::Database;
use openuvr_media::input_source::pads::{PadEvent, PadReader, Rumbler};
use openuvr_media::motion::pad::MotionPad;
use openuvr_proto::client::ClientSession;
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::pad::{self, PadId, Rumble};
use openuvr_proto::input::pads::Pads;
use openuvr_proto::time::Instant;

use super::{Notice, Shared};
use crate::lock::lock;

/// How often the thread checks whether to stop, if nothing wakes it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The pads' states as they are sent to the host.
#[derive(Default)]
pub(super) struct PadState(Mutex<Table>);

#[derive(Default)]
struct Table {
    pads: Pads,
    /// Whether the window has lost the focus, so that pad input is not for the host.
    unfocused: bool,
    /// Set when the thread is started.
    rumbler: Option<Rumbler>,
    /// The pad whose stick a motion sensor deflects, if there is one.
    motion: Option<MotionPad>,
}

impl Table {
    /// Records whether the window has the focus. Returns the events for the host. When the focus is lost, the pads are
    /// released here, because the window's own `ReleaseAll` is not sent if other devices replace the window's input.
    /// When the focus is regained, the states of the pads are restored.
    fn focus(&mut self, focused: bool) -> Vec<InputEvent> {
        if self.unfocused != focused {
            return Vec::new();
        }
        self.unfocused = !focused;
        let states = self.pads.states().map(|event| match event {
            InputEvent::Pad { pad, .. } if !focused => InputEvent::Pad {
                pad,
                state: pad::PadState::NEUTRAL,
            },
            event => event,
        });
        states.collect()
    }
}

impl PadState {
    /// Starts without pads or, with `motion`, with the pad whose stick a motion sensor deflects.
    pub(super) fn new(motion: bool) -> PadState {
        let mut table = Table::default();
        if motion {
            table.motion = Some(MotionPad::default());
            table.pads.note(&MotionPad::connected());
        }
        PadState(Mutex::new(table))
    }

    /// Whether the window has not lost the focus, so that input of pads and motion sensors is sent to the host.
    pub(super) fn is_focused(&self) -> bool {
        !lock(&self.0).unfocused
    }

    /// Announces all pads to a host that accepts them. `reads` states whether this machine's pads are read. If so, the
    /// first call returns the rumbler with which the caller starts the thread.
    pub(super) fn announce(&self, session: &mut ClientSession, reads: bool) -> Option<Rumbler> {
        let mut table = lock(&self.0);
        let now = clock::now();
        for event in table.pads.announcements() {
            if !table.unfocused || !matches!(event, InputEvent::Pad { .. }) {
                session.input(now, event, now);
            }
        }
        if table.rumbler.is_some() || !reads {
            return None;
        }
        // If no file descriptor is left for the rumbler, no pads are read.
        let rumbler = Rumbler::new().ok()?;
        table.rumbler = Some(rumbler.clone());
        Some(rumbler)
    }

    /// Plays a rumble effect on a pad.
    pub(super) fn rumble(&self, pad: PadId, rumble: Rumble, lasts: Duration) {
        if let Some(rumbler) = &lock(&self.0).rumbler {
            rumbler.rumble(pad, rumble, lasts);
        }
    }

    /// Wakes the thread, if there is one.
    pub(super) fn wake(&self) {
        if let Some(rumbler) = &lock(&self.0).rumbler {
            rumbler.wake();
        }
    }
}

impl Shared {
    fn on_pad_event(&self, event: InputEvent, sampled: Option<Instant>) {
        self.send_pad(sampled, |motion| match motion {
            Some(motion) => motion.replace(event),
            None => [Some(event), None],
        });
    }

    /// Deflects the stick that is controlled by a motion sensor.
    pub(super) fn deflect(&self, deflection: [i16; 2], sampled: Instant) {
        self.send_pad(Some(sampled), |motion| {
            [motion.map(|motion| motion.deflect(deflection)), None]
        });
    }

    /// Records and sends the events that `change` returns.
    fn send_pad(
        &self,
        sampled: Option<Instant>,
        change: impl FnOnce(Option<&mut MotionPad>) -> [Option<InputEvent>; 2],
    ) {
        let now = clock::now();
        let mut session = self.session();
        let mut table = lock(&self.pads.0);
        for event in change(table.motion.as_mut()).into_iter().flatten() {
            table.pads.note(&event);
            let silent = table.unfocused && matches!(event, InputEvent::Pad { .. });
            if let (Some(session), false) = (session.as_mut(), silent) {
                session.input(now, event, sampled.map_or(now, |at| at.min(now)));
            }
        }
        drop(table);
        if let Some(session) = session.as_mut() {
            self.flush(session);
        }
    }

    /// Handles a change of the window's focus.
    pub(super) fn focused(&self, focused: bool) {
        let now = clock::now();
        let mut session = self.session();
        let events = lock(&self.pads.0).focus(focused);
        if let Some(session) = session.as_mut() {
            for event in events {
                session.input(now, event, now);
            }
            self.flush(session);
        }
    }
}

/// Reads the pads until the client stops.
pub(super) fn run(shared: &Shared, database: Database, rumbler: Rumbler) {
    let mut pads = PadReader::new(database, rumbler);
    while !shared.stopping() {
        match pads.next(POLL_INTERVAL) {
            PadEvent::Input(event, sampled) => {
                match event {
                    InputEvent::PadConnected { identity, .. } => {
                        shared.notice(Notice::Pad(identity.name.to_string(), true));
                    }
                    InputEvent::PadDisconnected { pad } => {
                        let name = lock(&shared.pads.0)
                            .pads
                            .connected()
                            .find(|(other, ..)| *other == pad)
                            .map(|(_, identity, _)| identity.name.to_string());
                        shared.notice(Notice::Pad(name.unwrap_or_default(), false));
                    }
                    _ => {}
                }
                shared.on_pad_event(event, sampled);
            }
            PadEvent::Warning(why) => shared.notice(Notice::Warning(why)),
            PadEvent::Idle => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use openuvr_proto::input::pad::PadButton;

    use super::*;

    #[test]
    fn pads_are_released_while_the_window_has_no_focus() {
        let pads = PadState::new(true);
        let mut table = lock(&pads.0);
        let [(pad, ..)] = table.pads.connected().collect::<Vec<_>>()[..] else {
            panic!("the pad of the motion sensor is missing");
        };
        let neutral = pad::PadState::NEUTRAL;
        let held = neutral.with(PadButton::South, true);
        table.pads.note(&InputEvent::Pad { pad, state: held });
        assert_eq!(table.focus(true), [], "it counts as focused");
        let state = neutral;
        assert_eq!(table.focus(false), [InputEvent::Pad { pad, state }]);
        assert_eq!(table.focus(false), []);
        let state = held;
        assert_eq!(table.focus(true), [InputEvent::Pad { pad, state }]);
    }
}
