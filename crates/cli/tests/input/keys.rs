//! The keyboard: typed text arrives once, in order, as the same letters, and no key stays pressed.

use std::process::Command;
use std::time::Duration;

use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, EventMask, MapState};

use crate::app::{App, Received};
use crate::rig::{Rig, layout, poll_until};
use crate::support::stalls::measured_without_stalls;
use crate::support::{Hop, Host, Program, Quality, eventually, skip};
use crate::terminal::{terminal, wait_for};
use crate::xtest::{CONTROL, SHIFT, XTest};

const SMALL: &str = "640x480";
/// X key codes that are the same on every PC keyboard: the row of letters from A to L.
const A: u8 = 30 + 8;
const K: u8 = 37 + 8;
const L: u8 = 38 + 8;

/// Measurements are repeated if the machine stalled for longer than this.
const STALLED: Duration = Duration::from_millis(100);

#[test]
fn letters_arrive_as_typed_under_any_layout() {
    let Some(rig) = Rig::new(SMALL, SMALL) else {
        return;
    };
    if !(layout(&rig.client_side, "de") && layout(&rig.host_side, "us")) {
        return;
    }
    let Some(_xterm) = terminal(&rig) else {
        return;
    };
    let host = rig.host(&[]);
    let _client = rig.client(&host, "client", &[]);
    let xtest = XTest::open(&rig.client_side);

    let german = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich: \
                  ÄÖÜ ß § 3 € 0123456789 !\"$%&/()=?{[]}\\+*#'-_.,;:<>|@µ yz YZ";
    xtest.type_text(german);
    wait_for(&rig, german);

    // The layouts change while the program runs.
    assert!(layout(&rig.client_side, "us") && layout(&rig.host_side, "de"));
    let american = "The quick brown fox: ~!@#$%^&*()_+`-={}|[]\\:\";'<>?,./ yz YZ";
    xtest.type_text(american);
    wait_for(&rig, &format!("{german}{american}"));

    assert!(layout(&rig.client_side, "fr") && layout(&rig.host_side, "us"));
    let french = "azerty AZERTY 0123456789 éèçà ù €";
    xtest.type_text(french);
    wait_for(&rig, &format!("{german}{american}{french}"));
    let host = XTest::open(&rig.host_side);
    eventually("all keys are up", || {
        host.pressed().0.is_empty().then_some(())
    });
}

/// For each layout, a text with all letters of its language.
pub(crate) const LAYOUTS: [(&str, &str); 4] = [
    (
        "us",
        "The quick brown fox jumps over the lazy dog, 0123456789! [{|}] <~>",
    ),
    (
        "de",
        "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich: ÄÖÜ @€",
    ),
    (
        "fr",
        "voix ambigue d'un coeur qui au zephyr prefere les jattes de kiwis éèçàù §",
    ),
    (
        "ru",
        "Съешь ещё этих мягких французских булок, да выпей же чаю. ЁЖ №",
    ),
];

/// Starts a program that prints the text that Xlib's input method returns for each key.
fn printer(rig: &Rig) -> Option<Program> {
    // Without a terminal, xev would buffer its output.
    let mut command = Command::new("stdbuf");
    command
        .args([
            "-oL",
            "xev",
            "-display",
            &rig.host_side.name,
            "-event",
            "keyboard",
        ])
        .env("LC_ALL", "C.UTF-8")
        .env_remove("XMODIFIERS");
    if Command::new("xev").arg("-version").output().is_err() {
        skip("xev is not installed: apt-get install x11-utils");
        return None;
    }
    let xev = Program::start("xev", command);
    xev.line("Outer window is");
    let host = XTest::open(&rig.host_side);
    let all = || host.conn.query_tree(host.root).expect("sent").reply();
    let window = eventually("its window", || {
        let windows = all().expect("a running X server").children;
        let shown = |window: &&u32| host.text(**window, AtomEnum::WM_NAME.into()) == "Event Tester";
        windows.iter().find(shown).copied()
    });
    eventually("the window is viewable", || {
        let is = host
            .conn
            .get_window_attributes(window)
            .expect("sent")
            .reply();
        (is.expect("it is there").map_state == MapState::VIEWABLE).then_some(())
    });
    host.focus(window);
    Some(xev)
}

/// The typed text, from the output of [`printer`].
fn printed(text: &str) -> String {
    let bytes = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once("XmbLookupString gives ")?;
        let (_, hex) = rest.split_once(": (")?;
        Some(hex.split_once(')')?.0)
    });
    let bytes = bytes.flat_map(|hex| hex.split(' '));
    let bytes: Vec<u8> = bytes
        .filter_map(|hex| u8::from_str_radix(hex, 16).ok())
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn an_input_method_gets_the_letters_of_four_layouts() {
    let Some(rig) = Rig::new(SMALL, SMALL) else {
        return;
    };
    if !layout(&rig.host_side, "us") {
        return;
    }
    let Some(xev) = printer(&rig) else {
        return;
    };
    let host = rig.host(&[]);
    let _client = rig.client(&host, "client", &[]);
    let xtest = XTest::open(&rig.client_side);
    let mut all = String::new();
    for (name, text) in LAYOUTS {
        assert!(layout(&rig.client_side, name));
        for word in text.split_inclusive(' ') {
            xtest.type_text(word);
            all += word;
            poll_until(|| printed(&xev.text()).len() >= all.len());
            assert_eq!(printed(&xev.text()), all, "{name}");
        }
    }
}

#[test]
fn russian_and_dead_keys_arrive_in_a_terminal_as_typed() {
    let Some(rig) = Rig::new(SMALL, SMALL) else {
        return;
    };
    if !(layout(&rig.client_side, "ru") && layout(&rig.host_side, "us")) {
        return;
    }
    let Some(_xterm) = terminal(&rig) else {
        return;
    };
    let host = rig.host(&[]);
    let _client = rig.client(&host, "client", &[]);
    let xtest = XTest::open(&rig.client_side);
    let (_, russian) = LAYOUTS[3];
    let mut all = String::new();
    // Text is typed word by word. If no key code is free, the host remaps a key code. By then, the terminal must have
    // handled the earlier keys, as with human typing.
    for word in russian.split_inclusive(' ') {
        xtest.type_text(word);
        all += word;
        wait_for(&rig, &all);
    }

    assert!(layout(&rig.client_side, "de"));
    if !std::path::Path::new("/usr/share/X11/locale/en_US.UTF-8/Compose").exists() {
        return skip("Xlib's compose tables are not installed: apt-get install libx11-data");
    }
    let (circumflex, acute, a, e, space) = (49, 21, 38, 26, 65);
    for keycode in [
        circumflex, a, acute, e, circumflex, space, acute, space, circumflex,
    ] {
        xtest.chord(&[keycode]);
    }
    xtest.chord(&[SHIFT, a]);
    wait_for(&rig, &format!("{russian}âé^'Â"));
}

#[test]
fn zqsd_of_a_french_keyboard_is_wasd_for_a_game() {
    let Some(rig) = Rig::new(SMALL, SMALL) else {
        return;
    };
    if !(layout(&rig.client_side, "fr") && layout(&rig.host_side, "us")) {
        return;
    }
    let mut app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let xtest = XTest::open(&rig.client_side);
    let (w, a, s, d, z, q) = (25, 38, 39, 40, 52, 24);
    let (places, letters) = ([w, a, s, d], [z, q, s, d]);
    let mut plays = |host: &Host, args: &[&str], keys: [u8; 4]| {
        let mut client = rig.client(host, "client", args);
        for place in places {
            xtest.chord(&[place]);
        }
        let expected: Vec<_> = keys
            .iter()
            .flat_map(|k| [Received::Down(*k), Received::Up(*k)])
            .collect();
        assert_eq!(app.wait_for(Received::Up(d)), expected, "{args:?}");
        client.kill();
    };
    let host = rig.host(&[]);
    plays(&host, &[], letters);
    plays(&host, &["--key-mapping", "position"], places);
    drop(host);
    // The host's setting applies if the client has none.
    let host = rig.host(&["--key-mapping", "position"]);
    plays(&host, &[], places);
    plays(&host, &["--key-mapping", "symbol"], letters);
}

#[test]
fn caps_lock_toggled_elsewhere_holds_no_shift_by_position() {
    let Some(rig) = Rig::new(SMALL, SMALL) else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let host = rig.host(&[]);
    let xtest = XTest::open(&rig.client_side);
    // Caps Lock is toggled before the client has a window.
    xtest.chord(&[66]);
    let _client = rig.client(&host, "client", &["--key-mapping", "position"]);
    xtest.chord(&[A]);
    assert_eq!(
        app.wait_for(Received::Up(A)),
        [Received::Down(A), Received::Up(A)]
    );
}

#[test]
fn keys_arrive_once_and_in_order_over_a_link_that_loses_a_fifth() {
    let Some(rig) = Rig::new(SMALL, SMALL) else {
        return;
    };
    let Some(_xterm) = terminal(&rig) else {
        return;
    };
    let host = rig.host(&["--fps", "10"]);
    let link = Quality::both("loss=20% delay=3ms jitter=3ms");
    let hop = Hop::start(&host, 0, link);
    let _client = rig.client_through(&hop, &host);
    let xtest = XTest::open(&rig.client_side);
    let text: String = (0..20).map(|i| format!("{i:02} aabbcc Loss; ")).collect();
    xtest.type_text(&text);
    wait_for(&rig, &text);
    let host = XTest::open(&rig.host_side);
    eventually("all keys are up", || {
        host.pressed().0.is_empty().then_some(())
    });
}

#[test]
fn the_host_repeats_held_keys() {
    let Some(rig) = Rig::new(SMALL, SMALL) else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let host = rig.host(&[]);
    let _client = rig.client(&host, "client", &[]);
    let xtest = XTest::open(&rig.client_side);
    XTest::open(&rig.client_side).set_repeat(true);
    XTest::open(&rig.host_side).set_repeat(false);
    // The client's window gets key repeats, but must not forward them to the host.
    let window = xtest.windows("openuvr").pop().expect("the client's window");
    let aux = x11rb::protocol::xproto::ChangeWindowAttributesAux::new();
    let aux = aux.event_mask(EventMask::KEY_PRESS);
    xtest
        .conn
        .change_window_attributes(window, &aux)
        .expect("sent");
    xtest.key(A, true);
    let mut presses = 0;
    eventually("the client's display repeats", || {
        while let Some(event) = xtest.conn.poll_for_event().expect("a running X server") {
            presses += usize::from(matches!(event, Event::KeyPress(_)));
        }
        (presses > 8).then_some(())
    });
    xtest.key(A, false);
    assert_eq!(
        app.wait_for(Received::Up(A)),
        [Received::Down(A), Received::Up(A)]
    );

    // Now the host's X server repeats the key until it is released.
    XTest::open(&rig.host_side).set_repeat(true);
    xtest.key(K, true);
    for _ in 0..4 {
        app.wait_for(Received::Down(K));
    }
    xtest.key(K, false);
    xtest.chord(&[L]);
    let tail = app.wait_for(Received::Down(L));
    assert_eq!(tail[tail.len() - 2..], [Received::Up(K), Received::Down(L)]);
}

/// Starts a client that holds two keys and a button, and calls `end`, which disconnects the client. Checks that the
/// host releases the keys and the button.
fn everything_is_released_after(end: impl FnOnce(&Rig, &mut Program, Option<Hop>), hop: bool) {
    let Some(rig) = Rig::new(SMALL, SMALL) else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let host = rig.host(&[]);
    let hop = hop.then(|| Hop::start(&host, 0, Quality::PERFECT));
    let mut client = match &hop {
        Some(hop) => rig.client_through(hop, &host),
        None => rig.client(&host, "client", &[]),
    };
    let xtest = XTest::open(&rig.client_side);
    xtest.move_to(100, 100);
    xtest.key(SHIFT, true);
    xtest.key(A, true);
    xtest.button(1, true);
    app.wait_for(Received::ButtonDown(1));
    let host = XTest::open(&rig.host_side);
    assert_eq!(host.pressed(), (vec![A, SHIFT], 0x100));
    end(&rig, &mut client, hop);
    eventually("everything is released", || {
        (host.pressed() == (vec![], 0)).then_some(())
    });
}

#[test]
fn nothing_stays_pressed_when_the_client_is_killed() {
    everything_is_released_after(|_, client, _| client.kill(), false);
}

#[test]
fn nothing_stays_pressed_when_the_client_is_closed() {
    everything_is_released_after(
        |rig, client, _| {
            let xtest = XTest::open(&rig.client_side);
            let window = xtest.windows("openuvr").pop().expect("its window");
            crate::window::close(&xtest, window);
            assert!(client.wait().0.success());
        },
        false,
    );
}

#[test]
fn nothing_stays_pressed_when_the_link_is_cut() {
    everything_is_released_after(
        // The client continues, without a connection.
        |_, _, hop| drop(hop.expect("a hop")),
        true,
    );
}

#[test]
fn nothing_stays_pressed_when_the_window_loses_the_focus() {
    let Some(rig) = Rig::new(SMALL, SMALL) else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let host = rig.host(&[]);
    let _client = rig.client(&host, "client", &[]);
    let xtest = XTest::open(&rig.client_side);
    let window = xtest.windows("openuvr").pop().expect("its window");
    let host = XTest::open(&rig.host_side);
    xtest.key(SHIFT, true);
    xtest.key(A, true);
    app.wait_for(Received::Down(A));
    let other = App::open(&rig.client_side, "other", (500, 0, 100, 100));
    eventually("everything is released", || {
        (host.pressed() == (vec![], 0)).then_some(())
    });
    // Input in other windows is not sent, but later input in the client's window is.
    xtest.chord(&[K]);
    xtest.key(A, false);
    xtest.key(SHIFT, false);
    drop(other);
    xtest.focus(window);
    xtest.chord(&[L]);
    let received = app.wait_for(Received::Up(L));
    assert_eq!(
        received[received.len() - 2..],
        [Received::Down(L), Received::Up(L)]
    );
    assert!(!received.contains(&Received::Down(K)), "{received:?}");
}

#[test]
fn a_tap_is_one_press_although_the_link_stalls_meanwhile() {
    let Some(rig) = Rig::new(SMALL, SMALL) else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let host = rig.host(&[]);
    let hop = Hop::start(&host, 0, Quality::PERFECT);
    let _client = rig.client_through(&hop, &host);
    let xtest = XTest::open(&rig.client_side);
    let at_host = XTest::open(&rig.host_side);
    at_host.set_repeat(true);
    // This application receives a repeat as a release and a press. When nothing is pressed, all repeats are over.
    let all = |app: &mut App| {
        eventually("all keys are up", || {
            at_host.pressed().0.is_empty().then_some(())
        });
        app.is_idle();
        app.take()
    };
    // The repeat delay is 900 ms. By then, even a busy host has suppressed the repeats of a silent player, but has not
    // yet released the player's keys.
    let rate = ["-display", &rig.host_side.name, "r", "rate", "900", "40"];
    let set = Command::new("xset").args(rate).status();
    if !set.is_ok_and(|status| status.success()) {
        return skip("xset is not installed: apt-get install x11-xserver-utils");
    }
    // A held key repeats although the picture does not change.
    xtest.key(A, true);
    let repeated = poll_until(|| {
        app.poll();
        app.pending(Received::Down(A)) >= 10
    });
    assert!(repeated);
    xtest.key(A, false);
    all(&mut app);
    for _ in 0..2 {
        // If this process or the host stalls before the link does, the key is held for longer than the repeat delay.
        measured_without_stalls(5, STALLED, || {
            xtest.key(K, true);
            let mut received = app.wait_for(Received::Down(K));
            let stalled = hop.stall();
            xtest.key(K, false);
            std::thread::sleep(Duration::from_millis(1300));
            drop(stalled);
            received.extend(all(&mut app));
            match received == [Received::Down(K), Received::Up(K)] {
                true => Ok(()),
                false => Err(format!("a tap arrives as {received:?}")),
            }
        });
    }
}

#[test]
fn modifiers_held_before_focus_count() {
    let Some(rig) = Rig::new(SMALL, SMALL) else {
        return;
    };
    let mut app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let host = rig.host(&[]);
    let _client = rig.client(&host, "client", &[]);
    let xtest = XTest::open(&rig.client_side);
    let window = eventually("the client's window", || xtest.windows("openuvr").pop());
    let other = App::open(&rig.client_side, "other", (0, 0, 64, 48));
    xtest.key(CONTROL, true);
    xtest.focus(window);
    xtest.chord(&[K]);
    xtest.key(CONTROL, false);
    let expected = [
        Received::Down(CONTROL),
        Received::Down(K),
        Received::Up(K),
        Received::Up(CONTROL),
    ];
    assert_eq!(app.wait_for(Received::Up(CONTROL)), expected);
    drop(other);
}

#[test]
fn text_typed_by_a_program_arrives() {
    let Some(rig) = Rig::new(SMALL, SMALL) else {
        return;
    };
    if !(layout(&rig.client_side, "us") && layout(&rig.host_side, "us")) {
        return;
    }
    if Command::new("xdotool").arg("version").output().is_err() {
        return skip("xdotool is not installed: apt-get install xdotool");
    }
    let Some(_xterm) = terminal(&rig) else {
        return;
    };
    let host = rig.host(&[]);
    let _client = rig.client(&host, "client", &[]);
    let text = "Grüße €";
    // xdotool remaps the same key code for each character that the layout lacks, so each character must be handled
    // before the next one is typed. xdotool removes the mapping when half of the delay after the press has passed. Even
    // a stalled client must have read the mapping by then.
    let mut typed = String::new();
    for ch in text.chars() {
        let delay = if ch.is_ascii() { "200" } else { "4000" };
        let status = Command::new("xdotool")
            .env("DISPLAY", &rig.client_side.name)
            .args(["type", "--delay", delay, &ch.to_string()])
            .status();
        assert!(status.is_ok_and(|status| status.success()));
        typed.push(ch);
        wait_for(&rig, &typed);
    }
}

#[test]
fn keypad_arrows_stay_arrows_with_num_lock() {
    let Some(rig) = Rig::new(SMALL, SMALL) else {
        return;
    };
    if !(layout(&rig.client_side, "us") && layout(&rig.host_side, "us")) {
        return;
    }
    const NUM_LOCK: u8 = 69 + 8;
    const KEYPAD: [u8; 4] = [72 + 8, 75 + 8, 77 + 8, 80 + 8];
    let Some(xev) = printer(&rig) else {
        return;
    };
    let host = rig.host(&[]);
    let _client = rig.client(&host, "client", &[]);
    XTest::open(&rig.host_side).chord(&[NUM_LOCK]);
    let xtest = XTest::open(&rig.client_side);
    for keycode in KEYPAD {
        xtest.chord(&[keycode]);
    }
    xtest.chord(&[A]);
    poll_until(|| printed(&xev.text()).ends_with('a'));
    assert_eq!(printed(&xev.text()), "a", "no digit");
    for symbol in ["Up", "Left", "Right", "Down"] {
        assert_eq!(
            xev.count(&format!(", {symbol})")),
            2,
            "{symbol}: down and up"
        );
    }
}
