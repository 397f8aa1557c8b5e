//! Tests that a client reconnects to its host during a flood of handshake requests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use openuvr_lab::attack;
use openuvr_lab::attack::handshakes::{Claim, HandshakeFlood};
use openuvr_proto::control::identity::ClientId;
use openuvr_runtime::identity_store::{KeyOwner, load_or_create};
use openuvr_testbed::child::Child;
use openuvr_testbed::pair::{self, UDP};
use rustix::process::{Pid, Signal, kill_process};

use super::openuvr_bench;

/// Requests per second from all attackers together.
const A_SECOND: u32 = 3000;

/// Limit of each wait. It is far longer than needed, even on a heavily loaded machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The command `openuvr` with this subcommand. Its keys are in `folder`.
fn openuvr(command: &str, folder: &Path) -> Command {
    let program = openuvr_bench();
    let program = Path::new(program.get_program()).with_file_name("openuvr");
    let mut openuvr = Command::new(program);
    openuvr
        .arg(command)
        .args(["--sound", "off", "--config-dir"])
        .arg(folder)
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY");
    openuvr
}

/// Starts a host at this address. Its keys are in `folder`, and its messages go to `log`.
fn host(at: SocketAddr, folder: &Path, log: &Path) -> Child {
    let mut command = openuvr("host", folder);
    command
        .args(["--source", "pattern", "--size", "320x200", "--fps", "15"])
        .args(["--discoverable=false", "--bind", &at.to_string()]);
    let mut host = Child::start("host", command, Some(log)).expect("a host");
    pair::wait_until_bound(&mut host, at.port(), &UDP).expect("it listens");
    host
}

/// Waits until at least `count` lines of a child's log contain `words`.
fn wait_for_lines(child: &mut Child, log: &Path, count: usize, words: &str) {
    let started = Instant::now();
    loop {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        if text.lines().filter(|line| line.contains(words)).count() >= count {
            return;
        }
        child.check().expect("it runs");
        assert!(started.elapsed() < TIMEOUT, "no {words:?} in {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_client_reconnects_beside_3000_begins_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let [keys, ours] = ["host", "client"].map(|name| folder.path().join(name));
    for folder in [&keys, &ours] {
        std::fs::create_dir_all(folder).expect("a folder");
    }
    let logs = ["host", "host-2", "client"].map(|name| folder.path().join(format!("{name}.log")));
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, pair::free_port().expect("a port")));
    pair::introduce(&keys, &ours, at).expect("keys");
    let first = host(at, &keys, &logs[0]);
    let mut command = openuvr("client", &ours);
    command
        .arg(at.to_string())
        .args(["--present", "null", "--realtime", "off", "--table", "off"]);
    let mut client = Child::start("client", command, Some(&logs[2])).expect("a client");
    wait_for_lines(&mut client, &logs[2], 1, "showing");
    let keys_of_client = load_or_create(&ours, KeyOwner::Client).unwrap();
    let claims = [
        Claim::Pairing,
        Claim::Device(ClientId::of(&keys_of_client.public())),
        Claim::Stranger,
    ];
    let victim = at;
    let (stop, struck) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let attackers = claims.map(|claim| {
        let (stop, struck) = (stop.clone(), struck.clone());
        let from = (11..19).map(|n| IpAddr::from(Ipv4Addr::new(127, 0, 0, n)));
        let mut begins = HandshakeFlood::open(victim, from, claim).unwrap();
        std::thread::spawn(move || attack::run(&mut begins, A_SECOND / 3, &stop, &struck))
    });
    let more = |than: u64| {
        let started = Instant::now();
        while struck.load(Ordering::Relaxed) <= than {
            assert!(started.elapsed() < TIMEOUT, "no attack");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    more(1000);
    // SIGKILL prevents the host from informing its client of its end.
    let id = i32::try_from(first.id()).ok().and_then(Pid::from_raw);
    kill_process(id.expect("an id"), Signal::KILL).expect("it runs");
    drop(first);
    let mut second = host(at, &keys, &logs[1]);
    // The second host does not accept the cookies of the first host.
    let before = struck.load(Ordering::Relaxed);
    wait_for_lines(&mut client, &logs[2], 2, "connected to the host");
    wait_for_lines(&mut second, &logs[1], 1, "joins as player");
    more(before + 1000);
    client.check().expect("it runs");
    stop.store(true, Ordering::Relaxed);
    for attacker in attackers {
        attacker.join().unwrap();
    }
}
