//! Input on its way in: each event is applied once, in order, and what is pressed is reconciled.

use super::event::InputEvent;
use super::pressed::Pressed;
use crate::id::InputSeq;
use crate::seq;
use crate::time::PeerInstant;
use crate::wire::control::InputBatch;

/// An event that is to be applied now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// Its number; a release that reconciles carries the number of the newest event.
    pub seq: InputSeq,
    /// What happened.
    pub event: InputEvent,
    /// When it was sampled, on the client's clock.
    pub sampled: PeerInstant,
}

/// The host's side of the input stream.
#[derive(Debug, Default)]
pub struct Inbox {
    through: u32,
    pressed: Pressed,
}

impl Inbox {
    /// The newest event that was taken.
    #[must_use]
    pub fn through(&self) -> InputSeq {
        InputSeq(self.through)
    }

    /// The events of `batch` that are new, in order. A batch that starts behind a gap brings
    /// nothing: the missing events come again, in front of these. The exception is a gap that
    /// the client made when it gave up on old events; it starts with [`InputEvent::ReleaseAll`].
    pub fn take(&mut self, batch: &InputBatch) -> Vec<Arrived> {
        let expected = self.through.wrapping_add(1);
        let given_up = matches!(batch.events.first(), Some((InputEvent::ReleaseAll, _)));
        let known = if !seq::newer(batch.first.0, expected) {
            expected.wrapping_sub(batch.first.0) as usize
        } else if given_up {
            0
        } else {
            return Vec::new();
        };
        let mut arrived = Vec::new();
        for (i, (event, sampled)) in (0_u32..).zip(&batch.events).skip(known) {
            self.pressed.note(event);
            self.through = batch.first.0.wrapping_add(i);
            arrived.push(Arrived {
                seq: InputSeq(self.through),
                event: *event,
                sampled: *sampled,
            });
        }
        let whole = batch.newest() == self.through();
        if let Some(wanted) = batch.pressed.as_ref().filter(|_| whole) {
            let sampled = batch.events.last().map_or(PeerInstant(0), |e| e.1);
            for event in self.pressed.releases(wanted) {
                self.pressed.note(&event);
                arrived.push(Arrived {
                    seq: InputSeq(self.through),
                    event,
                    sampled,
                });
            }
        }
        arrived
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::event::{Button, KeyCode};
    use super::super::outbox::Outbox;
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

    proptest! {
        /// Batches may be lost, repeated and reordered, acknowledgements too: each event is
        /// applied once, in order.
        #[test]
        fn each_event_once_in_order(
            codes in prop::collection::vec((1_u16..200, any::<bool>()), 1..120),
            fate in prop::collection::vec(0_u8..4, 0..300),
        ) {
            let mut out = Outbox::default();
            let mut inbox = Inbox::default();
            let mut fate = fate.into_iter();
            let mut old = Vec::new();
            let mut got = Vec::new();
            // A release that reconciles carries the number of the event before it.
            let deliver = |inbox: &mut Inbox, b: &InputBatch, got: &mut Vec<InputEvent>| {
                let mut newest = inbox.through().0;
                for arrived in inbox.take(b) {
                    if arrived.seq.0 > newest {
                        newest = arrived.seq.0;
                        got.push(arrived.event);
                    }
                }
            };
            let sent: Vec<_> = codes.iter().map(|(c, p)| key(*c, *p)).collect();
            for event in &sent {
                out.push(*event, Instant(0));
                let batch = out.batch(ConfigEpoch(1));
                match fate.next().unwrap_or(0) {
                    1 => {}
                    2 => old.push(batch),
                    _ => {
                        deliver(&mut inbox, &batch, &mut got);
                        if fate.next().unwrap_or(0) != 1 {
                            out.seen(inbox.through());
                        }
                        if let Some(late) = old.pop() {
                            deliver(&mut inbox, &late, &mut got);
                        }
                    }
                }
            }
            while !out.is_empty() {
                deliver(&mut inbox, &out.batch(ConfigEpoch(1)), &mut got);
                out.seen(inbox.through());
            }
            prop_assert_eq!(got, sent);
            prop_assert_eq!(inbox.through().0 as usize, codes.len());
        }
    }

    #[test]
    fn a_snapshot_releases_what_the_client_no_longer_holds() {
        let mut inbox = Inbox::default();
        let held = [
            key(30, true),
            InputEvent::Button {
                button: Button::LEFT,
                pressed: true,
            },
        ];
        let batch = InputBatch {
            epoch: ConfigEpoch(1),
            first: InputSeq(1),
            events: held.iter().map(|e| (*e, PeerInstant(0))).collect(),
            pressed: Some(vec![30, Button::LEFT.0]),
        };
        assert_eq!(inbox.take(&batch).len(), 2);
        let empty = InputBatch {
            first: InputSeq(3),
            events: Vec::new(),
            pressed: Some(Vec::new()),
            ..batch
        };
        let released: Vec<_> = inbox.take(&empty).iter().map(|a| a.event).collect();
        let expected = [
            key(30, false),
            InputEvent::Button {
                button: Button::LEFT,
                pressed: false,
            },
        ];
        assert_eq!(released, expected);
        assert_eq!(inbox.take(&empty), []);
    }

    #[test]
    fn a_client_that_gave_up_on_old_events_is_followed() {
        let mut out = Outbox::default();
        let mut inbox = Inbox::default();
        // Wheel clicks: motion would be merged.
        for dy in 0..2000 {
            out.push(InputEvent::Wheel { dx: 0, dy }, Instant(0));
        }
        let mut got = Vec::new();
        while !out.is_empty() {
            got.extend(inbox.take(&out.batch(ConfigEpoch(1))));
            out.seen(inbox.through());
        }
        assert_eq!(got[0].event, InputEvent::ReleaseAll);
        assert_eq!(
            got.last().unwrap().event,
            InputEvent::Wheel { dx: 0, dy: 1999 }
        );
    }
}
