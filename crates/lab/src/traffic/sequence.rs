//! What packet numbers tell: losses, reordering, duplicates (RFC 3550, appendix A.1 and A.3).

use serde::Serialize;

/// An account of numbers that count packets, for numbers of any width.
#[derive(Debug, Clone, Default)]
pub struct Sequence {
    /// The first number of each run together, and the highest: numbers that were due.
    due: u64,
    highest: Option<u64>,
    /// Which of the last 1024 numbers were seen; bit 0 of the first word is the highest.
    seen: [u64; WORDS],
    first: u64,
    received: u64,
    account: SequenceAccount,
}

/// What became of the numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SequenceAccount {
    /// Numbers from the first to the highest that were never seen here.
    pub lost: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// By how many numbers at most.
    pub reordered_by: u64,
    /// Packets whose number had been seen: copies, or sent again.
    pub repeated: u64,
    /// Times that the numbers began anew, or so many were missing that it looks so.
    pub restarts: u64,
    /// Numbers that were due.
    pub due: u64,
}

const WORDS: usize = 16;

/// Numbers that are remembered.
const WINDOW: u64 = 64 * WORDS as u64;

/// A step forward that is larger than this is a new beginning (RFC 3550, appendix A.1:
/// `MAX_DROPOUT`).
const LARGEST_GAP: u64 = 3000;

impl Sequence {
    /// A packet with a number of 16 bits, which begins anew after 65 535; what it is when continued, and
    /// whether it is seen for the first time.
    pub fn see16(&mut self, number: u16) -> (u64, bool) {
        // Room to go back in, so that a first packet may be one that was overtaken.
        let highest = self.highest.unwrap_or(1 << 32 | u64::from(number));
        #[allow(clippy::cast_possible_truncation)] // Its last 16 bits.
        let ahead = number.wrapping_sub((highest & 0xffff) as u16);
        let number = match ahead {
            0..0x8000 => highest + u64::from(ahead),
            _ => highest.saturating_sub(u64::from(ahead.wrapping_neg())),
        };
        (number, self.see(number))
    }

    /// A packet with a number that never begins anew; whether it is seen for the first time.
    pub fn see(&mut self, number: u64) -> bool {
        let Some(highest) = self.highest else {
            return self.begin(number);
        };
        if number > highest {
            let step = number - highest;
            if step > LARGEST_GAP {
                self.account.restarts += 1;
                return self.begin(number);
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
            return self.begin(number);
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
        // It was sent before the first that came.
        self.first = self.first.min(number);
        true
    }

    /// What became of all numbers until now.
    #[must_use]
    pub fn account(&self) -> SequenceAccount {
        let due = self.due + self.highest.map_or(0, |highest| highest - self.first + 1);
        SequenceAccount {
            lost: due.saturating_sub(self.received),
            due,
            ..self.account
        }
    }

    fn begin(&mut self, number: u64) -> bool {
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
            sequence.see16(*number);
        });
        sequence.account()
    }

    #[test]
    fn losses_copies_and_reordering_are_told_apart() {
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
        // The first that came was not the first that was sent.
        assert_eq!(account(&[7, 6, 8]).lost, 0);
        assert_eq!(account(&[7, 6, 8]).due, 3);
    }

    #[test]
    fn numbers_that_begin_anew_are_no_losses() {
        let all = account(&[10, 11, 40_000, 40_001, 100]);
        assert_eq!((all.restarts, all.lost), (2, 0));
    }

    proptest! {
        /// Any order within the window, any losses and copies: the account is that of the numbers.
        #[test]
        fn accounts_are_those_of_the_numbers(
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
