//! Arrivals of datagrams: path, time and ECN field.
//!
//! Arrival times are kernel timestamps, converted to the monotonic clock. Without these timestamps, the wake-up latency
//! of a busy receiver would look like link delay. The kernel timestamps packets with the wall clock. Both clocks are
//! read once per batch, and the age of each timestamp is subtracted from the monotonic time.
//!
//! Hardware timestamps are exact to nanoseconds, but few network cards have them, and they require a privilege.

use openuvr_clock::{WallTime, now};
use openuvr_proto::ecn::Ecn;
use openuvr_proto::id::PathId;
use openuvr_proto::time::Instant;

/// The arrival of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The path on which it arrived.
    pub from: PathId,
    /// Arrival time on the monotonic clock, which does not depend on the reader's wake-up latency. `None` if the
    /// transport has no timestamps (AF_XDP in copy mode) or if the timestamp is implausible, for example because the
    /// wall clock was set after the arrival.
    pub at: Option<Instant>,
    /// The ECN field of the IP header; `None` for a transport without IP, or before
    /// [`Link::read_ecn`](crate::Link::read_ecn). The kernel joins only datagrams with equal ECN fields (GRO), so the
    /// field of a joined message is that of each datagram.
    pub ecn: Option<Ecn>,
}

/// Maximum age of a valid timestamp (guess: five times two seconds, the longest interval at which a receiver reads). An
/// older timestamp means that the wall clock was set while the datagram waited.
const OLDEST: i64 = 10_000_000_000;

/// Maximum time between two clock readings that count as simultaneous, in ns: the resolution of the congestion control.
/// A thread that is preempted between the readings tries again.
const MAX_APART: i64 = 1_000_000;
const ATTEMPTS: usize = 3;

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks {
    monotonic: i64,
    wall: i64,
}

impl Clocks {
    /// Reads both clocks without a system call.
    pub(crate) fn read() -> Clocks {
        let mut clocks = Clocks {
            monotonic: 0,
            wall: 0,
        };
        for _ in 0..ATTEMPTS {
            let before = now().0;
            clocks.wall = WallTime::now().0;
            clocks.monotonic = now().0;
            if clocks.monotonic - before < MAX_APART {
                break;
            }
        }
        clocks
    }

    /// The timestamp on the monotonic clock; `None` if it is in the future or older than `OLDEST`: the wall clock has
    /// been set since, or these clocks were read before the arrival.
    pub(crate) fn arrived(self, stamp: WallTime) -> Option<Instant> {
        let age = self.wall.checked_sub(stamp.0)?;
        (0..=OLDEST)
            .contains(&age)
            .then(|| Instant(self.monotonic - age))
    }
}

/// Sends twice, reads late, and panics unless each arrival time matches its send time. On a busy machine, the kernel may
/// process datagrams, and so stamp them, only after the sender has continued. The check is then repeated.
#[cfg(test)]
pub(crate) fn check_stamps(
    link: &crate::transport_selection::TransportSelector,
    send: impl Fn(&[u8]),
) {
    let matches = (0..10).any(|_| stamps_match(link, &send));
    assert!(matches, "in ten repetitions, the stamps were late");
}

/// Sends twice, and reads late. Panics if an arrival time is before its send time or after the reading. Returns whether
/// each arrival time matches its send time.
#[cfg(test)]
fn stamps_match(
    link: &crate::transport_selection::TransportSelector,
    send: &impl Fn(&[u8]),
) -> bool {
    use std::time::Duration;

    use crate::Link as _;

    let apart = Duration::from_nanos(MAX_APART.unsigned_abs());
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
    let (mut seen, mut matching) = (0, 0);
    while seen < 6 {
        link.recv(&mut batch, Some(Duration::from_secs(10)))
            .unwrap();
        assert!(!batch.is_empty(), "only {seen} of 6 arrived");
        let read = Instant(Clocks::read().monotonic) + apart;
        for (arrival, bytes) in batch.with_arrivals() {
            let span = &spans[usize::from(bytes[0]) - 1];
            let arrived = arrival.at.expect("a kernel timestamp");
            let possible = *span.start()..=read;
            assert!(
                possible.contains(&arrived),
                "{arrived:?} is not in {possible:?}"
            );
            seen += 1;
            matching += usize::from(span.contains(&arrived));
        }
    }
    matching == seen
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCKS: Clocks = Clocks {
        monotonic: 50_000_000_000,
        wall: 1_700_000_000_000_000_000,
    };

    #[test]
    fn a_timestamp_keeps_its_age() {
        let at = |age: i64| CLOCKS.arrived(WallTime(CLOCKS.wall - age));
        assert_eq!(at(0), Some(Instant(50_000_000_000)));
        assert_eq!(at(40_000_000), Some(Instant(49_960_000_000)));
    }

    #[test]
    fn a_changed_wall_clock_invalidates_timestamps() {
        let hour = 3_600_000_000_000;
        for set in [1, hour, -hour, i64::MAX] {
            let stamp = WallTime(CLOCKS.wall.saturating_add(set));
            assert_eq!(CLOCKS.arrived(stamp), None, "{set}");
        }
        assert_eq!(CLOCKS.arrived(WallTime(i64::MIN)), None);
    }
}
