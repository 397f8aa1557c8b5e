//! The two listings of the OpenUVR paper (Fig. 9): a host that renders with OpenGL, and a MUD (a client).

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use openuvr_proto::units::Size;

use crate::build::{command, program};
use crate::support::stalls::measured_without_stalls;
use crate::support::{
    Display, Folder, PIN, Program, ScreenCapture, Shot, client, eventually, port_of,
};

pub(crate) const SIZE: Size = Size::new(640, 368);
pub(crate) const GL: [&str; 3] = ["-lGL", "-lX11", "-lm"];
const GROUND: [u8; 3] = [102, 51, 26];
const HUB: [u8; 3] = [0, 51, 255];

/// The number of pictures that the paper's program of Fig. 9 (a) streams.
const PICTURES: u32 = 600;
/// Maximum number of torn pictures: half. The library polls the buffer at any time, so their share is the share of the
/// time in which the program fills the buffer or the library copies it: 20 to 43 of 600 pictures on the machines of the
/// developers, 116 on a slow machine.
const MAX_TORN: u32 = PICTURES / 2;
/// The maximum stall of the machine. A longer stall may interrupt the paper's program for the duration of a copy of its
/// buffer, so the test measures again. A copy takes a few milliseconds with a software renderer.
const STALLED: Duration = Duration::from_millis(5);

/// The host on its own display.
pub(crate) struct Host {
    pub(crate) program: Program,
    pub(crate) port: u16,
    _display: Display,
}

/// Compiles the host with the flags `more`, and starts it.
pub(crate) fn start_host(folder: &Folder, args: &[&str], more: &[&str]) -> Option<Host> {
    let display = Display::start("640x368")?;
    let more = [&GL[..], more].concat();
    let mut command = command(&program(folder, "examples/host.c", &more), folder);
    command
        .args(args)
        .args(["0", PIN[1]])
        .env("DISPLAY", &display.name);
    let program = Program::with_stdin("host", command);
    let port = port_of(&program.line("MUDs reach this host by"));
    Some(Host {
        program,
        port,
        _display: display,
    })
}

/// Whether a pixel is about this colour, in blue, green and red.
fn pixel_is(shot: &Shot, (x, y): (usize, usize), colour: [u8; 3]) -> bool {
    let pixel = shot.colours()[y * shot.size.width as usize + x];
    pixel.iter().zip(colour).all(|(a, b)| a.abs_diff(b) < 60)
}

/// Whether the hub is at position `at` and the picture is upright: the position `not_at` shows the ground.
pub(crate) fn is_hub_at(
    capture: &ScreenCapture,
    at: (usize, usize),
    not_at: (usize, usize),
) -> bool {
    let shot = capture.region(SIZE);
    pixel_is(&shot, at, HUB) && pixel_is(&shot, not_at, GROUND)
}

pub(crate) fn wait_for_hub_at(capture: &ScreenCapture, at: (usize, usize), not_at: (usize, usize)) {
    eventually("the hub moves", || {
        is_hub_at(capture, at, not_at).then_some(())
    });
}

/// Waits until the wheel has turned.
pub(crate) fn wait_for_turn(capture: &ScreenCapture) {
    let before = capture.region(SIZE).colours();
    eventually("the wheel turns", || {
        (capture.region(SIZE).colours() != before).then_some(())
    });
}

pub(crate) fn stop_by_stdin(mut program: Program) {
    program.close_stdin();
    let (status, text) = program.wait();
    assert!(status.success(), "{status}: {text}");
}

/// Tests continuous and synchronous mode with `openuvr client`.
#[test]
fn a_pixel_buffer_is_shown_and_events_come_back() {
    for mode in [&[][..], &["--synchronous"]] {
        let folder = Folder::new();
        let (Some(host), Some(display)) =
            (start_host(&folder, mode, &[]), Display::start("640x368"))
        else {
            return;
        };
        let script = folder.path().join("script");
        std::fs::write(&script, "wait 300ms\nmove 0.9 0.1\nwait 100s\n").unwrap();
        let args = [
            "--display",
            &display.name,
            "--input-script",
            script.to_str().unwrap(),
        ];
        let address = format!("127.0.0.1:{}", host.port);
        let client = client(&folder, "guest", &address, &[&PIN[..], &args].concat());
        client.line("showing 640x368");
        let capture = ScreenCapture::open(&display);
        wait_for_hub_at(&capture, (576, 36), (576, 331));
        wait_for_turn(&capture);
        drop(client);
        stop_by_stdin(host.program);
    }
}

/// Builds the paper's program of Fig. 9 (a) with `flags`, and starts it on its own display.
fn start_paper(folder: &Folder, flags: &[&str]) -> Option<(Program, String, String, Display)> {
    let display = Display::start("1920x1080")?;
    let more = [&GL[..], &["-Wno-unused-function"], flags].concat();
    let mut command = command(&program(folder, "tests/paper.c", &more), folder);
    command
        .env("DISPLAY", &display.name)
        .env("OPENUVR_LOG", "3");
    let host = Program::with_stdin("host", command);
    let port = port_of(&host.line("MUDs reach this host by"));
    let line = host.line("with the PIN");
    let pin = line.rsplit(' ').next().expect("a word").to_owned();
    Some((host, format!("127.0.0.1:{port}"), pin, display))
}

/// The program in the OpenUVR paper submits no pictures, so a thread of the library polls its pixel buffer.
///
/// Pictures can be torn, because OpenGL does not report when the buffer holds a complete picture. The thread sends the
/// buffer when two copies in a row are equal, or after eight copies (`crates/capi/src/buffer_poller.rs`). Two copies of
/// an incomplete picture are equal if the program is interrupted between two rows for the duration of a copy, and all
/// eight differ if copying is as slow as drawing. The encoder and other programs compete for the cores, so both occur
/// on a busy machine.
#[test]
fn fig_9a_streams_600_pictures_as_printed() {
    measured_without_stalls(3, STALLED, stream_paper);
}

/// Streams the pictures of the paper's program. Each picture shows its number, so that the client can check order and
/// content. Returns an error if the client fails, or if too many pictures are torn: if the copy of a row is interrupted
/// for the duration of several pictures, the row may show any number.
fn stream_paper() -> Result<(), String> {
    let folder = Folder::new();
    let Some((host, address, pin, _display)) = start_paper(&folder, &[]) else {
        return Ok(());
    };
    let mut mud = command(&program(&folder, "tests/paper_mud.c", &[]), &folder);
    mud.args([&address, &pin, &PICTURES.to_string(), &folder.join("mud")]);
    let (status, text) = Program::start("mud", mud).wait();
    if !status.success() {
        return Err(format!("{status}: {text}"));
    }
    let line = text
        .lines()
        .find(|line| line.contains(" torn"))
        .expect("a result");
    let numbers: Vec<u32> = line
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    let [pictures, torn, last] = numbers[..] else {
        panic!("not three numbers: {line}");
    };
    assert_eq!(pictures, PICTURES);
    assert!(last >= PICTURES, "each picture has another number: {line}");
    host.line("the library polls its pixel buffer");
    stop_by_stdin(host);
    match torn <= MAX_TORN {
        true => Ok(()),
        false => Err(format!("{line}; the limit is {MAX_TORN} torn pictures")),
    }
}

/// If a program has no pixel buffer and submits no picture, host and client report the missing picture.
#[test]
fn a_missing_picture_is_reported_at_both_ends() {
    let folder = Folder::new();
    let Some((host, address, pin, _own)) = start_paper(&folder, &["-DBUFFER=NULL"]) else {
        return;
    };
    let Some(display) = Display::start("640x368") else {
        return;
    };
    let args = ["--pin", &pin, "--display", &display.name];
    let client = client(&folder, "guest", &address, &args);
    client.line("no picture received yet");
    host.line("call openuvr_frame_ready");
    drop(client);
    stop_by_stdin(host);
}

/// `struct input_event` of a 64-bit machine: the time, followed by these fields.
fn input_event(kind: u16, code: u16, value: i32) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(code.to_ne_bytes());
    bytes.extend(value.to_ne_bytes());
    bytes
}

/// Reports motion of the mouse.
pub(crate) fn move_mouse(mouse: &mut std::fs::File, dx: i32, dy: i32) {
    const EV_REL: u16 = 2;
    let events = [
        input_event(EV_REL, 0, dx),
        input_event(EV_REL, 1, dy),
        input_event(0, 0, 0),
    ];
    mouse.write_all(&events.concat()).expect("the MUD reads it");
}

/// Moves the hub from any position to the bottom left corner, and from there by this distance.
pub(crate) fn move_from_corner(mouse: &mut std::fs::File, dx: i32, dy: i32) {
    move_mouse(mouse, -2000, 2000);
    move_mouse(mouse, dx, dy);
}

pub(crate) fn fifo(path: &Path) -> std::fs::File {
    let status = std::process::Command::new("mkfifo").arg(path).status();
    assert!(status.expect("coreutils").success());
    let mut options = std::fs::OpenOptions::new();
    // If a FIFO is opened for both reading and writing, the call does not wait for the MUD to open it.
    let opened = options.read(true).write(true).open(path);
    opened.expect("the FIFO")
}

#[test]
fn the_listings_connect_and_get_mouse_input() {
    let folder = Folder::new();
    let (Some(host), Some(display)) = (start_host(&folder, &[], &[]), Display::start("640x368"))
    else {
        return;
    };
    let path = folder.path().join("mouse");
    let mut mouse = fifo(&path);
    let mut mud = command(&program(&folder, "examples/mud.c", &[]), &folder);
    mud.args([&format!("127.0.0.1:{}", host.port), PIN[1]])
        .arg(&path)
        .env("DISPLAY", &display.name);
    let mud = Program::with_stdin("mud", mud);
    mud.line("showing 640x368");
    let capture = ScreenCapture::open(&display);
    wait_for_turn(&capture);
    wait_for_hub_at(&capture, (320, 184), (200, 340));
    move_mouse(&mut mouse, -120, 156);
    wait_for_hub_at(&capture, (200, 340), (320, 150));
    stop_by_stdin(mud);
    stop_by_stdin(host.program);
}
