//! Pose schedule messages: when the player's client should sample poses.
//!
//! Only the latest message counts. A message is sent when the times shift, and at least once a second, because it may
//! be lost.

use std::time::Duration;

use crate::display::RefreshTiming;
use crate::id::SubscriberId;
use crate::time::{Instant, PeerInstant};
use crate::wire::control::Message;

/// Repetition interval. The schedule is repeated because the clocks drift and a message may be lost.
const REPEAT_EVERY: Duration = Duration::from_secs(1);

/// Minimum interval between two messages.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// Smaller shifts are ignored (guess: the mean age of a pose at 1000 samples a second).
const TOLERANCE: Duration = Duration::from_micros(500);

#[derive(Clone, Copy)]
struct SentSchedule {
    to: SubscriberId,
    at: Instant,
    timing: RefreshTiming<Instant>,
}

/// The last sent schedule.
#[derive(Default)]
pub(super) struct PoseSchedule {
    sent: Option<SentSchedule>,
    number: u32,
}

impl PoseSchedule {
    /// Takes the times at which the client should sample poses (local clock), and returns a message for player `to` if
    /// one is due.
    pub(super) fn update(
        &mut self,
        now: Instant,
        to: SubscriberId,
        timing: RefreshTiming<Instant>,
    ) -> Option<Message<'static>> {
        let timing = timing.valid_only()?;
        let known = self.sent.filter(|sent| sent.to == to).is_some_and(|sent| {
            let since = now.since(sent.at);
            since < MIN_INTERVAL || since < REPEAT_EVERY && !moved(sent.timing, timing)
        });
        if known {
            return None;
        }
        self.sent = Some(SentSchedule {
            to,
            at: now,
            timing,
        });
        self.number = self.number.wrapping_add(1);
        Some(Message::PoseSchedule {
            number: self.number,
            at: RefreshTiming {
                phase: PeerInstant(timing.phase.0),
                period: timing.period,
            },
        })
    }
}

/// Whether the times differ from those extrapolated from the earlier schedule.
fn moved(before: RefreshTiming<Instant>, now: RefreshTiming<Instant>) -> bool {
    let period = i64::try_from(before.period.as_nanos()).unwrap_or(i64::MAX);
    let apart = now
        .phase
        .0
        .saturating_sub(before.phase.0)
        .rem_euclid(period);
    let apart = apart.min(period - apart);
    before.period.abs_diff(now.period) > TOLERANCE / 10
        || u128::from(apart.unsigned_abs()) > TOLERANCE.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::SessionId;

    #[test]
    fn it_is_sent_once_a_second_and_after_a_shift() {
        let us = |us: i64| Instant(us * 1000);
        let to = |id| SubscriberId::Session(SessionId(id));
        let timing = |phase| RefreshTiming {
            phase: us(phase),
            period: Duration::from_millis(10),
        };
        let mut poses = PoseSchedule::default();
        let mut numbers = Vec::new();
        let mut say = |at, id, phase| {
            let sent = poses.update(us(at), to(id), timing(phase));
            if let Some(Message::PoseSchedule { number, .. }) = sent {
                numbers.push((at, number));
            }
        };
        for frame in 0..250 {
            // The phase jitters, as with real frames.
            say(frame * 10_000, 1, frame * 10_000 + frame % 3 * 100);
        }
        say(2_500_000, 1, 2_504_000);
        say(2_510_000, 1, 2_518_000);
        // Another player.
        say(2_520_000, 2, 2_528_000);
        let sent = [
            (0, 1),
            (1_000_000, 2),
            (2_000_000, 3),
            (2_500_000, 4),
            (2_520_000, 5),
        ];
        assert_eq!(numbers, sent);
        let never = RefreshTiming {
            period: Duration::from_secs(1),
            ..timing(0)
        };
        assert_eq!(poses.update(us(9_000_000), to(2), never), None);
    }
}
