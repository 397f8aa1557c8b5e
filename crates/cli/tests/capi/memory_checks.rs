//! The example programs under valgrind's memcheck, and with the address and thread sanitizers on the program's side of
//! the API.

use std::process::Command;
use std::time::Duration;

use crate::build::{command, crates, program};
use crate::listings::{
    GL, SIZE, fifo, is_hub_at, move_from_corner, start_host, stop_by_stdin, wait_for_turn,
};
use crate::support::{
    Display, Folder, PIN, Program, ScreenCapture, client, eventually, port_of, skip,
};

/// A command that exits with a different code if valgrind finds an error or a leak.
fn under_valgrind(inner: Command, log: &str) -> Option<Command> {
    let there = Command::new("valgrind").arg("--version").output();
    if !there.is_ok_and(|out| out.status.success()) {
        skip("valgrind is not installed: apt-get install valgrind");
        return None;
    }
    let mut outer = Command::new("valgrind");
    let suppressions = crates().join("capi/tests/valgrind.supp");
    outer
        .args(["--quiet", "--error-exitcode=99", "--leak-check=full"])
        .args([
            "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite",
        ])
        .args(["--keep-debuginfo=yes", "--gen-suppressions=all"])
        .arg(format!("--log-file={log}"))
        .arg(format!("--suppressions={}", suppressions.display()))
        .arg(inner.get_program())
        .args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    Some(outer)
}

/// Waits for the program's end. If the tool has found an error, shows its report.
fn ends_clean(mut program: Program, log: &str) {
    program.close_stdin();
    let (status, text) = program.wait();
    let found = std::fs::read_to_string(log).unwrap_or_default();
    assert!(status.success(), "{status}: {text}\n{found}");
}

#[test]
fn the_host_that_draws_is_clean_under_valgrind() {
    let folder = Folder::new();
    let log = folder.join("memcheck");
    let (Some(own), Some(display)) = (Display::start("640x368"), Display::start("640x368")) else {
        return;
    };
    let mut inner = command(&program(&folder, "examples/host.c", &GL), &folder);
    inner.args(["0", PIN[1]]).env("DISPLAY", &own.name);
    let Some(outer) = under_valgrind(inner, &log) else {
        return;
    };
    let host = Program::with_stdin("host", outer);
    let port = port_of(&host.line("MUDs reach this host by"));
    let address = format!("127.0.0.1:{port}");
    let args = ["--display", &display.name];
    let client = client(&folder, "guest", &address, &[&PIN[..], &args].concat());
    client.line("showing 640x368");
    wait_for_turn(&ScreenCapture::open(&display));
    drop(client);
    ends_clean(host, &log);
}

#[test]
fn the_mud_is_clean_under_valgrind() {
    let folder = Folder::new();
    let log = folder.join("memcheck");
    let (Some(host), Some(display)) = (start_host(&folder, &[], &[]), Display::start("640x368"))
    else {
        return;
    };
    let path = folder.path().join("mouse");
    let mut mouse = fifo(&path);
    let mut inner = command(&program(&folder, "examples/mud.c", &[]), &folder);
    inner
        .args([&format!("127.0.0.1:{}", host.port), PIN[1]])
        .arg(&path)
        .env("DISPLAY", &display.name);
    let Some(outer) = under_valgrind(inner, &log) else {
        return;
    };
    let mud = Program::with_stdin("mud", outer);
    mud.line("showing 640x368");
    let capture = ScreenCapture::open(&display);
    wait_for_turn(&capture);
    // Under valgrind, the MUD is so slow that it may lose its session. Its input is then lost, too, so the test repeats
    // the input.
    eventually("the hub moves", || {
        move_from_corner(&mut mouse, 200, -28);
        std::thread::sleep(Duration::from_secs(1));
        is_hub_at(&capture, (200, 340), (320, 150)).then_some(())
    });
    ends_clean(mud, &log);
    stop_by_stdin(host.program);
}

#[test]
fn the_listings_are_clean_under_the_sanitizers() {
    for sanitizer in ["-fsanitize=address,undefined", "-fsanitize=thread"] {
        let folder = Folder::new();
        let Some(display) = Display::start("640x368") else {
            return;
        };
        let checked = ["-fno-sanitize-recover=all", sanitizer];
        let Some(host) = start_host(&folder, &[], &checked) else {
            return;
        };
        let more = folder.path().join("keys");
        std::fs::create_dir(&more).unwrap();
        let mut mud = command(&program(&folder, "examples/mud.c", &checked), &folder);
        mud.args([&format!("127.0.0.1:{}", host.port), PIN[1]])
            .env("XDG_CONFIG_HOME", &more)
            .env("DISPLAY", &display.name);
        let mud = Program::with_stdin("mud", mud);
        mud.line("showing 640x368");
        let capture = ScreenCapture::open(&display);
        assert_eq!(capture.region(SIZE).size, SIZE);
        wait_for_turn(&capture);
        stop_by_stdin(mud);
        stop_by_stdin(host.program);
    }
}
