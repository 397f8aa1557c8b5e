//! Two machines, as near as one machine can come: each with a network of its own, the client with
//! a clock of its own, and the two commands that the README names.

use std::path::Path;
use std::process::Command;

use crate::support::{Display, Eye, Folder, Program, scene, skip};

/// Two network namespaces and the cable between them; gone when dropped.
struct Machines {
    host: String,
    client: String,
    /// Where there is one between them.
    between: Option<String>,
}

/// Where the host is, from the client's side of the cable. Nobody else is in its namespace, so
/// that tests can run side by side.
const HOST: &str = "10.77.0.1";
const CLIENT: &str = "10.77.0.2";

impl Machines {
    /// `None`, said aloud, without the privilege or the tools.
    fn new() -> Option<Machines> {
        let id = std::process::id();
        let machines = Machines {
            host: format!("ouvr-h{id}"),
            client: format!("ouvr-c{id}"),
            between: None,
        };
        let (h, c) = (&machines.host, &machines.client);
        let cable = format!("-n {h} link add cable type veth peer name cable netns {c}");
        machines.connect(vec![cable])
    }

    /// The same with a third machine between them, where the cables end as `to-client` and
    /// `to-host`.
    fn with_one_between() -> Option<Machines> {
        let id = std::process::id();
        let b = format!("ouvr-b{id}");
        let machines = Machines {
            host: format!("ouvr-hb{id}"),
            client: format!("ouvr-cb{id}"),
            between: Some(b.clone()),
        };
        let (h, c) = (&machines.host, &machines.client);
        let cables = vec![
            format!("-n {b} link add to-client type veth peer name cable netns {c}"),
            format!("-n {b} link add to-host type veth peer name cable netns {h}"),
            format!("-n {b} link set dev to-client up"),
            format!("-n {b} link set dev to-host up"),
        ];
        machines.connect(cables)
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        [&self.host, &self.client].into_iter().chain(&self.between)
    }

    fn connect(self, cables: Vec<String>) -> Option<Machines> {
        if !rustix::process::geteuid().is_root() {
            skip("network namespaces need root");
            return None;
        }
        let (h, c) = (&self.host, &self.client);
        let add = self.names().map(|name| format!("netns add {name}"));
        let up = [
            format!("-n {h} address add {HOST}/24 dev cable"),
            format!("-n {c} address add {CLIENT}/24 dev cable"),
            format!("-n {h} link set cable up"),
            format!("-n {c} link set cable up"),
        ];
        for line in add.chain(cables).chain(up) {
            let out = Command::new("ip").args(line.split_whitespace()).output();
            match out {
                Ok(out) if out.status.success() => {}
                Ok(out) => {
                    let error = String::from_utf8_lossy(&out.stderr);
                    skip(&format!("no network namespaces here: ip {line}: {error}"));
                    return None;
                }
                Err(error) => {
                    skip(&format!("ip (iproute2) does not run: {error}"));
                    return None;
                }
            }
        }
        Some(self)
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in self.names() {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// `openuvr` with these words, in a namespace, as somebody with this home.
fn on(machine: &str, before: &[&str], home: &Path, display: &Display, words: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", machine])
        .args(before)
        .arg(env!("CARGO_BIN_EXE_openuvr"))
        .args(words)
        .env("HOME", home)
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("WAYLAND_DISPLAY")
        .env("DISPLAY", &display.name);
    command
}

/// The client's clock says a hundred days more: figures that mix the clocks of both would be off
/// by that.
const AHEAD_S: i64 = 8_640_000;
const OTHER_CLOCK: [&str; 5] = [
    "unshare",
    "--time",
    "--monotonic=8640000",
    "--fork",
    "--kill-child",
];

#[test]
fn the_two_commands_of_the_readme_connect_two_machines() {
    let (Some(here), Some(there)) = (Display::start("640x360"), Display::start("640x360")) else {
        return;
    };
    let Some(machines) = Machines::new() else {
        return;
    };
    let _scene = scene(&here, "640x360", "20");
    let folder = Folder::new();
    let (host_home, client_home) = (folder.path().join("h"), folder.path().join("c"));
    for home in [&host_home, &client_home] {
        std::fs::create_dir_all(home).unwrap();
    }

    let host = |more: &[&str]| {
        let words = [&["host"], more].concat();
        let command = on(&machines.host, &[], &host_home, &here, &words);
        Program::start("host", command)
    };
    let client = |more: &[&str]| {
        let words = [&["client", HOST], more].concat();
        let command = on(&machines.client, &OTHER_CLOCK, &client_home, &there, &words);
        Program::start("client", command)
    };

    let mut first = host(&[]);
    let line = first.line("with the PIN");
    let pin = line.split_whitespace().last().unwrap();
    let mut paired = client(&["--pin", pin]);
    paired.line("paired with the host");
    first.line("joins as player");
    Eye::open(&there).more_frames(15);
    paired.stop_child();
    first.line("is gone: it said goodbye");
    first.stop();

    // From now on they know each other.
    let csv = folder.join("host.csv");
    let mut second = host(&["--csv", &csv, "--table", "on"]);
    second.line("streaming");
    let mut known = client(&[]);
    known.line("connected to the host");
    Eye::open(&there).more_frames(15);
    known.stop_child();
    let text = second.stop();
    assert!(
        !text.contains("PIN"),
        "a host that knows a device opens no pairing: {text}"
    );
    assert_one_way_is_true(&text, &std::fs::read_to_string(csv).unwrap());
}

#[test]
fn a_stream_crosses_a_bridge_that_loses_and_delays() {
    let (Some(here), Some(there)) = (Display::start("640x360"), Display::start("640x360")) else {
        return;
    };
    let Some(machines) = Machines::with_one_between() else {
        return;
    };
    let between = machines.between.as_deref().unwrap();
    let _scene = scene(&here, "640x360", "20");
    let folder = Folder::new();
    let at_home = |machine: &str, display: &Display, words: &[&str]| {
        let home = folder.path().join(machine);
        std::fs::create_dir_all(&home).unwrap();
        on(machine, &[], &home, display, words)
    };
    let words = [
        "lab",
        "hop",
        "--bridge",
        "to-client,to-host",
        "--delay",
        "3ms",
        // A busy machine makes it late, but what it does stays what it is.
        "--down",
        "loss=2%",
        "--punctual",
        "100s",
    ];
    let mut hop = Program::start("hop", at_home(between, &here, &words));
    hop.line("bridging to-client and to-host");
    let csv = folder.join("host.csv");
    let words = ["host", "--pin", "123456", "--csv", &csv];
    let mut host = Program::start("host", at_home(&machines.host, &here, &words));
    host.line("streaming");
    let words = ["client", HOST, "--pin", "123456"];
    let mut client = Program::start("client", at_home(&machines.client, &there, &words));
    client.line("showing 640x360");
    Eye::open(&there).more_frames(25);
    client.stop();
    host.stop();
    let report = hop.stop();
    assert!(report.contains("down: 0s delay=3ms loss=0.02"), "{report}");
    assert!(report.contains("this run is valid"), "{report}");
    let ways: Vec<[u64; 3]> = report
        .lines()
        .filter(|line| line.contains(" sent, "))
        .map(|line| {
            let number = |name: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let at = words
                    .iter()
                    .position(|word| word.starts_with(name))
                    .unwrap();
                words[at - 1].parse().unwrap()
            };
            ["sent", "delivered", "lost"].map(number)
        })
        .collect();
    let [[up, all, none], [down, most, lost]] = ways[..] else {
        panic!("two ways: {report}");
    };
    assert!(up > 10 && all <= up && none == 0, "{report}");
    assert!(down > 100 && lost > 0 && most + lost <= down, "{report}");
    assert!(report.contains("0 frames unreadable, 0 unsent"), "{report}");
}

/// The table's longest way over the link is the true one within the bound that is printed: this
/// test knows by how much the clocks differ, which the program had to find out.
fn assert_one_way_is_true(table: &str, csv: &str) {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("a header");
    let column = |name| names.iter().position(|n| *n == name).expect("a column");
    let (sent, received) = (column("FirstSent"), column("FirstReceived"));
    let first_slice = column("FirstSlice");
    let (outcome, bound) = (column("outcome"), column("clock_bound"));
    let (mut longest, mut widest) = (0, 0);
    let number = |text: &str| text.parse::<i64>().expect("nanoseconds");
    let whole: Vec<_> = lines.filter(|line| line[outcome] == "whole").collect();
    assert!(whole.len() >= 10, "{} frames are whole", whole.len());
    for line in whole {
        let arrived = number(line[received]) - AHEAD_S * 1_000_000_000;
        assert!(
            arrived > number(line[first_slice]),
            "it arrived before it was there"
        );
        // The host looks at its clock when the system call is over, and may have to wait for a
        // processor between: the datagram may be there by then.
        let way = arrived - number(line[sent]);
        longest = way.max(longest);
        widest = number(line[bound]).max(widest);
    }
    let row = table
        .lines()
        .find(|line| line.starts_with("FirstSent→FirstReceived"))
        .expect("the table has the way over the link");
    let words: Vec<&str> = row.split_whitespace().collect();
    let [.., told, bound] = words[..] else {
        panic!("no figures in {row:?}");
    };
    assert!(bound.starts_with('±'), "{row}");
    let (told, longest) = (told.parse::<f64>().expect("ms"), longest as f64 / 1e6);
    // Three figures are printed.
    let allowed = widest as f64 / 1e6 + longest * 0.02 + 0.02;
    assert!(
        (told - longest).abs() <= allowed,
        "{told} ms is told, {longest:.3} ms is true, the bound is {allowed:.3} ms: {row}"
    );
}
