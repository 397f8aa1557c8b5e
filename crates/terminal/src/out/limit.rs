//! Which messages are shown: lines that repeat are merged into one, and floods are cut. What a peer
//! can cause ten thousand times a second must fill neither a log nor a screen.
//!
//! Three limits hold at once: for the same text, for texts that differ in their numbers alone, and
//! for all together. What a limit holds back is counted, and told within [`EVERY`]. A value: the time
//! comes in as an argument.

use std::collections::HashMap;
use std::time::Duration;

use openuvr_proto::time::Instant;

/// How often it is told what was held back.
const EVERY: Duration = Duration::from_secs(10);

/// Texts, and kinds of texts, that are told apart.
const MOST: usize = 256;

/// The same text: a person has seen it then (guess).
const SAME: Rate = Rate {
    burst: 4,
    each: Duration::from_secs(10),
};

/// Texts that differ in numbers: as many as there may be clients, each with a line.
const ALIKE: Rate = Rate {
    burst: 66,
    each: Duration::from_secs(1),
};

/// All: 86 MB a day at 200 bytes a line.
const ALL: Rate = Rate {
    burst: 256,
    each: Duration::from_millis(200),
};

/// What is let through and what is held back.
#[derive(Debug)]
pub(super) struct Limit {
    same: Groups,
    alike: Groups,
    all: Bucket,
    /// Lines that nobody tells more of.
    left_out: Held,
}

impl Limit {
    /// Nothing was said yet.
    pub(super) fn new() -> Limit {
        Limit {
            same: Groups::new(SAME, |text, count| match count {
                1 => format!("{text} (repeated once)"),
                _ => format!("{text} (repeated {count} times)"),
            }),
            alike: Groups::new(ALIKE, |text, count| {
                format!("{text} (the last of {count} more lines like it)")
            }),
            all: Bucket::new(ALL),
            left_out: Held::default(),
        }
    }

    /// Whether this text is shown now. If not, it is counted.
    pub(super) fn lets_by(&mut self, now: Instant, text: &str) -> bool {
        let by = self.same.lets_by(now, text, text, &mut self.left_out)
            && (self.alike).lets_by(now, &kind(text), text, &mut self.left_out);
        if by && !self.all.take(now) {
            self.left_out.one_more(now);
            return false;
        }
        by
    }

    /// What is to be told now of what was held back.
    pub(super) fn due(&mut self, now: Instant) -> Vec<String> {
        self.told(|held| held.since.is_some_and(|since| now.since(since) >= EVERY))
    }

    /// What is to be told at the end.
    pub(super) fn rest(&mut self) -> Vec<String> {
        self.told(|held| held.count > 0)
    }

    /// When something is to be told.
    pub(super) fn next(&self) -> Option<Instant> {
        let groups = self.same.groups.values().chain(self.alike.groups.values());
        let held = groups.map(|group| &group.held).chain([&self.left_out]);
        Some(held.filter_map(|held| held.since).min()? + EVERY)
    }

    fn told(&mut self, is_due: impl Fn(&Held) -> bool) -> Vec<String> {
        let mut told = self.same.told(&is_due);
        told.extend(self.alike.told(&is_due));
        told.sort();
        let mut texts: Vec<String> = told.into_iter().map(|(_, text)| text).collect();
        if is_due(&self.left_out) {
            let count = self.left_out.take();
            texts.push(format!(
                "openuvr: {count} more lines are left out here: there were too many"
            ));
        }
        texts
    }
}

/// The text with each number replaced: what texts of one origin have in common.
fn kind(text: &str) -> String {
    let mut kind = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii_digit() {
            true if kind.ends_with('#') => {}
            true => kind.push('#'),
            false => kind.push(c),
        }
    }
    kind
}

/// Lines that were held back.
#[derive(Debug, Default)]
struct Held {
    count: u64,
    since: Option<Instant>,
}

impl Held {
    fn one_more(&mut self, now: Instant) {
        self.count += 1;
        self.since.get_or_insert(now);
    }

    fn take(&mut self) -> u64 {
        std::mem::take(self).count
    }
}

/// Texts that have something in common.
#[derive(Debug)]
struct Group {
    bucket: Bucket,
    held: Held,
    last: String,
    heard: Instant,
}

/// The groups of one limit.
#[derive(Debug)]
struct Groups {
    rate: Rate,
    words: fn(&str, u64) -> String,
    groups: HashMap<String, Group>,
}

impl Groups {
    fn new(rate: Rate, words: fn(&str, u64) -> String) -> Groups {
        Groups {
            rate,
            words,
            groups: HashMap::new(),
        }
    }

    fn lets_by(&mut self, now: Instant, key: &str, text: &str, forgotten: &mut Held) -> bool {
        if !self.groups.contains_key(key) {
            self.make_room(now, forgotten);
            let group = Group {
                bucket: Bucket::new(self.rate),
                held: Held::default(),
                last: String::new(),
                heard: now,
            };
            self.groups.insert(key.to_owned(), group);
        }
        let Some(group) = self.groups.get_mut(key) else {
            return true;
        };
        group.heard = now;
        if group.bucket.take(now) {
            return true;
        }
        group.held.one_more(now);
        text.clone_into(&mut group.last);
        false
    }

    fn make_room(&mut self, now: Instant, forgotten: &mut Held) {
        if self.groups.len() < MOST {
            return;
        }
        let oldest = self.groups.iter().min_by_key(|(_, group)| group.heard);
        if let Some(key) = oldest.map(|(key, _)| key.clone())
            && let Some(gone) = self.groups.remove(&key)
        {
            for _ in 0..gone.held.count {
                forgotten.one_more(now);
            }
        }
    }

    fn told(&mut self, is_due: &impl Fn(&Held) -> bool) -> Vec<(Instant, String)> {
        let due = self.groups.values_mut().filter(|group| is_due(&group.held));
        due.map(|group| {
            let words = (self.words)(&group.last, group.held.take());
            (group.heard, words)
        })
        .collect()
    }
}

/// So many at once, and one more for each such time.
#[derive(Clone, Copy, Debug)]
struct Rate {
    burst: u32,
    each: Duration,
}

/// What is left of a rate.
#[derive(Debug)]
struct Bucket {
    rate: Rate,
    left: u32,
    /// When the last one was put back.
    filled: Option<Instant>,
}

impl Bucket {
    fn new(rate: Rate) -> Bucket {
        Bucket {
            rate,
            left: rate.burst,
            filled: None,
        }
    }

    fn take(&mut self, now: Instant) -> bool {
        let filled = *self.filled.get_or_insert(now);
        let back = now.since(filled).as_nanos() / self.rate.each.as_nanos();
        let back = u32::try_from(back).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(back).min(self.rate.burst);
        if self.left == self.rate.burst {
            // Full: what time has gone by counts no more.
            self.filled = Some(now);
        } else {
            self.filled = Some(filled + self.rate.each * back);
        }
        let taken = self.left > 0;
        self.left = self.left.saturating_sub(1);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: i64) -> Instant {
        Instant(n * 1_000_000)
    }

    /// What is shown of these texts, a millisecond apart, and what is told by the end of the time.
    fn shown(texts: impl Iterator<Item = String>) -> (Vec<String>, Vec<String>) {
        let mut limit = Limit::new();
        let mut lines = Vec::new();
        let mut at = 0;
        for (text, n) in texts.zip(0..) {
            at = n;
            if limit.lets_by(ms(at), &text) {
                lines.push(text);
            }
        }
        let next = limit.next();
        assert!(limit.due(ms(0)).is_empty(), "not yet");
        let told = limit.due(ms(at + 10_000));
        assert_eq!(next.is_some(), !told.is_empty());
        assert!(limit.next().is_none(), "all is told");
        (lines, told)
    }

    #[test]
    fn a_line_that_repeats_is_merged_with_its_count() {
        let (lines, told) = shown((0..816).map(|_| "a is served by udp".to_owned()));
        assert_eq!(lines, ["a is served by udp"; 4]);
        assert_eq!(told, ["a is served by udp (repeated 812 times)"]);
        let (lines, told) = shown((0..5).map(|_| "x".to_owned()));
        assert_eq!(
            (lines.len(), &told[..]),
            (4, &["x (repeated once)".to_owned()][..])
        );
    }

    #[test]
    fn lines_that_take_turns_are_merged_each() {
        let (lines, told) = shown((0..2000).map(|n| format!("rung {}", ["a", "b"][n % 2])));
        assert_eq!(lines.len(), 8);
        assert_eq!(
            told,
            ["rung a (repeated 996 times)", "rung b (repeated 996 times)"]
        );
    }

    #[test]
    fn lines_that_differ_in_numbers_are_one_kind() {
        let (lines, told) = shown((0..12_000).map(|n| format!("there is no key {n} here")));
        // A burst, and one for each of the twelve seconds.
        assert_eq!(lines.len(), 66 + 11);
        assert_eq!(
            told,
            ["there is no key 11999 here (the last of 11923 more lines like it)"]
        );
    }

    #[test]
    fn as_many_clients_as_there_may_be_join_at_once() {
        let joins = (0..65).map(|n| format!("client {n} joins as observer"));
        let (lines, told) = shown(joins);
        assert_eq!((lines.len(), told.len()), (65, 0));
    }

    #[test]
    fn a_flood_of_different_lines_is_cut_and_counted() {
        let word = |n: u32| {
            let letters = (0..8).map(|i| char::from(b'a' + (n >> (4 * i) & 15) as u8));
            letters.collect::<String>()
        };
        let (lines, told) = shown((0..100_000).map(word));
        // A burst, and five for each of the hundred seconds.
        assert_eq!(lines.len(), 256 + 499);
        assert_eq!(
            told,
            ["openuvr: 99245 more lines are left out here: there were too many"]
        );
    }

    #[test]
    fn what_comes_now_and_then_is_always_shown() {
        let mut limit = Limit::new();
        for n in 0..1000 {
            assert!(limit.lets_by(ms(n * 10_000), "it fell silent"), "{n}");
        }
        assert!(limit.rest().is_empty());
    }

    #[test]
    fn at_the_end_what_was_held_back_is_told() {
        let mut limit = Limit::new();
        for _ in 0..7 {
            limit.lets_by(ms(1), "x");
        }
        assert_eq!(limit.rest(), ["x (repeated 3 times)"]);
        assert!(limit.rest().is_empty(), "once");
    }

    #[test]
    fn what_is_remembered_of_lines_is_bounded() {
        let mut limit = Limit::new();
        for n in 0..100_000_u32 {
            let text: String = n.to_string().bytes().map(|b| char::from(b + 50)).collect();
            limit.lets_by(ms(0), &text);
        }
        assert!(limit.same.groups.len() <= MOST && limit.alike.groups.len() <= MOST);
    }
}
