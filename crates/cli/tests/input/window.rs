//! The client's window.

use openuvr_proto::units::Size;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{self, AtomEnum, ConnectionExt as _, EventMask, Window};

use crate::app::{App, Received};
use crate::rig::{Rig, manager};
use crate::support::{Painter, ScreenCapture, eventually};
use crate::xtest::{ALT, CONTROL, SHIFT, XTest};

/// Presses the close button, as a window manager would.
pub(crate) fn close(xtest: &XTest, window: Window) {
    let atom = |name: &str| {
        let atom = xtest
            .conn
            .intern_atom(false, name.as_bytes())
            .expect("sent");
        atom.reply().expect("an atom").atom
    };
    let data = [atom("WM_DELETE_WINDOW"), 0, 0, 0, 0];
    let message = xproto::ClientMessageEvent::new(32, window, atom("WM_PROTOCOLS"), data);
    xtest
        .conn
        .send_event(false, window, EventMask::NO_EVENT, message)
        .expect("sent");
    xtest.conn.flush().expect("a running X server");
}

#[test]
fn title_size_full_screen_and_close_of_the_window() {
    let Some(rig) = Rig::new("320x240", "640x480") else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 320, 240));
    let host = rig.host(&[]);
    let mut client = rig.client(&host, "client", &["--size", "400x300"]);
    let xtest = XTest::open(&rig.client_side);
    let window = xtest.windows("openuvr").pop().expect("its window");
    let title = xtest.text(window, AtomEnum::WM_NAME.into());
    assert!(
        title.starts_with("OpenUVR") && title.contains("desk"),
        "{title}"
    );
    assert_eq!(xtest.geometry(window), (0, 0, 400, 300));

    let (q, f) = (16 + 8, 33 + 8);
    xtest.chord(&[CONTROL, ALT, SHIFT, f]);
    eventually("it covers the screen", || {
        (xtest.geometry(window) == (0, 0, 640, 480)).then_some(())
    });
    xtest.chord(&[CONTROL, ALT, SHIFT, f]);
    eventually("it is as before", || {
        (xtest.geometry(window) == (0, 0, 400, 300)).then_some(())
    });
    xtest.chord(&[CONTROL, ALT, SHIFT, q]);
    assert!(client.wait().0.success(), "{}", client.text());
    // The host did not get the letters of the combinations, and no key stays pressed.
    let host = XTest::open(&rig.host_side);
    eventually("nothing is pressed", || {
        host.pressed().0.is_empty().then_some(())
    });
    app.poll();
    let seen = app.take();
    assert!(
        !seen.contains(&Received::Down(q)) && !seen.contains(&Received::Down(f)),
        "{seen:?}"
    );
}

#[test]
fn window_manager_keys_go_to_the_host_while_grabbed() {
    let Some(rig) = Rig::new("320x240", "640x480") else {
        return;
    };
    let Some(_openbox) = manager(&rig, &rig.client_side) else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 320, 240));
    let host = rig.host(&[]);
    let mut client = rig.client(&host, "client", &["--full-screen", "--grab"]);
    let xtest = XTest::open(&rig.client_side);
    let (tab, f4, g) = (15 + 8, 62 + 8, 34 + 8);
    // The window grabs the mouse when it is viewable. Earlier motion is absolute.
    eventually("the grab works", || {
        xtest.move_by(3, 0);
        app.poll();
        (app.moved.0 > 0).then_some(())
    });
    eventually("it has the focus", || {
        xtest.chord(&[g]);
        app.poll();
        app.take().contains(&Received::Down(g)).then_some(())
    });
    // The focus arrives a moment before the keyboard grab.
    eventually("it has the window manager's keys", || {
        xtest.chord(&[ALT, tab]);
        app.wait_for(Received::Up(ALT))
            .contains(&Received::Down(tab))
            .then_some(())
    });
    xtest.chord(&[ALT, f4]);
    let received = app.wait_for(Received::Up(ALT));
    assert!(received.contains(&Received::Down(f4)), "{received:?}");
    client.assert_running();
    // The key combination that releases the grab. The window manager then has its keys again.
    xtest.chord(&[CONTROL, ALT, SHIFT, g]);
    eventually("the keyboard is let go", || {
        xtest.keyboard_is_free().then_some(())
    });
    // The window manager applies its keys to the focused window. The client's window gets the focus back a moment
    // later. While Openbox binds its keys again, it misses the combination, and the window gets the combination
    // instead.
    eventually("the window is closed", || {
        xtest.chord(&[ALT, f4]);
        std::thread::sleep(std::time::Duration::from_millis(200));
        client.has_ended().then_some(())
    });
    assert!(client.wait().0.success(), "{}", client.text());
}

#[test]
fn the_window_follows_the_pictures_size_and_fits_the_screen() {
    let Some(rig) = Rig::new("800x600", "400x400") else {
        return;
    };
    let mut painter = Painter::open(&rig.host_side, Size::new(320, 240), "painted");
    painter.paint();
    let host = rig.host(&["--window", "painted"]);
    let _client = rig.client(&host, "client", &[]);
    let xtest = XTest::open(&rig.client_side);
    let window = xtest.windows("openuvr").pop().expect("its window");
    assert_eq!(xtest.geometry(window), (0, 0, 320, 240));
    let mut resized = |width, height, expected: (u16, u16)| {
        painter.resize(Size::new(width, height));
        eventually(&format!("{expected:?}"), || {
            let (_, _, w, h) = xtest.geometry(window);
            ((w, h) == expected).then_some(())
        });
    };
    resized(320, 160, (320, 160));
    resized(800, 600, (400, 300));
    // From now on, the user controls the window's size.
    xtest.move_resize(window, (0, 0, 250, 250));
    // The client handles this motion after the resize. A picture of another size that came before the resize would
    // resize the window once more.
    let at_host = XTest::open(&rig.host_side);
    eventually("the client has handled the resize", || {
        xtest.move_to(19, 100);
        xtest.move_to(20, 100);
        // The picture of 800x600 is as wide as the window.
        (at_host.pointer().0.abs_diff(64) < 8).then_some(())
    });
    for height in [200, 210] {
        painter.resize(Size::new(330, height));
        let line = format!("openuvr host: the picture is 330x{height}");
        host.program.line(&line);
    }
    // If the window still followed the picture's size, it would have the first picture's size by now.
    assert_eq!(xtest.geometry(window), (0, 0, 250, 250));
}

#[test]
fn the_pointer_is_right_in_a_smaller_picture() {
    let Some(rig) = Rig::new("640x480", "640x480") else {
        return;
    };
    let _app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let host = rig.host(&[]);
    let args = ["--max-size", "320x320", "--bitrate", "2M"];
    let client = rig.client(&host, "client", &args);
    client.line("showing 320x240");
    let (xtest, at_host) = (XTest::open(&rig.client_side), XTest::open(&rig.host_side));
    xtest.move_to(160, 120);
    eventually("the pointer is in the middle", || {
        let (x, y) = at_host.pointer();
        ((320..=321).contains(&x) && (240..=241).contains(&y)).then_some(())
    });
}

#[test]
fn the_close_button_ends_the_client_and_not_the_host() {
    let Some(rig) = Rig::new("320x240", "640x480") else {
        return;
    };
    let _app = App::open(&rig.host_side, "app", (0, 0, 320, 240));
    let host = rig.host(&[]);
    for _ in 0..2 {
        let mut client = rig.client(&host, "client", &[]);
        let xtest = XTest::open(&rig.client_side);
        let window = xtest.windows("openuvr").pop().expect("its window");
        close(&xtest, window);
        assert!(client.wait().0.success(), "{}", client.text());
    }
    host.program.line("it disconnected");
}

#[test]
fn a_key_toggles_the_statistics_overlay() {
    let Some(rig) = Rig::new("640x480", "640x480") else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let host = rig.host(&[]);
    let _client = rig.client(&host, "client", &[]);
    let (xtest, capture) = (
        XTest::open(&rig.client_side),
        ScreenCapture::open(&rig.client_side),
    );
    let flat = |shot: &[u8]| {
        let mut pixels = shot.chunks(4).map(|pixel| &pixel[..3]);
        let first = pixels.next().expect("a screen");
        pixels.all(|pixel| pixel.iter().zip(first).all(|(a, b)| a.abs_diff(*b) < 8))
    };
    eventually("the application's one colour", || {
        flat(&capture.shot().pixels).then_some(())
    });
    let l = 38 + 8;
    xtest.chord(&[CONTROL, ALT, SHIFT, l]);
    // The overlay is white text on a darker ground, and covers only a part of the picture near the corner.
    let shot = eventually("letters", || {
        let shot = capture.shot().pixels;
        let white = shot.chunks(4).filter(|pixel| pixel[..3] == [255; 3]);
        (white.count() > 500).then_some(shot)
    });
    let at = |x: usize, y: usize| &shot[(y * 640 + x) * 4..][..3];
    assert!(
        at(9, 9)
            .iter()
            .zip(at(1, 1))
            .all(|(box_, picture)| box_ < picture)
    );
    assert!(flat(&shot[640 * 4 * 300..]), "only at the top");
    assert!(flat(&shot[..640 * 4 * 8]), "not at the edge");
    xtest.chord(&[CONTROL, ALT, SHIFT, l]);
    eventually("the picture alone", || {
        flat(&capture.shot().pixels).then_some(())
    });
    // The same key without modifiers goes to the application.
    xtest.chord(&[l]);
    let seen = app.wait_for(Received::Up(l));
    let downs = seen
        .iter()
        .filter(|received| **received == Received::Down(l))
        .count();
    assert_eq!(downs, 1, "{seen:?}");
}
