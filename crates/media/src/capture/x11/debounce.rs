//! Decides when a burst of damage is a complete picture: immediately for a swap, or after a short silence for a painter
//! that needs several requests.
//!
//! This module decides only the time of capture. Later drawing is not lost, because the server reports new damage, and
//! the next frame contains it.

use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;

use crate::damage::Block;

/// A rectangle in the picture. `right` and `bottom` are excluded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Area {
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) right: i32,
    pub(super) bottom: i32,
}

impl Area {
    /// The empty rectangle.
    pub(super) const EMPTY: Area = Area {
        left: 0,
        top: 0,
        right: 0,
        bottom: 0,
    };

    /// The complete picture.
    pub(super) fn whole(size: Size) -> Area {
        let side = |n| i32::try_from(n).unwrap_or(i32::MAX);
        Area {
            right: side(size.width),
            bottom: side(size.height),
            ..Area::EMPTY
        }
    }

    pub(super) const fn is_empty(self) -> bool {
        self.left >= self.right || self.top >= self.bottom
    }

    fn pixels(self) -> i64 {
        if self.is_empty() {
            return 0;
        }
        i64::from(self.right - self.left) * i64::from(self.bottom - self.top)
    }

    /// The area as a block of a picture, if it is valid.
    pub(super) fn block(self) -> Option<Block> {
        let edge = |n: i32| u32::try_from(n).ok();
        Some(Block {
            columns: edge(self.left)?..edge(self.right)?,
            rows: edge(self.top)?..edge(self.bottom)?,
        })
    }

    /// The intersection.
    pub(super) fn within(self, other: Area) -> Area {
        Area {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
        }
    }

    /// The bounding rectangle of both areas.
    pub(super) fn around(self, other: Area) -> Area {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        Area {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }
}

/// Percentage of the target that damage must cover to count as a complete picture immediately. A swap is one request
/// for the complete window; a border or status line drawn by the client may stay unchanged.
const WHOLE_PERCENT: i64 = 90;

/// Silence after which partial damage is captured. The value (guess) is longer than the pauses of a painter that
/// flushes several times, and shorter than the frame interval.
const QUIET: Duration = Duration::from_micros(500);

/// The longest delay of partial damage (guess: an eighth of the frame interval at 60 Hz).
const LONGEST: Duration = Duration::from_millis(2);

/// Number of bursts that are debounced even if they look complete. The count starts when a burst that looked complete
/// is soon followed by a smaller burst in the same area. Such bursts come from a painter that clears its window first.
/// A guess: one second at 60 Hz.
const DEBOUNCED_BURSTS: u32 = 60;

/// The debouncer's state. It has no clock; `now` is an argument.
#[derive(Debug)]
pub(super) struct DamageDebounce {
    target: Area,
    burst: Option<Burst>,
    /// The last burst's rectangle. If the next burst has the same rectangle, it counts as complete immediately. An
    /// animated window on a large display is therefore not delayed in each frame.
    last: Area,
    /// The time of the last release; `None` if the last burst was debounced.
    released_at_once: Option<Instant>,
    /// Bursts still to be debounced.
    debounced_bursts: u32,
}

#[derive(Debug)]
struct Burst {
    area: Area,
    begun: Instant,
    latest: Instant,
}

impl DamageDebounce {
    pub(super) fn new(size: Size) -> DamageDebounce {
        DamageDebounce {
            target: Area::whole(size),
            burst: None,
            last: Area::EMPTY,
            released_at_once: None,
            debounced_bursts: 0,
        }
    }

    /// Records that the application has drawn in `area`. An empty area starts a burst that covers nothing: the target
    /// was resized or mapped, and will be painted.
    pub(super) fn damaged(&mut self, now: Instant, area: Area) {
        let whole = self.is_whole(area);
        match &mut self.burst {
            Some(burst) => {
                burst.area = burst.area.around(area);
                burst.latest = now;
            }
            None => {
                let soon = self
                    .released_at_once
                    .is_some_and(|at| now.since(at) <= LONGEST);
                // Damage outside the last rectangle is assumed to come from other applications, such as a clock.
                let there = !area.within(self.last).is_empty();
                if !whole && soon && there {
                    self.debounced_bursts = DEBOUNCED_BURSTS;
                }
                self.burst = Some(Burst {
                    area,
                    begun: now,
                    latest: now,
                });
            }
        }
    }

    /// The time at which to capture the burst; `None` if there is none.
    pub(super) fn due(&self) -> Option<Instant> {
        let burst = self.burst.as_ref()?;
        if self.debounced_bursts == 0 && self.is_whole(burst.area) {
            return Some(burst.begun);
        }
        Some((burst.latest + QUIET).min(burst.begun + LONGEST))
    }

    /// Records that the burst was captured at `now`. The next damage starts another burst.
    pub(super) fn release(&mut self, now: Instant) {
        let Some(burst) = self.burst.take() else {
            return;
        };
        let at_once = self.debounced_bursts == 0 && self.is_whole(burst.area);
        self.released_at_once = at_once.then_some(now);
        self.debounced_bursts = self.debounced_bursts.saturating_sub(1);
        self.last = burst.area;
    }

    fn is_whole(&self, area: Area) -> bool {
        !area.is_empty()
            && (area == self.last || area.pixels() * 100 >= self.target.pixels() * WHOLE_PERCENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn debounce() -> DamageDebounce {
        DamageDebounce::new(Size::new(1000, 1000))
    }

    fn area(left: i32, top: i32, right: i32, bottom: i32) -> Area {
        Area {
            left,
            top,
            right,
            bottom,
        }
    }

    #[test]
    fn a_swap_is_captured_at_once() {
        let mut s = debounce();
        assert_eq!(s.due(), None);
        s.damaged(Instant(5), area(0, 0, 1000, 1000));
        assert_eq!(s.due(), Some(Instant(5)));
        s.release(Instant(6));
        assert_eq!(s.due(), None);
        s.damaged(Instant(MS), area(0, 50, 1000, 1000));
        assert_eq!(s.due(), Some(Instant(MS)));
    }

    #[test]
    fn a_slow_painter_is_debounced() {
        let mut s = debounce();
        s.damaged(Instant(0), area(0, 0, 100, 100));
        assert_eq!(s.due(), Some(Instant(MS / 2)));
        s.damaged(Instant(MS / 4), area(0, 100, 100, 200));
        assert_eq!(s.due(), Some(Instant(MS / 4 + MS / 2)));
        // The painter's last request completes the picture.
        s.damaged(Instant(MS / 3), area(900, 900, 1000, 1000));
        assert_eq!(s.due(), Some(Instant(0)));
    }

    #[test]
    fn silence_has_an_end() {
        let mut s = debounce();
        for n in 0..40 {
            s.damaged(Instant(n * MS / 10), area(0, 0, 10, 10));
        }
        assert_eq!(s.due(), Some(Instant(2 * MS)));
    }

    #[test]
    fn a_repeated_rectangle_is_complete() {
        let mut s = debounce();
        s.damaged(Instant(0), area(10, 10, 300, 300));
        s.release(Instant(MS));
        s.damaged(Instant(16 * MS), area(10, 10, 300, 300));
        assert_eq!(s.due(), Some(Instant(16 * MS)));
        s.release(Instant(16 * MS));
        s.damaged(Instant(32 * MS), area(10, 10, 301, 300));
        assert_eq!(s.due(), Some(Instant(32 * MS + MS / 2)));
    }

    #[test]
    fn a_painter_that_clears_first_is_debounced() {
        let mut s = debounce();
        s.damaged(Instant(0), area(0, 0, 1000, 1000));
        s.release(Instant(0));
        // The first stroke after the clearing follows soon and is small.
        s.damaged(Instant(MS), area(0, 0, 50, 50));
        s.release(Instant(2 * MS));
        for n in 1..60 {
            let now = Instant(n * 16 * MS);
            s.damaged(now, area(0, 0, 1000, 1000));
            assert_eq!(s.due(), Some(now + Duration::from_micros(500)), "burst {n}");
            s.release(now + Duration::from_micros(500));
        }
        s.damaged(Instant(1000 * MS), area(0, 0, 1000, 1000));
        assert_eq!(s.due(), Some(Instant(1000 * MS)));
    }

    #[test]
    fn other_damage_does_not_delay_a_swap() {
        let mut s = debounce();
        let game = area(0, 0, 500, 500);
        for n in 0..2 {
            s.damaged(Instant(n * 16 * MS), game);
            s.release(Instant(n * 16 * MS));
        }
        // A clock on the same display is drawn a millisecond after the second swap.
        s.damaged(Instant(17 * MS), area(900, 0, 1000, 20));
        s.release(Instant(18 * MS));
        // The next swap does not match the last rectangle, which was drawn by the clock. Later swaps match again.
        s.damaged(Instant(32 * MS), game);
        s.release(Instant(33 * MS));
        s.damaged(Instant(48 * MS), game);
        assert_eq!(s.due(), Some(Instant(48 * MS)));
    }

    #[test]
    fn a_thousand_swaps_a_second_are_no_reason_to_wait() {
        let mut s = debounce();
        for n in 0..100 {
            s.damaged(Instant(n * MS), area(0, 0, 1000, 1000));
            assert_eq!(s.due(), Some(Instant(n * MS)));
            s.release(Instant(n * MS));
        }
    }

    #[test]
    fn a_new_window_is_waited_for() {
        let mut s = debounce();
        s.damaged(Instant(0), Area::EMPTY);
        assert_eq!(s.due(), Some(Instant(MS / 2)));
        s.damaged(Instant(MS / 5), area(0, 0, 1000, 1000));
        assert_eq!(s.due(), Some(Instant(0)));
    }

    #[test]
    fn areas_meet_and_join() {
        let a = area(0, 0, 10, 10);
        assert!(a.within(area(10, 0, 20, 10)).is_empty());
        assert_eq!(a.within(area(5, -5, 20, 20)), area(5, 0, 10, 10));
        assert_eq!(a.around(Area::EMPTY), a);
        assert_eq!(Area::EMPTY.around(a), a);
        assert_eq!(a.around(area(20, 20, 30, 30)), area(0, 0, 30, 30));
    }
}
