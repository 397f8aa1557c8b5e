//! The connection to the compositor and its objects.

use std::os::fd::{AsFd as _, BorrowedFd};

use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wayland_client::backend::WaylandError;
use wayland_client::globals::{GlobalListContents, registry_queue_init};
use wayland_client::protocol::wl_buffer::WlBuffer;
use wayland_client::protocol::wl_output::WlOutput;
use wayland_client::protocol::wl_registry::{self, WlRegistry};
use wayland_client::protocol::wl_shm::WlShm;
use wayland_client::protocol::wl_shm_pool::WlShmPool;
use wayland_client::{
    Connection, Dispatch, EventQueue, Proxy as _, QueueHandle, WEnum, delegate_noop,
};
use wayland_protocols_wlr::screencopy::v1::client::zwlr_screencopy_frame_v1::{
    self, ZwlrScreencopyFrameV1,
};
use wayland_protocols_wlr::screencopy::v1::client::zwlr_screencopy_manager_v1::ZwlrScreencopyManagerV1;

use super::Target;
use super::frame::{BufferForm, FrameState};
use super::outputs::Outputs;
use super::turn::Transform;
use crate::capture::{CaptureError, Waker};
use crate::wayland_display;

/// The version with `copy_with_damage` and all forms of a buffer before the copy.
const SCREENCOPY_VERSION: u32 = 3;

/// Of `wl_output`: names since version 4.
const OUTPUT_VERSIONS: std::ops::RangeInclusive<u32> = 1..=4;

/// The connection, the captured output, and the copy in progress.
pub(super) struct Session {
    conn: Connection,
    queue: EventQueue<State>,
    handle: QueueHandle<State>,
    manager: ZwlrScreencopyManagerV1,
    shm: WlShm,
    /// For messages: `Wayland display wayland-1`.
    pub(super) name: String,
    pointer: bool,
    /// Another output is captured since the last question.
    switched: bool,
    pub(super) frame: FrameState,
    outputs: Outputs,
}

/// The receivers of events, borrowed by a dispatch.
pub(super) struct State {
    frame: FrameState,
    outputs: Outputs,
}

/// Makes buffers.
pub(super) struct Shm {
    shm: WlShm,
    handle: QueueHandle<State>,
}

impl Session {
    pub(super) fn open(target: &Target) -> Result<Session, CaptureError> {
        let conn = wayland_display::connect(target.display.as_deref()).map_err(CaptureError)?;
        let display = wayland_display::name_or_default(target.display.as_deref());
        let name = format!("Wayland display {display}");
        let failed = |cause: &dyn std::fmt::Display| gone(&name, cause);
        let (list, queue) = registry_queue_init::<State>(&conn).map_err(|e| failed(&e))?;
        let handle = queue.handle();
        let manager = list.bind(&handle, SCREENCOPY_VERSION..=SCREENCOPY_VERSION, ());
        let manager = manager.map_err(|_| {
            CaptureError(format!(
                "{name}: its compositor lacks wlr-screencopy 3, with which others capture its screen: \
                 stream one application (openuvr run, or openuvr host --virtual 1280x720 -- COMMAND), or \
                 use a compositor based on wlroots, such as sway"
            ))
        })?;
        let shm: WlShm = list.bind(&handle, 1..=1, ()).map_err(|e| failed(&e))?;
        let mut outputs = Outputs::wanted(target.output.clone());
        list.contents().with_list(|globals| {
            for global in globals {
                if global.interface == WlOutput::interface().name {
                    let version = global.version.min(*OUTPUT_VERSIONS.end());
                    let proxy = list
                        .registry()
                        .bind(global.name, version, &handle, global.name);
                    outputs.add(global.name, proxy);
                }
            }
        });
        let mut session = Session {
            conn,
            queue,
            handle,
            manager,
            shm,
            name,
            pointer: target.pointer,
            switched: false,
            frame: FrameState::default(),
            outputs,
        };
        // The outputs' names, modes and transforms.
        session.round_trip()?;
        session.outputs.choose();
        match &target.output {
            Some(wanted) if !session.has_output() => Err(CaptureError(format!(
                "{}: there is no output {wanted:?}; there are: {}",
                session.name,
                session.outputs.names().join(", ")
            ))),
            None if !session.has_output() => Err(CaptureError(format!(
                "{}: there is no output to capture: connect a screen, or let the compositor create one",
                session.name
            ))),
            _ => Ok(session),
        }
    }

    /// Whether the output exists.
    pub(super) fn has_output(&self) -> bool {
        self.outputs.chosen().is_some()
    }

    pub(super) fn output_name(&self) -> &str {
        self.outputs.chosen_name()
    }

    /// The size of the output's pictures, if it is on.
    pub(super) fn output_size(&self) -> Option<Size> {
        let output = self.outputs.chosen()?;
        output.mode.map(|mode| output.transform.turned(mode))
    }

    /// How the picture must be turned.
    pub(super) fn transform(&self) -> Transform {
        (self.outputs.chosen()).map_or(Transform::default(), |output| output.transform)
    }

    pub(super) fn shm(&self) -> Shm {
        Shm {
            shm: self.shm.clone(),
            handle: self.handle.clone(),
        }
    }

    /// Requests the next copy.
    pub(super) fn request(&mut self) {
        let Some(output) = self.outputs.chosen() else {
            return;
        };
        let pointer = i32::from(self.pointer);
        let frame = (self.manager).capture_output(pointer, &output.proxy, &self.handle, ());
        self.frame.start(frame);
    }

    fn round_trip(&mut self) -> Result<(), CaptureError> {
        let mut state = self.lend();
        let result = self.queue.roundtrip(&mut state);
        self.take_back(state);
        result.map(drop).map_err(|e| gone(&self.name, &e))
    }

    /// Processes the events that have arrived.
    pub(super) fn dispatch(&mut self) -> Result<(), CaptureError> {
        let mut state = self.lend();
        let result = self.queue.dispatch_pending(&mut state);
        self.take_back(state);
        result.map(drop).map_err(|e| gone(&self.name, &e))?;
        self.switched |= self.outputs.choose();
        Ok(())
    }

    /// Whether another output is captured since the last call.
    pub(super) fn take_switched(&mut self) -> bool {
        std::mem::take(&mut self.switched)
    }

    fn lend(&mut self) -> State {
        State {
            frame: std::mem::take(&mut self.frame),
            outputs: std::mem::take(&mut self.outputs),
        }
    }

    fn take_back(&mut self, state: State) {
        (self.frame, self.outputs) = (state.frame, state.outputs);
    }

    /// Sends the requests.
    pub(super) fn flush(&self) -> Result<(), CaptureError> {
        match self.conn.flush() {
            Ok(()) => Ok(()),
            // A compositor that does not read: the rest is sent later.
            Err(WaylandError::Io(cause)) if cause.kind() == std::io::ErrorKind::WouldBlock => {
                Ok(())
            }
            Err(cause) => Err(gone(&self.name, &cause)),
        }
    }

    /// Waits for events, the waker, or until then.
    pub(super) fn wait(&self, waker: &Waker, until: Option<Instant>) -> Result<(), CaptureError> {
        let Some(guard) = self.queue.prepare_read() else {
            return Ok(());
        };
        self.flush()?;
        let span = until.map(|until| until.since(clock::now()));
        let span = span.and_then(|span| Timespec::try_from(span).ok());
        let socket: BorrowedFd<'_> = guard.connection_fd();
        let mut fds = [
            PollFd::from_borrowed_fd(socket, PollFlags::IN),
            PollFd::from_borrowed_fd(waker.fd(), PollFlags::IN),
        ];
        match poll(&mut fds, span.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(cause) => return Err(gone(&self.name, &cause)),
        }
        if fds[0].revents().is_empty() {
            return Ok(());
        }
        match guard.read() {
            Ok(_) => Ok(()),
            Err(WaylandError::Io(cause)) if cause.kind() == std::io::ErrorKind::WouldBlock => {
                Ok(())
            }
            Err(cause) => Err(gone(&self.name, &cause)),
        }
    }
}

impl Shm {
    /// A buffer over the whole of `file`, which has `length` bytes.
    pub(super) fn buffer(
        &self,
        file: BorrowedFd<'_>,
        length: usize,
        form: BufferForm,
    ) -> Result<WlBuffer, CaptureError> {
        let WEnum::Value(format) = form.format else {
            return Err(CaptureError("an unknown pixel format".to_owned()));
        };
        // Size::is_valid bounds the length to 2 GiB, and the sides to 16 bits.
        let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let length = i32::try_from(length)
            .map_err(|_| CaptureError(format!("a picture of {} is too large", form.size)))?;
        let pool = self.shm.create_pool(file.as_fd(), length, &self.handle, ());
        let (width, height) = (number(form.size.width), number(form.size.height));
        let stride = number(form.stride);
        let buffer = pool.create_buffer(0, width, height, stride, format, &self.handle, ());
        pool.destroy();
        Ok(buffer)
    }
}

fn gone(name: &str, cause: &dyn std::fmt::Display) -> CaptureError {
    CaptureError(format!(
        "{name}: the connection failed: {cause}; check that its compositor is running"
    ))
}

impl Dispatch<WlRegistry, GlobalListContents> for State {
    fn event(
        state: &mut State,
        registry: &WlRegistry,
        event: wl_registry::Event,
        _: &GlobalListContents,
        _: &Connection,
        handle: &QueueHandle<State>,
    ) {
        match event {
            wl_registry::Event::Global {
                name,
                interface,
                version,
            } if interface == WlOutput::interface().name => {
                let version = version.min(*OUTPUT_VERSIONS.end());
                let proxy = registry.bind(name, version, handle, name);
                state.outputs.add(name, proxy);
            }
            wl_registry::Event::GlobalRemove { name } => state.outputs.remove(name),
            _ => {}
        }
    }
}

impl Dispatch<WlOutput, u32> for State {
    fn event(
        state: &mut State,
        _: &WlOutput,
        event: wayland_client::protocol::wl_output::Event,
        name: &u32,
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        state.outputs.handle(*name, event);
    }
}

impl Dispatch<ZwlrScreencopyFrameV1, ()> for State {
    fn event(
        state: &mut State,
        proxy: &ZwlrScreencopyFrameV1,
        event: zwlr_screencopy_frame_v1::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        state.frame.handle(proxy, &event);
    }
}

delegate_noop!(State: ZwlrScreencopyManagerV1);
delegate_noop!(State: ignore WlShm);
delegate_noop!(State: WlShmPool);
delegate_noop!(State: ignore WlBuffer);
