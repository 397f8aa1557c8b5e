//! The thread that shows pictures of eyes: it has the surface, and draws at the display's own rate.

use std::sync::Arc;
use std::time::Duration;

use openuvr_media::present::{PresentError, Presenter};
use openuvr_media::reproject::{self, Aimed, DrawWith, EyeView, Opened, Part, Shot, parts};
use openuvr_proto::motion::{Velocity, carried};
use openuvr_proto::reproject::{Camera, Homography, turned, without_margin};
use openuvr_proto::rotation::Rotation;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;

use super::pace::Pace;
use super::{Desk, Eyes, Frame, Orders, ReAimed, Said};
use crate::clock;
use crate::lock::lock;

/// A head of which nothing was heard for so long stands still: as the host's OpenXR runtime has it.
const STALE: Duration = Duration::from_millis(330);

/// A head that turned by less, in radians, sees the same: a tenth of a pixel of a right angle on 640 pixels.
const SAME: f32 = 0.000_2;

/// How often a still picture is looked after, in a way to draw that must draw again for a changed window.
const LOOK: Duration = Duration::from_millis(20);

/// How much a new measurement of the way to the surface counts.
const NEWS: u32 = 8;

/// Steps of the histogram of costs, in microseconds, and how many there are.
const STEP: u32 = 20;
const STEPS: usize = 1000;

/// How pictures are cut into parts of the surface.
struct Layout {
    /// Of which pictures: their size, how many eyes are in them, which are shown.
    of: (Size, usize, EyeView),
    /// The surface's size.
    size: Size,
    cut: Vec<Part>,
}

/// The thread's own.
pub(super) struct Show {
    presenter: Box<dyn Presenter>,
    desk: Arc<Desk>,
    eyes: Eyes,
    re_aims: bool,
    pace: Pace,
    /// The newest picture.
    current: Option<Frame>,
    view: EyeView,
    /// How it is cut, for the size and view that it was made for.
    layout: Option<Layout>,
    aimed: Vec<Aimed>,
    /// Of what is on the surface: where the head looked.
    shown: Option<Option<Rotation>>,
    /// From the choice of the pose to the surface.
    way: Duration,
    costs: Vec<u64>,
    told: Box<dyn Fn(Said) + Send>,
}

/// What there is to do.
enum Work {
    Draw { fresh: bool },
    End,
}

impl Show {
    pub(super) fn new(
        presenter: Box<dyn Presenter>,
        desk: Arc<Desk>,
        eyes: Eyes,
        re_aims: bool,
        told: Box<dyn Fn(Said) + Send>,
    ) -> Show {
        Show {
            presenter,
            desk,
            eyes,
            re_aims,
            pace: Pace::new(eyes.rate),
            current: None,
            view: eyes.view,
            layout: None,
            aimed: Vec::new(),
            shown: None,
            way: Duration::ZERO,
            costs: vec![0; STEPS],
            told,
        }
    }

    /// Shows until it is told to end, or the surface is gone; then tells what it cost, if anything was re-aimed.
    pub(super) fn run(mut self) {
        // Here, since it stays on this thread.
        let mut way = reproject::open(self.eyes.draw_with, self.presenter.as_mut());
        if let Some(trouble) = way.trouble.take() {
            (self.told)(Said::Trouble(trouble));
        }
        loop {
            let done = match self.wait(&way) {
                Ok(Work::End) => break,
                Ok(Work::Draw { fresh }) => self.draw(fresh, &mut way),
                Err(e) => Err(e),
            };
            if let Err(PresentError(why)) = done {
                lock(&self.desk.orders).gone = Some(why);
                break;
            }
        }
        if let Some(cost) = self.cost(way.with) {
            (self.told)(Said::Cost(cost));
        }
    }

    /// Waits for the next turn, and passes on meanwhile what the surface is told.
    fn wait(&mut self, way: &Opened) -> Result<Work, PresentError> {
        let desk = Arc::clone(&self.desk);
        let mut orders = lock(&desk.orders);
        loop {
            if orders.stop {
                return Ok(Work::End);
            }
            let told = Told::of(&mut orders);
            if let Some(told) = told {
                drop(orders);
                told.pass_on(self.presenter.as_mut())?;
                orders = lock(&desk.orders);
                continue;
            }
            let otherwise = orders.view != self.view;
            let fresh = orders.fresh.is_some() || otherwise;
            let stale = way.re_aimer.is_stale();
            let moves = self.current.is_some() && (self.follows() || stale);
            let now = clock::now();
            let due = match () {
                () if fresh => self.pace.due(true),
                () if moves => self.pace.due(false),
                () if way.with != DrawWith::Software => now + LOOK,
                () => now + STALE,
            };
            if now < due {
                let wait = desk.changed.wait_timeout(orders, due.since(now));
                orders = wait.map_or_else(|poisoned| poisoned.into_inner().0, |(orders, _)| orders);
                continue;
            }
            if !fresh && !moves {
                continue;
            }
            self.view = orders.view;
            if let Some(frame) = orders.fresh.take()
                && let Some(old) = self.current.replace(frame)
            {
                orders.spare.push(old.pixels);
            }
            self.pace.drawn(now, fresh);
            return Ok(Work::Draw { fresh });
        }
    }

    /// Whether what is shown turns with the head.
    fn follows(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|frame| self.turns(frame))
    }

    /// Whether a picture turns with the head.
    fn turns(&self, frame: &Frame) -> bool {
        let viewpoint = &frame.viewpoint;
        self.re_aims && viewpoint.views.is_some() && viewpoint.pose.is_some()
    }

    /// Where the head will look when what is drawn now is on the surface; `None` if it is not to be followed.
    fn gaze(&self, frame: &Frame, now: Instant) -> Option<Rotation> {
        if !self.turns(frame) {
            return None;
        }
        let (pose, sampled) = (*lock(&self.desk.head))?;
        let age = now.since(sampled);
        // A head that fell silent, or a clock that jumped.
        let ahead = if age < STALE {
            age + self.way
        } else {
            Duration::ZERO
        };
        let (_, looks) = carried(&pose, &Velocity::of(&pose), ahead.as_secs_f32());
        Some(looks)
    }

    fn draw(&mut self, fresh: bool, way: &mut Opened) -> Result<(), PresentError> {
        let Some(frame) = self.current.take() else {
            return Ok(());
        };
        let drawn = self.draw_now(&frame, fresh, way);
        self.current = Some(frame);
        drawn
    }

    fn draw_now(
        &mut self,
        frame: &Frame,
        fresh: bool,
        way: &mut Opened,
    ) -> Result<(), PresentError> {
        let began = clock::now();
        let mut loaded = match fresh {
            true => way.re_aimer.load(&frame.source()),
            false => Ok(()),
        };
        // As late as can be: what follows needs it. Without a picture of its own this is the first thing done.
        let chosen = clock::now();
        let gaze = self.gaze(frame, chosen);
        let still = match (gaze, self.shown) {
            (Some(now), Some(Some(before))) => angle(now, before) < SAME,
            (None, Some(None)) => true,
            _ => false,
        };
        if still && !fresh && !way.re_aimer.is_stale() {
            return Ok(());
        }
        self.cut(frame, gaze);
        if loaded.is_ok() {
            loaded = self.put(frame, began, way);
        }
        if let Err(PresentError(why)) = loaded {
            if way.with == DrawWith::Software {
                return Err(PresentError(why));
            }
            // The surface may be as good as before: if it is gone, that is found out now.
            let name = way.with.name();
            let why =
                format!("{name} no longer draws pictures of eyes: {why}; in software from now on");
            (self.told)(Said::Trouble(why));
            way.re_aimer = reproject::software();
            way.with = DrawWith::Software;
            self.put(frame, began, way)?;
        }
        self.shown = Some(gaze);
        if gaze.is_some() {
            let way = clock::now().since(chosen);
            self.way = (self.way * (NEWS - 1) + way) / NEWS;
        }
        Ok(())
    }

    /// Cuts a picture into parts, and aims them.
    fn cut(&mut self, frame: &Frame, gaze: Option<Rotation>) {
        let eyes = frame.viewpoint.views.map_or(1, |views| views.count());
        let key = (frame.size, eyes, self.view);
        let (size, cut) = match self.layout.take() {
            Some(layout) if layout.of == key => (layout.size, layout.cut),
            _ => parts(frame.size, if eyes == 2 { 2 } else { 1 }, self.view),
        };
        self.aimed.clear();
        for part in &cut {
            let how = self.aim(frame, part, gaze);
            let part = part.clone();
            self.aimed.push(Aimed { part, how });
        }
        self.layout = Some(Layout { of: key, size, cut });
    }

    /// How one eye's picture is aimed. What can't be is shown as it was drawn.
    fn aim(&self, frame: &Frame, part: &Part, gaze: Option<Rotation>) -> Homography {
        let aimed = || {
            let now = gaze?;
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

    /// Draws on the surface.
    fn put(&mut self, frame: &Frame, began: Instant, way: &mut Opened) -> Result<(), PresentError> {
        let Some(layout) = &self.layout else {
            return Ok(());
        };
        let shot = Shot {
            source: frame.source(),
            parts: &self.aimed,
            filter: self.eyes.filter,
            size: layout.size,
        };
        let surface = self.presenter.as_mut();
        way.re_aimer.draw(surface, &shot)?;
        note(&mut self.costs, began);
        way.re_aimer.show(surface, frame.frame)
    }

    fn cost(&self, with: DrawWith) -> Option<ReAimed> {
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
        (pictures > 0).then(|| ReAimed {
            pictures,
            p50: at(50),
            p99: at(99),
            with,
        })
    }
}

/// Counts what a picture cost that was begun then.
fn note(costs: &mut [u64], began: Instant) {
    let step = clock::now().since(began).as_micros() / u128::from(STEP);
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    if let Some(count) = costs.get_mut(step.min(STEPS - 1)) {
        *count += 1;
    }
}

/// Radians between two rotations.
fn angle(a: Rotation, b: Rotation) -> f32 {
    let by = a.after(b.inverse()).vector();
    by.iter().map(|v| v * v).sum::<f32>().sqrt()
}

/// What the surface is told besides pictures.
#[derive(Default)]
struct Told {
    cursor: Option<openuvr_media::cursor::Cursor>,
    relative: Option<bool>,
    observer: Option<(bool, String)>,
    panel: Option<Vec<String>>,
}

impl Told {
    fn of(orders: &mut Orders) -> Option<Told> {
        let told = Told {
            cursor: orders.cursor.take(),
            relative: orders.relative.take(),
            observer: orders.observer.take(),
            panel: orders.panel.take(),
        };
        let any = told.cursor.is_some()
            || told.relative.is_some()
            || told.observer.is_some()
            || told.panel.is_some();
        any.then_some(told)
    }

    fn pass_on(self, presenter: &mut dyn Presenter) -> Result<(), PresentError> {
        if let Some(cursor) = &self.cursor {
            presenter.cursor(cursor)?;
        }
        if let Some(wanted) = self.relative {
            presenter.relative_mouse(wanted)?;
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
