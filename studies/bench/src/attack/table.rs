//! Measurements during an attack, and their table.

use anyhow::{Context as _, Result};
use openuvr_clock as clock;
use openuvr_proto::time::Instant;

use super::core_use::hundredths;

/// The share of complete frames that must remain during an attack, compared with the run without attack (a guess: on a
/// machine with other load, three of 60 frames in a second may be missing).
const LEFT: f64 = 0.95;

/// Tolerated growth of the host's memory in bytes. Buffers that are filled for the first time cause such growth.
const GROWTH: f64 = 20e6;

/// The measured effects of an attack, and the result of its own criterion.
pub(super) struct Row {
    name: String,
    begun: Instant,
    ended: Instant,
    struck: u64,
    /// Complete frames per second; `None` if there was no client.
    whole: Option<f64>,
    /// The target's CPU use as a share of one core, and the growth of its memory in bytes; `None` if they were not
    /// measured.
    host: Option<(f64, f64)>,
    /// The permitted growth of the target's memory, in bytes.
    growth: f64,
    judged: Judged,
}

/// The result of an attack's own criterion: the text for the table, and whether the criterion is met. Frames and memory
/// are judged in addition.
pub(super) struct Judged {
    pub(super) words: String,
    pub(super) held: bool,
}

/// CPU time that a host or portal has used, in seconds, and its memory in bytes.
pub(super) type HostUse = (f64, f64);

/// CPU time that a process has used, in seconds, and its memory in bytes.
///
/// # Errors
/// Returns an error if the process has ended.
pub(super) fn use_of(id: u32) -> Result<HostUse> {
    let read = |file: &str| {
        std::fs::read_to_string(format!("/proc/{id}/{file}"))
            .with_context(|| format!("can't read the state of process {id}"))
    };
    let stat = read("stat")?;
    let status = read("status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let kilobytes = kilobytes.with_context(|| format!("process {id} has ended"))?;
    Ok((hundredths(&stat) / 100.0, kilobytes * 1024.0))
}

/// The time and the target's resource use at the beginning of an attack.
pub(super) struct Figures {
    begun: Instant,
    host: Option<HostUse>,
}

impl Figures {
    /// Call this at the beginning of an attack. `host` is the target's resource use up to this call, if it is measured.
    pub(super) fn start(host: Option<HostUse>) -> Figures {
        Figures {
            begun: clock::now(),
            host,
        }
    }

    /// Call this at the end of the attack. `now` is the target's resource use up to this call, if it is measured.
    pub(super) fn end(
        self,
        name: String,
        struck: u64,
        now: Option<HostUse>,
        judged: Judged,
    ) -> Row {
        let ended = clock::now();
        let span = ended.since(self.begun).as_secs_f64();
        let host = self.host.zip(now);
        Row {
            name,
            begun: self.begun,
            ended,
            struck,
            whole: None,
            host: host.map(|(before, now)| ((now.0 - before.0) / span, now.1 - before.1)),
            growth: GROWTH,
            judged,
        }
    }
}

impl Row {
    fn seconds(&self) -> f64 {
        self.ended.since(self.begun).as_secs_f64()
    }

    /// Counts the complete frames that were captured during the attack. `captured` contains the capture times of all
    /// complete frames. A frame that two clients have received is counted once.
    pub(super) fn count(&mut self, captured: &[i64]) {
        let mut of_it: Vec<i64> = captured
            .iter()
            .copied()
            .filter(|at| (self.begun.0..self.ended.0).contains(at))
            .collect();
        of_it.sort_unstable();
        of_it.dedup();
        self.whole = Some(of_it.len() as f64 / self.seconds());
    }

    /// Sets the permitted growth of memory, in bytes.
    pub(super) fn with_growth(mut self, growth: f64) -> Row {
        self.growth = growth;
        self
    }

    /// Marks the attack as not withstood.
    pub(super) fn failed(mut self, why: &str) -> Row {
        self.judged = Judged {
            words: why.to_owned(),
            held: false,
        };
        self
    }

    /// Whether the target withstood the attack. `undisturbed` is the frame rate without attack.
    fn held(&self, undisturbed: Option<f64>) -> bool {
        // In the attack `begins`, frames do not count, because the attack itself cut the client's link for most of the
        // time.
        let came_back = self.name == "begins";
        let frames = match (self.whole, undisturbed) {
            // If no frames are complete even without an attack, an attack has no visible effect.
            (Some(whole), Some(undisturbed)) => {
                undisturbed > 0.0 && (came_back || whole >= undisturbed * LEFT)
            }
            _ => true,
        };
        let memory = self.host.is_none_or(|(_, grown)| grown < self.growth);
        frames && memory && self.judged.held
    }
}

/// Prints the table. Returns whether the target withstood all attacks.
pub(super) fn print(rows: &[Row]) -> bool {
    let undisturbed = rows.first().and_then(|row| row.whole);
    println!(
        "| attack | per second | complete frames/s | host, of a core | memory | observation | held |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut all = true;
    for row in rows {
        let held = row.held(undisturbed);
        all &= held;
        let number = |value: Option<f64>, unit: &str, digits: usize| match value {
            Some(value) => format!("{value:.digits$}{unit}"),
            None => "–".to_owned(),
        };
        println!(
            "| {} | {:.0} | {} | {} | {} | {} | {} |",
            row.name,
            row.struck as f64 / row.seconds(),
            number(row.whole, "", 1),
            number(row.host.map(|(core, _)| core * 100.0), " %", 0),
            number(row.host.map(|(_, grown)| grown / 1e6), " MB", 1),
            row.judged.words,
            if held { "yes" } else { "NO" },
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_compared_with_a_stream_that_has_some() {
        let row = |name: &str, whole| {
            let judged = Judged {
                words: String::new(),
                held: true,
            };
            let mut row = Figures::start(None).end(name.to_owned(), 1, None, judged);
            row.whole = Some(whole);
            row
        };
        assert!(row("garbage", 57.0).held(Some(60.0)));
        assert!(!row("garbage", 56.0).held(Some(60.0)));
        assert!(row("begins", 10.0).held(Some(60.0)));
        for name in ["(none)", "garbage", "begins"] {
            assert!(!row(name, 0.0).held(Some(0.0)), "{name}");
        }
        assert!(row("garbage", 0.0).held(None));
    }
}
