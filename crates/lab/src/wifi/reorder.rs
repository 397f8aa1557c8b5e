//! What a receiver does with packets that overtook others: it holds them until those are there, or
//! given up.
//!
//! What it is not: a timeout. The sender says what it gives up, and does so at once.

use std::collections::BTreeMap;

use super::Nanos;

/// Packets of one flow, by the numbers that their sender gave them: 0, 1, 2, …
#[derive(Debug, Clone, Default)]
pub(super) struct Reorder {
    /// The number of the next packet to be released.
    next: u64,
    /// Those behind it that are there, and those that never will be (`None`).
    held: BTreeMap<u64, Option<Held>>,
    /// Nothing is released before what was released before it.
    last: Nanos,
}

/// A packet that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) id: u64,
    pub(super) queued: Nanos,
}

impl Reorder {
    /// The packet with this number is there (`Some`), or will never be; what is released with it.
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
        // Given up later than it came: order counts.
        assert_eq!(settle(6, true, 15), [(60, 20)]);
    }
}
