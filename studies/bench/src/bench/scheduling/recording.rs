//! The cost of `--scheduling-trace` (an option of host and client) in the threads that it records.

use std::hint::black_box;

use anyhow::{Context as _, Result};
use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use openuvr_runtime::recording::Recording;
use openuvr_runtime::scheduling_latency::{SchedulingLatencies, WakeupSite};
use serde::Serialize;

use openuvr_testbed::pair::TemporaryDir;

/// Number of consecutive samples in a batch. The samples of all batches together fit into the recording's ring buffer,
/// so that none is lost. A lost sample would cost less than a recorded one, and falsify the result.
const BATCH: u32 = 500;
const BATCHES: u32 = 8;

/// Nanoseconds per sample in the fastest batch. Other activity of the machine may have slowed the other batches.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cost {
    /// At a site with recording off.
    pub(super) off: f64,
    /// In the thread that wakes another thread.
    pub(super) sent: f64,
    /// In the woken thread.
    pub(super) woke: f64,
}

/// Measures the cost.
pub(super) fn cost() -> Result<Cost> {
    let dir = TemporaryDir::new()?;
    let recording = Recording::start(dir.path()).context("can't record scheduling latency")?;
    let past = Instant(0);
    let woke = |site: &WakeupSite| site.woke(black_box(past));
    let off = least(&SchedulingLatencies::default().site("off"), woke);
    let woken = least(&recording.scheduling_latencies().site("woke"), woke);
    // The recording keeps only the first of several pending wake-ups. The later ones cost the same.
    let sent = least(
        &recording.scheduling_latencies().site("sent"),
        WakeupSite::sent,
    );
    let lost = recording.finish().context("can't write the recording")?;
    anyhow::ensure!(lost == 0, "the recording lost {lost} samples");
    Ok(Cost {
        off,
        sent,
        woke: woken,
    })
}

fn least(site: &WakeupSite, each: impl Fn(&WakeupSite)) -> f64 {
    let batches = (0..BATCHES).map(|_| {
        let begin = clock::now();
        for _ in 0..BATCH {
            each(black_box(site));
        }
        let took = clock::now().since(begin);
        took.as_secs_f64() * 1e9 / f64::from(BATCH)
    });
    batches.fold(f64::MAX, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_is_cheap_and_lossless() {
        let cost = cost().unwrap();
        assert!(
            cost.off >= 0.0 && cost.sent > 0.0 && cost.woke > 0.0,
            "{cost:?}"
        );
    }
}
