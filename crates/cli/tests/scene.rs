//! The scene as a user starts it: rendering, counting, input and termination.
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "the harness keeps it"
)]

#[path = "../../media/tests/skip/mod.rs"]
mod skip;

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use openuvr_media::barcode::{self, Stamp};
use openuvr_media::picture::Picture;
use openuvr_proto::units::Size;
use openuvr_xserver::fixture;
use openuvr_xserver::sway::Sway;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

const SIZE: Size = Size::new(640, 360);

/// Killed and reaped when dropped, so that a failed test leaves no process.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn scene(display: &str, more: &[&str]) -> Running {
    let child = Command::new(env!("CARGO_BIN_EXE_openuvr"))
        .args(["scene", "--display", display, "--size", "640x360"])
        .args(more)
        .spawn()
        .expect("the scene starts");
    Running(child)
}

fn stamp(conn: &RustConnection) -> Option<Stamp> {
    let rows = barcode::height(SIZE.width);
    let (width, height) = (640, u16::try_from(rows).expect("a few rows"));
    let root = conn.setup().roots[0].root;
    let image = conn
        .get_image(ImageFormat::Z_PIXMAP, root, 0, 0, width, height, !0)
        .expect("the display is there")
        .reply()
        .expect("it gives its picture");
    barcode::read(&Picture::bgrx(Size::new(640, rows), &image.data, 640 * 4))
}

/// The stamp in the output of a compositor. The output has the scene's size. `None` if there is no stamp, or if `grim`
/// is not installed.
fn stamp_of_output(sway: &Sway) -> Option<Stamp> {
    let (size, pixels) = sway.screenshot()?;
    assert_eq!(size, SIZE);
    let pixels = pixels.as_chunks::<3>().0.iter();
    let pixels: Vec<u8> = pixels.flat_map(|[r, g, b]| [*b, *g, *r, 0]).collect();
    barcode::read(&Picture::bgrx(SIZE, &pixels, 640 * 4))
}

/// Polls the display until the stamp is as required, for at most a minute.
fn wait_for(conn: &RustConnection, condition: impl Fn(&Stamp) -> bool) -> Stamp {
    until(|| stamp(conn), condition)
}

fn until(stamp: impl Fn() -> Option<Stamp>, condition: impl Fn(&Stamp) -> bool) -> Stamp {
    let started = Instant::now();
    loop {
        if let Some(stamp) = stamp().filter(&condition) {
            return stamp;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "timeout");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn it_draws_counts_and_reacts_to_a_key() {
    let Some(server) = fixture::xvfb("640x360", &[]) else {
        return;
    };
    let (conn, _) = x11rb::connect(Some(&server.display)).unwrap();
    let mut scene = scene(&server.display, &["--fps", "30"]);
    let first = wait_for(&conn, |_| true);
    let later = wait_for(&conn, |stamp| stamp.frame >= first.frame + 5);
    assert!(later.drawn_us > first.drawn_us);
    assert_eq!(later.inputs, 0, "no input yet");

    let root = conn.setup().roots[0].root;
    for (kind, detail) in [(2, 38), (3, 38), (4, 1), (5, 1)] {
        // Key "a" and the left button, pressed and released.
        conn.xtest_fake_input(kind, detail, 0, root, 0, 0, 0)
            .unwrap();
    }
    conn.flush().unwrap();
    let pressed = wait_for(&conn, |stamp| stamp.inputs != 0);
    let settled = wait_for(&conn, |stamp| stamp.frame >= pressed.frame + 3);
    assert_eq!(settled.inputs, 2, "a key and a button, each once");

    let id = i32::try_from(scene.0.id()).unwrap();
    let id = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert!(scene.0.wait().unwrap().success(), "SIGTERM exits cleanly");
}

#[test]
fn a_session_without_x_shows_it_on_wayland() {
    let Some(sway) = Sway::start(SIZE) else {
        return;
    };
    if !skip::has_program("grim", "grim") || !skip::has_program("wtype", "wtype") {
        return;
    }
    let mut command = sway.command(env!("CARGO_BIN_EXE_openuvr"));
    let mut scene = Running(
        command
            .args(["scene", "--fps", "30"])
            .spawn()
            .expect("the scene starts"),
    );
    // The window has the size of the output instead of its own.
    let stamp = || stamp_of_output(&sway);
    let first = until(stamp, |_| true);
    let later = until(stamp, |stamp| stamp.frame >= first.frame + 5);
    assert!(later.drawn_us > first.drawn_us);
    assert_eq!(later.inputs, 0, "no input yet");
    // wtype's keyboard exists only while wtype runs. The scene detects each new keyboard, on a busy machine with a delay.
    for presses in [1, 2] {
        let typed = (sway
            .command("wtype")
            .args(["-s", "3000", "a", "-s", "500"])
            .status())
        .unwrap();
        assert!(typed.success());
        until(stamp, |stamp| stamp.inputs == presses);
    }
    let windows = sway.msg(&["-t", "get_tree"]);
    assert!(windows.contains("openuvr-scene"), "{windows}");
    sway.msg(&["kill"]);
    assert!(scene.0.wait().unwrap().success(), "closing ends it cleanly");
}

#[test]
fn a_lost_wayland_display_ends_it_cleanly() {
    let Some(mut sway) = Sway::start(SIZE) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let times = folder.path().join("times");
    // The scene must end with the compositor, even if `DISPLAY` names an X display.
    let mut command = Command::new(env!("CARGO_BIN_EXE_openuvr"));
    command
        .args(["scene", "--fps", "1000", "--size", "640x360", "--times"])
        .arg(&times)
        .arg("--wayland")
        .arg(sway.socket())
        .env("DISPLAY", ":65533")
        .stderr(std::process::Stdio::piped());
    let mut scene = Running(command.spawn().expect("the scene starts"));
    let tree = || sway.msg(&["-t", "get_tree"]);
    let started = Instant::now();
    while !tree().contains("OpenUVR scene") {
        assert!(started.elapsed() < Duration::from_secs(60), "timeout");
    }
    sway.kill();
    let status = scene.0.wait().unwrap();
    let mut text = String::new();
    let mut errors = scene.0.stderr.take().unwrap();
    std::io::Read::read_to_string(&mut errors, &mut text).unwrap();
    assert!(status.success(), "{text}");
    assert!(
        text.contains("the compositor has ended the connection"),
        "{text}"
    );
    assert!(times.exists(), "{text}");
}

#[test]
fn it_stops_after_the_given_frames() {
    let Some(server) = fixture::xvfb("640x360", &[]) else {
        return;
    };
    let mut scene = scene(&server.display, &["--frames", "7", "--fps", "200"]);
    assert!(scene.0.wait().unwrap().success());
}

#[test]
fn a_missing_display_is_one_error_line() {
    let out = Command::new(env!("CARGO_BIN_EXE_openuvr"))
        .args(["scene", "--display", ":65533"])
        .output()
        .unwrap();
    let text = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success());
    assert!(text.contains("can't open the X display :65533"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let out = Command::new(env!("CARGO_BIN_EXE_openuvr"))
        .args(["scene", "--wayland", "/nonexistent/wayland-0"])
        .output()
        .unwrap();
    let text = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success());
    let words = [
        "can't open the Wayland display /nonexistent/wayland-0: ",
        "libwayland-client is missing (apt install libwayland-client0): ",
    ];
    assert!(words.iter().any(|words| text.contains(words)), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}
