//! The window on a real X server: reads back presented pictures.

mod slices;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;
use openuvr_xserver::{
    Xvfb,
    fixture::{self, fake, pixels},
};
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{self, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

use super::{WindowConfig, X11Presenter, open};
use crate::band::Band;
use crate::codec::Codec;
use crate::cursor::{Cursor, CursorShape};
use crate::decode::{self, Chunk, Decoded, Decoder, View};
use crate::input_source::x11::X11InputSource;
use crate::input_source::{InputSource, SourceEvent};
use crate::picture::{Picture, PixelFormat, Plane};
use crate::present::Presenter;

const SIZE: Size = Size::new(64, 48);

struct Fixture {
    presenter: X11Presenter,
    source: X11InputSource,
    conn: RustConnection,
    window: xproto::Window,
    // This is the last field, so that it outlives the connections.
    xvfb: Xvfb,
}

fn fixture(config: WindowConfig) -> Option<Fixture> {
    let xvfb = fixture::xvfb("320x240", &[])?;
    let config = WindowConfig {
        display: Some(xvfb.display.clone()),
        ..config
    };
    let (presenter, source) = open(&config).expect("Xvfb has everything");
    let (conn, root) = xvfb.connect();
    let window = *conn
        .query_tree(root)
        .unwrap()
        .reply()
        .unwrap()
        .children
        .last()
        .unwrap();
    Some(Fixture {
        presenter,
        source,
        conn,
        window,
        xvfb,
    })
}

fn window_of(size: Size) -> WindowConfig {
    WindowConfig {
        size,
        ..WindowConfig::default()
    }
}

fn observers_window() -> WindowConfig {
    WindowConfig {
        observer: true,
        ..window_of(SIZE)
    }
}

/// A picture with a distinct value for each pixel.
fn bgrx(size: Size) -> Vec<u8> {
    let (w, h) = (size.width as usize, size.height as usize);
    (0..h)
        .flat_map(|y| (0..w).flat_map(move |x| [byte(x * 3), byte(y * 5), 77, 0]))
        .collect()
}

fn byte(value: usize) -> u8 {
    u8::try_from(value % 256).unwrap()
}

impl Fixture {
    /// Repeats until the picture is displayed, because a picture is lost if the server is not
    /// scheduled.
    fn present(&mut self, size: Size, data: &[u8]) {
        loop {
            let before = self.presenter.skipped();
            self.offer(size, data);
            if self.presenter.skipped() == before {
                return;
            }
        }
    }

    fn offer(&mut self, size: Size, data: &[u8]) {
        let picture = Picture::bgrx(size, data, size.width as usize * 4);
        self.presenter.present(FrameId(1), &picture).expect("shown");
    }

    fn read(&self, at: (i16, i16), size: (u16, u16)) -> Vec<u8> {
        // The presenter uses a different connection, so a round trip there comes first.
        self.presenter
            .conn
            .get_input_focus()
            .unwrap()
            .reply()
            .unwrap();
        pixels(&self.conn, self.window, at, size)
    }

    /// Processes pending events in the input source.
    fn settle(&mut self) -> Vec<SourceEvent> {
        self.source.settle()
    }

    fn resize(&mut self, size: Size) {
        let aux = xproto::ConfigureWindowAux::new()
            .width(size.width)
            .height(size.height);
        self.conn
            .configure_window(self.window, &aux)
            .unwrap()
            .check()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while self.presenter.stage.scene().window != size {
            assert!(Instant::now() < end, "the resize was not detected");
            self.settle();
        }
        self.settle();
    }
}

fn rgb(data: &[u8]) -> Vec<[u8; 3]> {
    data.chunks_exact(4).map(|p| [p[0], p[1], p[2]]).collect()
}

fn near(a: [u8; 3], b: [u8; 3], tolerance: u8) -> bool {
    a.iter().zip(b).all(|(a, b)| a.abs_diff(b) <= tolerance)
}

#[test]
fn bgrx_is_shown_exactly_even_in_a_burst() {
    let Some(mut it) = fixture(window_of(SIZE)) else {
        return;
    };
    let data = bgrx(SIZE);
    for step in 0..50u8 {
        let shifted: Vec<u8> = data.iter().map(|v| v.wrapping_add(step)).collect();
        it.present(SIZE, &shifted);
    }
    it.present(SIZE, &data);
    assert_eq!(rgb(&it.read((0, 0), (64, 48))), rgb(&data));
}

#[test]
fn both_yuv_formats_are_bt709_limited() {
    let Some(mut it) = fixture(window_of(SIZE)) else {
        return;
    };
    // BT.709 limited range of pure red (255, 0, 0): Y 63, Cb 102, Cr 240.
    let luma = vec![63; SIZE.pixels()];
    let (cb, cr) = (vec![102; SIZE.pixels() / 4], vec![240; SIZE.pixels() / 4]);
    let interleaved = [102, 240].repeat(SIZE.pixels() / 4);
    let plane = |data, stride| Plane { data, stride };
    for (format, planes) in [
        (
            PixelFormat::I420,
            [plane(&luma, 64), plane(&cb, 32), plane(&cr, 32)],
        ),
        (
            PixelFormat::Nv12,
            [plane(&luma, 64), plane(&interleaved, 64), Plane::EMPTY],
        ),
    ] {
        it.present(SIZE, &bgrx(SIZE));
        let picture = Picture {
            size: SIZE,
            rows: crate::picture::RowOrder::TopDown,
            format,
            planes,
        };
        it.presenter.present(FrameId(2), &picture).expect("shown");
        for pixel in rgb(&it.read((0, 0), (64, 48))) {
            assert!(near(pixel, [0, 0, 255], 3), "{format:?}: {pixel:?}");
        }
    }
    let short = Picture {
        size: SIZE,
        rows: crate::picture::RowOrder::TopDown,
        format: PixelFormat::I420,
        planes: [plane(&luma[1..], 64), plane(&cb, 32), plane(&cr, 32)],
    };
    let error = it
        .presenter
        .present(FrameId(3), &short)
        .expect_err("too short")
        .to_string();
    assert!(error.contains("I420 picture of 64x48"), "{error}");
}

#[test]
fn other_sizes_are_scaled_with_bars_and_follow_the_window() {
    let Some(mut it) = fixture(window_of(Size::new(128, 128))) else {
        return;
    };
    // Four quarters of one colour each. Their centres stay exact at any scale.
    let colours = [
        [10, 20, 200, 0],
        [200, 30, 10, 0],
        [40, 220, 40, 0],
        [250, 250, 250, 0],
    ];
    let quarter = |x: usize, y: usize| colours[x / 32 + 2 * (y / 24)];
    let data: Vec<u8> = (0..48)
        .flat_map(|y| (0..64).flat_map(move |x| quarter(x, y)))
        .collect();
    it.present(SIZE, &data);
    // 64x48 into 128x128: 128x96, bars of 16 above and below.
    let image = rgb(&it.read((0, 0), (128, 128)));
    let at = |image: &[[u8; 3]], width: usize, x: usize, y: usize| image[y * width + x];
    let colour = |i: usize| [colours[i][0], colours[i][1], colours[i][2]];
    for (x, y, expected) in [
        (64, 3, [0; 3]),
        (64, 125, [0; 3]),
        (32, 40, colour(0)),
        (96, 40, colour(1)),
        (32, 88, colour(2)),
        (127, 111, colour(3)),
        (0, 16, colour(0)),
    ] {
        assert!(
            near(at(&image, 128, x, y), expected, 1),
            "{x},{y}: {:?}",
            at(&image, 128, x, y)
        );
    }

    // Without a new picture, only the input source repaints the window, first unscaled, then larger with side bars.
    it.resize(SIZE);
    assert_eq!(rgb(&it.read((0, 0), (64, 48))), rgb(&data));
    it.resize(Size::new(148, 96));
    let image = rgb(&it.read((0, 0), (148, 96)));
    assert!(near(at(&image, 148, 3, 50), [0; 3], 0) && near(at(&image, 148, 144, 50), [0; 3], 0));
    assert!(near(at(&image, 148, 42, 24), colour(0), 1));
    assert!(near(at(&image, 148, 137, 95), colour(3), 1));

    // A picture of a different size in the same window.
    let flat = [1, 2, 3, 0].repeat(Size::new(148, 48).pixels());
    it.present(Size::new(148, 48), &flat);
    let image = rgb(&it.read((0, 0), (148, 96)));
    assert_eq!(at(&image, 148, 3, 50), [1, 2, 3]);
    assert_eq!(
        at(&image, 148, 70, 10),
        [0; 3],
        "the former picture area is a bar"
    );
}

#[test]
fn an_uncovered_part_is_repaired_without_a_frame() {
    let Some(mut it) = fixture(window_of(SIZE)) else {
        return;
    };
    let data = bgrx(SIZE);
    it.present(SIZE, &data);
    let cover = it.conn.generate_id().unwrap();
    let root = it.presenter.stage.root;
    let class = xproto::WindowClass::INPUT_OUTPUT;
    let red = xproto::CreateWindowAux::new().background_pixel(0xff_0000);
    it.conn
        .create_window(24, cover, root, 0, 0, 40, 40, 0, class, 0, &red)
        .unwrap();
    it.conn.map_window(cover).unwrap().check().unwrap();
    it.conn.destroy_window(cover).unwrap().check().unwrap();
    it.settle();
    assert_eq!(rgb(&it.read((0, 0), (64, 48))), rgb(&data));
}

/// Whether `shown` is the picture's `pixel` below a panel's background, at three tenths of its brightness.
fn shines_through(pixel: [u8; 3], shown: [u8; 3]) -> bool {
    near(shown, pixel.map(|v| byte(usize::from(v) * 3 / 10)), 2)
}

#[test]
fn text_covers_the_picture_until_removed() {
    let size = Size::new(128, 96);
    let Some(mut it) = fixture(window_of(size)) else {
        return;
    };
    let data = bgrx(size);
    it.present(size, &data);
    let lines = ["MMMM".to_owned(), "i".to_owned()];
    it.presenter.panel(&lines).expect("drawn");
    // 4 x 2 letters of 6 x 15, a margin of 6, and 8 from the corner.
    let (left, top, right, bottom) = (8, 8, 8 + 24 + 12, 8 + 30 + 12);
    let check = |image: &[[u8; 3]]| {
        let mut ink = 0;
        for (i, (shown, picture)) in image.iter().zip(rgb(&data)).enumerate() {
            let (x, y) = (i % 128, i / 128);
            let inside = (left..right).contains(&x) && (top..bottom).contains(&y);
            match (inside, *shown == [255; 3]) {
                (true, true) => ink += 1,
                (true, false) => assert!(shines_through(picture, *shown), "{x},{y}: {shown:?}"),
                (false, _) => assert_eq!(*shown, picture, "{x},{y}"),
            }
        }
        assert!((40..300).contains(&ink), "{ink} pixels of text");
    };
    check(&rgb(&it.read((0, 0), (128, 96))));
    // Neither a new picture nor a repaint by the input source covers the text.
    it.present(size, &data);
    check(&rgb(&it.read((0, 0), (128, 96))));
    it.source.repaint().expect("alive");
    it.conn.get_input_focus().unwrap().reply().unwrap();
    check(&rgb(&it.read((0, 0), (128, 96))));

    // Shorter text removes the rest of the old box. Without text, the picture is complete again.
    it.presenter.panel(&lines[1..]).expect("drawn");
    let image = rgb(&it.read((0, 0), (128, 96)));
    assert_eq!(image[40 * 128 + 30], rgb(&data)[40 * 128 + 30]);
    assert!(shines_through(
        rgb(&data)[10 * 128 + 10],
        image[10 * 128 + 10]
    ));
    it.presenter.panel(&[]).expect("gone");
    assert_eq!(rgb(&it.read((0, 0), (128, 96))), rgb(&data));
    it.source.repaint().expect("alive");
    assert_eq!(rgb(&it.read((0, 0), (128, 96))), rgb(&data));
}

fn blue_dot() -> Arc<CursorShape> {
    let argb = vec![0xff00_00ff; 16];
    Arc::new(CursorShape {
        width: 4,
        height: 4,
        hot_x: 1,
        hot_y: 1,
        argb,
    })
}

#[test]
fn a_promoted_observer_has_the_hosts_cursor() {
    let Some(mut it) = fixture(observers_window()) else {
        return;
    };
    let data = bgrx(SIZE);
    fake(&it.conn, xproto::MOTION_NOTIFY_EVENT, 0, 30, 30);
    it.settle();
    it.present(SIZE, &data);
    let cursor = Cursor {
        at: Some((u16::MAX / 2, u16::MAX / 2)),
        shape: blue_dot(),
    };
    it.presenter.cursor(&cursor).expect("drawn");
    let watching = rgb(&it.read((0, 0), (64, 48)));
    assert_ne!(watching, rgb(&data), "the pointer is drawn");
    it.presenter
        .set_observer(false, "plays")
        .expect("it is open");
    assert_eq!(rgb(&it.read((0, 0), (64, 48))), rgb(&data));
    it.presenter
        .set_observer(true, "watches")
        .expect("it is open");
    assert_eq!(rgb(&it.read((0, 0), (64, 48))), watching);
}

#[test]
fn an_observer_sees_the_pointer_move_without_a_frame() {
    let Some(mut it) = fixture(observers_window()) else {
        return;
    };
    let data = bgrx(SIZE);
    it.present(SIZE, &data);
    let shape = blue_dot();
    let place = |x: u32, y: u32| {
        let along = |at: u32, side: u32| u16::try_from((2 * at + 1) * 65_535 / (2 * side)).unwrap();
        Some((along(x, SIZE.width), along(y, SIZE.height)))
    };
    let with_dot = |left: usize, top: usize| {
        let mut image = rgb(&data);
        for y in top..top + 4 {
            image[y * 64 + left..y * 64 + left + 4].fill([255, 0, 0]);
        }
        image
    };
    for (x, y) in [(20, 20), (22, 21), (50, 40)] {
        let cursor = Cursor {
            at: place(x, y),
            shape: Arc::clone(&shape),
        };
        it.presenter.cursor(&cursor).expect("drawn");
        let image = rgb(&it.read((0, 0), (64, 48)));
        assert_eq!(
            image,
            with_dot(x as usize - 1, y as usize - 1),
            "at {x},{y}"
        );
    }
    // The pointer stays over a new frame, and hiding the pointer restores the picture.
    it.present(SIZE, &data);
    assert_eq!(rgb(&it.read((0, 0), (64, 48))), with_dot(49, 39));
    it.presenter
        .cursor(&Cursor { at: None, shape })
        .expect("hidden");
    assert_eq!(rgb(&it.read((0, 0), (64, 48))), rgb(&data));
}

#[test]
fn a_player_has_the_hosts_pointer_as_the_windows_own() {
    let Some(mut it) = fixture(window_of(SIZE)) else {
        return;
    };
    let data = bgrx(SIZE);
    fake(&it.conn, xproto::MOTION_NOTIFY_EVENT, 0, 30, 30);
    it.settle();
    it.present(SIZE, &data);
    let cursor = Cursor {
        at: Some((0, 0)),
        shape: blue_dot(),
    };
    it.presenter.cursor(&cursor).expect("defined");
    assert_eq!(
        rgb(&it.read((0, 0), (64, 48))),
        rgb(&data),
        "nothing is drawn over the picture"
    );
    let image = {
        use x11rb::protocol::xfixes::ConnectionExt as _;
        it.conn.xfixes_query_version(4, 0).unwrap().reply().unwrap();
        it.conn.xfixes_get_cursor_image().unwrap().reply().unwrap()
    };
    assert_eq!(
        (image.width, image.height, image.xhot, image.yhot),
        (4, 4, 1, 1)
    );
    assert!(image.cursor_image.iter().all(|pixel| *pixel == 0xff00_00ff));

    // The local pointer leaves the window. The input source alone then draws the host's pointer at its position.
    fake(&it.conn, xproto::MOTION_NOTIFY_EVENT, 0, 300, 200);
    it.settle();
    let image = rgb(&it.read((0, 0), (64, 48)));
    assert_eq!(image[0], [255, 0, 0]);
    assert_eq!(image[1..3], [[255, 0, 0]; 2][..]);
    assert_eq!(image[4], rgb(&data)[4]);
}

#[test]
fn full_screen_without_a_window_manager_and_back() {
    let config = WindowConfig {
        full_screen: true,
        ..window_of(SIZE)
    };
    let Some(mut it) = fixture(config) else {
        return;
    };
    it.settle();
    assert_eq!(it.presenter.stage.scene().window, Size::new(320, 240));
    let chord = [37, 64, 50, 41]; // Control, Alt, Shift, F
    for key in chord {
        fake(&it.conn, xproto::KEY_PRESS_EVENT, key, 0, 0);
    }
    it.settle();
    assert_eq!(it.presenter.stage.scene().window, SIZE);
}

#[test]
fn full_screen_is_requested_from_a_window_manager() {
    let Some(mut it) = fixture(window_of(SIZE)) else {
        return;
    };
    // This test plays the role of the window manager.
    let root = it.presenter.stage.root;
    let atom = |name: &[u8]| {
        it.conn
            .intern_atom(false, name)
            .unwrap()
            .reply()
            .unwrap()
            .atom
    };
    let (check, state) = (atom(b"_NET_SUPPORTING_WM_CHECK"), atom(b"_NET_WM_STATE"));
    let full_screen = atom(b"_NET_WM_STATE_FULLSCREEN");
    let manager = it.conn.generate_id().unwrap();
    let class = xproto::WindowClass::INPUT_ONLY;
    let redirect = xproto::EventMask::SUBSTRUCTURE_REDIRECT;
    let aux = xproto::ChangeWindowAttributesAux::new().event_mask(redirect);
    it.conn
        .change_window_attributes(root, &aux)
        .unwrap()
        .check()
        .unwrap();
    it.conn
        .create_window(
            0,
            manager,
            root,
            0,
            0,
            1,
            1,
            0,
            class,
            0,
            &Default::default(),
        )
        .unwrap();
    for window in [root, manager] {
        use x11rb::wrapper::ConnectionExt as _;
        let kind = xproto::AtomEnum::WINDOW;
        let replace = xproto::PropMode::REPLACE;
        it.conn
            .change_property32(replace, window, check, kind, &[manager])
            .unwrap();
    }
    x11rb::wrapper::ConnectionExt::sync(&it.conn).unwrap();
    for key in [37, 64, 50, 41] {
        fake(&it.conn, xproto::KEY_PRESS_EVENT, key, 0, 0);
    }
    it.settle();
    x11rb::wrapper::ConnectionExt::sync(&it.conn).unwrap();
    let asked = std::iter::from_fn(|| it.conn.poll_for_event().unwrap());
    let messages: Vec<_> = asked
        .filter_map(|event| match event {
            Event::ClientMessage(event) if event.type_ == state => Some(event),
            _ => None,
        })
        .collect();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].window, it.window);
    assert_eq!(messages[0].data.as_data32()[..2], [1, full_screen]);
}

#[test]
fn a_stalled_server_costs_pictures_and_then_shows_the_newest() {
    let Some(mut it) = fixture(window_of(SIZE)) else {
        return;
    };
    it.settle();
    it.present(SIZE, &bgrx(SIZE));
    it.xvfb.freeze(true);
    for shade in 0..5 {
        it.offer(SIZE, &vec![shade; SIZE.pixels() * 4]);
    }
    // One picture is on the screen, and up to two wait in the other buffers.
    assert!(
        (2..=3).contains(&it.presenter.skipped()),
        "{}",
        it.presenter.skipped()
    );
    it.xvfb.freeze(false);
    it.present(SIZE, &vec![200; SIZE.pixels() * 4]);
    assert!(
        rgb(&it.read((0, 0), (64, 48)))
            .iter()
            .all(|pixel| *pixel == [200; 3])
    );
}

/// A frame of four bands of raw rows with pixels of the value `shade`, without the `lost` bands.
fn paint(it: &mut Fixture, decoder: &mut dyn Decoder, shade: u8, lost: &[usize]) -> Option<Size> {
    let rows = SIZE.height / 4;
    for i in 0..4 {
        let mut bytes = Vec::new();
        let (size, first) = (SIZE, rows * u32::try_from(i).unwrap());
        Band { size, first, rows }.write(&mut bytes);
        bytes.resize(bytes.len() + (SIZE.width * rows * 4) as usize, shade);
        let chunk = Chunk {
            frame: FrameId(shade.into()),
            first: i == 0,
            last: i == 3,
            first_mb: 0,
            mbs: 0,
            bytes: (!lost.contains(&i)).then_some(&bytes),
        };
        let canvas = it.presenter.canvas().expect("lent");
        let view = View {
            size: SIZE,
            follows: false,
        };
        match decoder.paint(&chunk, Some(view), canvas).expect("decoded") {
            Some(Decoded::OnCanvas(size)) => return Some(size),
            Some(Decoded::Picture(_) | Decoded::DmaBuf(_)) => panic!("a decoder of bands paints"),
            None => {}
        }
    }
    None
}

/// Paints random rows, and sometimes presents a whole picture. The window always has the newest state of each row,
/// whichever buffer is displayed.
#[test]
fn rows_that_are_not_painted_stay_in_each_buffer() {
    let Some(mut it) = fixture(window_of(SIZE)) else {
        return;
    };
    it.settle();
    let mut expected = vec![0u8; SIZE.height as usize];
    let mut seed = 11u32;
    let mut below = |end: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % end
    };
    for frame in 1..=120u32 {
        let shade = byte(frame as usize);
        if frame == 1 || frame % 17 == 5 {
            // Some frames come from a decoder that returns whole pictures.
            it.present(SIZE, &vec![shade; SIZE.pixels() * 4]);
            expected.fill(shade);
            continue;
        }
        let canvas = it.presenter.canvas().expect("lent");
        let mut top = 0;
        for _ in 0..below(3) {
            let first = top + below(SIZE.height - top);
            let rows = first..SIZE.height.min(first + 1 + below(20));
            canvas.rows(SIZE, rows.clone()).expect("memory").fill(shade);
            expected[rows.start as usize..rows.end as usize].fill(shade);
            top = rows.end;
            if top == SIZE.height {
                break;
            }
        }
        assert!(canvas.show(FrameId(frame), SIZE).expect("shown"));
        if frame % 29 == 7 {
            let text = [format!("{frame}")];
            it.presenter.panel(&text).expect("written");
            it.presenter.panel(&[]).expect("removed");
        }
        let image = rgb(&it.read((0, 0), (64, 48)));
        for (y, row) in image.chunks(64).enumerate() {
            let shade = expected[y];
            assert!(row.iter().all(|p| *p == [shade; 3]), "{frame}, row {y}");
        }
    }
    assert_eq!(it.presenter.skipped(), 0);
}

#[test]
fn bands_are_painted_in_place_and_a_lost_one_keeps_its_rows() {
    let Some(mut it) = fixture(window_of(SIZE)) else {
        return;
    };
    let mut decoder = decode::open(Codec::Raw).expect("raw");
    let mut expected = [0; 4];
    // Bands are lost at each position, in each of the buffers.
    for shade in 1..=40u8 {
        let lost: Vec<usize> = (0..4).filter(|i| (shade >> i) & 1 == 1).collect();
        let size = match shade {
            1 => paint(&mut it, &mut *decoder, shade, &[]),
            _ => paint(&mut it, &mut *decoder, shade, &lost),
        };
        assert_eq!(size, Some(SIZE));
        for (i, row) in expected.iter_mut().enumerate() {
            if shade == 1 || !lost.contains(&i) {
                *row = shade;
            }
        }
        if shade % 7 == 3 {
            // A later frame is already complete. Therefore, this frame is not displayed, but it is the basis of the
            // next frame.
            continue;
        }
        let canvas = it.presenter.canvas().expect("lent");
        canvas.show(FrameId(shade.into()), SIZE).expect("shown");
        let image = rgb(&it.read((0, 0), (64, 48)));
        for (i, band) in image.chunks(64 * 12).enumerate() {
            assert!(band.iter().all(|p| *p == [expected[i]; 3]), "{shade}, {i}");
        }
    }
    assert_eq!(it.presenter.skipped(), 0);
    // A decoder that returns whole pictures takes over, and then the first decoder again.
    let data = bgrx(SIZE);
    it.present(SIZE, &data);
    assert_eq!(paint(&mut it, &mut *decoder, 41, &[0, 1, 2, 3]), Some(SIZE));
    let canvas = it.presenter.canvas().expect("lent");
    canvas.show(FrameId(41), SIZE).expect("shown");
    assert_eq!(rgb(&it.read((0, 0), (64, 48))), rgb(&data));

    it.xvfb.freeze(true);
    for shade in 50..55 {
        paint(&mut it, &mut *decoder, shade, &[]);
        let canvas = it.presenter.canvas().expect("lent");
        canvas.show(FrameId(shade.into()), SIZE).expect("alive");
    }
    let skipped = it.presenter.skipped();
    assert!((2..=4).contains(&skipped), "{skipped}");
    it.xvfb.freeze(false);
    paint(&mut it, &mut *decoder, 60, &[]);
    let canvas = it.presenter.canvas().expect("lent");
    canvas.show(FrameId(60), SIZE).expect("shown");
    let image = rgb(&it.read((0, 0), (64, 48)));
    assert!(image.iter().all(|pixel| *pixel == [60; 3]));
}

#[test]
fn close_button_and_server_death_are_distinguished() {
    let Some(mut it) = fixture(window_of(SIZE)) else {
        return;
    };
    it.settle();
    let atom = |name: &[u8]| {
        it.conn
            .intern_atom(false, name)
            .unwrap()
            .reply()
            .unwrap()
            .atom
    };
    let data = [atom(b"WM_DELETE_WINDOW"), 0, 0, 0, 0];
    let message = xproto::ClientMessageEvent::new(32, it.window, atom(b"WM_PROTOCOLS"), data);
    let none = xproto::EventMask::NO_EVENT;
    it.conn
        .send_event(false, it.window, none, message)
        .unwrap()
        .check()
        .unwrap();
    assert_eq!(it.settle(), [SourceEvent::Closed]);

    it.xvfb.kill();
    let error = it.source.next(None).expect_err("dead").to_string();
    assert!(
        error.contains("is gone") && error.lines().count() == 1,
        "{error}"
    );
    let picture = bgrx(SIZE);
    let picture = Picture::bgrx(SIZE, &picture, 256);
    let error = it
        .presenter
        .present(FrameId(1), &picture)
        .expect_err("dead")
        .to_string();
    assert!(
        error.contains("is gone") && error.lines().count() == 1,
        "{error}"
    );
}

#[test]
fn a_missing_display_is_named() {
    let config = WindowConfig {
        display: Some(":59535".to_owned()),
        ..WindowConfig::default()
    };
    let error = open(&config).err().expect("no such display").to_string();
    assert!(
        error.contains(":59535") && error.lines().count() == 1,
        "{error}"
    );
}

#[test]
fn a_display_of_another_depth_shows_the_same_colours() {
    for depth in [8, 15, 16, 30] {
        let screen = format!("320x240x{depth}");
        let Some(xvfb) = fixture::xvfb("320x240", &["-screen", "0", &screen]) else {
            return;
        };
        let config = WindowConfig {
            display: Some(xvfb.display.clone()),
            ..window_of(SIZE)
        };
        let (mut presenter, _source) = open(&config).expect("Xvfb has everything");
        let (conn, root) = xvfb.connect();
        let tree = conn.query_tree(root).unwrap().reply().unwrap();
        let window = *tree.children.last().unwrap();
        let map = conn.setup().roots[0].default_colormap;
        // An unscaled picture, a partial repaint, and a scaled picture.
        for (size, colour) in [
            (SIZE, [0, 0, 255, 0]),
            (SIZE, [0, 255, 0, 0]),
            (Size::new(32, 24), [255, 0, 0, 0]),
        ] {
            let data = colour.repeat(size.pixels());
            let picture = Picture::bgrx(size, &data, size.width as usize * 4);
            presenter.present(FrameId(1), &picture).expect("shown");
            presenter.conn.get_input_focus().unwrap().reply().unwrap();
            let bytes = pixels(&conn, window, (20, 20), (1, 1));
            let stored = match depth {
                8 => u32::from(bytes[0]),
                15 | 16 => u32::from(u16::from_le_bytes([bytes[0], bytes[1]])),
                _ => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) & 0x3fff_ffff,
            };
            let [blue, green, red, _] = colour.map(|value: u8| u16::from(value) * 0x101);
            let expected = conn.alloc_color(map, red, green, blue).unwrap();
            let expected = expected.reply().unwrap().pixel;
            assert_eq!(stored, expected, "{size} on depth {depth}");
        }
    }
}
