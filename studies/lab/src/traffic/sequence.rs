//! Analyses sequence numbers: losses, reordering and duplicates (RFC 3550, appendices A.1 and A.3).

use serde::Serialize;

/// State of the analysis of sequence numbers of any width.
#[derive(Debug, Clone, Default)]
pub struct Sequence {
    /// Number of packets expected in the runs before the last restart.
    due: u64,
    highest: Option<u64>,
    /// Bit map of the last 1024 numbers. Bit 0 of the first word is the highest number.
    seen: [u64; WORDS],
    first: u64,
    received: u64,
    account: SequenceAccount,
}

/// Statistics on the sequence numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SequenceAccount {
    /// Numbers between the first and the highest that were never seen.
    pub lost: u64,
    /// Packets that arrived after one with a higher number.
    pub reordered: u64,
    /// Maximum reordering distance.
    pub reordered_by: u64,
    /// Packets with a repeated number: duplicates or retransmissions.
    pub repeated: u64,
    /// Number of restarts of the sequence. A step that is too large for a loss or for reordering counts as a restart.
    pub restarts: u64,
    /// Expected numbers.
    pub due: u64,
}

const WORDS: usize = 16;

/// Size of the window.
const WINDOW: u64 = 64 * WORDS as u64;

/// A larger step forward is a restart (RFC 3550, appendix A.1: `MAX_DROPOUT`).
const LARGEST_GAP: u64 = 3000;

impl Sequence {
    /// Records a packet with a 16-bit number. Returns the extended number, and whether it is new.
    pub fn record16(&mut self, number: u16) -> (u64, bool) {
        // Start above zero, so that packets that precede the first received packet have a number, too.
        let highest = self.highest.unwrap_or(1 << 32 | u64::from(number));
        #[allow(clippy::cast_possible_truncation)] // Its last 16 bits.
        let ahead = number.wrapping_sub((highest & 0xffff) as u16);
        let number = match ahead {
            0..0x8000 => highest + u64::from(ahead),
            _ => highest.saturating_sub(u64::from(ahead.wrapping_neg())),
        };
        (number, self.record(number))
    }

    /// Records a packet with an extended number. Returns whether it is new.
    pub fn record(&mut self, number: u64) -> bool {
        let Some(highest) = self.highest else {
            return self.restart(number);
        };
        if number > highest {
            let step = number - highest;
            if step > LARGEST_GAP {
                self.account.restarts += 1;
                return self.restart(number);
            }
            self.shift(step);
            self.seen[0] |= 1;
            self.highest = Some(number);
            self.received += 1;
            return true;
        }
        let behind = highest - number;
        if behind >= WINDOW {
            self.account.restarts += 1;
            return self.restart(number);
        }
        #[allow(clippy::cast_possible_truncation)] // Less than the window.
        let (word, bit) = ((behind / 64) as usize, behind % 64);
        if self.seen[word] & 1 << bit != 0 {
            self.account.repeated += 1;
            return false;
        }
        self.seen[word] |= 1 << bit;
        self.account.reordered += 1;
        self.account.reordered_by = self.account.reordered_by.max(behind);
        self.received += 1;
        // The packet may have been sent before the first received packet.
        self.first = self.first.min(number);
        true
    }

    /// Statistics until now.
    #[must_use]
    pub fn account(&self) -> SequenceAccount {
        let due = self.due + self.highest.map_or(0, |highest| highest - self.first + 1);
        SequenceAccount {
            lost: due.saturating_sub(self.received),
            due,
            ..self.account
        }
    }

    fn restart(&mut self, number: u64) -> bool {
        if let Some(highest) = self.highest {
            self.due += highest - self.first + 1;
        }
        (self.first, self.highest) = (number, Some(number));
        self.seen = [0; WORDS];
        self.seen[0] = 1;
        self.received += 1;
        true
    }

    fn shift(&mut self, by: u64) {
        let seen = self.seen;
        for (place, word) in self.seen.iter_mut().enumerate() {
            let of =
                |behind: Option<usize>| behind.and_then(|at| seen.get(at)).copied().unwrap_or(0);
            let words = usize::try_from(by / 64).unwrap_or(usize::MAX);
            let low = of(place.checked_sub(words));
            let lower = of(place.checked_sub(words.saturating_add(1)));
            *word = match by % 64 {
                0 => low,
                bits => low << bits | lower >> (64 - bits),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn account(numbers: &[u16]) -> SequenceAccount {
        let mut sequence = Sequence::default();
        numbers.iter().for_each(|number| {
            sequence.record16(*number);
        });
        sequence.account()
    }

    #[test]
    fn losses_copies_and_reordering_are_distinguished() {
        let all = account(&[65_534, 65_535, 0, 2, 1, 1, 5]);
        let want = SequenceAccount {
            lost: 2,
            reordered: 1,
            reordered_by: 1,
            repeated: 1,
            restarts: 0,
            due: 8,
        };
        assert_eq!(all, want);
        assert_eq!(account(&[]), SequenceAccount::default());
        // The first received packet was not the first sent packet.
        assert_eq!(account(&[7, 6, 8]).lost, 0);
        assert_eq!(account(&[7, 6, 8]).due, 3);
    }

    #[test]
    fn restarted_numbers_are_not_losses() {
        let all = account(&[10, 11, 40_000, 40_001, 100]);
        assert_eq!((all.restarts, all.lost), (2, 0));
    }

    proptest! {
        /// The statistics are exact for any losses and duplicates, and for any order within the window.
        #[test]
        fn accounts_match_the_numbers(
            start in any::<u16>(),
            numbers in prop::collection::vec(0_u16..900, 1..400),
        ) {
            let all = account(&numbers.iter().map(|n| start.wrapping_add(*n)).collect::<Vec<_>>());
            let distinct: std::collections::BTreeSet<u16> = numbers.iter().copied().collect();
            let span = u64::from(distinct.last().unwrap() - distinct.first().unwrap()) + 1;
            prop_assert_eq!(all.due, span);
            prop_assert_eq!(all.lost, span - distinct.len() as u64);
            prop_assert_eq!(all.repeated, (numbers.len() - distinct.len()) as u64);
            prop_assert_eq!(all.restarts, 0);
        }
    }
}
