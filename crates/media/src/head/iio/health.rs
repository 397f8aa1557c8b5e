//! Supervision of a sensor: detects a sensor that is silent, repeats a value, or sends too many samples.
//!
//! This module has no clock; the time is an argument.

use std::time::Duration;

use openuvr_proto::time::Instant;

/// A sensor is reported after this time without a sample, or with an unchanged value. A sensor's noise changes the last
/// digit within a few samples (guess). If the value of a very quiet sensor at rest never changes, its offset is still
/// measured, because this time contains a whole window of `rest.rs` (1 s).
const STUCK_AFTER: Duration = Duration::from_secs(2);

/// Minimum number of equal samples of a sensor that is stuck.
const STUCK_SAMPLES: u32 = 50;

/// Maximum number of samples per second: more than the 8 kHz of the icm42600, the fastest gyroscope with a driver in
/// Linux 6.12.
const MAX_RATE: u32 = 10_000;

/// The state of a gyroscope's samples.
#[derive(Clone, Debug)]
pub(super) struct Health {
    /// The last value, the time of its first sample, and the number of consecutive samples with this value.
    value: Option<([i64; 3], Instant, u32)>,
    /// Time of the last sample, or of the start.
    heard: Instant,
    /// The start of the current second, and its number of samples.
    second: (Instant, u32),
    reported: Option<Symptom>,
}

/// A fault of a sensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Symptom {
    /// The sensor sends no samples.
    Silent,
    /// The sensor repeats this value.
    Stuck([i64; 3]),
}

/// A change of a sensor's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// A fault has begun.
    Failed(Symptom),
    /// The fault has ended.
    Recovered,
}

/// The sensor sends more than [`MAX_RATE`] samples per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("more than {MAX_RATE} samples a second")]
pub(super) struct Flood;

impl Health {
    /// The state at the start.
    pub(super) fn new(now: Instant) -> Health {
        Health {
            value: None,
            heard: now,
            second: (now, 0),
            reported: None,
        }
    }

    /// Records a sample.
    ///
    /// # Errors
    /// [`Flood`] if there are too many samples.
    pub(super) fn sample(
        &mut self,
        value: [i64; 3],
        now: Instant,
    ) -> Result<Option<Change>, Flood> {
        self.heard = now;
        let (start, count) = &mut self.second;
        if now.since(*start) >= Duration::from_secs(1) {
            (*start, *count) = (now, 0);
        }
        *count += 1;
        if *count > MAX_RATE {
            return Err(Flood);
        }
        let (same, since, count) = self.value.get_or_insert((value, now, 0));
        if *same != value {
            (*same, *since, *count) = (value, now, 0);
        }
        *count = count.saturating_add(1);
        let stuck = *count >= STUCK_SAMPLES && now.since(*since) >= STUCK_AFTER;
        let moves = *count == 1;
        Ok(match self.reported {
            // A sample ends the silence. If the sensor then repeats a value, it is reported as stuck later.
            Some(Symptom::Silent) => self.recover(),
            Some(Symptom::Stuck(_)) if moves => self.recover(),
            None if stuck => self.fail(Symptom::Stuck(value)),
            _ => None,
        })
    }

    /// Whether the sensor repeats a value.
    pub(super) fn is_stuck(&self) -> bool {
        matches!(self.reported, Some(Symptom::Stuck(_)))
    }

    /// Records that time has passed without a sample.
    pub(super) fn silence(&mut self, now: Instant) -> Option<Change> {
        let silent = now.since(self.heard) >= STUCK_AFTER;
        (silent && self.reported != Some(Symptom::Silent))
            .then(|| self.fail(Symptom::Silent))
            .flatten()
    }

    fn fail(&mut self, symptom: Symptom) -> Option<Change> {
        self.reported = Some(symptom);
        Some(Change::Failed(symptom))
    }

    fn recover(&mut self) -> Option<Change> {
        self.reported = None;
        self.value = None;
        Some(Change::Recovered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn a_value_that_never_changes_is_reported_once() {
        let mut health = Health::new(ms(0));
        let value = [3, 0, -7];
        let changes: Vec<_> = (0..1000)
            .filter_map(|n| health.sample(value, ms(n * 10)).expect("no flood"))
            .collect();
        assert_eq!(changes, [Change::Failed(Symptom::Stuck(value))]);
        assert!(health.is_stuck());
        let next = health.sample([4, 0, -7], ms(10_000));
        assert_eq!(next, Ok(Some(Change::Recovered)));
        assert!(!health.is_stuck());
        // A slow sensor with few equal samples is not stuck.
        for n in 11..30 {
            assert_eq!(health.sample([4, 0, -7], ms(n * 1000)), Ok(None));
        }
    }

    #[test]
    fn silence_is_reported_once() {
        let mut health = Health::new(ms(0));
        assert_eq!(health.silence(ms(1_900)), None);
        let failed = Some(Change::Failed(Symptom::Silent));
        assert_eq!(health.silence(ms(2_000)), failed);
        assert_eq!(health.silence(ms(9_000)), None);
        assert_eq!(
            health.sample([1; 3], ms(9_001)),
            Ok(Some(Change::Recovered))
        );
        assert_eq!(health.silence(ms(11_001)), failed);
    }

    #[test]
    fn a_flood_is_an_error() {
        let mut health = Health::new(ms(0));
        // Each of the first three seconds has exactly the maximum number of samples.
        for n in 0..30_000_i64 {
            let at = Instant(n * 100_000);
            assert!(health.sample([n, 0, 0], at).is_ok(), "{n}");
        }
        let flood = (0..20_000).map(|n| health.sample([n, 0, 0], ms(3_000)));
        let taken = flood.filter(Result::is_ok).count();
        assert_eq!(u32::try_from(taken), Ok(MAX_RATE));
    }
}
