//! The clipboard between the displays of a host and its clients, with real copy and paste programs.

use crate::rig::Rig;
use crate::support::clipboard::{can_copy, copy, copy_text, paste, pasted, xclip};
use crate::support::{Display, Program};

/// Text that must not reach the peer.
const SECRET: &str = "not for the other side";

/// Two displays; `None` if no copy program is installed.
fn rig() -> Option<Rig> {
    match can_copy() {
        true => Rig::new("320x240", "640x480"),
        false => None,
    }
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
    // The newest text wins, whether it comes from the host or the client. Text from the peer is not echoed: an echo
    // would replace the newest text.
    copy_text(here, "newer");
    pasted(there, "newer");
    assert_eq!(paste(here), b"newer");
    for (program, words) in [
        (&client, "text copied here is sent to the host"),
        (&client, "text copied at the host can be pasted here"),
        (&host.program, "text copied here is sent to the player"),
        (
            &host.program,
            "text copied by the player can be pasted here",
        ),
    ] {
        program.line(words);
        assert_eq!(program.text().matches(words).count(), 1, "reported once");
        assert!(
            !program.text().contains("plain"),
            "the log contains no clipboard text"
        );
    }
}

#[test]
fn non_text_and_long_text_stay_and_are_reported() {
    let Some(rig) = rig() else { return };
    let host = rig.host(&["--clipboard", "to-host"]);
    let client = rig.client(&host, "client", &[]);
    let (here, there) = (&rig.client_side, &rig.host_side);
    copy_text(here, "first");
    pasted(there, "first");
    copy(here, "image/png", b"\x89PNG\r\n\x1a\n");
    client.line("copied content not sent to the host: the content is not text");
    copy(here, "UTF8_STRING", &vec![b'x'; 100_000_000]);
    client.line("copied content not sent to the host: the content is too long");
    assert_eq!(paste(there), b"first");
    // The rejected content does not block later text.
    copy_text(here, "next");
    pasted(there, "next");
}

#[test]
fn a_killed_owner_blocks_nothing() {
    let Some(rig) = rig() else { return };
    let host = rig.host(&["--clipboard", "to-client"]);
    let (here, there) = (&rig.client_side, &rig.host_side);
    let _client = rig.client(&host, "client", &[]);
    // In the foreground, xclip stays a child of the test.
    let held = rig.folder.path().join("held");
    std::fs::write(&held, "held").expect("a temporary folder");
    let name = held.to_string_lossy().into_owned();
    let owner = Program::start("xclip", xclip(there, &["-quiet", "-in", &name]));
    pasted(here, "held");
    drop(owner);
    // Transferred text outlives its owner.
    assert_eq!(paste(here), b"held");
    copy_text(there, "after");
    pasted(here, "after");
}

#[test]
fn the_clipboard_is_off_by_default() {
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
    // Repeats the check with a host that shares its clipboard. Once the marker has arrived, earlier text would have
    // arrived, too.
    let host = rig.host(&["--clipboard", "to-client"]);
    let client = rig.client(&host, "client", &[]);
    copy_text(here, SECRET);
    copy_text(there, "marker");
    pasted(here, "marker");
    assert_eq!(paste(there), b"marker");
    for output in [silent.text(), client.text()] {
        assert!(!output.contains("is sent to the host"), "{output}");
    }
}

#[test]
fn observers_and_opted_out_clients_get_no_clipboard() {
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
    // A player whose clipboard option is off keeps its own text.
    let taking = rig.host(&["--clipboard", "both", "--bind", "127.0.0.1:0"]);
    let deaf = taking.client("client", &watching, &["--clipboard=false"]);
    deaf.line("openuvr client: showing");
    copy_text(there, "not for it");
    pasted(here, "not for it");
    assert_eq!(paste(&watching), SECRET.as_bytes());
}
