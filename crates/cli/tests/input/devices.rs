//! Input devices of the client's machine in place of its window: `--input evdev:`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;

use crate::app::{App, Received};
use crate::rig::Rig;
use crate::support::eventually;
use crate::xtest::XTest;

/// X key codes are Linux key codes plus eight.
const A: u8 = 38;
const K: u8 = 45;

/// A `struct input_event` of a 64-bit Linux.
fn event(kind: u16, code: u16, value: i32) -> Vec<u8> {
    let (kind, code, value) = (kind.to_ne_bytes(), code.to_ne_bytes(), value.to_ne_bytes());
    [&[0; 16][..], &kind, &code, &value].concat()
}

#[test]
#[cfg(target_pointer_width = "64")]
fn a_keyboard_and_a_mouse_without_the_window() {
    let Some(rig) = Rig::new("320x240", "320x240") else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 320, 240));
    let pointer = XTest::open(&rig.host_side);
    pointer.move_to(100, 100);
    let host = rig.host(&[]);
    let devices = ["keyboard", "mouse"].map(|name| {
        let path = rig.folder.join(name);
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo is there").success());
        // With the FIFO open for reading and writing here, the client may open it at any time.
        let end = OpenOptions::new().read(true).write(true).open(&path);
        (path, end.expect("the test's FIFO"))
    });
    let [(keyboard, mut keys), (mouse, mut moves)] = devices;
    let input = format!("evdev:{keyboard},9={mouse}");
    let client = rig.client(&host, "client", &["--input", &input]);
    // Input from the client's window is not sent.
    let xtest = XTest::open(&rig.client_side);
    xtest.move_to(10, 10);
    xtest.chord(&[K]);
    let events = [
        event(1, 30, 1),
        event(0, 0, 0),
        event(1, 30, 2),
        event(0, 0, 1),
    ];
    keys.write_all(&events.concat()).expect("room");
    assert_eq!(app.wait_for(Received::Down(A)), [Received::Down(A)]);
    let events = [event(2, 0, 30), event(2, 1, -20), event(0, 0, 0)];
    moves.write_all(&events.concat()).expect("room");
    let events = [
        event(1, 0x110, 1),
        event(0, 0, 0),
        event(1, 0x110, 0),
        event(0, 0, 0),
    ];
    moves.write_all(&events.concat()).expect("room");
    // In the meantime, the host's X server repeats the key.
    let mut clicked = app.wait_for(Received::ButtonUp(1));
    clicked.retain(|received| !matches!(received, Received::Down(A) | Received::Up(A)));
    assert_eq!(clicked, [Received::ButtonDown(1), Received::ButtonUp(1)]);
    assert_eq!(pointer.pointer(), (130, 80));
    // When the client has ended, the host releases its keys.
    drop(client);
    eventually("the key is up", || {
        pointer.pressed().0.is_empty().then_some(())
    });
}
