//! Tests stereo pictures on a surface in memory: submits frames and head poses, and checks the drawn pictures.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant as Deadline};

use openuvr_clock as clock;
use openuvr_proto::id::PoseId;
use openuvr_proto::rotation::Rotation;
use openuvr_proto::wire::video::{FieldOfView, PoseEcho, View, Views};

use super::*;

/// How long the tests wait. A loaded machine may be slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// A surface in memory panics when it gets this title.
const PANIC: &str = "panic";

/// A surface in memory that reports the shown pictures.
struct Memory {
    size: Size,
    pixels: Vec<u8>,
    shown: SyncSender<(Size, Vec<u8>)>,
    observer: SyncSender<String>,
    rows: SyncSender<()>,
}

impl Presenter for Memory {
    fn present(&mut self, _: FrameId, _: &Picture<'_>) -> Result<(), PresentError> {
        panic!("this surface has a canvas");
    }

    fn canvas(&mut self) -> Option<&mut dyn Canvas> {
        Some(self)
    }

    fn cursor(&mut self, _: &Cursor) -> Result<(), PresentError> {
        Ok(())
    }

    fn set_observer(&mut self, _: bool, title: &str) -> Result<(), PresentError> {
        assert_ne!(title, PANIC, "as the test wants");
        let _ = self.observer.try_send(title.to_owned());
        Ok(())
    }
}

impl Canvas for Memory {
    fn rows(&mut self, size: Size, rows: Range<u32>) -> Option<&mut [u8]> {
        self.size = size;
        self.pixels.resize(size.pixels() * 4, 0);
        let row = size.width as usize * 4;
        self.pixels
            .get_mut(rows.start as usize * row..rows.end as usize * row)
    }

    fn show_rows(&mut self) -> Result<(), PresentError> {
        let _ = self.rows.try_send(());
        Ok(())
    }

    fn show(&mut self, _: FrameId, size: Size) -> Result<bool, PresentError> {
        match self.shown.try_send((size, self.pixels.clone())) {
            // A dropped receiver stands for a closed window.
            Err(std::sync::mpsc::TrySendError::Disconnected(_)) => {
                Err(PresentError("the window is gone".to_owned()))
            }
            _ => Ok(true),
        }
    }
}

struct Rig {
    presenter: StereoPresenter,
    mailbox: Arc<Mailbox>,
    shown: Option<Receiver<(Size, Vec<u8>)>>,
    titles: Receiver<String>,
    rows: Receiver<()>,
    costs: Receiver<ReprojectionCost>,
    warnings: Receiver<String>,
    frame: u32,
}

const SIDE: u32 = 64;
const EYES: Size = Size::new(2 * SIDE, SIDE);

impl Rig {
    fn new(eyes: StereoSettings, has_head: bool) -> Rig {
        let (shown_by, shown) = sync_channel(4);
        let (observer, titles) = sync_channel(4);
        let (rows_by, rows) = sync_channel(1);
        let (costs_by, costs) = sync_channel(1);
        let (warnings_by, warnings) = sync_channel(1);
        let surface = Memory {
            size: Size::default(),
            pixels: Vec::new(),
            shown: shown_by,
            observer,
            rows: rows_by,
        };
        let mailbox = Arc::new(Mailbox::new(eyes.view));
        let options = StereoOptions {
            mailbox: Arc::clone(&mailbox),
            on_event: Box::new(move |event| match event {
                StereoEvent::Cost(cost) => _ = costs_by.try_send(cost),
                StereoEvent::Warning(why) => _ = warnings_by.try_send(why),
            }),
            eyes,
            has_head,
            scheduler: Scheduler::ordinary(),
        };
        Rig {
            presenter: StereoPresenter::new(Box::new(surface), options),
            mailbox,
            shown: Some(shown),
            titles,
            rows,
            costs,
            warnings,
            frame: 0,
        }
    }

    /// Submits a frame whose red value encodes the column in the eye's part. `drawn` is the angle in degrees by which
    /// the head was turned left when the frame was drawn; `None` for a frame without views. Returns whether the canvas
    /// contains the frame afterwards.
    fn frame(&mut self, size: Size, drawn: Option<f32>) -> Result<bool, PresentError> {
        self.frame += 1;
        let eye = if drawn.is_some() {
            size.width / 2
        } else {
            size.width
        };
        let canvas = self.presenter.canvas().expect("a canvas");
        let bytes = canvas.rows(size, 0..size.height).expect("memory");
        for (i, pixel) in bytes.chunks_exact_mut(4).enumerate() {
            let x = u32::try_from(i).expect("a picture") % size.width % eye;
            let red = u8::try_from(x * 256 / eye).expect("below 256");
            pixel.copy_from_slice(&[0, 0, red, 0]);
        }
        self.presenter
            .viewpoint(&drawn.map_or_else(Viewpoint::default, viewpoint));
        let frame = FrameId(self.frame);
        let canvas = self.presenter.canvas().expect("as before");
        let shown = canvas.show(frame, size)?;
        Ok(shown && canvas.keeps_picture())
    }

    /// Whether the rows of an incomplete picture reach the surface.
    fn shows_rows(&mut self) -> bool {
        let canvas = self.presenter.canvas().expect("a canvas");
        canvas.show_rows().expect("open");
        self.rows.try_recv().is_ok()
    }

    /// Waits until a shown picture satisfies `predicate`.
    fn expect(&self, what: &str, predicate: impl Fn(Size, &[u8]) -> bool) {
        self.expect_while(what, || (), predicate);
    }

    /// Like `expect`, but calls `meanwhile` repeatedly while waiting.
    fn expect_while(
        &self,
        what: &str,
        meanwhile: impl Fn(),
        predicate: impl Fn(Size, &[u8]) -> bool,
    ) {
        let until = Deadline::now() + PATIENCE;
        let shown = self.shown.as_ref().expect("the window is open");
        while Deadline::now() < until {
            meanwhile();
            if let Ok((size, pixels)) = shown.recv_timeout(Duration::from_millis(10))
                && predicate(size, &pixels)
            {
                return;
            }
        }
        panic!("not shown: {what}");
    }

    /// Submits frames until one fails, and returns the reason.
    fn loss(&mut self) -> String {
        let until = Deadline::now() + PATIENCE;
        loop {
            match self.frame(EYES, Some(0.0)) {
                Err(PresentError(why)) => return why,
                Ok(_) => assert!(Deadline::now() < until, "no error"),
            }
            std::thread::yield_now();
        }
    }

    fn expect_turned(&self, degrees: f32) {
        self.expect(&format!("{degrees} degrees"), is_turned(degrees));
    }
}

/// Whether the middle of the left eye shows the column that a head sees after turning left by `degrees` since
/// rendering.
fn is_turned(degrees: f32) -> impl Fn(Size, &[u8]) -> bool {
    let column = 32.0 * (1.0 - degrees.to_radians().tan());
    move |size, pixels| {
        let middle = (SIDE / 2 * size.width + SIDE / 2) as usize * 4;
        size == EYES && (f32::from(pixels[middle + 2]) / 4.0 - column).abs() < 1.5
    }
}

fn head_turned(degrees: f32) -> Pose {
    let Rotation(rotation) = Rotation::of_head(degrees.to_radians(), 0.0, 0.0);
    Pose::new([0.0; 3], rotation).expect("a rotation")
}

fn viewpoint(degrees: f32) -> Viewpoint {
    let quarter = std::f32::consts::FRAC_PI_4;
    let fov = FieldOfView::new(-quarter, quarter, quarter, -quarter).expect("a view");
    let view = View {
        pose: head_turned(degrees),
        fov,
    };
    Viewpoint {
        pose: Some(PoseEcho {
            pose: PoseId(1),
            at: head_turned(degrees),
            display: None,
        }),
        views: Some(Views::two(view, view)),
    }
}

fn fast() -> StereoSettings {
    StereoSettings {
        rate: 500.0,
        ..StereoSettings::default()
    }
}

#[test]
fn a_frame_without_views_is_presented_directly() {
    let mut rig = Rig::new(fast(), true);
    assert!(rig.frame(EYES, None).expect("shown"));
    rig.expect("the picture", |size, pixels| size == EYES && pixels[2] == 0);
    assert!(matches!(rig.presenter.output, Output::Direct(_)));
    assert!(rig.shows_rows());
    // Without a head-pose source and with both eyes selected, there is nothing to process.
    let mut rig = Rig::new(fast(), false);
    assert!(rig.frame(EYES, Some(0.0)).expect("shown"));
    assert!(matches!(rig.presenter.output, Output::Direct(_)));
}

#[test]
fn a_picture_follows_the_head_without_a_new_frame() {
    let mut rig = Rig::new(fast(), true);
    rig.mailbox.set_head(head_turned(0.0), clock::now());
    // The first frame is on the surface, but not on the render thread's canvas, so the next frame must be painted
    // completely.
    assert!(!rig.frame(EYES, Some(0.0)).expect("shown"));
    assert!(!rig.shows_rows(), "another thread draws whole pictures");
    assert!(rig.frame(EYES, Some(0.0)).expect("shown"));
    rig.expect_turned(0.0);
    for degrees in [10.0, 25.0, -15.0] {
        rig.mailbox.set_head(head_turned(degrees), clock::now());
        rig.expect_turned(degrees);
    }
    // This frame was drawn for an older head rotation.
    assert!(rig.frame(EYES, Some(-25.0)).expect("shown"));
    rig.expect_turned(10.0);
    rig.presenter
        .set_observer(true, "observing")
        .expect("forwarded");
    let title = rig.titles.recv_timeout(PATIENCE).expect("applied");
    assert_eq!(title, "observing");
    drop(rig.presenter);
    let cost = rig.costs.recv_timeout(PATIENCE).expect("counted");
    // The picture that satisfied the first expectation may be the directly presented one, which has no cost.
    assert!(cost.pictures >= 4 && cost.p50 <= cost.p99, "{cost}");
    assert_eq!(cost.with, DrawBackend::Software);
    assert!(rig.warnings.try_recv().is_err(), "the default always works");
}

#[test]
fn software_replaces_a_failing_opengl_renderer() {
    let eyes = StereoSettings {
        draw_with: DrawBackend::Gl,
        ..fast()
    };
    let mut rig = Rig::new(eyes, true);
    rig.mailbox.set_head(head_turned(10.0), clock::now());
    assert!(!rig.frame(EYES, Some(0.0)).expect("shown"));
    assert!(rig.frame(EYES, Some(0.0)).expect("shown"));
    rig.expect_turned(10.0);
    let warning = rig.warnings.recv_timeout(PATIENCE).expect("a warning");
    assert!(warning.starts_with("gl can't reproject"), "{warning}");
    assert!(warning.ends_with("reprojecting in software"), "{warning}");
    drop(rig.presenter);
    let cost = rig.costs.recv_timeout(PATIENCE).expect("counted");
    assert_eq!(cost.with, DrawBackend::Software);
}

#[test]
fn a_velocity_is_extrapolated_unless_the_clock_jumped() {
    let mut rig = Rig::new(fast(), true);
    let turning = |degrees: f32| {
        let turns = Some([0.0, 200f32.to_radians(), 0.0]);
        head_turned(degrees).moving(None, turns).expect("finite")
    };
    assert!(!rig.frame(EYES, Some(0.0)).expect("shown"));
    assert!(rig.frame(EYES, Some(0.0)).expect("shown"));
    // The pose is extrapolated by about twenty degrees until it reaches the maximum age. Then it is no longer
    // extrapolated.
    let a_while = Duration::from_millis(150);
    let turns = || rig.mailbox.set_head(turning(0.0), clock::now() - a_while);
    rig.expect_while("20 degrees", turns, is_turned(20.0));
    rig.expect_turned(0.0);
    let hour = Duration::from_secs(3600);
    rig.mailbox.set_head(turning(5.0), clock::now() + hour);
    rig.expect_turned(5.0);
    rig.mailbox
        .set_head(turning(-5.0), Instant(clock::now().0 - 3_600_000_000_000));
    rig.expect_turned(-5.0);
}

#[test]
fn sizes_views_and_kinds_of_pictures_change() {
    let eyes = StereoSettings {
        view: EyeView::Left,
        ..fast()
    };
    let mut rig = Rig::new(eyes, false);
    assert!(!rig.frame(EYES, Some(0.0)).expect("shown"));
    assert!(rig.frame(EYES, Some(0.0)).expect("shown"));
    rig.expect("the left eye", |size, _| size == Size::new(SIDE, SIDE));
    assert_eq!(rig.mailbox.cycle_view(), EyeView::Right);
    assert_eq!(rig.mailbox.cycle_view(), EyeView::Anaglyph);
    assert_eq!(rig.mailbox.cycle_view(), EyeView::Both);
    rig.expect("both eyes", |size, _| size == EYES);
    // Show one picture of another size for both eyes, and then a stereo picture again.
    let mono = Size::new(100, 50);
    assert!(rig.frame(mono, None).expect("shown"));
    rig.expect("all of it", |size, pixels| {
        size == mono && pixels[99 * 4 + 2] > 250
    });
    let larger = Size::new(4 * SIDE, 2 * SIDE);
    assert!(rig.frame(larger, Some(0.0)).expect("shown"));
    rig.expect("both again", |size, _| size == larger);
}

#[test]
fn a_lost_surface_is_reported_with_the_next_picture() {
    let mut rig = Rig::new(fast(), true);
    assert!(!rig.frame(EYES, Some(0.0)).expect("shown"));
    rig.shown = None;
    assert_eq!(rig.loss(), "the window is gone");
}

#[test]
fn a_panic_of_the_render_thread_counts_as_a_lost_surface() {
    let mut rig = Rig::new(fast(), true);
    assert!(!rig.frame(EYES, Some(0.0)).expect("shown"));
    // The render thread may panic before or after the call returns.
    let _ = rig.presenter.set_observer(true, PANIC);
    let why = rig.loss();
    assert!(why.contains("panicked"), "{why}");
}
