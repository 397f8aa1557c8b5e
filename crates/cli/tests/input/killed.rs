//! A killed host: the keys and buttons that the player is holding are released.

use crate::app::{App, Received};
use crate::rig::Rig;
use crate::support::eventually;
use crate::xtest::XTest;

const SCREEN: &str = "640x480";
/// The X key code of the letter A on every PC keyboard.
const A: u8 = 30 + 8;

#[test]
fn a_killed_host_leaves_no_key_and_no_button_pressed() {
    let Some(rig) = Rig::new(SCREEN, SCREEN) else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let mut host = rig.host(&[]);
    let mut client = rig.client(&host, "client", &[]);
    let xtest = XTest::open(&rig.client_side);
    xtest.move_to(100, 100);
    xtest.key(A, true);
    xtest.button(1, true);
    assert_eq!(
        app.wait_for(Received::ButtonDown(1)),
        [Received::Down(A), Received::ButtonDown(1)]
    );
    host.program.kill();
    let there = XTest::open(&rig.host_side);
    eventually("nothing is pressed any more", || {
        let (keys, buttons) = there.pressed();
        (keys.is_empty() && buttons == 0).then_some(())
    });
    app.poll();
    let received = app.take();
    assert!(received.contains(&Received::Up(A)), "{received:?}");
    assert!(received.contains(&Received::ButtonUp(1)), "{received:?}");
    client.kill();
}

#[test]
fn a_host_releases_keys_of_an_earlier_one() {
    let Some(rig) = Rig::new(SCREEN, SCREEN) else {
        return;
    };
    let _app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    // The state after a host was killed together with all its processes.
    let there = XTest::open(&rig.host_side);
    there.key(A, true);
    there.button(1, true);
    assert_eq!(there.pressed(), (vec![A], 1 << 8));
    let _host = rig.host(&[]);
    assert_eq!(there.pressed(), (vec![], 0));
}
