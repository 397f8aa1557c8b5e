//! The pointer of a real X server: its shape and position in a target.
#![cfg(feature = "host")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // A test may panic.

use std::time::Duration;

use openuvr_media::capture::CaptureError;
use openuvr_media::capture::cursor::x11::X11Cursor;
use openuvr_media::capture::cursor::{CursorEvent, CursorWatch};
use openuvr_media::capture::x11::Viewport;
use openuvr_proto::units::Size;
use openuvr_xserver::{
    Xvfb,
    fixture::{self, Painter},
};
use x11rb::connection::Connection as _;
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::{
    ChangeWindowAttributesAux, ConnectionExt as _, CreateGCAux, Cursor, MOTION_NOTIFY_EVENT,
    Rectangle, Window,
};
use x11rb::protocol::xtest::ConnectionExt as _;

const SOON: Option<Duration> = Some(Duration::from_secs(60));
const SILENCE: Option<Duration> = Some(Duration::from_millis(50));

/// Moves the pointer like a device.
fn move_to(painter: &Painter, x: i16, y: i16) {
    painter
        .conn
        .xtest_fake_input(MOTION_NOTIFY_EVENT, 0, 0, painter.root, x, y, 0)
        .unwrap();
    painter.sync();
}

/// A cursor: a red rectangle if `seen` is true, otherwise an invisible shape.
fn cursor(painter: &Painter, width: u16, height: u16, seen: bool) -> Cursor {
    let conn = &painter.conn;
    let (pixmap, gc, id) = (
        conn.generate_id().unwrap(),
        conn.generate_id().unwrap(),
        conn.generate_id().unwrap(),
    );
    conn.create_pixmap(1, pixmap, painter.root, width, height)
        .unwrap();
    let aux = CreateGCAux::new().foreground(u32::from(seen));
    conn.create_gc(gc, pixmap, &aux).unwrap();
    let all = Rectangle {
        x: 0,
        y: 0,
        width,
        height,
    };
    conn.poly_fill_rectangle(pixmap, gc, &[all]).unwrap();
    conn.create_cursor(id, pixmap, pixmap, 0xffff, 0, 0, 0, 0, 0, 2, 3)
        .unwrap();
    id
}

fn wear(painter: &Painter, cursor: Cursor) {
    let aux = ChangeWindowAttributesAux::new().cursor(cursor);
    painter
        .conn
        .change_window_attributes(painter.root, &aux)
        .unwrap();
    painter.sync();
}

/// Takes events until no more come.
fn drain(watch: &mut X11Cursor) -> Vec<CursorEvent> {
    let mut events = Vec::new();
    loop {
        match watch.next(SILENCE).unwrap() {
            CursorEvent::TimedOut => return events,
            event => events.push(event),
        }
    }
}

fn open(server: &Xvfb, viewport: Viewport) -> Result<X11Cursor, CaptureError> {
    X11Cursor::open(Some(&server.display), viewport)
}

#[test]
fn shape_and_position_changes_are_reported() {
    let Some(server) = fixture::xvfb("640x480", &[]) else {
        return;
    };
    let painter = server.painter();
    move_to(&painter, 100, 100);
    wear(&painter, cursor(&painter, 20, 10, true));
    let viewport = Viewport::new(100, 50, Size::new(256, 256));
    let mut watch = open(&server, viewport).unwrap();

    let CursorEvent::Shaped(shape) = watch.next(SOON).unwrap() else {
        panic!()
    };
    assert_eq!(
        (shape.width, shape.height, shape.hot_x, shape.hot_y),
        (20, 10, 2, 3)
    );
    assert_eq!(shape.argb, vec![0xffff_0000; 200]);
    // The position of a pixel's centre in a target of 256 × 256 pixels.
    let place = |x: u16, y: u16| Some((x * 256 + 127, y * 256 + 127));
    assert_eq!(watch.next(SOON).unwrap(), CursorEvent::Moved(place(0, 50)));
    assert_eq!(drain(&mut watch), []);

    for n in 0..100u16 {
        move_to(&painter, 100 + n as i16, 60);
    }
    let events = drain(&mut watch);
    assert!((1..=100).contains(&events.len()));
    assert_eq!(events.last(), Some(&CursorEvent::Moved(place(99, 10))));

    move_to(&painter, 99, 60);
    assert_eq!(watch.next(SOON).unwrap(), CursorEvent::Moved(None));
    move_to(&painter, 98, 60);
    assert_eq!(watch.next(SILENCE).unwrap(), CursorEvent::TimedOut);
    move_to(&painter, 355, 305);
    assert_eq!(
        watch.next(SOON).unwrap(),
        CursorEvent::Moved(place(255, 255))
    );

    // An invisible cursor has no position. A visible cursor has a position again.
    wear(&painter, cursor(&painter, 8, 8, false));
    let events = drain(&mut watch);
    assert!(matches!(events[0], CursorEvent::Shaped(_)), "{events:?}");
    assert_eq!(events[1..], [CursorEvent::Moved(None)]);
    wear(&painter, cursor(&painter, 9, 9, true));
    let events = drain(&mut watch);
    assert!(
        matches!(&events[0], CursorEvent::Shaped(s) if s.width == 9),
        "{events:?}"
    );
    assert_eq!(events[1..], [CursorEvent::Moved(place(255, 255))]);
    assert_eq!(watch.cursor().at, place(255, 255));
}

/// Queries repeatedly until a position is reported.
fn next_place(watch: &mut X11Cursor) -> Option<(u16, u16)> {
    let begun = std::time::Instant::now();
    loop {
        match watch.next(SILENCE).unwrap() {
            CursorEvent::Moved(at) => return at,
            event => assert_eq!(event, CursorEvent::TimedOut),
        }
        assert!(begun.elapsed() < SOON.unwrap(), "no position is reported");
    }
}

/// A client that hides pointers.
fn hider(server: &Xvfb) -> Painter {
    let hider = server.painter();
    let version = hider.conn.xfixes_query_version(5, 0).unwrap();
    version.reply().unwrap();
    hider
}

fn hide(hider: &Painter, window: Window) {
    hider.conn.xfixes_hide_cursor(window).unwrap();
    hider.sync();
}

fn show(hider: &Painter, window: Window) {
    hider.conn.xfixes_show_cursor(window).unwrap();
    hider.sync();
}

#[test]
fn a_hidden_pointer_has_no_position() {
    let Some(server) = fixture::xvfb("256x256", &[]) else {
        return;
    };
    // One client connects before the watch starts, the other afterwards.
    let one = hider(&server);
    move_to(&one, 7, 9);
    let mut watch = open(&server, Viewport::new(0, 0, Size::new(256, 256))).unwrap();
    let other = hider(&server);
    drain(&mut watch);
    let place = |x: u16, y: u16| Some((x * 256 + 127, y * 256 + 127));
    assert_eq!(watch.cursor().at, place(7, 9));

    hide(&one, one.root);
    assert_eq!(watch.next(SOON).unwrap(), CursorEvent::Moved(None));
    // The server counts the hide requests of each client. For each of its hide requests, a client must send a show
    // request.
    hide(&one, one.root);
    hide(&other, other.root);
    show(&one, one.root);
    move_to(&one, 8, 9);
    show(&one, one.root);
    assert_eq!(drain(&mut watch), []);
    show(&other, other.root);
    assert_eq!(next_place(&mut watch), place(8, 9));

    // Requests refused by the server change nothing.
    show(&one, one.root);
    hide(&one, 0x7fff_ffff);
    assert_eq!(drain(&mut watch), []);

    // A request may name any window of the screen. The window may be destroyed afterwards.
    let window = one.shown(0, 0, 10, 10, 0xff);
    hide(&one, window);
    assert_eq!(next_place(&mut watch), None);
    one.conn.xfixes_show_cursor(window).unwrap();
    one.conn.destroy_window(window).unwrap();
    one.sync();
    assert_eq!(next_place(&mut watch), place(8, 9));

    // When a client disconnects, all of its hide requests end.
    hide(&other, other.root);
    hide(&other, other.root);
    assert_eq!(next_place(&mut watch), None);
    drop(other);
    assert_eq!(next_place(&mut watch), place(8, 9));
}

#[test]
fn a_server_without_record_is_supported() {
    let Some(server) = fixture::xvfb("256x256", &["-extension", "RECORD"]) else {
        return;
    };
    let hider = hider(&server);
    let mut watch = open(&server, Viewport::new(0, 0, Size::new(256, 256))).unwrap();
    drain(&mut watch);
    hide(&hider, hider.root);
    // Without RECORD, the server also lacks XTEST.
    let warp = hider
        .conn
        .warp_pointer(x11rb::NONE, hider.root, 0, 0, 0, 0, 7, 9);
    warp.unwrap();
    hider.sync();
    let place = Some((7 * 256 + 127, 9 * 256 + 127));
    assert_eq!(watch.next(SOON).unwrap(), CursorEvent::Moved(place));
}

#[test]
fn a_warp_is_detected() {
    let Some(server) = fixture::xvfb("256x256", &[]) else {
        return;
    };
    let painter = server.painter();
    let mut watch = open(&server, Viewport::new(0, 0, Size::new(256, 256))).unwrap();
    drain(&mut watch);
    painter
        .conn
        .warp_pointer(x11rb::NONE, painter.root, 0, 0, 0, 0, 7, 9)
        .unwrap();
    painter.sync();
    let place = Some((7 * 256 + 127, 9 * 256 + 127));
    assert_eq!(watch.next(SOON).unwrap(), CursorEvent::Moved(place));
}

#[test]
fn the_pointer_is_followed_while_a_client_grabs_the_server() {
    let Some(server) = fixture::xvfb("256x256", &[]) else {
        return;
    };
    let painter = server.painter();
    let mut watch = open(&server, Viewport::new(0, 0, Size::new(256, 256))).unwrap();
    drain(&mut watch);
    painter.conn.grab_server().unwrap();
    move_to(&painter, 7, 9);
    let (done, finished) = std::sync::mpsc::sync_channel(1);
    // Runs in a separate thread, because a watch that waits for the end of the grab would never return.
    std::thread::spawn(move || done.send(watch.next(SOON).unwrap()));
    let place = Some((7 * 256 + 127, 9 * 256 + 127));
    let seen = finished.recv_timeout(Duration::from_secs(60));
    assert_eq!(seen, Ok(CursorEvent::Moved(place)));
}

#[test]
fn a_waker_wakes_and_an_ended_server_is_an_error() {
    let Some(mut server) = fixture::xvfb("64x64", &[]) else {
        return;
    };
    let mut watch = open(&server, Viewport::new(0, 0, Size::new(64, 64))).unwrap();
    watch.waker().wake();
    assert_eq!(watch.next(None).unwrap(), CursorEvent::Woken);
    drain(&mut watch);
    server.kill();
    let error = watch.next(SOON).unwrap_err();
    assert!(
        error.0.contains("check that the server is running"),
        "{error}"
    );
}
