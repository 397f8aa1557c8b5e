//! A receiver's reorder buffer. It holds packets until all earlier packets have arrived or been dropped.
//!
//! There is no timeout, because the sender announces dropped packets immediately.

use std::collections::BTreeMap;

use super::Nanos;

/// The state of one flow. The sender numbers its packets 0, 1, 2, …
#[derive(Debug, Clone, Default)]
pub(super) struct Reorder {
    /// The number of the next packet to be released.
    next: u64,
    /// Later packets that have arrived. `None` stands for a dropped packet.
    held: BTreeMap<u64, Option<Held>>,
    /// Time of the last release. Release times never decrease.
    last: Nanos,
}

/// A packet that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) id: u64,
    pub(super) queued: Nanos,
}

impl Reorder {
    /// Records the arrival (`Some`) or the drop (`None`) of a packet. Calls `release` for each packet that is released.
    pub(super) fn settle(
        &mut self,
        number: u64,
        packet: Option<Held>,
        at: Nanos,
        mut release: impl FnMut(Held, Nanos),
    ) {
        self.held.insert(number, packet);
        while let Some(entry) = self.held.first_entry()
            && *entry.key() == self.next
        {
            self.last = self.last.max(at);
            if let Some(packet) = entry.remove() {
                release(packet, self.last);
            }
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_wait_for_earlier_ones_unless_given_up() {
        let mut reorder = Reorder::default();
        let mut released = Vec::new();
        let mut settle = |number, there: bool, at| {
            let packet = Held {
                id: number * 10,
                queued: 0,
            };
            reorder.settle(number, there.then_some(packet), at, |packet, at| {
                released.push((packet.id, at));
            });
            std::mem::take(&mut released)
        };
        assert_eq!(settle(0, true, 5), [(0, 5)]);
        assert_eq!(settle(2, true, 6), []);
        assert_eq!(settle(3, false, 7), []);
        assert_eq!(settle(4, true, 8), []);
        assert_eq!(settle(1, true, 9), [(10, 9), (20, 9), (40, 9)]);
        assert_eq!(settle(5, false, 20), []);
        // Packet 5 was dropped at time 20, after the arrival of packet 6 at time 15. Packet 6 is released only at 20.
        assert_eq!(settle(6, true, 15), [(60, 20)]);
    }
}
