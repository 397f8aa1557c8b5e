//! A terminal on the host's display that records typed text.

use std::process::Command;

use crate::rig::{Rig, poll_until};
use crate::support::{Program, eventually, skip};
use crate::xtest::XTest;

/// Starts a terminal on the host's display that writes each typed byte to a file.
pub(crate) fn terminal(rig: &Rig) -> Option<Program> {
    let mut command = Command::new("xterm");
    let (typed, ready) = (
        rig.folder.path().join("typed"),
        rig.folder.path().join("ready"),
    );
    let line = format!(
        "stty raw -echo; : > '{}'; exec cat > '{}'",
        ready.display(),
        typed.display()
    );
    command
        .args([
            "-display",
            &rig.host_side.name,
            "-u8",
            "-geometry",
            "80x24+0+0",
        ])
        .args(["-e", "sh", "-c", &line])
        .env("LC_ALL", "C.UTF-8");
    if Command::new("xterm").arg("-version").output().is_err() {
        skip("xterm is not installed: apt-get install xterm");
        return None;
    }
    let xterm = Program::start("xterm", command);
    eventually("the terminal is ready", || ready.exists().then_some(()));
    let host = XTest::open(&rig.host_side);
    let window = eventually("the terminal's window", || host.windows("XTerm").pop());
    host.focus(window);
    Some(xterm)
}

fn typed(rig: &Rig) -> String {
    String::from_utf8_lossy(&std::fs::read(rig.folder.path().join("typed")).unwrap_or_default())
        .into_owned()
}

/// Waits for this many bytes, and compares them.
pub(crate) fn wait_for(rig: &Rig, text: &str) {
    poll_until(|| typed(rig).len() >= text.len());
    assert_eq!(typed(rig), text);
}
