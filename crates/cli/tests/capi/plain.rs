//! A host that draws into plain memory.

use crate::build::{command, program};
use crate::support::{Display, Eye, Folder, PIN, Program, Shot, client, eventually, port_of};
use openuvr_proto::units::Size;

const SIZE: Size = Size::new(640, 368);

/// The host `plain`, ready for clients with the tests' PIN, and its port.
fn host(folder: &Folder) -> (Program, u16) {
    let mut command = command(&program(folder, "examples/plain.c", &[]), folder);
    command.args([PIN[1], "127.0.0.1:0"]);
    let host = Program::listening("plain", command);
    let port = port_of(&host.line("MUDs reach this host by"));
    (host, port)
}

/// Whether a pixel is about this colour, a byte each of blue, green and red.
fn is(shot: &Shot, x: usize, y: usize, colour: [u8; 3]) -> bool {
    let seen = shot.colours()[y * shot.size.width as usize + x];
    seen.iter().zip(colour).all(|(a, b)| a.abs_diff(b) < 60)
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
    let words = [
        "--display",
        &display.name,
        "--input-script",
        script.to_str().unwrap(),
    ];
    let client = client(&folder, "guest", &address, &[&PIN[..], &words].concat());
    client.line("showing 640x368");
    let eye = Eye::open(&display);
    let square = |x, y| {
        eventually("a square on its ground", || {
            let shot = eye.part(SIZE);
            (is(&shot, x, y, SQUARE) && is(&shot, 320, 20, GROUND)).then_some(())
        });
    };
    // Where the script has it go.
    square(608, 336);
    let first = eye.part(SIZE);
    eventually("the bar moves", || (eye.part(SIZE) != first).then_some(()));
    host.line("joins as player");
    drop(client);
    host.line("a client is gone");
    host.hang_up();
    let (status, text) = host.ended();
    assert!(status.success(), "{text}");
}
