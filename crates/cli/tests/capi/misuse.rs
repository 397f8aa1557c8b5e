//! What a program may do wrong, and how it may end.

use std::os::unix::process::ExitStatusExt as _;

use crate::build::{command, program};
use crate::listings::{GL, host_of, turns};
use crate::support::{Display, Eye, Folder, PIN, Program, client};

#[test]
fn every_mistake_returns_its_error() {
    let folder = Folder::new();
    let program = program(&folder, "tests/misuse.c", &["-pthread"]);
    let mut run = Program::start("misuse", command(&program, &folder));
    let (status, text) = run.ended();
    assert!(status.success(), "{status}: {text}");
}

/// The client says that the host fell silent, and nothing of it is left behind but its files.
#[test]
fn a_client_tells_that_the_application_was_killed() {
    let folder = Folder::new();
    let (Some(mut host), Some(display)) = (host_of(&folder, &[], &[]), Display::start("640x368"))
    else {
        return;
    };
    let address = format!("127.0.0.1:{}", host.port);
    let words = ["--display", &display.name, "--reconnect=false"];
    let mut client = client(&folder, "guest", &address, &[&PIN[..], &words].concat());
    client.line("showing 640x368");
    turns(&Eye::open(&display));
    host.program.kill();
    let (_, text) = client.ended();
    assert!(text.contains("silent") || text.contains("answer"), "{text}");
}

/// Pictures, input and poses by polling and by callback, also under the thread sanitizer: it sees the
/// program's side, and what the program shares with the library's threads.
#[test]
fn two_hosts_and_their_muds_live_in_one_process() {
    for more in [&[][..], &["-fsanitize=thread"], &["-fsanitize=address"]] {
        let folder = Folder::new();
        let program = program(&folder, "tests/both.c", more);
        let mut command = command(&program, &folder);
        command.arg(folder.path());
        let mut run = Program::start("both", command);
        let (status, text) = run.ended();
        assert!(status.success(), "{more:?}: {status}: {text}");
    }
}

#[test]
fn sound_that_is_given_is_what_is_taken() {
    let folder = Folder::new();
    let program = program(&folder, "tests/sound.c", &["-lm"]);
    let mut command = command(&program, &folder);
    command.arg(folder.path());
    let mut run = Program::start("sound", command);
    let (status, text) = run.ended();
    assert!(status.success(), "{status}: {text}");
}

#[test]
fn callbacks_find_what_the_header_promises() {
    let folder = Folder::new();
    let program = program(&folder, "tests/callbacks.c", &["-pthread"]);
    let mut command = command(&program, &folder);
    command.arg(folder.path());
    let mut run = Program::start("callbacks", command);
    let (status, text) = run.ended();
    assert!(status.success(), "{status}: {text}");
}

/// The process ends; it does not go on with a stream that stands still.
#[test]
fn a_callback_that_does_not_return_ends_the_process() {
    for how in ["throw", "exit"] {
        let folder = Folder::new();
        let program = program(&folder, "tests/leaves.cpp", &["-pthread"]);
        let mut command = command(&program, &folder);
        command.arg(folder.path()).arg(how);
        let mut run = Program::start("leaves", command);
        let (status, text) = run.ended();
        assert_eq!(
            status.signal(),
            Some(libc::SIGABRT),
            "{how}: {status}: {text}"
        );
    }
}

/// Each picture that is not taken has its reason, also one that returns; and an engine's renderer ends and
/// begins again.
#[test]
fn pictures_that_are_not_taken_have_a_reason() {
    on_a_display("tests/silence.c", &[&GL[..], &["-pthread"]].concat());
}

#[test]
fn a_renderer_ends_and_begins_again_at_the_same_port() {
    on_a_display("tests/renderer.c", &[&GL[..], &["-pthread"]].concat());
}

/// An application that changes its video mode has another OpenGL context afterwards; one that moves its
/// window is pointed at where that is.
#[test]
fn contexts_come_and_go_and_windows_move_in_mid_stream() {
    for (source, more) in [
        ("tests/buffer.c", &[&GL[..], &["-pthread"]].concat()[..]),
        ("tests/pointer.c", &["-lX11"]),
    ] {
        on_a_display(source, more);
    }
}

/// Compiles a program with `more`, and has it run there to its end.
fn on_a_display(source: &str, more: &[&str]) {
    let folder = Folder::new();
    let Some(display) = Display::start("640x368") else {
        return;
    };
    let program = program(&folder, source, more);
    let mut command = command(&program, &folder);
    command.arg(folder.path()).env("DISPLAY", &display.name);
    let mut run = Program::start(source, command);
    let (status, text) = run.ended();
    assert!(status.success(), "{status}: {text}");
}
