//! X11 applications, through Xwayland.

use std::time::Duration;

use openuvr_media::capture::Capture as _;
use openuvr_media::capture::cursor::{CursorEvent, CursorWatch as _};
use openuvr_media::clipboard::{Clipboard as _, ClipboardEvent, WatchMode};
use openuvr_media::input_sink::InputSink as _;
use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::units::Size;
use wayland_client::protocol::wl_data_device_manager::WlDataDeviceManager;
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, ClientMessageEvent, ConfigureWindowAux, ConnectionExt as _, CreateGCAux,
    CreateWindowAux, EventMask, GrabMode, PropMode, SELECTION_NOTIFY_EVENT, SelectionNotifyEvent,
    SelectionRequestEvent, Window, WindowClass,
};
use x11rb::rust_connection::{DefaultStream, RustConnection};
use x11rb::wrapper::ConnectionExt as _;

use crate::rig::Rig;
use crate::skip::has_program;

/// A client whose windows have known pixels.
struct XClient {
    conn: RustConnection,
    root: Window,
}

/// A display with Xwayland; `None` if Xwayland is not installed.
fn rig() -> Option<Rig> {
    has_program("Xwayland", "xwayland").then(Rig::new)
}

/// The socket of an X11 display.
fn socket(rig: &Rig) -> std::os::unix::net::UnixStream {
    let number = &rig.display.x11().unwrap().display[1..];
    std::os::unix::net::UnixStream::connect(format!("/tmp/.X11-unix/X{number}")).unwrap()
}

impl XClient {
    fn connect(rig: &Rig) -> XClient {
        let cookie = std::fs::read(&rig.display.x11().unwrap().authority).unwrap();
        let cookie = cookie[cookie.len() - 16..].to_vec();
        let (stream, _) = DefaultStream::from_unix_stream(socket(rig)).unwrap();
        let name = b"MIT-MAGIC-COOKIE-1".to_vec();
        let conn = RustConnection::connect_to_stream_with_auth_info(stream, 0, name, cookie);
        let conn = conn.unwrap();
        let root = conn.setup().roots[0].root;
        XClient { conn, root }
    }

    fn window(&self, at: (i16, i16), size: (u16, u16), colour: u32, overrides: bool) -> Window {
        let window = self.conn.generate_id().unwrap();
        let aux = CreateWindowAux::new()
            .background_pixel(colour)
            .override_redirect(u32::from(overrides))
            .event_mask(
                EventMask::KEY_PRESS
                    | EventMask::BUTTON_PRESS
                    | EventMask::POINTER_MOTION
                    | EventMask::STRUCTURE_NOTIFY,
            );
        let (class, visual) = (WindowClass::INPUT_OUTPUT, x11rb::COPY_FROM_PARENT);
        self.conn
            .create_window(
                0, window, self.root, at.0, at.1, size.0, size.1, 0, class, visual, &aux,
            )
            .unwrap();
        window
    }

    fn show(&self, window: Window) {
        self.conn.map_window(window).unwrap();
        self.conn.sync().unwrap();
    }

    fn dialog(&self, of: Window, size: (u16, u16), colour: u32) -> Window {
        let window = self.window((5, 5), size, colour, false);
        let (name, kind) = (AtomEnum::WM_TRANSIENT_FOR, AtomEnum::WINDOW);
        self.conn
            .change_property32(PropMode::REPLACE, window, name, kind, &[of])
            .unwrap();
        self.show(window);
        window
    }

    fn atom(&self, name: &str) -> u32 {
        let atom = self.conn.intern_atom(false, name.as_bytes()).unwrap();
        atom.reply().unwrap().atom
    }

    /// Takes a selection, and returns the display's request for the types of the copied data.
    fn copy(&self, owner: Window, selection: u32) -> SelectionRequestEvent {
        self.conn
            .set_selection_owner(owner, selection, x11rb::CURRENT_TIME)
            .unwrap();
        self.conn.flush().unwrap();
        self.until("a request for the types", |event| match event {
            Event::SelectionRequest(e) => Some(*e),
            _ => None,
        })
    }

    fn answer_types(&self, request: &SelectionRequestEvent, types: &[u32]) {
        let (to, name) = (request.requestor, request.property);
        self.conn
            .change_property32(PropMode::REPLACE, to, name, AtomEnum::ATOM, types)
            .unwrap();
        let answer = SelectionNotifyEvent {
            response_type: SELECTION_NOTIFY_EVENT,
            sequence: 0,
            time: request.time,
            requestor: to,
            selection: request.selection,
            target: request.target,
            property: name,
        };
        self.conn
            .send_event(false, to, EventMask::NO_EVENT, answer)
            .unwrap();
        self.conn.flush().unwrap();
    }

    /// Waits for an event.
    fn until<T>(&self, what: &str, find: impl Fn(&Event) -> Option<T>) -> T {
        let began = std::time::Instant::now();
        loop {
            while let Some(event) = self.conn.poll_for_event().unwrap() {
                if let Some(found) = find(&event) {
                    return found;
                }
            }
            assert!(began.elapsed().as_secs() < 20, "never: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

const MAIN: u32 = 0x00_3000;
const OTHER: u32 = 0x00_00ff;

#[test]
fn the_server_starts_on_demand_and_windows_are_placed() {
    let Some(mut rig) = rig() else { return };
    assert_eq!(rig.display.x11().unwrap().process(), None);
    let client = XClient::connect(&rig);
    assert!(rig.display.x11().unwrap().process().is_some());
    let main = client.window((40, 30), (100, 80), MAIN, false);
    client.show(main);
    rig.until(0, 0, MAIN);
    rig.until(639, 359, MAIN);
    let at = client.conn.get_geometry(main).unwrap().reply().unwrap();
    assert_eq!((at.x, at.y, at.width, at.height), (0, 0, 640, 360));
    let dialog = client.dialog(main, (100, 60), OTHER);
    rig.until(320, 180, OTHER);
    assert_eq!(rig.pixel(270, 150), Some(OTHER));
    assert_eq!(rig.pixel(269, 150), Some(MAIN));
    assert_eq!((rig.display.windows())(), 2);
    // After a change of its size, the dialog is still centred.
    let aux = ConfigureWindowAux::new().width(200).height(100);
    client.conn.configure_window(dialog, &aux).unwrap();
    client.conn.sync().unwrap();
    rig.until(220, 130, OTHER);
    client.conn.unmap_window(dialog).unwrap();
    client.conn.sync().unwrap();
    rig.until(320, 180, MAIN);
    // A menu is where its application positions it, above all other windows.
    let menu = client.window((50, 60), (30, 20), 0xff_0000, true);
    client.show(menu);
    rig.until(50, 60, 0xff_0000);
    assert_eq!(rig.pixel(79, 79), Some(0xff_0000));
    assert_eq!(rig.pixel(80, 80), Some(MAIN));
    drop(client);
    rig.until(0, 0, 0);
    assert_eq!((rig.display.windows())(), 0);
}

/// A toolkit makes a detached panel a window of its own in this way.
#[test]
fn a_window_that_leaves_its_parent_is_shown() {
    let Some(mut rig) = rig() else { return };
    let client = XClient::connect(&rig);
    let main = client.window((0, 0), (100, 80), MAIN, false);
    client.show(main);
    rig.until(0, 0, MAIN);
    let panel = client.conn.generate_id().unwrap();
    let aux = CreateWindowAux::new().background_pixel(OTHER);
    let (class, visual) = (WindowClass::INPUT_OUTPUT, x11rb::COPY_FROM_PARENT);
    client
        .conn
        .create_window(0, panel, main, 0, 0, 100, 60, 0, class, visual, &aux)
        .unwrap();
    let root = client.root;
    client.conn.reparent_window(panel, root, 0, 0).unwrap();
    client.show(panel);
    rig.until(320, 180, OTHER);
    assert_eq!((rig.display.windows())(), 2);
}

#[test]
fn only_programs_with_the_cookie_connect() {
    let Some(rig) = rig() else { return };
    let (stream, _) = DefaultStream::from_unix_stream(socket(&rig)).unwrap();
    let refused = RustConnection::connect_to_stream(stream, 0);
    assert!(refused.is_err());
    XClient::connect(&rig);
}

#[test]
fn input_reaches_the_window_below_the_pointer() {
    let Some(mut rig) = rig() else { return };
    let client = XClient::connect(&rig);
    let main = client.window((0, 0), (100, 80), MAIN, false);
    client.show(main);
    rig.until(0, 0, MAIN);
    let mut input = rig.display.input();
    let (x, y) = (32_768, 32_768);
    input.apply(&InputEvent::PointerAbsolute { x, y }).unwrap();
    let moved = client.until("motion", |event| match event {
        Event::MotionNotify(e) => Some((e.root_x, e.root_y)),
        _ => None,
    });
    assert_eq!(moved, (320, 180));
    let press = InputEvent::Button {
        button: Button::RIGHT,
        pressed: true,
    };
    input.apply(&press).unwrap();
    let button = client.until("a button", |event| match event {
        Event::ButtonPress(e) => Some(e.detail),
        _ => None,
    });
    assert_eq!(button, 3);
    // KEY_A
    let key = InputEvent::Key {
        code: KeyCode(30),
        text: None,
        pressed: true,
    };
    input.apply(&key).unwrap();
    let code = client.until("a key", |event| match event {
        Event::KeyPress(e) => Some(e.detail),
        _ => None,
    });
    assert_eq!(code, 38);
    input.release_all().unwrap();
}

/// Kills the X server. Returns its process id.
fn kill_server(rig: &Rig) -> u32 {
    let process = rig.display.x11().unwrap().process().unwrap();
    let id = rustix::process::Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    process
}

#[test]
fn a_crashed_server_is_replaced_and_wayland_applications_stay() {
    let Some(mut rig) = rig() else { return };
    let mut wayland = rig.client();
    wayland.coloured(None, OTHER);
    rig.until(0, 0, OTHER);
    let client = XClient::connect(&rig);
    let window = client.window((0, 0), (100, 80), MAIN, false);
    client.show(window);
    rig.until(320, 180, MAIN);
    let process = kill_server(&rig);
    rig.until(320, 180, OTHER);
    assert_eq!((rig.display.windows())(), 1);
    let client = XClient::connect(&rig);
    let window = client.window((0, 0), (100, 80), MAIN, false);
    client.show(window);
    rig.until(320, 180, MAIN);
    assert_ne!(rig.display.x11().unwrap().process(), Some(process));
}

#[test]
fn data_that_a_crashed_server_had_is_not_offered() {
    let Some(rig) = rig() else { return };
    let mut wayland = rig.client();
    wayland.coloured(None, OTHER);
    let qh = wayland.qh();
    let manager: WlDataDeviceManager = wayland.globals.bind(&qh, 3..=3, ()).unwrap();
    manager.get_data_device(&wayland.seat, &qh, ());
    wayland.sync();
    let client = XClient::connect(&rig);
    let owner = client.window((0, 0), (10, 10), MAIN, false);
    let (clipboard, text) = (client.atom("CLIPBOARD"), client.atom("UTF8_STRING"));
    let request = client.copy(owner, clipboard);
    client.answer_types(&request, &[text]);
    wayland.until("an offer", |events| events.offer.is_some());
    kill_server(&rig);
    wayland.until("no offer", |events| events.offer.is_none());
}

#[test]
fn an_applications_late_answer_does_not_undo_a_newer_copy() {
    let Some(rig) = rig() else { return };
    let mut clipboard = rig
        .display
        .clipboard(WatchMode::Changes, 1_000_000)
        .unwrap();
    let client = XClient::connect(&rig);
    let owner = client.window((0, 0), (10, 10), MAIN, false);
    let (selection, text) = (client.atom("CLIPBOARD"), client.atom("UTF8_STRING"));
    let request = client.copy(owner, selection);
    clipboard.offer("newer".into()).unwrap();
    client.until("the player's copy", |event| {
        matches!(event, Event::SelectionClear(_)).then_some(())
    });
    let waker = clipboard.waker();
    let serving = std::thread::spawn(move || clipboard.next_event());
    client.answer_types(&request, &[client.atom("image/png")]);
    let name = client.atom("PASTED");
    client
        .conn
        .convert_selection(owner, selection, text, name, x11rb::CURRENT_TIME)
        .unwrap();
    client.conn.flush().unwrap();
    client.until("an answer", |event| {
        matches!(event, Event::SelectionNotify(_)).then_some(())
    });
    let pasted = client
        .conn
        .get_property(false, owner, name, AtomEnum::ANY, 0, 100)
        .unwrap();
    assert_eq!(pasted.reply().unwrap().value, b"newer");
    waker.wake();
    serving.join().unwrap().unwrap();
}

#[test]
fn applications_are_refused_after_the_last_start() {
    use std::io::Read as _;

    let Some(mut rig) = rig() else { return };
    for colour in [MAIN, OTHER, MAIN, OTHER, MAIN] {
        let client = XClient::connect(&rig);
        let window = client.window((0, 0), (100, 80), colour, false);
        client.show(window);
        // The window is visible only when the window manager runs, so this start is complete before the server is
        // killed.
        rig.until(320, 180, colour);
        kill_server(&rig);
        let began = std::time::Instant::now();
        while rig.display.x11().unwrap().process().is_some() {
            assert!(began.elapsed().as_secs() < 20, "the end is not noticed");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    for _ in 0..2 {
        let mut refused = socket(&rig);
        let limit = Duration::from_secs(20);
        refused.set_read_timeout(Some(limit)).unwrap();
        assert_eq!(refused.read(&mut [0]).unwrap(), 0);
    }
    assert_eq!(rig.display.x11().unwrap().process(), None);
}

#[test]
fn a_grab_of_the_server_does_not_stop_the_display() {
    let Some(mut rig) = rig() else { return };
    let client = XClient::connect(&rig);
    let window = client.window((0, 0), (100, 80), MAIN, false);
    client.show(window);
    rig.until(0, 0, MAIN);
    client.conn.grab_server().unwrap();
    let other = client.window((0, 0), (100, 80), OTHER, false);
    client.conn.map_window(other).unwrap();
    client.conn.flush().unwrap();
    let mut wayland = rig.client();
    let window = wayland.window();
    window.toplevel.set_fullscreen(None);
    let picture = wayland.picture(Size::new(640, 360));
    picture.fill(0x5a_5a5a);
    wayland.show(&window.surface, &picture);
    rig.until(3, 3, 0x5a_5a5a);
    let _ = rig.capture.size();
    // Dropping the display must not wait for the grabbed server.
}

#[test]
fn a_game_that_hides_and_warps_the_pointer_locks_it() {
    let Some(mut rig) = rig() else { return };
    let client = XClient::connect(&rig);
    let main = client.window((0, 0), (640, 360), MAIN, false);
    client.show(main);
    rig.until(0, 0, MAIN);
    let mut input = rig.display.input();
    let middle = InputEvent::PointerAbsolute {
        x: 32_768,
        y: 32_768,
    };
    input.apply(&middle).unwrap();
    client.until("motion", |event| {
        matches!(event, Event::MotionNotify(_)).then_some(())
    });
    // Like SDL 2 without XInput, the client uses a cursor without pixels, and moves the pointer back to the middle
    // after each motion.
    let conn = &client.conn;
    let [pixmap, cursor] = [(); 2].map(|()| conn.generate_id().unwrap());
    conn.create_pixmap(1, pixmap, main, 1, 1).unwrap();
    let gc = conn.generate_id().unwrap();
    conn.create_gc(gc, pixmap, &CreateGCAux::new()).unwrap();
    let at = x11rb::protocol::xproto::Rectangle {
        width: 1,
        height: 1,
        ..Default::default()
    };
    conn.poly_fill_rectangle(pixmap, gc, &[at]).unwrap();
    conn.create_cursor(cursor, pixmap, pixmap, 0, 0, 0, 0, 0, 0, 0, 0)
        .unwrap();
    let (mode, events) = (GrabMode::ASYNC, EventMask::POINTER_MOTION);
    let now = x11rb::CURRENT_TIME;
    conn.grab_pointer(true, main, events, mode, mode, main, cursor, now)
        .unwrap();
    let warp = || {
        conn.warp_pointer(x11rb::NONE, main, 0, 0, 0, 0, 320, 180)
            .unwrap();
        conn.sync().unwrap();
    };
    warp();
    let mut watch = rig.display.cursor().unwrap();
    let began = std::time::Instant::now();
    loop {
        assert!(began.elapsed().as_secs() < 20, "it is not locked");
        match watch.next(Some(Duration::from_millis(200))).unwrap() {
            CursorEvent::Locked(locked) => break assert!(locked),
            _ => warp(),
        }
    }
    // The sum of these motions is far beyond the edge, because each motion starts from the middle.
    for _ in 0..5 {
        input
            .apply(&InputEvent::PointerRelative { dx: 200, dy: 0 })
            .unwrap();
        client.until("motion", |event| match event {
            Event::MotionNotify(e) if e.event_x > 400 => Some(()),
            _ => None,
        });
        warp();
    }
}

#[test]
fn a_client_that_opens_windows_and_sends_messages_without_end() {
    let Some(mut rig) = rig() else { return };
    let client = XClient::connect(&rig);
    for number in 0..3000_u32 {
        let window = client.window((0, 0), (2, 2), OTHER, number.is_multiple_of(2));
        client.conn.map_window(window).unwrap();
        for name in ["WL_SURFACE_ID", "WL_SURFACE_SERIAL", "_NET_WM_STATE"] {
            // Messages about windows that exist, and about windows that do not exist.
            let kind = client.conn.intern_atom(false, name.as_bytes()).unwrap();
            let kind = kind.reply().unwrap().atom;
            for of in [window, number, u32::MAX] {
                let event = ClientMessageEvent::new(32, of, kind, [number, u32::MAX, 2, 3, 4]);
                let mask = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
                client
                    .conn
                    .send_event(false, client.root, mask, event)
                    .unwrap();
            }
        }
        if number % 100 == 0 {
            let _ = rig.capture.next(Some(Duration::ZERO)).unwrap();
        }
    }
    client.conn.sync().unwrap();
    drop(client);
    let client = XClient::connect(&rig);
    let window = client.window((0, 0), (100, 80), MAIN, false);
    client.show(window);
    rig.until(0, 0, MAIN);
    assert_eq!((rig.display.windows())(), 1);
}

/// Starts an X11 program on the display.
fn start(rig: &Rig, program: &str, args: &[&str]) -> std::process::Child {
    let x11 = rig.display.x11().unwrap();
    let mut command = std::process::Command::new(program);
    command
        .args(args)
        .env("DISPLAY", &x11.display)
        .env("XAUTHORITY", &x11.authority)
        .env_remove("WAYLAND_DISPLAY")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn text_is_copied_between_x11_and_the_player() {
    use std::io::Write as _;

    if !has_program("xclip", "xclip") {
        return;
    }
    let Some(rig) = rig() else { return };
    let mut clipboard = rig
        .display
        .clipboard(WatchMode::Changes, 1_000_000)
        .unwrap();
    for text in ["grüße, 漢".to_owned(), "x".repeat(300_000)] {
        let mut copying = start(&rig, "xclip", &["-selection", "clipboard", "-i"]);
        let mut words = copying.stdin.take().unwrap();
        words.write_all(text.as_bytes()).unwrap();
        drop(words);
        copying.wait().unwrap();
        let copied = clipboard.next_event().unwrap();
        assert!(
            copied == ClipboardEvent::Copied(text.as_str().into()),
            "{copied:.100?}"
        );
    }
    for text in ["vom Spieler, 漢".to_owned(), "y".repeat(300_000)] {
        clipboard.offer(text.as_str().into()).unwrap();
        let waker = clipboard.waker();
        let pasted = std::thread::scope(|scope| {
            let thread = scope.spawn(|| clipboard.next_event().unwrap());
            let began = std::time::Instant::now();
            let pasted = loop {
                let pasting = start(&rig, "xclip", &["-selection", "clipboard", "-o"]);
                let output = pasting.wait_with_output().unwrap();
                // Until the offer has reached the server, a paste still returns the previously copied text.
                if output.stdout == text.as_bytes() || began.elapsed().as_secs() > 20 {
                    break output.stdout;
                }
            };
            waker.wake();
            assert_eq!(thread.join().unwrap(), ClipboardEvent::Woken);
            pasted
        });
        assert!(pasted == text.as_bytes(), "{} bytes", pasted.len());
    }
}
