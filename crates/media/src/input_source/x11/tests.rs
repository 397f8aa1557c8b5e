//! What a person does at a real X server, made by XTEST, comes out as events of the wire.

use std::time::{Duration, Instant};

use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::units::Size;
use x11rb::protocol::xinput;
use x11rb::protocol::xproto::{
    self, BUTTON_PRESS_EVENT as DOWN, BUTTON_RELEASE_EVENT as UP, ConnectionExt as _,
    KEY_PRESS_EVENT as PRESS, KEY_RELEASE_EVENT as RELEASE, MOTION_NOTIFY_EVENT as MOVE,
};
use x11rb::rust_connection::RustConnection;

use super::*;
use crate::picture::Picture;
use crate::present::Presenter as _;
use crate::present::x11::{WindowConfig, X11Presenter, open};
use crate::xvfb::{Xvfb, fake};

struct Fixture {
    source: X11InputSource,
    presenter: X11Presenter,
    person: RustConnection,
    root: xproto::Window,
    // Last, so that it outlives the connections.
    xvfb: Xvfb,
}

fn fixture(keyboard: &[&str]) -> Option<Fixture> {
    fixture_with(keyboard, WindowConfig::default())
}

fn fixture_with(keyboard: &[&str], config: WindowConfig) -> Option<Fixture> {
    let xvfb = Xvfb::start("320x240")?;
    if !keyboard.is_empty() && !xvfb.keyboard(keyboard) {
        return None;
    }
    let config = WindowConfig {
        display: Some(xvfb.display.clone()),
        size: Size::new(200, 100),
        ..config
    };
    let (presenter, source) = open(&config).expect("Xvfb has everything");
    let (person, root) = xvfb.connect();
    let mut it = Fixture {
        source,
        presenter,
        person,
        root,
        xvfb,
    };
    // The pointer starts in the middle of the screen: bring it in, and forget that.
    fake(&it.person, MOVE, 0, 50, 50);
    it.seen();
    Some(it)
}

impl Fixture {
    fn seen(&mut self) -> Vec<SourceEvent> {
        let mut seen = Vec::new();
        loop {
            match self
                .source
                .next(Some(Duration::from_millis(30)))
                .expect("alive")
            {
                SourceEvent::TimedOut => return seen,
                event => seen.push(event),
            }
        }
    }

    fn inputs(&mut self) -> Vec<InputEvent> {
        let input = |event| match event {
            SourceEvent::Input(event) => Some(event),
            SourceEvent::Focused(_) | SourceEvent::Grabbed(_) => None,
            other => panic!("{other:?}"),
        };
        self.seen().into_iter().filter_map(input).collect()
    }

    fn keys(&self, kind: u8, keycodes: &[u8]) {
        for &keycode in keycodes {
            fake(&self.person, kind, keycode, 0, 0);
        }
    }

    fn grabbed(&self) -> bool {
        self.source.grab.is_active()
    }
}

fn key(code: u16, text: Option<char>, pressed: bool) -> InputEvent {
    InputEvent::Key {
        code: KeyCode(code),
        text,
        pressed,
    }
}

/// Control, Alt and Shift of an evdev key map.
const CHORD: [u8; 3] = [37, 64, 50];

#[test]
fn letters_carry_what_they_type_and_commands_their_letter() {
    let Some(mut it) = fixture(&["us"]) else {
        return;
    };
    it.keys(PRESS, &[38]);
    it.keys(RELEASE, &[38]);
    it.keys(PRESS, &[50, 38]);
    it.keys(RELEASE, &[38, 50]);
    it.keys(PRESS, &[37, 54]);
    it.keys(RELEASE, &[54, 37]);
    it.keys(PRESS, &[111]);
    it.keys(RELEASE, &[111]);
    let expected = [
        key(30, Some('a'), true),
        key(30, None, false),
        key(42, None, true),
        key(30, Some('A'), true),
        key(30, None, false),
        key(42, None, false),
        key(29, None, true),
        key(46, Some('c'), true),
        key(46, None, false),
        key(29, None, false),
        key(103, None, true),
        key(103, None, false),
    ];
    assert_eq!(it.inputs(), expected);
}

#[test]
fn layouts_give_text_also_when_they_change() {
    let Some(mut it) = fixture(&["us"]) else {
        return;
    };
    it.keys(PRESS, &[29]);
    it.keys(RELEASE, &[29]);
    assert_eq!(
        it.inputs(),
        [key(21, Some('y'), true), key(21, None, false)]
    );
    if !it.xvfb.keyboard(&["de"]) {
        return;
    }
    it.seen();
    it.keys(PRESS, &[29]);
    it.keys(RELEASE, &[29]);
    it.keys(PRESS, &[108, 24]); // AltGr and Q
    it.keys(RELEASE, &[24, 108]);
    let expected = [
        key(21, Some('z'), true),
        key(21, None, false),
        // AltGr only chooses what the other key types, and is another key elsewhere.
        key(16, Some('@'), true),
        key(16, None, false),
    ];
    assert_eq!(it.inputs(), expected);
}

#[test]
fn dead_keys_and_compose_carry_the_typed_text() {
    let Some(mut it) = fixture(&["de", "-option", "compose:rwin"]) else {
        return;
    };
    // Needs Xlib's tables: without them a dead key types its own sign.
    it.source.composer = Composer::from_text(
        "<dead_circumflex> <a> : \"\u{e2}\"\n<dead_circumflex> <space> : \"^\"\n\
         <Multi_key> <o> <o> : \"\u{b0}o\"\n",
    );
    let (circumflex, a, space, o, compose, backspace) = (49, 38, 65, 32, 134, 22);
    for keycode in [circumflex, a, circumflex, space, circumflex, backspace] {
        it.keys(PRESS, &[keycode]);
        it.keys(RELEASE, &[keycode]);
    }
    let click = |code, text| [key(code, text, true), key(code, None, false)];
    let expected = [
        click(30, Some('\u{e2}')),
        click(57, Some('^')),
        click(14, None),
    ];
    assert_eq!(it.inputs(), expected.concat());
    for keycode in [compose, o, o] {
        it.keys(PRESS, &[keycode]);
        it.keys(RELEASE, &[keycode]);
    }
    let both = [click(24, Some('\u{b0}')), click(24, Some('o'))];
    assert_eq!(it.inputs(), both.concat());
    // A sequence that nothing came of is forgotten with the focus.
    it.keys(PRESS, &[circumflex]);
    it.keys(RELEASE, &[circumflex]);
    assert_eq!(it.inputs(), []);
    it.source.focus_lost().expect("alive");
    it.keys(PRESS, &[a]);
    it.keys(RELEASE, &[a]);
    let after = [&[InputEvent::ReleaseAll][..], &click(30, Some('a'))].concat();
    assert_eq!(it.inputs(), after);
}

/// `Z`, `Q`, `S` and `D` of a French keyboard are where others have `W`, `A`, `S` and `D`.
const PLACES: [u8; 4] = [25, 38, 39, 40];

fn places(it: &mut Fixture) -> Vec<InputEvent> {
    for keycode in PLACES {
        it.keys(PRESS, &[keycode]);
    }
    for keycode in PLACES {
        it.keys(RELEASE, &[keycode]);
    }
    let pressed = |event: &InputEvent| matches!(event, InputEvent::Key { pressed: true, .. });
    it.inputs().into_iter().filter(pressed).collect()
}

#[test]
fn keys_by_position_carry_no_text_whatever_is_locked() {
    let config = WindowConfig {
        keys: Some(Keys::Position),
        ..WindowConfig::default()
    };
    let Some(mut it) = fixture_with(&["fr"], config) else {
        return;
    };
    let bare = [17, 30, 31, 32].map(|code| key(code, None, true));
    assert_eq!(places(&mut it), bare);
    it.keys(PRESS, &[66]);
    it.keys(RELEASE, &[66]);
    it.inputs();
    assert_eq!(places(&mut it), bare, "Caps Lock");
    // A dead key is a key like others.
    it.keys(PRESS, &[34]);
    it.keys(RELEASE, &[34]);
    assert_eq!(it.inputs(), [key(26, None, true), key(26, None, false)]);
}

#[test]
fn user_then_grab_then_host_choose_the_key_mode() {
    let Some(mut it) = fixture(&["fr"]) else {
        return;
    };
    let codes = [17, 30, 31, 32];
    let bare = codes.map(|code| key(code, None, true));
    let text = |letters: [char; 4]| {
        let both = codes.into_iter().zip(letters);
        both.map(|(code, ch)| key(code, Some(ch), true))
            .collect::<Vec<_>>()
    };
    let symbols = text(['z', 'q', 's', 'd']);
    assert_eq!(places(&mut it), symbols);
    it.source.follow(Keys::Position);
    assert_eq!(places(&mut it), bare);
    it.source.follow(Keys::Symbol);
    let toggle = |it: &mut Fixture, keycode| {
        it.keys(PRESS, &CHORD);
        it.keys(PRESS, &[keycode]);
        it.keys(RELEASE, &[keycode]);
        it.keys(RELEASE, &CHORD);
        it.seen()
    };
    toggle(&mut it, 42);
    assert!(it.grabbed());
    assert_eq!(places(&mut it), bare);
    // An application that takes both apart goes on to get both.
    it.source.follow(Keys::Both);
    assert_eq!(places(&mut it), symbols);
    it.source.follow(Keys::Symbol);
    let told = toggle(&mut it, 45);
    assert!(told.contains(&SourceEvent::Keys(Keys::Symbol)), "{told:?}");
    assert_eq!(places(&mut it), symbols);
    let told = toggle(&mut it, 45);
    assert!(
        told.contains(&SourceEvent::Keys(Keys::Position)),
        "{told:?}"
    );
    assert_eq!(places(&mut it), bare);
}

#[test]
fn with_both_dead_keys_and_composed_text_are_sent() {
    let Some(mut it) = fixture(&["de"]) else {
        return;
    };
    it.source.composer = Composer::from_text("<dead_circumflex> <a> : \"\u{e2}\"\n");
    it.source.follow(Keys::Both);
    for keycode in [49, 38] {
        it.keys(PRESS, &[keycode]);
        it.keys(RELEASE, &[keycode]);
    }
    let expected = [
        key(41, None, true),
        key(41, None, false),
        key(30, Some('\u{e2}'), true),
        key(30, None, false),
    ];
    assert_eq!(it.inputs(), expected);
}

#[test]
fn keys_of_a_window_manager_are_passed_on_while_grabbed() {
    let Some(mut it) = fixture(&["us"]) else {
        return;
    };
    // What a window manager does for Alt+Tab.
    let (manager, root) = it.xvfb.connect();
    let mode = xproto::GrabMode::ASYNC;
    manager
        .grab_key(false, root, xproto::ModMask::M1, 23, mode, mode)
        .unwrap()
        .check()
        .unwrap();
    let manages = || {
        x11rb::wrapper::ConnectionExt::sync(&manager).unwrap();
        let events = std::iter::from_fn(|| manager.poll_for_event().expect("alive"));
        events
            .filter(|event| matches!(event, Event::KeyPress(_)))
            .count()
    };
    let (alt, tab) = (64, 23);
    let switch = |it: &mut Fixture| {
        it.keys(PRESS, &[alt, tab]);
        it.keys(RELEASE, &[tab, alt]);
        it.inputs()
    };
    let seen = switch(&mut it);
    assert!(!seen.contains(&key(15, None, true)), "{seen:?}");
    assert_eq!(manages(), 1);
    let grab = |it: &mut Fixture| {
        it.keys(PRESS, &CHORD);
        it.keys(PRESS, &[42]);
        it.keys(RELEASE, &[42]);
        it.keys(RELEASE, &CHORD);
        it.seen();
    };
    grab(&mut it);
    assert!(it.grabbed());
    let passed = [
        key(56, None, true),
        key(15, None, true),
        key(15, None, false),
        key(56, None, false),
    ];
    assert_eq!(switch(&mut it), passed);
    assert_eq!(manages(), 0);
    grab(&mut it);
    assert!(!it.grabbed());
    let seen = switch(&mut it);
    assert!(!seen.contains(&key(15, None, true)), "{seen:?}");
    assert_eq!(manages(), 1);
}

#[test]
fn a_pressed_key_is_released_whatever_the_layout_says_then() {
    let Some(mut it) = fixture(&["us"]) else {
        return;
    };
    // The arrow up in this set of key codes, Print in the older one.
    it.keys(PRESS, &[111]);
    assert_eq!(it.inputs(), [key(103, None, true)]);
    if !it
        .xvfb
        .keyboard(&["-keycodes", "xfree86+aliases(qwerty)", "us"])
    {
        return;
    }
    assert_eq!(it.inputs(), []);
    it.keys(RELEASE, &[111]);
    assert_eq!(it.inputs(), [key(103, None, false)]);
}

#[test]
fn old_key_codes_are_read_by_name() {
    let Some(mut it) = fixture(&["-keycodes", "xfree86+aliases(qwerty)", "us"]) else {
        return;
    };
    for keycode in [98, 100, 113, 38] {
        it.keys(PRESS, &[keycode]);
        it.keys(RELEASE, &[keycode]);
    }
    let pressed: Vec<u16> = (it.inputs().iter())
        .filter_map(|event| match event {
            InputEvent::Key {
                code,
                pressed: true,
                ..
            } => Some(code.0),
            _ => None,
        })
        .collect();
    // KEY_UP, KEY_LEFT, KEY_RIGHTALT, KEY_A
    assert_eq!(pressed, [103, 105, 100, 30]);
}

#[test]
fn a_held_key_does_not_repeat() {
    let Some(mut it) = fixture(&[]) else { return };
    let repeat = ["-display", &it.xvfb.display, "r", "rate", "30", "200"];
    if std::process::Command::new("xset")
        .args(repeat)
        .status()
        .is_err()
    {
        eprintln!("xset is not installed: the server's own repeat rate is used");
    }
    it.keys(PRESS, &[38]);
    assert_eq!(it.inputs(), [key(30, Some('a'), true)]);
    // A second press of the same key is what a repeat looks like.
    let end = Instant::now() + Duration::from_millis(200);
    while Instant::now() < end {
        assert_eq!(it.inputs(), []);
    }
    it.keys(RELEASE, &[38]);
    assert_eq!(it.inputs(), [key(30, None, false)]);
}

#[test]
fn places_are_relative_to_the_picture_not_to_the_bars() {
    let Some(mut it) = fixture(&[]) else { return };
    // 100x100 in a window of 200x100: bars of 50 on both sides.
    let data = vec![9; 100 * 100 * 4];
    let picture = Picture::bgrx(Size::new(100, 100), &data, 400);
    it.presenter
        .present(openuvr_proto::id::FrameId(1), &picture)
        .expect("shown");
    let place = |pixel: u32| u16::try_from((2 * pixel + 1) * 65_535 / 200).unwrap();
    for ((x, y), (left, top)) in [((50, 0), (0, 0)), ((149, 99), (99, 99)), ((3, 20), (0, 20))] {
        fake(&it.person, MOVE, 0, x, y);
        let seen = it.inputs();
        let [InputEvent::PointerAbsolute { x, y }] = seen[..] else {
            panic!("{seen:?}")
        };
        assert!(
            x.abs_diff(place(left)) <= 1 && y.abs_diff(place(top)) <= 1,
            "{x},{y}"
        );
    }
}

#[test]
fn buttons_and_wheel() {
    let Some(mut it) = fixture(&[]) else { return };
    for button in 1..=9 {
        fake(&it.person, DOWN, button, 0, 0);
        fake(&it.person, UP, button, 0, 0);
    }
    let click = |button| {
        [true, false]
            .map(|pressed| InputEvent::Button { button, pressed })
            .into_iter()
    };
    let wheel = |dx, dy| InputEvent::Wheel { dx, dy };
    let expected: Vec<InputEvent> = click(Button::LEFT)
        .chain(click(Button::MIDDLE))
        .chain(click(Button::RIGHT))
        .chain([wheel(0, 120), wheel(0, -120), wheel(-120, 0), wheel(120, 0)])
        .chain(click(Button::SIDE))
        .chain(click(Button::EXTRA))
        .collect();
    assert_eq!(it.inputs(), expected);
}

#[test]
fn focus_loss_releases_everything_and_ends_the_grab() {
    let Some(mut it) = fixture(&[]) else { return };
    it.keys(PRESS, &CHORD);
    it.keys(PRESS, &[42]);
    it.keys(RELEASE, &[42]);
    it.keys(RELEASE, &CHORD);
    it.keys(PRESS, &[38]);
    let told = it.seen();
    assert!(told.contains(&SourceEvent::Grabbed(true)), "{told:?}");
    assert!(it.grabbed());
    let nobody = xproto::InputFocus::NONE;
    it.person
        .set_input_focus(nobody, x11rb::NONE, x11rb::CURRENT_TIME)
        .unwrap()
        .check()
        .unwrap();
    assert_eq!(it.inputs(), [InputEvent::ReleaseAll]);
    assert!(!it.grabbed());
    it.keys(RELEASE, &[38]);
    assert_eq!(it.inputs(), []);
}

/// A letter reaches the source in the same order as what was asked before.
fn settle(it: &mut Fixture) {
    it.keys(PRESS, &[38]);
    it.keys(RELEASE, &[38]);
    it.seen();
}

#[test]
fn the_hosts_relative_motion_request_is_followed() {
    let Some(mut it) = fixture(&[]) else { return };
    let focus = |it: &Fixture, window| {
        it.person
            .set_input_focus(xproto::InputFocus::NONE, window, x11rb::CURRENT_TIME)
            .unwrap()
            .check()
            .unwrap();
    };
    let grab_by_hand = |it: &mut Fixture| {
        it.keys(PRESS, &CHORD);
        it.keys(PRESS, &[42]);
        it.keys(RELEASE, &[42]);
        it.keys(RELEASE, &CHORD);
        it.seen();
    };
    it.presenter.relative_mouse(true).expect("alive");
    settle(&mut it);
    assert!(it.grabbed());
    fake(&it.person, MOVE, 1, 7, -3);
    assert_eq!(it.inputs(), [InputEvent::PointerRelative { dx: 7, dy: -3 }]);
    // It ends with the focus, and comes back with it.
    focus(&it, x11rb::NONE);
    it.seen();
    assert!(!it.grabbed());
    let window = it.source.window.id;
    focus(&it, window);
    it.seen();
    assert!(it.grabbed());
    // The person lets it go, also beyond a loss of the focus, until it is asked for anew.
    grab_by_hand(&mut it);
    assert!(!it.grabbed());
    focus(&it, x11rb::NONE);
    focus(&it, window);
    it.seen();
    assert!(!it.grabbed());
    it.presenter.relative_mouse(false).expect("alive");
    it.presenter.relative_mouse(true).expect("alive");
    settle(&mut it);
    assert!(it.grabbed());
    it.presenter.relative_mouse(false).expect("alive");
    settle(&mut it);
    assert!(!it.grabbed());
    // What the person took the host does not take away.
    grab_by_hand(&mut it);
    it.presenter.relative_mouse(true).expect("alive");
    it.presenter.relative_mouse(false).expect("alive");
    settle(&mut it);
    assert!(it.grabbed());
}

#[test]
fn a_grabbed_pointer_reports_relative_motion_only() {
    let Some(mut it) = fixture(&[]) else { return };
    it.keys(PRESS, &CHORD);
    it.keys(PRESS, &[42]);
    it.keys(RELEASE, &[42]);
    let seen = it.inputs();
    assert_eq!(
        seen.len(),
        3,
        "the combination's own key is not sent: {seen:?}"
    );
    assert!(it.grabbed());
    let total = |events: &[InputEvent]| {
        events.iter().fold((0, 0), |(x, y), event| match event {
            InputEvent::PointerRelative { dx, dy } => (x + dx, y + dy),
            other => panic!("{other:?}"),
        })
    };
    fake(&it.person, MOVE, 1, 7, -3);
    fake(&it.person, MOVE, 1, 5, 0);
    let seen = it.inputs();
    assert_eq!(total(&seen), (12, -3));
    // Far beyond the window's edge: the pointer stays, the motion doesn't.
    for _ in 0..5 {
        fake(&it.person, MOVE, 1, 300, 300);
    }
    let seen = it.inputs();
    assert_eq!(total(&seen), (1500, 1500));
    let pointer = it.person.query_pointer(it.root).unwrap().reply().unwrap();
    assert_eq!((pointer.root_x, pointer.root_y), (199, 99), "confined");
    fake(&it.person, DOWN, 1, 0, 0);
    let button = InputEvent::Button {
        button: Button::LEFT,
        pressed: true,
    };
    assert_eq!(it.inputs(), [button]);
    fake(&it.person, UP, 1, 0, 0);

    it.keys(PRESS, &[42]);
    it.keys(RELEASE, &[42]);
    let told = it.seen();
    assert!(told.contains(&SourceEvent::Grabbed(false)), "{told:?}");
    assert!(!it.grabbed());
    fake(&it.person, MOVE, 0, 20, 20);
    let seen = it.inputs();
    assert!(
        matches!(seen[..], [InputEvent::PointerAbsolute { .. }]),
        "{seen:?}"
    );
}

#[test]
fn a_mouse_that_vanishes_before_it_is_read_ends_nothing() {
    let Some(mut it) = fixture(&[]) else { return };
    let value = |integral| xinput::Fp3232 { integral, frac: 0 };
    let last = xinput::RawMotionEvent {
        sourceid: 200,
        valuator_mask: vec![3],
        axisvalues_raw: vec![value(3), value(-2)],
        ..xinput::RawMotionEvent::default()
    };
    let motion = it.source.grab.motion(&it.source.conn, &last).unwrap();
    assert_eq!(motion, Some((3, -2)));
}

#[test]
fn the_quit_combination_closes() {
    let Some(mut it) = fixture(&[]) else { return };
    it.keys(PRESS, &CHORD);
    it.keys(PRESS, &[24]);
    assert_eq!(it.seen().last(), Some(&SourceEvent::Closed));
}

#[test]
fn combinations_mute_sound_and_change_its_volume() {
    use super::super::SoundCommand::{Louder, Mute, Quieter};
    let Some(mut it) = fixture(&[]) else { return };
    it.keys(PRESS, &CHORD);
    for (keycode, wish) in [(58, Mute), (111, Louder), (116, Quieter)] {
        it.keys(PRESS, &[keycode]);
        it.keys(RELEASE, &[keycode]);
        let seen = it.seen();
        assert_eq!(seen.last(), Some(&SourceEvent::Sound(wish)), "{seen:?}");
    }
    it.keys(RELEASE, &CHORD);
    assert_eq!(it.inputs().len(), 3, "none of the three was sent");
}

#[test]
fn the_overlay_shortcut_is_reported_and_its_key_is_not() {
    let Some(mut it) = fixture(&[]) else { return };
    it.keys(PRESS, &CHORD);
    it.keys(PRESS, &[46]);
    it.keys(RELEASE, &[46]);
    let seen = it.seen();
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert_eq!(seen.last(), Some(&SourceEvent::ToggleOverlay));
    it.keys(RELEASE, &CHORD);
    let released = it.inputs();
    assert_eq!(released.len(), 3, "{released:?}");
    // Without the others it is a letter like any.
    it.keys(PRESS, &[46]);
    assert_eq!(it.inputs(), [key(38, Some('l'), true)]);
}

/// Gives the keyboard to this window; 0 takes it away from all.
fn focus(it: &Fixture, window: xproto::Window) {
    it.person
        .set_input_focus(xproto::InputFocus::NONE, window, x11rb::CURRENT_TIME)
        .unwrap()
        .check()
        .unwrap();
}

#[test]
fn a_modifier_that_was_down_before_counts_from_the_next_key() {
    let Some(mut it) = fixture(&["us"]) else {
        return;
    };
    let window = it.source.window.id;
    let (control, c, shift, up) = (37, 54, 50, 111);
    focus(&it, x11rb::NONE);
    it.keys(PRESS, &[control]);
    it.seen();
    focus(&it, window);
    assert_eq!(it.inputs(), [], "not before something carries it");
    it.keys(PRESS, &[c]);
    it.keys(RELEASE, &[c, control]);
    let expected = [
        key(29, None, true),
        key(46, Some('c'), true),
        key(46, None, false),
        key(29, None, false),
    ];
    assert_eq!(it.inputs(), expected);
    // Alt, with which a person came here, is no key of the host's; a wheel with Shift turns sideways.
    focus(&it, x11rb::NONE);
    it.keys(PRESS, &[64]);
    it.seen();
    focus(&it, window);
    it.keys(RELEASE, &[64]);
    it.keys(PRESS, &[up]);
    it.keys(RELEASE, &[up]);
    assert_eq!(it.inputs(), [key(103, None, true), key(103, None, false)]);
    focus(&it, x11rb::NONE);
    it.keys(PRESS, &[shift]);
    it.seen();
    focus(&it, window);
    fake(&it.person, DOWN, 4, 0, 0);
    fake(&it.person, UP, 4, 0, 0);
    it.keys(RELEASE, &[shift]);
    let expected = [
        key(42, None, true),
        InputEvent::Wheel { dx: 0, dy: 120 },
        key(42, None, false),
    ];
    assert_eq!(it.inputs(), expected);
    // A letter that was down is not pressed, and locks hold nothing.
    focus(&it, x11rb::NONE);
    it.keys(PRESS, &[38, 66]);
    it.seen();
    focus(&it, window);
    it.keys(PRESS, &[up]);
    it.keys(RELEASE, &[up, 38, 66]);
    assert_eq!(it.inputs(), [key(103, None, true), key(103, None, false)]);
}

#[test]
fn text_of_a_key_without_a_code_is_sent() {
    let Some(mut it) = fixture(&["us"]) else {
        return;
    };
    // As xdotool and on-screen keyboards do: a key code that nothing has is given a character.
    let unnamed = 8;
    let typed = |ch| [key(0, Some(ch), true), key(0, None, false)];
    for ch in ['\u{fc}', '\u{20ac}'] {
        let symbol = symbol_of(ch);
        it.person
            .change_keyboard_mapping(1, unnamed, 2, &[symbol, symbol])
            .unwrap()
            .check()
            .unwrap();
        it.seen();
        it.keys(PRESS, &[unnamed]);
        it.keys(RELEASE, &[unnamed]);
        assert_eq!(it.inputs(), typed(ch));
    }
    it.source.follow(Keys::Position);
    it.keys(PRESS, &[unnamed]);
    it.keys(RELEASE, &[unnamed]);
    assert_eq!(it.inputs(), typed('\u{20ac}'), "it has no position");
}

#[test]
fn arrows_of_the_keypad_are_arrows_whatever_num_lock_is() {
    let Some(mut it) = fixture(&["us"]) else {
        return;
    };
    let (four, five, num_lock) = (83, 84, 77);
    let mut tap = |keycode| {
        it.keys(PRESS, &[keycode]);
        it.keys(RELEASE, &[keycode]);
        it.inputs()
    };
    assert_eq!(tap(four), [key(105, None, true), key(105, None, false)]);
    assert_eq!(tap(five), [], "no other key does what it does");
    tap(num_lock);
    assert_eq!(tap(four), [key(75, Some('4'), true), key(75, None, false)]);
    tap(num_lock);
    it.source.follow(Keys::Position);
    it.keys(PRESS, &[four]);
    it.keys(RELEASE, &[four]);
    assert_eq!(it.inputs(), [key(75, None, true), key(75, None, false)]);
}
