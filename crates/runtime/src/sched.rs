//! Starts threads with the priority, CPU affinity and locked memory that their roles require, and reports the granted
//! scheduling.
//!
//! On a busy machine, real-time scheduling reduces the tail of the latency by a factor of 10 to 100, far more than any
//! choice of socket or queue. Measured: the p99 latency of a 1 kHz timer is 42 µs with SCHED_FIFO, and 4 500 µs
//! without. Real-time scheduling requires a privilege: CAP_SYS_NICE, or a limit in `/etc/security/limits.d`. Without
//! the privilege, all functions work, and one warning is printed.
//!
//! For 50 ms in each second, the kernel throttles real-time threads that never block (sched(7)). OpenUVR's threads
//! block in a socket, a device or the encoder between two frames, and none of them spins.
//!
//! The module does not use SCHED_DEADLINE (no gain over FIFO, and refused for pinned threads). It never calls mlockall,
//! because the threads may run in the process of another application. It locks only the stacks of the threads that it
//! starts; OpenUVR's programs may lock more (`docs/adr/0004-locked-memory.md`).

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, CpuSet, capabilities, sched_getaffinity, sched_setaffinity};

use crate::scheduling_latency::{SchedulingLatencies, WakeupSite};
use crate::sys;

/// A thread's task, which determines its priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadRole {
    /// Receives, sends, or dispatches; short work after each wake-up.
    Dispatch,
    /// Reads or injects input.
    Input,
    /// Captures, encodes or plays sound: 0.1 ms of work every few milliseconds.
    Audio,
    /// Composes the windows of a display: short work after each frame of an application, while the application waits.
    Compose,
    /// Converts and encodes: about a fifth of a core.
    Encode,
    /// Decodes: about a fifth of a core.
    Decode,
    /// Emulates a link in a measurement (`openuvr lab hop`).
    EmulatedLink,
    /// Work without latency requirements: control, statistics, files.
    Background,
}

impl ThreadRole {
    /// The SCHED_FIFO priority, or `None` for SCHED_OTHER. An emulated link is above 50, which is the priority of
    /// threaded interrupts, because it replaces real hardware. All other roles are below 50, because the network card
    /// must come first. Heavy work is below dispatching, so that it does not delay dispatching. Decoding is above
    /// encoding: if host and client share a machine, a slice is decoded while the encoder works on later slices.
    /// Measured on two cores, this saves 0.6 ms at 1280 × 720 and 2 ms at 1920 × 1080, compared with equal priorities.
    /// The libx264 thread that produces the first slices is at 21 (crate `media`). Composing is above encoding and
    /// decoding, because it precedes them and is shorter.
    #[must_use]
    pub const fn priority(self) -> Option<u8> {
        match self {
            ThreadRole::EmulatedLink => Some(60),
            ThreadRole::Dispatch => Some(45),
            ThreadRole::Input => Some(44),
            ThreadRole::Audio => Some(43),
            ThreadRole::Compose => Some(24),
            ThreadRole::Decode => Some(22),
            ThreadRole::Encode => Some(20),
            ThreadRole::Background => None,
        }
    }

    /// Whether child threads inherit the priority. These are the workers that a codec library starts when it is opened
    /// on this thread.
    const fn lends_priority(self) -> bool {
        matches!(self, ThreadRole::Encode | ThreadRole::Decode)
    }
}

/// How a thread is scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// SCHED_FIFO with this priority.
    Fifo(u8),
    /// SCHED_RR with this priority. This program never sets it, but may inherit it from the parent process.
    RoundRobin(u8),
    /// The ordinary time sharing (SCHED_OTHER, BATCH, IDLE).
    Other,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Fifo(priority) => write!(f, "FIFO {priority}"),
            Policy::RoundRobin(priority) => write!(f, "RR {priority}"),
            Policy::Other => f.write_str("OTHER"),
        }
    }
}

/// A thread and its granted scheduling.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadSched {
    /// Its name, as `top -H` shows it.
    pub name: String,
    /// Its task.
    pub role: ThreadRole,
    /// Its policy, as reported by the kernel.
    pub policy: Policy,
}

/// The granted and refused scheduling of all threads of one [`Scheduler`]. Its `Display` is one line for logs
/// and results: `udp-recv FIFO 45, encode OTHER, …`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SchedReport {
    /// The threads in the order of their start. Threads with equal values, such as the threads of connections, are
    /// listed once, so that clients cannot make the list grow.
    pub threads: Vec<ThreadSched>,
    /// Refused requests with reasons. Only the first refusal of each kind is kept.
    refused: Vec<(Refused, String)>,
}

/// A request that the system may refuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// SCHED_FIFO.
    RealTime,
    /// Locked memory.
    Memory,
    /// CPU affinity.
    Cores,
}

impl Refused {
    const fn words(self) -> &'static str {
        match self {
            Refused::RealTime => "no real-time scheduling",
            Refused::Memory => "memory not locked",
            Refused::Cores => "threads not pinned",
        }
    }
}

impl SchedReport {
    /// One line to print if a request was refused: the request, the reason, and a remedy.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let parts = (self.refused.iter()).map(|(what, why)| format!("{} ({why})", what.words()));
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| {
            format!(
                "{}: expect latency peaks on a busy machine; run `openuvr doctor` for advice",
                parts.join(", ")
            )
        })
    }

    fn record_refusal(&mut self, what: Refused, why: &dyn fmt::Display) {
        if self.refused.iter().all(|(known, _)| *known != what) {
            self.refused.push((what, why.to_string()));
        }
    }
}

impl fmt::Display for SchedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, thread) in self.threads.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{} {}", thread.name, thread.policy)?;
        }
        Ok(())
    }
}

/// Starts threads and records their granted scheduling. Clones share the report.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    ordinary: bool,
    /// A role excluded from real-time scheduling.
    non_realtime: Option<ThreadRole>,
    /// Cores of the latency-critical threads. An empty set allows any core.
    cores: Arc<BTreeSet<usize>>,
    report: Arc<Mutex<SchedReport>>,
    latencies: SchedulingLatencies,
}

/// Signals that the kernel sends to a thread for a fault of this thread. If these signals were blocked, they would end
/// the process without calling the application's signal handler, or the Rust runtime's handler for stack overflows.
const OWN_FAULTS: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

impl Scheduler {
    /// Requests real-time scheduling for the roles that need it.
    #[must_use]
    pub fn new() -> Scheduler {
        Scheduler::default()
    }

    /// Never requests real-time scheduling.
    #[must_use]
    pub fn ordinary() -> Scheduler {
        Scheduler {
            ordinary: true,
            ..Scheduler::default()
        }
    }

    /// Excludes threads of this role from real-time scheduling.
    #[must_use]
    pub fn without_realtime(self, role: ThreadRole) -> Scheduler {
        Scheduler {
            non_realtime: Some(role),
            ..self
        }
    }

    /// The priority for threads of this role; `None`: SCHED_OTHER.
    fn priority(&self, role: ThreadRole) -> Option<u8> {
        let realtime = !self.ordinary && self.non_realtime != Some(role);
        role.priority().filter(|_| realtime)
    }

    /// Pins all threads except [`ThreadRole::Background`] to these cores (numbers as in `/proc/cpuinfo`), including the
    /// workers of codec libraries. If there are fewer cores than running threads, the threads wait for each other.
    /// Pinning is independent of real-time scheduling.
    #[must_use]
    pub fn pinned_to(self, cores: BTreeSet<usize>) -> Scheduler {
        Scheduler {
            cores: Arc::new(cores),
            ..self
        }
    }

    /// Records the scheduling latency of the threads.
    #[must_use]
    pub fn with_latency_recording(self, latencies: SchedulingLatencies) -> Scheduler {
        Scheduler { latencies, ..self }
    }

    /// Creates a wake-up site of the latency recording. Without a recording, the site does nothing.
    #[must_use]
    pub fn site(&self, name: &str) -> WakeupSite {
        self.latencies.site(name)
    }

    /// Records a refused request that the program made to the system without this scheduler. The report's warning then
    /// includes this request.
    pub fn refused(&self, what: Refused, why: &dyn fmt::Display) {
        self.lock().record_refusal(what, why);
    }

    /// Starts a thread. When this returns, the thread's scheduling has been set and is in the report. The thread blocks
    /// all signals except the signals of its own faults. The thread's timer slack is 1 ns (`PR_SET_TIMERSLACK`), which
    /// reduces the median latency by 50 µs for SCHED_OTHER. With a real-time role, its stack stays in memory once
    /// touched. The kernel shows 15 bytes of the name.
    ///
    /// # Errors
    /// Returns the system's error if the thread cannot be started. A refused priority is not an error.
    pub fn spawn<T: Send + 'static>(
        &self,
        role: ThreadRole,
        name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let (ready, started) = mpsc::sync_channel(1);
        let scheduler = self.clone();
        let builder = std::thread::Builder::new().name(name.to_owned());
        let handle = sys::with_signals_blocked(&OWN_FAULTS, || {
            builder.spawn(move || {
                scheduler.enter(role);
                let _locked = scheduler.lock_stack(role);
                // Fails only if the receiver is gone.
                let _ = ready.send(());
                drop(ready);
                f()
            })
        })?;
        // Fails only if the thread panicked, which its handle reports.
        let _ = started.recv();
        Ok(handle)
    }

    /// Applies the scheduling of `role` to the calling thread, which was started elsewhere, and adds the thread to the
    /// report. Its signal mask is not changed.
    pub fn enter(&self, role: ThreadRole) {
        sys::set_timer_slack(1);
        let priority = self.priority(role);
        let refused = priority.and_then(|wanted| set_fifo_within_limits(wanted, role).err());
        let unpinned = match role {
            ThreadRole::Background => None,
            _ => pin(&self.cores).err(),
        };
        let policy = match sys::policy() {
            (libc::SCHED_FIFO, priority) => Policy::Fifo(priority),
            (libc::SCHED_RR, priority) => Policy::RoundRobin(priority),
            _ => Policy::Other,
        };
        let name = std::thread::current().name().unwrap_or("?").to_owned();
        let mut report = self.lock();
        let thread = ThreadSched { name, role, policy };
        if !report.threads.contains(&thread) {
            report.threads.push(thread);
        }
        if let Some(error) = refused {
            report.record_refusal(Refused::RealTime, &error);
        }
        if let Some(why) = unpinned {
            report.record_refusal(Refused::Cores, &why);
        }
    }

    /// Locks the calling thread's stack, if its role is real-time.
    fn lock_stack(&self, role: ThreadRole) -> Option<sys::LockedStack> {
        self.priority(role)?;
        let locked = sys::lock_stack();
        locked
            .map_err(|error| self.lock().record_refusal(Refused::Memory, &error))
            .ok()
    }

    /// The report so far.
    #[must_use]
    pub fn report(&self) -> SchedReport {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, SchedReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limit of this process's locked memory in bytes; `None` if it is unlimited.
#[must_use]
pub fn locked_memory_limit() -> Option<u64> {
    let free =
        capabilities(None).is_ok_and(|held| held.effective.contains(CapabilitySet::IPC_LOCK));
    match free {
        true => None,
        false => getrlimit(Resource::Memlock).current,
    }
}

/// Sets the SCHED_FIFO priority, or the highest one below it that the user's limit allows.
fn set_fifo_within_limits(priority: u8, role: ThreadRole) -> io::Result<()> {
    let inherit = role.lends_priority();
    sys::set_fifo(priority, inherit).or_else(|error| match sys::priority_limit().min(priority) {
        0 => Err(error),
        allowed => sys::set_fifo(allowed, inherit),
    })
}

/// Pins the calling thread to `cores`. Each of them must exist and be available to this process.
fn pin(cores: &BTreeSet<usize>) -> Result<(), String> {
    if cores.is_empty() {
        return Ok(());
    }
    let allowed = sched_getaffinity(None).map_err(|error| error.to_string())?;
    let mut wanted = CpuSet::new();
    for &core in cores {
        if core >= CpuSet::MAX_CPU || !allowed.is_set(core) {
            let there = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
            let there: Vec<String> = there.map(|core| core.to_string()).collect();
            return Err(format!(
                "core {core} is not available to this process; the available cores are {}",
                there.join(", ")
            ));
        }
        wanted.set(core);
    }
    sched_setaffinity(None, &wanted).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rustix::thread::{CpuSet, sched_getaffinity};

    use super::{Arc, Mutex, Policy, Refused, SchedReport, Scheduler, ThreadRole, ThreadSched};
    use crate::sys;

    const ROLES: [ThreadRole; 8] = [
        ThreadRole::Dispatch,
        ThreadRole::Input,
        ThreadRole::Audio,
        ThreadRole::Compose,
        ThreadRole::Encode,
        ThreadRole::Decode,
        ThreadRole::EmulatedLink,
        ThreadRole::Background,
    ];

    fn fifo_allowed() -> bool {
        let allowed = std::thread::spawn(|| sys::set_fifo(1, false).is_ok());
        if allowed.join().unwrap() {
            return true;
        }
        println!("skipped: no SCHED_FIFO (needs CAP_SYS_NICE or an rtprio limit)");
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "skipped in CI"
        );
        false
    }

    #[test]
    fn each_role_gets_its_priority() {
        if !fifo_allowed() {
            return;
        }
        let scheduler = Scheduler::new();
        for role in ROLES {
            let seen = scheduler.spawn(role, "role", sys::policy).unwrap();
            let want = role.priority().map_or((libc::SCHED_OTHER, 0), |priority| {
                (libc::SCHED_FIFO, priority)
            });
            assert_eq!(seen.join().unwrap(), want, "{role:?}");
        }
        let report = scheduler.report();
        assert_eq!(report.threads.len(), ROLES.len());
        assert_eq!(report.threads[0].policy, Policy::Fifo(45));
        assert_eq!(report.warning(), None);
    }

    #[test]
    fn one_role_may_be_ordinary_among_the_others() {
        if !fifo_allowed() {
            return;
        }
        let scheduler = Scheduler::new().without_realtime(ThreadRole::Encode);
        let policy_of = |role| scheduler.spawn(role, "role", sys::policy).unwrap().join();
        assert_eq!(policy_of(ThreadRole::Encode).unwrap().0, libc::SCHED_OTHER);
        assert_eq!(policy_of(ThreadRole::Input).unwrap().0, libc::SCHED_FIFO);
        assert_eq!(scheduler.report().warning(), None, "it was not requested");
    }

    #[test]
    fn only_the_workers_of_codecs_inherit() {
        if !fifo_allowed() {
            return;
        }
        for (role, policy) in [
            (ThreadRole::Encode, libc::SCHED_FIFO),
            (ThreadRole::Dispatch, libc::SCHED_OTHER),
        ] {
            let child = || std::thread::spawn(sys::policy).join().unwrap();
            let seen = Scheduler::new().spawn(role, "parent", child).unwrap();
            assert_eq!(seen.join().unwrap().0, policy, "{role:?}");
        }
    }

    #[test]
    fn ordinary_threads_stay_so_and_nothing_is_refused() {
        let scheduler = Scheduler::ordinary();
        let before = std::thread::spawn(sys::policy).join().unwrap();
        let seen = scheduler
            .spawn(ThreadRole::Dispatch, "plain", sys::policy)
            .unwrap();
        assert_eq!(seen.join().unwrap(), before);
        assert_eq!(scheduler.report().warning(), None);
    }

    #[test]
    fn all_but_synchronous_signals_are_blocked() {
        let seen = Scheduler::new().spawn(ThreadRole::Background, "signals", || {
            [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGSEGV].map(sys::blocks)
        });
        assert_eq!(seen.unwrap().join().unwrap(), [true, true, true, false]);
        assert!(
            !sys::blocks(libc::SIGUSR1),
            "the spawning thread's mask is unchanged"
        );
    }

    #[test]
    fn threads_have_names_and_results_and_are_reported() {
        let scheduler = Scheduler::ordinary();
        let name = || std::thread::current().name().unwrap().to_owned();
        let thread = scheduler.spawn(ThreadRole::Decode, "decode", name).unwrap();
        assert_eq!(thread.join().unwrap(), "decode");
        assert!(scheduler.report().to_string().starts_with("decode "));
    }

    #[test]
    fn threads_of_connections_are_reported_once() {
        let scheduler = Scheduler::ordinary();
        for name in ["one", "connection", "connection", "connection"] {
            let thread = scheduler.spawn(ThreadRole::Background, name, || ());
            thread.unwrap().join().unwrap();
        }
        let report = scheduler.report();
        let names: Vec<&str> = report.threads.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["one", "connection"]);
    }

    /// The cores on which the calling thread may run.
    fn cores() -> BTreeSet<usize> {
        let set = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU)
            .filter(|&core| set.is_set(core))
            .collect()
    }

    #[test]
    fn pinned_threads_and_their_workers_stay_on_their_cores() {
        let all = cores();
        let last: BTreeSet<usize> = all.last().copied().into_iter().collect();
        let scheduler = Scheduler::ordinary().pinned_to(last.clone());
        let child = || std::thread::spawn(cores).join().unwrap();
        for (role, want) in [(ThreadRole::Encode, &last), (ThreadRole::Background, &all)] {
            let seen = scheduler.spawn(role, "pinned", child).unwrap();
            assert_eq!(seen.join().unwrap(), *want, "{role:?}");
        }
        assert_eq!(scheduler.report().warning(), None);
    }

    #[test]
    fn an_absent_core_is_refused_and_the_thread_runs() {
        let (all, absent) = (cores(), CpuSet::MAX_CPU + 7);
        let scheduler = Scheduler::ordinary().pinned_to(BTreeSet::from([absent]));
        let seen = scheduler
            .spawn(ThreadRole::Dispatch, "unpinned", cores)
            .unwrap();
        assert_eq!(seen.join().unwrap(), all);
        let warning = scheduler.report().warning().unwrap();
        assert!(
            warning.contains(&format!("core {absent} is not available")),
            "{warning}"
        );
    }

    #[test]
    fn only_the_stack_of_a_real_time_thread_is_locked() {
        let locked = || {
            let status = std::fs::read_to_string("/proc/thread-self/smaps").unwrap();
            let here = std::ptr::from_ref(&status).addr();
            let mut inside = false;
            for line in status.lines() {
                let range = line.split(' ').next().and_then(|word| word.split_once('-'));
                if let Some((from, to)) = range
                    && let (Ok(from), Ok(to)) = (
                        usize::from_str_radix(from, 16),
                        usize::from_str_radix(to, 16),
                    )
                {
                    inside = (from..to).contains(&here);
                }
                if inside && line.starts_with("VmFlags:") {
                    return line.split(' ').any(|flag| flag == "lo");
                }
            }
            panic!("this thread's stack was not found");
        };
        let scheduler = Scheduler::new();
        for (role, want) in [
            (ThreadRole::Dispatch, true),
            (ThreadRole::Background, false),
        ] {
            let seen = scheduler
                .spawn(role, "stack", locked)
                .unwrap()
                .join()
                .unwrap();
            let refused = scheduler
                .report()
                .warning()
                .is_some_and(|line| line.contains("locked"));
            if want && refused {
                println!("skipped: no memory may be locked (RLIMIT_MEMLOCK)");
                assert!(
                    std::env::var("CI").as_deref() != Ok("true"),
                    "skipped in CI"
                );
                return;
            }
            assert_eq!(seen, want, "{role:?}");
        }
    }

    #[test]
    fn refused_requests_become_one_line() {
        let report = SchedReport {
            threads: vec![ThreadSched {
                name: "encode".into(),
                role: ThreadRole::Encode,
                policy: Policy::Other,
            }],
            refused: Vec::new(),
        };
        assert_eq!(report.to_string(), "encode OTHER");
        let scheduler = Scheduler {
            report: Arc::new(Mutex::new(report)),
            ..Scheduler::ordinary()
        };
        for why in ["Operation not permitted", "the second time"] {
            scheduler.refused(Refused::RealTime, &why);
        }
        scheduler.refused(Refused::Memory, &"too little");
        assert_eq!(
            scheduler.report().warning().unwrap(),
            "no real-time scheduling (Operation not permitted), memory not locked (too \
             little): expect latency peaks on a busy machine; run `openuvr doctor` for advice"
        );
    }
}
