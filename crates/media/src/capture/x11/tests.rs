//! What can only be seen from inside: which requests are sent, and what is made of their numbers.
//! All else is in `tests/capture_x11.rs`.

use x11rb::protocol::xproto::ConnectionExt as _;
use x11rb::wrapper::ConnectionExt as _;

use super::*;

#[path = "../../../tests/xvfb/mod.rs"]
mod xvfb;

use xvfb::Xvfb;

const SOON: Option<Duration> = Some(Duration::from_secs(5));
const RED: u32 = 0xff_00_00;
const GREEN: u32 = 0x00_ff_00;

fn open(server: &Xvfb, what: What) -> X11Capture {
    X11Capture::open(&Target {
        display: Some(server.display.clone()),
        what,
    })
    .expect("Xvfb has everything")
}

/// Takes frames until all that was drawn is in the picture.
fn drain(capture: &mut X11Capture) {
    while capture.next(Some(Duration::from_millis(60))).unwrap() == CaptureEvent::Frame {}
}

/// The colour (0xRRGGBB) of the newest picture's first pixel.
fn corner(capture: &X11Capture) -> u32 {
    let picture = capture.picture().expect("a picture");
    let pixel = picture.planes[0].data[..4].try_into().unwrap();
    u32::from_le_bytes(pixel) & 0xff_ff_ff
}

#[test]
fn damage_long_after_the_last_picture_is_news() {
    let Some(server) = Xvfb::start(64, 64, &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(0, 0, 64, 64, RED);
    let mut capture = open(&server, What::Display);
    drain(&mut capture);
    // What damage outside a region makes us send in the course of minutes.
    for _ in 0..40_000 {
        capture.display.conn.no_operation().unwrap();
    }
    capture.display.conn.sync().unwrap();
    painter.fill(id, 0, 0, 8, 8, GREEN);
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    assert_eq!(corner(&capture), GREEN);
}
