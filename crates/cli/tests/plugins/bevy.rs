//! Bevy (`plugins/bevy`), without a window.

use std::path::Path;

use rustix::process::Signal;

use crate::build::command;
use crate::play::play;
use crate::support::{Folder, PIN, Program, port_of, skip};

#[test]
#[ignore = "./dev test-plugins: builds Bevy"]
fn a_bevy_application_is_played_and_names_each_input() {
    let Some(scene) = std::env::var_os("OPENUVR_BEVY_SCENE") else {
        skip("OPENUVR_BEVY_SCENE names no built example of plugins/bevy: use ./dev test-plugins");
        return;
    };
    let folder = Folder::new();
    let csv = folder.path().join("frames.csv");
    // A shell without job control starts background processes with SIGINT ignored, and Bevy does not change this.
    let mut command = command(Path::new("env"), &folder);
    command
        .arg("--default-signal=INT")
        .arg(&scene)
        .args([PIN[1], "127.0.0.1:0"])
        .arg(&csv);
    let mut host = Program::start("scene", command);
    let port = port_of(&host.line("the host listens on"));
    play(&folder, &format!("127.0.0.1:{port}"), &csv);
    host.signal(Signal::INT);
    let (status, text) = host.wait();
    // Bevy's exit code for an application that SIGINT has ended.
    assert_eq!(status.code(), Some(130), "{status}: {text}");
    assert!(!text.contains("panicked"), "{text}");
}
