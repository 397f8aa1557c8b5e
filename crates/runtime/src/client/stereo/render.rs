//! The render thread for stereo pictures: it owns the surface and draws at the display's refresh rate.

use std::sync::Arc;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::present::{PresentError, Presenter};
use openuvr_media::reproject::{
    self, AimedRegion, DrawBackend, DrawParams, EyeRegion, EyeView, OpenedReprojector, eye_regions,
};
use openuvr_proto::motion::{Velocity, extrapolated};
use openuvr_proto::reproject::{Camera, Homography, turned, without_margin};
use openuvr_proto::rotation::Rotation;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;

use super::pace::Pace;
use super::{Frame, Mailbox, Pending, ReprojectionCost, StereoEvent, StereoSettings};
use crate::lock::lock;

/// A pose is no longer extrapolated once it reaches this age, as in the host's OpenXR runtime.
const MAX_POSE_AGE: Duration = Duration::from_millis(330);

/// A picture is redrawn if the head has rotated by at least this angle, in radians: about a tenth of a pixel at 90
/// degrees on 640 pixels.
const MIN_TURN: f32 = 0.000_2;

/// Interval at which the OpenGL renderer is checked while the picture is still, because it must redraw the picture when
/// the window changes.
const STILL_INTERVAL: Duration = Duration::from_millis(20);

/// Smoothing of the display latency: a new measurement has a weight of 1 / `SMOOTHING`.
const SMOOTHING: u32 = 8;

/// Bucket width of the cost histogram in microseconds, and the number of buckets.
const STEP: u32 = 20;
const STEPS: usize = 1000;

/// How a picture is split into parts of the surface.
struct Layout {
    /// The pictures to which the layout applies: their size, number of eyes and eye view.
    of: (Size, usize, EyeView),
    /// The surface's size.
    size: Size,
    cut: Vec<EyeRegion>,
}

/// The state of the render thread.
pub(super) struct Renderer {
    presenter: Box<dyn Presenter>,
    mailbox: Arc<Mailbox>,
    eyes: StereoSettings,
    reprojects: bool,
    pace: Pace,
    /// The newest picture.
    current: Option<Frame>,
    view: EyeView,
    /// The layout of the last drawn picture.
    layout: Option<Layout>,
    aimed: Vec<AimedRegion>,
    /// The head rotation for which the picture on the surface was drawn; `Some(None)` if it was not reprojected.
    shown: Option<Option<Rotation>>,
    /// Smoothed time from the selection of the pose until the picture is on the surface.
    display_latency: Duration,
    costs: Vec<u64>,
    on_event: Box<dyn Fn(StereoEvent) + Send>,
}

/// Reports the surface as lost if the render thread panics. Otherwise, the media thread would submit pictures that are
/// never drawn.
struct PanicReporter(Arc<Mailbox>);

impl Drop for PanicReporter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = "the thread for stereo pictures panicked: please report it";
            lock(&self.0.pending).closed = Some(why.to_owned());
        }
    }
}

/// The next step.
enum Work {
    Draw { fresh: bool },
    End,
}

impl Renderer {
    pub(super) fn new(
        presenter: Box<dyn Presenter>,
        mailbox: Arc<Mailbox>,
        eyes: StereoSettings,
        reprojects: bool,
        on_event: Box<dyn Fn(StereoEvent) + Send>,
    ) -> Renderer {
        Renderer {
            presenter,
            mailbox,
            eyes,
            reprojects,
            pace: Pace::new(eyes.rate),
            current: None,
            view: eyes.view,
            layout: None,
            aimed: Vec::new(),
            shown: None,
            display_latency: Duration::ZERO,
            costs: vec![0; STEPS],
            on_event,
        }
    }

    /// Draws until the thread is stopped or the surface is lost. Then reports the cost, if anything was drawn.
    pub(super) fn run(mut self) {
        let _panic_reporter = PanicReporter(Arc::clone(&self.mailbox));
        // Open the renderer here, because it must stay in this thread.
        let mut backend = reproject::open(self.eyes.draw_with, self.presenter.as_mut());
        if let Some(trouble) = backend.warning.take() {
            (self.on_event)(StereoEvent::Warning(trouble));
        }
        loop {
            let done = match self.wait(&backend) {
                Ok(Work::End) => break,
                Ok(Work::Draw { fresh }) => self.draw(fresh, &mut backend),
                Err(e) => Err(e),
            };
            if let Err(PresentError(why)) = done {
                lock(&self.mailbox.pending).closed = Some(why);
                break;
            }
        }
        if let Some(cost) = self.cost(backend.with) {
            (self.on_event)(StereoEvent::Cost(cost));
        }
    }

    /// Waits until the next drawing is due. In the meantime, applies other updates to the surface.
    fn wait(&mut self, backend: &OpenedReprojector) -> Result<Work, PresentError> {
        let mailbox = Arc::clone(&self.mailbox);
        let mut pending = lock(&mailbox.pending);
        loop {
            if pending.stop {
                return Ok(Work::End);
            }
            let updates = SurfaceUpdates::of(&mut pending);
            if let Some(updates) = updates {
                drop(pending);
                updates.apply_to(self.presenter.as_mut())?;
                pending = lock(&mailbox.pending);
                continue;
            }
            let otherwise = pending.view != self.view;
            let fresh = pending.frame.is_some() || otherwise;
            let stale = backend.reprojector.is_stale();
            let moves = self.current.is_some() && (self.follows_head() || stale);
            let now = clock::now();
            let due = match () {
                () if fresh => self.pace.due(true),
                () if moves => self.pace.due(false),
                () if backend.with != DrawBackend::Software => now + STILL_INTERVAL,
                () => now + MAX_POSE_AGE,
            };
            if now < due {
                let wait = mailbox.changed.wait_timeout(pending, due.since(now));
                pending =
                    wait.map_or_else(|poisoned| poisoned.into_inner().0, |(pending, _)| pending);
                continue;
            }
            if !fresh && !moves {
                continue;
            }
            self.view = pending.view;
            if let Some(frame) = pending.frame.take()
                && let Some(old) = self.current.replace(frame)
            {
                pending.spare.push(old.pixels);
            }
            self.pace.drawn(now, fresh);
            return Ok(Work::Draw { fresh });
        }
    }

    /// Whether the current picture follows the head.
    fn follows_head(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|frame| self.can_reproject(frame))
    }

    fn can_reproject(&self, frame: &Frame) -> bool {
        let viewpoint = &frame.viewpoint;
        self.reprojects && viewpoint.views.is_some() && viewpoint.pose.is_some()
    }

    /// The head rotation that is predicted for the time when the drawing will be displayed; `None` without
    /// reprojection.
    fn predicted_rotation(&self, frame: &Frame, now: Instant) -> Option<Rotation> {
        if !self.can_reproject(frame) {
            return None;
        }
        let (pose, sampled) = (*lock(&self.mailbox.head))?;
        let age = now.since(sampled);
        // Do not extrapolate a pose that is stale or whose clock jumped.
        let ahead = if age < MAX_POSE_AGE {
            age + self.display_latency
        } else {
            Duration::ZERO
        };
        let (_, rotation) = extrapolated(&pose, &Velocity::of(&pose), ahead.as_secs_f32());
        Some(rotation)
    }

    fn draw(&mut self, fresh: bool, backend: &mut OpenedReprojector) -> Result<(), PresentError> {
        let Some(frame) = self.current.take() else {
            return Ok(());
        };
        let drawn = self.draw_now(&frame, fresh, backend);
        self.current = Some(frame);
        drawn
    }

    fn draw_now(
        &mut self,
        frame: &Frame,
        fresh: bool,
        backend: &mut OpenedReprojector,
    ) -> Result<(), PresentError> {
        let began = clock::now();
        let mut loaded = match fresh {
            true => backend.reprojector.load(&frame.source()),
            false => Ok(()),
        };
        // Read the pose as late as possible, after a new picture has been loaded.
        let chosen = clock::now();
        let predicted_rotation = self.predicted_rotation(frame, chosen);
        let still = match (predicted_rotation, self.shown) {
            (Some(now), Some(Some(before))) => angle(now, before) < MIN_TURN,
            (None, Some(None)) => true,
            _ => false,
        };
        if still && !fresh && !backend.reprojector.is_stale() {
            return Ok(());
        }
        self.cut(frame, predicted_rotation);
        if loaded.is_ok() {
            loaded = self.present(frame, began, backend);
        }
        if let Err(PresentError(why)) = loaded {
            if backend.with == DrawBackend::Software {
                return Err(PresentError(why));
            }
            // The surface may still work. If it does not, the software renderer reports the error.
            let name = backend.with.name();
            let why =
                format!("{name} failed to draw stereo pictures: {why}; falling back to software");
            (self.on_event)(StereoEvent::Warning(why));
            backend.reprojector = reproject::software();
            backend.with = DrawBackend::Software;
            self.present(frame, began, backend)?;
        }
        self.shown = Some(predicted_rotation);
        if predicted_rotation.is_some() {
            let latency = clock::now().since(chosen);
            self.display_latency = (self.display_latency * (SMOOTHING - 1) + latency) / SMOOTHING;
        }
        Ok(())
    }

    /// Splits a picture into parts and computes the homography of each part.
    fn cut(&mut self, frame: &Frame, predicted_rotation: Option<Rotation>) {
        let eyes = frame.viewpoint.views.map_or(1, |views| views.count());
        let key = (frame.size, eyes, self.view);
        let (size, cut) = match self.layout.take() {
            Some(layout) if layout.of == key => (layout.size, layout.cut),
            _ => eye_regions(frame.size, if eyes == 2 { 2 } else { 1 }, self.view),
        };
        self.aimed.clear();
        for part in &cut {
            let how = self.aim(frame, part, predicted_rotation);
            let part = part.clone();
            self.aimed.push(AimedRegion { part, how });
        }
        self.layout = Some(Layout { of: key, size, cut });
    }

    /// The homography of one eye's part of the picture; the identity if the picture cannot be reprojected.
    fn aim(
        &self,
        frame: &Frame,
        part: &EyeRegion,
        predicted_rotation: Option<Rotation>,
    ) -> Homography {
        let aimed = || {
            let now = predicted_rotation?;
            let view = *frame.viewpoint.views?.iter().nth(part.eye)?;
            let head = Rotation::of(&frame.viewpoint.pose?.at);
            let size = part.size(frame.size.height);
            let drawn = Camera {
                view: view.fov,
                size,
            };
            let shown = Camera {
                view: without_margin(&view.fov, self.eyes.overscan),
                size,
            };
            let turned = turned(head, Rotation::of(&view.pose), now);
            Homography::re_aimed(&drawn, &shown, turned)
        };
        aimed().unwrap_or(Homography::SAME)
    }

    /// Draws and presents the picture.
    fn present(
        &mut self,
        frame: &Frame,
        began: Instant,
        backend: &mut OpenedReprojector,
    ) -> Result<(), PresentError> {
        let Some(layout) = &self.layout else {
            return Ok(());
        };
        let shot = DrawParams {
            source: frame.source(),
            parts: &self.aimed,
            filter: self.eyes.filter,
            size: layout.size,
        };
        let surface = self.presenter.as_mut();
        backend.reprojector.draw(surface, &shot)?;
        record_cost(&mut self.costs, began);
        backend.reprojector.show(surface, frame.frame)
    }

    fn cost(&self, with: DrawBackend) -> Option<ReprojectionCost> {
        let pictures: u64 = self.costs.iter().sum();
        let at = |percent: u64| {
            let mut left = pictures * percent / 100;
            let step = self.costs.iter().position(|count| {
                let here = left < *count;
                left = left.saturating_sub(*count);
                here
            });
            let step = u32::try_from(step.unwrap_or(STEPS)).unwrap_or(u32::MAX);
            step.saturating_add(1).saturating_mul(STEP)
        };
        (pictures > 0).then(|| ReprojectionCost {
            pictures,
            p50: at(50),
            p99: at(99),
            with,
        })
    }
}

/// Adds the cost of a picture whose drawing started at `began`.
fn record_cost(costs: &mut [u64], began: Instant) {
    let step = clock::now().since(began).as_micros() / u128::from(STEP);
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    if let Some(count) = costs.get_mut(step.min(STEPS - 1)) {
        *count += 1;
    }
}

/// The angle between two rotations, in radians.
fn angle(a: Rotation, b: Rotation) -> f32 {
    let by = a.after(b.inverse()).vector();
    by.iter().map(|v| v * v).sum::<f32>().sqrt()
}

/// Updates of the surface other than pictures.
#[derive(Default)]
struct SurfaceUpdates {
    cursor: Option<openuvr_media::cursor::Cursor>,
    relative: Option<bool>,
    observer: Option<(bool, String)>,
    panel: Option<Vec<String>>,
}

impl SurfaceUpdates {
    fn of(pending: &mut Pending) -> Option<SurfaceUpdates> {
        let updates = SurfaceUpdates {
            cursor: pending.cursor.take(),
            relative: pending.relative.take(),
            observer: pending.observer.take(),
            panel: pending.panel.take(),
        };
        let any = updates.cursor.is_some()
            || updates.relative.is_some()
            || updates.observer.is_some()
            || updates.panel.is_some();
        any.then_some(updates)
    }

    fn apply_to(self, presenter: &mut dyn Presenter) -> Result<(), PresentError> {
        if let Some(cursor) = &self.cursor {
            presenter.cursor(cursor)?;
        }
        if let Some(relative) = self.relative {
            presenter.relative_mouse(relative)?;
        }
        if let Some((observer, title)) = &self.observer {
            presenter.set_observer(*observer, title)?;
        }
        if let Some(lines) = &self.panel {
            presenter.panel(lines)?;
        }
        Ok(())
    }
}
