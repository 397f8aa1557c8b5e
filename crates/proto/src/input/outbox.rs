//! Sent input: each datagram repeats the events that the host has not acknowledged, oldest first.

use std::collections::VecDeque;

use super::batch::{InputBatch, MAX_EVENT_BYTES, MAX_EVENTS, event_length};
use super::event::{EV_REL, EV_SYN, InputEvent};
use super::pad::PadState;
use super::pads::Pads;
use super::pressed::Pressed;
use crate::id::{ConfigEpoch, InputSeq};
use crate::time::{Instant, PeerInstant};

/// Maximum number of unacknowledged events: enough for a line of text that a program types at once, over a link with
/// high loss. If there are more, the host has been silent for a long time, and all keys are released.
const MAX_UNACKNOWLEDGED: usize = 32 * MAX_EVENTS;

/// Number of newest events that are searched for earlier motion on the same axis, when new motion of a device is
/// merged: one event for each of the `REL_CNT` axes, and one that ends simultaneous events.
const AXES: usize = 17;

/// Number of kept sampling times for motion-to-photon: one second at 1000 Hz.
const MAX_SAMPLED: usize = 1024;

/// The client's side of the input stream.
#[derive(Debug, Default)]
pub struct Outbox {
    unacknowledged: VecDeque<(InputEvent, Instant)>,
    /// Sequence number of the newest event.
    newest: u32,
    pressed: Pressed,
    pads: Pads,
    sampled: VecDeque<(u32, Instant)>,
}

impl Outbox {
    /// Adds an event; returns its number.
    pub fn push(&mut self, event: InputEvent, sampled: Instant) -> InputSeq {
        self.pressed.note(&event);
        if self.merged(&event) {
            return InputSeq(self.newest);
        }
        if self.unacknowledged.len() >= MAX_UNACKNOWLEDGED {
            // The host has been silent, and discarding old motion is better than replaying it later.
            let discarded = self.unacknowledged.iter().map(|(event, _)| event);
            let events = self.pads.replacing(discarded);
            self.unacknowledged.clear();
            for event in events {
                self.append(event, sampled);
            }
        }
        self.pads.note(&event);
        self.append(event, sampled);
        InputSeq(self.newest)
    }

    /// Merges the event into the newest queued one if possible, and returns whether it was merged. Only motion and
    /// gamepad states are merged, and only into an event that does not fit into the next datagram, because such an
    /// event was never sent. The merged event keeps the time of the earlier event.
    fn merged(&mut self, event: &InputEvent) -> bool {
        use InputEvent::{Device, Pad, PointerAbsolute, PointerRelative};
        if let Device { .. } = event {
            return self.merged_on_device(event);
        }
        if self.unacknowledged.len() <= MAX_EVENTS {
            return false;
        }
        let Some((newest, _)) = self.unacknowledged.back_mut() else {
            return false;
        };
        match (&mut *newest, event) {
            (PointerAbsolute { .. }, PointerAbsolute { .. }) => *newest = *event,
            // For sticks and triggers only the newest value matters; each button change is sent.
            (
                Pad {
                    pad: of,
                    state: was,
                },
                Pad { pad, state },
            ) if of == pad && was.buttons == state.buttons => {
                *was = *state;
                self.pads.note(event);
            }
            (PointerRelative { dx, dy }, PointerRelative { dx: x, dy: y }) => {
                let (Some(x), Some(y)) = (dx.checked_add(*x), dy.checked_add(*y)) else {
                    return false;
                };
                (*dx, *dy) = (x, y);
            }
            _ => return false,
        }
        true
    }

    /// Like `merged`, for an event of a registered device. Motion is added to the newest queued motion on the same
    /// axis, even if simultaneous events ended in between (`EV_SYN`). An `EV_SYN` right after another is merged into
    /// it. Other events in between prevent merging.
    fn merged_on_device(&mut self, event: &InputEvent) -> bool {
        let InputEvent::Device {
            device: of,
            kind: what,
            code: axis,
            value: by,
        } = *event
        else {
            return false;
        };
        let unsent = self.unacknowledged.iter_mut().skip(MAX_EVENTS);
        for (waits, _) in unsent.rev().take(AXES) {
            match waits {
                InputEvent::Device {
                    device,
                    kind: kind @ (EV_REL | EV_SYN),
                    code,
                    value,
                } if *device == of => match (what, *kind) {
                    (EV_SYN, EV_SYN) => return (axis, *code) == (0, 0),
                    (EV_REL, EV_REL) if *code == axis => {
                        let Some(sum) = value.checked_add(by) else {
                            return false;
                        };
                        *value = sum;
                        return true;
                    }
                    (EV_REL, _) => {}
                    _ => return false,
                },
                _ => return false,
            }
        }
        false
    }

    fn append(&mut self, event: InputEvent, sampled: Instant) {
        self.newest = self.newest.wrapping_add(1);
        self.unacknowledged.push_back((event, sampled));
        if self.sampled.len() == MAX_SAMPLED {
            self.sampled.pop_front();
        }
        self.sampled.push_back((self.newest, sampled));
    }

    /// The number of the newest event.
    #[must_use]
    pub fn newest(&self) -> InputSeq {
        InputSeq(self.newest)
    }

    /// Handles the host's acknowledgement that it applied everything up to `through`.
    pub fn acknowledge(&mut self, through: InputSeq) {
        let unseen = self.newest.wrapping_sub(through.0) as usize;
        while self.unacknowledged.len() > unseen {
            self.unacknowledged.pop_front();
        }
    }

    /// Whether there are unacknowledged events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unacknowledged.is_empty()
    }

    /// Whether keys or buttons are pressed.
    #[must_use]
    pub fn holds_keys(&self) -> bool {
        !self.pressed.held().is_empty()
    }

    /// The states of the gamepads that are not neutral, after the newest event.
    pub fn held_pads(&self) -> impl Iterator<Item = InputEvent> + '_ {
        let states = self.pads.connected();
        let held = states.filter(|(_, _, state)| *state != PadState::NEUTRAL);
        held.map(|(pad, _, state)| InputEvent::Pad { pad, state })
    }

    /// The oldest unacknowledged events, up to the size of a datagram.
    #[must_use]
    pub fn batch(&self, epoch: ConfigEpoch) -> InputBatch {
        let mut room = MAX_EVENT_BYTES;
        let fits = |(event, _): &&(InputEvent, Instant)| {
            let left = room.checked_sub(event_length(event));
            room = left.unwrap_or(0);
            left.is_some()
        };
        let unacknowledged = self.unacknowledged.iter().take(MAX_EVENTS).take_while(fits);
        let events: Vec<_> = unacknowledged
            .map(|(event, at)| (*event, PeerInstant(at.0)))
            .collect();
        // The snapshot of pressed keys is only valid after the newest event.
        let whole = events.len() == self.unacknowledged.len();
        let ahead = u32::try_from(self.unacknowledged.len()).unwrap_or(0);
        InputBatch {
            epoch,
            first: InputSeq(self.newest.wrapping_sub(ahead).wrapping_add(1)),
            events,
            pressed: whole.then(|| self.pressed.held().to_vec()),
        }
    }

    /// The sampling time of this event, if it is still known.
    #[must_use]
    pub fn sampled(&self, seq: InputSeq) -> Option<Instant> {
        self.sampled
            .iter()
            .rev()
            .find(|(s, _)| *s == seq.0)
            .map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{EV_KEY, KeyCode};
    use super::super::pad::PadId;
    use super::*;
    use crate::id::DeviceId;

    fn outbox(events: impl Iterator<Item = InputEvent>) -> Outbox {
        let mut outbox = Outbox::default();
        for (at, event) in events.enumerate() {
            outbox.push(event, Instant(i64::try_from(at).unwrap()));
        }
        outbox
    }

    #[test]
    fn unsent_motion_is_merged_into_one_event() {
        let step = InputEvent::PointerRelative { dx: 3, dy: -1 };
        let mut box_ = outbox(std::iter::repeat_n(step, 1000));
        let left = 1000 - MAX_EVENTS;
        let first = box_.batch(ConfigEpoch(0));
        assert_eq!(first.events.len(), MAX_EVENTS);
        box_.acknowledge(InputSeq(u32::try_from(MAX_EVENTS).unwrap()));
        let rest = box_.batch(ConfigEpoch(0)).events;
        let left = i16::try_from(left).unwrap();
        let (dx, dy) = (3 * left, -left);
        assert_eq!(rest.len(), 1);
        assert_eq!(rest[0].0, InputEvent::PointerRelative { dx, dy });
    }

    #[test]
    fn motion_of_a_device_is_merged_by_axis_up_to_the_next_key() {
        let device = |kind, code, value| InputEvent::Device {
            device: DeviceId(7),
            kind,
            code,
            value,
        };
        let report = device(EV_SYN, 0, 0);
        let step = [device(EV_REL, 0, 2), device(EV_REL, 1, -1), report];
        let press = [device(EV_KEY, 0x110, 1), report];
        let mouse = || std::iter::repeat_n(step, 100).flatten();
        let mut box_ = outbox(mouse().chain(press).chain(mouse()));
        box_.acknowledge(InputSeq(u32::try_from(MAX_EVENTS).unwrap()));
        let rest = box_.batch(ConfigEpoch(0)).events;
        let rest: Vec<_> = rest.into_iter().map(|(event, _)| event).collect();
        // The acknowledged events are 16 steps of three events each.
        let before = [device(EV_REL, 0, 168), device(EV_REL, 1, -84), report];
        let after = [device(EV_REL, 0, 200), device(EV_REL, 1, -100), report];
        assert_eq!(rest, [&before[..], &press, &after].concat());
    }

    #[test]
    fn keys_are_never_merged_and_a_silent_host_ends_in_a_release() {
        let key = |n: usize| InputEvent::Key {
            code: KeyCode(30),
            text: None,
            pressed: n.is_multiple_of(2),
        };
        let full = outbox((0..MAX_UNACKNOWLEDGED).map(key));
        assert_eq!(full.unacknowledged.len(), MAX_UNACKNOWLEDGED);
        let over = outbox((0..=MAX_UNACKNOWLEDGED).map(key));
        let unacknowledged: Vec<_> = over
            .unacknowledged
            .iter()
            .map(|(event, _)| *event)
            .collect();
        assert_eq!(unacknowledged, [InputEvent::ReleaseAll, key(0)]);
    }

    #[test]
    fn a_silent_host_learns_which_pads_are_gone() {
        let gone = InputEvent::PadDisconnected { pad: PadId(2) };
        let key = InputEvent::Key {
            code: KeyCode(30),
            text: None,
            pressed: true,
        };
        let keys = std::iter::repeat_n(key, MAX_UNACKNOWLEDGED);
        let over = outbox(std::iter::once(gone).chain(keys));
        let unacknowledged: Vec<_> = over
            .unacknowledged
            .iter()
            .map(|(event, _)| *event)
            .collect();
        assert_eq!(unacknowledged, [InputEvent::ReleaseAll, gone, key]);
    }
}
