//! The captured subject, and the protocol that copies it.

use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::units::Size;
use wayland_client::protocol::wl_buffer::WlBuffer;
use wayland_protocols::ext::foreign_toplevel_list::v1::client::ext_foreign_toplevel_list_v1::ExtForeignToplevelListV1;

use super::Target;
use super::compositor::Compositor;
use super::compositor::image_copy::ImageCopy;
use super::copy::{BufferForm, Copied, Copier, Subject};
use super::screencopy::{self, Screencopy};
use super::turn::Transform;
use openuvr_media::capture::{CaptureError, Waker};
use openuvr_media::damage::Block;

/// How often to ask the caller whether to keep waiting for a window (guess: often enough for Ctrl+C).
const QUESTION_INTERVAL: Duration = Duration::from_millis(100);

/// The connection, the captured output or window, and the copy in progress.
pub(super) struct Session {
    pub(super) compositor: Compositor,
    copier: Box<dyn Copier>,
    subject: Option<Subject>,
    /// Whether a new output was selected for capture since the last call of [`Session::take_switched`].
    switched: bool,
}

impl Session {
    pub(super) fn open(
        target: &Target,
        keep_waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Session, CaptureError> {
        let mut compositor = Compositor::connect(target.display.as_deref(), target.output.clone())?;
        let copier: Box<dyn Copier> = match compositor.image_copy() {
            Some(managers) if target.window.is_none() || managers.windows.is_some() => {
                let handle = compositor.handle.clone();
                Box::new(ImageCopy::new(managers, handle, target.pointer))
            }
            _ if target.window.is_some() => {
                return Err(CaptureError(format!(
                    "{}: its compositor does not let programs capture a single window (it lacks \
                     ext-image-copy-capture for windows): stream the whole output (omit --window), or a single \
                     application (openuvr host --virtual 1280x720 -- COMMAND)",
                    compositor.name
                )));
            }
            _ => Box::new(screencopy(&compositor, target.pointer)?),
        };
        let subject = match &target.window {
            Some(text) => Some(find_window(&mut compositor, text, keep_waiting)?),
            None => (compositor.state.outputs.chosen())
                .map(|output| Subject::Output(output.proxy.clone())),
        };
        let mut session = Session {
            compositor,
            copier,
            subject: None,
            switched: false,
        };
        let (name, outputs) = (&session.compositor.name, &session.compositor.state.outputs);
        let Some(subject) = subject else {
            return Err(CaptureError(match &target.output {
                Some(wanted) => format!(
                    "{name}: there is no output {wanted:?}; available outputs: {}",
                    outputs.names().join(", ")
                ),
                None => format!(
                    "{name}: there is no output to capture: connect a screen, or let the compositor create an output"
                ),
            }));
        };
        session.aim(subject);
        Ok(session)
    }

    fn aim(&mut self, subject: Subject) {
        self.end_copy();
        self.copier.aim(&subject);
        self.subject = Some(subject);
    }

    /// Whether the output or window exists.
    pub(super) fn has_subject(&self) -> bool {
        match &self.subject {
            Some(Subject::Window(window)) => self.compositor.state.windows.title(window).is_some(),
            _ => self.compositor.state.outputs.chosen().is_some(),
        }
    }

    pub(super) fn is_window(&self) -> bool {
        matches!(self.subject, Some(Subject::Window(_)))
    }

    pub(super) fn output_name(&self) -> &str {
        self.compositor.state.outputs.chosen_name()
    }

    /// The name for messages, such as `output DP-1`.
    pub(super) fn subject_name(&self) -> String {
        match &self.subject {
            Some(Subject::Window(window)) => {
                let title = self.compositor.state.windows.title(window);
                format!("window {:?}", title.unwrap_or_default())
            }
            _ => format!("output {}", self.output_name()),
        }
    }

    /// The size of the first picture; empty if the subject has no picture.
    pub(super) fn first_size(&mut self) -> Result<Size, CaptureError> {
        if self.is_window() {
            // The compositor announces the size only in its answer to a request for a copy. The requested copy remains
            // in progress.
            self.request(true);
            self.compositor.round_trip()?;
            let form = self.offered();
            return Ok(form.map(|form| form.size).unwrap_or_default());
        }
        let output = self.compositor.state.outputs.chosen();
        let mode = output.and_then(|output| Some(output.transform.turned(output.mode?)));
        Ok(mode.unwrap_or_default())
    }

    /// The rotation of the picture, as far as it is known before the copy.
    pub(super) fn transform(&self) -> Transform {
        let output = self.compositor.state.outputs.chosen();
        match output.filter(|_| !self.is_window()) {
            Some(output) => output.transform,
            None => Transform::default(),
        }
    }

    // The copy in progress.

    /// Requests the next copy.
    pub(super) fn request(&mut self, at_once: bool) {
        (self.copier).request(at_once, &mut self.compositor.state.progress);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.compositor.state.progress.is_idle()
    }

    pub(super) fn is_failed(&self) -> bool {
        self.compositor.state.progress.is_failed()
    }

    /// The form of the buffer for [`copy`](Session::copy), if the compositor is waiting for it.
    pub(super) fn offered(&self) -> Option<BufferForm> {
        self.compositor.state.progress.offered()
    }

    pub(super) fn copy(&mut self, buffer: &WlBuffer, stale: &Block, at_once: bool) {
        self.copier.copy(buffer, stale, at_once);
        self.compositor.state.progress.set_copying();
    }

    pub(super) fn take_copied(&mut self) -> Option<Copied> {
        let copied = self.compositor.state.progress.take_copied()?;
        self.copier.cancel();
        Some(copied)
    }

    pub(super) fn end_copy(&mut self) {
        self.copier.cancel();
        self.compositor.state.progress.end_copy();
    }

    /// Processes the events that have arrived.
    pub(super) fn dispatch(&mut self) -> Result<(), CaptureError> {
        self.compositor.dispatch()?;
        if self.compositor.state.outputs.choose() && !self.is_window() {
            self.switched = true;
            if let Some(output) = self.compositor.state.outputs.chosen() {
                let subject = Subject::Output(output.proxy.clone());
                self.aim(subject);
            }
        }
        Ok(())
    }

    /// Whether a new output was selected for capture since the last call.
    pub(super) fn take_switched(&mut self) -> bool {
        std::mem::take(&mut self.switched)
    }
}

/// Creates a copier for wlr-screencopy, which is used if the compositor lacks ext-image-copy-capture.
fn screencopy(compositor: &Compositor, pointer: bool) -> Result<Screencopy, CaptureError> {
    let handle = compositor.handle.clone();
    let versions = screencopy::VERSION..=screencopy::VERSION;
    let manager = compositor.globals.bind(&handle, versions, ());
    let manager = manager.map_err(|_| {
        CaptureError(format!(
            "{}: its compositor does not let programs capture its screen (it lacks ext-image-copy-capture \
             and wlr-screencopy 3): use the desktop's portal (--source portal), stream one application (openuvr run \
             or openuvr host --virtual 1280x720 -- COMMAND), or use a compositor based on wlroots, such as sway",
            compositor.name
        ))
    })?;
    Ok(Screencopy::new(manager, handle, pointer))
}

/// Waits for a window with this text in its title or application, while `keep_waiting` returns `true`.
fn find_window(
    compositor: &mut Compositor,
    text: &str,
    keep_waiting: &mut dyn FnMut() -> bool,
) -> Result<Subject, CaptureError> {
    let list = compositor.globals.bind(&compositor.handle, 1..=1, ());
    let _list: ExtForeignToplevelListV1 = list.map_err(|_| {
        CaptureError(format!(
            "{}: its compositor can't list its windows (it lacks ext-foreign-toplevel-list): stream the whole \
             output (omit --window)",
            compositor.name
        ))
    })?;
    // First the list arrives, then the windows' titles.
    compositor.round_trip()?;
    compositor.round_trip()?;
    let waker = Waker::new()?;
    loop {
        if let Some(window) = compositor.state.windows.find(text) {
            return Ok(Subject::Window(window));
        }
        if !keep_waiting() {
            return Err(CaptureError(format!(
                "{}: no window has {text:?} in its title or application; open windows: {}",
                compositor.name,
                compositor.state.windows.titles()
            )));
        }
        compositor.wait(&waker, Some(clock::now() + QUESTION_INTERVAL))?;
        compositor.dispatch()?;
    }
}
