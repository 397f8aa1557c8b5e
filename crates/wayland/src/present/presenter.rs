//! The media thread's part of the window. It converts a picture into shared memory and commits it, without waiting for
//! a refresh.
//!
//! Spec: Wayland 1.21 (`wl_surface`, `wl_shm`), `presentation-time`.

use std::ops::Range;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant as SystemInstant};

use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;
use wayland_client::Proxy as _;
use wayland_client::protocol::wl_buffer::WlBuffer;
use wayland_client::protocol::wl_shm;
use wayland_protocols::wp::presentation_time::client::wp_presentation;
use wayland_protocols::wp::presentation_time::client::wp_presentation_feedback::WpPresentationFeedback;

use crate::window::reports::{BufferData, FeedbackData};
use crate::window::{SharedSurface, image};
use openuvr_media::cursor::Cursor;
use openuvr_media::picture::Picture;
use openuvr_media::present::buffers::Buffers;
use openuvr_media::present::convert::to_bgrx;
use openuvr_media::present::{Canvas, PresentError, Presented, Presenter};
use openuvr_media::window::panel::Panel;

/// How long a picture waits while the compositor is still reading the previous ones. A running compositor releases
/// their buffers within a refresh. While a compositor hangs, pictures are lost, but the session continues.
const STALLED: Duration = Duration::from_millis(100);

/// Displays pictures in a Wayland window immediately, without waiting for a refresh.
///
/// The presenter only sends requests. The [`WaylandInputSource`](crate::input_source) of the same window reads all
/// events, and must therefore be polled continuously.
pub struct WaylandPresenter {
    stage: Arc<SharedSurface>,
    pictures: Option<Pictures>,
    /// The pictures of the previous size, until a picture of the new size is displayed.
    retired: Option<Pictures>,
    /// The number of the next buffer.
    number: u32,
    /// Whether no buffer was free for a part of the picture that is being painted.
    stalled: bool,
    skipped: u64,
}

/// Buffers of one size.
struct Pictures {
    buffers: Buffers<u32>,
    /// All buffers, by number.
    all: Vec<(u32, WlBuffer)>,
    /// The number of the displayed buffer.
    shown: Option<u32>,
}

impl Drop for Pictures {
    fn drop(&mut self) {
        for (_, buffer) in &self.all {
            buffer.destroy();
        }
    }
}

impl WaylandPresenter {
    pub(super) fn new(stage: Arc<SharedSurface>) -> WaylandPresenter {
        WaylandPresenter {
            stage,
            pictures: None,
            retired: None,
            number: 0,
            stalled: false,
            skipped: 0,
        }
    }

    /// Number of pictures skipped because the compositor had not released earlier ones.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Selects a buffer for the next picture, unless one is already selected. Returns `false` if the compositor is
    /// stalled.
    fn start_buffer(&mut self, size: Size) -> Result<bool, PresentError> {
        if !size.is_valid() {
            return Err(PresentError(format!("invalid picture size {size}")));
        }
        if (self.pictures.as_ref()).is_none_or(|pictures| pictures.buffers.size() != size) {
            let new = self.share(size)?;
            let old = self.pictures.replace(new);
            self.retired = old
                .filter(|old| old.shown.is_some())
                .or(self.retired.take());
        }
        let Some(pictures) = &mut self.pictures else {
            return Ok(false);
        };
        if pictures.buffers.is_started() {
            return Ok(true);
        }
        // The wait happens once per picture, not for each band.
        let deadline = match self.stalled {
            true => SystemInstant::now(),
            false => SystemInstant::now() + STALLED,
        };
        let mut wait_until = SystemInstant::now();
        loop {
            let buffers = &mut pictures.buffers;
            (self.stage.reports).take_released(wait_until, |number| buffers.completed(number));
            if let Some(free) = buffers.free(pictures.shown) {
                buffers.start(free, pictures.shown);
                return Ok(true);
            }
            if SystemInstant::now() >= deadline {
                self.stalled = true;
                return Ok(false);
            }
            wait_until = deadline;
        }
    }

    /// Creates buffers of this size that are shared with the compositor.
    fn share(&mut self, size: Size) -> Result<Pictures, PresentError> {
        let sides = [size.width, size.height].map(i32::try_from);
        let [Ok(width), Ok(height)] = sides else {
            return Err(PresentError(format!("invalid picture size {size}")));
        };
        let mut all = Vec::new();
        let buffers = Buffers::new(size, |file| {
            self.number = self.number.wrapping_add(1);
            let data = BufferData {
                reports: Arc::clone(&self.stage.reports),
                number: self.number,
            };
            let buffer = image::buffer(
                &self.stage.surfaces.shm,
                file.as_fd(),
                (width, height),
                wl_shm::Format::Xrgb8888,
                Arc::new(data),
            );
            all.push((self.number, buffer));
            Ok(self.number)
        })?;
        Ok(Pictures {
            buffers,
            all,
            shown: None,
        })
    }

    /// Commits the changed part of the next picture.
    fn put(&mut self, frame: FrameId, size: Size) -> Result<(), PresentError> {
        let Some(pictures) = &mut self.pictures else {
            return Ok(());
        };
        let Some((number, painted)) = pictures.buffers.finish() else {
            return Ok(());
        };
        pictures.shown = Some(number);
        let Some((_, buffer)) = pictures.all.iter().find(|(each, _)| *each == number) else {
            return Ok(());
        };
        let stage = Arc::clone(&self.stage);
        let surface = &stage.surfaces.picture.surface;
        let mut scene = stage.scene();
        let changed = scene.picture.replace(size) != Some(size);
        surface.attach(Some(buffer), 0, 0);
        let pixels = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let rows = if changed { 0..size.height } else { painted };
        surface.damage_buffer(
            0,
            pixels(rows.start),
            pixels(size.width),
            pixels(rows.end.saturating_sub(rows.start)),
        );
        request_time(&stage, frame);
        if changed {
            if scene.following && scene.free {
                scene.wanted = size;
                scene.logical = scene.own_size();
                // The input source then reports the size to the host.
                stage.waker.wake();
            }
            // This commits the picture, too.
            stage.arrange(&mut scene);
        } else {
            surface.commit();
        }
        drop(scene);
        pictures.buffers.reading(number, 1);
        self.retired = None;
        Ok(stage.flush()?)
    }

    /// Whether a picture of `size` is displayed.
    fn is_shown(&self, size: Size) -> bool {
        let shown = |pictures: &Pictures| pictures.shown.is_some();
        self.pictures.as_ref().is_some_and(shown) && self.stage.scene().picture == Some(size)
    }
}

impl Presenter for WaylandPresenter {
    fn present(&mut self, frame: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        self.stalled = false;
        if !self.start_buffer(picture.size)? {
            self.skipped += 1;
            return Ok(self.stage.flush()?);
        }
        let buffers = self.pictures.as_mut().map(|pictures| &mut pictures.buffers);
        if let Some(bytes) = buffers.and_then(Buffers::whole) {
            to_bgrx(picture, bytes)?;
        }
        self.put(frame, picture.size)
    }

    fn has_skipped(&self) -> bool {
        self.stalled
    }

    fn canvas(&mut self) -> Option<&mut dyn Canvas> {
        Some(self)
    }

    fn reports_times(&self) -> bool {
        self.stage.reports.has_times()
    }

    fn presented(&mut self) -> Option<Presented> {
        self.stage.reports.take_presented()
    }

    fn cursor(&mut self, cursor: &Cursor) -> Result<(), PresentError> {
        let mut scene = self.stage.scene();
        let known = scene.cursor.replace(cursor.clone());
        let changed = known.as_ref().is_none_or(|known| {
            !Arc::ptr_eq(&known.shape, &cursor.shape) || known.at.is_some() != cursor.at.is_some()
        });
        self.stage.draw_pointer(&mut scene);
        // The commit applies the pointer's new position.
        self.stage.surfaces.window.commit();
        if changed && !scene.observer {
            self.stage.define_cursor(&mut scene);
        }
        drop(scene);
        Ok(self.stage.flush()?)
    }

    /// Stores the request in the scene. The input source then grabs or releases the pointer.
    fn relative_mouse(&mut self, wanted: bool) -> Result<(), PresentError> {
        let mut scene = self.stage.scene();
        if std::mem::replace(&mut scene.relative, wanted) != wanted {
            scene.relative_changed = true;
            self.stage.waker.wake();
        }
        Ok(())
    }

    /// Also sets the cursor. A player's cursor has the shape of the host's pointer. An observer keeps the desktop's
    /// cursor, and the host's pointer is drawn at the player's position.
    fn set_observer(&mut self, observer: bool, title: &str) -> Result<(), PresentError> {
        self.stage.surfaces.toplevel.set_title(title.to_owned());
        let mut scene = self.stage.scene();
        if std::mem::replace(&mut scene.observer, observer) != observer {
            self.stage.define_cursor(&mut scene);
            self.stage.draw_pointer(&mut scene);
            self.stage.surfaces.window.commit();
            scene.relative_changed = true;
            self.stage.waker.wake();
        }
        drop(scene);
        Ok(self.stage.flush()?)
    }

    fn panel(&mut self, lines: &[String]) -> Result<(), PresentError> {
        let mut scene = self.stage.scene();
        scene.panel = match lines {
            [] => None,
            lines => Some(Panel::new(lines, scene.window())),
        };
        self.stage.draw_panel(&mut scene);
        self.stage.surfaces.window.commit();
        drop(scene);
        Ok(self.stage.flush()?)
    }
}

impl Canvas for WaylandPresenter {
    fn rows(&mut self, size: Size, rows: Range<u32>) -> Option<&mut [u8]> {
        // The error is ignored here: it recurs in `show`, which reports it.
        if !self.start_buffer(size).unwrap_or(false) {
            return None;
        }
        self.pictures.as_mut()?.buffers.rows(rows)
    }

    fn show(&mut self, frame: FrameId, size: Size) -> Result<bool, PresentError> {
        let started = |pictures: &Pictures| pictures.buffers.is_started();
        if !self.pictures.as_ref().is_some_and(started) && !self.stalled && self.is_shown(size) {
            // Nothing was painted, so the picture is the same as the previous one.
            return Ok(true);
        }
        if !self.start_buffer(size)? | std::mem::take(&mut self.stalled) {
            self.skipped += 1;
            self.stage.flush()?;
            return Ok(false);
        }
        self.put(frame, size)?;
        Ok(true)
    }
}

/// Requests a report of the time at which the next committed picture becomes visible.
fn request_time(stage: &SharedSurface, frame: FrameId) {
    let Some(presentation) = &stage.surfaces.presentation else {
        return;
    };
    let request = wp_presentation::Request::Feedback {
        surface: stage.surfaces.picture.surface.clone(),
    };
    let data = FeedbackData {
        reports: Arc::clone(&stage.reports),
        frame,
    };
    // An error is ignored: if the connection has failed, the flush reports it.
    let _ = presentation.send_constructor::<WpPresentationFeedback>(request, Arc::new(data));
}
