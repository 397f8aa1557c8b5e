//! Pictures of eyes: shown as the person wants to see them, and re-aimed to where the head looks now.
//!
//! A surface stays as it is until a frame says that it has views, and there is something to do about it: another
//! view than both eyes side by side, or a head to re-aim for. From then on a thread of its own (`show`) has
//! the surface, and draws at the display's own rate; the media thread hands it each picture, and never waits for it.
//!
//! What it is not: the mathematics (`openuvr_proto::reproject`), or the drawing (`openuvr_media::reproject`).

mod pace;
mod show;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use openuvr_media::cursor::Cursor;
use openuvr_media::picture::Picture;
use openuvr_media::present::{Canvas, PresentError, Presenter, to_bgrx};
use openuvr_media::reproject::Source;
pub use openuvr_media::reproject::{DrawWith, EyeView, Filter};
use openuvr_proto::id::FrameId;
use openuvr_proto::pose::Pose;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::Viewpoint;

use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};

/// Whether pictures are re-aimed to where the head looks now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reproject {
    /// If the client has a head source of its own.
    #[default]
    Auto,
    /// Yes, also for poses that come by [`set_pose`](super::ClientRuntime::set_pose).
    On,
    /// No.
    Off,
}

/// How pictures of eyes are shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Eyes {
    /// Which eyes, at first.
    pub view: EyeView,
    /// Whether they are re-aimed.
    pub reproject: Reproject,
    /// What is left out at each side while they are, in radians, so that edges don't go black.
    pub overscan: f32,
    /// Refreshes of the display in a second: so often a picture is re-aimed. Between 1 and 1000.
    pub rate: f64,
    /// How pixels are made of those between which they fall.
    pub filter: Filter,
    /// With what they are drawn once there is something to do about them. OpenGL takes the program's errors of Xlib
    /// that concern its window: whoever has Xlib handlers of its own may prefer the processor, which is the default.
    pub draw_with: DrawWith,
}

impl Default for Eyes {
    fn default() -> Eyes {
        Eyes {
            view: EyeView::Both,
            reproject: Reproject::Auto,
            overscan: 0.0,
            rate: 60.0,
            filter: Filter::Bilinear,
            draw_with: DrawWith::Software,
        }
    }
}

/// What re-aiming cost, at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReAimed {
    /// Pictures that were drawn.
    pub pictures: u64,
    /// The time of one in microseconds: half of them took less …
    pub p50: u32,
    /// … and 99 of 100 took less.
    pub p99: u32,
    /// With what they were drawn at last.
    pub with: DrawWith,
}

impl std::fmt::Display for ReAimed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |micros: u32| f64::from(micros) / 1e3;
        write!(
            f,
            "pictures of eyes drawn: {} in {:.2} ms each (p50), {:.2} ms (p99), with {}",
            self.pictures,
            ms(self.p50),
            ms(self.p99),
            self.with.name()
        )
    }
}

/// Where the threads leave what the showing thread is to do.
#[derive(Default)]
pub(super) struct Desk {
    orders: Mutex<Orders>,
    changed: Condvar,
    /// The newest pose, and when the head was there.
    head: Mutex<Option<(Pose, Instant)>>,
}

#[derive(Default)]
struct Orders {
    view: EyeView,
    fresh: Option<Frame>,
    /// Memory of pictures that are over.
    spare: Vec<Vec<u8>>,
    /// Of these the newest counts.
    cursor: Option<Cursor>,
    relative: Option<bool>,
    observer: Option<(bool, String)>,
    panel: Option<Vec<String>>,
    stop: bool,
    /// Why the surface is gone.
    gone: Option<String>,
}

/// A picture on its way to the surface.
#[derive(Default)]
struct Frame {
    frame: FrameId,
    size: Size,
    /// Packed BGRX.
    pixels: Vec<u8>,
    viewpoint: Viewpoint,
}

impl Frame {
    fn source(&self) -> Source<'_> {
        Source {
            size: self.size,
            bytes: &self.pixels,
        }
    }
}

impl Desk {
    pub(super) fn new(view: EyeView) -> Desk {
        let desk = Desk::default();
        lock(&desk.orders).view = view;
        desk
    }

    /// The head was here.
    pub(super) fn head_at(&self, pose: Pose, sampled: Instant) {
        *lock(&self.head) = Some((pose, sampled));
    }

    /// The person wants to see it otherwise; how.
    pub(super) fn next_view(&self) -> EyeView {
        let mut view = EyeView::default();
        self.order(|orders| {
            orders.view = orders.view.next();
            view = orders.view;
        });
        view
    }

    fn order(&self, what: impl FnOnce(&mut Orders)) {
        what(&mut lock(&self.orders));
        self.changed.notify_all();
    }
}

/// What the thread that shows has to say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// What re-aiming cost, at its end.
    Cost(ReAimed),
    /// Something does not work as it was asked for; what is done instead.
    Trouble(String),
}

/// Opens a surface's way for pictures of eyes.
pub(super) struct Opening {
    pub(super) desk: Arc<Desk>,
    /// Is told what the thread has to say.
    pub(super) told: Box<dyn Fn(Said) + Send>,
    pub(super) eyes: Eyes,
    /// Whether the client has a head source.
    pub(super) has_head: bool,
    pub(super) scheduler: Scheduler,
}

/// A surface that shows pictures of eyes as the person wants them.
pub(super) struct EyesPresenter {
    desk: Arc<Desk>,
    eyes: Eyes,
    re_aims: bool,
    scheduler: Scheduler,
    told: Option<Box<dyn Fn(Said) + Send>>,
    way: Way,
    /// Of the picture that is presented next.
    viewpoint: Viewpoint,
}

enum Way {
    /// As the decoder paints it.
    Direct(Box<dyn Presenter>),
    /// By the thread that shows.
    Shown(Showing),
    /// Nowhere: the surface is under way to the thread, or that could not be started.
    Nowhere,
}

/// The media thread's side of the thread that shows.
struct Showing {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
    /// Whether the surface lends memory: a decoder paints either always or never.
    paints: bool,
    /// What the decoder paints on. It keeps the picture before, as a canvas does.
    size: Size,
    canvas: Vec<u8>,
}

impl EyesPresenter {
    pub(super) fn new(presenter: Box<dyn Presenter>, opening: Opening) -> EyesPresenter {
        EyesPresenter {
            desk: opening.desk,
            eyes: opening.eyes,
            re_aims: match opening.eyes.reproject {
                Reproject::Auto => opening.has_head,
                Reproject::On => true,
                Reproject::Off => false,
            },
            scheduler: opening.scheduler,
            told: Some(opening.told),
            way: Way::Direct(presenter),
            viewpoint: Viewpoint::default(),
        }
    }

    /// Gives the surface to the thread that shows, if there is something for it to do; whether it did.
    fn stage(&mut self) -> Result<bool, PresentError> {
        let wanted = self.re_aims || lock(&self.desk.orders).view != EyeView::Both;
        if self.viewpoint.views.is_none() || !wanted || !matches!(self.way, Way::Direct(_)) {
            return Ok(false);
        }
        let Way::Direct(mut presenter) = std::mem::replace(&mut self.way, Way::Nowhere) else {
            return Ok(false);
        };
        let paints = presenter.canvas().is_some();
        let desk = Arc::clone(&self.desk);
        desk.order(|orders| {
            *orders = Orders {
                view: orders.view,
                ..Orders::default()
            };
        });
        let Some(told) = self.told.take() else {
            return Ok(false);
        };
        let show = show::Show::new(presenter, Arc::clone(&desk), self.eyes, self.re_aims, told);
        let thread = self
            .scheduler
            .spawn(ThreadRole::Decode, "ouvr-eyes", move || show.run());
        let thread = thread.map_err(|e| PresentError(format!("can't start a thread: {e}")))?;
        self.way = Way::Shown(Showing {
            desk,
            thread: Some(thread),
            paints,
            size: Size::default(),
            canvas: Vec::new(),
        });
        Ok(true)
    }

    /// Passes an order on to whoever has the surface.
    fn tell(
        &mut self,
        direct: impl FnOnce(&mut dyn Presenter) -> Result<(), PresentError>,
        order: impl FnOnce(&mut Orders),
    ) -> Result<(), PresentError> {
        match &mut self.way {
            Way::Direct(presenter) => direct(presenter.as_mut()),
            Way::Shown(showing) => {
                showing.desk.order(order);
                showing.is_there()
            }
            Way::Nowhere => Ok(()),
        }
    }
}

impl Showing {
    fn is_there(&self) -> Result<(), PresentError> {
        match &lock(&self.desk.orders).gone {
            Some(why) => Err(PresentError(why.clone())),
            None => Ok(()),
        }
    }

    /// The canvas, of this size.
    fn sized(&mut self, size: Size) -> Option<&mut [u8]> {
        if !size.is_valid() {
            return None;
        }
        if std::mem::replace(&mut self.size, size) != size {
            self.canvas.clear();
            self.canvas.resize(size.pixels() * 4, 0);
        }
        Some(&mut self.canvas)
    }

    /// Hands a copy of the canvas to the thread that shows, in place of one that it has not taken.
    fn hand_over(&mut self, frame: FrameId, viewpoint: Viewpoint) -> Result<(), PresentError> {
        let mut orders = lock(&self.desk.orders);
        let unseen = orders.fresh.take().map(|frame| frame.pixels);
        let mut pixels = unseen.or_else(|| orders.spare.pop()).unwrap_or_default();
        drop(orders);
        pixels.clear();
        pixels.extend_from_slice(&self.canvas);
        let fresh = Frame {
            frame,
            size: self.size,
            pixels,
            viewpoint,
        };
        self.desk.order(|orders| orders.fresh = Some(fresh));
        self.is_there()
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        self.desk.order(|orders| orders.stop = true);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

impl Presenter for EyesPresenter {
    fn present(&mut self, frame: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        self.stage()?;
        match &mut self.way {
            Way::Direct(presenter) => presenter.present(frame, picture),
            Way::Shown(showing) => {
                let canvas = showing.sized(picture.size);
                let impossible = || PresentError(format!("a picture of {}", picture.size));
                to_bgrx(picture, canvas.ok_or_else(impossible)?)?;
                showing.hand_over(frame, self.viewpoint)
            }
            Way::Nowhere => Ok(()),
        }
    }

    fn viewpoint(&mut self, viewpoint: &Viewpoint) {
        self.viewpoint = *viewpoint;
        if let Way::Direct(presenter) = &mut self.way {
            presenter.viewpoint(viewpoint);
        }
    }

    fn canvas(&mut self) -> Option<&mut dyn Canvas> {
        let paints = match &mut self.way {
            Way::Direct(presenter) => presenter.canvas().is_some(),
            Way::Shown(showing) => showing.paints,
            Way::Nowhere => false,
        };
        match paints {
            true => Some(self),
            false => None,
        }
    }

    fn cursor(&mut self, cursor: &Cursor) -> Result<(), PresentError> {
        self.tell(
            |presenter| presenter.cursor(cursor),
            |orders| orders.cursor = Some(cursor.clone()),
        )
    }

    fn relative_mouse(&mut self, wanted: bool) -> Result<(), PresentError> {
        self.tell(
            |presenter| presenter.relative_mouse(wanted),
            |orders| orders.relative = Some(wanted),
        )
    }

    fn set_observer(&mut self, observer: bool, title: &str) -> Result<(), PresentError> {
        self.tell(
            |presenter| presenter.set_observer(observer, title),
            |orders| orders.observer = Some((observer, title.to_owned())),
        )
    }

    fn panel(&mut self, lines: &[String]) -> Result<(), PresentError> {
        self.tell(
            |presenter| presenter.panel(lines),
            |orders| orders.panel = Some(lines.to_vec()),
        )
    }
}

impl Canvas for EyesPresenter {
    fn rows(&mut self, size: Size, rows: Range<u32>) -> Option<&mut [u8]> {
        match &mut self.way {
            Way::Direct(presenter) => presenter.canvas()?.rows(size, rows),
            Way::Shown(showing) => {
                let row = size.width as usize * 4;
                let bytes = rows.start as usize * row..rows.end as usize * row;
                showing.sized(size)?.get_mut(bytes)
            }
            Way::Nowhere => None,
        }
    }

    fn show(&mut self, frame: FrameId, size: Size) -> Result<bool, PresentError> {
        match &mut self.way {
            Way::Direct(presenter) => {
                let canvas = presenter.canvas();
                let shown = canvas.map_or(Ok(false), |canvas| canvas.show(frame, size))?;
                // What comes next is painted on another canvas, which has nothing of this picture.
                Ok(shown && !self.stage()?)
            }
            Way::Shown(showing) => {
                if showing.sized(size).is_some() {
                    showing.hand_over(frame, self.viewpoint)?;
                }
                Ok(true)
            }
            Way::Nowhere => Ok(false),
        }
    }
}
