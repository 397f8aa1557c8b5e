//! Injection into a real X server, observed by an independent client.

use std::time::Duration;

use openuvr_xserver::{Xvfb, fixture};
use x11rb::protocol::xproto::{self, ConnectionExt as _, EventMask};

use super::*;
use crate::input_source::script::Script;
use crate::input_source::{InputSource, SourceEvent};

/// A focused window that records events. It interprets keys by the core protocol's table, independently of the XKB code
/// under test.
struct Listener {
    conn: RustConnection,
    root: xproto::Window,
}

impl Listener {
    fn open(xvfb: &Xvfb) -> Listener {
        let (conn, root) = xvfb.connect();
        let window = conn.generate_id().unwrap();
        let events = EventMask::KEY_PRESS
            | EventMask::KEY_RELEASE
            | EventMask::BUTTON_PRESS
            | EventMask::BUTTON_RELEASE
            | EventMask::POINTER_MOTION;
        let attributes = xproto::CreateWindowAux::new()
            .event_mask(events)
            .override_redirect(1);
        let class = xproto::WindowClass::INPUT_ONLY;
        conn.create_window(0, window, root, 0, 0, 640, 480, 0, class, 0, &attributes)
            .unwrap();
        conn.map_window(window).unwrap();
        let focus = xproto::InputFocus::PARENT;
        conn.set_input_focus(focus, window, x11rb::CURRENT_TIME)
            .unwrap()
            .check()
            .unwrap();
        Listener { conn, root }
    }

    /// All events until the server had processed the sink's requests.
    fn all(&self, sink: &Xtest) -> Vec<Event> {
        x11rb::wrapper::ConnectionExt::sync(&sink.conn).unwrap();
        x11rb::wrapper::ConnectionExt::sync(&self.conn).unwrap();
        std::iter::from_fn(|| self.conn.poll_for_event().expect("alive"))
            .filter(|event| !matches!(event, Event::MappingNotify(_)))
            .collect()
    }

    fn symbol(&self, event: &xproto::KeyPressEvent) -> u32 {
        let map = self
            .conn
            .get_keyboard_mapping(event.detail, 1)
            .unwrap()
            .reply()
            .unwrap();
        let state = u16::from(event.state);
        let (shift, lock, level3) = (state & 1, state & 2, state & 0x80);
        // Core order: group 1 levels 1 and 2, group 2 levels 1 and 2, group 1 levels 3 and 4.
        let at = |column: u16| map.keysyms.get(usize::from(column)).copied().unwrap_or(0);
        let symbol = match at(shift + 4) {
            // Keys of two levels ignore the modifier for the third.
            third if third != 0 && level3 != 0 => third,
            _ => at(shift),
        };
        match char::from_u32(symbol).filter(|ch| ch.is_ascii_alphabetic() && lock != 0) {
            Some(ch) if shift != 0 => u32::from(ch.to_ascii_lowercase()),
            Some(ch) => u32::from(ch.to_ascii_uppercase()),
            None => symbol,
        }
    }

    /// The characters typed by key presses.
    fn text(&self, events: &[Event]) -> String {
        let typed = events.iter().filter_map(|event| match event {
            Event::KeyPress(event) => {
                assert_eq!(
                    u16::from(event.state) & 0x4c,
                    0,
                    "Control, Alt or Super is held"
                );
                match self.symbol(event) {
                    // Modifiers type nothing.
                    0xfe03 | 0xff7e | 0xffe1..=0xffee => None,
                    symbol => xkeysym::Keysym::new(symbol).key_char().or(Some('\u{fffd}')),
                }
            }
            _ => None,
        });
        typed.collect()
    }

    fn assert_nothing_pressed(&self) {
        let keys = self.conn.query_keymap().unwrap().reply().unwrap().keys;
        assert_eq!(keys, [0; 32], "keys are down");
        let pointer = self.conn.query_pointer(self.root).unwrap().reply().unwrap();
        assert_eq!(u16::from(pointer.mask), 0, "a button or modifier is down");
    }
}

fn run(sink: &mut Xtest, script: String) {
    let mut script = Script::new("test", std::io::Cursor::new(script));
    while let SourceEvent::Input(event) = script.next(None).expect("valid") {
        sink.apply(&event).expect("injected");
    }
}

fn setup(keyboard: &[&str]) -> Option<(Xvfb, Listener, Xtest)> {
    let xvfb = fixture::xvfb("640x480", &[])?;
    if !keyboard.is_empty() && !xvfb.keyboard(keyboard) {
        return None;
    }
    let listener = Listener::open(&xvfb);
    let sink = Xtest::open(Some(&xvfb.display)).expect("Xvfb has XTEST");
    Some((xvfb, listener, sink))
}

fn key(code: u16, text: Option<char>, pressed: bool) -> InputEvent {
    InputEvent::Key {
        code: KeyCode(code),
        text,
        pressed,
    }
}

const TEXT: &str = "Hello, W\u{f6}rld \u{20ac} zY-@|\u{df}\u{6f22}\u{6f22} {~}^";

fn types_letter_for_letter(keyboard: &[&str]) {
    let Some((_xvfb, listener, mut sink)) = setup(keyboard) else {
        return;
    };
    run(&mut sink, format!("text {TEXT}"));
    let events = listener.all(&sink);
    assert_eq!(listener.text(&events), TEXT, "{keyboard:?}");
    listener.assert_nothing_pressed();
}

#[test]
fn text_under_the_us_layout() {
    types_letter_for_letter(&["us"]);
}

#[test]
fn text_under_the_german_layout() {
    types_letter_for_letter(&["de"]);
}

#[test]
fn text_under_the_french_layout_and_old_key_codes() {
    types_letter_for_letter(&["-keycodes", "xfree86+aliases(azerty)", "-layout", "fr"]);
}

#[test]
fn more_foreign_characters_than_free_key_codes() {
    let Some((_xvfb, listener, mut sink)) = setup(&[]) else {
        return;
    };
    let map_before = listener
        .conn
        .get_keyboard_mapping(8, 248)
        .unwrap()
        .reply()
        .unwrap()
        .keysyms;
    let mut typed = String::new();
    for ch in (0..300).filter_map(|offset| char::from_u32(0x4e00 + offset)) {
        run(&mut sink, format!("text {ch}"));
        let events = listener.all(&sink);
        typed += &listener.text(&events);
    }
    assert!(
        typed
            .chars()
            .eq((0..300).filter_map(|offset| char::from_u32(0x4e00 + offset)))
    );
    drop(sink);
    let map = listener
        .conn
        .get_keyboard_mapping(8, 248)
        .unwrap()
        .reply()
        .unwrap();
    let width = usize::from(map.keysyms_per_keycode);
    for (row, before) in map.keysyms.chunks(width).zip(map_before.chunks(width)) {
        assert_eq!(row, before, "the map is restored");
    }
}

#[test]
fn a_key_that_types_right_is_pressed_as_it_is_and_held() {
    let Some((_xvfb, listener, mut sink)) = setup(&["us"]) else {
        return;
    };
    // Presses KEY_A, then KEY_Y with the text of a German keyboard, and releases them in the same order.
    for event in [
        key(30, Some('a'), true),
        key(21, Some('z'), true),
        key(30, None, false),
        key(21, None, false),
        key(21, None, false),
    ] {
        sink.apply(&event).unwrap();
    }
    let seen: Vec<(bool, u8)> = (listener.all(&sink).iter())
        .map(|event| match event {
            Event::KeyPress(event) => (true, event.detail),
            Event::KeyRelease(event) => (false, event.detail),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seen, [(true, 38), (true, 52), (false, 38), (false, 52)]);
    listener.assert_nothing_pressed();
}

#[test]
fn a_character_comes_from_a_key_that_keyboards_have() {
    let Some((_xvfb, listener, mut sink)) = setup(&["us"]) else {
        return;
    };
    // KEY_5 of a French keyboard. Linux also has a separate key for the parenthesis, and the layout maps it, but
    // programs that read keys by position do not know it.
    for event in [key(6, Some('('), true), key(6, None, false)] {
        sink.apply(&event).unwrap();
    }
    let events = listener.all(&sink);
    let pressed = events.iter().filter_map(|event| match event {
        Event::KeyPress(event) => Some(event.detail),
        _ => None,
    });
    // Shift and 9.
    assert_eq!(pressed.collect::<Vec<_>>(), [50, 18]);
    assert_eq!(listener.text(&events), "(");
}

#[test]
fn the_third_level_is_reached_by_the_key_that_keyboards_have() {
    let Some((_xvfb, listener, mut sink)) = setup(&["de"]) else {
        return;
    };
    // KEY_2 with Shift on an American keyboard.
    for event in [key(3, Some('@'), true), key(3, None, false)] {
        sink.apply(&event).unwrap();
    }
    let events = listener.all(&sink);
    let pressed = events.iter().filter_map(|event| match event {
        Event::KeyPress(event) => Some(event.detail),
        _ => None,
    });
    // AltGr and Q.
    assert_eq!(pressed.collect::<Vec<_>>(), [108, 24]);
    assert_eq!(listener.text(&events), "@");
}

#[test]
fn alt_gr_of_the_client_is_no_alt_here() {
    let Some((_xvfb, listener, mut sink)) = setup(&["us"]) else {
        return;
    };
    for event in [
        key(100, None, true), // right Alt: AltGr at the client, Alt under the us layout
        key(16, Some('@'), true),
        key(16, None, false),
    ] {
        sink.apply(&event).unwrap();
    }
    let events = listener.all(&sink);
    let character = events.iter().find_map(|event| match event {
        Event::KeyPress(event) if listener.symbol(event) == u32::from(b'@') => Some(event.state),
        _ => None,
    });
    assert_eq!(character.map(u16::from), Some(1), "Shift only");
    // Alt is down again for the next event, until the user releases it.
    let mask = listener
        .conn
        .query_pointer(listener.root)
        .unwrap()
        .reply()
        .unwrap()
        .mask;
    assert_eq!(u16::from(mask), 8);
    sink.apply(&key(100, None, false)).unwrap();
    listener.all(&sink);
    listener.assert_nothing_pressed();
}

#[test]
fn a_command_goes_to_the_key_that_has_its_letter() {
    let Some((_xvfb, listener, mut sink)) = setup(&["us"]) else {
        return;
    };
    let pressed = |sink: &mut Xtest, code: u16, letter: char| {
        sink.apply(&key(29, None, true)).unwrap();
        sink.apply(&key(code, Some(letter), true)).unwrap();
        sink.apply(&key(code, None, false)).unwrap();
        sink.apply(&key(29, None, false)).unwrap();
        let seen = listener.all(sink);
        let of_key = |event: &Event| match event {
            Event::KeyPress(event) => Some((event.detail, u16::from(event.state))),
            _ => None,
        };
        seen.iter().filter_map(of_key).collect::<Vec<_>>()
    };
    let (control, held) = ((37, 0), 4);
    // Ctrl+A of a French keyboard, whose A is at the position of Q on other keyboards. If it were sent by position, it
    // would be Ctrl+Q, which quits.
    assert_eq!(pressed(&mut sink, 16, 'a'), [control, (38, held)]);
    assert_eq!(pressed(&mut sink, 16, 'A').last(), Some(&(38, held | 1)));
    // A letter that no key of this layout has is sent as the physical key.
    assert_eq!(pressed(&mut sink, 46, '\u{441}'), [control, (54, held)]);
    // Caps Lock of the host does not change the command.
    run(&mut sink, "key KEY_CAPSLOCK".to_owned());
    listener.all(&sink);
    assert_eq!(pressed(&mut sink, 16, 'a'), [(37, 2), (38, held | 2)]);
    run(&mut sink, "key KEY_CAPSLOCK".to_owned());
    listener.all(&sink);
    listener.assert_nothing_pressed();
}

#[test]
fn caps_lock_at_the_host_alone_changes_no_letter() {
    let Some((_xvfb, listener, mut sink)) = setup(&["us"]) else {
        return;
    };
    run(&mut sink, "key KEY_CAPSLOCK".to_owned());
    listener.all(&sink);
    run(&mut sink, "text aB1".to_owned());
    assert_eq!(listener.text(&listener.all(&sink)), "aB1");
    run(&mut sink, "key KEY_CAPSLOCK".to_owned());
    listener.all(&sink);
    listener.assert_nothing_pressed();
}

#[test]
fn pointer_buttons_and_wheel() {
    let Some((_xvfb, listener, mut sink)) = setup(&[]) else {
        return;
    };
    let place = |listener: &Listener| {
        let reply = listener
            .conn
            .query_pointer(listener.root)
            .unwrap()
            .reply()
            .unwrap();
        (reply.root_x, reply.root_y)
    };
    sink.set_viewport(100, 50, Size::new(320, 200));
    for (at, expected) in [((0, 0), (100, 50)), ((65_535, 65_535), (419, 249))] {
        sink.apply(&InputEvent::PointerAbsolute { x: at.0, y: at.1 })
            .unwrap();
        listener.all(&sink);
        assert_eq!(place(&listener), expected);
    }
    sink.apply(&InputEvent::PointerRelative { dx: -19, dy: 1 })
        .unwrap();
    listener.all(&sink);
    assert_eq!(place(&listener), (400, 250));

    for button in [
        Button::LEFT,
        Button::MIDDLE,
        Button::RIGHT,
        Button::SIDE,
        Button::EXTRA,
    ] {
        sink.apply(&InputEvent::Button {
            button,
            pressed: true,
        })
        .unwrap();
        sink.apply(&InputEvent::Button {
            button,
            pressed: true,
        })
        .unwrap();
        sink.apply(&InputEvent::Button {
            button,
            pressed: false,
        })
        .unwrap();
    }
    for (dx, dy) in [
        (0, 60),
        (0, 60),
        (0, -250),
        (0, 10),
        (240, 0),
        (-119, 0),
        (-1, 0),
    ] {
        sink.apply(&InputEvent::Wheel { dx, dy }).unwrap();
    }
    let pressed: Vec<u8> = (listener.all(&sink).iter())
        .filter_map(|event| match event {
            Event::ButtonPress(event) => Some(event.detail),
            _ => None,
        })
        .collect();
    assert_eq!(pressed, [1, 2, 3, 8, 9, 4, 5, 5, 7, 7, 6]);
    assert!(
        sink.apply(&InputEvent::Button {
            button: Button(0x120),
            pressed: true
        })
        .is_err()
    );
    listener.assert_nothing_pressed();
}

#[test]
fn everything_is_released_on_request_and_on_drop() {
    let Some((_xvfb, listener, mut sink)) = setup(&["us"]) else {
        return;
    };
    let press_much = |sink: &mut Xtest| {
        run(
            sink,
            "key KEY_LEFTSHIFT down\nkey KEY_LEFTCTRL down\nbutton left down".to_owned(),
        );
        for (code, text) in [(30, Some('A')), (31, Some('\u{e4}')), (103, None)] {
            sink.apply(&key(code, text, true)).unwrap();
        }
        listener.all(sink);
        let keys = listener.conn.query_keymap().unwrap().reply().unwrap().keys;
        assert!(keys.iter().map(|byte| byte.count_ones()).sum::<u32>() >= 4);
    };
    press_much(&mut sink);
    sink.apply(&InputEvent::ReleaseAll).unwrap();
    listener.all(&sink);
    listener.assert_nothing_pressed();
    press_much(&mut sink);
    drop(sink);
    listener.assert_nothing_pressed();
}

#[test]
fn missing_keys_and_dead_servers_are_named() {
    let Some((mut xvfb, _listener, mut sink)) = setup(&[]) else {
        return;
    };
    let error = sink
        .apply(&key(700, None, true))
        .expect_err("no such key")
        .to_string();
    assert!(error.contains("lacks the key code 700"), "{error}");
    xvfb.kill();
    let error = sink
        .apply(&key(30, None, true))
        .expect_err("dead")
        .to_string();
    assert!(
        error.contains("is gone") && error.lines().count() == 1,
        "{error}"
    );
}

#[test]
fn from_a_german_client_to_a_us_host() {
    let Some((_host, listener, mut sink)) = setup(&["us"]) else {
        return;
    };
    let Some(client) = fixture::xvfb("640x480", &[]) else {
        return;
    };
    if !client.keyboard(&["de"]) {
        return;
    }
    let config = crate::present::x11::WindowConfig {
        display: Some(client.display.clone()),
        ..Default::default()
    };
    let (_presenter, mut source) = crate::present::x11::open(&config).expect("opens");
    // A user at the client's keyboard.
    let mut person = Xtest::open(Some(&client.display)).expect("Xvfb has XTEST");
    let text = "Gr\u{fc}\u{df}e: zY @ \u{20ac} {7}";
    run(&mut person, format!("text {text}"));
    x11rb::wrapper::ConnectionExt::sync(&person.conn).unwrap();
    for event in source.settle() {
        match event {
            SourceEvent::Input(event) => sink.apply(&event).expect("injected"),
            SourceEvent::Resized(_) | SourceEvent::Focused(true) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(listener.text(&listener.all(&sink)), text);
    listener.assert_nothing_pressed();
}

#[test]
fn a_grabbing_window_manager_sees_the_button_go_up() {
    let Some((xvfb, listener, mut sink)) = setup(&[]) else {
        return;
    };
    let drag = |pressed| InputEvent::Button {
        button: Button::LEFT,
        pressed,
    };
    sink.apply(&drag(true)).unwrap();
    // The server delays requests that are pending when the grab starts, so they are processed first.
    x11rb::wrapper::ConnectionExt::sync(&sink.conn).unwrap();
    listener.conn.grab_server().unwrap();
    x11rb::wrapper::ConnectionExt::sync(&listener.conn).unwrap();
    let (done, finished) = std::sync::mpsc::sync_channel(1);
    // The sink runs in a separate thread, because a sink that waits for the end of the grab would never return.
    let dragging = std::thread::spawn(move || {
        let moved = sink.apply(&InputEvent::PointerAbsolute { x: 9000, y: 9000 });
        let _ = done.send(moved.and_then(|()| sink.apply(&drag(false))));
        sink
    });
    let dragged = finished.recv_timeout(Duration::from_secs(60));
    assert!(dragged.is_ok_and(|dragged| dragged.is_ok()), "it hangs");
    let sink = dragging.join().unwrap();
    let events = listener.all(&sink);
    let last = events.last();
    assert!(matches!(last, Some(Event::ButtonRelease(_))), "{events:?}");
    drop(xvfb);
}

/// The number of presses of a key.
fn presses(events: &[Event]) -> usize {
    let press = |event: &&Event| matches!(event, Event::KeyPress(_));
    events.iter().filter(press).count()
}

#[test]
fn a_key_that_is_stopped_repeats_when_it_may_again() {
    let Some((xvfb, listener, mut sink)) = setup(&["us"]) else {
        return;
    };
    let rate = ["-display", &xvfb.display, "r", "rate", "150", "100"];
    let set = std::process::Command::new("xset").args(rate).status();
    if !set.is_ok_and(|status| status.success()) {
        return crate::skip::skip("xset is not installed: apt-get install x11-xserver-utils");
    }
    let before = sink
        .conn
        .xkb_get_controls(CORE_KEYBOARD)
        .unwrap()
        .reply()
        .unwrap();
    sink.apply(&key(30, Some('a'), true)).unwrap();
    sink.allow_repeat(false).unwrap();
    // On a busy machine, the key may repeat before it is stopped.
    assert_ne!(presses(&listener.all(&sink)), 0);
    // A running repeat would add 50 presses.
    std::thread::sleep(Duration::from_millis(650));
    assert_eq!(presses(&listener.all(&sink)), 0);
    let after = sink
        .conn
        .xkb_get_controls(CORE_KEYBOARD)
        .unwrap()
        .reply()
        .unwrap();
    assert_eq!(before.per_key_repeat, after.per_key_repeat);
    sink.allow_repeat(true).unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(20);
    let mut repeated = 0;
    while repeated < 5 && std::time::Instant::now() < end {
        repeated += presses(&listener.all(&sink));
    }
    assert!(repeated >= 5, "{repeated}");
    sink.apply(&key(30, None, false)).unwrap();
    listener.all(&sink);
    listener.assert_nothing_pressed();
    // A key that was released in the meantime is not pressed again.
    sink.apply(&key(30, Some('a'), true)).unwrap();
    sink.allow_repeat(false).unwrap();
    sink.apply(&key(30, None, false)).unwrap();
    sink.allow_repeat(true).unwrap();
    listener.all(&sink);
    listener.assert_nothing_pressed();
}

#[test]
fn a_character_without_a_key_is_typed() {
    let Some((_xvfb, listener, mut sink)) = setup(&["us"]) else {
        return;
    };
    for ch in "Gr\u{fc}\u{df}e \u{20ac}".chars() {
        for pressed in [true, false] {
            let event = InputEvent::Key {
                code: KeyCode::NONE,
                text: pressed.then_some(ch),
                pressed,
            };
            sink.apply(&event).unwrap();
        }
    }
    assert_eq!(
        listener.text(&listener.all(&sink)),
        "Gr\u{fc}\u{df}e \u{20ac}"
    );
    listener.assert_nothing_pressed();
}
