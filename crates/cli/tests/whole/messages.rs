//! Messages that cannot be written do not end a program: on a full disk (full(4)), and after their reader has exited.

use std::fs::{File, read_to_string};
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::{Folder, Host, PIN, Program, client, eventually, openuvr};

const PATTERN: [&str; 6] = ["--source", "pattern", "--size", "320x200", "--fps", "30"];

/// Outputs that cannot be written to.
fn broken_outputs() -> [(&'static str, Stdio); 2] {
    let full = File::options().write(true).open("/dev/full");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    [
        ("a full disk", full.expect("Linux has it").into()),
        ("no reader", writer.into()),
    ]
}

/// Waits until a CSV has this many more rows of complete frames.
fn wait_for_frames(csv: &str, more: usize) {
    let complete = || {
        let text = read_to_string(csv).unwrap_or_default();
        text.lines()
            .filter(|row| row.contains(",complete,"))
            .count()
    };
    let before = complete();
    eventually("further frames", || {
        (complete() >= before + more).then_some(())
    });
}

fn assert_success(program: &mut Program, what: &str) {
    program.assert_running();
    program.signal(Signal::INT);
    let (status, _) = program.wait();
    assert_eq!(status.code(), Some(0), "{what}");
}

#[test]
fn a_host_with_lost_messages_keeps_streaming() {
    for (what, error) in broken_outputs() {
        let folder = Folder::new();
        let free = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address").to_string();
        drop(free);
        let (dir, csv) = (folder.join("host"), folder.join("host.csv"));
        let own = [
            "host",
            "--config-dir",
            &dir,
            "--bind",
            &address,
            "--csv",
            &csv,
        ];
        let args = [
            &own[..],
            &PATTERN,
            &PIN,
            &["--realtime", "off", "--log", "trace"],
        ]
        .concat();
        let mut host = Program::with_stderr("host", openuvr(&args), error);
        let blind = [&["--present", "null"], &PIN[..]].concat();
        let mut desk = client(&folder, "desk", &address, &blind);
        desk.line("player at");
        wait_for_frames(&csv, 30);
        // The host prints a message for each client that joins or leaves.
        desk.stop();
        for _ in 0..3 {
            let mut desk = client(&folder, "desk", &address, &["--present", "null"]);
            desk.line("player at");
            desk.stop();
        }
        let _desk = client(&folder, "desk", &address, &["--present", "null"]);
        wait_for_frames(&csv, 30);
        assert_success(&mut host, what);
    }
}

#[test]
fn a_client_with_lost_messages_keeps_playing() {
    for (what, error) in broken_outputs() {
        let host = Host::start(&[&PIN[..], &PATTERN].concat());
        let (dir, csv) = (host.folder.join("desk"), host.folder.join("desk.csv"));
        let address = host.address();
        let own = ["client", &address, "--config-dir", &dir, "--csv", &csv];
        let more = ["--present", "null", "--realtime", "off", "--log", "trace"];
        let args = [&own[..], &PIN, &more].concat();
        let mut desk = Program::with_stderr("client", openuvr(&args), error);
        wait_for_frames(&csv, 30);
        assert_success(&mut desk, what);
    }
}

#[test]
fn unread_errors_still_set_the_exit_code() {
    let folder = Folder::new();
    let dir = folder.join("host");
    let forbid_unknown = ["devices", "--config-dir", &dir, "forbid", "missing"];
    let wrong = ["host", "--fps", "0"];
    let unknown = ["host", "--no-such-option"];
    for (args, code) in [(&forbid_unknown[..], 1), (&wrong, 2), (&unknown, 2)] {
        for (what, error) in broken_outputs() {
            let mut program = Program::with_stderr("it", openuvr(args), error);
            let (status, _) = program.wait();
            assert_eq!(status.code(), Some(code), "{args:?}: {what}");
        }
    }
}

#[test]
fn unwritable_output_is_an_error() {
    let folder = Folder::new();
    let dir = folder.join("host");
    let list = ["devices", "--config-dir", &dir, "list"];
    let print = ["host", "--config-dir", &dir, "--print-config"];
    for args in [
        &["--help"][..],
        &["--version"],
        &["host", "-h"],
        &list,
        &print,
    ] {
        for broken_too in [false, true] {
            let [(_, full), _] = broken_outputs();
            let [(_, error), _] = broken_outputs();
            let mut command = openuvr(args);
            command.stdout(full);
            if broken_too {
                command.stderr(error);
            }
            let out = command.output().expect("it runs");
            assert_eq!(out.status.code(), Some(1), "{args:?}");
            let printed = String::from_utf8_lossy(&out.stderr);
            if !broken_too {
                assert!(
                    printed.contains("can't write to standard output: No space"),
                    "{printed}"
                );
                assert_eq!(printed.lines().count(), 1, "{printed}");
            }
        }
    }
}

#[test]
fn a_record_that_could_not_be_written_is_an_error() {
    let folder = Folder::new();
    // A FIFO without a reader is an unwritable file.
    let pipes = ["host", "client"].map(|name| {
        let path = folder.join(&format!("{name}.csv"));
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo is there").success());
        let both = File::options().read(true).write(true).open(&path);
        (path, both.expect("the test's FIFO"))
    });
    let [(host_csv, host_end), (client_csv, client_end)] = pipes;
    let mut host = Host::start(&[&PIN[..], &PATTERN, &["--csv", &host_csv]].concat());
    let more = [&["--csv", &client_csv][..], &PIN].concat();
    let mut desk = host.headless_client("desk", &more);
    desk.line("showing");
    drop((host_end, client_end));
    for program in [&mut desk, &mut host.program] {
        program.line("can't write to");
        program.assert_running();
        program.signal(Signal::INT);
        let (status, text) = program.wait();
        assert_eq!(status.code(), Some(1), "{text}");
        let last = text.lines().last().unwrap_or_default();
        assert!(last.starts_with("openuvr: can't write to "), "{text}");
    }
}
