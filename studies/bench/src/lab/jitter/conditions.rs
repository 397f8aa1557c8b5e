//! The machine's conditions during the measurement. Without them, latency figures are meaningless.

use std::fs::read_to_string;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use openuvr_clock as clock;
use openuvr_lab::jitter::analysis::analyse;
use openuvr_lab::jitter::distribution::Summary;
use openuvr_lab::jitter::samples::{self, Header, Pattern, Sample, Samples};
use openuvr_runtime::sched::{Scheduler, ThreadRole};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};
use serde::{Deserialize, Serialize};

const NANOS: u64 = 1_000_000_000;
/// Wake-up period of the thread that measures the floor: `cyclictest`'s default.
const EVERY: u64 = 1_000_000;

/// Conditions shared by all cells of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Conditions {
    /// The kernel's version from `uname -v`, which may name the preemption model, such as PREEMPT_RT or
    /// PREEMPT_DYNAMIC.
    pub(super) kernel: String,
    /// Whether the kernel has the RT patch (`/sys/kernel/realtime`).
    pub(super) real_time_kernel: bool,
    /// Budget of real-time threads in each period, µs. -1 means unlimited.
    pub(super) throttled_to_us: Option<i64>,
    pub(super) throttling_period_us: Option<i64>,
    /// Wake-up latency of a thread that sleeps until absolute times, ns.
    pub(super) floor: Summary,
    /// The scheduling policy of the thread that measured `floor`.
    pub(super) floor_policy: String,
}

impl Conditions {
    /// Reads the conditions, and measures the floor for `lasting`. The floor is the wake-up latency of a timer, which
    /// is about the minimum latency of a message that wakes a sleeping thread on this machine. The samples are
    /// temporarily stored in `scratch`.
    ///
    /// # Errors
    /// Returns the system's error.
    pub(super) fn measure(lasting: Duration, scratch: &Path) -> Result<Conditions> {
        let number = |name: &str| {
            let text = read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
            text.trim().parse().ok()
        };
        let (floor, floor_policy) =
            floor(lasting, scratch).context("can't measure the machine's wake-up latency")?;
        let kernel = read_to_string("/proc/sys/kernel/version").unwrap_or_default();
        let patched = read_to_string("/sys/kernel/realtime").unwrap_or_default();
        Ok(Conditions {
            kernel: kernel.trim().to_owned(),
            real_time_kernel: patched.trim() == "1",
            throttled_to_us: number("sched_rt_runtime_us"),
            throttling_period_us: number("sched_rt_period_us"),
            floor,
            floor_policy,
        })
    }

    /// Describes the conditions in one line.
    pub(super) fn words(&self) -> String {
        let throttled = match (self.throttled_to_us, self.throttling_period_us) {
            (Some(-1), _) => "not throttled".to_owned(),
            (Some(of), Some(period)) => format!("throttled to {of} µs in each {period} µs"),
            _ => "throttling unknown".to_owned(),
        };
        let micros = |nanos: f64| format!("{:.0}", nanos / 1e3);
        format!(
            "{} kernel ({}); real-time threads {throttled}; wake-up latency of a {} thread \
             {} µs (p50; p99: {}, max: {})",
            if self.real_time_kernel {
                "real-time"
            } else {
                "vanilla"
            },
            self.kernel,
            self.floor_policy,
            micros(self.floor.median),
            self.floor.p99.map_or("–".to_owned(), micros),
            micros(self.floor.max),
        )
    }
}

/// Sleeps until absolute times in a thread with OpenUVR's highest real-time priority, if the system permits it. Records
/// the time of each wake-up. This is `cyclictest` with our own clock and file format.
fn floor(lasting: Duration, scratch: &Path) -> Result<(Summary, String)> {
    let count = u64::try_from(lasting.as_nanos())? / EVERY;
    let scheduler = Scheduler::new();
    let thread = scheduler.spawn(ThreadRole::EmulatedLink, "floor", move || {
        let mut samples = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        let begin = now() + EVERY;
        for number in 0..count {
            let intended = begin + number * EVERY;
            let at = Timespec {
                tv_sec: (intended / NANOS).cast_signed(),
                tv_nsec: (intended % NANOS).cast_signed(),
            };
            // If a signal interrupts the sleep, sleep again.
            while clock_nanosleep_absolute(ClockId::Monotonic, &at).is_err() {}
            samples.push(Sample {
                intended,
                sent: intended,
                received: now(),
            });
        }
        let policy = crate::machine::threads()
            .into_keys()
            .find(|thread| thread.thread == "floor")
            .map_or("OTHER".to_owned(), |thread| thread.policy);
        (samples, policy)
    })?;
    let Ok((all, policy)) = thread.join() else {
        anyhow::bail!("its thread panicked");
    };
    let header = Header {
        name: "floor".into(),
        pattern: Pattern::Paced,
        capacity: 0,
        begin: all.first().map_or(0, |sample| sample.intended),
        end: all.last().map(|sample| sample.received),
        rate_millihertz: NANOS * 1000 / EVERY,
        counts: Vec::new(),
    };
    let path = scratch.join("floor.jitter");
    samples::write(&path, &header, &all)?;
    let analysis = Samples::open(&path).and_then(|mut samples| analyse(&mut samples, None));
    let _ = std::fs::remove_file(&path);
    Ok((analysis?.sent, policy))
}

fn now() -> u64 {
    clock::now().0.cast_unsigned()
}
