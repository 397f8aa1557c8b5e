//! SDL 2 (`crates/capi/examples/openuvr_sdl.h`).

use std::path::Path;
use std::process::Command;

use crate::build::{command, crates, program};
use crate::play::play;
use crate::support::{Display, Folder, PIN, Program, port_of, skip};

/// Compiles a program together with the plug-in. Prints a message and returns `None` if SDL's headers are missing.
fn with_sdl(folder: &Folder, source: &str, more: &[&str]) -> Option<Command> {
    if !Path::new("/usr/include/SDL2/SDL.h").is_file() {
        skip("the headers of SDL 2 are not installed: apt-get install libsdl2-dev");
        return None;
    }
    let plugin = crates().join("capi/examples/openuvr_sdl.c");
    let plugin = plugin.to_str().expect("UTF-8");
    let flags = ["-I/usr/include/SDL2", "-D_REENTRANT", plugin, "-lSDL2"];
    let program = program(folder, source, &[&flags[..], more].concat());
    // A shell without job control starts background processes with SIGINT ignored, and SDL does not change this.
    let mut env = command(Path::new("env"), folder);
    env.arg("--default-signal=INT").arg(program);
    Some(env)
}

#[test]
fn an_sdl_program_is_played_and_names_each_input() {
    let folder = Folder::new();
    let Some(mut command) = with_sdl(&folder, "examples/sdl.c", &["-lGL"]) else {
        return;
    };
    let Some(display) = Display::start("640x360") else {
        return;
    };
    let csv = folder.path().join("frames.csv");
    command
        .args([PIN[1], "127.0.0.1:0"])
        .arg(&csv)
        .env("DISPLAY", &display.name);
    let mut host = Program::start("sdl", command);
    let port = port_of(&host.line("MUDs reach this host by"));
    play(&folder, &format!("127.0.0.1:{port}"), &csv);
    host.stop();
}

#[test]
fn input_arrives_as_sdl_events() {
    let folder = Folder::new();
    let Some(mut command) = with_sdl(&folder, "tests/sdl_events.c", &[]) else {
        return;
    };
    command.arg(folder.path()).env("SDL_VIDEODRIVER", "dummy");
    let mut run = Program::start("sdl_events", command);
    let (status, text) = run.wait();
    assert!(status.success(), "{status}: {text}");
    assert!(text.contains("the events agree"), "{text}");
}
