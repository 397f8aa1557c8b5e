//! The media thread's part of the window: converts a picture into shared memory and makes the server copy it, without
//! waiting for a refresh.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::{Connection, RequestConnection};
use x11rb::errors::ReplyError;
use x11rb::protocol::Event;
use x11rb::protocol::render::ConnectionExt as _;
use x11rb::protocol::shm;
use x11rb::protocol::xproto::{self, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

use super::segments;
use crate::cursor::Cursor;
use crate::picture::Picture;
use crate::present::buffers::Buffers;
use crate::present::convert::to_bgrx;
use crate::present::{Canvas, PresentError, Presenter};
use crate::window::DrawnWindow;
use crate::window::painter::{Painter, Reads};
use crate::window::panel::Panel;
use crate::window::placement::Placement;
use crate::window::scene::{DisplayedPicture, FirstRows, Scene, SharedWindow};
use crate::window::toplevel;

/// Maximum time that a new picture waits for a free buffer, because the server has not read the earlier pictures yet. A
/// running server takes well under a millisecond. If the server hangs, pictures are lost, but the session continues.
const STALLED: Duration = Duration::from_millis(100);

/// Maximum number of requests for rows of a picture that the server has not read (a guess; a picture has eight slices).
/// Without this limit, frames that fail half-way could fill the socket to a hanging server.
const PUT_AHEAD: u32 = 32;

/// Displays pictures in an X11 window through MIT-SHM, immediately and without waiting for a
/// refresh.
///
/// It only draws. The [`X11InputSource`](crate::input_source::x11::X11InputSource) of the same window tracks the
/// window's size and repaints the window. The events of this source must therefore be polled continuously.
pub struct X11Presenter {
    pub(super) conn: RustConnection,
    pub(super) stage: Arc<SharedWindow>,
    painter: Painter,
    buffers: Buffers<shm::Seg>,
    /// Placement of the newest picture on the window.
    put_at: Option<Placement>,
    /// Whether rows are displayed before their picture is complete.
    slices: bool,
    generation: u64,
    /// Whether a buffer was missing for a part of the picture being painted.
    stalled: bool,
    skipped: u64,
}

impl X11Presenter {
    pub(super) fn new(
        conn: RustConnection,
        stage: Arc<SharedWindow>,
        size: Size,
        slices: bool,
    ) -> Result<X11Presenter, PresentError> {
        let version = conn
            .extension_information(shm::X11_EXTENSION_NAME)
            .map_err(|cause| stage.gone(&cause))?
            .map(|_| shm::query_version(&conn).map(|cookie| cookie.reply()));
        let version = match version {
            Some(Ok(Ok(reply))) => (reply.major_version, reply.minor_version),
            Some(Ok(Err(cause))) => return Err(stage.gone(&cause).into()),
            Some(Err(cause)) => return Err(stage.gone(&cause).into()),
            None => (0, 0),
        };
        if version < (1, 2) {
            return Err(PresentError(format!(
                "display {} lacks MIT-SHM 1.2, so each picture would be copied through \
                 a socket: run the client on the machine of its display",
                stage.display
            )));
        }
        let painter = Painter::new(&conn, Arc::clone(&stage))?;
        let buffers = segments::share(&conn, size)?;
        Ok(X11Presenter {
            conn,
            stage,
            painter,
            buffers,
            put_at: None,
            slices,
            generation: 0,
            stalled: false,
            skipped: 0,
        })
    }

    /// Number of pictures skipped because the server had not read earlier pictures.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Processes the server's events.
    fn drain(&mut self) -> Result<(), PresentError> {
        loop {
            match self
                .conn
                .poll_for_event()
                .map_err(|cause| self.stage.gone(&cause))?
            {
                None => return Ok(()),
                Some(Event::ShmCompletion(done)) => self.buffers.completed(done.shmseg),
                Some(Event::Error(error)) => self.stage.judge(&error)?,
                Some(_) => {}
            }
        }
    }

    /// Selects a buffer for the next picture, unless a buffer is already selected. Returns `false` if the server is
    /// stalled.
    fn start_buffer(&mut self, size: Size) -> Result<bool, PresentError> {
        if !size.is_valid() {
            return Err(PresentError(format!("invalid picture size {size}")));
        }
        if self.buffers.size() != size {
            // The scene must not refer to a segment that is being detached.
            let follows = {
                let mut scene = self.stage.scene();
                (scene.shown, scene.next) = (None, None);
                scene.following.as_mut().and_then(|f| f.picture(size))
            };
            if let Some(window) = follows {
                let aux = xproto::ConfigureWindowAux::new();
                let aux = aux.width(window.width).height(window.height);
                let asked = self.conn.configure_window(self.stage.window, &aux);
                asked.map_err(|cause| self.stage.gone(&cause))?;
            }
            let new = segments::share(&self.conn, size)?;
            segments::detach(&std::mem::replace(&mut self.buffers, new), &self.conn);
        }
        if self.buffers.is_started() {
            return Ok(true);
        }
        let kept = self.stage.scene().shown.and_then(|shown| shown.segment);
        self.drain()?;
        // The loop waits once per picture, not once per band. Events of the server do not prolong the wait.
        let timeout = if self.stalled {
            Duration::ZERO
        } else {
            STALLED
        };
        let until = clock::now() + timeout;
        let segment = loop {
            if let Some(segment) = self.buffers.free(kept) {
                break segment;
            }
            let timeout = Timespec::try_from(until.since(clock::now())).unwrap_or_default();
            let mut ready = [PollFd::new(self.conn.stream(), PollFlags::IN)];
            match poll(&mut ready, Some(&timeout)) {
                Ok(0) => {
                    self.stalled = true;
                    return Ok(false);
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => self.drain()?,
                Err(cause) => return Err(self.stage.gone(&cause).into()),
            }
        };
        self.buffers.start(segment, kept);
        Ok(true)
    }

    /// Puts the next picture on the window: only its new rows, or the whole picture if it is scaled or has a new
    /// placement.
    fn put(&mut self, size: Size) -> Result<(), PresentError> {
        let new = self.buffers.take_new_rows();
        let Some((segment, _)) = self.buffers.finish() else {
            return Ok(());
        };
        let stage = Arc::clone(&self.stage);
        let mut scene = stage.scene();
        scene.next = None;
        self.generation += 1;
        let before = scene.shown.replace(DisplayedPicture {
            segment: Some(segment),
            size,
            generation: self.generation,
        });
        if before.is_none() {
            self.painter.bars(&self.conn, &scene)?;
        }
        let placement = scene.placement();
        let same = std::mem::replace(&mut self.put_at, placement) == placement;
        let same = same && before.is_some();
        let part = placement
            .filter(|it| same && it.is_unscaled())
            .map(|it| it.rows(&new));
        let reads = match part {
            Some(area) => self.painter.picture(&self.conn, &scene, area, true)?,
            None => self.painter.everything(&self.conn, &scene, true)?,
        };
        self.conn.flush().map_err(|cause| stage.gone(&cause))?;
        count(&mut self.buffers, &scene, reads);
        Ok(())
    }

    /// Puts the new rows of the incomplete picture on the window, below the rows that are already there.
    fn put_rows(&mut self) -> Result<(), PresentError> {
        let Some((segment, rows)) = self.buffers.valid_rows() else {
            return Ok(());
        };
        if self.buffers.readers(segment) >= PUT_AHEAD {
            self.drain()?;
            if self.buffers.readers(segment) >= PUT_AHEAD {
                return Ok(());
            }
        }
        let stage = Arc::clone(&self.stage);
        let mut scene = stage.scene();
        let shown = scene
            .shown
            .filter(|shown| shown.segment.is_some() && shown.size == self.buffers.size());
        let placement = scene.placement().filter(|placement| {
            shown.is_some() && self.put_at == Some(*placement) && stage.copies(*placement)
        });
        // Scaled pictures, and pictures with a new placement, are put on the window when they are complete.
        let Some(placement) = placement else {
            return Ok(());
        };
        let new = self.buffers.take_new_rows();
        if new.is_empty() {
            return Ok(());
        }
        self.generation += 1;
        scene.next = Some(FirstRows {
            segment,
            rows,
            generation: self.generation,
        });
        let area = placement.rows(&new);
        let reads = self.painter.picture(&self.conn, &scene, area, true)?;
        self.conn.flush().map_err(|cause| stage.gone(&cause))?;
        count(&mut self.buffers, &scene, reads);
        Ok(())
    }

    /// Whether a picture of `size` is on the window, with the current placement.
    fn is_shown(&self, size: Size) -> bool {
        let scene = self.stage.scene();
        let shown = scene.shown.is_some_and(|shown| shown.size == size);
        shown && self.put_at == scene.placement()
    }

    /// Makes the input source check whether the scene wants the pointer grabbed or released.
    fn wake_input(&self) -> Result<(), PresentError> {
        let say = || {
            let atom = self.conn.intern_atom(false, b"_OPENUVR_RELATIVE_MOUSE")?;
            let atom = atom.reply()?.atom;
            let window = self.stage.window;
            let message = xproto::ClientMessageEvent::new(32, window, atom, [0; 5]);
            let nobody_else = xproto::EventMask::NO_EVENT;
            (self.conn).send_event(false, window, nobody_else, message)?;
            Ok(self.conn.flush()?)
        };
        Ok(say().map_err(|cause: ReplyError| self.stage.gone(&cause))?)
    }

    /// Sets the window's cursor to the shape of the host's cursor, so that the server moves it without latency.
    fn define_cursor(&mut self, cursor: &Cursor) -> Result<(), PresentError> {
        let stage = Arc::clone(&self.stage);
        let visible = cursor.at.is_some() && cursor.shape.width > 0 && cursor.shape.height > 0;
        let shape = match visible {
            true => Arc::clone(&cursor.shape),
            false => Arc::default(),
        };
        let hot_x = shape.hot_x.min(shape.width.saturating_sub(1));
        let hot_y = shape.hot_y.min(shape.height.saturating_sub(1));
        let picture = self
            .painter
            .pointer(&self.conn, &shape)
            .map_err(|e| stage.gone(&e))?;
        let id = self
            .conn
            .generate_id()
            .map_err(|cause| stage.gone(&cause))?;
        let attributes = xproto::ChangeWindowAttributesAux::new().cursor(id);
        self.conn
            .render_create_cursor(id, picture, hot_x, hot_y)
            .and_then(|_| {
                self.conn
                    .change_window_attributes(stage.window, &attributes)
            })
            .and_then(|_| self.conn.free_cursor(id))
            .map_err(|cause| stage.gone(&cause))?;
        Ok(())
    }
}

impl Presenter for X11Presenter {
    fn present(&mut self, _frame: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        self.stalled = false;
        if !self.start_buffer(picture.size)? {
            self.skipped += 1;
            return Ok(());
        }
        if let Some(bytes) = self.buffers.whole() {
            to_bgrx(picture, bytes)?;
        }
        self.put(picture.size)
    }

    fn has_skipped(&self) -> bool {
        self.stalled
    }

    fn canvas(&mut self) -> Option<&mut dyn Canvas> {
        Some(self)
    }

    fn window(&self) -> Option<DrawnWindow> {
        Some(DrawnWindow(Arc::clone(&self.stage)))
    }

    fn cursor(&mut self, cursor: &Cursor) -> Result<(), PresentError> {
        self.drain()?;
        let stage = Arc::clone(&self.stage);
        let mut scene = stage.scene();
        let before = stage.overlay(&scene);
        let known = scene.cursor.replace(cursor.clone());
        let after = stage.overlay(&scene);

        let changed = known.as_ref().is_none_or(|known| {
            !Arc::ptr_eq(&known.shape, &cursor.shape) || known.at.is_some() != cursor.at.is_some()
        });
        if before != after || (changed && after.is_some()) {
            for overlay in [before, after].into_iter().flatten() {
                let reads = self
                    .painter
                    .picture(&self.conn, &scene, overlay.area, true)?;
                count(&mut self.buffers, &scene, reads);
            }
        }
        let observer = scene.observer;
        drop(scene);
        if changed && !observer {
            self.define_cursor(cursor)?;
        }
        Ok(self.conn.flush().map_err(|cause| stage.gone(&cause))?)
    }

    /// Stores the request in the scene and sends a message to the window to wake the input source,
    /// which controls the pointer.
    fn relative_mouse(&mut self, wanted: bool) -> Result<(), PresentError> {
        if std::mem::replace(&mut self.stage.scene().relative, wanted) == wanted {
            return Ok(());
        }
        self.wake_input()
    }

    /// Sets the cursor. A player's cursor has the shape of the host's cursor. An observer keeps the desktop's cursor,
    /// and the host's cursor is drawn at the player's position.
    fn set_observer(&mut self, observer: bool, title: &str) -> Result<(), PresentError> {
        let stage = Arc::clone(&self.stage);
        toplevel::set_title(&self.conn, stage.window, title).map_err(|e| stage.gone(&e))?;
        let before = std::mem::replace(&mut stage.scene().observer, observer);
        let cursor = stage.scene().cursor.clone();
        if before != observer {
            match &cursor {
                Some(cursor) if !observer => self.define_cursor(cursor)?,
                _ => {
                    let inherited = xproto::ChangeWindowAttributesAux::new().cursor(x11rb::NONE);
                    (self.conn.change_window_attributes(stage.window, &inherited))
                        .map_err(|cause| stage.gone(&cause))?;
                }
            }
            // Whether the pointer is drawn over the picture depends on whether the user is an observer.
            let scene = stage.scene();
            let reads = self
                .painter
                .everything(&self.conn, &scene, true)
                .map_err(|e| stage.gone(&e))?;
            count(&mut self.buffers, &scene, reads);
            drop(scene);
            self.wake_input()?;
        }
        Ok(self.conn.flush().map_err(|cause| stage.gone(&cause))?)
    }

    fn panel(&mut self, lines: &[String]) -> Result<(), PresentError> {
        let stage = Arc::clone(&self.stage);
        let window = stage.scene().window;
        let panel = match lines {
            [] => None,
            lines => Some(Arc::new(Panel::new(lines, window))),
        };
        self.drain()?;
        let mut scene = stage.scene();
        let before = scene.panel_area();
        scene.panel = panel;
        let after = scene.panel_area();
        // If the box has not moved, it must be drawn only once, because it is translucent.
        let areas = [before, after.filter(|area| before != Some(*area))];
        for area in areas.into_iter().flatten() {
            let reads = self.painter.picture(&self.conn, &scene, area, true)?;
            count(&mut self.buffers, &scene, reads);
        }
        drop(scene);
        Ok(self.conn.flush().map_err(|cause| stage.gone(&cause))?)
    }
}

impl Canvas for X11Presenter {
    fn rows(&mut self, size: Size, rows: Range<u32>) -> Option<&mut [u8]> {
        // If an error occurs here, it occurs again when the picture is shown, and is reported then.
        if !self.start_buffer(size).unwrap_or(false) {
            return None;
        }
        self.buffers.rows(rows)
    }

    fn show_rows(&mut self) -> Result<(), PresentError> {
        match self.slices && !self.stalled {
            true => self.put_rows(),
            false => Ok(()),
        }
    }

    fn show(&mut self, _frame: FrameId, size: Size) -> Result<bool, PresentError> {
        if !self.buffers.is_started() && !self.stalled && self.is_shown(size) {
            // Nothing was painted, so the picture equals the previous picture.
            return Ok(true);
        }
        if !self.start_buffer(size)? | std::mem::take(&mut self.stalled) {
            self.skipped += 1;
            return Ok(false);
        }
        self.put(size)?;
        Ok(true)
    }
}

/// Records requests that read the buffers of this scene.
fn count(buffers: &mut Buffers<shm::Seg>, scene: &Scene, reads: Reads) {
    if let Some(segment) = scene.shown.and_then(|shown| shown.segment) {
        buffers.reading(segment, reads.shown);
    }
    if let Some(next) = scene.next {
        buffers.reading(next.segment, reads.next);
    }
}
