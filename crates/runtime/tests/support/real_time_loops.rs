//! Simulates a machine with stalls: a real-time loop on each core spins for a part of each period, with a priority
//! above all threads of this project. Drivers, virtual machines and other real-time programs cause such stalls.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use openuvr_runtime::sched::{Policy, Scheduler, ThreadRole};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The loops' timing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pattern {
    /// Spin time per period.
    pub(crate) spin: Duration,
    /// The period.
    pub(crate) period: Duration,
}

impl Pattern {
    /// Ten stalls of 40 ms per second, which leave 60 % of each core to other threads.
    pub(crate) const OFTEN: Pattern = Pattern {
        spin: Duration::from_millis(40),
        period: Duration::from_millis(100),
    };

    /// Two stalls of 100 ms per second.
    pub(crate) const LONG: Pattern = Pattern {
        spin: Duration::from_millis(100),
        period: Duration::from_millis(500),
    };
}

/// The running loops. They end on drop.
pub(crate) struct RealTimeLoops {
    stop: Arc<AtomicBool>,
    stops: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl RealTimeLoops {
    /// Starts the loops in phase. Without the privilege for real-time threads, prints a message and returns `None`.
    ///
    /// # Panics
    /// Panics if the privilege is missing and `CI=true` is set.
    #[must_use]
    #[expect(clippy::print_stderr, reason = "reports a skipped test")]
    pub(crate) fn start(pattern: Pattern) -> Option<RealTimeLoops> {
        let scheduler = Scheduler::new();
        let mut loops = RealTimeLoops {
            stop: Arc::default(),
            stops: Arc::default(),
            threads: Vec::new(),
        };
        let begin = Instant::now() + Duration::from_millis(20);
        for core in cores() {
            let (stop, stops) = (loops.stop.clone(), loops.stops.clone());
            // The only role with a priority above those of hosts and clients.
            let role = ThreadRole::EmulatedLink;
            let thread = scheduler.spawn(role, "real-time-loop", move || {
                let mut alone = CpuSet::new();
                alone.set(core);
                // If this fails, loops may share a core and leave others free. The caller detects that with `stops`.
                let _ = sched_setaffinity(None, &alone);
                run(pattern, begin, &stop, &stops);
            });
            loops.threads.extend(thread);
        }
        let threads = scheduler.report().threads;
        let real_time = |policy| matches!(policy, Policy::Fifo(_));
        if !threads.is_empty() && threads.iter().all(|thread| real_time(thread.policy)) {
            return Some(loops);
        }
        let lacks = "no SCHED_FIFO (needs CAP_SYS_NICE or an rtprio limit)";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{lacks}");
        eprintln!("skipped: {lacks}");
        None
    }

    /// Number of stalls so far, over all cores.
    #[must_use]
    pub(crate) fn stops(&self) -> u64 {
        self.stops.load(Ordering::Relaxed)
    }
}

impl Drop for RealTimeLoops {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn run(pattern: Pattern, begin: Instant, stop: &AtomicBool, stops: &AtomicU64) {
    let mut next = begin;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let until = Instant::now() + pattern.spin;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        stops.fetch_add(1, Ordering::Relaxed);
        next += pattern.period;
        // A late loop still leaves time for other threads.
        next = next.max(Instant::now() + (pattern.period - pattern.spin) / 2);
    }
}

/// The cores on which this process may run.
fn cores() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else {
        let count = std::thread::available_parallelism().map_or(1, NonZero::get);
        return (0..count).collect();
    };
    (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect()
}
