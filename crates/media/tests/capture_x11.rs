//! Capture from a real X server: the pictures equal the drawing, with neither missing nor extra
//! frames.
#![cfg(feature = "host")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // A test may panic.

use std::time::Duration;

use openuvr_media::capture::x11::{self, CaptureArea, Target, WindowName, WindowQuery, X11Capture};
use openuvr_media::capture::{Capture, CaptureError, CaptureEvent};
use openuvr_media::damage::Block;
use openuvr_proto::units::Size;
use openuvr_xserver::{Xvfb, fixture};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    CONFIGURE_NOTIFY_EVENT, ConfigureNotifyEvent, ConfigureWindowAux, ConnectionExt as _, EventMask,
};

/// Timeouts for expected events (`SOON`, `LATER`) and for the absence of further events (`SILENCE`).
const SOON: Option<Duration> = Some(Duration::from_secs(60));
const LATER: Option<Duration> = Some(Duration::from_secs(30));
const SILENCE: Option<Duration> = Some(Duration::from_millis(60));

const RED: u32 = 0xff_00_00;
const GREEN: u32 = 0x00_ff_00;
const BLUE: u32 = 0x00_00_ff;
const GREY: u32 = 0x12_34_56;

fn open(server: &Xvfb, area: CaptureArea) -> Result<X11Capture, CaptureError> {
    x11::open(&Target {
        display: Some(server.display.clone()),
        area,
    })
}

fn window(id: u32) -> CaptureArea {
    CaptureArea::Window(WindowQuery {
        name: WindowName::Id(id),
        wait: Duration::from_secs(60),
    })
}

fn titled(text: &str, wait: Duration) -> CaptureArea {
    CaptureArea::Window(WindowQuery {
        name: WindowName::Text(text.to_owned()),
        wait,
    })
}

/// The colour (0xRRGGBB) of a pixel of the newest picture.
fn pixel(capture: &X11Capture, x: u32, y: u32) -> u32 {
    let picture = capture.picture().expect("a picture");
    assert!(x < picture.size.width && y < picture.size.height);
    let plane = picture.planes[0];
    let at = y as usize * plane.stride + x as usize * 4;
    u32::from_le_bytes(plane.data[at..at + 4].try_into().unwrap()) & 0xff_ff_ff
}

/// Takes frames until no more come. Returns their number.
fn drain(capture: &mut X11Capture) -> usize {
    for frames in 0.. {
        match capture.next(SILENCE).unwrap() {
            CaptureEvent::Frame => {}
            CaptureEvent::TimedOut => return frames,
            other => panic!("{other:?}"),
        }
    }
    unreachable!()
}

#[test]
fn a_display_gives_its_picture_and_then_only_changes() {
    let Some(server) = fixture::xvfb("321x203", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(10, 20, 100, 50, RED);
    let mut capture = open(&server, CaptureArea::Display).unwrap();
    assert_eq!(capture.size(), Size::new(321, 203));
    assert_eq!(capture.shared_viewport().now(), (0, 0, Size::new(321, 203)));
    assert!(capture.picture().is_none());
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    assert_eq!(pixel(&capture, 10, 20), RED);
    assert_eq!(pixel(&capture, 109, 69), RED);
    assert_eq!(pixel(&capture, 110, 69), 0);
    // Without drawing there is no frame; the picture stays.
    assert_eq!(drain(&mut capture), 0);
    assert_eq!(pixel(&capture, 10, 20), RED);

    painter.fill(id, 50, 0, 50, 50, GREEN);
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    assert_eq!(pixel(&capture, 59, 20), RED);
    assert_eq!(pixel(&capture, 60, 20), GREEN);
    assert_eq!(drain(&mut capture), 0);
}

/// Draws random rectangles, some across the display's edge. The reported changes are complete and minimal, and the
/// assembled picture equals the server's.
#[test]
fn only_changes_are_fetched_and_the_picture_is_complete() {
    let Some(server) = fixture::xvfb("321x203", &[]) else {
        return;
    };
    let painter = server.painter();
    let mut capture = open(&server, CaptureArea::Display).unwrap();
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    assert_eq!(capture.changed(), None, "there was none before it");
    drain(&mut capture);
    let bytes = |capture: &X11Capture| capture.picture().unwrap().planes[0].data.to_vec();
    let (mut seed, mut fetched) = (5u32, 0);
    let mut below = |end: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % end
    };
    for n in 1..60u32 {
        let before = bytes(&capture);
        let (x, y) = (below(330) as i16 - 5, below(210) as i16 - 5);
        let (width, height) = (1 + below(60) as u16, 1 + below(40) as u16);
        painter.fill(painter.root, x, y, width, height, n * 0x01_03_07);
        painter.sync();
        // A rectangle outside of the display damages nothing, so there may be no frame.
        let mut changed = Vec::new();
        while capture.next(SILENCE).unwrap() == CaptureEvent::Frame {
            changed.push(capture.changed().expect("a part"));
        }
        let after = bytes(&capture);
        for (at, (old, new)) in before.chunks(4).zip(after.chunks(4)).enumerate() {
            let (x, y) = (at as u32 % 321, at as u32 / 321);
            let within = |block: &Block| block.columns.contains(&x) && block.rows.contains(&y);
            assert!(old == new || changed.iter().any(within), "{n}: {x},{y}");
        }
        let pixels: usize = changed.iter().map(|b| b.columns.len() * b.rows.len()).sum();
        let drawn = usize::from(width) * usize::from(height);
        assert!(pixels <= drawn * changed.len(), "{n}: {changed:?}");
        fetched += changed.len();
    }
    assert!(fetched > 40, "{fetched}");
    // Another capture gets the complete picture at once.
    let mut whole = open(&server, CaptureArea::Display).unwrap();
    assert_eq!(whole.next(SOON).unwrap(), CaptureEvent::Frame);
    assert!(bytes(&whole) == bytes(&capture));
    // The first frame for a new viewer is a complete picture.
    capture.set_watched(false);
    capture.set_watched(true);
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    assert_eq!(capture.changed(), None);
}

#[test]
fn each_swap_is_one_frame_with_its_own_content() {
    let Some(server) = fixture::xvfb("640x480", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(0, 0, 640, 480, 0);
    let mut capture = open(&server, window(id)).unwrap();
    drain(&mut capture);
    for n in 1..=200 {
        let colour = n * 0x01_03_07;
        painter.fill(id, 0, 0, 640, 480, colour);
        assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame, "swap {n}");
        for (x, y) in [(0, 0), (639, 0), (320, 240), (0, 479), (639, 479)] {
            assert_eq!(pixel(&capture, x, y), colour, "swap {n} at {x},{y}");
        }
    }
    assert_eq!(drain(&mut capture), 0);
}

#[test]
fn a_slow_painter_ends_in_a_complete_picture() {
    let Some(server) = fixture::xvfb("400x400", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(0, 0, 400, 400, 0);
    let mut capture = open(&server, window(id)).unwrap();
    drain(&mut capture);
    for round in 1..=5u32 {
        let frames = std::thread::scope(|scope| {
            let hand = scope.spawn(|| {
                for n in 0..10i16 {
                    painter.fill(id, 0, n * 40, 400, 40, round * 0x10_00_00 + n as u32);
                    // This delay makes the painter slow. It does not synchronise the threads.
                    std::thread::sleep(Duration::from_micros(250));
                }
            });
            let mut frames = 0;
            while !hand.is_finished() {
                frames += drain(&mut capture);
            }
            hand.join().unwrap();
            painter.sync();
            frames + drain(&mut capture)
        });
        assert!((1..=10).contains(&frames), "{frames} frames");
        for n in 0..10 {
            assert_eq!(pixel(&capture, 7, n * 40 + 39), round * 0x10_00_00 + n);
        }
    }
}

#[test]
fn a_covered_window_shows_its_own_pixels() {
    let Some(server) = fixture::xvfb("300x200", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(30, 40, 101, 51, RED);
    let mut capture = open(&server, window(id)).unwrap();
    assert_eq!(capture.size(), Size::new(101, 51));
    assert_eq!(
        capture.shared_viewport().now(),
        (30, 40, Size::new(101, 51))
    );
    drain(&mut capture);
    painter.shown(0, 0, 300, 200, BLUE);
    assert_eq!(drain(&mut capture), 0, "covering is no change");
    painter.fill(id, 0, 0, 50, 51, GREEN);
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    assert_eq!(pixel(&capture, 49, 50), GREEN);
    assert_eq!(pixel(&capture, 50, 50), RED);
    assert_eq!(pixel(&capture, 100, 0), RED);
}

#[test]
fn a_window_moves_resizes_hides_comes_back_and_ends() {
    let Some(server) = fixture::xvfb("640x480", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(0, 0, 200, 100, RED);
    let mut capture = open(&server, window(id)).unwrap();
    drain(&mut capture);

    painter.place(id, 33, 44);
    // The server reports a moved window as damaged, though its pixels are unchanged.
    assert!(drain(&mut capture) <= 1);
    assert_eq!(
        capture.shared_viewport().now(),
        (33, 44, Size::new(200, 100))
    );

    painter.resize(id, 301, 151);
    let size = Size::new(301, 151);
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Resized(size));
    assert_eq!(capture.size(), size);
    painter.fill(id, 0, 0, 301, 151, GREEN);
    painter.sync();
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    drain(&mut capture);
    assert_eq!(pixel(&capture, 300, 150), GREEN);
    assert_eq!(capture.shared_viewport().now(), (33, 44, size));

    painter.conn.unmap_window(id).unwrap();
    painter.sync();
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Hidden);
    assert_eq!(drain(&mut capture), 0);
    painter.conn.map_window(id).unwrap();
    painter.sync();
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Shown);
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    drain(&mut capture);
    painter.fill(id, 0, 0, 301, 151, BLUE);
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    assert_eq!(pixel(&capture, 0, 0), BLUE);

    painter.conn.destroy_window(id).unwrap();
    painter.sync();
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Hidden);
    // The window's application still runs and may create another window, so the capture ends only after a while.
    let last = capture.next(LATER).unwrap();
    assert_eq!(last, CaptureEvent::Ended("window destroyed"));
}

#[test]
fn a_window_with_another_border_is_still_captured() {
    let Some(server) = fixture::xvfb("640x480", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(10, 10, 200, 100, RED);
    let mut capture = open(&server, window(id)).unwrap();
    drain(&mut capture);
    for (border, colour) in [(3_u32, GREEN), (0, BLUE)] {
        let aux = ConfigureWindowAux::new().border_width(border);
        painter.conn.configure_window(id, &aux).unwrap();
        painter.fill(id, 0, 0, 200, 100, colour);
        painter.sync();
        assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
        drain(&mut capture);
        assert_eq!(capture.size(), Size::new(200, 100));
        assert_eq!(pixel(&capture, 0, 0), colour, "border {border}");
        assert_eq!(pixel(&capture, 199, 99), colour, "border {border}");
    }
}

#[test]
fn drawing_during_a_move_query_is_captured() {
    let Some(server) = fixture::xvfb("64x64", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(0, 0, 64, 64, 0);
    let mut capture = open(&server, window(id)).unwrap();
    drain(&mut capture);
    // The event that a window manager sends: the window has moved, but nothing has been drawn.
    let moved = ConfigureNotifyEvent {
        response_type: CONFIGURE_NOTIFY_EVENT,
        event: id,
        window: id,
        width: 64,
        height: 64,
        ..ConfigureNotifyEvent::default()
    };
    let (conn, waker) = (&painter.conn, capture.waker());
    let (told, go) = std::sync::mpsc::sync_channel(1);
    let (seen, answers) = std::sync::mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        let painter = &painter;
        scope.spawn(move || {
            for colour in go {
                conn.send_event(false, id, EventMask::STRUCTURE_NOTIFY, moved)
                    .unwrap();
                conn.flush().unwrap();
                // Draws before, during or after the capture's query of the window's position. The query takes about 50
                // µs.
                let begun = std::time::Instant::now();
                while begun.elapsed() < Duration::from_micros(u64::from(colour) % 150) {}
                painter.fill(id, 0, 0, 64, 64, colour);
                if answers.recv_timeout(SOON.unwrap()).is_err() {
                    waker.wake();
                }
            }
        });
        for colour in 1..=600 {
            told.send(colour).unwrap();
            while pixel(&capture, 0, 0) != colour {
                let event = capture.next(None).unwrap();
                assert_eq!(event, CaptureEvent::Frame, "picture {colour}");
            }
            seen.send(()).unwrap();
        }
        drop((told, seen));
    });
}

#[test]
fn a_window_in_a_frame_follows_its_frame() {
    let Some(server) = fixture::xvfb("640x480", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(0, 0, 200, 100, RED);
    let mut capture = open(&server, window(id)).unwrap();
    drain(&mut capture);
    // Like a window manager, puts the window into a frame. The frame then moves and hides.
    let frame = painter.shown(50, 60, 220, 130, GREY);
    painter.conn.reparent_window(id, frame, 10, 20).unwrap();
    painter.sync();
    drain(&mut capture);
    assert_eq!(
        capture.shared_viewport().now(),
        (60, 80, Size::new(200, 100))
    );
    assert_eq!(pixel(&capture, 0, 0), RED);
    painter.place(frame, 100, 200);
    drain(&mut capture);
    assert_eq!(
        capture.shared_viewport().now(),
        (110, 220, Size::new(200, 100))
    );

    painter.conn.unmap_window(frame).unwrap();
    painter.sync();
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Hidden);
    painter.conn.map_window(frame).unwrap();
    painter.sync();
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Shown);
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    drain(&mut capture);
    painter.fill(id, 0, 0, 200, 100, GREEN);
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    assert_eq!(pixel(&capture, 199, 99), GREEN);
}

#[test]
fn resizing_while_drawing_never_breaks() {
    let Some(server) = fixture::xvfb("640x480", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(0, 0, 100, 100, RED);
    let mut capture = open(&server, window(id)).unwrap();
    std::thread::scope(|scope| {
        let drawing = scope.spawn(|| {
            for n in 0..200u32 {
                let (w, h) = (50 + n * 37 % 400, 50 + n * 53 % 300);
                painter.resize(id, w, h);
                painter.fill(id, 0, 0, 640, 480, n);
            }
            painter.resize(id, 222, 111);
            painter.fill(id, 0, 0, 640, 480, GREY);
            painter.sync();
        });
        loop {
            let is_finished = drawing.is_finished();
            match capture.next(Some(Duration::from_millis(100))).unwrap() {
                CaptureEvent::TimedOut if is_finished => break,
                CaptureEvent::Frame => {
                    let picture = capture.picture().unwrap();
                    assert_eq!(picture.size, capture.size());
                    assert_eq!(picture.planes[0].data.len(), picture.size.pixels() * 4);
                }
                CaptureEvent::Resized(_) => assert!(capture.picture().is_none()),
                CaptureEvent::TimedOut => {}
                other => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(capture.size(), Size::new(222, 111));
    assert_eq!(pixel(&capture, 0, 0), GREY);
    assert_eq!(pixel(&capture, 221, 110), GREY);
}

#[test]
fn a_region_is_isolated_and_clipped_at_the_edge() {
    let Some(server) = fixture::xvfb("300x200", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(0, 0, 300, 200, RED);
    let what = |x, y, w, h| CaptureArea::Region {
        x,
        y,
        size: Size::new(w, h),
    };
    let mut capture = open(&server, what(100, 50, 101, 51)).unwrap();
    drain(&mut capture);
    assert_eq!(
        capture.shared_viewport().now(),
        (100, 50, Size::new(101, 51))
    );
    painter.fill(id, 0, 0, 100, 200, BLUE);
    painter.fill(id, 0, 101, 300, 99, BLUE);
    painter.sync();
    assert_eq!(drain(&mut capture), 0);
    painter.fill(id, 100, 60, 1, 1, GREEN);
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    assert_eq!(pixel(&capture, 0, 10), GREEN);
    assert_eq!(pixel(&capture, 1, 10), RED);
    assert_eq!(pixel(&capture, 100, 50), RED);

    let cut = open(&server, what(-10, 190, 50, 50)).unwrap();
    assert_eq!(cut.shared_viewport().now(), (0, 190, Size::new(40, 10)));
    let error = open(&server, what(300, 0, 10, 10)).err().unwrap();
    assert!(error.0.contains("the display is 300x200"), "{error}");
}

#[test]
fn a_resized_display_reports_its_size() {
    let Some(server) = fixture::xvfb("640x480", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(0, 0, 640, 480, RED);
    let mut capture = open(&server, CaptureArea::Display).unwrap();
    let mut part = open(
        &server,
        CaptureArea::Region {
            x: 10,
            y: 10,
            size: Size::new(50, 50),
        },
    )
    .unwrap();
    drain(&mut capture);
    drain(&mut part);
    painter.resize_screen(320, 240);
    let size = Size::new(320, 240);
    let event = loop {
        match capture.next(SOON).unwrap() {
            CaptureEvent::Frame => {}
            other => break other,
        }
    };
    assert_eq!(event, CaptureEvent::Resized(size));
    painter.fill(id, 0, 0, 640, 480, GREEN);
    painter.sync();
    assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
    drain(&mut capture);
    assert_eq!(pixel(&capture, 319, 239), GREEN);
    drain(&mut part);
    assert_eq!(part.shared_viewport().now(), (10, 10, Size::new(50, 50)));
    assert_eq!(pixel(&part, 49, 49), GREEN);
}

#[test]
fn a_window_is_found_by_title_and_waited_for() {
    let Some(server) = fixture::xvfb("300x200", &[]) else {
        return;
    };
    let painter = server.painter();
    let other = painter.shown(0, 0, 300, 200, BLUE);
    painter.name(other, "Something else");
    let error = open(&server, titled("my game", Duration::ZERO))
        .err()
        .unwrap();
    assert!(error.0.contains("'my game'"), "{error}");
    assert!(error.0.contains("'Something else'"), "{error}");
    let error = x11::open(&Target {
        display: Some(server.display.clone()),
        area: CaptureArea::Window(WindowQuery {
            name: WindowName::Id(0x1234_5678),
            wait: Duration::ZERO,
        }),
    });
    assert!(error.err().unwrap().0.contains("0x12345678"));

    let id = painter.window(5, 6, 70, 80, RED);
    let capture = std::thread::scope(|scope| {
        let opening = scope.spawn(|| open(&server, titled("MY game", SOON.unwrap())));
        painter.name(id, "This is My Game 2");
        painter.conn.map_window(id).unwrap();
        painter.sync();
        opening.join().unwrap()
    });
    assert_eq!(
        capture.unwrap().shared_viewport().now(),
        (5, 6, Size::new(70, 80))
    );
}

#[test]
fn a_rate_limit_passes_the_newest_frame() {
    let Some(server) = fixture::xvfb("64x64", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(0, 0, 64, 64, 0);
    let mut capture = open(&server, window(id)).unwrap();
    capture.limit_fps(10.0);
    drain(&mut capture);
    let mut frames = 0;
    for n in 1..=50 {
        painter.fill(id, 0, 0, 64, 64, n);
        painter.sync();
        match capture.next(Some(Duration::ZERO)).unwrap() {
            CaptureEvent::Frame => frames += 1,
            other => assert_eq!(other, CaptureEvent::TimedOut),
        }
    }
    // The last drawing is never lost.
    while pixel(&capture, 0, 0) != 50 {
        assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
        frames += 1;
    }
    assert!(frames < 50, "intermediate ones were not captured");
}

#[test]
fn a_client_that_grabs_the_server_is_captured() {
    let Some(server) = fixture::xvfb("64x64", &[]) else {
        return;
    };
    let painter = server.painter();
    let id = painter.shown(0, 0, 64, 64, RED);
    let mut capture = open(&server, CaptureArea::Display).unwrap();
    drain(&mut capture);
    painter.conn.grab_server().unwrap();
    painter.fill(id, 0, 0, 64, 64, GREEN);
    painter.sync();
    let (done, finished) = std::sync::mpsc::sync_channel(1);
    // Runs in a separate thread, because a capture that waits for the end of the grab would never return.
    std::thread::spawn(move || {
        let event = capture.next(SOON).unwrap();
        let _ = done.send((event, pixel(&capture, 0, 0)));
    });
    let seen = finished.recv_timeout(Duration::from_secs(60));
    assert_eq!(seen, Ok((CaptureEvent::Frame, GREEN)));
}

#[test]
fn a_waker_wakes_and_does_not_lose_a_frame() {
    let Some(server) = fixture::xvfb("64x64", &[]) else {
        return;
    };
    let mut capture = open(&server, CaptureArea::Display).unwrap();
    let waker = capture.waker();
    waker.wake();
    waker.wake();
    assert_eq!(capture.next(None).unwrap(), CaptureEvent::Woken);
    assert_eq!(capture.next(None).unwrap(), CaptureEvent::Frame);
    let thread = std::thread::spawn(move || waker.wake());
    assert_eq!(capture.next(None).unwrap(), CaptureEvent::Woken);
    thread.join().unwrap();
    assert_eq!(
        capture.next(Some(Duration::ZERO)).unwrap(),
        CaptureEvent::TimedOut
    );
}

#[test]
fn a_dead_server_gives_a_one_line_error() {
    let Some(mut server) = fixture::xvfb("64x64", &[]) else {
        return;
    };
    let mut capture = open(&server, CaptureArea::Display).unwrap();
    drain(&mut capture);
    server.kill();
    let error = capture.next(SOON).unwrap_err();
    assert!(
        error.0.contains(&format!("X display {}", server.display)),
        "{error}"
    );
    assert!(
        error.0.contains("check that the server is running"),
        "{error}"
    );
    assert!(!error.0.contains('\n'));
    let error = open(&server, CaptureArea::Display).err().unwrap();
    assert!(error.0.contains("is its X server running"), "{error}");
}

#[test]
fn a_missing_extension_is_named() {
    for (extension, what) in [
        ("MIT-SHM", CaptureArea::Display),
        ("DAMAGE", CaptureArea::Display),
        ("Composite", window(1)),
    ] {
        let Some(server) = fixture::xvfb("64x64", &["-extension", extension]) else {
            return;
        };
        let error = open(&server, what).err().unwrap();
        assert!(
            error
                .0
                .contains(&format!("lacks the {extension} extension")),
            "{error}"
        );
        assert!(error.0.contains(&server.display), "{error}");
    }
}

/// The server's pixel value for a colour (0xRRGGBB).
fn stored(painter: &fixture::Painter, colour: u32) -> u32 {
    let channel = |shift: u32| u16::try_from((colour >> shift & 0xff) * 0x101).unwrap();
    let map = painter.conn.setup().roots[0].default_colormap;
    let (red, green, blue) = (channel(16), channel(8), channel(0));
    let cell = painter.conn.alloc_color(map, red, green, blue).unwrap();
    cell.reply().unwrap().pixel
}

#[test]
fn displays_of_other_depths_are_converted() {
    for depth in [8, 15, 16, 30] {
        let screen = format!("321x203x{depth}");
        let Some(server) = fixture::xvfb("321x203", &["-screen", "0", &screen]) else {
            return;
        };
        let painter = server.painter();
        let near = |one: u32, other: u32| {
            // With five bits per channel, the value differs from the eight-bit value by at most four.
            let channel = |shift: u32| (one >> shift & 0xff).abs_diff(other >> shift & 0xff) <= 4;
            [0, 8, 16].into_iter().all(channel)
        };
        let colours = [RED, GREEN, BLUE, GREY];
        let [red, green, blue, grey] = colours.map(|colour| stored(&painter, colour));
        let id = painter.shown(10, 20, 100, 50, red);
        let mut capture = open(&server, CaptureArea::Display).unwrap();
        assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
        assert!(near(pixel(&capture, 10, 20), RED), "depth {depth}");
        assert_eq!(pixel(&capture, 110, 69), 0);
        drain(&mut capture);
        for (colour, of) in [(green, GREEN), (blue, BLUE), (grey, GREY)] {
            // A part with an odd number of pixels per row.
            painter.fill(id, 51, 3, 33, 5, colour);
            assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
            drain(&mut capture);
            let seen = [(61, 23), (93, 27)].map(|(x, y)| pixel(&capture, x, y));
            assert!(
                seen.iter().all(|seen| near(*seen, of)),
                "depth {depth}: {seen:x?}"
            );
            assert!(near(pixel(&capture, 94, 27), RED), "depth {depth}");
        }
        drop(capture);
        // Captures a single window. At depth 8, pixels are colour map cells, and X servers lack the Composite
        // extension.
        if depth == 8 {
            continue;
        }
        let mut capture = open(&server, window(id)).unwrap();
        assert_eq!(capture.next(SOON).unwrap(), CaptureEvent::Frame);
        assert!(near(pixel(&capture, 60, 5), GREY), "depth {depth}");
        assert!(near(pixel(&capture, 0, 0), RED), "depth {depth}");
    }
}
