//! Host discovery by multicast DNS on the local network. Clients do not trust forged announcements.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;

use mdns_sd::{ServiceDaemon, ServiceInfo};
use openuvr_runtime::identity_store::{KeyOwner, load_or_create};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::support::machines::{HOST, Machines, THIRD, on};
use crate::support::pairing::pair;
use crate::support::{Folder, Program, eventually};

/// A small test pattern.
const PATTERN: [&str; 7] = [
    "host", "--source", "pattern", "--size", "320x200", "--fps", "10",
];

/// Starts a host with its own keys in a network namespace.
fn host(machine: &str, dir: &str, name: &str, args: &[&str]) -> Program {
    let own = ["--config-dir", dir, "--name", name, "--realtime", "off"];
    let args = [&PATTERN[..], &own, args].concat();
    let host = Program::start(name, on(machine, &[], Path::new("/"), None, &args));
    host.line("streaming");
    host
}

fn client(machine: &str, dir: &str, args: &[&str]) -> Command {
    let own = ["client", "--config", "/dev/null", "--config-dir", dir];
    let more = ["--present", "null", "--realtime", "off", "--name", "lap"];
    let own = [&own[..], &more, args].concat();
    on(machine, &[], Path::new("/"), None, &own)
}

/// Waits until the output of `openuvr hosts` contains all `parts`.
fn wait_for_hosts(machine: &str, dir: &str, parts: &[&str]) -> String {
    let args = ["hosts", "--config-dir", dir];
    eventually(&format!("hosts {parts:?}"), || {
        let out = on(machine, &[], Path::new("/"), None, &args).output();
        let text = String::from_utf8(out.expect("it runs").stdout).expect("text");
        parts.iter().all(|part| text.contains(part)).then_some(text)
    })
}

/// Starts a client, and starts it again if it ends without printing `part`: on a busy machine, the answers to its search
/// for hosts may come too late.
fn finds(start: impl Fn() -> Program, part: &str) -> Program {
    eventually(part, || {
        let mut client = start();
        eventually("the end of a search", || {
            let over = client.has_ended();
            if over {
                // Waits for all output.
                client.wait();
            }
            (over || client.count(part) > 0).then_some(())
        });
        (client.count(part) > 0).then_some(client)
    })
}

fn row<'a>(text: &'a str, name: &str) -> &'a str {
    let mut rows = text.lines();
    rows.find(|row| row.split_whitespace().nth(1) == Some(name))
        .unwrap_or_else(|| panic!("no {name}: {text}"))
}

#[test]
fn two_hosts_and_a_client_find_each_other() {
    let Some(machines) = Machines::on_a_bridge() else {
        return;
    };
    let folder = Folder::new();
    let (here, third) = (&machines.client, machines.third.as_deref().unwrap());
    let dirs = ["desk", "attic", "cellar", "lap", "stranger"].map(|name| folder.join(name));
    let [desk_dir, attic_dir, cellar_dir, lap, stranger] = &dirs;
    let mut desk = host(&machines.host, desk_dir, "desk", &["--pin", "135790"]);
    let _attic = host(third, attic_dir, "attic", &[]);
    let hidden = ["--discoverable=false", "--bind", "[::]:4711"];
    let _cellar = host(third, cellar_dir, "cellar", &hidden);

    let text = wait_for_hosts(here, lap, &["desk", "attic"]);
    let fingerprint = |dir: &str| {
        let key = load_or_create(Path::new(dir), KeyOwner::Host).expect("its key");
        key.public().fingerprint()
    };
    for (name, address, dir) in [("desk", HOST, desk_dir), ("attic", THIRD, attic_dir)] {
        let row = row(&text, name);
        assert!(row.contains(&format!("{address}:4710")), "{text}");
        assert!(row.contains(&fingerprint(dir)), "{text}");
        assert!(row.ends_with("new; pairing is open"), "{text}");
    }
    assert!(!text.contains("cellar"), "{text}");

    // Without a terminal, the user cannot choose.
    let start = || Program::start("client", client(here, lap, &[]));
    let (status, text) = finds(start, "  2  desk").wait();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("desk") && text.contains("attic"), "{text}");
    let last = text.lines().last().unwrap();
    assert!(
        last.contains("no terminal to choose a host: specify an address"),
        "{text}"
    );

    // With a terminal, the user chooses a host.
    let chosen = client(here, lap, &["--pin", "135790"]);
    let start = || Program::at_terminal("chosen", &chosen, "2\n");
    let mut paired = finds(start, "paired with the host");
    paired.line("Number of the host: ");
    paired.line("paired with the host");
    paired.line("player at desk");
    desk.line("lap joins as player");
    paired.kill();
    wait_for_hosts(here, stranger, &["new; pairing is closed"]);
    let text = wait_for_hosts(here, lap, &["attic", "paired"]);
    assert!(row(&text, "desk").ends_with("paired"), "{text}");

    // Only one host is paired.
    let start = || Program::start("known", client(here, lap, &[]));
    let found = format!("found the paired host \"desk\" at {HOST}:4710");
    let mut known = finds(start, &found);
    known.line("connected to the host");
    known.line("player at desk");
    known.stop();

    // A host that has said goodbye is not listed any more.
    desk.stop();
    eventually("desk is gone", || {
        let text = wait_for_hosts(here, lap, &["attic"]);
        (!text.contains("desk")).then_some(())
    });
}

#[test]
fn a_forged_answer_is_refused_by_the_handshake() {
    let Some(machines) = Machines::on_a_bridge() else {
        return;
    };
    let folder = Folder::new();
    let (here, third) = (&machines.client, machines.third.clone().unwrap());
    let dirs = ["desk", "thief", "lap"].map(|name| folder.join(name));
    let [desk, thief, lap] = &dirs;
    let fingerprint = pair(desk, lap, &format!("{HOST}:4710"));
    let known = Path::new(lap).join("hosts.toml");
    let before = std::fs::read_to_string(&known).expect("the client's known hosts");

    // A host that has the name of the known host, but another key, is a new host.
    let mut fake = host(&third, thief, "desk", &["--pin", "135790"]);
    let text = wait_for_hosts(here, lap, &["desk"]);
    assert!(row(&text, "desk").contains("new; pairing"), "{text}");
    let start = || Program::start("client", client(here, lap, &[]));
    let (status, text) = finds(start, "  1  desk").wait();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(
        text.contains("no terminal to choose a host: specify an address"),
        "{text}"
    );
    fake.stop();

    // The client refuses the impostor even if it announces the public fingerprint of the known host.
    let silent = ["--pin", "135790", "--discoverable=false"];
    let _fake = host(&third, thief, "desk", &silent);
    let daemon = std::thread::spawn(move || announce(&third, &fingerprint)).join();
    let daemon = daemon.expect("it announces");
    let text = wait_for_hosts(here, lap, &["desk", "paired"]);
    assert!(text.contains(THIRD), "{text}");
    for _ in 0..2 {
        let start = || Program::start("lured", client(here, lap, &["--pin", "135790"]));
        let (status, text) = finds(start, "found the paired host").wait();
        assert_eq!(status.code(), Some(1), "{text}");
        assert!(text.contains("does not know this device"), "{text}");
        assert!(!text.contains("paired with"), "{text}");
    }
    assert_eq!(
        std::fs::read_to_string(&known).expect("the client's known hosts"),
        before
    );
    drop(daemon.shutdown());
}

/// Announces a host on a machine's network. The host has this fingerprint, and a name that contains terminal escapes.
fn announce(machine: &str, fingerprint: &str) -> ServiceDaemon {
    let space = File::open(format!("/run/netns/{machine}")).expect("the namespace");
    // Applies to this thread and the threads that it starts.
    move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).expect("as root");
    let daemon = ServiceDaemon::new().expect("a thread");
    let service = ServiceInfo::new(
        "_openuvr._udp.local.",
        "desk\u{1b}[2J\u{7}\nopenuvr",
        "thief.local.",
        THIRD,
        4710,
        &[("key", fingerprint), ("pairing", "open\u{1b}[2J")][..],
    );
    daemon.register(service.expect("sound")).expect("it runs");
    daemon
}

#[test]
fn link_local_addresses_have_their_interface() {
    let Some(machines) = Machines::on_a_bridge_with_link_local() else {
        return;
    };
    let folder = Folder::new();
    let [desk, lap] = ["desk", "lap"].map(|name| folder.join(name));
    pair(&desk, &lap, "desk:4710");
    let _host = host(&machines.host, &desk, "desk", &[]);
    wait_for_hosts(&machines.client, &lap, &["[fe80::1%cable]:4710", "paired"]);
    let start = || Program::start("known", client(&machines.client, &lap, &[]));
    let found = "found the paired host \"desk\" at [fe80::1%cable]:4710";
    let mut known = finds(start, found);
    known.line("player at desk");
    known.stop();
}

#[test]
fn no_network_is_one_error_line() {
    let Some(machines) = Machines::without_links() else {
        return;
    };
    let folder = Folder::new();
    let lap = folder.join("lap");
    let args = ["hosts", "--config-dir", &lap];
    let list = on(&machines.client, &[], Path::new("/"), None, &args);
    for command in [list, client(&machines.client, &lap, &[])] {
        let text = Program::start("alone", command).fails_in_one_line();
        assert!(
            text.contains("no network: no active interface has an address"),
            "{text}"
        );
    }
    // A host without a network reports the error in at most one line, and keeps running.
    let mut host = host(&machines.host, &folder.join("desk"), "desk", &[]);
    host.assert_running();
    host.stop();
}
