//! The clock of a client machine, relative to the world's clock.

use openuvr_proto::time::Instant;

/// A clock with offset and drift.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Offset at the world's time zero, in nanoseconds.
    pub offset: i64,
    /// Drift, in ppm.
    pub ppm: i64,
}

impl Clock {
    /// The clock's time at the world's time `world`.
    #[must_use]
    pub fn show(self, world: Instant) -> Instant {
        let drift = i128::from(world.0) * i128::from(self.ppm) / 1_000_000;
        Instant(world.0 + i64::try_from(drift).unwrap_or(0) + self.offset)
    }

    /// The first world time at which the clock shows `mine`.
    pub(super) fn world(self, mine: Instant) -> Instant {
        if mine.0 == i64::MIN {
            return mine;
        }
        let since = i128::from(mine.0 - self.offset);
        let guess = since * 1_000_000 / (1_000_000 + i128::from(self.ppm));
        let mut world = Instant(i64::try_from(guess).unwrap_or(0) - 2);
        while self.show(world) < mine {
            world.0 += 1;
        }
        world
    }
}
