//! Features that only compositors with `ext-image-copy-capture-v1` offer. On such a compositor, the tests of the module
//! `capture` use this protocol, too.

use std::time::Instant;

use openuvr_media::capture::cursor::{CursorEvent, CursorWatch as _};
use openuvr_media::capture::{Capture as _, CaptureEvent};
use openuvr_media::input_sink::InputSink as _;
use openuvr_proto::input::event::InputEvent;
use openuvr_wayland::capture::{Target, WaylandCapture, open, open_while};
use openuvr_wayland::cursor::WaylandCursor;
use openuvr_wayland::display;
use openuvr_wayland::input_sink::WaylandInput;

use super::*;

#[test]
fn without_the_protocol_pointer_and_windows_are_refused() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let Some(socket) = offered(&sway, false) else {
        return;
    };
    assert!(WaylandCursor::open(Some(&socket), None).unwrap().is_none());
    let target = Target {
        display: Some(socket),
        window: Some("any".to_owned()),
        ..Target::default()
    };
    let why = open(&target).err().unwrap().to_string();
    assert!(
        why.contains("single window") && !why.contains('\n'),
        "{why}"
    );
}

/// The display if its compositor has the protocol (`wanted` is true) or lacks it (`wanted` is false); otherwise `None`.
fn offered(sway: &Sway, wanted: bool) -> Option<String> {
    let socket = socket(sway);
    let conn = display::connect(Some(&socket)).unwrap();
    let has = display::interfaces(&conn)
        .unwrap()
        .contains_key("ext_image_copy_capture_manager_v1");
    (has == wanted).then_some(socket)
}

#[test]
#[ignore = "tier newer: needs sway 1.12"]
fn the_pointer_moves_apart_from_the_picture() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let socket = offered(&sway, true).expect("ext-image-copy-capture");
    let mut watch = WaylandCursor::open(Some(&socket), None).unwrap().unwrap();
    // The seat has a pointer as soon as a program creates one.
    let mut sink = WaylandInput::open(Some(&socket), None).unwrap();
    let mut shaped = false;
    for (x, y) in [(32_768, 16_384), (8_192, 49_152)] {
        sink.apply(&InputEvent::PointerAbsolute { x, y }).unwrap();
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "the pointer is not at {x}, {y}");
            match watch.next(Some(PATIENCE)).unwrap() {
                CursorEvent::Shaped(shape) => {
                    shaped = true;
                    assert!(!shape.is_invisible() && shape.width > 0);
                }
                CursorEvent::Moved(Some((at_x, at_y)))
                    if at_x.abs_diff(x) < 200 && at_y.abs_diff(y) < 200 =>
                {
                    break;
                }
                _ => {}
            }
        }
    }
    assert!(shaped);
}

#[test]
#[ignore = "tier newer: needs sway 1.12"]
fn a_single_window_is_captured_and_its_end_ends_the_capture() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let socket = offered(&sway, true).expect("ext-image-copy-capture");
    let mut window = Window::open(&sway);
    window.show(1);
    let named = |text: &str| Target {
        display: Some(socket.clone()),
        window: Some(text.to_owned()),
        ..Target::default()
    };
    let mut capture = open_while_listed(&named("OPENUVR"));
    window.show(2);
    let end = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < end, "no picture of the window");
        let event = capture.next(Some(PATIENCE)).unwrap();
        let shown = (capture.picture()).and_then(|picture| barcode::read(&picture));
        if event == CaptureEvent::Frame && shown.is_some_and(|stamp| stamp.frame == 2) {
            break;
        }
    }
    let why = open(&named("no such window")).err().unwrap().to_string();
    assert!(why.contains("no window") && !why.contains('\n'), "{why}");
    drop(window);
    loop {
        assert!(Instant::now() < end, "the capture never ends");
        if let CaptureEvent::Ended(why) = capture.next(Some(PATIENCE)).unwrap() {
            break assert_eq!(why, "the window was closed");
        }
    }
}

/// Captures a window that may not be listed yet.
fn open_while_listed(target: &Target) -> WaylandCapture {
    let end = Instant::now() + PATIENCE;
    open_while(target, &mut || Instant::now() < end).unwrap()
}
