//! The player's input as an application receives it.

use std::sync::Arc;
use std::time::Duration;

use openuvr_media::capture::cursor::{CursorEvent, CursorWatch as _};
use openuvr_media::cursor::CursorShape;
use openuvr_media::input_sink::InputSink as _;
use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::units::Size;
use wayland_client::protocol::wl_shm;
use wayland_protocols::wp::pointer_constraints::zv1::client::zwp_pointer_constraints_v1::{
    Lifetime, ZwpPointerConstraintsV1,
};
use wayland_protocols::wp::relative_pointer::zv1::client::zwp_relative_pointer_manager_v1::ZwpRelativePointerManagerV1;

use crate::rig::Rig;

fn key(code: u16, text: Option<char>, pressed: bool) -> InputEvent {
    InputEvent::Key {
        code: KeyCode(code),
        text,
        pressed,
    }
}

/// The keys of a player with a German keyboard, for a display with an English (US) layout: each physical key, and its
/// character on the German keyboard.
const TYPED: [(u16, char); 14] = [
    // On a German keyboard, KEY_Y types z and KEY_Z types y.
    (21, 'z'),
    (44, 'y'),
    (30, 'a'),
    (2, '1'),
    (26, 'ü'),
    (12, 'ß'),
    // AltGr and E.
    (18, '€'),
    (16, '@'),
    (53, '-'),
    (13, '´'),
    // These characters come from an input method, without a physical key.
    (0, 'я'),
    (0, '漢'),
    (0, '😀'),
    (43, '#'),
];

#[test]
fn typed_characters_arrive_letter_for_letter_in_each_layout() {
    let rig = Rig::new();
    let mut client = rig.client();
    client.coloured(None, 1);
    let mut input = rig.display.input();
    let expected: String = TYPED.iter().map(|(_, ch)| ch).collect();
    for (code, ch) in TYPED {
        input.apply(&key(code, Some(ch), true)).unwrap();
        input.apply(&key(code, Some(ch), false)).unwrap();
    }
    client.until("all", |events| events.typed.chars().count() >= TYPED.len());
    client.sync();
    assert_eq!(client.events.typed, expected);
    let down = client.events.keys.iter().filter(|(_, pressed)| *pressed);
    let up = client.events.keys.len() - down.clone().count();
    assert_eq!(down.count(), up, "nothing stays pressed");
}

#[test]
fn commands_go_to_the_key_with_their_letter() {
    let rig = Rig::new();
    let mut client = rig.client();
    client.coloured(None, 1);
    let mut input = rig.display.input();
    // Ctrl+Z on a German keyboard, where KEY_Y types z.
    for event in [
        key(29, None, true),
        key(21, Some('z'), true),
        key(21, Some('z'), false),
        key(29, None, false),
    ] {
        input.apply(&event).unwrap();
    }
    client.until("keys", |events| events.keys.len() == 4);
    let expected = [(29, true), (44, true), (44, false), (29, false)];
    assert_eq!(client.events.keys, expected);
}

#[test]
fn held_keys_and_buttons_are_released() {
    let rig = Rig::new();
    let mut client = rig.client();
    client.coloured(None, 1);
    let mut input = rig.display.input();
    let press = InputEvent::Button {
        button: Button::RIGHT,
        pressed: true,
    };
    input
        .apply(&InputEvent::PointerAbsolute { x: 100, y: 100 })
        .unwrap();
    for event in [key(42, None, true), key(30, Some('A'), true), press] {
        input.apply(&event).unwrap();
    }
    client.until("keys", |events| {
        events.keys.len() == 2 && events.buttons.len() == 1
    });
    input.release_all().unwrap();
    client.until("release", |events| {
        events.keys.len() == 4 && events.buttons.len() == 2
    });
    assert_eq!(client.events.buttons, [(0x111, true), (0x111, false)]);
    input.release_all().unwrap();
    client.sync();
    client.sync();
    assert_eq!(client.events.keys.len(), 4, "only once");
}

#[test]
fn the_pointer_goes_to_the_pixel_and_the_wheel_turns_in_parts() {
    let rig = Rig::new();
    let mut client = rig.client();
    client.coloured(None, 1);
    let mut input = rig.display.input();
    let mut watch = rig.display.cursor().unwrap();
    for (x, y, at) in [
        (0, 0, (0.0, 0.0)),
        (65_535, 65_535, (639.0, 359.0)),
        (32_768, 32_768, (320.0, 180.0)),
    ] {
        input.apply(&InputEvent::PointerAbsolute { x, y }).unwrap();
        client.until("motion", |events| events.moved == Some(at));
    }
    input
        .apply(&InputEvent::PointerRelative { dx: -20, dy: 5 })
        .unwrap();
    client.until("motion", |events| events.moved == Some((300.0, 185.0)));
    input.apply(&InputEvent::Wheel { dx: 0, dy: 30 }).unwrap();
    input.apply(&InputEvent::Wheel { dx: 0, dy: -240 }).unwrap();
    client.until("wheel", |events| events.wheel == [-30, 240]);
    let mut seen = Vec::new();
    while seen.last() != Some(&(300, 185)) {
        match watch.next(Some(Duration::from_secs(20))).unwrap() {
            CursorEvent::Moved(Some((x, y))) => {
                seen.push((u32::from(x) * 640 / 65_535, u32::from(y) * 360 / 65_535));
            }
            CursorEvent::TimedOut => panic!("only {seen:?}"),
            _ => {}
        }
    }
}

#[test]
fn a_locked_pointer_is_reported_and_moves_without_end() {
    let rig = Rig::new();
    let mut client = rig.client();
    let window = client.coloured(None, 1);
    let mut input = rig.display.input();
    let mut watch = rig.display.cursor().unwrap();
    let middle = InputEvent::PointerAbsolute {
        x: 32_768,
        y: 32_768,
    };
    input.apply(&middle).unwrap();
    client.until("motion", |events| events.moved == Some((320.0, 180.0)));
    let qh = client.qh();
    let relative: ZwpRelativePointerManagerV1 = client.globals.bind(&qh, 1..=1, ()).unwrap();
    relative.get_relative_pointer(&client.pointer, &qh, ());
    let constraints: ZwpPointerConstraintsV1 = client.globals.bind(&qh, 1..=1, ()).unwrap();
    let lock = constraints.lock_pointer(
        &window.surface,
        &client.pointer,
        None,
        Lifetime::Persistent,
        &qh,
        (),
    );
    client.until("lock", |events| events.locked);
    let locked = |watch: &mut openuvr_compositor::DisplayCursor| loop {
        match watch.next(Some(Duration::from_secs(20))).unwrap() {
            CursorEvent::Locked(locked) => return locked,
            CursorEvent::TimedOut => panic!("it is not reported"),
            _ => {}
        }
    };
    assert!(locked(&mut watch));
    for _ in 0..10 {
        input
            .apply(&InputEvent::PointerRelative { dx: 500, dy: -300 })
            .unwrap();
    }
    client.until("motion", |events| events.relative == (5000.0, -3000.0));
    assert_eq!(client.events.moved, Some((320.0, 180.0)), "it stays");
    lock.destroy();
    client.sync();
    input
        .apply(&InputEvent::PointerRelative { dx: 1, dy: 1 })
        .unwrap();
    client.until("motion", |events| events.moved == Some((321.0, 181.0)));
    assert!(!locked(&mut watch));
}

#[test]
fn a_confined_pointer_reaches_the_edges_and_no_further() {
    let rig = Rig::new();
    let mut client = rig.client();
    let window = client.coloured(None, 1);
    let mut input = rig.display.input();
    let mut move_by = |dx, dy| {
        input
            .apply(&InputEvent::PointerRelative { dx, dy })
            .unwrap();
    };
    move_by(320, 180);
    client.until("motion", |events| events.moved == Some((320.0, 180.0)));
    let qh = client.qh();
    let constraints: ZwpPointerConstraintsV1 = client.globals.bind(&qh, 1..=1, ()).unwrap();
    let region = client.compositor.create_region(&qh, ());
    region.add(300, 100, 200, 100);
    constraints.confine_pointer(
        &window.surface,
        &client.pointer,
        Some(&region),
        Lifetime::Persistent,
        &qh,
        (),
    );
    client.until("confinement", |events| events.confined);
    move_by(10, 10);
    client.until("motion", |events| events.moved == Some((330.0, 190.0)));
    // The pointer slides along the region's lower edge.
    move_by(100, 1000);
    client.until("motion", |events| events.moved == Some((430.0, 190.0)));
    move_by(5000, 0);
    move_by(0, 9);
    client.until("motion", |events| events.moved == Some((430.0, 199.0)));
}

#[test]
fn a_pointer_at_rest_enters_the_window_that_comes_under_it() {
    let rig = Rig::new();
    let mut client = rig.client();
    let main = client.coloured(None, 1);
    let mut input = rig.display.input();
    let middle = InputEvent::PointerRelative { dx: 320, dy: 180 };
    input.apply(&middle).unwrap();
    client.until("motion", |events| events.moved == Some((320.0, 180.0)));
    let dialog = client.coloured(Some(Size::new(100, 60)), 2);
    dialog.toplevel.set_parent(Some(&main.toplevel));
    client.until("entry", |events| events.moved == Some((50.0, 30.0)));
    dialog.toplevel.destroy();
    dialog.xdg.destroy();
    dialog.surface.destroy();
    client.until("return", |events| events.moved == Some((320.0, 180.0)));
}

#[test]
fn an_applications_cursor_is_sent_apart_from_the_picture() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    client.coloured(None, 0x00_3000);
    let mut input = rig.display.input();
    let mut watch = rig.display.cursor().unwrap();
    input
        .apply(&InputEvent::PointerAbsolute { x: 900, y: 900 })
        .unwrap();
    client.until("entered", |events| events.moved.is_some());
    rig.settle();
    let qh = client.qh();
    let surface = client.compositor.create_surface(&qh, ());
    let picture = client.picture_of(Size::new(8, 6), wl_shm::Format::Argb8888);
    picture.fill(0x8040_2010);
    client
        .pointer
        .set_cursor(client.events.serial, Some(&surface), 3, 2);
    client.show(&surface, &picture);
    client.sync();
    let mut shape: Option<Arc<CursorShape>> = None;
    // A new shape is reported before the next position.
    let shape = loop {
        match watch.next(Some(Duration::from_secs(20))).unwrap() {
            CursorEvent::Shaped(next) => shape = Some(next),
            CursorEvent::Moved(Some(_)) => {
                if let Some(shape) = shape.take_if(|shape| shape.width == 8) {
                    break shape;
                }
            }
            CursorEvent::TimedOut => panic!("no shape"),
            _ => {}
        }
    };
    assert_eq!((shape.height, shape.hot_x, shape.hot_y), (6, 3, 2));
    assert_eq!(shape.argb, vec![0x8040_2010; 48]);
    assert_eq!(rig.settle(), 0, "the picture has not changed");
    client.pointer.set_cursor(client.events.serial, None, 0, 0);
    client.sync();
    let hidden = watch.next(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(hidden, CursorEvent::Moved(None));
}
