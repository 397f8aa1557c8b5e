//! The state of a player's gamepads, derived from input events.

use super::event::InputEvent;
use super::pad::{MAX_PADS, PadId, PadIdentity, PadState};

/// The gamepads of a player after all noted events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pads([Option<(PadIdentity, PadState)>; MAX_PADS as usize]);

impl Pads {
    /// Applies one event.
    pub fn note(&mut self, event: &InputEvent) {
        match *event {
            InputEvent::PadConnected { pad, identity } => {
                self.0[pad.index()] = Some((identity, PadState::NEUTRAL));
            }
            InputEvent::PadDisconnected { pad } => self.0[pad.index()] = None,
            InputEvent::Pad { pad, state } => {
                if let Some((_, held)) = &mut self.0[pad.index()] {
                    *held = state;
                }
            }
            _ => {}
        }
    }

    /// The events that transfer the state to a peer that knows no gamepad.
    pub fn announcements(&self) -> impl Iterator<Item = InputEvent> + '_ {
        self.connected().flat_map(|(pad, identity, state)| {
            let connected = InputEvent::PadConnected { pad, identity };
            let held = (state != PadState::NEUTRAL).then_some(InputEvent::Pad { pad, state });
            [Some(connected), held].into_iter().flatten()
        })
    }

    /// The events that replace `discarded` events at a peer that knows everything before them: a release of everything,
    /// the disconnection of gamepads, and the announcements. This state must include the discarded events.
    pub fn replacing<'a>(
        &self,
        discarded: impl IntoIterator<Item = &'a InputEvent>,
    ) -> Vec<InputEvent> {
        let mut gone = [false; MAX_PADS as usize];
        for event in discarded {
            if let InputEvent::PadDisconnected { pad } = event {
                gone[pad.index()] = !self.has(*pad);
            }
        }
        let gone = PadId::all().filter(|pad| gone[pad.index()]);
        let disconnected = gone.map(|pad| InputEvent::PadDisconnected { pad });
        let release = std::iter::once(InputEvent::ReleaseAll);
        release
            .chain(disconnected)
            .chain(self.announcements())
            .collect()
    }

    /// The events that restore each gamepad's state at the peer, after the peer has released all gamepads.
    pub fn states(&self) -> impl Iterator<Item = InputEvent> + '_ {
        self.connected()
            .map(|(pad, _, state)| InputEvent::Pad { pad, state })
    }

    /// The connected gamepads, with identity and state.
    pub fn connected(&self) -> impl Iterator<Item = (PadId, PadIdentity, PadState)> + '_ {
        PadId::all().filter_map(|pad| {
            let (identity, state) = self.0[pad.index()]?;
            Some((pad, identity, state))
        })
    }

    /// Whether this gamepad is connected.
    #[must_use]
    pub fn has(&self, pad: PadId) -> bool {
        self.0[pad.index()].is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pad::{PadButton, PadName};
    use super::*;

    #[test]
    fn announcements_transfer_the_pads_to_another_side() {
        let identity = |name| PadIdentity {
            name: PadName::new(name),
            vendor: 1,
            product: 2,
            buttons: 0x1_ffff,
            sticks: [true, false],
            rumbles: false,
        };
        let (first, last) = (PadId(0), PadId(3));
        let state = PadState::NEUTRAL.with(PadButton::South, true);
        let mut pads = Pads::default();
        for event in [
            InputEvent::PadConnected {
                pad: first,
                identity: identity("a"),
            },
            InputEvent::PadConnected {
                pad: last,
                identity: identity("b"),
            },
            InputEvent::Pad { pad: last, state },
            InputEvent::PadDisconnected { pad: first },
            // The state of a gamepad that is not connected is ignored.
            InputEvent::Pad { pad: first, state },
        ] {
            pads.note(&event);
        }
        let mut other = Pads::default();
        pads.announcements().for_each(|event| other.note(&event));
        assert_eq!(other, pads);
        assert!(other.has(last) && !other.has(first));
        let all: Vec<_> = other.connected().collect();
        assert_eq!(all, [(last, identity("b"), state)]);
    }

    #[test]
    fn a_disconnection_is_not_lost_with_discarded_events() {
        let identity = PadIdentity {
            name: PadName::new("a"),
            vendor: 1,
            product: 2,
            buttons: 0x1_ffff,
            sticks: [true, false],
            rumbles: false,
        };
        let (gone, replaced) = (PadId(0), PadId(3));
        let connected = |pad| InputEvent::PadConnected { pad, identity };
        let disconnected = |pad| InputEvent::PadDisconnected { pad };
        let discarded = [
            disconnected(gone),
            connected(gone),
            disconnected(gone),
            disconnected(replaced),
            connected(replaced),
        ];
        let mut pads = Pads::default();
        discarded.iter().for_each(|event| pads.note(event));
        assert_eq!(
            pads.replacing(&discarded),
            [
                InputEvent::ReleaseAll,
                disconnected(gone),
                connected(replaced)
            ]
        );
    }
}
