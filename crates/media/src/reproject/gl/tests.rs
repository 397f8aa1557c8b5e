//! OpenGL (here Mesa's llvmpipe) in the client's window on a real X server. The window's pixels match those of the
//! software renderer, except for small differences. Without OpenGL, the software renderer is used.

use std::time::{Duration, Instant};

use openuvr_proto::id::FrameId;
use openuvr_proto::reproject::{Camera, Homography, without_margin};
use openuvr_proto::rotation::Rotation;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::FieldOfView;
use openuvr_xserver::{
    Xvfb,
    fixture::{self, pixels},
};
use x11rb::protocol::xproto::{self, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

use super::super::{
    AimedRegion, DrawBackend, DrawParams, EyeView, Filter, OpenedReprojector, Source, draw,
    eye_regions, open,
};
use crate::cursor::{Cursor, CursorShape};
use crate::input_source::InputSource as _;
use crate::input_source::x11::X11InputSource;
use crate::present::x11::{self, WindowConfig, X11Presenter};
use crate::present::{Presenter as _, null::Null};
use crate::skip::skip;

const EYE: u32 = 96;
const EYES: Size = Size::new(2 * EYE, EYE);
/// Timeout: long, because a busy machine may be slow.
const PATIENCE: Duration = Duration::from_secs(60);

struct Rig {
    presenter: X11Presenter,
    source: X11InputSource,
    conn: RustConnection,
    window: xproto::Window,
    // This is the last field, so that it outlives the connections.
    _xvfb: Xvfb,
}

impl Rig {
    fn on(xvfb: Xvfb) -> Rig {
        let config = WindowConfig {
            display: Some(xvfb.display.clone()),
            size: EYES,
            follow: true,
            ..WindowConfig::default()
        };
        let (presenter, source) = x11::open(&config).expect("a window");
        let (conn, root) = xvfb.connect();
        let children = conn.query_tree(root).unwrap().reply().unwrap().children;
        Rig {
            presenter,
            source,
            conn,
            window: *children.last().expect("our window"),
            _xvfb: xvfb,
        }
    }

    /// Draws and displays once.
    fn show(&mut self, opened: &mut OpenedReprojector, params: &DrawParams<'_>) {
        opened.reprojector.load(&params.source).expect("loaded");
        opened
            .reprojector
            .draw(&mut self.presenter, params)
            .expect("drawn");
        (opened.reprojector)
            .show(&mut self.presenter, FrameId(1))
            .expect("shown");
    }

    fn pixels(&self) -> (Size, Vec<u8>) {
        let it = self
            .conn
            .get_geometry(self.window)
            .unwrap()
            .reply()
            .unwrap();
        let read = pixels(&self.conn, self.window, (0, 0), (it.width, it.height));
        (Size::new(it.width.into(), it.height.into()), read)
    }

    /// Handles events of the window's thread and draws until the pixels match.
    fn until(
        &mut self,
        opened: &mut OpenedReprojector,
        params: &DrawParams<'_>,
        what: &str,
        good: impl Fn(Size, &[u8]) -> bool,
    ) {
        let end = Instant::now() + PATIENCE;
        loop {
            let _ = self
                .source
                .next(Some(Duration::from_millis(5)))
                .expect("alive");
            self.show(opened, params);
            let (size, seen) = self.pixels();
            if good(size, &seen) {
                return;
            }
            assert!(Instant::now() < end, "not displayed: {what}");
        }
    }
}

/// A picture that is smooth everywhere, with different colours for each eye.
#[allow(clippy::cast_possible_truncation, reason = "it is clamped")]
fn picture() -> Vec<u8> {
    let level = |v: f64| (127.5 + 100.0 * v).round().clamp(0.0, 255.0) as u8;
    (0..EYE)
        .flat_map(|y| (0..2 * EYE).map(move |x| (x, y)))
        .flat_map(|(x, y)| {
            let right = if x < EYE { 0.0 } else { 2.0 };
            let (x, y) = (f64::from(x % EYE) / 15.0, f64::from(y) / 15.0);
            [
                level((x + right).sin()),
                level((y - right).sin()),
                level((x + y + right).cos()),
                0,
            ]
        })
        .collect()
}

/// The transform for a field of view of 90° with this margin at each side, and a head that has turned.
fn aim(turned: [f32; 3], overscan: f32) -> Homography {
    let quarter = std::f32::consts::FRAC_PI_4;
    let view = FieldOfView::new(-quarter, quarter, quarter, -quarter).expect("a view");
    let size = Size::new(EYE, EYE);
    let shown = Camera {
        view: without_margin(&view, overscan.to_radians()),
        size,
    };
    let [yaw, pitch, roll] = turned.map(f32::to_radians);
    let turned = Rotation::of_head(yaw, pitch, roll);
    Homography::re_aimed(&Camera { view, size }, &shown, turned).expect("a picture")
}

fn aimed(view: EyeView, how: Homography) -> (Size, Vec<AimedRegion>) {
    let (size, cut) = eye_regions(EYES, 2, view);
    (
        size,
        cut.into_iter()
            .map(|part| AimedRegion { part, how })
            .collect(),
    )
}

/// Percentage of pixels with a channel that differs by more than `within`. The software renderer computes every 16th
/// pixel exactly and interpolates the other pixels. At the picture's edge, a pixel may therefore be black in only one
/// of the pictures.
fn differing(a: &[u8], b: &[u8], within: u8) -> f64 {
    let apart = |(a, b): (&[u8], &[u8])| (0..3).any(|i| a[i].abs_diff(b[i]) > within);
    let pairs = a.chunks_exact(4).zip(b.chunks_exact(4));
    let count = pairs.filter(|pair| apart(*pair)).count();
    count as f64 * 400.0 / a.len() as f64
}

fn gl(rig: &mut Rig) -> Option<OpenedReprojector> {
    let opened = open(DrawBackend::Gl, &mut rig.presenter);
    if opened.with != DrawBackend::Gl {
        skip(&opened.warning.unwrap_or_default());
        return None;
    }
    Some(opened)
}

#[test]
fn opengl_matches_the_software_renderer() {
    let Some(xvfb) = fixture::xvfb("400x300", &[]) else {
        return;
    };
    let mut rig = Rig::on(xvfb);
    let Some(mut opened) = gl(&mut rig) else {
        return;
    };
    let bytes = picture();
    let source = Source {
        size: EYES,
        bytes: &bytes,
    };
    let heads = [
        ([0.0, 0.0, 0.0], 0.0),
        ([12.0, -7.0, 5.0], 0.0),
        ([-20.0, 3.0, 0.0], 10.0),
        ([0.0, 0.0, 0.0], 10.0),
        ([100.0, 0.0, 0.0], 0.0),
    ];
    for view in EyeView::ALL {
        for (turned, overscan) in heads {
            let (size, parts) = aimed(view, aim(turned, overscan));
            for filter in [Filter::Bilinear, Filter::Nearest] {
                let params = DrawParams {
                    source,
                    parts: &parts,
                    filter,
                    size,
                };
                let mut ours = vec![0; size.pixels() * 4];
                draw(&source, &parts, filter, size, &mut ours);
                // Neighbouring pixels of this picture differ by up to 7 levels.
                let within = if filter == Filter::Bilinear { 4 } else { 8 };
                let what = format!("{view:?} {turned:?} {overscan} {filter:?}");
                rig.until(&mut opened, &params, &what, |seen, pixels| {
                    seen == size && differing(pixels, &ours, within) < 2.0
                });
            }
        }
    }
}

#[test]
fn text_and_pointer_and_another_window_are_drawn_with_it() {
    let Some(xvfb) = fixture::xvfb("400x300", &[]) else {
        return;
    };
    let mut rig = Rig::on(xvfb);
    let Some(mut opened) = gl(&mut rig) else {
        return;
    };
    let bytes = [90, 120, 150, 0].repeat(EYES.pixels());
    let (size, parts) = aimed(EyeView::Both, Homography::SAME);
    let params = DrawParams {
        source: Source {
            size: EYES,
            bytes: &bytes,
        },
        parts: &parts,
        filter: Filter::Bilinear,
        size,
    };
    let is = |pixel: &[u8], [b, g, r]: [u8; 3]| pixel[..3] == [b, g, r];
    rig.until(&mut opened, &params, "one colour", |_, seen| {
        seen.chunks_exact(4).all(|pixel| is(pixel, [90, 120, 150]))
    });
    assert!(!opened.reprojector.is_stale());
    rig.presenter
        .panel(&["A line of text".to_owned()])
        .expect("alive");
    assert!(opened.reprojector.is_stale(), "it must be drawn again");
    // Opaque red.
    let shape = CursorShape {
        width: 6,
        height: 4,
        argb: vec![0xffff_0000; 24],
        ..CursorShape::default()
    };
    let cursor = Cursor {
        at: Some((32_768, 49_152)),
        shape: shape.into(),
    };
    rig.presenter.cursor(&cursor).expect("alive");
    rig.until(&mut opened, &params, "text and pointer", |size, seen| {
        let pixel = |x: u32, y: u32| &seen[(y * size.width + x) as usize * 4..][..3];
        let pointer = pixel(EYE + 2, EYE * 3 / 4 + 2);
        let corner = pixel(9, 9);
        // The text box shows three tenths of the picture's brightness.
        is(pointer, [0, 0, 255])
            && (20..=35).contains(&corner[0])
            && is(pixel(0, 0), [90, 120, 150])
    });
    // The window is twice as wide as the picture, and 3 times as high, so there are bars above and below.
    let aux = xproto::ConfigureWindowAux::new()
        .width(EYE * 4)
        .height(EYE * 3);
    rig.conn
        .configure_window(rig.window, &aux)
        .unwrap()
        .check()
        .unwrap();
    rig.until(&mut opened, &params, "a larger window", |size, seen| {
        let pixel = |x: u32, y: u32| &seen[(y * size.width + x) as usize * 4..][..3];
        let below = size.height.saturating_sub(1);
        size == Size::new(EYE * 4, EYE * 3)
            && [0, EYE / 2 - 1, below]
                .iter()
                .all(|y| is(pixel(1, *y), [0; 3]))
            && [EYE / 2, below - EYE / 2]
                .iter()
                .all(|y| is(pixel(1, *y), [90, 120, 150]))
    });
}

#[test]
fn without_opengl_the_software_renderer_draws() {
    let Some(xvfb) = fixture::xvfb("400x300", &["-extension", "GLX"]) else {
        return;
    };
    let mut rig = Rig::on(xvfb);
    let mut opened = open(DrawBackend::Gl, &mut rig.presenter);
    assert_eq!(opened.with, DrawBackend::Software);
    let warning = opened.warning.take().expect("the reason");
    assert!(
        warning.contains("GLX") && warning.lines().count() == 1,
        "{warning}"
    );
    let bytes = picture();
    let (size, parts) = aimed(EyeView::Right, aim([5.0, 0.0, 0.0], 0.0));
    let source = Source {
        size: EYES,
        bytes: &bytes,
    };
    let mut ours = vec![0; size.pixels() * 4];
    draw(&source, &parts, Filter::Bilinear, size, &mut ours);
    let params = DrawParams {
        source,
        parts: &parts,
        filter: Filter::Bilinear,
        size,
    };
    rig.until(
        &mut opened,
        &params,
        "the software renderer",
        |seen, pixels| seen == size && differing(pixels, &ours, 0) == 0.0,
    );
    // Surfaces without a window have no OpenGL.
    let opened = open(DrawBackend::Gl, &mut Null::default());
    assert_eq!(opened.with, DrawBackend::Software);
    assert!(opened.warning.is_some_and(|why| why.contains("window")));
}

#[test]
fn software_gl_drivers_need_an_explicit_request() {
    let Some(xvfb) = fixture::xvfb("400x300", &[]) else {
        return;
    };
    let mut rig = Rig::on(xvfb);
    let Some(opened) = gl(&mut rig) else {
        return;
    };
    let fast = opened.reprojector.is_fast();
    let renderer = opened.reprojector.renderer().to_owned();
    match &opened.warning {
        None => assert!(fast, "{renderer} is a software renderer, which is reported"),
        Some(why) => assert!(!fast && why.contains(&renderer), "{why}"),
    }
    drop(opened);
    let opened = open(DrawBackend::Auto, &mut rig.presenter);
    assert_eq!(opened.with == DrawBackend::Gl, fast);
    assert_eq!(opened.warning, None);
}

#[test]
fn a_dead_server_is_an_error_not_an_exit() {
    let Some(xvfb) = fixture::xvfb("400x300", &[]) else {
        return;
    };
    let mut rig = Rig::on(xvfb);
    let Some(mut opened) = gl(&mut rig) else {
        return;
    };
    let bytes = picture();
    let (size, parts) = aimed(EyeView::Both, Homography::SAME);
    let params = DrawParams {
        source: Source {
            size: EYES,
            bytes: &bytes,
        },
        parts: &parts,
        filter: Filter::Bilinear,
        size,
    };
    rig.show(&mut opened, &params);
    rig._xvfb.kill();
    let end = Instant::now() + PATIENCE;
    loop {
        let drawn = opened.reprojector.draw(&mut rig.presenter, &params);
        if drawn
            .and_then(|()| opened.reprojector.show(&mut rig.presenter, FrameId(2)))
            .is_err()
        {
            break;
        }
        assert!(Instant::now() < end, "not reported");
    }
}
