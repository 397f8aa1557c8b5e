//! The connection to the compositor: the global objects that it announces, and the receivers of its events.

pub(super) mod image_copy;
pub(super) mod pointer;
pub(super) mod windows;

use std::os::fd::BorrowedFd;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wayland_client::backend::WaylandError;
use wayland_client::globals::{GlobalList, GlobalListContents, registry_queue_init};
use wayland_client::protocol::wl_buffer::WlBuffer;
use wayland_client::protocol::wl_output::{self, WlOutput};
use wayland_client::protocol::wl_registry::{self, WlRegistry};
use wayland_client::protocol::wl_shm::WlShm;
use wayland_client::protocol::wl_shm_pool::WlShmPool;
use wayland_client::{
    Connection, Dispatch, EventQueue, Proxy as _, QueueHandle, WEnum, delegate_noop,
};

use self::image_copy::Managers;
use self::pointer::PointerState;
use self::windows::Windows;
use super::copy::{BufferForm, Progress};
use super::outputs::Outputs;
use crate::display;
use openuvr_media::capture::{CaptureError, Waker};

/// The versions of `wl_output`. Outputs have names since version 4.
const OUTPUT_VERSIONS: std::ops::RangeInclusive<u32> = 1..=4;

/// A connection.
pub(crate) struct Compositor {
    conn: Connection,
    queue: EventQueue<State>,
    pub(super) handle: QueueHandle<State>,
    pub(super) globals: GlobalList,
    pub(super) shm: WlShm,
    pub(super) state: State,
    /// The name for messages, such as `Wayland display wayland-1`.
    pub(super) name: String,
}

/// The receivers of events.
#[derive(Default)]
pub(super) struct State {
    pub(super) progress: Progress,
    pub(super) outputs: Outputs,
    pub(super) windows: Windows,
    pub(super) pointer: PointerState,
}

impl Compositor {
    /// Connects to the display, and waits until its outputs are known. Selects the output with the name `output`, if it
    /// exists. `None` selects the first output with a mode.
    ///
    /// # Errors
    /// Returns a one-line error if the display cannot be reached.
    pub(super) fn connect(
        display: Option<&str>,
        output: Option<String>,
    ) -> Result<Compositor, CaptureError> {
        let conn = display::connect(display).map_err(CaptureError)?;
        let name = display::name_or_default(display);
        let name = format!("Wayland display {name}");
        let failed = |cause: &dyn std::fmt::Display| gone(&name, cause);
        let (globals, queue) = registry_queue_init::<State>(&conn).map_err(|e| failed(&e))?;
        let handle = queue.handle();
        let shm: WlShm = globals.bind(&handle, 1..=1, ()).map_err(|e| failed(&e))?;
        let mut state = State {
            outputs: Outputs::wanted(output),
            ..State::default()
        };
        globals.contents().with_list(|list| {
            for global in list {
                if global.interface == WlOutput::interface().name {
                    let version = global.version.min(*OUTPUT_VERSIONS.end());
                    let registry = globals.registry();
                    let proxy = registry.bind(global.name, version, &handle, global.name);
                    state.outputs.add(global.name, proxy);
                }
            }
        });
        let mut compositor = Compositor {
            conn,
            queue,
            handle,
            globals,
            shm,
            state,
            name,
        };
        // Receives the names, modes and transforms of the outputs.
        compositor.round_trip()?;
        compositor.state.outputs.choose();
        Ok(compositor)
    }

    /// The objects of ext-image-copy-capture, if the compositor has them.
    pub(super) fn image_copy(&self) -> Option<Managers> {
        Some(Managers {
            sessions: self.globals.bind(&self.handle, 1..=1, ()).ok()?,
            outputs: self.globals.bind(&self.handle, 1..=1, ()).ok()?,
            windows: self.globals.bind(&self.handle, 1..=1, ()).ok(),
        })
    }

    /// A buffer that consists of the whole `file`, which has `length` bytes.
    pub(super) fn buffer(
        &self,
        file: BorrowedFd<'_>,
        length: usize,
        form: BufferForm,
    ) -> Result<WlBuffer, CaptureError> {
        let WEnum::Value(format) = form.format else {
            return Err(CaptureError(
                "the compositor announced an unknown pixel format".to_owned(),
            ));
        };
        // `Size::is_valid` limits the length to 2 GiB, and the sides to 16 bits.
        let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let length = i32::try_from(length)
            .map_err(|_| CaptureError(format!("a picture of {} is too large", form.size)))?;
        let pool = self.shm.create_pool(file, length, &self.handle, ());
        let (width, height) = (number(form.size.width), number(form.size.height));
        let stride = number(form.stride);
        let buffer = pool.create_buffer(0, width, height, stride, format, &self.handle, ());
        pool.destroy();
        Ok(buffer)
    }

    /// Waits until the compositor has processed all requests.
    pub(super) fn round_trip(&mut self) -> Result<(), CaptureError> {
        let result = self.queue.roundtrip(&mut self.state);
        result.map(drop).map_err(|e| gone(&self.name, &e))
    }

    /// Processes the events that have arrived.
    pub(super) fn dispatch(&mut self) -> Result<(), CaptureError> {
        let result = self.queue.dispatch_pending(&mut self.state);
        result.map(drop).map_err(|e| gone(&self.name, &e))
    }

    /// Sends the requests, and returns the events to wait for. If the compositor does not read at present, the next wait
    /// sends the remaining requests.
    pub(super) fn flush(&self) -> Result<PollFlags, CaptureError> {
        display::flush(&self.conn).map_err(|cause| gone(&self.name, &cause))
    }

    /// Waits for events, for the waker, or until the specified time.
    pub(super) fn wait(&self, waker: &Waker, until: Option<Instant>) -> Result<(), CaptureError> {
        let Some(guard) = self.queue.prepare_read() else {
            return Ok(());
        };
        let events = self.flush()?;
        let span = until.map(|until| until.since(clock::now()));
        let span = span.and_then(|span| Timespec::try_from(span).ok());
        let socket: BorrowedFd<'_> = guard.connection_fd();
        let mut fds = [
            PollFd::from_borrowed_fd(socket, events),
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
        event: wl_output::Event,
        name: &u32,
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        state.outputs.handle(*name, event);
    }
}

delegate_noop!(State: ignore WlShm);
delegate_noop!(State: WlShmPool);
delegate_noop!(State: ignore WlBuffer);
