//! Real-time scheduling, cores and memory of a host, and the messages if the privileges are missing.

use std::process::Command;

use crate::support::{Folder, Program, openuvr, skip};

const ARGS: [&str; 8] = [
    "host",
    "--source",
    "pattern",
    "--encoder",
    "null",
    "--bind",
    "127.0.0.1:0",
    "--config-dir",
];

fn start(folder: &Folder, before: &[&str], args: &[&str]) -> Program {
    let dir = folder.join("host");
    let own = openuvr(&[&ARGS[..], &[&dir], args].concat());
    let command = match before {
        [] => own,
        [wrapper, rest @ ..] => {
            let mut command = Command::new(wrapper);
            command
                .args(rest)
                .arg(own.get_program())
                .args(own.get_args());
            command
        }
    };
    let program = Program::start("host", command);
    program.line("openuvr host: streaming");
    program
}

/// A field of a process (`status`) or one of its threads (`task/ID/status`) in `/proc`.
fn field(id: u32, file: &str, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{id}/{file}")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.expect("a line of the kernel").trim().to_owned()
}

#[test]
fn missing_privileges_are_reported_in_one_line() {
    if !rustix::process::geteuid().is_root() {
        skip("dropping privileges needs root");
        return;
    }
    let folder = Folder::new();
    let unprivileged = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"];
    let limits = ["prlimit", "--rtprio=0", "--memlock=65536"];
    let before = [&unprivileged[..], &limits].concat();
    let mut host = start(&folder, &before, &["--pin-cores", "8000"]);
    let text = host.stop();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("expect latency peaks"))
        .collect();
    assert_eq!(lines.len(), 1, "{text}");
    for part in [
        "real-time",
        "the limit memlock is 64 KiB",
        "core 8000",
        "openuvr doctor",
    ] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
}

#[test]
fn privileges_lock_its_memory_and_place_its_threads() {
    if !rustix::process::geteuid().is_root() {
        skip("locking memory needs root");
        return;
    }
    let folder = Folder::new();
    let mut host = start(&folder, &[], &["--pin-cores", "0"]);
    if host.count("expect latency peaks") > 0 {
        skip(&format!("not permitted here: {}", host.text()));
        return;
    }
    assert_ne!(field(host.id(), "status", "VmLck:"), "0 kB");
    let tasks = std::fs::read_dir(format!("/proc/{}/task", host.id())).expect("it runs");
    let mut pinned = 0;
    for task in tasks {
        let id = task
            .expect("it runs")
            .file_name()
            .into_string()
            .expect("a number");
        let name = field(host.id(), &format!("task/{id}/status"), "Name:");
        if ["ouvr-media", "ouvr-control"].contains(&name.as_str()) {
            let cores = field(
                host.id(),
                &format!("task/{id}/status"),
                "Cpus_allowed_list:",
            );
            assert_eq!(cores, "0", "{name}");
            pinned += 1;
        }
    }
    assert_eq!(pinned, 2);
    host.stop();

    let mut ordinary = start(&folder, &[], &["--realtime", "off"]);
    assert_eq!(field(ordinary.id(), "status", "VmLck:"), "0 kB");
    ordinary.stop();
}
