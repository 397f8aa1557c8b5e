//! A client of a single window types and clicks only into that window, even if another window covers it.

use std::time::{Duration, Instant};

use x11rb::protocol::xproto::{
    AtomEnum, ClientMessageEvent, ConfigureWindowAux, ConnectionExt as _, EventMask, PropMode,
    StackMode,
};
use x11rb::wrapper::ConnectionExt as _;

use crate::app::{App, Received};
use crate::rig::{Rig, manager};
use crate::support::{Display, Host, Program, eventually};
use crate::xtest::XTest;

const SCREEN: &str = "640x480";
const PLACE: (i16, i16, u16, u16) = (40, 40, 320, 240);
/// X key codes that are the same on every PC keyboard.
const A: u8 = 30 + 8;
const B: u8 = 48 + 8;

const INPUT_BLOCKED: &str = "openuvr host: keyboard and mouse input is suspended";
const INPUT_RESUMED: &str = "openuvr host: keyboard and mouse input is resumed";

/// Opens a window and a second window that covers it. Then starts a host that streams the first window, and a client.
/// Returns all four in this order.
fn covered(rig: &Rig) -> (App, App, Host, Program) {
    let streamed = App::open(&rig.host_side, "streamed", PLACE);
    let cover = App::open(&rig.host_side, "cover", PLACE);
    let host = rig.host(&["--window", "streamed"]);
    let client = rig.client(&host, "client", &[]);
    (streamed, cover, host, client)
}

/// Waits until the window manager maps windows, because it ignores requests during its start. Returns the program that
/// tested this. The program stays connected, with its window unmapped: otherwise, the next window would get the same
/// id, and the window manager might mistake it for this one.
fn first_window(side: &Display) -> App {
    let first = App::open(side, "first", (0, 0, 10, 10));
    let xtest = XTest::open(side);
    let parent = || {
        let tree = xtest.conn.query_tree(first.window).expect("sent");
        tree.reply().expect("the window is there").parent
    };
    eventually("the window manager shows a window in a frame", || {
        first.conn.map_window(first.window).expect("sent");
        first.conn.sync().expect("a running X server");
        (parent() != xtest.root && xtest.is_shown(first.window)).then_some(())
    });
    first.conn.unmap_window(first.window).expect("sent");
    first.conn.sync().expect("a running X server");
    eventually("the window is gone", || {
        (parent() == xtest.root).then_some(())
    });
    first
}

/// Sends the window manager a message about a window (Extended Window Manager Hints, 1.5).
fn send_to_window_manager(app: &App, kind: &[u8], data: [u32; 5]) {
    let atom = app.conn.intern_atom(false, kind).expect("sent");
    let atom = atom.reply().expect("a name").atom;
    let message = ClientMessageEvent::new(32, app.window, atom, data);
    let to = EventMask::SUBSTRUCTURE_NOTIFY | EventMask::SUBSTRUCTURE_REDIRECT;
    let sent = app.conn.send_event(false, app.root, to, message);
    sent.expect("sent");
    app.conn.sync().expect("a running X server");
}

/// Raises the cover and gives it the keyboard, as a user at the host would.
fn raise_cover(rig: &Rig, cover: &App) {
    // Without a window manager, this request raises the cover. With a window manager, the message below raises it, like
    // the message of a taskbar.
    let above = ConfigureWindowAux::new().stack_mode(StackMode::ABOVE);
    let conn = &cover.conn;
    conn.configure_window(cover.window, &above).expect("sent");
    const TASKBAR: u32 = 2;
    send_to_window_manager(cover, b"_NET_ACTIVE_WINDOW", [TASKBAR, 0, 0, 0, 0]);
    conn.sync().expect("a running X server");
    let host = XTest::open(&rig.host_side);
    host.focus(cover.window);
    eventually("the cover lies in front", || {
        let top = host.conn.query_tree(cover.window).expect("sent");
        let frame = top.reply().expect("the cover is there").parent;
        let mine = if frame == host.root {
            cover.window
        } else {
            frame
        };
        // This position is in the middle of both windows.
        let at = host
            .conn
            .translate_coordinates(host.root, host.root, 200, 160);
        let front = at.expect("sent").reply().expect("the root is there").child;
        (front == mine).then_some(())
    });
}

/// Repeats `press` until the application has received `last`, and returns all events up to it. The host drops a press
/// if the window manager does not raise the window in time.
fn press_until(app: &mut App, last: Received, press: impl Fn()) -> Vec<Received> {
    eventually(&format!("the application receives {last:?}"), || {
        press();
        let end = Instant::now() + Duration::from_secs(2);
        while app.pending(last) == 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            app.poll();
        }
        (app.pending(last) > 0).then_some(())
    });
    app.wait_for(last)
}

/// Types and clicks while the window is covered.
fn types_and_clicks(rig: &Rig) {
    let (mut streamed, mut cover, _host, client) = covered(rig);
    let xtest = XTest::open(&rig.client_side);
    xtest.move_to(100, 100);
    assert_eq!(
        press_until(&mut streamed, Received::Up(A), || xtest.chord(&[A])),
        [Received::Down(A), Received::Up(A)]
    );

    raise_cover(rig, &cover);
    let received = press_until(&mut streamed, Received::ButtonUp(1), || {
        xtest.button(1, true);
        xtest.button(1, false);
    });
    assert_eq!(received, [Received::ButtonDown(1), Received::ButtonUp(1)]);
    assert!(cover.is_idle(), "{:?}", cover.take());
    drop(client);
}

#[test]
fn a_covered_window_gets_its_keys_and_clicks() {
    let Some(rig) = Rig::new(SCREEN, SCREEN) else {
        return;
    };
    types_and_clicks(&rig);
}

#[test]
fn a_covered_window_gets_its_keys_under_a_window_manager() {
    let Some(rig) = Rig::new(SCREEN, SCREEN) else {
        return;
    };
    let Some(_manager) = manager(&rig, &rig.host_side) else {
        return;
    };
    let _first = first_window(&rig.host_side);
    types_and_clicks(&rig);
}

#[test]
fn blocked_input_is_dropped_and_reported_once() {
    let Some(rig) = Rig::new(SCREEN, SCREEN) else {
        return;
    };
    let Some(_manager) = manager(&rig, &rig.host_side) else {
        return;
    };
    let _first = first_window(&rig.host_side);
    let (mut streamed, mut cover, host, _client) = covered(&rig);
    // The cover stays above all other windows, as a panel does.
    let name = |name: &[u8]| {
        let atom = cover.conn.intern_atom(false, name).expect("sent");
        atom.reply().expect("a name").atom
    };
    const ADD: u32 = 1;
    let state = name(b"_NET_WM_STATE");
    let data = [ADD, name(b"_NET_WM_STATE_ABOVE"), 0, 1, 0];
    send_to_window_manager(&cover, b"_NET_WM_STATE", data);
    eventually("the cover stays above", || {
        let any = AtomEnum::ANY;
        let property = cover
            .conn
            .get_property(false, cover.window, state, any, 0, 8);
        let property = property.expect("sent").reply().expect("the cover is there");
        (property.value_len > 0).then_some(())
    });

    let xtest = XTest::open(&rig.client_side);
    xtest.move_to(100, 100);
    for _ in 0..3 {
        xtest.button(1, true);
        xtest.button(1, false);
    }
    host.program.line(INPUT_BLOCKED);
    // Keys arrive, because a window can have the keyboard focus without being in front.
    assert_eq!(
        press_until(&mut streamed, Received::Up(A), || xtest.chord(&[A])),
        [Received::Down(A), Received::Up(A)]
    );
    assert!(cover.is_idle(), "{:?}", cover.take());
    host.program.line(INPUT_RESUMED);
    assert_eq!(
        host.program.count(INPUT_BLOCKED),
        1,
        "{}",
        host.program.text()
    );

    cover.conn.unmap_window(cover.window).expect("sent");
    cover.conn.sync().expect("a running X server");
    let received = press_until(&mut streamed, Received::ButtonUp(1), || {
        xtest.button(1, true);
        xtest.button(1, false);
    });
    assert_eq!(received, [Received::ButtonDown(1), Received::ButtonUp(1)]);
}

#[test]
fn input_for_a_hidden_window_goes_nowhere() {
    let Some(rig) = Rig::new(SCREEN, SCREEN) else {
        return;
    };
    let (mut streamed, mut cover, host, _client) = covered(&rig);
    streamed.conn.unmap_window(streamed.window).expect("sent");
    streamed.conn.sync().expect("a running X server");
    let xtest = XTest::open(&rig.client_side);
    let at_host = XTest::open(&rig.host_side);
    let points = |x, y| {
        let before = at_host.pointer();
        xtest.move_to(x, y);
        eventually("the host's pointer moves", || {
            (at_host.pointer() != before).then_some(())
        });
    };
    points(100, 100);
    xtest.chord(&[A]);
    xtest.button(1, true);
    xtest.button(1, false);
    host.program.line(INPUT_BLOCKED);
    // Motion is never blocked. Once this motion has arrived, the host has also handled the click, which must not reach
    // the window later.
    points(140, 120);
    streamed.conn.map_window(streamed.window).expect("sent");
    streamed.conn.sync().expect("a running X server");
    xtest.chord(&[B]);
    assert_eq!(
        streamed.wait_for(Received::Up(B)),
        [Received::Down(B), Received::Up(B)]
    );
    assert!(cover.is_idle(), "{:?}", cover.take());
    host.program.line(INPUT_RESUMED);
    assert_eq!(
        host.program.count(INPUT_BLOCKED),
        1,
        "{}",
        host.program.text()
    );
}

#[test]
fn a_menu_of_the_streamed_application_gets_clicks_and_keys() {
    let Some(rig) = Rig::new(SCREEN, SCREEN) else {
        return;
    };
    let mut streamed = App::open(&rig.host_side, "streamed", PLACE);
    let mut menu = App::open(&rig.host_side, "a menu", (60, 60, 100, 100));
    menu.conn
        .change_property32(
            PropMode::REPLACE,
            menu.window,
            AtomEnum::WM_TRANSIENT_FOR,
            AtomEnum::WINDOW,
            &[streamed.window],
        )
        .expect("sent");
    menu.conn.sync().expect("a running X server");
    let host = rig.host(&["--window", "streamed"]);
    let _client = rig.client(&host, "client", &[]);
    let xtest = XTest::open(&rig.client_side);
    xtest.move_to(40, 40);
    xtest.button(1, true);
    xtest.button(1, false);
    let received = menu.wait_for(Received::ButtonUp(1));
    assert_eq!(received, [Received::ButtonDown(1), Received::ButtonUp(1)]);
    xtest.chord(&[A]);
    assert_eq!(
        menu.wait_for(Received::Up(A)),
        [Received::Down(A), Received::Up(A)]
    );
    assert!(streamed.is_idle(), "{:?}", streamed.take());
}
