//! The client's window in a real Wayland compositor: pictures that are read back from its screen, and events of its
//! devices.
#![allow(clippy::unwrap_used)] // A test may panic.

mod devices;
#[path = "../../media/tests/skip/mod.rs"]
mod skip;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use openuvr_media::barcode::{self, Stamp};
use openuvr_media::cursor::{Cursor, CursorShape};
use openuvr_media::input_source::{InputSource, SourceEvent};
use openuvr_media::picture::Picture;
use openuvr_media::present::Presenter as _;
use openuvr_proto::id::FrameId;
use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::units::Size;
use openuvr_wayland::present::{WaylandPresenter, WindowConfig, open};
use openuvr_xserver::sway::Sway;

use devices::Devices;

const SCREEN: Size = Size::new(640, 360);

/// Time limit of each wait for the compositor; it is long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A window whose events a separate thread reads.
struct Window {
    presenter: WaylandPresenter,
    events: Receiver<SourceEvent>,
    /// Events that were received and have not been queried yet.
    seen: Vec<SourceEvent>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<Option<String>>>,
}

impl Window {
    fn open(sway: &Sway, config: WindowConfig) -> Window {
        let config = WindowConfig {
            display: Some(sway.socket().to_str().unwrap().to_owned()),
            ..config
        };
        let (presenter, mut source) = open(&config).unwrap();
        let (sender, events) = sync_channel(1024);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reader = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match source.next(Some(Duration::from_millis(50))) {
                    Ok(SourceEvent::TimedOut) => {}
                    Ok(event) => _ = sender.send(event),
                    Err(gone) => return Some(gone.to_string()),
                }
            }
            None
        });
        Window {
            presenter,
            events,
            seen: Vec::new(),
            stop,
            reader: Some(reader),
        }
    }

    /// Waits for the first `wanted` event. Returns all events up to it.
    fn until(&mut self, wanted: impl Fn(&SourceEvent) -> bool) -> Vec<SourceEvent> {
        let end = Instant::now() + PATIENCE;
        let mut events = std::mem::take(&mut self.seen);
        if let Some(at) = events.iter().position(&wanted) {
            self.seen = events.split_off(at + 1);
            return events;
        }
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left);
            let event = event.unwrap_or_else(|_| panic!("only {events:?}"));
            events.push(event);
            if wanted(&event) {
                return events;
            }
        }
    }

    fn until_input(&mut self, wanted: InputEvent) -> Vec<InputEvent> {
        let events = self.until(|event| *event == SourceEvent::Input(wanted));
        events.into_iter().filter_map(input).collect()
    }

    /// Waits for the end of the input source, and returns its error.
    fn end(mut self) -> Option<String> {
        self.reader.take().unwrap().join().unwrap()
    }

    /// Creates devices, and waits until a press of F13 has reached the window. From then on, the window receives the
    /// events of the devices.
    fn devices(&mut self, sway: &Sway) -> Devices {
        let mut devices = Devices::connect(&sway.socket());
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "no keyboard");
            devices.key(183, true);
            devices.key(183, false);
            while let Ok(event) = self.events.recv_timeout(Duration::from_millis(100)) {
                if is_key(event, 183) {
                    // Several presses of F13 may be on their way. The press and the release of F14 come after them.
                    devices.key(184, true);
                    devices.key(184, false);
                    for _ in 0..2 {
                        while !is_key(self.events.recv_timeout(PATIENCE).unwrap(), 184) {}
                    }
                    return devices;
                }
            }
        }
    }

    fn show(&mut self, id: u32, size: Size) -> Vec<u8> {
        let pixels = picture(id, size);
        let row = usize::try_from(size.width).unwrap() * 4;
        let shown = self
            .presenter
            .present(FrameId(id), &Picture::bgrx(size, &pixels, row));
        shown.unwrap();
        pixels
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn input(event: SourceEvent) -> Option<InputEvent> {
    match event {
        SourceEvent::Input(event) => Some(event),
        _ => None,
    }
}

/// Whether an event presses or releases the key with this evdev code.
fn is_key(event: SourceEvent, wanted: u16) -> bool {
    matches!(input(event), Some(InputEvent::Key { code, .. }) if code.0 == wanted)
}

/// A picture with a bar code and a non-periodic pattern.
fn picture(id: u32, size: Size) -> Vec<u8> {
    let row = usize::try_from(size.width).unwrap() * 4;
    let mut pixels: Vec<u8> = (0..size.pixels())
        .flat_map(|at| {
            let [a, b, c, _] = u32::try_from(at)
                .unwrap()
                .wrapping_mul(2_654_435_761)
                .wrapping_add(id << 5)
                .to_be_bytes();
            [a & 0x3f, b & 0x3f, c & 0x3f, 0]
        })
        .collect();
    let stamp = Stamp {
        frame: id,
        ..Stamp::default()
    };
    assert!(barcode::draw(&mut pixels, row, size, &stamp));
    pixels
}

/// Converts BGRX to RGB, the format of screenshots.
fn rgb(bgrx: &[u8]) -> Vec<u8> {
    let pixels = bgrx.chunks_exact(4);
    pixels.flat_map(|p| [p[2], p[1], p[0]]).collect()
}

/// The frame number in the bar code of a screenshot.
fn frame_in(size: Size, rgb: &[u8]) -> Option<u32> {
    let pixels = rgb.chunks_exact(3);
    let bgrx: Vec<u8> = pixels.flat_map(|p| [p[2], p[1], p[0], 0]).collect();
    let row = usize::try_from(size.width).unwrap() * 4;
    barcode::read(&Picture::bgrx(size, &bgrx, row)).map(|stamp| stamp.frame)
}

/// Takes screenshots until one satisfies the condition, or until the time limit. Returns the last one; `None` if no
/// screenshot can be taken.
fn screen_until(sway: &Sway, wanted: impl Fn(Size, &[u8]) -> bool) -> Option<(Size, Vec<u8>)> {
    let end = Instant::now() + PATIENCE;
    loop {
        let (size, pixels) = sway.screenshot()?;
        if wanted(size, &pixels) || Instant::now() > end {
            return Some((size, pixels));
        }
    }
}

fn config(size: Size) -> WindowConfig {
    WindowConfig {
        size,
        follow: true,
        ..WindowConfig::default()
    }
}

#[test]
fn the_screen_has_the_presented_pixels() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let mut window = Window::open(&sway, config(SCREEN));
    let resized = window.until(|event| matches!(event, SourceEvent::Resized(_)));
    assert_eq!(resized.last(), Some(&SourceEvent::Resized(SCREEN)));
    for id in 1..=3 {
        let wanted = rgb(&window.show(id, SCREEN));
        let seen = screen_until(&sway, |_, pixels| pixels == wanted);
        let Some((_, pixels)) = seen else { return };
        assert!(pixels == wanted, "picture {id} differs");
    }
    assert_eq!(window.presenter.skipped(), 0);

    // Only one band of the next picture is painted. The other bands keep the contents of the previous picture.
    let mut wanted = picture(3, SCREEN);
    let other = picture(9, SCREEN);
    let row = 640 * 4;
    let band = 100 * row..140 * row;
    wanted[band.clone()].copy_from_slice(&other[band.clone()]);
    for id in 4..=8 {
        let canvas = window.presenter.canvas().unwrap();
        let end = Instant::now() + PATIENCE;
        // While the compositor stalls, no buffer is free, and the picture is skipped.
        loop {
            if let Some(rows) = canvas.rows(SCREEN, 100..140) {
                rows.copy_from_slice(&other[band.clone()]);
            }
            if canvas.show(FrameId(id), SCREEN).unwrap() {
                break;
            }
            assert!(Instant::now() < end, "no buffer");
        }
        // An unchanged picture needs no buffer.
        assert!(canvas.show(FrameId(id), SCREEN).unwrap());
    }
    let wanted = rgb(&wanted);
    let (_, pixels) = screen_until(&sway, |_, pixels| pixels == wanted).unwrap();
    assert!(
        pixels == wanted,
        "the painted band is not between the kept rows"
    );
}

#[test]
fn presentation_times_follow_their_pictures() {
    // Without a screen, sway 1.7 reports only pictures that were replaced, and weston 10 reports no picture as visible.
    let Some(xvfb) = openuvr_xserver::fixture::xvfb("1280x800", &[]) else {
        return;
    };
    let Some(sway) = Sway::start_in(&xvfb.display) else {
        return;
    };
    let mut window = Window::open(&sway, config(SCREEN));
    let end = Instant::now() + PATIENCE;
    let (mut reports, mut submitted) = (Vec::new(), Vec::new());
    // Every second picture follows the previous one at once, before the display refreshes, so some are replaced. A
    // compositor may report the last picture only together with the next one.
    let visible =
        |reports: &[(FrameId, Option<_>)]| reports.iter().filter(|(_, at)| at.is_some()).count();
    let count = |window: &Window, submitted: usize| {
        submitted - usize::try_from(window.presenter.skipped()).unwrap()
    };
    while (visible(&reports) < 3 || visible(&reports) >= count(&window, submitted.len()))
        && Instant::now() < end
    {
        submitted.push(openuvr_clock::now());
        window.show(u32::try_from(submitted.len()).unwrap(), SCREEN);
        if submitted.len().is_multiple_of(2) {
            std::thread::sleep(Duration::from_millis(4));
        }
        while let Some(report) = window.presenter.presented() {
            reports.push(report);
        }
    }
    let count = count(&window, submitted.len());
    assert!(window.presenter.reports_times());
    let frames: std::collections::BTreeSet<u32> = reports.iter().map(|(id, _)| id.0).collect();
    assert_eq!(
        frames.len(),
        reports.len(),
        "each at most once: {reports:?}"
    );
    assert!(frames.len() <= count, "{reports:?}");
    let shown: Vec<_> = reports
        .iter()
        .filter_map(|(id, at)| Some((id.0, (*at)?)))
        .collect();
    assert!(shown.len() > 1 && shown.len() < count, "{reports:?}");
    for (id, at) in shown {
        let before = submitted[usize::try_from(id).unwrap() - 1];
        assert!(
            at > before,
            "picture {id} was visible before it was submitted"
        );
        assert!(
            at < openuvr_clock::now() + Duration::from_millis(100),
            "another clock"
        );
    }
}

#[test]
fn a_picture_of_another_shape_has_black_bars() {
    let screen = Size::new(640, 480);
    let Some(sway) = Sway::start(screen) else {
        return;
    };
    let mut window = Window::open(&sway, config(SCREEN));
    let pixels = window.show(1, SCREEN);
    let bar = vec![0; 640 * 60 * 3];
    let wanted = [bar.clone(), rgb(&pixels), bar].concat();
    let Some((_, seen)) = screen_until(&sway, |_, pixels| pixels == wanted) else {
        return;
    };
    assert!(seen == wanted);
    window.until(|event| *event == SourceEvent::Resized(screen));

    // A floating window has the picture's size, and follows its changes.
    sway.msg(&["floating", "enable"]);
    // The test waits for this size, because a late change to it would undo the next command.
    window.until(|event| *event == SourceEvent::Resized(SCREEN));
    sway.msg(&["resize", "set", "500", "400"]);
    window.until(|event| *event == SourceEvent::Resized(Size::new(500, 400)));
}

#[test]
fn text_and_pointer_are_drawn_over_the_picture() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let mut window = Window::open(&sway, config(SCREEN));
    let plain = rgb(&window.show(1, SCREEN));
    window
        .presenter
        .panel(&["latency 12 ms".to_owned()])
        .unwrap();
    let shape = CursorShape {
        width: 8,
        height: 8,
        hot_x: 0,
        hot_y: 0,
        argb: vec![0xffff_0000; 64],
    };
    let cursor = Cursor {
        at: Some((32_768, 32_768)),
        shape: Arc::new(shape),
    };
    window.presenter.cursor(&cursor).unwrap();
    let at = |pixels: &[u8], x: usize, y: usize| pixels[(y * 640 + x) * 3..][..3].to_vec();
    let red = |_: Size, pixels: &[u8]| at(pixels, 322, 182) == [255, 0, 0];
    let Some((_, seen)) = screen_until(&sway, red) else {
        return;
    };
    assert_eq!(at(&seen, 322, 182), [255, 0, 0], "the pointer's pixel");
    assert_eq!(at(&seen, 330, 182), at(&plain, 330, 182), "beside it");
    let inks = |pixels: &[u8]| {
        let rows = (14..30).flat_map(|y| (14..130).map(move |x| (x, y)));
        rows.filter(|(x, y)| at(pixels, *x, *y) == [255, 255, 255])
            .count()
    };
    let ground = at(&seen, 10, 10);
    assert!(inks(&seen) > inks(&plain) / 2 + 100, "letters are drawn");
    let darker = ground
        .iter()
        .zip(at(&plain, 10, 10))
        .all(|(now, before)| *now <= before);
    assert!(darker, "{ground:?}");

    // Without text and pointer, the whole picture is visible again.
    window.presenter.panel(&[]).unwrap();
    window
        .presenter
        .cursor(&Cursor { at: None, ..cursor })
        .unwrap();
    let (_, seen) = screen_until(&sway, |_, pixels| pixels == plain).unwrap();
    let wrong: Vec<(usize, usize)> = (0..640 * 360)
        .filter(|n| seen[n * 3..][..3] != plain[n * 3..][..3])
        .map(|n| (n % 640, n / 640))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} pixels from {:?} to {:?} are those of before",
        wrong.len(),
        wrong.first(),
        wrong.last()
    );
}

#[test]
fn a_scaled_output_shows_the_picture_at_its_size() {
    let screen = Size::new(1280, 720);
    let Some(sway) = Sway::start(screen) else {
        return;
    };
    let mut window = Window::open(&sway, config(screen));
    window.show(1, screen);
    window.until(|event| *event == SourceEvent::Resized(screen));
    sway.msg(&["output", "HEADLESS-1", "scale", "1.5"]);
    window.show(2, screen);
    let shows = |size: Size, pixels: &[u8]| frame_in(size, pixels) == Some(2);
    let Some((size, pixels)) = screen_until(&sway, shows) else {
        return;
    };
    assert_eq!(frame_in(size, &pixels), Some(2), "at {size}");
    // The picture covers the whole screen: its last row and its last column are not black.
    let row = usize::try_from(size.width).unwrap() * 3;
    let last = &pixels[pixels.len() - row..];
    assert!(last.iter().any(|byte| *byte != 0), "the last row is black");
}

#[test]
fn typed_text_arrives_letter_by_letter() {
    if !skip::has_program("wtype", "wtype") {
        return;
    }
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let mut window = Window::open(&sway, config(SCREEN));
    window.show(1, SCREEN);
    // The seat must have a keyboard before `wtype` starts. If the keyboard appeared only with `wtype`, the window would
    // miss the first keys.
    let _devices = window.devices(&sway);
    let text = "Grüße, мир! 10 €";
    let typed = sway.command("wtype").arg(text).status().unwrap();
    assert!(typed.success());
    let end = text.chars().last();
    let events = window.until(|event| {
        matches!(input(*event), Some(InputEvent::Key { text, pressed: true, .. }) if text == end)
    });
    let letters = events.into_iter().filter_map(|event| match input(event) {
        Some(InputEvent::Key { text, .. }) => text,
        _ => None,
    });
    assert_eq!(letters.collect::<String>(), text);

    // The key map of `wtype` has unusual names for all keys, including keys without a character, such as Return.
    let pressed = sway
        .command("wtype")
        .args(["-k", "Return", "-k", "F5"])
        .status();
    assert!(pressed.unwrap().success());
    let last = InputEvent::Key {
        code: KeyCode(63),
        text: None,
        pressed: false,
    };
    let events = window.until_input(last);
    let keys = events.iter().filter_map(|event| match event {
        InputEvent::Key { code, pressed, .. } if code.0 != 0 => Some((code.0, *pressed)),
        _ => None,
    });
    let expected = [(28, true), (28, false), (63, true), (63, false)];
    assert_eq!(keys.collect::<Vec<_>>(), expected);
}

#[test]
fn keys_have_positions_and_text_and_shortcuts_stay_here() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let mut window = Window::open(&sway, config(SCREEN));
    window.show(1, SCREEN);
    let mut devices = window.devices(&sway);
    devices.layout("de");
    let key = |code, text, pressed| InputEvent::Key {
        code: KeyCode(code),
        text,
        pressed,
    };
    // KEY_Y types z.
    devices.key(21, true);
    devices.key(21, false);
    let events = window.until_input(key(21, None, false));
    assert_eq!(events, [key(21, Some('z'), true), key(21, None, false)]);
    // Shift and KEY_2.
    devices.key(42, true);
    devices.modifiers(1);
    devices.key(3, true);
    devices.key(3, false);
    devices.key(42, false);
    devices.modifiers(0);
    let events = window.until_input(key(42, None, false));
    assert_eq!(
        events,
        [
            key(42, None, true),
            key(3, Some('"'), true),
            key(3, None, false),
            key(42, None, false)
        ]
    );
    // Ctrl+Alt+Shift+L and Ctrl+Alt+Shift+F are shortcuts, which do not reach the host.
    devices.modifiers(0b1101);
    devices.key(38, true);
    devices.key(38, false);
    let events = window.until(|event| *event == SourceEvent::ToggleOverlay);
    assert_eq!(events, [SourceEvent::ToggleOverlay]);
    devices.key(33, true);
    devices.key(33, false);
    devices.modifiers(0);
    let end = Instant::now() + PATIENCE;
    while !is_full_screen(&sway) {
        assert!(Instant::now() < end, "no full screen");
    }
    // A key that is down when the window loses the focus is released.
    devices.key(30, true);
    window.until_input(key(30, Some('a'), true));
    sway.msg(&["fullscreen", "disable"]);
    sway.msg(&["workspace", "another"]);
    let events = window.until(|event| *event == SourceEvent::Focused(false));
    assert!(events.contains(&SourceEvent::Input(InputEvent::ReleaseAll)));
    sway.msg(&["workspace", "back_and_forth"]);
    window.until(|event| *event == SourceEvent::Focused(true));
}

fn is_full_screen(sway: &Sway) -> bool {
    let tree = sway.msg(&["-t", "get_tree"]);
    let tree: String = tree.split_whitespace().collect();
    // The window's mode is the last mode in the text before the name of the window's application.
    let window = tree.find("\"app_id\":\"openuvr\"").expect("a window");
    let mode = tree[..window]
        .rfind("\"fullscreen_mode\":")
        .expect("a mode");
    tree[mode..].starts_with("\"fullscreen_mode\":1")
}

#[test]
fn the_pointer_moves_clicks_turns_and_is_locked_on_request() {
    // Without this setting of the seat, sway locks no pointer.
    let Some(sway) = Sway::start_with(SCREEN, "seat * pointer_constraint enable") else {
        return;
    };
    let mut window = Window::open(&sway, config(SCREEN));
    window.show(1, SCREEN);
    let mut devices = window.devices(&sway);
    devices.move_to((320, 90), SCREEN);
    let near = |event: &SourceEvent| {
        matches!(input(*event), Some(InputEvent::PointerAbsolute { x, y })
            if x.abs_diff(32_768) < 100 && y.abs_diff(16_384) < 200)
    };
    window.until(near);
    devices.button(0x111, true);
    devices.button(0x111, false);
    let button = |pressed| InputEvent::Button {
        button: Button::RIGHT,
        pressed,
    };
    let events = window.until_input(button(false));
    assert!(
        events.ends_with(&[button(true), button(false)]),
        "{events:?}"
    );
    devices.wheel(-1);
    window.until_input(InputEvent::Wheel { dx: 0, dy: 120 });

    // The host's application requests relative motion.
    window.presenter.relative_mouse(true).unwrap();
    window.until(|event| *event == SourceEvent::Grabbed(true));
    devices.move_by(7.0, -3.0);
    devices.move_by(0.5, 0.0);
    devices.move_by(0.5, 0.0);
    let motion = |dx, dy| InputEvent::PointerRelative { dx, dy };
    let events = window.until_input(motion(1, 0));
    assert_eq!(events, [motion(7, -3), motion(1, 0)]);
    window.presenter.relative_mouse(false).unwrap();
    window.until(|event| *event == SourceEvent::Grabbed(false));
    devices.move_to((10, 10), SCREEN);
    window.until(|event| matches!(input(*event), Some(InputEvent::PointerAbsolute { .. })));
}

#[test]
fn the_window_closes_on_request() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let mut window = Window::open(&sway, config(SCREEN));
    window.show(1, SCREEN);
    sway.msg(&["kill"]);
    window.until(|event| *event == SourceEvent::Closed);
}

#[test]
fn a_stopped_compositor_costs_pictures_and_a_dead_one_is_named() {
    let Some(mut sway) = Sway::start(SCREEN) else {
        return;
    };
    let mut window = Window::open(&sway, config(SCREEN));
    window.show(1, SCREEN);
    sway.freeze(true);
    for id in 2..10 {
        window.show(id, SCREEN);
    }
    assert!(
        window.presenter.skipped() > 0,
        "a stopped one takes no pictures"
    );
    sway.freeze(false);
    // When the compositor runs again, it shows the newest picture.
    let end = Instant::now() + PATIENCE;
    let before = window.presenter.skipped();
    let mut id = 10;
    loop {
        window.show(id, SCREEN);
        let shows = |size: Size, pixels: &[u8]| frame_in(size, pixels) == Some(id);
        let Some((size, pixels)) = sway.screenshot() else {
            return;
        };
        if shows(size, &pixels) {
            break;
        }
        assert!(Instant::now() < end, "{before} skipped");
        id += 1;
    }

    sway.kill();
    let pixels = picture(1, SCREEN);
    let gone = loop {
        let picture = Picture::bgrx(SCREEN, &pixels, 640 * 4);
        match window.presenter.present(FrameId(99), &picture) {
            Ok(()) => assert!(Instant::now() < end, "it takes pictures"),
            Err(gone) => break gone.to_string(),
        }
    };
    let source = window.end().expect("an error");
    for why in [gone, source] {
        assert!(
            why.contains("lost the connection to the compositor"),
            "{why}"
        );
        assert_eq!(why.lines().count(), 1, "{why}");
    }
}

#[test]
fn a_missing_compositor_is_named_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("wayland-9");
    let config = WindowConfig {
        display: Some(socket.to_str().unwrap().to_owned()),
        ..WindowConfig::default()
    };
    let why = open(&config).err().unwrap().to_string();
    assert!(
        why.contains("wayland-9") && why.contains("compositor"),
        "{why}"
    );
    assert_eq!(why.lines().count(), 1, "{why}");

    // A program that is no compositor listens on the socket. It closes the connection without an answer.
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let other = std::thread::spawn(move || drop(listener.accept()));
    let why = open(&config).err().unwrap().to_string();
    other.join().unwrap();
    assert_eq!(why.lines().count(), 1, "{why}");
}
