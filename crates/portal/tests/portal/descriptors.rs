//! The portal's descriptor limit. The portal raises its own limit, but not the limit of sessions. When the limit is
//! reached, the portal waits.

use std::fs;
use std::net::TcpStream;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::support::{Installation, Portal, id, wait};

/// Number of iterations of the portal's waiting loop before the check. A busy loop would use more processor time within
/// this many iterations than the test permits.
const TURNS: u64 = 20;

/// The soft and the hard limit of a process.
fn limits(process: impl std::fmt::Display) -> [String; 2] {
    let text = fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
    let all = text.lines();
    let mut line = all.filter_map(|line| line.strip_prefix("Max open files"));
    let mut words = line.next().unwrap().split_whitespace();
    [(); 2].map(|()| words.next().unwrap().to_owned())
}

#[test]
fn the_portal_raises_its_limit_and_not_the_sessions() {
    let mut place = Installation::new();
    place.add_user("ada", &[]);
    place.before = vec!["sh", "-c", "ulimit -Sn 300 && exec \"$@\"", "sh"];
    let portal = place.start();
    let [soft, hard] = limits(portal.id());
    assert_eq!(soft, hard);
    assert_ne!(soft, "300", "the hard limit is not higher");
    let ada = portal.log_in("ada");
    assert_eq!(ada.start_session(&id(1), "bare").status, 202);
    ada.until(&id(1), "running");
    let processes = place.processes();
    assert_eq!(processes.len(), 1);
    assert_eq!(limits(processes[0]), ["300", &hard]);
}

/// Limits the portal to this many additional descriptors. The system compares descriptor numbers with the limit, so the
/// limit is the lowest free number plus `left`.
fn limit(portal: &Portal, left: u64) {
    let folder = fs::read_dir(format!("/proc/{}/fd", portal.id())).unwrap();
    let names = folder.flatten().map(|entry| entry.file_name());
    let numbers: Vec<u64> = names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect();
    let open = (0..).find(|number| !numbers.contains(number)).unwrap();
    let pid = Pid::from_raw(portal.id().try_into().unwrap());
    let limit = Rlimit {
        current: Some(open + left),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    prlimit(pid, Resource::Nofile, limit).unwrap();
}

/// Returns two values: the voluntary context switches of the portal's first thread, which accepts connections, and the
/// processor time of all threads in hundredths of a second.
fn waits_and_use(portal: &Portal) -> (u64, u64) {
    let id = portal.id();
    let status = fs::read_to_string(format!("/proc/{id}/task/{id}/status")).unwrap();
    let all = status.lines();
    let mut waits = all.filter_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let waits = waits.next().unwrap().trim().parse().unwrap();
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    // The first field after the program's name is field 3, the state. User time and system time are fields 14 and 15
    // (proc(5)).
    let (_, behind) = stat.rsplit_once(')').unwrap();
    let times = behind.split_whitespace().skip(11).take(2);
    let used = times.map(|time| time.parse::<u64>().unwrap()).sum();
    (waits, used)
}

#[test]
fn a_portal_recovers_from_exhausted_descriptors() {
    let place = Installation::new();
    let portal = place.start();
    let anonymous = portal.anonymous();
    let answers = || {
        let answer = anonymous.request("GET", "/healthz", None);
        answer.is_some_and(|answer| answer.status == 200)
    };
    wait("it answers", answers);
    let said = || {
        let log = fs::read_to_string(place.path("log")).unwrap();
        log.matches("cannot accept a connection").count()
    };
    let mut waiting = Vec::new();
    // The limit is set repeatedly, because a connection that closes frees a descriptor.
    wait("an exhausted limit", || {
        limit(&portal, 0);
        waiting.push(TcpStream::connect(&portal.at).unwrap());
        said() > 0
    });
    let (before, used_before) = waits_and_use(&portal);
    let mut used = 0;
    wait("waiting between retries", || {
        let (waits, used_now) = waits_and_use(&portal);
        used = used_now - used_before;
        waits >= before + TURNS
    });
    assert!(used < 50, "{used} hundredths of a second for {TURNS} turns");
    assert_eq!(said(), 1, "it is logged once");
    drop(waiting);
    limit(&portal, 100);
    wait("it answers again", answers);
}
