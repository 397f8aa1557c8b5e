//! The rate limit of messages: repeated lines are merged and floods are suppressed. A message that a peer can trigger
//! ten thousand times a second must not fill a log or a screen.
//!
//! Three limits apply at the same time: to identical texts, to texts that differ only in numbers, and to all messages.
//! Suppressed lines are counted and reported within [`REPORT_INTERVAL`]. Sans-I/O: the caller passes the time.

use std::collections::HashMap;
use std::time::Duration;

use openuvr_proto::time::Instant;

/// Maximum time until suppressed lines are reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of tracked texts, and of tracked patterns of texts.
const MAX_GROUPS: usize = 256;

/// The limit for identical texts (guess: four lines are enough to be noticed).
const IDENTICAL: Rate = Rate {
    burst: 4,
    each: Duration::from_secs(10),
};

/// The limit for texts that differ only in numbers. The burst is large enough for one such text from each client, even
/// at the maximum number of clients.
const SIMILAR: Rate = Rate {
    burst: 66,
    each: Duration::from_secs(1),
};

/// The limit for all messages: at most 86 MB a day at 200 bytes a line.
const ALL: Rate = Rate {
    burst: 256,
    each: Duration::from_millis(200),
};

/// The rate limiter of all messages.
#[derive(Debug)]
pub(super) struct Limiter {
    identical: Groups,
    similar: Groups,
    all: Bucket,
    /// Suppressed lines that are not reported by a group.
    overflow: Suppressed,
}

impl Limiter {
    pub(super) fn new() -> Limiter {
        Limiter {
            identical: Groups::new(IDENTICAL, |text, count| match count {
                1 => format!("{text} (repeated once)"),
                _ => format!("{text} (repeated {count} times)"),
            }),
            similar: Groups::new(SIMILAR, |text, count| {
                format!("{text} (the last of {count} similar lines that were suppressed)")
            }),
            all: Bucket::new(ALL),
            overflow: Suppressed::default(),
        }
    }

    /// Whether this text may be shown now. If not, it is counted as suppressed.
    pub(super) fn allows(&mut self, now: Instant, text: &str) -> bool {
        let allowed = self.identical.allows(now, text, text, &mut self.overflow)
            && (self.similar).allows(now, &pattern(text), text, &mut self.overflow);
        if allowed && !self.all.take(now) {
            self.overflow.count_one(now);
            return false;
        }
        allowed
    }

    /// The reports of suppressed lines that are due now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<String> {
        self.reports(|suppressed| {
            suppressed
                .since
                .is_some_and(|since| now.since(since) >= REPORT_INTERVAL)
        })
    }

    /// The final reports.
    pub(super) fn rest(&mut self) -> Vec<String> {
        self.reports(|suppressed| suppressed.count > 0)
    }

    /// When the next report is due.
    pub(super) fn next_report(&self) -> Option<Instant> {
        let groups = self
            .identical
            .groups
            .values()
            .chain(self.similar.groups.values());
        let suppressed = groups
            .map(|group| &group.suppressed)
            .chain([&self.overflow]);
        Some(suppressed.filter_map(|suppressed| suppressed.since).min()? + REPORT_INTERVAL)
    }

    fn reports(&mut self, is_due: impl Fn(&Suppressed) -> bool) -> Vec<String> {
        let mut reports = self.identical.reports(&is_due);
        reports.extend(self.similar.reports(&is_due));
        reports.sort();
        let mut texts: Vec<String> = reports.into_iter().map(|(_, text)| text).collect();
        if is_due(&self.overflow) {
            let count = self.overflow.take();
            texts.push(format!(
                "openuvr: {count} lines suppressed: rate limit exceeded"
            ));
        }
        texts
    }
}

/// The text with each number replaced by `#`. Messages that differ only in numbers have the same result.
fn pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii_digit() {
            true if pattern.ends_with('#') => {}
            true => pattern.push('#'),
            false => pattern.push(c),
        }
    }
    pattern
}

/// A count of suppressed lines.
#[derive(Debug, Default)]
struct Suppressed {
    count: u64,
    since: Option<Instant>,
}

impl Suppressed {
    fn count_one(&mut self, now: Instant) {
        self.count += 1;
        self.since.get_or_insert(now);
    }

    fn take(&mut self) -> u64 {
        std::mem::take(self).count
    }
}

/// Texts with the same key.
#[derive(Debug)]
struct Group {
    bucket: Bucket,
    suppressed: Suppressed,
    last: String,
    last_seen: Instant,
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

    fn allows(&mut self, now: Instant, key: &str, text: &str, overflow: &mut Suppressed) -> bool {
        if !self.groups.contains_key(key) {
            self.evict_oldest(now, overflow);
            let group = Group {
                bucket: Bucket::new(self.rate),
                suppressed: Suppressed::default(),
                last: String::new(),
                last_seen: now,
            };
            self.groups.insert(key.to_owned(), group);
        }
        let Some(group) = self.groups.get_mut(key) else {
            return true;
        };
        group.last_seen = now;
        if group.bucket.take(now) {
            return true;
        }
        group.suppressed.count_one(now);
        text.clone_into(&mut group.last);
        false
    }

    fn evict_oldest(&mut self, now: Instant, overflow: &mut Suppressed) {
        if self.groups.len() < MAX_GROUPS {
            return;
        }
        let oldest = self.groups.iter().min_by_key(|(_, group)| group.last_seen);
        if let Some(key) = oldest.map(|(key, _)| key.clone())
            && let Some(gone) = self.groups.remove(&key)
        {
            for _ in 0..gone.suppressed.count {
                overflow.count_one(now);
            }
        }
    }

    fn reports(&mut self, is_due: &impl Fn(&Suppressed) -> bool) -> Vec<(Instant, String)> {
        let due = self
            .groups
            .values_mut()
            .filter(|group| is_due(&group.suppressed));
        due.map(|group| {
            let words = (self.words)(&group.last, group.suppressed.take());
            (group.last_seen, words)
        })
        .collect()
    }
}

/// A token bucket's parameters: its size, and the time per token.
#[derive(Clone, Copy, Debug)]
struct Rate {
    burst: u32,
    each: Duration,
}

/// A token bucket.
#[derive(Debug)]
struct Bucket {
    rate: Rate,
    left: u32,
    /// When the last token was added.
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
            // The bucket is full, so the fraction of the next token is discarded.
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

    /// The lines that are shown if these texts arrive a millisecond apart, and the reports at the end.
    fn run(texts: impl Iterator<Item = String>) -> (Vec<String>, Vec<String>) {
        let mut limit = Limiter::new();
        let mut lines = Vec::new();
        let mut at = 0;
        for (text, n) in texts.zip(0..) {
            at = n;
            if limit.allows(ms(at), &text) {
                lines.push(text);
            }
        }
        let next = limit.next_report();
        assert!(limit.due(ms(0)).is_empty(), "not yet");
        let reports = limit.due(ms(at + 10_000));
        assert_eq!(next.is_some(), !reports.is_empty());
        assert!(limit.next_report().is_none(), "no report is left");
        (lines, reports)
    }

    #[test]
    fn a_line_that_repeats_is_merged_with_its_count() {
        let (lines, reports) = run((0..816).map(|_| "a is served by udp".to_owned()));
        assert_eq!(lines, ["a is served by udp"; 4]);
        assert_eq!(reports, ["a is served by udp (repeated 812 times)"]);
        let (lines, reports) = run((0..5).map(|_| "x".to_owned()));
        assert_eq!(
            (lines.len(), &reports[..]),
            (4, &["x (repeated once)".to_owned()][..])
        );
    }

    #[test]
    fn alternating_lines_are_merged_separately() {
        let (lines, reports) = run((0..2000).map(|n| format!("link {}", ["a", "b"][n % 2])));
        assert_eq!(lines.len(), 8);
        assert_eq!(
            reports,
            ["link a (repeated 996 times)", "link b (repeated 996 times)"]
        );
    }

    #[test]
    fn lines_that_differ_in_numbers_are_one_kind() {
        let (lines, reports) = run((0..12_000).map(|n| format!("there is no key {n} here")));
        // A burst of 66 lines, and then one line per second.
        assert_eq!(lines.len(), 66 + 11);
        assert_eq!(
            reports,
            ["there is no key 11999 here (the last of 11923 similar lines that were suppressed)"]
        );
    }

    #[test]
    fn the_most_clients_may_join_at_once() {
        let joins = (0..65).map(|n| format!("client {n} joins as observer"));
        let (lines, reports) = run(joins);
        assert_eq!((lines.len(), reports.len()), (65, 0));
    }

    #[test]
    fn a_flood_of_different_lines_is_cut_and_counted() {
        let word = |n: u32| {
            let letters = (0..8).map(|i| char::from(b'a' + (n >> (4 * i) & 15) as u8));
            letters.collect::<String>()
        };
        let (lines, reports) = run((0..100_000).map(word));
        // A burst of 256 lines, and then five lines per second.
        assert_eq!(lines.len(), 256 + 499);
        assert_eq!(
            reports,
            ["openuvr: 99245 lines suppressed: rate limit exceeded"]
        );
    }

    #[test]
    fn an_occasional_line_is_always_shown() {
        let mut limit = Limiter::new();
        for n in 0..1000 {
            assert!(limit.allows(ms(n * 10_000), "it fell silent"), "{n}");
        }
        assert!(limit.rest().is_empty());
    }

    #[test]
    fn suppressed_lines_are_reported_at_the_end() {
        let mut limit = Limiter::new();
        for _ in 0..7 {
            limit.allows(ms(1), "x");
        }
        assert_eq!(limit.rest(), ["x (repeated 3 times)"]);
        assert!(limit.rest().is_empty(), "once");
    }

    #[test]
    fn memory_is_bounded() {
        let mut limit = Limiter::new();
        for n in 0..100_000_u32 {
            let text: String = n.to_string().bytes().map(|b| char::from(b + 50)).collect();
            limit.allows(ms(0), &text);
        }
        assert!(
            limit.identical.groups.len() <= MAX_GROUPS && limit.similar.groups.len() <= MAX_GROUPS
        );
    }
}
