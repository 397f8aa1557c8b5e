//! A host that renders into plain memory.

use crate::build::{command, program};
use crate::support::recording::ffprobe_reads;
use crate::support::{
    Display, Folder, PIN, Program, ScreenCapture, Shot, client, eventually, openuvr, port_of,
};
use openuvr_proto::units::Size;
use std::os::unix::net::UnixListener;

const SIZE: Size = Size::new(640, 368);

/// Starts the host `plain` with the PIN of the tests, and waits until it is ready for clients. Returns the host and its
/// port.
fn host(folder: &Folder) -> (Program, u16) {
    let mut command = command(&program(folder, "examples/plain.c", &[]), folder);
    command.args([PIN[1], "127.0.0.1:0"]);
    let host = Program::with_stdin("plain", command);
    let port = port_of(&host.line("MUDs reach this host by"));
    (host, port)
}

/// Whether a pixel is about this colour, in blue, green and red.
fn pixel_is(shot: &Shot, x: usize, y: usize, colour: [u8; 3]) -> bool {
    let pixel = shot.colours()[y * shot.size.width as usize + x];
    pixel.iter().zip(colour).all(|(a, b)| a.abs_diff(b) < 60)
}

const SQUARE: [u8; 3] = [0x00, 0x20, 0xff];
const GROUND: [u8; 3] = [0x60, 0x40, 0x20];

#[test]
fn plain_memory_is_shown_and_the_pointer_moves_the_square() {
    let Some(display) = Display::start("640x368") else {
        return;
    };
    let folder = Folder::new();
    let (mut host, port) = host(&folder);
    let script = folder.path().join("script");
    std::fs::write(&script, "wait 300ms\nmove 1 1\nwait 100s\n").unwrap();
    let address = format!("127.0.0.1:{port}");
    let args = [
        "--display",
        &display.name,
        "--input-script",
        script.to_str().unwrap(),
    ];
    let client = client(&folder, "guest", &address, &[&PIN[..], &args].concat());
    client.line("showing 640x368");
    let capture = ScreenCapture::open(&display);
    let square = |x, y| {
        eventually("a square on its ground", || {
            let shot = capture.region(SIZE);
            (pixel_is(&shot, x, y, SQUARE) && pixel_is(&shot, 320, 20, GROUND)).then_some(())
        });
    };
    // The position to which the script moves the square.
    square(608, 336);
    let first = capture.region(SIZE);
    eventually("the bar moves", || {
        (capture.region(SIZE) != first).then_some(())
    });
    host.line("joins as player");
    drop(client);
    host.line("a client is gone");
    host.close_stdin();
    let (status, text) = host.wait();
    assert!(status.success(), "{text}");
}

/// The gateway starts before the application, and outlives it.
#[test]
fn a_gateway_records_an_application_that_runs_twice() {
    let folder = Folder::new();
    let (socket, file) = (folder.join("gateway"), folder.join("play.mp4"));
    let args = ["gateway", &socket, "--record", &file, "--sound", "off"];
    let keys = folder.join("keys");
    let args = [&args[..], &["--config-dir", &keys]].concat();
    let mut gateway = Program::start("gateway", openuvr(&args));
    gateway.line("no application listens at");
    for frames in [20_000, 40_000] {
        let mut application = command(&program(&folder, "examples/plain.c", &[]), &folder);
        application.args([PIN[1], "127.0.0.1:0", &socket]);
        let mut application = Program::with_stdin("plain", application);
        application.line("recording to");
        // The file has grown by some pictures of this run.
        eventually("the file grows", || {
            let length = std::fs::metadata(&file).map_or(0, |there| there.len());
            (length > frames).then_some(())
        });
        application.close_stdin();
        assert!(application.wait().0.success());
    }
    let text = gateway.stop();
    assert!(
        text.contains("recorded in") && !text.contains("missing"),
        "{text}"
    );
    ffprobe_reads(&file);
}

#[test]
fn a_gateway_socket_replaces_no_existing_file() {
    let folder = Folder::new();
    let file = folder.join("file");
    std::fs::write(&file, "precious").unwrap();
    let other = folder.join("other");
    let _others = UnixListener::bind(&other).unwrap();
    for socket in [&file, &other] {
        let mut host = command(&program(&folder, "examples/plain.c", &[]), &folder);
        host.args([PIN[1], "127.0.0.1:0", socket]);
        let mut host = Program::with_stdin("plain", host);
        host.line("already in use");
        // The host streams although its gateway socket cannot be created.
        host.line("MUDs reach this host by");
        host.close_stdin();
        assert!(host.wait().0.success());
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn a_gateway_without_outputs_is_a_usage_error() {
    let folder = Folder::new();
    let args = ["gateway", &folder.join("socket"), "--config-dir"];
    let keys = folder.join("keys");
    let args = [&args[..], &[&*keys]].concat();
    let text = Program::start("gateway", openuvr(&args)).fails_in_one_line();
    assert!(
        text.contains("use --web, --rtsp, --moonlight or --record"),
        "{text}"
    );
}
