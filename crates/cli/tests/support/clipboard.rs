//! The clipboard of a display, with a real copy and paste program.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::{Display, eventually, skip};

/// Whether xclip is installed; prints a message if not.
pub(crate) fn can_copy() -> bool {
    let there = Command::new("xclip").arg("-version").output().is_ok();
    if !there {
        skip("xclip is not installed: apt-get install xclip");
    }
    there
}

pub(crate) fn xclip(at: &Display, args: &[&str]) -> Command {
    let mut command = Command::new("xclip");
    command.args(["-display", &at.name, "-selection", "clipboard"]);
    command.args(args).stderr(Stdio::null());
    command
}

/// Copies `content`; xclip stays in the background as the owner until it is replaced or its display ends.
pub(crate) fn copy(at: &Display, kind: &str, content: &[u8]) {
    let mut child = xclip(at, &["-in", "-t", kind])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it is installed");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(content).expect("it reads");
    drop(input);
    assert!(child.wait().expect("a child process").success());
}

/// Copies text, and waits until it can be pasted: xclip's child becomes the owner only after xclip has exited.
pub(crate) fn copy_text(at: &Display, text: &str) {
    copy(at, "UTF8_STRING", text.as_bytes());
    pasted(at, text);
}

/// Pastes. The result is empty if there is no content. The time limit is needed: if the owner's text is replaced during
/// a long transfer, the owner exits without notice, and the paste would wait forever.
pub(crate) fn paste(at: &Display) -> Vec<u8> {
    let pastes = xclip(at, &["-out", "-t", "UTF8_STRING"]);
    let mut bounded = Command::new("timeout");
    bounded.arg("10").arg(pastes.get_program());
    let output = bounded.args(pastes.get_args()).output();
    output.expect("it is installed").stdout
}

/// Waits until `text` is pasted.
pub(crate) fn pasted(at: &Display, text: &str) {
    eventually("it can be pasted", || {
        (paste(at) == text.as_bytes()).then_some(())
    });
}
