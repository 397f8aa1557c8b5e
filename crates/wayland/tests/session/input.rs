//! Injected keys, text, and pointer events, as a window receives them.

use std::time::Instant;

use openuvr_media::input_sink::InputSink as _;
use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_wayland::input_sink::WaylandInput;

use super::devices::Devices;
use super::*;

const A: KeyCode = KeyCode(30);
const LEFT_SHIFT: KeyCode = KeyCode(42);
/// This key marks the end of the events of a test. As a function key, it types no text.
const LAST: KeyCode = KeyCode(87);

fn key(code: KeyCode, text: Option<char>, pressed: bool) -> InputEvent {
    InputEvent::Key {
        code,
        text,
        pressed,
    }
}

/// Waits for the first `wanted` input event of the window. Returns all input events up to it.
fn until(window: &Window, wanted: impl Fn(&InputEvent) -> bool) -> Vec<InputEvent> {
    let end = Instant::now() + PATIENCE;
    let mut events = Vec::new();
    while let Ok(event) =
        (window.events).recv_timeout(end.saturating_duration_since(Instant::now()))
    {
        if let SourceEvent::Input(event) = event {
            events.push(event);
            if wanted(&event) {
                return events;
            }
        }
    }
    panic!("only {events:?}");
}

/// A focused window and an input sink.
fn pair(sway: &Sway) -> (Window, WaylandInput) {
    pair_on(sway, None)
}

/// Like [`pair`], but positions are relative to this output.
fn pair_on(sway: &Sway, output: Option<&str>) -> (Window, WaylandInput) {
    let mut window = Window::open(sway);
    let mut sink = WaylandInput::open(Some(&socket(sway)), output).unwrap();
    window.show(1);
    // Keys are lost until the window has the keyboard focus, so a key is pressed repeatedly until it arrives.
    let end = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < end, "the window never has the focus");
        sink.apply(&key(KeyCode(88), None, true)).unwrap();
        sink.apply(&key(KeyCode(88), None, false)).unwrap();
        let event = window.events.recv_timeout(Duration::from_millis(100));
        if matches!(
            event,
            Ok(SourceEvent::Input(InputEvent::Key {
                code: KeyCode(88),
                pressed: false,
                ..
            }))
        ) {
            break;
        }
    }
    (window, sink)
}

#[test]
fn text_of_other_layouts_is_typed_letter_for_letter() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let (window, mut sink) = pair(&sway);
    assert_eq!(typed(&window, &mut sink, TEXT), TEXT);
}

/// Characters of the layouts us, de, fr and ru, and some that none of these layouts has.
const TEXT: &str = "aZ0/;'[ öÄß€@{ éèçàù ЖёъЯ 字∀";

/// The text that the window receives when `text` is typed.
fn typed(window: &Window, sink: &mut WaylandInput, text: &str) -> String {
    for ch in text.chars() {
        sink.apply(&key(A, Some(ch), true)).unwrap();
        sink.apply(&key(A, Some(ch), false)).unwrap();
    }
    sink.apply(&key(LAST, None, true)).unwrap();
    let events = until(window, |event| {
        matches!(
            event,
            InputEvent::Key {
                code: LAST,
                pressed: true,
                ..
            }
        )
    });
    let typed = events.iter().filter_map(|event| match event {
        InputEvent::Key {
            text,
            pressed: true,
            ..
        } => *text,
        _ => None,
    });
    typed.collect()
}

#[test]
fn keys_modifiers_and_buttons_arrive_and_are_released() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let (window, mut sink) = pair(&sway);
    sink.apply(&InputEvent::PointerAbsolute {
        x: 32_768,
        y: 16_384,
    })
    .unwrap();
    sink.apply(&key(LEFT_SHIFT, None, true)).unwrap();
    sink.apply(&key(A, Some('A'), true)).unwrap();
    let left = InputEvent::Button {
        button: Button::LEFT,
        pressed: true,
    };
    sink.apply(&left).unwrap();
    let events = until(&window, |event| *event == left);
    assert!(events.contains(&key(A, Some('A'), true)), "{events:?}");
    let moved = events.iter().find_map(|event| match *event {
        InputEvent::PointerAbsolute { x, y } => Some((x, y)),
        _ => None,
    });
    let (x, y) = moved.expect("the pointer moved");
    assert!(
        x.abs_diff(32_768) < 200 && y.abs_diff(16_384) < 200,
        "{x} {y}"
    );
    // Dropping the sink releases all keys and buttons.
    drop(sink);
    let up = InputEvent::Button {
        button: Button::LEFT,
        pressed: false,
    };
    let events = until(&window, |event| *event == up);
    for code in [A, LEFT_SHIFT] {
        let released = |event: &InputEvent| matches!(event, InputEvent::Key { code: key, pressed: false, .. } if *key == code);
        assert!(events.iter().any(released), "{events:?}");
    }
}

#[test]
fn the_wheel_keeps_its_resolution() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let (window, mut sink) = pair(&sway);
    sink.apply(&InputEvent::PointerAbsolute {
        x: 32_768,
        y: 32_768,
    })
    .unwrap();
    for _ in 0..4 {
        sink.apply(&InputEvent::Wheel { dx: 0, dy: -60 }).unwrap();
    }
    sink.apply(&key(LAST, None, true)).unwrap();
    let events = until(&window, |event| {
        matches!(
            event,
            InputEvent::Key {
                code: LAST,
                pressed: true,
                ..
            }
        )
    });
    let turned: i32 = events
        .iter()
        .map(|event| match event {
            InputEvent::Wheel { dy, .. } => i32::from(*dy),
            _ => 0,
        })
        .sum();
    assert_eq!(turned, -240, "{events:?}");
}

#[test]
fn positions_are_relative_to_the_output_at_any_scale() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    sway.msg(&["create_output"]);
    sway.msg(&["output", "HEADLESS-2", "mode", "640x360", "scale", "1.5"]);
    sway.msg(&["focus", "output", "HEADLESS-2"]);
    let (window, mut sink) = pair_on(&sway, Some("HEADLESS-2"));
    // The output is 240 logical pixels high, and compositors round a window's size differently.
    let pixel = u16::MAX / 240;
    for (x, y) in [(16_384, 49_152), (49_152, 16_384)] {
        sink.apply(&InputEvent::PointerAbsolute { x, y }).unwrap();
        until(&window, |event| {
            matches!(event, InputEvent::PointerAbsolute { x: at_x, y: at_y }
                if at_x.abs_diff(x) <= pixel && at_y.abs_diff(y) <= pixel)
        });
    }
}

#[test]
fn text_is_typed_letter_for_letter_in_each_session_layout() {
    for (layout, second_key) in [("us", 'q'), ("de", 'q'), ("fr", 'a'), ("ru", 'й')] {
        let Some(sway) = Sway::start(SCREEN) else {
            return;
        };
        let mut keyboard = Devices::connect(&sway.socket());
        keyboard.layout(layout);
        // The keyboard that was used last becomes the seat's keyboard, so this one presses Escape.
        keyboard.key(1, true);
        keyboard.key(1, false);
        let (window, mut sink) = pair(&sway);
        assert_eq!(typed(&window, &mut sink, TEXT), TEXT, "{layout}");
        // A key event without a character has the meaning of the key in the session's layout.
        sink.apply(&key(LAST, None, false)).unwrap();
        sink.apply(&key(KeyCode(16), None, true)).unwrap();
        let event = until(
            &window,
            |event| matches!(event, InputEvent::Key { code, pressed: true, .. } if *code == KeyCode(16)),
        );
        let last = event.last().unwrap();
        assert_eq!(*last, key(KeyCode(16), Some(second_key), true), "{layout}");
    }
}
