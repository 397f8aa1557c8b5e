//! What a program may do wrong, and how it may end.

use std::process::Command;

use crate::build::{command, library, program};
use crate::listings::{SIZE, host_of, turns};
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
fn an_application_that_is_killed_in_mid_frame_leaves_a_client_that_says_so() {
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
    assert_eq!(SIZE.width, 640);
}

/// The library shows nothing but its own functions, and brings nothing with it.
#[test]
fn only_the_functions_of_the_header_are_exported() {
    let library = library();
    let out = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library.folder.join("libopenuvr.so"))
        .output()
        .expect("build-essential is there");
    let text = String::from_utf8(out.stdout).unwrap();
    let mut exported: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    exported.sort_unstable();
    let header = std::fs::read_to_string(library.include.join("openuvr.h")).unwrap();
    let mut declared: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '#', '/', '}']) && !line.starts_with("typedef"))
        .filter_map(|line| line.split_once('('))
        .filter_map(|(before, _)| before.split([' ', '*']).next_back())
        .filter(|name| name.starts_with("openuvr_"))
        .collect();
    declared.sort_unstable();
    assert!(declared.len() > 20);
    assert_eq!(exported, declared);
}
