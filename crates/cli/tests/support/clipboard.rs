//! The clipboard of a display, with the program that people copy and paste with.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::{Display, eventually, skip};

/// Whether there is a program that copies; says so if not.
pub(crate) fn can_copy() -> bool {
    let there = Command::new("xclip").arg("-version").output().is_ok();
    if !there {
        skip("xclip is not installed");
    }
    there
}

pub(crate) fn xclip(at: &Display, words: &[&str]) -> Command {
    let mut command = Command::new("xclip");
    command.args(["-display", &at.name, "-selection", "clipboard"]);
    command.args(words).stderr(Stdio::null());
    command
}

/// Somebody copies `content`; xclip goes on in the background as its owner, until it is replaced or its
/// display ends.
pub(crate) fn copy(at: &Display, kind: &str, content: &[u8]) {
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

/// The same with text. It is there when this returns: xclip's own child takes the selection, after xclip has ended.
pub(crate) fn copy_text(at: &Display, text: &str) {
    copy(at, "UTF8_STRING", text.as_bytes());
    pasted(at, text);
}

/// What somebody pastes; empty if there is nothing. An xclip whose text is replaced while it hands over much of it ends
/// without a word, and who pastes would wait for ever.
pub(crate) fn paste(at: &Display) -> Vec<u8> {
    let pastes = xclip(at, &["-out", "-t", "UTF8_STRING"]);
    let mut bounded = Command::new("timeout");
    bounded.arg("10").arg(pastes.get_program());
    let output = bounded.args(pastes.get_args()).output();
    output.expect("it is installed").stdout
}

/// Waits until `text` is what is pasted; what was pasted before it.
pub(crate) fn pasted(at: &Display, text: &str) {
    eventually("it can be pasted", || {
        (paste(at) == text.as_bytes()).then_some(())
    });
}
