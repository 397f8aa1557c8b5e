//! This user's privileges: real-time threads, locked memory, raw frames, emulated game pads.

use openuvr_media::input_sink::pads::uinput;
use openuvr_runtime::sched::{Policy, Scheduler, ThreadRole, locked_memory_limit};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::finding::Finding;
use super::{Role, setup};

pub(super) fn findings(role: Role) -> Vec<Finding> {
    let held = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let mut findings = vec![real_time(held), memory(), raw_frames(held)];
    if role.hosts() {
        findings.push(game_pads());
    }
    findings
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
    let remedy = scheduling();
    match report.threads.first().map(|thread| thread.policy) {
        Some(Policy::Fifo(got)) if got >= wanted => Finding::ok(
            name,
            format!("a test thread got SCHED_FIFO with priority {got}, permitted by {by}"),
        ),
        Some(Policy::Fifo(got)) => Finding::better(
            name,
            format!(
                "a test thread got SCHED_FIFO with priority {got} instead of {wanted}, permitted by {by}"
            ),
            remedy,
        ),
        _ => Finding::better(
            name,
            "SCHED_FIFO denied: on a busy machine, expect latency peaks of 4 ms and more",
            remedy,
        ),
    }
}

/// The remedy for a denied scheduling policy and for limited locked memory.
fn scheduling() -> String {
    format!("{}, and log in again", setup("scheduling"))
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
            scheduling(),
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
            format!(
                "{}; a host with the capability cannot capture through a desktop's portal",
                setup("raw-ethernet")
            ),
        ),
    }
}

/// Opens uinput as `openuvr host --pads auto` does.
fn game_pads() -> Finding {
    let name = "game pads";
    match uinput::open() {
        Ok(_) => Finding::ok(name, "`openuvr host` can emulate game pads (uinput)"),
        Err(_) => Finding::better(
            name,
            "no access to /dev/uinput: only programs started by `openuvr run` see the players' game pads",
            format!("{}, and log in again", setup("uinput")),
        ),
    }
}
