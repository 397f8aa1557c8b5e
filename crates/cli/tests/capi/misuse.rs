//! Misuse of the API, and special cases: a killed application, several hosts in one process, changes of contexts and
//! windows.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use crate::build::{command, program};
use crate::listings::{GL, start_host, wait_for_turn};
use crate::support::stalls::measured_without_stalls;
use crate::support::{Display, Folder, PIN, Program, ScreenCapture, client};

#[test]
fn every_mistake_returns_its_error() {
    let folder = Folder::new();
    let program = program(&folder, "tests/misuse.c", &["-pthread"]);
    let mut run = Program::start("misuse", command(&program, &folder));
    let (status, text) = run.wait();
    assert!(status.success(), "{status}: {text}");
}

/// The client reports that the host is silent.
#[test]
fn a_client_reports_a_killed_application() {
    let folder = Folder::new();
    let (Some(mut host), Some(display)) =
        (start_host(&folder, &[], &[]), Display::start("640x368"))
    else {
        return;
    };
    let address = format!("127.0.0.1:{}", host.port);
    let args = ["--display", &display.name, "--reconnect=false"];
    let mut client = client(&folder, "guest", &address, &[&PIN[..], &args].concat());
    client.line("showing 640x368");
    wait_for_turn(&ScreenCapture::open(&display));
    host.program.kill();
    let (_, text) = client.wait();
    assert!(
        text.contains("no data from the host") || text.contains("no answer"),
        "{text}"
    );
}

/// The hosts and the MUDs (clients) exchange pictures, input and poses, both by polling and by callback. The thread
/// sanitizer covers the program and the data that it shares with the library's threads.
#[test]
fn two_hosts_and_their_muds_in_one_process() {
    for more in [&[][..], &["-fsanitize=thread"], &["-fsanitize=address"]] {
        let folder = Folder::new();
        let program = program(&folder, "tests/both.c", more);
        let mut command = command(&program, &folder);
        command.arg(folder.path());
        let mut run = Program::start("both", command);
        let (status, text) = run.wait();
        assert!(status.success(), "{more:?}: {status}: {text}");
    }
}

#[test]
fn submitted_sound_arrives_unchanged() {
    // A stall leaves gaps in the sound.
    measured_without_stalls(3, Duration::from_millis(100), || {
        let folder = Folder::new();
        let program = program(&folder, "tests/sound.c", &["-lm"]);
        let mut command = command(&program, &folder);
        command.arg(folder.path());
        let (status, text) = Program::start("sound", command).wait();
        match status.success() {
            true => Ok(()),
            false => Err(format!("{status}: {text}")),
        }
    });
}

#[test]
fn callbacks_match_the_header() {
    let folder = Folder::new();
    let program = program(&folder, "tests/callbacks.c", &["-pthread"]);
    let mut command = command(&program, &folder);
    command.arg(folder.path());
    let mut run = Program::start("callbacks", command);
    let (status, text) = run.wait();
    assert!(status.success(), "{status}: {text}");
}

/// A callback that throws an exception or ends its thread ends the whole process. Otherwise, the stream would stall.
#[test]
fn a_callback_that_does_not_return_ends_the_process() {
    for how in ["throw", "exit"] {
        let folder = Folder::new();
        let program = program(&folder, "tests/leaves.cpp", &["-pthread"]);
        let mut command = command(&program, &folder);
        command.arg(folder.path()).arg(how);
        let mut run = Program::start("leaves", command);
        let (status, text) = run.wait();
        assert_eq!(
            status.signal(),
            Some(libc::SIGABRT),
            "{how}: {status}: {text}"
        );
    }
}

/// Each call that drops a picture returns the reason.
#[test]
fn dropped_pictures_have_a_reason() {
    on_a_display("tests/silence.c", &[&GL[..], &["-pthread"]].concat());
}

#[test]
fn a_renderer_restarts_at_the_same_port() {
    on_a_display("tests/renderer.c", &[&GL[..], &["-pthread"]].concat());
}

/// After a change of the video mode, an application has another OpenGL context. Input follows a window that has moved.
#[test]
fn contexts_and_windows_may_change_while_streaming() {
    for (source, more) in [
        ("tests/buffer.c", &[&GL[..], &["-pthread"]].concat()[..]),
        ("tests/pointer.c", &["-lX11"]),
    ] {
        on_a_display(source, more);
    }
}

/// Compiles a program with `more`, and runs it on a display to its end.
fn on_a_display(source: &str, more: &[&str]) {
    let folder = Folder::new();
    let Some(display) = Display::start("640x368") else {
        return;
    };
    let program = program(&folder, source, more);
    let mut command = command(&program, &folder);
    command.arg(folder.path()).env("DISPLAY", &display.name);
    let mut run = Program::start(source, command);
    let (status, text) = run.wait();
    assert!(status.success(), "{status}: {text}");
}
