//! Tests that need internals: the requests sent, and the handling of sequence numbers. All other tests are in
//! `tests/capture_x11.rs`.

use openuvr_xserver::{Xvfb, fixture};
use x11rb::protocol::xproto::ConnectionExt as _;
use x11rb::wrapper::ConnectionExt as _;

use super::*;

const SOON: Option<Duration> = Some(Duration::from_secs(60));
const NOW: Option<Duration> = Some(Duration::ZERO);
const RED: u32 = 0xff_00_00;
const GREEN: u32 = 0x00_ff_00;

fn open(server: &Xvfb, area: CaptureArea) -> X11Capture {
    super::open(&Target {
        display: Some(server.display.clone()),
        area,
    })
    .expect("Xvfb has everything")
}

/// Takes frames until all drawing is in the picture.
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
fn late_damage_is_reported() {
    let Some(server) = fixture::xvfb("64x64", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(0, 0, 64, 64, RED);
    let mut capture = open(&server, CaptureArea::Display);
    drain(&mut capture);
    // The capture of a region sends this many requests within minutes if drawing outside of the region is reported.
    for _ in 0..40_000 {
        capture.display.conn.no_operation().unwrap();
    }
    capture.display.conn.sync().unwrap();
    painter.fill(id, 0, 0, 8, 8, GREEN);
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    assert_eq!(corner(&capture), GREEN);
}

#[test]
fn nothing_is_captured_without_viewers() {
    let Some(server) = fixture::xvfb("64x64", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(0, 0, 64, 64, RED);
    for what in [
        CaptureArea::Display,
        CaptureArea::Window(WindowQuery {
            name: WindowName::Id(id),
            wait: Duration::ZERO,
        }),
        CaptureArea::Region {
            x: 0,
            y: 0,
            size: Size::new(32, 32),
        },
    ] {
        let mut capture = open(&server, what);
        drain(&mut capture);
        capture.set_watched(false);
        let requests = |capture: &X11Capture| {
            let request = capture.display.conn.no_operation().unwrap();
            request.sequence_number()
        };
        let before = requests(&capture);
        for n in 0..100 {
            painter.fill(id, 0, 0, 64, 64, RED + n);
            painter.sync();
            assert_eq!(capture.next(NOW).unwrap(), CaptureEvent::TimedOut);
        }
        painter.fill(id, 0, 0, 64, 64, GREEN);
        painter.sync();
        assert_eq!(requests(&capture), before + 1);

        capture.set_watched(true);
        assert!(capture.picture().is_none(), "the old one is outdated");
        // The frame arrives at once, and without new drawing.
        assert_eq!(capture.next(NOW).unwrap(), CaptureEvent::Frame);
        assert_eq!(corner(&capture), GREEN);
        // A repeated call changes nothing; damage is reported as before.
        capture.set_watched(true);
        drain(&mut capture);
        painter.fill(id, 0, 0, 64, 64, RED);
        assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
        assert_eq!(corner(&capture), RED);
    }
}

#[test]
fn a_new_viewer_gets_changes_made_while_unwatched() {
    let Some(server) = fixture::xvfb("64x64", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(0, 0, 32, 32, RED);
    let mut capture = open(
        &server,
        CaptureArea::Window(WindowQuery {
            name: WindowName::Id(id),
            wait: Duration::ZERO,
        }),
    );
    capture.set_watched(false);
    assert!(capture.picture().is_none());
    painter.resize(id, 48, 40);
    painter.fill(id, 0, 0, 48, 40, GREEN);
    painter.sync();
    let size = Size::new(48, 40);
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Resized(size));
    assert_eq!(capture.next(NOW).unwrap(), CaptureEvent::TimedOut);
    capture.set_watched(true);
    assert_eq!(capture.next(NOW).unwrap(), CaptureEvent::Frame);
    assert_eq!((capture.size(), corner(&capture)), (size, GREEN));

    capture.set_watched(false);
    painter.conn.unmap_window(id).unwrap();
    painter.sync();
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Hidden);
    // The window is not viewable, so the last picture is kept.
    capture.set_watched(true);
    assert_eq!(capture.next(NOW).unwrap(), CaptureEvent::TimedOut);
    assert_eq!(corner(&capture), GREEN);
    painter.conn.map_window(id).unwrap();
    painter.fill(id, 0, 0, 48, 40, RED);
    painter.sync();
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Shown);
    drain(&mut capture);
    assert_eq!(corner(&capture), RED);
}
