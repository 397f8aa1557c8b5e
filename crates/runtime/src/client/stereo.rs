//! Shows stereo pictures in the selected eye view, and reprojects them to the current head rotation.
//!
//! The media thread draws on the surface until the first frame that has views and requires processing: for
//! reprojection, or for an eye view other than both eyes side by side. From then on, a render thread (`render`) owns
//! the surface and draws at the display's refresh rate. The media thread submits each picture to the render thread and
//! never waits for it.
//!
//! The mathematics is in `openuvr_proto::reproject`, the drawing in `openuvr_media::reproject`.

mod pace;
mod render;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use openuvr_media::cursor::Cursor;
use openuvr_media::dma_buf::DmaBufPicture;
use openuvr_media::picture::Picture;
use openuvr_media::present::{Canvas, PresentError, Presented, Presenter, to_bgrx};
use openuvr_media::reproject::Source;
pub use openuvr_media::reproject::{DrawBackend, EyeView, Filter};
use openuvr_proto::id::FrameId;
use openuvr_proto::pose::Pose;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::Viewpoint;

use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};

/// Whether pictures are reprojected to the current head rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reproject {
    /// Reprojects if the client has a head-pose source.
    #[default]
    Auto,
    /// Always reprojects, also for poses set with [`set_pose`](super::ClientRuntime::set_pose).
    On,
    /// Never reprojects.
    Off,
}

/// How stereo pictures are shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StereoSettings {
    /// The initial eye view.
    pub view: EyeView,
    /// Whether pictures are reprojected.
    pub reproject: Reproject,
    /// Margin in radians that is cropped at each side during reprojection, so that no black edges appear.
    pub overscan: f32,
    /// The display's refresh rate in Hz, 1 to 1000. A picture is reprojected at each refresh.
    pub rate: f64,
    /// The interpolation filter.
    pub filter: Filter,
    /// The renderer that the render thread uses. The default is software rendering. The OpenGL renderer installs an
    /// Xlib error handler, which may replace the program's own handler.
    pub draw_with: DrawBackend,
}

impl Default for StereoSettings {
    fn default() -> StereoSettings {
        StereoSettings {
            view: EyeView::Both,
            reproject: Reproject::Auto,
            overscan: 0.0,
            rate: 60.0,
            filter: Filter::Bilinear,
            draw_with: DrawBackend::Software,
        }
    }
}

/// The cost of reprojection. Sent when reprojection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReprojectionCost {
    /// Pictures drawn.
    pub pictures: u64,
    /// Median time per picture in microseconds.
    pub p50: u32,
    /// 99th percentile of the time per picture in microseconds.
    pub p99: u32,
    /// The renderer in use when reprojection ended.
    pub with: DrawBackend,
}

impl std::fmt::Display for ReprojectionCost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |micros: u32| f64::from(micros) / 1e3;
        write!(
            f,
            "stereo pictures drawn: {}, {:.2} ms each (p50), {:.2} ms (p99), with {}",
            self.pictures,
            ms(self.p50),
            ms(self.p99),
            self.with.name()
        )
    }
}

/// State that other threads pass to the render thread.
#[derive(Default)]
pub(super) struct Mailbox {
    pending: Mutex<Pending>,
    changed: Condvar,
    /// The newest head pose, and the time at which it was sampled.
    head: Mutex<Option<(Pose, Instant)>>,
}

#[derive(Default)]
struct Pending {
    view: EyeView,
    frame: Option<Frame>,
    /// Buffers of finished pictures, for reuse.
    spare: Vec<Vec<u8>>,
    /// For this field and the fields below, only the newest value is kept.
    cursor: Option<Cursor>,
    relative: Option<bool>,
    observer: Option<(bool, String)>,
    panel: Option<Vec<String>>,
    stop: bool,
    /// The reason why the surface was lost.
    closed: Option<String>,
}

/// A picture submitted to the render thread.
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

impl Mailbox {
    pub(super) fn new(view: EyeView) -> Mailbox {
        let mailbox = Mailbox::default();
        lock(&mailbox.pending).view = view;
        mailbox
    }

    pub(super) fn set_head(&self, pose: Pose, sampled: Instant) {
        *lock(&self.head) = Some((pose, sampled));
    }

    /// Switches to the next eye view and returns it.
    pub(super) fn cycle_view(&self) -> EyeView {
        let mut view = EyeView::default();
        self.update(|pending| {
            pending.view = pending.view.next();
            view = pending.view;
        });
        view
    }

    fn update(&self, change: impl FnOnce(&mut Pending)) {
        change(&mut lock(&self.pending));
        self.changed.notify_all();
    }
}

/// An event of the render thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum StereoEvent {
    /// The cost of reprojection. Sent when reprojection ends.
    Cost(ReprojectionCost),
    /// A renderer failed. The text names the renderer that replaces it.
    Warning(String),
}

/// Parameters of a [`StereoPresenter`].
pub(super) struct StereoOptions {
    pub(super) mailbox: Arc<Mailbox>,
    /// Receives the events of the render thread.
    pub(super) on_event: Box<dyn Fn(StereoEvent) + Send>,
    pub(super) eyes: StereoSettings,
    /// Whether the client has a head-pose source.
    pub(super) has_head: bool,
    pub(super) scheduler: Scheduler,
}

/// A presenter that shows stereo pictures in the selected eye view.
pub(super) struct StereoPresenter {
    mailbox: Arc<Mailbox>,
    eyes: StereoSettings,
    reprojects: bool,
    scheduler: Scheduler,
    on_event: Option<Box<dyn Fn(StereoEvent) + Send>>,
    output: Output,
    /// The viewpoint of the picture that is presented next.
    viewpoint: Viewpoint,
}

enum Output {
    /// The media thread presents on the surface.
    Direct(Box<dyn Presenter>),
    /// The render thread owns the surface.
    Threaded(RenderThread),
    /// The surface is being moved to the render thread, or that thread could not be started.
    Closed,
}

/// The media thread's handle to the render thread.
struct RenderThread {
    mailbox: Arc<Mailbox>,
    thread: Option<JoinHandle<()>>,
    /// Whether the surface has a canvas. A decoder either always paints on a canvas or never does.
    paints: bool,
    /// The size of the buffer on which the decoder paints; `canvas` contains its pixels. Like a surface's canvas, the
    /// buffer keeps the previous picture.
    size: Size,
    canvas: Vec<u8>,
    /// Whether a picture has been submitted. Before that, `canvas` contains no complete picture.
    submitted: bool,
}

impl StereoPresenter {
    pub(super) fn new(presenter: Box<dyn Presenter>, options: StereoOptions) -> StereoPresenter {
        StereoPresenter {
            mailbox: options.mailbox,
            eyes: options.eyes,
            reprojects: match options.eyes.reproject {
                Reproject::Auto => options.has_head,
                Reproject::On => true,
                Reproject::Off => false,
            },
            scheduler: options.scheduler,
            on_event: Some(options.on_event),
            output: Output::Direct(presenter),
            viewpoint: Viewpoint::default(),
        }
    }

    /// Moves the surface to the render thread if stereo processing is required.
    fn start_thread(&mut self) -> Result<(), PresentError> {
        let needed = self.reprojects || lock(&self.mailbox.pending).view != EyeView::Both;
        if self.viewpoint.views.is_none() || !needed || !matches!(self.output, Output::Direct(_)) {
            return Ok(());
        }
        let Output::Direct(mut presenter) = std::mem::replace(&mut self.output, Output::Closed)
        else {
            return Ok(());
        };
        let paints = presenter.canvas().is_some();
        let mailbox = Arc::clone(&self.mailbox);
        mailbox.update(|pending| {
            *pending = Pending {
                view: pending.view,
                ..Pending::default()
            };
        });
        let Some(on_event) = self.on_event.take() else {
            return Ok(());
        };
        let renderer = render::Renderer::new(
            presenter,
            Arc::clone(&mailbox),
            self.eyes,
            self.reprojects,
            on_event,
        );
        let thread = self
            .scheduler
            .spawn(ThreadRole::Decode, "ouvr-eyes", move || renderer.run());
        let thread = thread.map_err(|e| PresentError(format!("can't start a thread: {e}")))?;
        self.output = Output::Threaded(RenderThread {
            mailbox,
            thread: Some(thread),
            paints,
            size: Size::default(),
            canvas: Vec::new(),
            submitted: false,
        });
        Ok(())
    }

    /// Forwards a call to the surface's owner.
    fn forward(
        &mut self,
        direct: impl FnOnce(&mut dyn Presenter) -> Result<(), PresentError>,
        update: impl FnOnce(&mut Pending),
    ) -> Result<(), PresentError> {
        match &mut self.output {
            Output::Direct(presenter) => direct(presenter.as_mut()),
            Output::Threaded(thread) => {
                thread.mailbox.update(update);
                thread.check_open()
            }
            Output::Closed => Ok(()),
        }
    }
}

impl RenderThread {
    fn check_open(&self) -> Result<(), PresentError> {
        match &lock(&self.mailbox.pending).closed {
            Some(why) => Err(PresentError(why.clone())),
            None => Ok(()),
        }
    }

    /// The canvas, resized to `size`.
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

    /// Submits a copy of the canvas to the render thread. The copy replaces a submitted picture that has not been drawn
    /// yet.
    fn submit(&mut self, frame: FrameId, viewpoint: Viewpoint) -> Result<(), PresentError> {
        let mut pending = lock(&self.mailbox.pending);
        let unseen = pending.frame.take().map(|frame| frame.pixels);
        let mut pixels = unseen.or_else(|| pending.spare.pop()).unwrap_or_default();
        drop(pending);
        pixels.clear();
        pixels.extend_from_slice(&self.canvas);
        let fresh = Frame {
            frame,
            size: self.size,
            pixels,
            viewpoint,
        };
        self.mailbox.update(|pending| pending.frame = Some(fresh));
        self.submitted = true;
        self.check_open()
    }
}

impl Drop for RenderThread {
    fn drop(&mut self) {
        self.mailbox.update(|pending| pending.stop = true);
        if let Some(thread) = self.thread.take() {
            // A panic was already reported on standard error.
            let _ = thread.join();
        }
    }
}

impl Presenter for StereoPresenter {
    fn present(&mut self, frame: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        self.start_thread()?;
        match &mut self.output {
            Output::Direct(presenter) => presenter.present(frame, picture),
            Output::Threaded(thread) => {
                let canvas = thread.sized(picture.size);
                let impossible = || PresentError(format!("invalid picture size {}", picture.size));
                to_bgrx(picture, canvas.ok_or_else(impossible)?)?;
                thread.submit(frame, self.viewpoint)
            }
            Output::Closed => Ok(()),
        }
    }

    fn has_skipped(&self) -> bool {
        match &self.output {
            Output::Direct(presenter) => presenter.has_skipped(),
            // The render thread takes every picture.
            Output::Threaded(_) | Output::Closed => false,
        }
    }

    /// The render thread draws from main memory, so it gets a copy.
    fn present_dma_buf(
        &mut self,
        frame: FrameId,
        picture: &DmaBufPicture,
    ) -> Result<bool, PresentError> {
        self.start_thread()?;
        match &mut self.output {
            Output::Direct(presenter) => presenter.present_dma_buf(frame, picture),
            Output::Threaded(_) | Output::Closed => Ok(false),
        }
    }

    fn viewpoint(&mut self, viewpoint: &Viewpoint) {
        self.viewpoint = *viewpoint;
        if let Output::Direct(presenter) = &mut self.output {
            presenter.viewpoint(viewpoint);
        }
    }

    fn canvas(&mut self) -> Option<&mut dyn Canvas> {
        let paints = match &mut self.output {
            Output::Direct(presenter) => presenter.canvas().is_some(),
            Output::Threaded(thread) => thread.paints,
            Output::Closed => false,
        };
        match paints {
            true => Some(self),
            false => None,
        }
    }

    /// While the render thread draws, the displayed pictures do not correspond to the frames, so no times are reported.
    fn reports_times(&self) -> bool {
        match &self.output {
            Output::Direct(presenter) => presenter.reports_times(),
            Output::Threaded(_) | Output::Closed => false,
        }
    }

    fn presented(&mut self) -> Option<Presented> {
        match &mut self.output {
            Output::Direct(presenter) => presenter.presented(),
            Output::Threaded(_) | Output::Closed => None,
        }
    }

    fn cursor(&mut self, cursor: &Cursor) -> Result<(), PresentError> {
        self.forward(
            |presenter| presenter.cursor(cursor),
            |pending| pending.cursor = Some(cursor.clone()),
        )
    }

    fn relative_mouse(&mut self, relative: bool) -> Result<(), PresentError> {
        self.forward(
            |presenter| presenter.relative_mouse(relative),
            |pending| pending.relative = Some(relative),
        )
    }

    fn set_observer(&mut self, observer: bool, title: &str) -> Result<(), PresentError> {
        self.forward(
            |presenter| presenter.set_observer(observer, title),
            |pending| pending.observer = Some((observer, title.to_owned())),
        )
    }

    fn panel(&mut self, lines: &[String]) -> Result<(), PresentError> {
        self.forward(
            |presenter| presenter.panel(lines),
            |pending| pending.panel = Some(lines.to_vec()),
        )
    }
}

impl Canvas for StereoPresenter {
    fn rows(&mut self, size: Size, rows: Range<u32>) -> Option<&mut [u8]> {
        match &mut self.output {
            Output::Direct(presenter) => presenter.canvas()?.rows(size, rows),
            Output::Threaded(thread) => {
                let row = size.width as usize * 4;
                let bytes = rows.start as usize * row..rows.end as usize * row;
                thread.sized(size)?.get_mut(bytes)
            }
            Output::Closed => None,
        }
    }

    /// Does nothing while the render thread draws, because that thread draws only whole pictures.
    fn show_rows(&mut self) -> Result<(), PresentError> {
        match &mut self.output {
            Output::Direct(presenter) => presenter.canvas().map_or(Ok(()), |it| it.show_rows()),
            Output::Threaded(_) | Output::Closed => Ok(()),
        }
    }

    fn show(&mut self, frame: FrameId, size: Size) -> Result<bool, PresentError> {
        match &mut self.output {
            Output::Direct(presenter) => {
                let canvas = presenter.canvas();
                let shown = canvas.map_or(Ok(false), |canvas| canvas.show(frame, size))?;
                if shown {
                    self.start_thread()?;
                }
                Ok(shown)
            }
            Output::Threaded(thread) => {
                if thread.sized(size).is_some() {
                    thread.submit(frame, self.viewpoint)?;
                }
                Ok(true)
            }
            Output::Closed => Ok(false),
        }
    }

    /// After the surface has moved to the render thread, the next picture is painted on another canvas, which does not
    /// contain the displayed picture.
    fn keeps_picture(&self) -> bool {
        match &self.output {
            Output::Direct(_) => true,
            Output::Threaded(thread) => thread.submitted,
            Output::Closed => false,
        }
    }
}
