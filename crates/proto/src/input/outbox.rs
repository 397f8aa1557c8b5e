//! Input on its way out: every event goes into each datagram until the host has acknowledged it.

use std::collections::VecDeque;

use super::event::InputEvent;
use super::pressed::Pressed;
use crate::id::{ConfigEpoch, InputSeq};
use crate::time::{Instant, PeerInstant};
use crate::wire::control::{InputBatch, MAX_EVENTS};

/// Events that may wait for an acknowledgement: four datagrams' worth. Beyond that the host has
/// been silent for long, and pointer motion is merged, then everything is released.
const MAX_WAITING: usize = 4 * MAX_EVENTS;

/// Sampling times that are kept to compute motion-to-photon: a second at 1000 Hz.
const MAX_SAMPLED: usize = 1024;

/// The client's side of the input stream.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: VecDeque<(InputEvent, Instant)>,
    /// Sequence number of the newest event.
    newest: u32,
    pressed: Pressed,
    sampled: VecDeque<(u32, Instant)>,
}

impl Outbox {
    /// Takes an event in; its number.
    pub fn push(&mut self, event: InputEvent, sampled: Instant) -> InputSeq {
        self.pressed.note(&event);
        if self.waiting.len() >= MAX_WAITING {
            // The host has been silent: better no old motion than a replay of it later.
            self.waiting.clear();
            self.append(InputEvent::ReleaseAll, sampled);
        }
        self.append(event, sampled);
        InputSeq(self.newest)
    }

    fn append(&mut self, event: InputEvent, sampled: Instant) {
        self.newest = self.newest.wrapping_add(1);
        self.waiting.push_back((event, sampled));
        if self.sampled.len() == MAX_SAMPLED {
            self.sampled.pop_front();
        }
        self.sampled.push_back((self.newest, sampled));
    }

    /// The host applied everything up to `through`.
    pub fn seen(&mut self, through: InputSeq) {
        let unseen = self.newest.wrapping_sub(through.0) as usize;
        while self.waiting.len() > unseen {
            self.waiting.pop_front();
        }
    }

    /// Whether anything waits for an acknowledgement.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The oldest unacknowledged events, as many as fit into a datagram.
    #[must_use]
    pub fn batch(&self, epoch: ConfigEpoch) -> InputBatch {
        let events: Vec<_> = self
            .waiting
            .iter()
            .take(MAX_EVENTS)
            .map(|(event, at)| (*event, PeerInstant(at.0)))
            .collect();
        // What is pressed after the newest event is only true behind the newest event.
        let whole = events.len() == self.waiting.len();
        let ahead = u32::try_from(self.waiting.len()).unwrap_or(0);
        InputBatch {
            epoch,
            first: InputSeq(self.newest.wrapping_sub(ahead).wrapping_add(1)),
            events,
            pressed: whole.then(|| self.pressed.codes().to_vec()),
        }
    }

    /// When the event with this number was sampled, if that is still known.
    #[must_use]
    pub fn sampled(&self, seq: InputSeq) -> Option<Instant> {
        self.sampled
            .iter()
            .rev()
            .find(|(s, _)| *s == seq.0)
            .map(|(_, at)| *at)
    }
}
