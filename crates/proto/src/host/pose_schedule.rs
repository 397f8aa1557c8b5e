//! When the host's application takes poses, on its way to the player's client.
//!
//! The latest wins, and one that is lost is said again: once a second, and when the moments have moved.

use std::time::Duration;

use crate::display::RefreshTiming;
use crate::id::SubscriberId;
use crate::time::{Instant, PeerInstant};
use crate::wire::control::Message;

/// Said again so often: the clocks drift, and one may be lost.
const AGAIN: Duration = Duration::from_secs(1);

/// Not more often, however much they move.
const SOONEST: Duration = Duration::from_millis(50);

/// Less is no news (a guess: as old a pose is by half the interval at 1000 samples a second).
const MOVED: Duration = Duration::from_micros(500);

#[derive(Clone, Copy)]
struct Said {
    to: SubscriberId,
    at: Instant,
    wanted: RefreshTiming<Instant>,
}

/// What was said last.
#[derive(Default)]
pub(super) struct PoseSchedule {
    said: Option<Said>,
    number: u32,
}

impl PoseSchedule {
    /// Poses are wanted at these moments of our clock; what the player `to` is to be told of it now.
    pub(super) fn say(
        &mut self,
        now: Instant,
        to: SubscriberId,
        wanted: RefreshTiming<Instant>,
    ) -> Option<Message<'static>> {
        let wanted = wanted.sane()?;
        let known = self.said.filter(|said| said.to == to).is_some_and(|said| {
            let since = now.since(said.at);
            since < SOONEST || since < AGAIN && !moved(said.wanted, wanted)
        });
        if known {
            return None;
        }
        self.said = Some(Said {
            to,
            at: now,
            wanted,
        });
        self.number = self.number.wrapping_add(1);
        Some(Message::PoseSchedule {
            number: self.number,
            at: RefreshTiming {
                phase: PeerInstant(wanted.phase.0),
                period: wanted.period,
            },
        })
    }
}

/// Whether the moments are others than what follows from before.
fn moved(before: RefreshTiming<Instant>, now: RefreshTiming<Instant>) -> bool {
    let period = i64::try_from(before.period.as_nanos()).unwrap_or(i64::MAX);
    let apart = now
        .phase
        .0
        .saturating_sub(before.phase.0)
        .rem_euclid(period);
    let apart = apart.min(period - apart);
    before.period.abs_diff(now.period) > MOVED / 10
        || u128::from(apart.unsigned_abs()) > MOVED.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::SessionId;

    #[test]
    fn it_is_said_once_a_second_and_when_it_has_moved() {
        let us = |us: i64| Instant(us * 1000);
        let to = |id| SubscriberId::Session(SessionId(id));
        let wanted = |phase| RefreshTiming {
            phase: us(phase),
            period: Duration::from_millis(10),
        };
        let mut poses = PoseSchedule::default();
        let mut numbers = Vec::new();
        let mut say = |at, id, phase| {
            let said = poses.say(us(at), to(id), wanted(phase));
            if let Some(Message::PoseSchedule { number, .. }) = said {
                numbers.push((at, number));
            }
        };
        for frame in 0..250 {
            // A little uneven, as frames are.
            say(frame * 10_000, 1, frame * 10_000 + frame % 3 * 100);
        }
        say(2_500_000, 1, 2_504_000);
        say(2_510_000, 1, 2_518_000);
        // Another player.
        say(2_520_000, 2, 2_528_000);
        let said = [
            (0, 1),
            (1_000_000, 2),
            (2_000_000, 3),
            (2_500_000, 4),
            (2_520_000, 5),
        ];
        assert_eq!(numbers, said);
        let never = RefreshTiming {
            period: Duration::from_secs(1),
            ..wanted(0)
        };
        assert_eq!(poses.say(us(9_000_000), to(2), never), None);
    }
}
