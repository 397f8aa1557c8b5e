//! Identifies a process that need not be a child, waits for its end, and terminates it.
//!
//! The system reuses process numbers. Therefore, a process is identified by its number, its start time (proc(5), field
//! 22 of `stat`) and the machine's boot id.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Environment variable that all processes of a session inherit.
pub(super) const VARIABLE: &str = "OPENUVR_SESSION";

/// Maximum number of bytes of a process's environment that are read. By default, Linux allows 2 MiB, but the
/// environment of a session is usually much smaller.
const MAX_ENVIRONMENT: u64 = 256 * 1024;

/// Interval at which a process that is not a child is polled for its end. A poll takes 10 µs. Users do not notice a
/// delay of one interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Identifies a process uniquely.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Process {
    pid: i32,
    /// Start time in clock ticks since boot.
    began: u64,
    boot: String,
}

impl Process {
    /// The running process with this number; `None` if there is no such process or if it is a zombie.
    pub(super) fn of(pid: i32) -> Option<Process> {
        let (state, began) = stat(pid)?;
        let boot = boot();
        (!matches!(state, 'Z' | 'X')).then_some(Process { pid, began, boot })
    }

    /// Like [`Process::of`], but also finds a zombie, which a child may be.
    pub(super) fn of_any(pid: i32) -> Option<Process> {
        let (_, began) = stat(pid)?;
        let boot = boot();
        Some(Process { pid, began, boot })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn is_alive(&self) -> bool {
        Process::of(self.pid).as_ref() == Some(self)
    }

    /// The time since the process's start. It does not depend on the system clock, which may be set meanwhile.
    pub(super) fn age(&self) -> Duration {
        let now = Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default();
        let milliseconds = self.began.saturating_mul(1000) / clock_ticks_per_second().max(1);
        now.saturating_sub(Duration::from_millis(milliseconds))
    }

    /// Returns when the process has ended. Polls, because waitpid(2) waits only for children.
    pub(super) async fn ended(&self) {
        let mut look = tokio::time::interval(POLL_INTERVAL);
        while self.is_alive() {
            look.tick().await;
        }
    }

    /// Sends SIGTERM to the process and its process group.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL to the process and its process group.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let (true, Some(pid)) = (self.is_alive(), Pid::from_raw(self.pid)) {
            // An error is ignored: the call fails if the process has just ended.
            let _ = kill_process_group(pid, signal);
        }
    }
}

/// Kills all processes in whose environment [`VARIABLE`] has this value, in any process group. Returns their number.
pub(super) fn sweep(session: &str) -> usize {
    let wanted = format!("{VARIABLE}={session}");
    let mut ended = 0;
    for pid in all() {
        let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) else {
            continue;
        };
        let mut environment = Vec::new();
        let _ = file.take(MAX_ENVIRONMENT).read_to_end(&mut environment);
        let has = (environment.split(|byte| *byte == 0)).any(|entry| entry == wanted.as_bytes());
        let alive = || stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'));
        if has
            && alive()
            && let Some(pid) = Pid::from_raw(pid)
        {
            ended += usize::from(kill_process(pid, Signal::KILL).is_ok());
        }
    }
    ended
}

/// Finds the process-group leader that has this file as standard input.
pub(super) fn reads(file: &Path) -> Option<Process> {
    let leads = |pid: i32| group(pid) == Some(pid);
    let input = |pid: &i32| fs::read_link(format!("/proc/{pid}/fd/0")).is_ok_and(|of| of == file);
    let found = all().filter(|pid| leads(*pid)).find(input)?;
    Process::of(found)
}

fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The state and the start time of a process.
fn stat(pid: i32) -> Option<(char, u64)> {
    let fields = fields(pid)?;
    let state = fields.first()?.chars().next()?;
    // The field numbers in proc(5) start from 1, and `fields` starts with the third field.
    Some((state, fields.get(22 - 3)?.parse().ok()?))
}

fn group(pid: i32) -> Option<i32> {
    fields(pid)?.get(5 - 3)?.parse().ok()
}

/// The fields of `/proc/PID/stat` after the program's name. The name may contain blanks and parentheses.
fn fields(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = text.rsplit_once(')')?;
    Some(behind.split_whitespace().map(str::to_owned).collect())
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
