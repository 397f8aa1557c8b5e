//! The pointer of an output: its image and its position, which are announced separately.
//!
//! Spec: `ext-image-copy-capture-v1`, cursor sessions.

use std::os::fd::AsFd as _;
use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use wayland_client::protocol::wl_buffer::WlBuffer;
use wayland_client::protocol::wl_pointer::WlPointer;
use wayland_client::protocol::wl_seat::{self, Capability, WlSeat};
use wayland_client::protocol::wl_shm::Format;
use wayland_client::{Connection, Dispatch, Proxy as _, QueueHandle, WEnum, delegate_noop};
use wayland_protocols::ext::image_capture_source::v1::client::ext_image_capture_source_v1::ExtImageCaptureSourceV1;
use wayland_protocols::ext::image_copy_capture::v1::client::ext_image_copy_capture_cursor_session_v1::{
    self as cursor, ExtImageCopyCaptureCursorSessionV1,
};

use super::image_copy::{CaptureSession, Managers};
use super::{Compositor, State};
use crate::capture::copy::{BufferForm, Subject};
use openuvr_media::capture::{CaptureError, Waker};
use openuvr_media::cursor::CursorShape;
use openuvr_media::damage::Block;
use openuvr_media::sys::memory::SharedMemory;

/// The maximum side of an image that the compositor may copy (guess: twice the side of a large cursor on a display with
/// four times the usual density).
const LONGEST_SIDE: u32 = 1024;

/// How long to wait before the next copy after two or more consecutive failed copies (guess: the same as for pictures).
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The maximum side of the part of an image that is read, in pixels. It is also the maximum side of a [`CursorShape`].
/// Cursors of Wayland compositors have 24 to 64 pixels, times the scale.
const MAX_SIDE: u32 = 256;

/// The receiver of the pointer's events.
#[derive(Default)]
pub(in crate::capture) struct PointerState {
    seat: Option<WlSeat>,
    /// Whether the seat has a pointer. It is a protocol error to request a pointer that has never existed.
    exists: bool,
    /// The number of the current cursor session. Events of other sessions are ignored.
    number: u64,
    entered: bool,
    position: (i32, i32),
    hot_spot: (i32, i32),
}

/// Watches the pointer on the selected output.
pub(crate) struct PointerWatch {
    compositor: Compositor,
    managers: Managers,
    session: Option<CursorSession>,
    image: Option<Image>,
    failures: u32,
    retry_at: Option<Instant>,
}

struct CursorSession {
    pointer: WlPointer,
    source: ExtImageCaptureSourceV1,
    cursor: ExtImageCopyCaptureCursorSessionV1,
    captured: CaptureSession,
}

struct Image {
    form: BufferForm,
    memory: SharedMemory,
    buffer: WlBuffer,
}

impl PointerWatch {
    /// Watches the pointer on an output of `display`. `output` is the name of the output; `None` selects the first
    /// output with a mode. Returns `None` if the compositor does not support this or has no such output. Also returns
    /// `None` if the output is rotated, because the pointer's image would be rotated, too.
    ///
    /// # Errors
    /// Returns a one-line error if the display cannot be reached.
    pub(crate) fn open(
        display: Option<&str>,
        output: Option<&str>,
    ) -> Result<Option<PointerWatch>, CaptureError> {
        let mut compositor = Compositor::connect(display, output.map(str::to_owned))?;
        let upright =
            (compositor.state.outputs.chosen()).is_some_and(|output| output.transform.is_normal());
        let Some(managers) = compositor.image_copy().filter(|_| upright) else {
            return Ok(None);
        };
        let seat = compositor.globals.bind(&compositor.handle, 1..=5, ());
        let Ok(seat) = seat else {
            return Ok(None);
        };
        compositor.state.pointer.seat = Some(seat);
        Ok(Some(PointerWatch {
            compositor,
            managers,
            session: None,
            image: None,
            failures: 0,
            retry_at: None,
        }))
    }

    /// Processes the events that have arrived, and requests the next image. Returns the new image of the pointer, if
    /// there is one.
    ///
    /// # Errors
    /// Returns a one-line error if the connection has failed or the image cannot be read.
    pub(crate) fn advance(&mut self, now: Instant) -> Result<Option<CursorShape>, CaptureError> {
        self.compositor.dispatch()?;
        if self.compositor.state.outputs.choose() || !self.compositor.state.pointer.exists {
            self.stop();
        }
        if self.compositor.state.progress.is_failed() {
            // A copy also fails when the cursor changes its size, because the cursor then needs another buffer. The
            // first retry must therefore not wait.
            self.stop();
            self.failures += 1;
            self.retry_at = (self.failures > 1).then(|| now + RETRY_INTERVAL);
        }
        if self.session.is_none() && self.retry_at.is_none_or(|at| at <= now) {
            self.retry_at = None;
            self.start();
        }
        let Some(session) = &mut self.session else {
            return Ok(None);
        };
        let state = &mut self.compositor.state;
        let mut shape = None;
        if state.progress.take_copied().is_some() {
            self.failures = 0;
            session.captured.cancel();
            shape = self
                .image
                .as_ref()
                .map(|image| image.shape(state.pointer.hot_spot));
        }
        if state.progress.is_idle() {
            (session.captured).request(&self.compositor.handle, &mut state.progress);
        }
        if let Some(form) = state.progress.offered() {
            if self.image.as_ref().is_none_or(|image| image.form != form) {
                self.image = Some(Image::new(&self.compositor, form)?);
            }
            if let Some(image) = &self.image {
                session.captured.copy(&image.buffer, &whole(form.size));
                self.compositor.state.progress.set_copying();
            }
        }
        self.compositor.flush()?;
        Ok(shape)
    }

    /// Waits for events, for the waker, or until the specified time.
    ///
    /// # Errors
    /// Returns a one-line error if the connection has failed.
    pub(crate) fn wait(&self, waker: &Waker, until: Option<Instant>) -> Result<(), CaptureError> {
        let next = [until, self.retry_at].into_iter().flatten().min();
        self.compositor.wait(waker, next)
    }

    /// The position of the hot spot in the output's picture, and the size of this picture; `None` if the pointer is
    /// outside the picture.
    pub(crate) fn position(&self) -> Option<((i32, i32), Size)> {
        let output = self.compositor.state.outputs.chosen()?;
        let pointer = &self.compositor.state.pointer;
        let size = output.transform.turned(output.mode?);
        (self.session.is_some() && pointer.entered).then_some((pointer.position, size))
    }

    /// Starts a cursor session, if the seat has a pointer.
    fn start(&mut self) {
        let (handle, state) = (&self.compositor.handle, &mut self.compositor.state);
        let output = state.outputs.chosen();
        let (Some(output), Some(seat), true) = (output, &state.pointer.seat, state.pointer.exists)
        else {
            return;
        };
        let subject = Subject::Output(output.proxy.clone());
        let Some(source) = self.managers.source(&subject, handle) else {
            return;
        };
        let number = state.progress.begin_forms();
        let pointer = seat.get_pointer(handle, ());
        let sessions = &self.managers.sessions;
        let cursor = sessions.create_pointer_cursor_session(&source, &pointer, handle, number);
        let captured = CaptureSession::of(cursor.get_capture_session(handle, number));
        (state.pointer.number, state.pointer.entered) = (number, false);
        self.session = Some(CursorSession {
            pointer,
            source,
            cursor,
            captured,
        });
    }

    fn stop(&mut self) {
        self.compositor.state.progress.end_copy();
        if let Some(mut session) = self.session.take() {
            session.captured.discard();
            session.cursor.destroy();
            session.source.destroy();
            if session.pointer.version() >= 3 {
                session.pointer.release();
            }
        }
    }
}

impl Image {
    fn new(compositor: &Compositor, form: BufferForm) -> Result<Image, CaptureError> {
        let name = &compositor.name;
        let size = form.size;
        // Only formats with alpha are accepted. Without alpha, the image would be an opaque rectangle.
        let sides = size.width.max(size.height);
        if !size.is_valid() || sides > LONGEST_SIDE || form.format != WEnum::Value(Format::Argb8888)
        {
            let format = form.format;
            return Err(CaptureError(format!(
                "{name}: can't read its pointer image of {size} in the pixel format {format:?}: stream \
                 without the pointer (--cursor=false)"
            )));
        }
        let length = form.stride as usize * size.height as usize;
        let (memory, file) = SharedMemory::new(length).map_err(|cause| {
            CaptureError(format!(
                "{name}: can't allocate memory for its pointer image: {cause}"
            ))
        })?;
        let buffer = compositor.buffer(file.as_fd(), length, form)?;
        Ok(Image {
            form,
            memory,
            buffer,
        })
    }

    /// The image of the pointer. If it is too large, only its upper left part is kept.
    fn shape(&self, hot_spot: (i32, i32)) -> CursorShape {
        let side = |n: u32| u16::try_from(n.min(MAX_SIDE)).unwrap_or(0);
        let (width, height) = (side(self.form.size.width), side(self.form.size.height));
        let inside = |at: i32, side: u16| u16::try_from(at.max(0)).unwrap_or(0).min(side - 1);
        let rows = self.memory.bytes().chunks_exact(self.form.stride as usize);
        let pixels = rows.take(height.into()).flat_map(|row| {
            let (pixels, _) = row.as_chunks::<4>();
            pixels[..width.into()]
                .iter()
                .copied()
                .map(u32::from_le_bytes)
        });
        CursorShape {
            width,
            height,
            hot_x: inside(hot_spot.0, width),
            hot_y: inside(hot_spot.1, height),
            argb: pixels.collect(),
        }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        self.buffer.destroy();
    }
}

fn whole(size: Size) -> Block {
    Block {
        columns: 0..size.width,
        rows: 0..size.height,
    }
}

impl Dispatch<WlSeat, ()> for State {
    fn event(
        state: &mut State,
        _: &WlSeat,
        event: wl_seat::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        if let wl_seat::Event::Capabilities {
            capabilities: WEnum::Value(capabilities),
        } = event
        {
            state.pointer.exists = capabilities.contains(Capability::Pointer);
        }
    }
}

impl Dispatch<ExtImageCopyCaptureCursorSessionV1, u64> for State {
    fn event(
        state: &mut State,
        _: &ExtImageCopyCaptureCursorSessionV1,
        event: cursor::Event,
        number: &u64,
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        let pointer = &mut state.pointer;
        if pointer.number != *number {
            return;
        }
        match event {
            cursor::Event::Enter => pointer.entered = true,
            cursor::Event::Leave => pointer.entered = false,
            cursor::Event::Position { x, y } => pointer.position = (x, y),
            cursor::Event::Hotspot { x, y } => pointer.hot_spot = (x, y),
            _ => {}
        }
    }
}

// The pointer object is only an argument of other requests. It gets no events, because this connection has no window.
delegate_noop!(State: ignore WlPointer);
