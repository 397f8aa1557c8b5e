//! A playback that nobody hears: it takes samples at the clock's pace and forgets them.

use std::time::Duration;

use openuvr_proto::time::Instant;

use super::{
    AudioError, AudioPlayback, CHANNELS, Level, PlaybackBackend, Waker, duration_of, wait,
};
use crate::clock;

/// The line in the table.
pub const BACKEND: PlaybackBackend = PlaybackBackend {
    name: "null",
    about: "nobody hears it: samples are taken at the clock's pace; there is no device to choose",
    open: |_| Ok(Box::new(Null::open()?)),
};

/// Plays to nobody.
#[derive(Debug)]
pub struct Null {
    clock: Played,
    waker: Waker,
}

impl Null {
    /// One that has run dry.
    ///
    /// # Errors
    /// [`AudioError`] if this process has no file descriptor left.
    pub fn open() -> Result<Null, AudioError> {
        Ok(Null {
            clock: Played::default(),
            waker: Waker::new()?,
        })
    }
}

/// What a device that plays by our clock still has to play.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Played {
    /// When the last sample that was written is over.
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

    /// Sample frames are appended at `now`. The pause before them, in which it was dry.
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
        assert_eq!(clock.write(start + ms(25), 240), ms(5), "it was dry");
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
