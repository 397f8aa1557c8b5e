//! Determines the memory of this process's descendants, and ends them. Orphaned descendants become children of this
//! process (prctl(2), PR_SET_CHILD_SUBREAPER).

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::param::page_size;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};

/// The time between SIGTERM and SIGKILL (guess).
pub(crate) const TERM_TIMEOUT: Duration = Duration::from_secs(2);

/// The total time limit. A process that the kernel cannot end must not block this process.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(5);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The private memory of all descendants in bytes. Shared memory does not count.
pub(crate) fn memory() -> u64 {
    let pages = running().into_iter().map(|pid| {
        let about = fs::read_to_string(format!("/proc/{}/statm", pid.as_raw_nonzero()));
        let about = about.unwrap_or_default();
        let mut numbers = about.split(' ').map(|n| n.parse().unwrap_or(0_u64));
        let (resident, shared) = (numbers.nth(1).unwrap_or(0), numbers.next().unwrap_or(0));
        resident.saturating_sub(shared)
    });
    pages.sum::<u64>().saturating_mul(page_size() as u64)
}

/// Ends all descendants.
pub fn end_all() {
    end_all_but(&[]);
}

/// Ends all descendants, but does not reap them: the code that started a child can still read its exit status.
pub fn end_started() {
    // No process has the id 0, so no process is spared.
    end_all_but(&[0]);
}

/// Ends all descendants except `spared` and their own descendants: SIGTERM first, then SIGKILL. Returns whether a
/// process was killed.
pub(crate) fn end_all_but(spared: &[u32]) -> bool {
    let began = Instant::now();
    let mut signalled: Vec<Pid> = Vec::new();
    let mut killed = false;
    loop {
        // An ended process exists until it is reaped.
        while spared.is_empty() && matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        let (all, ended) = all_below(spared);
        // If processes are spared, the code that started them reaps ended processes.
        let over = all.is_empty() && (ended == 0 || !spared.is_empty());
        if over || began.elapsed() >= TOTAL_TIMEOUT {
            return killed;
        }
        for pid in all {
            if began.elapsed() >= TERM_TIMEOUT {
                killed = true;
                let _ = kill_process(pid, Signal::KILL);
            } else if !signalled.contains(&pid) {
                signalled.push(pid);
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// All running descendants.
pub fn running() -> Vec<Pid> {
    running_except(&[])
}

/// All running descendants, except `spared` and their descendants.
pub fn running_except(spared: &[u32]) -> Vec<Pid> {
    all_below(spared).0
}

/// Like [`running_except`], with the number of zombies. A zombie may still have children, because the children of a multithreaded
/// process are reparented only when its last thread has ended.
fn all_below(spared: &[u32]) -> (Vec<Pid>, usize) {
    let mut children: HashMap<i32, Vec<(i32, bool)>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some((parent, ended)) = parent_of(&stat) {
            children.entry(parent).or_default().push((pid, ended));
        }
    }
    let (mut found, mut ended_ones) = (Vec::new(), 0);
    let mut next = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = next.pop() {
        for (pid, ended) in children.remove(&parent).unwrap_or_default() {
            if spared
                .iter()
                .any(|spared| i32::try_from(*spared) == Ok(pid))
            {
                continue;
            }
            next.push(pid);
            match ended {
                true => ended_ones += 1,
                false => found.extend(Pid::from_raw(pid)),
            }
        }
    }
    (found, ended_ones)
}

/// The parent in a line of /proc/PID/stat (proc(5)), and whether the process has ended. The process's name in this line
/// may contain any characters.
fn parent_of(stat: &str) -> Option<(i32, bool)> {
    let (_, behind_name) = stat.rsplit_once(") ")?;
    let mut words = behind_name.split(' ');
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    Some((parent, matches!(state, "Z" | "X")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_whatever_the_name() {
        assert_eq!(parent_of("12 (a) b) S 7 12 12 0"), Some((7, false)));
        assert_eq!(parent_of("12 (a) Z 7 12"), Some((7, true)));
        assert_eq!(parent_of(""), None);
        assert_eq!(parent_of("12 (a) S"), None);
    }
}
