//! Copies with `ext-image-copy-capture-v1`. A session announces the form of its buffers, and each copy updates only the
//! parts that have changed since the buffer was last used.
//!
//! The first copy of a session is made at once. Later copies are made when there is damage.

use openuvr_proto::units::Size;
use wayland_client::protocol::wl_buffer::WlBuffer;
use wayland_client::{Connection, Dispatch, QueueHandle, WEnum, delegate_noop};
use wayland_protocols::ext::image_capture_source::v1::client::ext_foreign_toplevel_image_capture_source_manager_v1::ExtForeignToplevelImageCaptureSourceManagerV1;
use wayland_protocols::ext::image_capture_source::v1::client::ext_image_capture_source_v1::ExtImageCaptureSourceV1;
use wayland_protocols::ext::image_capture_source::v1::client::ext_output_image_capture_source_manager_v1::ExtOutputImageCaptureSourceManagerV1;
use wayland_protocols::ext::image_copy_capture::v1::client::ext_image_copy_capture_frame_v1::{
    self as frame, ExtImageCopyCaptureFrameV1,
};
use wayland_protocols::ext::image_copy_capture::v1::client::ext_image_copy_capture_manager_v1::{
    ExtImageCopyCaptureManagerV1, Options,
};
use wayland_protocols::ext::image_copy_capture::v1::client::ext_image_copy_capture_session_v1::{
    self as session, ExtImageCopyCaptureSessionV1,
};

use super::State;
use crate::capture::copy::{Copier, Progress, Subject};
use crate::capture::turn::Transform;
use openuvr_media::damage::Block;

/// The compositor's objects that create sources and sessions.
#[derive(Clone)]
pub(crate) struct Managers {
    pub(in crate::capture) sessions: ExtImageCopyCaptureManagerV1,
    pub(in crate::capture) outputs: ExtOutputImageCaptureSourceManagerV1,
    /// Present if windows can be captured.
    pub(in crate::capture) windows: Option<ExtForeignToplevelImageCaptureSourceManagerV1>,
}

/// Copies an output or a window.
pub(in crate::capture) struct ImageCopy {
    managers: Managers,
    handle: QueueHandle<State>,
    options: Options,
    source: Option<ExtImageCaptureSourceV1>,
    captured: CaptureSession,
}

/// A session, and its copy in progress.
#[derive(Default)]
pub(in crate::capture) struct CaptureSession {
    session: Option<ExtImageCopyCaptureSessionV1>,
    frame: Option<ExtImageCopyCaptureFrameV1>,
    /// Whether a copy of this session has been started. All later copies wait for damage.
    used: bool,
}

impl ImageCopy {
    /// Creates a copier without a subject. `pointer` is whether the compositor draws its pointer into the picture.
    pub(in crate::capture) fn new(
        managers: Managers,
        handle: QueueHandle<State>,
        pointer: bool,
    ) -> ImageCopy {
        let options = match pointer {
            true => Options::PaintCursors,
            false => Options::empty(),
        };
        ImageCopy {
            managers,
            handle,
            options,
            source: None,
            captured: CaptureSession::default(),
        }
    }

    fn discard_source(&mut self) {
        self.captured.discard();
        if let Some(source) = self.source.take() {
            source.destroy();
        }
    }
}

impl Managers {
    /// The capture source for a subject; `None` if the subject is a window and windows cannot be captured.
    pub(in crate::capture) fn source(
        &self,
        subject: &Subject,
        handle: &QueueHandle<State>,
    ) -> Option<ExtImageCaptureSourceV1> {
        Some(match subject {
            Subject::Output(output) => self.outputs.create_source(output, handle, ()),
            Subject::Window(window) => (self.windows.as_ref()?).create_source(window, handle, ()),
        })
    }
}

impl CaptureSession {
    /// A session that has not been used.
    pub(in crate::capture) fn of(session: ExtImageCopyCaptureSessionV1) -> CaptureSession {
        CaptureSession {
            session: Some(session),
            ..CaptureSession::default()
        }
    }

    pub(in crate::capture) fn request(
        &mut self,
        handle: &QueueHandle<State>,
        progress: &mut Progress,
    ) {
        if let Some(session) = &self.session {
            self.frame = Some(session.create_frame(handle, progress.begin_copy()));
        }
    }

    pub(in crate::capture) fn copy(&mut self, buffer: &WlBuffer, stale: &Block) {
        let Some(frame) = &self.frame else {
            return;
        };
        frame.attach_buffer(buffer);
        if !stale.columns.is_empty() && !stale.rows.is_empty() {
            // The sides of a picture have 16 bits.
            let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
            let of = |range: &std::ops::Range<u32>| {
                (number(range.start), number(range.end - range.start))
            };
            let ((x, width), (y, height)) = (of(&stale.columns), of(&stale.rows));
            frame.damage_buffer(x, y, width, height);
        }
        frame.capture();
        self.used = true;
    }

    pub(in crate::capture) fn cancel(&mut self) {
        if let Some(frame) = self.frame.take() {
            frame.destroy();
        }
    }

    pub(in crate::capture) fn discard(&mut self) {
        self.cancel();
        if let Some(session) = self.session.take() {
            session.destroy();
        }
        self.used = false;
    }
}

impl Copier for ImageCopy {
    fn aim(&mut self, subject: &Subject) {
        self.discard_source();
        self.source = self.managers.source(subject, &self.handle);
    }

    fn request(&mut self, at_once: bool, progress: &mut Progress) {
        let Some(source) = &self.source else {
            return;
        };
        if self.captured.session.is_none() || (at_once && self.captured.used) {
            self.captured.discard();
            let number = progress.begin_forms();
            let (managers, handle) = (&self.managers, &self.handle);
            let session = (managers.sessions).create_session(source, self.options, handle, number);
            self.captured = CaptureSession::of(session);
        }
        self.captured.request(&self.handle, progress);
    }

    fn copy(&mut self, buffer: &WlBuffer, stale: &Block, _at_once: bool) {
        self.captured.copy(buffer, stale);
    }

    fn cancel(&mut self) {
        self.captured.cancel();
    }
}

impl Dispatch<ExtImageCopyCaptureSessionV1, u64> for State {
    fn event(
        state: &mut State,
        _: &ExtImageCopyCaptureSessionV1,
        event: session::Event,
        number: &u64,
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        let (number, progress) = (*number, &mut state.progress);
        match event {
            session::Event::BufferSize { width, height } => {
                progress.on_size(number, Size::new(width, height));
            }
            session::Event::ShmFormat { format } => progress.on_format(number, format, None),
            session::Event::Done => progress.on_form_done(number),
            session::Event::Stopped => progress.on_stopped(number),
            _ => {}
        }
    }
}

impl Dispatch<ExtImageCopyCaptureFrameV1, u64> for State {
    fn event(
        state: &mut State,
        _: &ExtImageCopyCaptureFrameV1,
        event: frame::Event,
        number: &u64,
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        let (number, progress) = (*number, &mut state.progress);
        match event {
            frame::Event::Transform {
                transform: WEnum::Value(transform),
            } => progress.on_transform(number, Transform::from(transform)),
            frame::Event::Damage {
                x,
                y,
                width,
                height,
            } => {
                let side = |n: i32| u32::try_from(n).unwrap_or(0);
                let (x, y) = (side(x), side(y));
                let block = Block {
                    columns: x..x.saturating_add(side(width)),
                    rows: y..y.saturating_add(side(height)),
                };
                progress.on_damage(number, block);
            }
            frame::Event::Ready => progress.on_ready(number),
            frame::Event::Failed { .. } => progress.on_failed(number),
            _ => {}
        }
    }
}

delegate_noop!(State: ExtImageCaptureSourceV1);
delegate_noop!(State: ExtImageCopyCaptureManagerV1);
delegate_noop!(State: ExtOutputImageCaptureSourceManagerV1);
delegate_noop!(State: ExtForeignToplevelImageCaptureSourceManagerV1);
