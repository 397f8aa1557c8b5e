//! Whole desktops of GNOME and KDE, without a screen: pictures, pointer and input through their portals.
#![allow(clippy::unwrap_used)] // A test may panic.

mod answer;
mod bus;
mod desktop;
mod machine;
mod plasma;
mod shell;
#[path = "../../../media/tests/skip/mod.rs"]
mod skip;
mod window;

use std::time::{Duration, Instant};

use openuvr_desktop_portal::{DesktopSession, PortalInput, Portals};
use openuvr_media::barcode;
use openuvr_media::capture::cursor::{CursorEvent, CursorWatch as _};
use openuvr_media::capture::{Capture as _, CaptureEvent};
use openuvr_media::input_sink::InputSink as _;
use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::units::Size;

use self::answer::Answer;
use self::desktop::{Desktop, Kind};
use self::window::Window;

const SCREEN: Size = Size::new(1280, 720);

/// The limit of each wait for the desktop, on a busy or emulated machine.
const PATIENCE: Duration = Duration::from_secs(180);

const ENTER: KeyCode = KeyCode(28);

/// Characters whose keys differ between the American layout and other layouts.
const TEXT: &str = "zyZY?/\"@";

/// The portals of a desktop. The query is repeated, because on a busy machine, the portals start more slowly than a
/// single query allows.
fn portals(desktop: &Desktop) -> Portals {
    let until = Instant::now() + PATIENCE;
    loop {
        match Portals::probe(Some(&desktop.bus())) {
            Ok(portals) => return portals,
            Err(why) => assert!(Instant::now() < until, "{why}"),
        }
    }
}

/// Maximum number of permission dialogs. One of them must be accepted.
const QUESTIONS: u32 = 3;

/// Opens a session, and accepts its permission dialog.
fn open(desktop: &Desktop) -> DesktopSession {
    let options = desktop.options();
    let mut asked = 1;
    loop {
        let answer = Answer::start(desktop);
        let opened = DesktopSession::open(&options, &mut |_| true);
        drop(answer);
        match opened {
            Ok(session) => return session,
            // On a busy machine, a key may arrive before its button has the focus. The last key then presses Cancel.
            Err(why) if asked < QUESTIONS && why.to_string().contains("has not allowed") => {
                asked += 1;
            }
            Err(why) => panic!("{why}"),
        }
    }
}

/// Shows a picture with the number `id`, and waits until it is captured.
fn show(window: &mut Window, session: &mut DesktopSession, input: &mut PortalInput, id: u32) {
    window.show(id);
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until, "picture {id} never arrives");
        // GNOME asks whether a window may take its shortcuts; the button Allow has the focus.
        input.apply(&key(ENTER, None, true)).unwrap();
        input.apply(&key(ENTER, None, false)).unwrap();
        let event = session.capture.next(Some(Duration::from_secs(1))).unwrap();
        if event != CaptureEvent::Frame {
            // Mutter's PipeWire loses a picture that comes before a busy machine has fetched the previous one.
            window.show(id);
            continue;
        }
        let picture = session.capture.picture().unwrap();
        if barcode::read(&picture).is_some_and(|stamp| stamp.frame == id) {
            assert_eq!(picture.size, SCREEN);
            return;
        }
    }
}

fn key(code: KeyCode, text: Option<char>, pressed: bool) -> InputEvent {
    InputEvent::Key {
        code,
        text,
        pressed,
    }
}

#[test]
fn the_first_key_of_a_session_arrives() {
    // This desktop has no keyboard of its own. An application learns of the session's keyboard only when GNOME creates
    // it.
    let Some(desktop) = Desktop::start(Kind::Gnome) else {
        return;
    };
    let mut window = Window::open(&desktop, false);
    window.show(1);
    let mut session = open(&desktop);
    let mut input = session.input.take().unwrap();
    window.wait_for_focus();
    for pressed in [true, false] {
        input.apply(&key(KeyCode(30), Some('a'), pressed)).unwrap();
    }
    let typed = window.until(|event| match event {
        InputEvent::Key { text, .. } => Some(*text),
        _ => None,
    });
    assert_eq!(typed, Some('a'));
}

/// Tests pictures, pointer and input of a desktop.
fn whole(kind: Kind) {
    let Some(desktop) = Desktop::start(kind) else {
        return;
    };
    let portals = portals(&desktop);
    assert!(
        portals.screen_cast >= 4 && portals.remote_desktop.is_some(),
        "{portals:?}"
    );
    let mut session = open(&desktop);
    let mut input = session.input.take().unwrap();
    let near = |at: u16, wanted: u16| at.abs_diff(wanted) < 200;
    if kind.streams_pictures() {
        // The pointer is moved to a quarter of the width and half of the height before the window opens, because the
        // window hides the pointer.
        let mut cursor = session.cursor.take().unwrap();
        let until = Instant::now() + PATIENCE;
        // The motion is repeated until the pointer is there, because a desktop ignores positions before its stream has
        // started. The position differs each time, because a pointer that stays is not reported again.
        for x in [30_000, 16_384].into_iter().cycle() {
            assert!(
                Instant::now() < until,
                "the pointer never arrives: {:?}",
                cursor.cursor().at
            );
            input
                .apply(&InputEvent::PointerAbsolute { x, y: 32_768 })
                .unwrap();
            if let CursorEvent::Moved(Some((x, y))) =
                cursor.next(Some(Duration::from_secs(1))).unwrap()
                && near(x, 16_384)
                && near(y, 32_768)
            {
                break;
            }
        }
        assert!(!cursor.cursor().shape.is_invisible());
    }
    let mut window = Window::open(&desktop, true);
    window.show(1);
    if kind.streams_pictures() {
        show(&mut window, &mut session, &mut input, 1);
        show(&mut window, &mut session, &mut input, 2);
    }
    // Until the window has the keyboard focus, keys are lost.
    let f12 = KeyCode(88);
    window.wait_while(
        || {
            input.apply(&key(f12, None, true)).unwrap();
            input.apply(&key(f12, None, false)).unwrap();
        },
        |event| matches!(event, InputEvent::Key { code, pressed: false, .. } if *code == f12),
    );
    let typed = window.typed(&mut input, TEXT);
    assert_eq!(typed, TEXT);

    // The pointer is moved to three quarters of the width and half of the height.
    input
        .apply(&InputEvent::PointerAbsolute {
            x: 49_152,
            y: 32_768,
        })
        .unwrap();
    let at = window.until(|event| match event {
        InputEvent::PointerAbsolute { x, y } => Some((*x, *y)),
        _ => None,
    });
    assert!(near(at.0, 49_152) && near(at.1, 32_768), "{at:?}");
    input
        .apply(&InputEvent::Button {
            button: Button::LEFT,
            pressed: true,
        })
        .unwrap();
    input.apply(&InputEvent::Wheel { dx: 0, dy: -120 }).unwrap();
    input.apply(&key(KeyCode(30), Some('a'), true)).unwrap();
    let wheel = window.until(|event| match event {
        InputEvent::Wheel { dy, .. } => Some(*dy),
        _ => None,
    });
    assert_eq!(wheel, -120);
    // Nothing stays pressed.
    drop(input);
    let mut up = (false, false);
    window.until(|event| {
        match event {
            InputEvent::Key { pressed: false, .. } => up.0 = true,
            InputEvent::Button { pressed: false, .. } => up.1 = true,
            _ => {}
        }
        (up == (true, true)).then_some(())
    });
}

#[test]
fn kde_is_captured_and_played() {
    whole(Kind::Kde);
}

#[test]
fn gnome_is_captured_and_played() {
    whole(Kind::Gnome);
}

#[test]
fn a_server_that_stops_ends_the_capture_with_a_reason() {
    let Some(mut desktop) = Desktop::start(Kind::Kde) else {
        return;
    };
    let mut session = open(&desktop);
    desktop.kill("pipewire");
    let until = Instant::now() + PATIENCE;
    let why = loop {
        assert!(Instant::now() < until, "the end is not noticed");
        match session.capture.next(Some(Duration::from_secs(1))) {
            Ok(_) => {}
            Err(why) => break why.to_string(),
        }
    };
    assert!(why.contains("PipeWire") && !why.contains('\n'), "{why}");
}
