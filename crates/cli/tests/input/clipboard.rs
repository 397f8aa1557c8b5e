//! The clipboard between the displays of a host and its clients, with the programs that people copy and
//! paste with.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::rig::Rig;
use crate::support::{Display, Program, eventually, skip};

/// What is never pasted anywhere else.
const SECRET: &str = "not for the other side";

/// Two displays, if there is a program that copies.
fn rig() -> Option<Rig> {
    if Command::new("xclip").arg("-version").output().is_err() {
        skip("xclip is not installed");
        return None;
    }
    Rig::new("320x240", "640x480")
}

fn xclip(at: &Display, words: &[&str]) -> Command {
    let mut command = Command::new("xclip");
    command.args(["-display", &at.name, "-selection", "clipboard"]);
    command.args(words).stderr(Stdio::null());
    command
}

/// Somebody copies `content`; xclip goes on in the background as its owner, until it is replaced or its
/// display ends.
fn copy(at: &Display, kind: &str, content: &[u8]) {
    let mut child = xclip(at, &["-in", "-t", kind])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it is installed");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(content).expect("it reads");
    drop(input);
    assert!(child.wait().expect("ours").success());
}

fn copy_text(at: &Display, text: &str) {
    copy(at, "UTF8_STRING", text.as_bytes());
}

/// What somebody pastes; empty if there is nothing.
fn paste(at: &Display) -> Vec<u8> {
    let output = xclip(at, &["-out", "-t", "UTF8_STRING"]).output();
    output.expect("it is installed").stdout
}

/// Waits until `text` is what is pasted; what was pasted before it.
fn pasted(at: &Display, text: &str) {
    eventually("it can be pasted", || {
        (paste(at) == text.as_bytes()).then_some(())
    });
}

#[test]
fn text_goes_both_ways_and_long_text_too() {
    let Some(rig) = rig() else { return };
    let host = rig.host(&["--clipboard", "both"]);
    let (here, there) = (&rig.client_side, &rig.host_side);
    copy_text(here, "from before");
    let client = rig.client(&host, "client", &[]);
    pasted(there, "from before");
    let long = "wörd 😀 ".repeat(900_000 / 13);
    for text in ["plain", "Grüße, 😀!\n\tzwei Zeilen", &long, "the last"] {
        copy_text(here, text);
        pasted(there, text);
        let back = format!("{text} back");
        copy_text(there, &back);
        pasted(here, &back);
    }
    // The newest wins, wherever it was copied, and what came from the peer is not sent back: it would
    // replace this.
    copy_text(here, "newer");
    pasted(there, "newer");
    assert_eq!(paste(here), b"newer");
    for (program, words) in [
        (&client, "what is copied here goes to the host"),
        (&client, "what is copied at the host can be pasted here"),
        (&host.program, "what is copied here goes to the player"),
        (&host.program, "what the player copies can be pasted here"),
    ] {
        program.line(words);
        assert_eq!(program.text().matches(words).count(), 1, "told once");
        assert!(!program.text().contains("plain"), "nothing copied is told");
    }
}

#[test]
fn what_is_no_text_or_too_long_stays_and_is_told() {
    let Some(rig) = rig() else { return };
    let host = rig.host(&["--clipboard", "to-host"]);
    let client = rig.client(&host, "client", &[]);
    let (here, there) = (&rig.client_side, &rig.host_side);
    copy_text(here, "first");
    pasted(there, "first");
    copy(here, "image/png", b"\x89PNG\r\n\x1a\n");
    client.line("what was copied does not go to the host: it is no text");
    copy(here, "UTF8_STRING", &vec![b'x'; 100_000_000]);
    client.line("what was copied does not go to the host: it is too long");
    assert_eq!(paste(there), b"first");
    // Nothing of it is in the way of what comes next.
    copy_text(here, "next");
    pasted(there, "next");
}

#[test]
fn an_owner_that_is_killed_keeps_nothing_up() {
    let Some(rig) = rig() else { return };
    let host = rig.host(&["--clipboard", "to-client"]);
    let (here, there) = (&rig.client_side, &rig.host_side);
    let _client = rig.client(&host, "client", &[]);
    // In the foreground it is ours to end.
    let held = rig.folder.path().join("held");
    std::fs::write(&held, "held").expect("a folder of ours");
    let name = held.to_string_lossy().into_owned();
    let owner = Program::start("xclip", xclip(there, &["-quiet", "-in", &name]));
    pasted(here, "held");
    drop(owner);
    // What was passed on outlives it.
    assert_eq!(paste(here), b"held");
    copy_text(there, "after");
    pasted(here, "after");
}

#[test]
fn by_itself_a_host_shares_nothing() {
    let Some(rig) = rig() else { return };
    let (here, there) = (&rig.client_side, &rig.host_side);
    let off = rig.host(&[]);
    copy_text(here, SECRET);
    let mut silent = rig.client(&off, "client", &[]);
    copy_text(there, "the host's own");
    assert_eq!(
        (paste(here), paste(there)),
        (SECRET.into(), "the host's own".into())
    );
    silent.stop();
    drop(off);
    // The same, and it is one that shares: what passed before it would have passed by now.
    let host = rig.host(&["--clipboard", "to-client"]);
    let client = rig.client(&host, "client", &[]);
    copy_text(here, SECRET);
    copy_text(there, "marker");
    pasted(here, "marker");
    assert_eq!(paste(there), b"marker");
    assert!(!client.text().contains("goes to the host"));
}

#[test]
fn a_client_that_wants_none_and_an_observer_get_none() {
    let Some(rig) = rig() else { return };
    let host = rig.host(&["--clipboard", "both"]);
    let (here, there) = (&rig.client_side, &rig.host_side);
    let Some(watching) = Display::start("640x480") else {
        return;
    };
    copy_text(&watching, SECRET);
    let _player = rig.client(&host, "client", &[]);
    let observer = host.client("observer", &watching, &["--observe"]);
    observer.line("openuvr client: showing");
    copy_text(there, "marker");
    pasted(here, "marker");
    copy_text(here, "back");
    pasted(there, "back");
    assert_eq!(paste(&watching), SECRET.as_bytes());
    copy_text(&watching, SECRET);
    copy_text(here, "again");
    pasted(there, "again");
    // One that turned it off plays, and keeps its own.
    let taking = rig.host(&["--clipboard", "both", "--bind", "127.0.0.1:0"]);
    let deaf = taking.client("client", &watching, &["--clipboard=false"]);
    deaf.line("openuvr client: showing");
    copy_text(there, "not for it");
    pasted(here, "not for it");
    assert_eq!(paste(&watching), SECRET.as_bytes());
}
