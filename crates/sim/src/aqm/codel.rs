//! CoDel: while the shortest sojourn time of an interval stays above a target, drops packets at intervals that shrink
//! with the square root of the number of drops (RFC 8289, section 5). ECN-capable packets are marked instead of
//! dropped.
//!
//! [`FqCodel`](super::FqCodel) has such a queue for each flow.

use std::time::Duration;

use openuvr_proto::time::Instant;

use super::tail_drop::TailDrop;
use super::{Actions, Ecn, Packet, is_capable};

/// TARGET and INTERVAL of RFC 8289, section 4.
const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(100);
/// A queue of at most one packet has no excess (`maxpacket` in section 5.3).
const ONE_PACKET: usize = 1514;
/// If dropping resumes within this time, the drops continue at about the previous rate (section 5.5).
const RESUMED: Duration = Duration::from_millis(1600);

/// The queue of a flow.
#[derive(Debug)]
pub(super) struct CoDel<T> {
    queue: TailDrop<T>,
    /// The end of the interval for which the sojourn time must stay above the target before a packet may be dropped.
    /// `None` while the sojourn time is below the target.
    first_above: Option<Instant>,
    drops_at: Instant,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl<T> CoDel<T> {
    /// An empty queue. [`FqCodel`](super::FqCodel) limits all queues together.
    pub(super) fn new() -> CoDel<T> {
        CoDel {
            queue: TailDrop::new(usize::MAX),
            first_above: None,
            drops_at: Instant(0),
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    pub(super) fn push(&mut self, now: Instant, packet: Packet<T>) {
        self.queue.push(now, packet);
    }

    /// Removes the oldest packet because all queues together are full.
    pub(super) fn drop_oldest(&mut self) -> Option<Packet<T>> {
        self.queue.pop().map(|(_, packet)| packet)
    }

    pub(super) fn held(&self) -> usize {
        self.queue.held()
    }

    /// The oldest packet, and whether it may be dropped (`dodequeue` in section 5.6).
    fn take(&mut self, now: Instant) -> Option<(Packet<T>, bool)> {
        let Some((arrived, packet)) = self.queue.pop() else {
            self.first_above = None;
            return None;
        };
        if now.since(arrived) < TARGET || self.queue.held() <= ONE_PACKET {
            self.first_above = None;
            return Some((packet, false));
        }
        let above = *self.first_above.get_or_insert(now + INTERVAL);
        Some((packet, now >= above))
    }

    /// The packet to transmit (section 5.5).
    pub(super) fn pop(&mut self, now: Instant, actions: &mut Actions) -> Option<Packet<T>> {
        let (mut packet, may_drop) = self.take(now)?;
        if !may_drop {
            self.dropping = false;
            return Some(packet);
        }
        if !self.dropping {
            self.dropping = true;
            let delta = self.count.saturating_sub(self.last_count);
            let resumed = delta > 1 && now.since(self.drops_at) < RESUMED;
            self.count = if resumed { delta } else { 1 };
            self.last_count = self.count;
            self.drops_at = control_law(now, self.count);
            return match mark(&mut packet, actions) {
                true => Some(packet),
                false => self.take(now).map(|(packet, _)| packet),
            };
        }
        while now >= self.drops_at {
            self.count = self.count.saturating_add(1);
            if mark(&mut packet, actions) {
                self.drops_at = control_law(self.drops_at, self.count);
                return Some(packet);
            }
            let next = self.take(now);
            if !matches!(next, Some((_, true))) {
                // The time of the next drop is not advanced, because it tells when the drops ended.
                self.dropping = false;
                return next.map(|(packet, _)| packet);
            }
            self.drops_at = control_law(self.drops_at, self.count);
            packet = next?.0;
        }
        Some(packet)
    }
}

/// Signals congestion. Returns whether the packet was marked; if not, the caller drops the packet.
fn mark<T>(packet: &mut Packet<T>, actions: &mut Actions) -> bool {
    if !is_capable(packet.ecn) {
        actions.dropped += 1;
        return false;
    }
    actions.marked += u64::from(packet.ecn != Ecn::Ce);
    packet.ecn = Ecn::Ce;
    true
}

/// The time of the next drop: `from` plus an interval divided by the square root of the number of drops (section 5.6).
fn control_law(from: Instant, count: u32) -> Instant {
    from + INTERVAL.div_f64(f64::from(count.max(1)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// For two seconds, keeps 50 packets in a queue, and takes one packet out each millisecond. Returns the times of
    /// drops or marks.
    fn signals(ecn: Ecn) -> Vec<Instant> {
        let packet = || Packet {
            flow: 1,
            len: 1500,
            ecn,
            content: (),
        };
        let (mut codel, mut actions) = (CoDel::new(), Actions::default());
        let mut now = Instant(0);
        let mut times = Vec::new();
        for _ in 0..2000 {
            while codel.queue.len() < 50 {
                codel.push(now, packet());
            }
            let before = actions.marked + actions.dropped;
            assert!(codel.pop(now, &mut actions).is_some());
            let some = actions.marked + actions.dropped - before;
            times.extend((0..some).map(|_| now));
            now = now + MILLISECOND;
        }
        match ecn {
            Ecn::NotEct => assert_eq!(actions.marked, 0),
            _ => assert_eq!(actions.dropped, 0),
        }
        times
    }

    #[test]
    fn intervals_shrink_with_the_square_root() {
        for ecn in [Ecn::NotEct, Ecn::Ect0] {
            let times = signals(ecn);
            assert!(times.len() > 20, "{}", times.len());
            // Signal n + 1 follows signal n after 100 ms / sqrt(n), with the next packet.
            let mut due = times[0];
            for (count, at) in (1_u32..).zip(&times[1..]) {
                due = due + INTERVAL.div_f64(f64::from(count).sqrt());
                assert!(*at >= due && at.since(due) <= MILLISECOND * 2, "{count}");
            }
        }
    }

    /// RFC 8289, section 5.5: the drop that ends the dropping state does not advance the time of the next drop, by which
    /// the next dropping state finds out how long ago the drops ended.
    #[test]
    fn the_last_drop_schedules_no_further_one() {
        let packet = || Packet {
            flow: 1,
            len: 1500,
            ecn: Ecn::NotEct,
            content: (),
        };
        let (mut codel, mut actions) = (CoDel::new(), Actions::default());
        let at = |ms: i64| Instant(ms * 1_000_000);
        for _ in 0..6 {
            codel.push(at(0), packet());
        }
        // The first packet starts the interval; the packet at its end is dropped, and the next drop is due 100 ms later.
        assert!(codel.pop(at(10), &mut actions).is_some());
        assert!(codel.pop(at(110), &mut actions).is_some());
        assert_eq!((actions.dropped, codel.dropping), (1, true));
        assert_eq!(codel.drops_at, at(210));
        // After this drop, only one more packet waits: the dropping state ends.
        assert!(codel.pop(at(215), &mut actions).is_some());
        assert_eq!((actions.dropped, codel.dropping), (2, false));
        assert_eq!((codel.drops_at, codel.count), (at(210), 2));
    }

    #[test]
    fn a_short_queue_is_left_alone() {
        let (mut codel, mut actions) = (CoDel::new(), Actions::default());
        for ms in 0..1000 {
            let now = Instant(ms * 1_000_000);
            codel.push(
                now,
                Packet {
                    flow: 1,
                    len: 1500,
                    ecn: Ecn::NotEct,
                    content: (),
                },
            );
            if ms >= 4 {
                assert!(codel.pop(now, &mut actions).is_some());
            }
        }
        assert_eq!(actions, Actions::default());
    }
}
