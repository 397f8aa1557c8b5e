//! A host without free file descriptors: its accepting threads wait, report the problem once, and continue later.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::{Host, eventually};

/// A small, slow test pattern.
const PATTERN: [&str; 6] = ["--source", "pattern", "--size", "320x200", "--fps", "10"];

/// The number of context switches of the waiting thread after which its CPU time is checked.
const TURNS: u64 = 10;

/// The host's thread of this name, in `/proc`.
fn thread(process: u32, name: &str) -> PathBuf {
    let folder = format!("/proc/{process}/task");
    let threads = std::fs::read_dir(folder).expect("it runs");
    let mut paths = threads.map(|thread| thread.expect("it runs").path());
    let named = |path: &PathBuf| {
        let comm = std::fs::read_to_string(path.join("comm"));
        comm.is_ok_and(|comm| comm.trim() == name)
    };
    paths.find(named).expect("a thread of this name")
}

/// Number of context switches of a thread, and its CPU time in hundredths of a second.
fn waits_and_use(thread: &std::path::Path) -> (u64, u64) {
    let status = std::fs::read_to_string(thread.join("status")).expect("it runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let waits = line.and_then(|number| number.trim().parse().ok());
    let stat = std::fs::read_to_string(thread.join("stat")).expect("it runs");
    // The text after the name starts with field 3, the state. The two times are fields 14 and 15 (proc(5)).
    let behind = stat.rsplit(')').next().expect("fields");
    let fields = behind.split_whitespace().skip(11).take(2);
    let used = fields
        .map(|field| field.parse::<u64>().expect("a number"))
        .sum();
    (waits.expect("a number"), used)
}

/// Limits the host to this many descriptors in addition to its open ones. The limit applies to descriptor numbers.
fn limit(host: &Host, left: u64) {
    let id = host.program.id();
    let folder = std::fs::read_dir(format!("/proc/{id}/fd")).expect("it runs");
    let names = folder.flatten().map(|entry| entry.file_name());
    let numbers: Vec<u64> = names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect();
    let mut free = 0..;
    let open: u64 = free
        .find(|number| !numbers.contains(number))
        .expect("a number");
    let pid = Pid::from_raw(id.try_into().expect("a process"));
    let limit = Rlimit {
        current: Some(open + left),
        maximum: rustix::process::getrlimit(Resource::Nofile).maximum,
    };
    prlimit(pid, Resource::Nofile, limit).expect("a child process");
}

#[test]
fn a_host_without_descriptors_waits_and_recovers() {
    let gateways = ["--web", "127.0.0.1:0", "--rtsp", "127.0.0.1:0"];
    let mut host = Host::start(&[&PATTERN[..], &gateways].concat());
    for (line, name, what) in [
        ("video players: rtsp://", "ouvr-rtsp", "video players"),
        ("browsers: https://", "ouvr-gateway", "browsers"),
    ] {
        let output = host.program.line(line);
        let (_, url) = output.split_once("://").expect("a URL");
        let at: SocketAddr = url
            .split('/')
            .next()
            .expect("an address and port")
            .parse()
            .expect("an address");
        let thread = thread(host.program.id(), name);
        let mut waiting = Vec::new();
        let lack = format!("can't accept connections of {what}");
        // A descriptor that has just been closed leaves room for one connection.
        eventually("it has no descriptors left", || {
            limit(&host, 0);
            waiting.push(TcpStream::connect(at).expect("the kernel accepts it"));
            (host.program.count(&lack) > 0).then_some(())
        });
        let (before, used_before) = waits_and_use(&thread);
        let used = eventually("it waits between its tries", || {
            let (waits, used) = waits_and_use(&thread);
            (waits >= before + TURNS).then_some(used - used_before)
        });
        assert!(used < 50, "{used} hundredths of a second for {TURNS} turns");
        assert_eq!(host.program.count(&lack), 1, "{}", host.program.text());
        drop(waiting);
        limit(&host, 1000);
        // The host accepts connections again, and answers this request, at least with a TLS alert.
        eventually("it serves again", || {
            use std::io::{Read as _, Write as _};
            let mut stream = TcpStream::connect(at).ok()?;
            stream
                .write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")
                .ok()?;
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).ok()?;
            Some(())
        });
        host.program.assert_running();
    }
}
