//! Roles: one player at a time, and the pointer that observers see.

use openuvr_proto::control::negotiate::ObserverReason;
use x11rb::protocol::xproto::{self, ConnectionExt as _, ImageFormat};

use crate::app::{App, Received};
use crate::rig::Rig;
use crate::support::eventually;
use crate::xtest::XTest;

const A: u8 = 38;
const K: u8 = 45;
const L: u8 = 46;

#[test]
fn an_observer_only_watches() {
    let Some(rig) = Rig::new("320x240", "640x480") else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 320, 240));
    let host = rig.host(&[]);
    let _observer = rig.client(&host, "observer", &["--observe"]);
    let xtest = XTest::open(&rig.client_side);
    let window = xtest.windows("openuvr").pop().expect("its window");
    let title = xtest.text(window, xproto::AtomEnum::WM_NAME.into());
    assert!(
        title.contains("desk (watching only, as requested)"),
        "{title}"
    );
    let before = XTest::open(&rig.host_side).pointer();
    xtest.move_to(10, 10);
    xtest.chord(&[A, K]);
    xtest.button(1, true);
    xtest.button(1, false);

    // A player on the same display, with its own window. The pointer is in neither window.
    xtest.move_to(600, 450);
    let _player = rig.client(&host, "client", &[]);
    let mine = xtest.windows("openuvr");
    let player = *mine.iter().find(|w| **w != window).expect("two windows");
    xtest.move_resize(player, (320, 0, 320, 240));
    xtest.focus(player);
    xtest.chord(&[L]);
    assert_eq!(
        app.wait_for(Received::Up(L)),
        [Received::Down(L), Received::Up(L)]
    );
    assert_eq!(XTest::open(&rig.host_side).pointer(), before);
    xtest.focus(window);
    xtest.chord(&[A]);
    xtest.focus(player);
    xtest.chord(&[K]);
    assert_eq!(
        app.wait_for(Received::Up(K)),
        [Received::Down(K), Received::Up(K)]
    );
    assert!(app.is_idle());
}

#[test]
fn a_takeover_releases_keys_and_the_role_returns() {
    let Some(rig) = Rig::new("320x240", "640x480") else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 320, 240));
    let host = rig.host(&["--second-player", "take-over"]);
    let _old = rig.client(&host, "old", &[]);
    let xtest = XTest::open(&rig.client_side);
    let old = xtest.windows("openuvr").pop().expect("its window");
    xtest.key(A, true);
    app.wait_for(Received::Down(A));

    let new = rig.client(&host, "new", &["--take-over"]);
    host.program.line("old is now observer");
    let side = XTest::open(&rig.host_side);
    eventually("the old player's key is up", || {
        side.pressed().0.is_empty().then_some(())
    });
    app.wait_for(Received::Up(A));
    let windows = xtest.windows("openuvr");
    let theirs = *windows.iter().find(|w| **w != old).expect("two windows");
    xtest.move_resize(theirs, (320, 0, 320, 240));
    xtest.key(A, false);
    xtest.focus(old);
    xtest.chord(&[K]);
    xtest.focus(theirs);
    xtest.chord(&[L]);
    assert_eq!(
        app.wait_for(Received::Up(L)),
        [Received::Down(L), Received::Up(L)]
    );
    assert!(app.is_idle());

    // The window's title shows the client's role. When the new player leaves, the old one gets its role back.
    let title = |window| xtest.text(window, xproto::AtomEnum::WM_NAME.into());
    let taken_over = format!("({})", ObserverReason::TakenOver);
    eventually("the title of an observer", || {
        title(old).ends_with(&taken_over).then_some(())
    });
    let player = title(theirs);
    assert!(player.ends_with("desk"), "{player}");
    drop(new);
    host.program.line("old is now player");
    eventually("the title of a player", || {
        (title(old) == player).then_some(())
    });
    xtest.focus(old);
    xtest.chord(&[K]);
    assert_eq!(
        app.wait_for(Received::Up(K)),
        [Received::Down(K), Received::Up(K)]
    );
    assert!(app.is_idle());
}

#[test]
fn a_script_provides_input() {
    let Some(rig) = Rig::new("320x240", "320x240") else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 320, 240));
    let host = rig.host(&[]);
    let script = "\
        # walks, aims and shoots\n\
        key KEY_LEFTSHIFT down\n\
        key KEY_A\n\
        key KEY_LEFTSHIFT up\n\
        wait 20ms\n\
        move 0.5 0.5\n\
        rel 10 -4\n\
        button right\n\
        wheel 0 2\n\
        key KEY_K down\n\
        release\n\
        key KEY_L\n";
    std::fs::write(rig.folder.join("script"), script).expect("a temporary file");
    let file = rig.folder.join("script");
    // The script may end before the first picture is shown.
    let args = ["--input-script", &file];
    let mut client = host.client("client", &rig.client_side, &args);
    let (down, up) = (Received::Down, Received::Up);
    let (press, release) = (Received::ButtonDown, Received::ButtonUp);
    let shift = crate::xtest::SHIFT;
    let expected = [
        down(shift),
        down(A),
        up(A),
        up(shift),
        press(3),
        release(3),
        press(4),
        release(4),
        press(4),
        release(4),
        down(K),
        up(K),
        down(L),
        up(L),
    ];
    assert_eq!(app.wait_for(up(L)), expected);
    assert_eq!(XTest::open(&rig.host_side).pointer(), (170, 116));
    // The end of the script ends the client.
    assert!(client.wait().0.success(), "{}", client.text());
}

#[test]
fn an_observer_sees_the_players_pointer_where_it_is() {
    let Some(rig) = Rig::new("320x240", "320x240") else {
        return;
    };
    let app = App::open(&rig.host_side, "app", (0, 0, 320, 240));
    let pointer = XTest::open(&rig.host_side);
    pointer.red_square_over(app.window);
    pointer.move_to(50, 60);
    let host = rig.host(&[]);
    let _observer = rig.client(&host, "observer", &["--observe"]);
    let xtest = XTest::open(&rig.client_side);
    xtest.move_to(319, 239);
    wait_for_red_at(&xtest, (50, 60));
    pointer.move_to(200, 120);
    wait_for_red_at(&xtest, (200, 120));
}

/// Waits for a red square with its upper left at this position of the client's display.
fn wait_for_red_at(xtest: &XTest, (x, y): (i16, i16)) {
    let red = |x: i16, y: i16| {
        let image = xtest
            .conn
            .get_image(ImageFormat::Z_PIXMAP, xtest.root, x, y, 1, 1, !0)
            .expect("sent")
            .reply()
            .expect("a pixel of the screen")
            .data;
        image[2] > 200 && image[0] < 60 && image[1] < 60
    };
    eventually(&format!("the pointer at {x},{y}"), || {
        (red(x, y) && red(x + 15, y + 15) && !red(x - 1, y) && !red(x + 16, y + 15)).then_some(())
    });
}
