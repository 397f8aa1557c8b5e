//! The mouse: positions, distances, buttons and the wheel.

use x11rb::protocol::xproto::ConnectionExt as _;

use crate::app::{App, Received};
use crate::rig::{Rig, poll_until};
use crate::support::eventually;
use crate::xtest::XTest;

/// Moves the pointer to each of these positions of the client's display. Waits each time until the host's pointer is
/// within the range that `at` returns.
fn check_pointer(
    rig: &Rig,
    places: &[(i16, i16)],
    at: impl Fn(i16, i16) -> (std::ops::RangeInclusive<i16>, std::ops::RangeInclusive<i16>),
) {
    let (xtest, host) = (XTest::open(&rig.client_side), XTest::open(&rig.host_side));
    for &(x, y) in places {
        xtest.move_to(x, y);
        let (across, down) = at(x, y);
        let there = poll_until(|| {
            let (x, y) = host.pointer();
            across.contains(&x) && down.contains(&y)
        });
        let is = host.pointer();
        assert!(there, "{x},{y} lands at {is:?}, not in {across:?} {down:?}");
    }
}

#[test]
fn the_pointer_lands_on_the_same_pixel() {
    let Some(rig) = Rig::new("1280x720", "1280x720") else {
        return;
    };
    let _app = App::open(&rig.host_side, "app", (0, 0, 1280, 720));
    let host = rig.host(&[]);
    let _client = rig.client(&host, "client", &[]);
    let places = [
        (5, 5),
        (0, 0),
        (1279, 719),
        (0, 719),
        (1279, 0),
        (641, 361),
        (1277, 3),
        (123, 456),
    ];
    check_pointer(&rig, &places, |x, y| (x..=x, y..=y));
}

#[test]
fn the_pointer_lands_on_the_right_pixel_of_a_scaled_picture() {
    let Some(rig) = Rig::new("640x480", "1280x960") else {
        return;
    };
    let _app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let host = rig.host(&[]);
    let places = [(0, 0), (319, 239), (160, 77), (1, 238)];
    {
        let mut client = rig.client(&host, "client", &["--size", "320x240"]);
        // One pixel of the window is a 2x2 block of the picture.
        check_pointer(&rig, &places, |x, y| (2 * x..=2 * x + 1, 2 * y..=2 * y + 1));
        // A window wider than the picture has bars at the sides.
        let xtest = XTest::open(&rig.client_side);
        let window = xtest.windows("openuvr").pop().expect("its window");
        xtest.move_resize(window, (0, 0, 1280, 480));
        let places = [(320, 0), (959, 479), (640, 240)];
        check_pointer(&rig, &places, |x, y| (x - 320..=x - 320, y..=y));
        // On a bar, the pointer is at the picture's edge.
        check_pointer(&rig, &[(10, 100), (1200, 200)], |x, y| {
            let edge = if x < 320 { 0 } else { 639 };
            (edge..=edge, y..=y)
        });
        client.kill();
    }
    let _client = rig.client(&host, "client", &["--size", "1280x960"]);
    // A 2x2 block of the window is one pixel of the picture.
    let places = [(0, 0), (1279, 959), (1, 1), (2, 2), (641, 479)];
    check_pointer(&rig, &places, |x, y| (x / 2..=x / 2, y / 2..=y / 2));
}

#[test]
fn the_pointer_lands_inside_a_captured_region() {
    let Some(rig) = Rig::new("640x480", "640x480") else {
        return;
    };
    let _app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let host = rig.host(&["--region", "320x240+100+50"]);
    let _client = rig.client(&host, "client", &[]);
    let places = [(0, 0), (319, 239), (17, 200)];
    check_pointer(&rig, &places, |x, y| (x + 100..=x + 100, y + 50..=y + 50));
}

#[test]
fn the_pointer_follows_a_moved_window() {
    let Some(rig) = Rig::new("640x480", "640x480") else {
        return;
    };
    let app = App::open(&rig.host_side, "the captured one", (40, 30, 320, 240));
    let host = rig.host(&["--window", "the captured one"]);
    let _client = rig.client(&host, "client", &[]);
    let places = [(0, 0), (319, 239), (17, 200)];
    check_pointer(&rig, &places, |x, y| (x + 40..=x + 40, y + 30..=y + 30));
    XTest::open(&rig.host_side).move_resize(app.window, (200, 100, 320, 240));
    // A separate event informs the host that the window has moved. Pointer positions before this event may be off.
    let xtest = XTest::open(&rig.client_side);
    let host = XTest::open(&rig.host_side);
    eventually("the host follows the window", || {
        xtest.move_to(50, 50);
        xtest.move_to(51, 51);
        (host.pointer() == (251, 151)).then_some(())
    });
    check_pointer(&rig, &places, |x, y| (x + 200..=x + 200, y + 100..=y + 100));
}

#[test]
fn buttons_and_the_wheel_arrive_in_order() {
    let Some(rig) = Rig::new("640x480", "640x480") else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let host = rig.host(&[]);
    let _client = rig.client(&host, "client", &[]);
    let xtest = XTest::open(&rig.client_side);
    xtest.move_to(320, 240);
    // Left, middle, right, wheel up and down and to both sides, back, forward.
    let numbers = [1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 1];
    for number in numbers {
        xtest.button(number, true);
        xtest.button(number, false);
    }
    // A drag with two buttons.
    xtest.button(1, true);
    xtest.button(3, true);
    xtest.button(1, false);
    xtest.button(3, false);
    // This key marks the end of the sequence.
    xtest.chord(&[38]);
    let mut expected: Vec<Received> = numbers
        .iter()
        .flat_map(|&number| [Received::ButtonDown(number), Received::ButtonUp(number)])
        .collect();
    let (down, up) = (Received::ButtonDown, Received::ButtonUp);
    expected.extend([
        down(1),
        down(3),
        up(1),
        up(3),
        Received::Down(38),
        Received::Up(38),
    ]);
    assert_eq!(app.wait_for(Received::Up(38)), expected);
    assert!(app.is_idle());
}

#[test]
fn a_grabbed_mouse_sends_relative_motion() {
    let Some(rig) = Rig::new("640x480", "640x480") else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let host = rig.host(&[]);
    let _client = rig.client(&host, "client", &["--grab"]);
    let xtest = XTest::open(&rig.client_side);
    // The window grabs the mouse when it is viewable. Earlier motion is absolute.
    eventually("the grab works", || {
        xtest.move_by(1, 0);
        app.poll();
        (app.moved.0 > 0).then_some(())
    });
    xtest.button(2, true);
    xtest.button(2, false);
    app.wait_for(Received::ButtonUp(2));
    assert_eq!(app.turned_by(&xtest), (3100, -700));
    // Some games keep their pointer centred, like this application. The client must not send absolute positions, which
    // would move the pointer elsewhere.
    app.conn
        .warp_pointer(x11rb::NONE, app.root, 0, 0, 0, 0, 320, 240)
        .expect("sent");
    x11rb::wrapper::ConnectionExt::sync(&app.conn).expect("a running X server");
    xtest.move_by(10, 5);
    let host = XTest::open(&rig.host_side);
    eventually("it moved from there", || {
        (host.pointer() == (330, 245)).then_some(())
    });
}

#[test]
fn raw_motion_is_the_distance_between_two_places() {
    let Some(rig) = Rig::new("640x480", "640x480") else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let host = rig.host(&[]);
    let _client = rig.client(&host, "client", &[]);
    check_pointer(&rig, &[(200, 100)], |x, y| (x..=x, y..=y));
    app.poll();
    let before = app.moved;
    check_pointer(&rig, &[(210, 130), (630, 10), (250, 90)], |x, y| {
        (x..=x, y..=y)
    });
    app.poll();
    let moved = (app.moved.0 - before.0, app.moved.1 - before.1);
    assert_eq!(moved, (50, -10));
}
