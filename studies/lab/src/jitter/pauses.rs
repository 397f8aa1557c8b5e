//! Reads the pauses of a garbage collector from the JVM's log.
//!
//! The JVM writes the log with `-Xlog:gc*,safepoint:file=NAME:tn`. Each line starts with System.nanoTime, which is
//! CLOCK_MONOTONIC on Linux, as in the samples. A pause is logged when it ends, with its duration.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use super::Nanos;

/// The kind of a pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A collection of the young generation, or of selected regions of a region-based heap.
    Young,
    /// A full stop-the-world collection.
    Full,
    /// A phase of a concurrent collection, such as the start or the end of marking.
    Phase,
}

/// One pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// Start.
    pub start: Nanos,
    /// End.
    pub end: Nanos,
    /// The pause's kind.
    pub kind: Kind,
}

/// Maximum length of a line that describes a pause. Longer lines are skipped.
const LONGEST_LINE: u64 = 4096;
/// Maximum number of pauses: a thousand per second for about a quarter of an hour.
const MOST: usize = 1_000_000;

/// Reads the pauses of a log, and sorts them by their start. Skips other lines, and pauses after the first million.
///
/// # Errors
/// Returns the system's error, or an error if the log has no timestamps in nanoseconds.
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
        let wrong = "no line starts with [NUMBERns]: the JVM must write the log with -Xlog:gc*,safepoint:file=NAME:tn";
        return Err(io::Error::new(io::ErrorKind::InvalidData, wrong));
    }
    pauses.sort_by_key(|pause| pause.start);
    Ok(pauses)
}

/// Parses `[123ns] words`. Other decorations may stand in between.
fn stamped_line(line: &str) -> Option<(Nanos, &str)> {
    let (stamp, mut words) = line.trim_end().strip_prefix('[')?.split_once("ns]")?;
    while let Some(decorated) = words.trim_start().strip_prefix('[') {
        words = decorated.split_once(']')?.1;
    }
    Some((stamp.parse().ok()?, words.trim_start()))
}

/// Parses a line such as `GC(7) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.205ms`. Later versions of
/// ZGC put the generation in front: `GC(7) Y: Pause Mark Start 0.012ms`.
fn pause(end: Nanos, words: &str) -> Option<Pause> {
    let words = words.strip_prefix("GC(")?.split_once(") ")?.1;
    let of_generation = words.split_once(": ").filter(|(name, _)| name.len() == 1);
    let words = of_generation.map_or(words, |(_, words)| words);
    let what = words.strip_prefix("Pause ")?;
    // A line without a duration marks the start of a pause.
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

/// Pauses for lookups. Overlapping pauses are merged.
#[derive(Clone, Debug, Default)]
pub struct Covered(Vec<(Nanos, Nanos)>);

impl Covered {
    /// Merges pauses, which must be sorted by their start.
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

    /// Whether a pause overlaps this interval.
    #[must_use]
    pub fn overlaps(&self, from: Nanos, to: Nanos) -> bool {
        let first = self.0.partition_point(|(_, end)| *end < from);
        self.0.get(first).is_some_and(|(start, _)| *start <= to)
    }

    /// The probability that an interval of this length overlaps a pause, if its start is uniformly distributed over the
    /// test.
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
