//! When a datagram arrived: the kernel's stamp, on the monotonic clock.
//!
//! The kernel stamps a packet where it comes in, with the wall clock. A thread that wakes late, because the
//! machine is busy, would take its own lateness for the link's. Both clocks are read once for each batch, and
//! the age of each stamp is taken off the monotonic one.
//!
//! What it is not: a stamp of the network card. That one is exact to nanoseconds, but few cards have it, and
//! it needs a privilege.

use openuvr_proto::time::Instant;

use crate::sys::clock::{Clock, WallStamp};

/// A stamp older than this is none: the wall clock was set while the datagram waited. A link's receiver comes
/// by at least each two seconds (guess: five times that).
const OLDEST: i64 = 10_000_000_000;

/// Two clocks that were read within this are read at one moment; a thread that lost its core between tries
/// again, so many times. A millisecond is the congestion control's resolution.
const APART: i64 = 1_000_000;
const TRIES: usize = 3;

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks {
    monotonic: i64,
    wall: i64,
}

impl Clocks {
    /// Reads both, without a system call.
    pub(crate) fn read() -> Clocks {
        let mut clocks = Clocks {
            monotonic: 0,
            wall: 0,
        };
        for _ in 0..TRIES {
            let before = nanos(Clock::Monotonic);
            clocks.wall = nanos(Clock::Wall);
            clocks.monotonic = nanos(Clock::Monotonic);
            if clocks.monotonic - before < APART {
                break;
            }
        }
        clocks
    }

    /// The stamp on the monotonic clock; `None` if the wall clock was set since.
    pub(crate) fn arrived(self, stamp: WallStamp) -> Option<Instant> {
        let age = self.wall.checked_sub(stamp.0)?;
        (0..=OLDEST)
            .contains(&age)
            .then(|| Instant(self.monotonic - age))
    }
}

fn nanos(clock: Clock) -> i64 {
    let (seconds, nanoseconds) = clock.read();
    WallStamp::new(seconds, nanoseconds).0
}

/// Sends twice, reads late, and panics unless each datagram bears the time of its sending.
#[cfg(test)]
pub(crate) fn check_stamps(link: &crate::ladder::Ladder, send: impl Fn(&[u8])) {
    use std::time::Duration;

    use crate::Link as _;

    // The clocks are read within a millisecond of each other.
    let apart = Duration::from_nanos(APART.unsigned_abs());
    let spans: Vec<_> = [1_u8, 2]
        .map(|number| {
            let before = Clocks::read();
            send(&[number; 1800]);
            let after = Clocks::read();
            std::thread::sleep(Duration::from_millis(30));
            (Instant(before.monotonic) - apart)..=(Instant(after.monotonic) + apart)
        })
        .into();
    let mut batch = crate::RecvBatch::default();
    let mut seen = 0;
    while seen < 6 {
        link.recv(&mut batch, Some(Duration::from_secs(10)))
            .unwrap();
        assert!(!batch.is_empty(), "only {seen} of 6 arrived");
        for (_, arrived, bytes) in batch.with_arrivals() {
            let span = &spans[usize::from(bytes[0]) - 1];
            let arrived = arrived.expect("the kernel stamps it");
            assert!(span.contains(&arrived), "{arrived:?} is not in {span:?}");
            seen += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCKS: Clocks = Clocks {
        monotonic: 50_000_000_000,
        wall: 1_700_000_000_000_000_000,
    };

    #[test]
    fn a_stamp_is_as_old_on_either_clock() {
        let at = |age: i64| CLOCKS.arrived(WallStamp(CLOCKS.wall - age));
        assert_eq!(at(0), Some(Instant(50_000_000_000)));
        assert_eq!(at(40_000_000), Some(Instant(49_960_000_000)));
    }

    #[test]
    fn a_wall_clock_that_was_set_leaves_no_stamp() {
        let hour = 3_600_000_000_000;
        for set in [1, hour, -hour, i64::MAX] {
            let stamp = WallStamp(CLOCKS.wall.saturating_add(set));
            assert_eq!(CLOCKS.arrived(stamp), None, "{set}");
        }
        assert_eq!(CLOCKS.arrived(WallStamp(i64::MIN)), None);
    }
}
