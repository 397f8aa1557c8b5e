//! A connected client on the control stream. Its messages become input and feedback, and the host's updates become messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::error::Unspecified;
use openuvr_clock as clock;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::InputRefused;
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::pad::{MAX_PADS, PadId, Rumble};
use openuvr_proto::input::pads::Pads;
use openuvr_proto::send::loss::{LinkState, Loss};
use openuvr_proto::send::subscriber::Feedback;
use openuvr_proto::time::PeerInstant;
use openuvr_runtime::host::GatewayHost;

use super::cipher::ControlCipher;
use super::message::{Message, Outgoing};
use crate::feedback::Repair;
use crate::input::Translator;
use crate::session::Session;

/// Maximum input events that the host has not accepted yet: one second of a 1000 Hz mouse. If there are more, they are
/// discarded, all keys and buttons are released, and the game pads are announced again.
const MAX_WAITING: usize = 1024;

/// Time without a message after which the client does not count as active. If the silence continues, the host stops the
/// repetition of keys and then releases the client's keys. The client sends a message ten times a second, so three
/// messages must be missing.
const ACTIVE_FOR: Duration = Duration::from_millis(350);

/// Interval at which the state of the client's link is reported to the host.
const LINK_INTERVAL: Duration = Duration::from_millis(250);

/// Lower bound of the round trips reported to the host, because ENet rounds down to milliseconds.
const SHORTEST_ROUND_TRIP: Duration = Duration::from_millis(1);

pub(super) struct ConnectedClient {
    pub(super) session: Arc<Session>,
    cipher: ControlCipher,
    translator: Translator,
    waiting: VecDeque<InputEvent>,
    /// The client's game pads. The host knows only those that were announced while the client was the player.
    pads: Pads,
    /// Whether the session has had a subscription. Before that, input is discarded.
    subscribed: bool,
    heard: Instant,
    link_at: Instant,
    /// When each pad's motors stop.
    rumbles_until: [Option<Instant>; MAX_PADS as usize],
    /// Number of refused messages. The first is logged.
    refused: u64,
}

impl ConnectedClient {
    pub(super) fn new(session: Arc<Session>, now: Instant) -> Result<ConnectedClient, Unspecified> {
        Ok(ConnectedClient {
            cipher: ControlCipher::new(&session.launch.key)?,
            session,
            translator: Translator::default(),
            waiting: VecDeque::new(),
            pads: Pads::default(),
            subscribed: false,
            heard: now,
            link_at: now,
            rumbles_until: [None; MAX_PADS as usize],
            refused: 0,
        })
    }

    /// Handles a message from the client.
    pub(super) fn receive(&mut self, now: Instant, bytes: &[u8], host: &dyn GatewayHost) {
        let message = match self.cipher.open(bytes) {
            Ok(contents) => Message::parse(&contents).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match message {
            Ok(message) => {
                self.heard = now;
                self.session.note_message(now);
                self.message(now, message, host);
            }
            Err(error) => {
                self.refused += 1;
                if self.refused == 1 {
                    let client = &self.session.owner.title;
                    tracing::warn!(client, error, "message of a Moonlight client refused");
                }
            }
        }
    }

    fn message(&mut self, now: Instant, message: Message, host: &dyn GatewayHost) {
        match message {
            Message::KeyFrame => self.repair(self.session.frames.key_frame_requested(), host),
            Message::LostFrom(first) => self.repair(self.session.frames.lost_from(first), host),
            Message::Fec(status) => self.session.redundancy.reported(now, status),
            Message::Input(packet) => {
                let (waiting, pads) = (&mut self.waiting, &mut self.pads);
                self.translator.events(&packet, |event| {
                    pads.note(&event);
                    waiting.push_back(event);
                });
                self.forward_input(host);
            }
            Message::Ping | Message::Ignored => {}
        }
    }

    fn repair(&self, repair: Repair, host: &dyn GatewayHost) {
        if let Some(subscriber) = self.session.subscriber() {
            let Repair { last_good, newest } = repair;
            host.feedback(subscriber, Feedback::KeyFrame { last_good, newest });
        }
    }

    fn forward_input(&mut self, host: &dyn GatewayHost) {
        let Some(subscriber) = self.session.subscriber() else {
            self.waiting.clear();
            return;
        };
        if !std::mem::replace(&mut self.subscribed, true) {
            self.announce_pads();
        }
        if self.waiting.len() > MAX_WAITING {
            self.waiting = self.pads.replacing(&self.waiting).into();
        }
        while let Some(event) = self.waiting.front() {
            // The protocol does not carry the time of an input, so the arrival time is used.
            let sampled = PeerInstant(clock::now().0);
            match host.input(subscriber, *event, sampled) {
                Err(InputRefused::Busy) => return,
                // An observer's input has no effect.
                Ok(_) | Err(InputRefused::NotPlayer) => {
                    self.waiting.pop_front();
                }
            }
        }
    }

    fn announce_pads(&mut self) {
        announce(&self.pads, &mut self.waiting);
    }

    /// Does the work that is due. Calls `send` with messages to the client.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        round_trip: Duration,
        host: &dyn GatewayHost,
        mut send: impl FnMut(Vec<u8>),
    ) {
        self.forward_input(host);
        if let Some(subscriber) = self.session.subscriber() {
            if now.saturating_duration_since(self.heard) < ACTIVE_FOR {
                host.on_activity(subscriber);
            }
            if now >= self.link_at {
                self.link_at = now + LINK_INTERVAL;
                let loss = Loss {
                    rate: self.session.redundancy.loss(now),
                    run: 1.0,
                };
                let round_trip = round_trip.max(SHORTEST_ROUND_TRIP);
                host.feedback(subscriber, Feedback::Link(LinkState { round_trip, loss }));
            }
        }
        if let Some(role) = self.session.updates.take_role() {
            let (client, name) = (&self.session.owner.title, role.name());
            tracing::debug!(
                client,
                role = name,
                "the role of a Moonlight client changed"
            );
            if role == Role::Player {
                self.announce_pads();
            }
        }
        while let Some((pad, rumble, millis)) = self.session.updates.take_rumble() {
            let until = now + Duration::from_millis(millis.into());
            self.rumbles_until[pad.index()] = (rumble != Rumble::OFF).then_some(until);
            self.seal(Outgoing::Rumble(pad, rumble), &mut send);
        }
        for pad in PadId::all() {
            let until = &mut self.rumbles_until[pad.index()];
            if until.take_if(|until| now >= *until).is_some() {
                self.seal(Outgoing::Rumble(pad, Rumble::OFF), &mut send);
            }
        }
    }

    /// Seals a message and passes it on. A message that cannot be sealed is not sent.
    pub(super) fn seal(&self, message: Outgoing, send: &mut impl FnMut(Vec<u8>)) {
        let number = self.session.next_control();
        let sealed = number.and_then(|number| self.cipher.seal(number, &message.bytes()).ok());
        if let Some(sealed) = sealed {
            send(sealed);
        }
    }
}

/// Announces the pads to the host. Waiting events that connect a pad or set its state are dropped, because the
/// announcements include their effect. Otherwise, the host would plug in a pad twice.
fn announce(pads: &Pads, waiting: &mut VecDeque<InputEvent>) {
    use InputEvent::{Pad, PadConnected};
    waiting.retain(|event| !matches!(event, PadConnected { .. } | Pad { .. }));
    waiting.extend(pads.announcements());
}

#[cfg(test)]
mod tests {
    use openuvr_proto::input::pad::{PadButton, PadIdentity, PadName, PadState};

    use super::*;

    #[test]
    fn a_pad_that_is_still_waiting_is_announced_once() {
        let [pad, gone] = [0, 1].map(|number| PadId::new(number).unwrap());
        let identity = PadIdentity {
            name: PadName::new("a"),
            vendor: 1,
            product: 2,
            buttons: 0x1_ffff,
            sticks: [true; 2],
            rumbles: false,
        };
        let state = PadState::NEUTRAL.with(PadButton::South, true);
        let connected = |pad| InputEvent::PadConnected { pad, identity };
        let left = InputEvent::PadDisconnected { pad: gone };
        let held = InputEvent::Pad { pad, state };
        let mut waiting = VecDeque::from([connected(gone), left, connected(pad), held]);
        let mut pads = Pads::default();
        waiting.iter().for_each(|event| pads.note(event));
        announce(&pads, &mut waiting);
        assert_eq!(waiting, [left, connected(pad), held]);
    }
}
