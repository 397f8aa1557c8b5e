//! A streamed window that is minimised, or recreated by its application.

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::ConnectionExt as _;

use crate::app::{App, Received};
use crate::rig::Rig;
use crate::xtest::XTest;

const SCREEN: &str = "640x480";
const PLACE: (i16, i16, u16, u16) = (0, 0, 320, 240);
/// The X key code of the letter A on every PC keyboard.
const A: u8 = 30 + 8;

#[test]
fn a_minimised_window_is_reported_at_both_ends() {
    let Some(rig) = Rig::new(SCREEN, SCREEN) else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", PLACE);
    let host = rig.host(&["--window", "app"]);
    let client = rig.client(&host, "client", &[]);
    for round in 1..=2 {
        app.conn.unmap_window(app.window).expect("sent");
        app.conn.flush().expect("sent");
        let hidden = "openuvr host: the window is hidden";
        host.program.nth_line(round, hidden);
        client.nth_line(round, "openuvr client: the window is hidden at the host");
        app.conn.map_window(app.window).expect("sent");
        app.conn.flush().expect("sent");
        let shown = "openuvr host: the window is visible again";
        host.program.nth_line(round, shown);
        client.nth_line(
            round,
            "openuvr client: the window is visible again at the host",
        );
    }
    XTest::open(&rig.client_side).chord(&[A]);
    assert_eq!(
        app.wait_for(Received::Up(A)),
        [Received::Down(A), Received::Up(A)]
    );
}

#[test]
fn a_recreated_window_is_streamed_and_gets_input() {
    let Some(rig) = Rig::new(SCREEN, SCREEN) else {
        return;
    };
    let app = App::open(&rig.host_side, "app", PLACE);
    let mut host = rig.host(&["--window", "app"]);
    let mut client = rig.client(&host, "client", &[]);
    drop(app);
    host.program.line("openuvr host: the window is hidden");
    let mut second = App::open(&rig.host_side, "another title", (40, 40, 200, 100));
    host.program
        .line("openuvr host: the window is visible again");
    host.program.line("openuvr host: the picture is 200x100");
    let xtest = XTest::open(&rig.client_side);
    xtest.chord(&[A]);
    assert_eq!(
        second.wait_for(Received::Up(A)),
        [Received::Down(A), Received::Up(A)]
    );
    host.program.assert_running();
    client.assert_running();
    drop(second);
    let (status, text) = host.program.wait();
    assert!(status.success(), "{text}");
    assert!(text.contains("stream ended: window destroyed"), "{text}");
}
