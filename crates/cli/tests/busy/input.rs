//! Input: late on a busy machine, but never lost or repeated.

use std::fmt::Write as _;
use std::process::Command;

use crate::load::Load;
use crate::real_time_loops::Pattern;
use crate::serialise;
use crate::support::{Display, Folder, Host, PIN, eventually, skip};

const SIZE: &str = "320x200";

/// The number of alphabets to type, the time for which a key is held, and the pause before the next key: 130 keys in
/// six seconds.
const ALPHABETS: usize = 5;
const HELD: &str = "wait 20ms\n";
const PAUSE: &str = "wait 25ms\n";

fn types_beside(load: Load) {
    let _alone = serialise();
    if Command::new("xterm").arg("-version").output().is_err() {
        skip("xterm is not installed: apt-get install xterm");
        return;
    }
    let (Some(here), Some(there)) = (Display::start(SIZE), Display::start(SIZE)) else {
        return;
    };
    let folder = Folder::new();
    let (typed, script) = (folder.join("typed"), folder.join("script"));
    let mut terminal = Command::new("xterm");
    let shell = format!("stty -icanon -echo; touch '{typed}'; exec cat > '{typed}'");
    terminal.args([
        "-display",
        &here.name,
        "-geometry",
        "40x10+0+0",
        "-e",
        "sh",
        "-c",
        &shell,
    ]);
    let _terminal = crate::support::Program::start("xterm", terminal);
    eventually("the terminal", || std::fs::metadata(&typed).ok());
    let host = Host::start(&[&PIN[..], &["--display", &here.name]].concat());
    let mut text = String::from("wait 2s\n");
    for letter in ('A'..='Z').cycle().take(26 * ALPHABETS) {
        let _ = write!(
            text,
            "key KEY_{letter} down\n{HELD}key KEY_{letter} up\n{PAUSE}"
        );
    }
    // The client must not end before the last key has arrived.
    text += "wait 1000s\n";
    std::fs::write(&script, text).expect("a temporary file");
    // Without a window manager, the window under the pointer has the keyboard focus.
    let args = [&PIN[..], &["--input-script", &script]].concat();
    let mut client = host.client("client", &there, &args);
    let Some(running) = load.start() else { return };
    let want: String = ('a'..='z').cycle().take(26 * ALPHABETS).collect();
    eventually("the last letter", || {
        let typed = std::fs::read_to_string(&typed).ok()?;
        (typed.len() >= want.len()).then_some(())
    });
    drop(running);
    client.stop();
    let got = std::fs::read_to_string(&typed).expect("the terminal's file");
    assert_eq!(got, want, "{load:?}");
}

#[test]
fn typed_text_arrives_in_order_beside_busy_loops() {
    types_beside(Load::Loops);
}

#[test]
#[ignore = "./dev test-busy"]
fn typed_text_arrives_in_order_beside_stops_and_a_build() {
    types_beside(Load::RealTime(Pattern::OFTEN));
    types_beside(Load::RealTime(Pattern::LONG));
    types_beside(Load::Build);
}
