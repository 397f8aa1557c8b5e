//! Third-party programs.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use openuvr_media::capture::{Capture as _, CaptureEvent};
use openuvr_media::input_sink::InputSink as _;
use openuvr_proto::input::event::{InputEvent, KeyCode};

use crate::rig::Rig;
use crate::skip::has_program;

/// A running program. It is killed when the test ends.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The protocol through which a program reaches the display.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Wayland,
    X11,
}

fn start(rig: &Rig, by: By, program: &str, args: &[&str]) -> Program {
    let mut command = Command::new(program);
    command
        .args(args)
        .env("XDG_RUNTIME_DIR", rig.display.socket().parent().unwrap())
        .env_remove("WAYLAND_DISPLAY")
        .env_remove("DISPLAY");
    match by {
        By::Wayland => command.env("WAYLAND_DISPLAY", rig.display.socket()),
        By::X11 => {
            let x11 = rig.display.x11().unwrap();
            command
                .env("DISPLAY", &x11.display)
                .env("XAUTHORITY", &x11.authority)
        }
    };
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Program(child.unwrap())
}

/// Waits until a window is visible and the picture has several colours.
fn until_drawn(rig: &mut Rig) {
    let began = std::time::Instant::now();
    loop {
        let _ = rig.capture.next(Some(Duration::from_millis(100))).unwrap();
        let colours = rig.capture.picture().map(|picture| {
            let pixels = picture.planes[0]
                .data
                .chunks_exact(4)
                .map(|pixel| &pixel[..3]);
            pixels.collect::<std::collections::BTreeSet<_>>().len()
        });
        if (rig.display.windows())() > 0 && colours > Some(1) {
            return;
        }
        assert!(began.elapsed().as_secs() < 60, "nothing was drawn");
    }
}

#[test]
fn a_program_that_draws_without_pause() {
    if !has_program("weston-simple-shm", "weston") {
        return;
    }
    let mut rig = Rig::new();
    let _program = start(&rig, By::Wayland, "weston-simple-shm", &[]);
    until_drawn(&mut rig);
    for _ in 0..30 {
        rig.next();
    }
}

/// Types a line into a terminal. A shell in the terminal writes the line to a file. The shell prints a word first: an
/// xterm that is resized during its start sometimes draws no cursor before its first output.
fn types_into(by: By, program: &str, args: &[&str]) {
    let mut rig = Rig::new();
    let folder = tempfile::tempdir().unwrap();
    let (ready, typed) = (folder.path().join("ready"), folder.path().join("typed"));
    let script = folder.path().join("script");
    let text = format!(
        "#!/bin/sh\necho ready\ntouch {}\nread line\nprintf %s \"$line\" > {typed}.new\nmv {typed}.new {typed}\n",
        ready.display(),
        typed = typed.display(),
    );
    std::fs::write(&script, text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let script = script.display().to_string();
    let args: Vec<String> = args
        .iter()
        .map(|arg| arg.replace("SCRIPT", &script))
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let _program = start(&rig, by, program, &args);
    until_drawn(&mut rig);
    let began = std::time::Instant::now();
    while !ready.exists() {
        assert!(began.elapsed().as_secs() < 60, "no shell");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut input = rig.display.input();
    let words = "Zwölf Boxkämpfer, 3 € @ я!";
    for ch in words.chars() {
        for pressed in [true, false] {
            let key = InputEvent::Key {
                code: KeyCode::NONE,
                text: Some(ch),
                pressed,
            };
            input.apply(&key).unwrap();
        }
    }
    for pressed in [true, false] {
        // KEY_ENTER
        let key = InputEvent::Key {
            code: KeyCode(28),
            text: None,
            pressed,
        };
        input.apply(&key).unwrap();
    }
    while !typed.exists() {
        assert!(began.elapsed().as_secs() < 60, "nothing arrived");
        let _ = rig.capture.next(Some(Duration::from_millis(20))).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&typed).unwrap(), words);
}

#[test]
fn text_is_typed_into_foot() {
    if has_program("foot", "foot") {
        types_into(By::Wayland, "foot", &["sh", "SCRIPT"]);
    }
}

#[test]
fn text_is_typed_into_the_terminal_of_weston() {
    if has_program("weston-terminal", "weston") {
        types_into(By::Wayland, "weston-terminal", &["--shell=SCRIPT"]);
    }
}

#[test]
fn text_is_typed_into_xterm() {
    if has_program("xterm", "xterm") && has_program("Xwayland", "xwayland") {
        types_into(By::X11, "xterm", &["-u8", "-e", "sh", "SCRIPT"]);
    }
}

#[test]
fn opengl_of_x11_draws_without_pause() {
    if !has_program("glxgears", "mesa-utils") || !has_program("Xwayland", "xwayland") {
        return;
    }
    let mut rig = Rig::new();
    let _program = start(&rig, By::X11, "glxgears", &[]);
    until_drawn(&mut rig);
    for _ in 0..30 {
        rig.next();
    }
}

#[test]
fn a_program_at_rest_causes_no_picture() {
    if !has_program("weston-flower", "weston") {
        return;
    }
    let mut rig = Rig::new();
    let _program = start(&rig, By::Wayland, "weston-flower", &[]);
    until_drawn(&mut rig);
    rig.settle();
    let event = rig.capture.next(Some(Duration::from_secs(1))).unwrap();
    assert_eq!(event, CaptureEvent::TimedOut);
}
