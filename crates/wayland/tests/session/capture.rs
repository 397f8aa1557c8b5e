//! Pictures of an output.

use std::time::Instant;

use openuvr_media::capture::{Capture as _, CaptureEvent};
use openuvr_wayland::capture::{Target, WaylandCapture, open};
use openuvr_wayland::display;
use openuvr_wayland::output_sizes::{OutputSize, output_sizes};

use super::*;

fn capture(sway: &Sway) -> WaylandCapture {
    open(&Target {
        display: Some(socket(sway)),
        ..Target::default()
    })
    .unwrap()
}

/// Waits for the first picture with this number in its bar code. Returns all events up to it.
fn until_shown(capture: &mut WaylandCapture, id: u32) -> Vec<CaptureEvent> {
    until(capture, |capture, event| {
        let shown = capture
            .picture()
            .and_then(|picture| barcode::read(&picture));
        event == CaptureEvent::Frame && shown.is_some_and(|stamp| stamp.frame == id)
    })
}

fn until(
    capture: &mut WaylandCapture,
    wanted: impl Fn(&WaylandCapture, CaptureEvent) -> bool,
) -> Vec<CaptureEvent> {
    let end = Instant::now() + PATIENCE;
    let mut events = Vec::new();
    while Instant::now() < end {
        let event = capture.next(Some(PATIENCE)).unwrap();
        events.push(event);
        if wanted(capture, event) {
            return events;
        }
    }
    panic!("only {events:?}");
}

/// Waits until the captured picture equals a screenshot by the compositor itself.
fn until_like_screenshot(sway: &Sway, capture: &mut WaylandCapture) {
    until(capture, |capture, event| {
        let upright = capture.picture().filter(|_| event == CaptureEvent::Frame);
        let Some(picture) = upright else {
            return false;
        };
        let Some((size, pixels)) = sway.screenshot() else {
            return true;
        };
        let bytes = picture.planes[0].data.chunks_exact(4);
        let ours: Vec<u8> = bytes.flat_map(|p| [p[2], p[1], p[0]]).collect();
        picture.size == size && ours == pixels
    });
}

#[test]
fn each_picture_of_a_window_is_captured_and_a_still_one_is_not() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let mut window = Window::open(&sway);
    let mut capture = capture(&sway);
    assert_eq!(capture.size(), SCREEN);
    for id in 1..20 {
        window.show(id);
        until_shown(&mut capture, id);
    }
    // Nothing is drawn, so nothing is captured, but the last picture remains available.
    let still = capture.next(Some(Duration::from_millis(300))).unwrap();
    assert_eq!(still, CaptureEvent::TimedOut);
    let stamp = barcode::read(&capture.picture().unwrap()).unwrap();
    assert_eq!(stamp.frame, 19);
}

#[test]
fn only_the_damaged_part_counts_as_changed() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let mut window = Window::open(&sway);
    let mut capture = capture(&sway);
    window.show(1);
    until_shown(&mut capture, 1);
    window.show(2);
    until_shown(&mut capture, 2);
    let changed = capture.changed().expect("known after the second picture");
    assert!(changed.columns.end <= SCREEN.width && changed.rows.end <= SCREEN.height);
    assert!(!changed.columns.is_empty() && !changed.rows.is_empty());
}

#[test]
fn a_new_viewer_gets_the_current_picture() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let mut window = Window::open(&sway);
    let mut capture = capture(&sway);
    window.show(1);
    until_shown(&mut capture, 1);
    capture.set_watched(false);
    window.show(2);
    let unwatched = capture.next(Some(Duration::from_millis(300))).unwrap();
    assert_eq!(unwatched, CaptureEvent::TimedOut);
    capture.set_watched(true);
    until_shown(&mut capture, 2);
}

#[test]
fn a_mode_change_resizes_the_picture() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let mut window = Window::open(&sway);
    let mut capture = capture(&sway);
    window.show(1);
    until_shown(&mut capture, 1);
    let larger = Size::new(800, 600);
    sway.msg(&["output", "HEADLESS-1", "mode", "800x600"]);
    until(&mut capture, |_, event| {
        event == CaptureEvent::Resized(larger)
    });
    window.show(2);
    until(&mut capture, |capture, event| {
        event == CaptureEvent::Frame && capture.picture().is_some_and(|p| p.size == larger)
    });
}

#[test]
fn an_output_is_chosen_by_its_name_and_a_wrong_name_lists_them() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    sway.msg(&["create_output"]);
    let named = |output: &str| {
        open(&Target {
            display: Some(socket(&sway)),
            output: Some(output.to_owned()),
            ..Target::default()
        })
    };
    assert_eq!(named("HEADLESS-2").unwrap().output(), "HEADLESS-2");
    let why = named("DP-7").err().unwrap().to_string();
    assert!(why.contains("HEADLESS-1, HEADLESS-2"), "{why}");
}

#[test]
fn a_turned_output_is_captured_upright() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    for transform in ["90", "180", "270", "flipped", "flipped-90"] {
        sway.msg(&["output", "HEADLESS-1", "transform", transform]);
        let mut capture = capture(&sway);
        let mut window = Window::open(&sway);
        window.show(7);
        until_like_screenshot(&sway, &mut capture);
    }
}

#[test]
fn pictures_have_the_pixels_of_the_window_in_each_buffer() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let mut window = Window::open(&sway);
    let mut capture = capture(&sway);
    window.show(1);
    until_shown(&mut capture, 1);
    // There are more pictures than buffers, and successive pictures differ only in a part.
    for id in 2..12 {
        window.show(id);
        until_shown(&mut capture, id);
        let picture = capture.picture().unwrap();
        let plane = picture.planes[0];
        let seen = (0..SCREEN.height as usize).flat_map(|row| {
            let from = row * plane.stride;
            plane.data[from..from + SCREEN.width as usize * 4].chunks_exact(4)
        });
        let drawn = pixels(id);
        let wrong = seen
            .zip(drawn.chunks_exact(4))
            .filter(|(seen, drawn)| seen[..3] != drawn[..3]);
        assert_eq!(wrong.count(), 0, "picture {id}");
    }
}

#[test]
fn a_scaled_output_is_captured_in_its_own_pixels() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    sway.msg(&["output", "HEADLESS-1", "scale", "1.5"]);
    let mut window = Window::open(&sway);
    let mut capture = capture(&sway);
    assert_eq!(capture.size(), SCREEN);
    window.show(3);
    until_shown(&mut capture, 3);
    assert_eq!(capture.picture().unwrap().size, SCREEN);
}

#[test]
fn an_output_has_a_size_in_pixels_and_one_in_logical_units() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    let sizes = || output_sizes(&display::connect(Some(&socket(&sway))).unwrap());
    let upright = OutputSize {
        pixels: SCREEN,
        logical: SCREEN,
    };
    assert_eq!(sizes(), [upright]);
    sway.msg(&["output", "HEADLESS-1", "scale", "2", "transform", "90"]);
    let turned = OutputSize {
        pixels: Size::new(SCREEN.height, SCREEN.width),
        logical: Size::new(SCREEN.height / 2, SCREEN.width / 2),
    };
    assert_eq!(sizes(), [turned]);
}

#[test]
fn each_of_two_outputs_has_its_own_picture() {
    let Some(sway) = Sway::start(SCREEN) else {
        return;
    };
    sway.msg(&["create_output"]);
    sway.msg(&["output", "HEADLESS-2", "mode", "640x360"]);
    sway.msg(&["focus", "output", "HEADLESS-2"]);
    let mut window = Window::open(&sway);
    let of = |output: &str| {
        let target = Target {
            display: Some(socket(&sway)),
            output: Some(output.to_owned()),
            ..Target::default()
        };
        open(&target).unwrap()
    };
    let (mut one, mut other) = (of("HEADLESS-1"), of("HEADLESS-2"));
    window.show(5);
    until_shown(&mut other, 5);
    until(&mut one, |_, event| event == CaptureEvent::Frame);
    assert!(barcode::read(&one.picture().unwrap()).is_none());
}

#[test]
fn a_killed_compositor_and_a_missing_one_are_one_line() {
    let Some(mut sway) = Sway::start(SCREEN) else {
        return;
    };
    let mut capture = capture(&sway);
    sway.kill();
    let end = Instant::now() + PATIENCE;
    let why = loop {
        assert!(Instant::now() < end);
        match capture.next(Some(PATIENCE)) {
            Ok(_) => {}
            Err(why) => break why.to_string(),
        }
    };
    assert!(
        why.contains("check that its compositor is running") && !why.contains('\n'),
        "{why}"
    );
    let why = open(&Target {
        display: Some("/nonexistent/wayland-9".to_owned()),
        ..Target::default()
    });
    assert!(why.err().unwrap().to_string().contains("can't be reached"));
}
