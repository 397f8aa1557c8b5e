//! When a garbage collector stopped the application, from the log of the JVM.
//!
//! The log is that of `-Xlog:gc*,safepoint:file=NAME:tn`: each line begins with System.nanoTime, which is
//! CLOCK_MONOTONIC on Linux, as the samples have it. A pause is logged when it is over, with its length.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use super::Nanos;

/// What was collected in a pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The young generation, or what the collector chose of a region-based heap.
    Young,
    /// Everything, with all else stopped.
    Full,
    /// A step of a collection that goes on beside the application: marking begins or ends.
    Phase,
}

/// One pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// When it began.
    pub start: Nanos,
    /// When it was over.
    pub end: Nanos,
    /// What was collected.
    pub kind: Kind,
}

/// Longer lines are none of a pause.
const LONGEST_LINE: u64 = 4096;
/// Pauses that are kept: a thousand a second for a quarter of an hour.
const MOST: usize = 1_000_000;

/// Reads the pauses of a log, in order of their beginning. Lines of other things are passed over.
///
/// # Errors
/// What the system says, or a log whose lines have no nanoseconds.
pub fn read(path: &Path) -> io::Result<Vec<Pause>> {
    let mut reader = BufReader::new(File::open(path)?);
    let (mut pauses, mut line, mut stamped, mut lines) = (Vec::new(), Vec::new(), 0_u64, 0_u64);
    loop {
        line.clear();
        if reader
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)?
            == 0
        {
            break;
        }
        lines += 1;
        let text = String::from_utf8_lossy(&line);
        let Some((stamp, words)) = stamped_line(&text) else {
            continue;
        };
        stamped += 1;
        if let Some(pause) = pause(stamp, words).filter(|_| pauses.len() < MOST) {
            pauses.push(pause);
        }
    }
    if lines > 0 && stamped == 0 {
        let wrong =
            "no line begins with [NUMBERns]: the log must be -Xlog:gc*,safepoint:file=NAME:tn";
        return Err(io::Error::new(io::ErrorKind::InvalidData, wrong));
    }
    pauses.sort_by_key(|pause| pause.start);
    Ok(pauses)
}

/// `[123ns] words`, perhaps with other decorations between.
fn stamped_line(line: &str) -> Option<(Nanos, &str)> {
    let (stamp, mut words) = line.trim_end().strip_prefix('[')?.split_once("ns]")?;
    while let Some(decorated) = words.trim_start().strip_prefix('[') {
        words = decorated.split_once(']')?.1;
    }
    Some((stamp.parse().ok()?, words.trim_start()))
}

/// `GC(7) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.205ms`; ZGC of later versions
/// says which generation in front: `GC(7) Y: Pause Mark Start 0.012ms`.
fn pause(end: Nanos, words: &str) -> Option<Pause> {
    let words = words.strip_prefix("GC(")?.split_once(") ")?.1;
    let of_generation = words.split_once(": ").filter(|(name, _)| name.len() == 1);
    let words = of_generation.map_or(words, |(_, words)| words);
    let what = words.strip_prefix("Pause ")?;
    // Without a length, it is the line of its beginning.
    let length: f64 = what.rsplit(' ').next()?.strip_suffix("ms")?.parse().ok()?;
    let length = (length * 1e6) as Nanos;
    let kind = match () {
        () if what.starts_with("Young") => Kind::Young,
        () if what.starts_with("Full") || what.starts_with("Degenerated") => Kind::Full,
        () => Kind::Phase,
    };
    Some(Pause {
        start: end.saturating_sub(length),
        end,
        kind,
    })
}

/// Pauses without those that lie in others, for looking up.
#[derive(Clone, Debug, Default)]
pub struct Covered(Vec<(Nanos, Nanos)>);

impl Covered {
    /// From pauses in order of their beginning.
    #[must_use]
    pub fn by(pauses: &[Pause]) -> Covered {
        let mut covered: Vec<(Nanos, Nanos)> = Vec::new();
        for pause in pauses {
            match covered.last_mut() {
                Some(last) if pause.start <= last.1 => last.1 = last.1.max(pause.end),
                _ => covered.push((pause.start, pause.end)),
            }
        }
        Covered(covered)
    }

    /// Whether there was a pause between two times.
    #[must_use]
    pub fn meets(&self, from: Nanos, to: Nanos) -> bool {
        let first = self.0.partition_point(|(_, end)| *end < from);
        self.0.get(first).is_some_and(|(start, _)| *start <= to)
    }

    /// The probability that something of this length meets a pause, if it begins at any time of the
    /// test alike.
    #[must_use]
    pub fn chance(&self, length: Nanos, begin: Nanos, end: Nanos) -> f64 {
        let mut met = 0;
        let mut until = begin;
        for (start, stop) in &self.0 {
            let from = start.saturating_sub(length).max(until);
            let to = (*stop).min(end);
            met += to.saturating_sub(from);
            until = until.max(to);
        }
        met as f64 / end.saturating_sub(begin).max(1) as f64
    }
}
