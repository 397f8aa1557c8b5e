//! This user's privileges: real-time threads, locked memory, raw frames.

use openuvr_runtime::sched::{Policy, Scheduler, ThreadRole, locked_memory_limit};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::finding::Finding;
use super::setcap;

pub(super) fn findings() -> Vec<Finding> {
    let held = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    vec![real_time(held), memory(), raw_frames(held)]
}

/// Starts a thread as host and client do, and checks its scheduling policy.
fn real_time(held: CapabilitySet) -> Finding {
    let name = "real-time threads";
    let scheduler = Scheduler::new();
    let started = scheduler.spawn(ThreadRole::Dispatch, "doctor", || ());
    if let Err(why) = started.map(std::thread::JoinHandle::join) {
        return Finding::missing(
            name,
            format!("can't start a thread: {why}"),
            "ulimit -u unlimited",
        );
    }
    let report = scheduler.report();
    let wanted = ThreadRole::Dispatch.priority().unwrap_or(0);
    let by = match held.contains(CapabilitySet::SYS_NICE) {
        true => "CAP_SYS_NICE".to_owned(),
        false => {
            let limit = getrlimit(Resource::Rtprio).current.unwrap_or(u64::MAX);
            format!("the limit rtprio of {limit}")
        }
    };
    let remedy = format!(
        "{}, or add `@audio - rtprio 50` to /etc/security/limits.d/openuvr.conf, join the group \
         audio, and log in again",
        setcap()
    );
    match report.threads.first().map(|thread| thread.policy) {
        Some(Policy::Fifo(got)) if got >= wanted => {
            Finding::ok(name, format!("a thread got SCHED_FIFO {got}, through {by}"))
        }
        Some(Policy::Fifo(got)) => Finding::better(
            name,
            format!("a thread got SCHED_FIFO {got} instead of {wanted}, through {by}"),
            remedy,
        ),
        _ => Finding::better(
            name,
            "SCHED_FIFO denied: on a busy machine expect latency peaks of 4 ms and more",
            remedy,
        ),
    }
}

fn memory() -> Finding {
    let name = "locked memory";
    match locked_memory_limit() {
        None => Finding::ok(name, "host and client can lock all their memory"),
        Some(bytes) => Finding::better(
            name,
            format!(
                "limited to {} KiB: host and client lock no memory",
                bytes >> 10
            ),
            format!(
                "{}, or add `@audio - memlock unlimited` to /etc/security/limits.d/openuvr.conf \
                 and log in again",
                setcap()
            ),
        ),
    }
}

fn raw_frames(held: CapabilitySet) -> Finding {
    let name = "CAP_NET_RAW";
    match held.contains(CapabilitySet::NET_RAW) {
        true => Finding::ok(name, "held: raw Ethernet is available"),
        false => Finding::better(
            name,
            "not held: raw Ethernet is unavailable; UDP needs no privilege",
            setcap(),
        ),
    }
}
