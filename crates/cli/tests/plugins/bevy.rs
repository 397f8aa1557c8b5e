//! Bevy (`plugins/bevy`), without a window.

use std::path::Path;

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
    let mut command = command(Path::new(&scene), &folder);
    command.args([PIN[1], "127.0.0.1:0"]).arg(&csv);
    let host = Program::start("scene", command);
    let port = port_of(&host.line("clients reach this host by"));
    play(&folder, &format!("127.0.0.1:{port}"), &csv);
    assert!(!host.text().contains("panicked"), "{}", host.text());
}
