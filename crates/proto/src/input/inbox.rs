//! Received input: each event is applied once, in order, and the pressed keys are reconciled.

use std::collections::BTreeSet;

use super::batch::InputBatch;
use super::event::{EV_SYN, InputEvent};
use super::pressed::Pressed;
use crate::id::{DeviceId, InputSeq};
use crate::seq;
use crate::time::PeerInstant;

/// An event to be applied now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceivedInput {
    /// Its number. A reconciling release repeats the number of the newest event.
    pub seq: InputSeq,
    /// The event.
    pub event: InputEvent,
    /// Sampling time (client clock).
    pub sampled: PeerInstant,
}

/// The host's side of the input stream.
#[derive(Debug, Default)]
pub struct Inbox {
    through: u32,
    pressed: Pressed,
}

impl Inbox {
    /// The newest applied event.
    #[must_use]
    pub fn through(&self) -> InputSeq {
        InputSeq(self.through)
    }

    /// Whether keys or buttons are pressed.
    #[must_use]
    pub fn holds_keys(&self) -> bool {
        !self.pressed.held().is_empty()
    }

    /// Skips the events of `batch`, because an observer's events are not applied. Forgets previously pressed keys.
    pub fn skip(&mut self, batch: &InputBatch) {
        self.pressed = Pressed::default();
        if seq::newer(batch.newest().0, self.through) {
            self.through = batch.newest().0;
        }
    }

    /// The new events of `batch`, in order. A batch that starts after a gap is skipped, because the client sends the
    /// missing events again, followed by these events. A batch that starts with [`InputEvent::ReleaseAll`] is not
    /// skipped, because the client has discarded the events before it.
    pub fn take(&mut self, batch: &InputBatch) -> Vec<ReceivedInput> {
        let expected = self.through.wrapping_add(1);
        let discarded = matches!(batch.events.first(), Some((InputEvent::ReleaseAll, _)));
        let known = if !seq::newer(batch.first.0, expected) {
            expected.wrapping_sub(batch.first.0) as usize
        } else if discarded {
            0
        } else {
            return Vec::new();
        };
        let mut arrived = Vec::new();
        for (i, (event, sampled)) in (0_u32..).zip(&batch.events).skip(known) {
            self.pressed.note(event);
            self.through = batch.first.0.wrapping_add(i);
            arrived.push(ReceivedInput {
                seq: InputSeq(self.through),
                event: *event,
                sampled: *sampled,
            });
        }
        let whole = batch.newest() == self.through();
        if let Some(wanted) = batch.pressed.as_ref().filter(|_| whole) {
            let sampled = batch.events.last().map_or(PeerInstant(0), |e| e.1);
            let mut devices = BTreeSet::new();
            let mut release = |event| {
                arrived.push(ReceivedInput {
                    seq: InputSeq(self.through),
                    event,
                    sampled,
                });
            };
            for event in self.pressed.releases(wanted) {
                self.pressed.note(&event);
                if let InputEvent::Device { device, .. } = event {
                    devices.insert(device);
                }
                release(event);
            }
            devices.into_iter().map(report).for_each(release);
        }
        arrived
    }
}

/// The event that ends simultaneous events of a device.
fn report(device: DeviceId) -> InputEvent {
    InputEvent::Device {
        device,
        kind: EV_SYN,
        code: 0,
        value: 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::collections::BTreeMap;

    use super::super::event::{Button, EV_KEY, EV_REL, KeyCode};
    use super::super::outbox::Outbox;
    use super::super::pressed::PressedKey;
    use super::*;
    use crate::id::ConfigEpoch;
    use crate::time::Instant;

    fn key(code: u16, pressed: bool) -> InputEvent {
        InputEvent::Key {
            code: KeyCode(code),
            text: None,
            pressed,
        }
    }

    fn device(device: u8, kind: u16, code: u16, value: i32) -> InputEvent {
        InputEvent::Device {
            device: DeviceId(device),
            kind,
            code,
            value,
        }
    }

    /// Possible events of a keyboard, a mouse and a gamepad.
    fn anything() -> impl Strategy<Value = InputEvent> {
        let pad = (0_u8..3, 0_u16..4, 0_u16..8, any::<i32>());
        prop_oneof![
            (1_u16..200, any::<bool>()).prop_map(|(code, pressed)| key(code, pressed)),
            pad.prop_map(|(id, kind, code, value)| device(id, kind, code, value)),
        ]
    }

    proptest! {
        /// With lost, repeated and reordered batches and acknowledgements, each event is applied once and in order.
        #[test]
        fn each_event_once_in_order(
            sent in prop::collection::vec(anything(), 1..120),
            deliveries in prop::collection::vec(0_u8..4, 0..300),
        ) {
            let mut out = Outbox::default();
            let mut inbox = Inbox::default();
            let mut deliveries = deliveries.into_iter();
            let mut old = Vec::new();
            let mut got = Vec::new();
            // A reconciling release repeats the number of the newest event, and is ignored here.
            let deliver = |inbox: &mut Inbox, b: &InputBatch, got: &mut Vec<InputEvent>| {
                let mut newest = inbox.through().0;
                for arrived in inbox.take(b) {
                    if arrived.seq.0 > newest {
                        newest = arrived.seq.0;
                        got.push(arrived.event);
                    }
                }
            };
            for event in &sent {
                out.push(*event, Instant(0));
                let batch = out.batch(ConfigEpoch(1));
                match deliveries.next().unwrap_or(0) {
                    1 => {}
                    2 => old.push(batch),
                    _ => {
                        deliver(&mut inbox, &batch, &mut got);
                        if deliveries.next().unwrap_or(0) != 1 {
                            out.acknowledge(inbox.through());
                        }
                        if let Some(late) = old.pop() {
                            deliver(&mut inbox, &late, &mut got);
                        }
                    }
                }
            }
            while !out.is_empty() {
                deliver(&mut inbox, &out.batch(ConfigEpoch(1)), &mut got);
                out.acknowledge(inbox.through());
            }
            prop_assert_eq!(inbox.through().0 as usize, got.len());
            prop_assert_eq!(merged(&got), merged(&sent));
        }
    }

    /// Replaces each run of a device's relative motion by its sums, because the degree of merging depends on which events
    /// were already sent.
    fn merged(events: &[InputEvent]) -> Vec<(InputEvent, BTreeMap<u16, i64>)> {
        let mut runs: Vec<(InputEvent, BTreeMap<u16, i64>)> = Vec::new();
        for event in events {
            let moves = |event: &InputEvent| match *event {
                InputEvent::Device {
                    device,
                    kind: EV_REL,
                    code,
                    value,
                } => Some((Some(device), Some((code, i64::from(value))))),
                InputEvent::Device {
                    device,
                    kind: EV_SYN,
                    code: 0,
                    ..
                } => Some((Some(device), None)),
                _ => None,
            };
            let of = |event| moves(event).and_then(|(device, _)| device);
            let goes_on = of(event).is_some() && runs.last().map(|(e, _)| of(e)) == Some(of(event));
            if !goes_on {
                runs.push((*event, BTreeMap::new()));
            }
            if let (Some((_, Some((code, value)))), Some((_, sums))) =
                (moves(event), runs.last_mut())
            {
                *sums.entry(code).or_default() += value;
            }
        }
        for (event, sums) in &mut runs {
            if !sums.is_empty() {
                *event = InputEvent::ReleaseAll;
            }
        }
        runs
    }

    #[test]
    fn a_snapshot_releases_keys_that_are_no_longer_held() {
        let mut inbox = Inbox::default();
        let held = [
            key(30, true),
            device(3, EV_KEY, 30, 1),
            InputEvent::Button {
                button: Button::LEFT,
                pressed: true,
            },
        ];
        let held_by = |device, code| PressedKey { device, code };
        let batch = InputBatch {
            epoch: ConfigEpoch(1),
            first: InputSeq(1),
            events: held.iter().map(|e| (*e, PeerInstant(0))).collect(),
            pressed: Some(vec![
                held_by(None, 30),
                held_by(Some(DeviceId(3)), 30),
                held_by(None, Button::LEFT.0),
            ]),
        };
        assert_eq!(inbox.take(&batch).len(), 3);
        let empty = InputBatch {
            first: InputSeq(4),
            events: Vec::new(),
            pressed: Some(Vec::new()),
            ..batch
        };
        let released: Vec<_> = inbox.take(&empty).iter().map(|a| a.event).collect();
        let expected = [
            key(30, false),
            device(3, EV_KEY, 30, 0),
            InputEvent::Button {
                button: Button::LEFT,
                pressed: false,
            },
            report(DeviceId(3)),
        ];
        assert_eq!(released, expected);
        assert_eq!(inbox.take(&empty), []);
    }

    #[test]
    fn a_gap_of_discarded_events_is_accepted() {
        let mut out = Outbox::default();
        let mut inbox = Inbox::default();
        // Wheel clicks are used because motion would be merged.
        for dy in 0..2000 {
            out.push(InputEvent::Wheel { dx: 0, dy }, Instant(0));
        }
        let mut got = Vec::new();
        while !out.is_empty() {
            got.extend(inbox.take(&out.batch(ConfigEpoch(1))));
            out.acknowledge(inbox.through());
        }
        assert_eq!(got[0].event, InputEvent::ReleaseAll);
        assert_eq!(
            got.last().unwrap().event,
            InputEvent::Wheel { dx: 0, dy: 1999 }
        );
    }
}
