//! A playback that discards samples in real time.

use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;

use super::{
    AudioError, AudioPlayback, CHANNELS, Level, PlaybackBackend, Waker, duration_of, wait,
};

/// The table entry.
pub const BACKEND: PlaybackBackend = PlaybackBackend {
    name: "null",
    about: "discards samples in real time; there is no device to choose",
    open: |_| Ok(Box::new(Null::open()?)),
};

/// Discards samples.
#[derive(Debug)]
pub struct Null {
    clock: Played,
    waker: Waker,
}

impl Null {
    /// A null playback with nothing pending.
    ///
    /// # Errors
    /// [`AudioError`] if no file descriptor is left.
    pub fn open() -> Result<Null, AudioError> {
        Ok(Null {
            clock: Played::default(),
            waker: Waker::new()?,
        })
    }
}

/// The pending samples of a simulated device, which plays them by our clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Played {
    /// End of the last written sample.
    until: Instant,
}

impl Played {
    pub(super) fn level(&self) -> Level {
        let left = self.until.since(clock::now());
        Level {
            dry_in: left,
            heard_in: Some(left),
            block: Duration::ZERO,
        }
    }

    /// Appends sample frames at `now`. Returns the duration of the preceding underrun.
    pub(super) fn write(&mut self, now: Instant, frames: usize) -> Duration {
        let begins = self.until.max(now);
        let pause = now.since(self.until);
        self.until = begins + duration_of(frames);
        pause
    }
}

impl AudioPlayback for Null {
    fn level(&mut self) -> Result<Level, AudioError> {
        Ok(self.clock.level())
    }

    fn write(&mut self, samples: &[f32]) -> Result<(), AudioError> {
        self.clock.write(clock::now(), samples.len() / CHANNELS);
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, AudioError> {
        wait::until(timeout.map(|timeout| clock::now() + timeout), &self.waker)
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_samples_play_by_the_clock() {
        let ms = Duration::from_millis;
        let start = Instant(1_000_000_000);
        let mut clock = Played::default();
        assert_eq!(clock.write(start, 480), start.since(Instant(0)));
        assert_eq!(clock.write(start + ms(4), 480), Duration::ZERO);
        assert_eq!(clock.until, start + ms(20));
        assert_eq!(clock.write(start + ms(25), 240), ms(5), "underrun");
    }

    #[test]
    fn it_is_full_when_written_to_and_can_be_woken() {
        let mut null = Null::open().unwrap();
        assert_eq!(null.level().unwrap().dry_in, Duration::ZERO);
        null.write(&[0.0; 48_000 * CHANNELS]).unwrap();
        let level = null.level().unwrap();
        assert!(level.dry_in > Duration::ZERO && level.dry_in <= duration_of(48_000));
        null.waker().wake();
        assert!(null.wait(None).unwrap());
        assert!(!null.wait(Some(Duration::ZERO)).unwrap());
    }
}
