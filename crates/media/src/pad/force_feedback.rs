//! Computes a pad's rumble from the effects that programs upload, start and stop. All playing
//! effects are added up, as in the kernel's ff-memless for pads without effect memory.

use std::collections::BTreeMap;
use std::time::Duration;

use openuvr_proto::input::pad::Rumble;
use openuvr_proto::time::Instant;

use super::requests::{Effect, Request};

/// Maximum number of effects of one reader of the pad: the capacity of a pad.
const MAX_EFFECTS: u16 = 16;

/// The number of the reader that uploaded an effect, and that reader's number for the effect.
type Key = (u64, u16);

#[derive(Clone, Copy, Debug)]
struct Uploaded {
    effect: Effect,
    playing: Option<Playing>,
}

#[derive(Clone, Copy, Debug)]
struct Playing {
    since: Instant,
    /// Number of repetitions.
    count: u32,
}

impl Uploaded {
    /// Duration of one repetition; `None` if it is unlimited.
    fn once(&self) -> Option<Duration> {
        let (delay, length) = (self.effect.delay, self.effect.length);
        (length > 0).then(|| Duration::from_millis(u64::from(delay) + u64::from(length)))
    }

    /// Whether the effect is active, and the next time at which this may change.
    fn at(&self, now: Instant) -> (bool, Option<Instant>) {
        let Some(Playing { since, count }) = self.playing else {
            return (false, None);
        };
        let delay = Duration::from_millis(self.effect.delay.into());
        let Some(once) = self.once() else {
            let begins = since + delay;
            return (begins <= now, Some(begins).filter(|at| *at > now));
        };
        let passed = now.since(since);
        let round = u32::try_from(passed.as_nanos() / once.as_nanos()).unwrap_or(u32::MAX);
        if round >= count {
            return (false, None);
        }
        let from = since + once * round;
        match from + delay {
            begins if begins > now => (false, Some(begins)),
            _ => (true, Some(from + once)),
        }
    }
}

/// A pad's effects.
#[derive(Debug)]
pub struct ForceFeedback {
    effects: BTreeMap<Key, Uploaded>,
    gain: u16,
}

impl Default for ForceFeedback {
    fn default() -> ForceFeedback {
        ForceFeedback {
            effects: BTreeMap::new(),
            gain: u16::MAX,
        }
    }
}

impl ForceFeedback {
    /// Handles a request of the reader with the number `from`. A program that opens a pad several times counts as
    /// several readers.
    pub fn take(&mut self, now: Instant, from: u64, request: Request) {
        match request {
            Request::Upload(id, effect) if id < MAX_EFFECTS => {
                let playing = self.effects.get(&(from, id)).and_then(|e| e.playing);
                self.effects
                    .insert((from, id), Uploaded { effect, playing });
            }
            Request::Erase(id) => drop(self.effects.remove(&(from, id))),
            Request::Play(id, count) => {
                if let Some(uploaded) = self.effects.get_mut(&(from, id)) {
                    let count = u32::try_from(count).unwrap_or(0);
                    uploaded.playing = (count > 0).then_some(Playing { since: now, count });
                }
            }
            Request::Gain(gain) => self.gain = gain,
            Request::Upload(..) | Request::Clock(_) => {}
        }
    }

    /// Removes the effects of the reader with the number `by`, which has closed the pad.
    pub fn left(&mut self, by: u64) {
        self.effects.retain(|(from, _), _| *from != by);
    }

    /// The rumble at this time.
    #[must_use]
    pub fn rumble(&self, now: Instant) -> Rumble {
        let mut sums = [0_u32; 2];
        for uploaded in self.effects.values().filter(|e| e.at(now).0) {
            for (sum, motor) in sums
                .iter_mut()
                .zip([uploaded.effect.strong, uploaded.effect.weak])
            {
                *sum = sum.saturating_add(motor.into()).min(u16::MAX.into());
            }
        }
        let most = u32::from(u16::MAX);
        let [strong, weak] =
            sums.map(|sum| u16::try_from(sum * u32::from(self.gain) / most).unwrap_or(u16::MAX));
        Rumble { strong, weak }
    }

    /// The next time at which the rumble may change, if no more requests arrive.
    #[must_use]
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        self.effects.values().filter_map(|e| e.at(now).1).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant(0) + Duration::from_millis(millis)
    }

    fn effect(strong: u16, length: u16, delay: u16) -> Effect {
        Effect {
            strong,
            weak: 10,
            length,
            delay,
        }
    }

    fn strong(it: &ForceFeedback, millis: u64) -> u16 {
        it.rumble(at(millis)).strong
    }

    #[test]
    fn an_effect_lasts_and_repeats_as_requested() {
        let mut it = ForceFeedback::default();
        it.take(at(0), 1, Request::Upload(0, effect(1000, 50, 20)));
        assert_eq!(it.next_change(at(0)), None, "no effect plays");
        it.take(at(100), 1, Request::Play(0, 2));
        let felt: Vec<_> = [100, 119, 120, 169, 170, 190, 239, 240]
            .map(|t| strong(&it, t))
            .into();
        assert_eq!(felt, [0, 0, 1000, 1000, 0, 1000, 1000, 0]);
        assert_eq!(it.next_change(at(100)), Some(at(120)));
        assert_eq!(it.next_change(at(120)), Some(at(170)));
        assert_eq!(it.next_change(at(240)), None);
        it.take(at(300), 1, Request::Play(0, 1));
        it.take(at(330), 1, Request::Play(0, 0));
        assert_eq!(strong(&it, 330), 0);
    }

    #[test]
    fn effects_add_up_and_end_with_their_program() {
        let mut it = ForceFeedback::default();
        it.take(at(0), 1, Request::Upload(0, effect(40_000, 0, 0)));
        it.take(at(0), 2, Request::Upload(0, effect(40_000, 0, 0)));
        it.take(at(0), 1, Request::Play(0, 1));
        assert_eq!(strong(&it, 100_000), 40_000, "no limit");
        it.take(at(0), 2, Request::Play(0, 1));
        assert_eq!(strong(&it, 1), 65_535);
        it.take(at(1), 2, Request::Gain(0x8000));
        assert_eq!(strong(&it, 1), 0x8000);
        it.take(at(1), 2, Request::Gain(0xffff));
        // Changed during playback.
        it.take(at(2), 2, Request::Upload(0, effect(1, 0, 0)));
        assert_eq!(strong(&it, 2), 40_001);
        it.left(1);
        assert_eq!(
            it.rumble(at(3)),
            Rumble {
                strong: 1,
                weak: 10
            }
        );
        it.take(at(4), 2, Request::Erase(0));
        assert_eq!(it.rumble(at(4)), Rumble::OFF);
        // These effects were never uploaded, or exceed the capacity.
        it.take(at(4), 2, Request::Play(0, 1));
        it.take(at(4), 2, Request::Upload(16, effect(1, 0, 0)));
        it.take(at(4), 2, Request::Play(16, 1));
        assert_eq!(it.rumble(at(4)), Rumble::OFF);
    }
}
