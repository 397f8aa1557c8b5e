//! Panda3D (`crates/capi/python/openuvr/panda3d.py`).

use std::path::Path;
use std::process::Command;

use crate::build::{command, crates, library};
use crate::play::{SIZE, play};
use crate::support::{Display, Folder, PIN, Program, port_of, skip};

/// The command that runs a Python script with Panda3D on a new display, and this display. Prints a message and returns
/// `None` if Panda3D or Xvfb is missing.
fn panda3d(folder: &Folder, script: &str) -> Option<(Command, Display)> {
    let Some(python) = std::env::var_os("OPENUVR_PANDA3D_PYTHON") else {
        skip("OPENUVR_PANDA3D_PYTHON names no Python with Panda3D: use ./dev test-plugins");
        return None;
    };
    let display = Display::start("640x360")?;
    let mut python = command(Path::new(&python), folder);
    python
        .arg("-u")
        .arg(crates().join("..").join(script))
        .env("DISPLAY", &display.name)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONPATH", crates().join("capi/python"))
        .env("OPENUVR_LIBRARY", library().folder.join("libopenuvr.so"));
    Some((python, display))
}

/// Plays the example with these arguments.
fn is_played(args: &[&str]) {
    let folder = Folder::new();
    let Some((mut command, _display)) = panda3d(&folder, "examples/python/scene.py") else {
        return;
    };
    let csv = folder.path().join("frames.csv");
    command
        .args(["--size", &SIZE.to_string(), "--bind", "127.0.0.1:0"])
        .args(PIN)
        .arg("--csv")
        .arg(&csv)
        .args(args);
    let host = Program::start("scene.py", command);
    let port = port_of(&host.line("MUDs reach this host by"));
    play(&folder, &format!("127.0.0.1:{port}"), &csv);
    assert!(!host.text().contains("Traceback"), "{}", host.text());
}

#[test]
#[ignore = "./dev test-plugins: needs Panda3D"]
fn a_panda3d_window_is_played_and_names_each_input() {
    is_played(&[]);
}

#[test]
#[ignore = "./dev test-plugins: needs Panda3D"]
fn a_panda3d_buffer_is_played_and_names_each_input() {
    is_played(&["--offscreen"]);
}

#[test]
#[ignore = "./dev test-plugins: needs Panda3D"]
fn input_arrives_as_panda3d_events() {
    for kind in ["onscreen", "offscreen"] {
        let folder = Folder::new();
        let script = "crates/capi/tests/python/panda3d_events.py";
        let Some((mut command, _display)) = panda3d(&folder, script) else {
            return;
        };
        command.arg(kind);
        let mut run = Program::start("panda3d_events.py", command);
        let (status, text) = run.wait();
        assert!(status.success(), "{kind}: {status}: {text}");
        assert!(text.contains("the events agree"), "{kind}: {text}");
    }
}
