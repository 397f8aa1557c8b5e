//! A captured window and its application on a real X server: menus and dialogs are in the picture,
//! other applications' windows are not, and a recreated window is followed.
#![cfg(feature = "host")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // A test may panic.

use std::time::Duration;

use openuvr_media::capture::x11::{self, CaptureArea, Target, WindowName, WindowQuery, X11Capture};
use openuvr_media::capture::{Capture, CaptureEvent};
use openuvr_proto::units::Size;
use openuvr_xserver::{
    Xvfb,
    fixture::{self, Painter},
};
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConfigureWindowAux, ConnectionExt as _, PropMode,
    StackMode, Window,
};
use x11rb::wrapper::ConnectionExt as _;

/// Timeout of an expected event.
const SOON: Option<Duration> = Some(Duration::from_secs(20));

const RED: u32 = 0xff_00_00;
const GREEN: u32 = 0x00_ff_00;
const BLUE: u32 = 0x00_00_ff;
const WHITE: u32 = 0xff_ff_ff;

fn open(server: &Xvfb, window: Window) -> X11Capture {
    let query = WindowQuery {
        name: WindowName::Id(window),
        wait: Duration::from_secs(5),
    };
    x11::open(&Target {
        display: Some(server.display.clone()),
        area: CaptureArea::Window(query),
    })
    .unwrap()
}

/// The colour (0xRRGGBB) of a pixel of the newest picture.
fn pixel(capture: &X11Capture, (x, y): (u32, u32)) -> u32 {
    let picture = capture.picture().expect("a picture");
    let plane = picture.planes[0];
    let at = y as usize * plane.stride + x as usize * 4;
    u32::from_le_bytes(plane.data[at..at + 4].try_into().unwrap()) & 0xff_ff_ff
}

/// Takes frames until these positions have these colours.
fn sees(capture: &mut X11Capture, wanted: &[((u32, u32), u32)]) {
    let fits = |capture: &X11Capture| {
        let mut places = wanted.iter();
        capture.picture().is_some() && places.all(|(at, colour)| pixel(capture, *at) == *colour)
    };
    while !fits(capture) {
        match capture.next(SOON).unwrap() {
            CaptureEvent::Frame => {}
            other => {
                let is = wanted.iter().map(|(at, _)| pixel(capture, *at));
                panic!("{other:?}; the colours are {:06x?}", is.collect::<Vec<_>>());
            }
        }
    }
}

/// A window that the window manager ignores, like a menu.
fn menu(painter: &Painter, x: i16, y: i16, colour: u32) -> Window {
    let id = painter.window(x, y, 20, 20, colour);
    let aux = ChangeWindowAttributesAux::new().override_redirect(1);
    painter.conn.change_window_attributes(id, &aux).unwrap();
    painter.conn.map_window(id).unwrap();
    painter.sync();
    id
}

fn for_window(painter: &Painter, window: Window, owner: Window) {
    let (name, kind) = (AtomEnum::WM_TRANSIENT_FOR, AtomEnum::WINDOW);
    painter
        .conn
        .change_property32(PropMode::REPLACE, window, name, kind, &[owner])
        .unwrap();
}

#[test]
fn menus_and_dialogs_are_in_the_picture() {
    let Some(server) = fixture::xvfb("200x200", &[]) else {
        return;
    };
    let painter = server.painter();
    let main = painter.shown(10, 10, 100, 100, RED);
    let mut capture = open(&server, main);
    sees(&mut capture, &[((0, 0), RED), ((99, 99), RED)]);

    let popup = menu(&painter, 20, 20, GREEN);
    sees(
        &mut capture,
        &[
            ((9, 9), RED),
            ((10, 10), GREEN),
            ((29, 29), GREEN),
            ((30, 30), RED),
        ],
    );
    painter.fill(popup, 0, 0, 5, 5, WHITE);
    sees(&mut capture, &[((10, 10), WHITE), ((15, 15), GREEN)]);
    // The main window's drawing does not overwrite its menu.
    painter.fill(main, 0, 0, 100, 100, BLUE);
    sees(
        &mut capture,
        &[((9, 9), BLUE), ((15, 15), GREEN), ((50, 50), BLUE)],
    );
    painter.place(popup, 90, 90);
    sees(&mut capture, &[((15, 15), BLUE), ((99, 99), GREEN)]);
    painter.conn.destroy_window(popup).unwrap();
    painter.sync();
    sees(&mut capture, &[((99, 99), BLUE)]);

    let dialog = painter.window(40, 40, 30, 30, GREEN);
    for_window(&painter, dialog, main);
    painter.conn.map_window(dialog).unwrap();
    painter.sync();
    sees(&mut capture, &[((30, 30), GREEN), ((29, 29), BLUE)]);
    // Behind the main window, the dialog is not visible.
    let below = ConfigureWindowAux::new().stack_mode(StackMode::BELOW);
    painter.conn.configure_window(dialog, &below).unwrap();
    painter.sync();
    sees(&mut capture, &[((30, 30), BLUE)]);
}

#[test]
fn menus_on_an_enlarged_screen_are_in_the_picture() {
    let Some(server) = fixture::xvfb("400x300", &[]) else {
        return;
    };
    let painter = server.painter();
    painter.resize_screen(200, 150);
    let main = painter.shown(10, 10, 100, 100, RED);
    let mut capture = open(&server, main);
    sees(&mut capture, &[((0, 0), RED)]);
    painter.resize_screen(400, 300);
    painter.place(main, 250, 160);
    let _popup = menu(&painter, 260, 170, GREEN);
    sees(&mut capture, &[((9, 9), RED), ((10, 10), GREEN)]);
}

#[test]
fn windows_of_other_applications_are_not_in_the_picture() {
    let Some(server) = fixture::xvfb("200x200", &[]) else {
        return;
    };
    let painter = server.painter();
    let main = painter.shown(0, 0, 100, 100, RED);
    // Another main window of the same application, and its transient window.
    let other = painter.shown(0, 0, 40, 40, BLUE);
    let dialog = painter.window(40, 0, 20, 20, BLUE);
    for_window(&painter, dialog, other);
    painter.conn.map_window(dialog).unwrap();
    let _popup = menu(&painter, 30, 30, GREEN);
    let mut capture = open(&server, main);
    let seen = [
        ((0, 0), RED),
        ((45, 5), RED),
        ((31, 31), GREEN),
        ((49, 49), GREEN),
    ];
    sees(&mut capture, &seen);
    // Where another window covers the menu, the picture shows the captured window.
    let above = ConfigureWindowAux::new().stack_mode(StackMode::ABOVE);
    painter.conn.configure_window(other, &above).unwrap();
    painter.sync();
    sees(
        &mut capture,
        &[((0, 0), RED), ((31, 31), RED), ((49, 49), GREEN)],
    );
}

#[test]
fn a_recreated_window_is_followed() {
    let Some(server) = fixture::xvfb("200x200", &[]) else {
        return;
    };
    let painter = server.painter();
    let bystander = painter.shown(150, 0, 50, 50, BLUE);
    let main = painter.shown(0, 0, 100, 100, RED);
    let mut capture = open(&server, main);
    sees(&mut capture, &[((0, 0), RED)]);
    painter.conn.destroy_window(main).unwrap();
    painter.sync();
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Hidden);
    let recreated = painter.shown(20, 30, 80, 60, GREEN);
    let size = Size::new(80, 60);
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Resized(size));
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Shown);
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    sees(&mut capture, &[((0, 0), GREEN)]);
    let viewport = capture.shared_viewport();
    assert_eq!(viewport.now(), (20, 30, size));
    assert_eq!(viewport.window(), Some(recreated));
    painter.fill(recreated, 0, 0, 80, 60, WHITE);
    sees(&mut capture, &[((40, 40), WHITE)]);

    // The capture does not switch to an older window after the captured window is destroyed.
    painter.conn.destroy_window(recreated).unwrap();
    painter.sync();
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Hidden);
    let last = capture.next(SOON).unwrap();
    assert_eq!(last, CaptureEvent::Ended("window destroyed"));
    assert_eq!(viewport.window(), Some(recreated), "not {bystander:#x}");
}
