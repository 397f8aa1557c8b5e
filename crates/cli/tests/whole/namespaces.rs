//! Two emulated machines with separate networks run the two commands of the README. The client's machine has a
//! different clock.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::thread::JoinHandle;

use openuvr_testbed::bridge::{self, Bridge, Report};
use openuvr_testbed::hop::Stopper;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::support::machines::{HOST, Machines, on};
use crate::support::{Display, Folder, Program, Quality, ScreenCapture, eventually, scene};

/// The client's clock is a hundred days ahead. A statistic that mixed both clocks would be off by a hundred days.
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
    let Some(machines) = Machines::with_ip() else {
        return;
    };
    let _scene = scene(&here, "640x360", "20");
    let folder = Folder::new();
    let (host_home, client_home) = (folder.path().join("h"), folder.path().join("c"));
    for home in [&host_home, &client_home] {
        std::fs::create_dir_all(home).unwrap();
    }

    let host = |more: &[&str]| {
        let args = [&["host"], more].concat();
        let command = on(&machines.host, &[], &host_home, Some(&here), &args);
        Program::start("host", command)
    };
    let client = |more: &[&str]| {
        let args = [&["client", HOST], more].concat();
        let command = on(
            &machines.client,
            &OTHER_CLOCK,
            &client_home,
            Some(&there),
            &args,
        );
        Program::start("client", command)
    };

    let mut first = host(&[]);
    let line = first.line("with the PIN");
    let pin = line.split_whitespace().last().unwrap();
    let mut paired = client(&["--pin", pin]);
    paired.line("paired with the host");
    first.line("joins as player");
    ScreenCapture::open(&there).more_frames(15);
    paired.stop_child();
    first.line("left: it disconnected");
    first.stop();

    // From now on, host and client are paired.
    let csv = folder.join("host.csv");
    let mut second = host(&["--csv", &csv, "--table", "on"]);
    second.line("streaming");
    let mut known = client(&[]);
    known.line("connected to the host");
    ScreenCapture::open(&there).more_frames(15);
    // A client that stalls skips frames.
    eventually("ten frames with a latency", || {
        let csv = std::fs::read_to_string(&csv).unwrap_or_default();
        (with_latency(&csv).len() >= 10).then_some(())
    });
    known.stop_child();
    let text = second.stop();
    assert!(
        !text.contains("PIN"),
        "a host with a paired device opens no pairing: {text}"
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
    let at_home = |machine: &str, display: &Display, args: &[&str]| {
        let home = folder.path().join(machine);
        std::fs::create_dir_all(&home).unwrap();
        on(machine, &[], &home, Some(display), args)
    };
    let bridge = RunningBridge::start(
        between,
        Quality {
            up: "delay=3ms",
            down: "delay=3ms loss=2%",
            seed: 1,
        },
    );
    let csv = folder.join("host.csv");
    let args = ["host", "--pin", "123456", "--csv", &csv];
    let mut host = Program::start("host", at_home(&machines.host, &here, &args));
    host.line("streaming");
    let args = ["client", HOST, "--pin", "123456"];
    let mut client = Program::start("client", at_home(&machines.client, &there, &args));
    client.line("showing 640x360");
    ScreenCapture::open(&there).more_frames(25);
    // Each frame consists of at least one datagram, at any bitrate.
    eventually("100 complete frames", || {
        let csv = std::fs::read_to_string(&csv).unwrap_or_default();
        (csv.matches(",complete,").count() >= 100).then_some(())
    });
    client.stop();
    host.stop();
    let Report {
        up,
        down,
        unreadable,
        unsent,
        ..
    } = bridge.end();
    assert!(
        up.sent > 10 && up.delivered <= up.sent && up.lost == 0,
        "{up}"
    );
    assert!(down.sent >= 100 && down.lost > 0, "{down}");
    assert!(down.delivered + down.lost <= down.sent, "{down}");
    assert_eq!((unreadable, unsent), (0, 0));
}

/// A bridge between the interfaces `to-client` and `to-host` of a machine, in a thread of the test.
struct RunningBridge {
    stopper: Stopper,
    thread: JoinHandle<Report>,
}

impl RunningBridge {
    fn start(machine: &str, quality: Quality<'_>) -> RunningBridge {
        let namespace = File::open(format!("/run/netns/{machine}")).expect("its namespace");
        let [up, down] = quality.schedules();
        let (ready, opened) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::spawn(move || {
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), network).expect("its network");
            let bridge = Bridge::open(bridge::Config {
                client_side: "to-client".into(),
                host_side: "to-host".into(),
                up,
                down,
                seed: quality.seed,
            })
            .expect("a bridge");
            ready.send(bridge.stopper()).expect("the test waits");
            bridge.run().expect("a run")
        });
        let stopper = opened.recv().expect("a bridge");
        RunningBridge { stopper, thread }
    }

    fn end(self) -> Report {
        self.stopper.stop();
        self.thread.join().expect("its report")
    }
}

/// The fields of the complete frames with a one-way latency. The first frames may arrive before the clocks are
/// synchronised; they have none.
fn with_latency(csv: &str) -> Vec<Vec<&str>> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap_or_default();
    let column = |name| names.iter().position(|n| *n == name);
    let (Some(outcome), Some(bound)) = (column("outcome"), column("clock_error_bound_ns")) else {
        return Vec::new();
    };
    // The last line may be incomplete.
    let has_latency = |line: &Vec<&str>| {
        let bound = line.get(bound).is_some_and(|bound| !bound.is_empty());
        bound && line[outcome] == "complete"
    };
    lines.filter(has_latency).collect()
}

/// Checks the table's maximum one-way latency against the true one, within the printed bound. This test knows the exact
/// clock offset; the program had to estimate it.
fn assert_one_way_is_true(table: &str, csv: &str) {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("a header");
    let column = |name| names.iter().position(|n| *n == name).expect("a column");
    let (sent, received) = (column("FirstSent_ns"), column("FirstReceived_ns"));
    let first_slice = column("FirstSlice_ns");
    let bound = column("clock_error_bound_ns");
    let converted = column("FirstReceived_host_clock_ns");
    let (mut longest, mut widest) = (0, 0);
    let number = |text: &str| text.parse::<i64>().expect("nanoseconds");
    let complete = with_latency(csv);
    assert!(complete.len() >= 10, "{} complete frames", complete.len());
    for line in complete {
        let arrived = number(line[received]) - AHEAD_S * 1_000_000_000;
        assert!(
            arrived > number(line[first_slice]),
            "arrival before the send time"
        );
        // The host takes its timestamp after the system call, possibly after a scheduling delay, so the datagram may
        // already have arrived.
        let way = arrived - number(line[sent]);
        longest = way.max(longest);
        widest = number(line[bound]).max(widest);
        assert!(
            number(line[converted]).abs_diff(arrived) <= number(line[bound]).unsigned_abs(),
            "outside its error bound"
        );
    }
    let row = table
        .lines()
        .find(|line| line.starts_with("FirstSent→FirstReceived"))
        .expect("the table has the way over the link");
    let words: Vec<&str> = row.split_whitespace().collect();
    let [.., printed, bound] = words[..] else {
        panic!("no numbers in {row:?}");
    };
    assert!(bound.starts_with('±'), "{row}");
    let (printed, longest) = (printed.parse::<f64>().expect("ms"), longest as f64 / 1e6);
    // The table prints three digits, so the value may be rounded.
    let allowed = widest as f64 / 1e6 + longest * 0.02 + 0.02;
    assert!(
        (printed - longest).abs() <= allowed,
        "{printed} ms printed, {longest:.3} ms true, bound {allowed:.3} ms: {row}"
    );
}
