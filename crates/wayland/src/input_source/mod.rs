//! The input thread's part of the client's window on a Wayland compositor: keyboard, pointer, touch, and window events.
//!
//! It converts the compositor's events to protocol events, and lays the window out when its size or scale changes. It
//! also executes the shortcuts of [`SHORTCUTS`](openuvr_media::input_source::SHORTCUTS), which are not sent to the
//! host. For compositors that draw no title bar, Ctrl+Alt+Shift with the left button moves the window, and with the
//! right button resizes it.
//!
//! Keys are physical: the compositor uses evdev's key codes. As on X11, the text of a key is computed here from the
//! compositor's key map. Keys do not repeat here, because the host's window system repeats them.
//!
//! Spec: Wayland 1.21 (`wl_seat`), `xdg-shell`, `pointer-constraints-unstable-v1`, `relative-pointer-unstable-v1`,
//! `keyboard-shortcuts-inhibit-unstable-v1`.

mod globals;
mod grab;
mod keyboard;
mod outputs;
mod pointer;
mod touch;
mod window;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wayland_client::backend::WaylandError;
use wayland_client::{EventQueue, QueueHandle};

use crate::display;
use crate::window::{Scene, SharedSurface, Surfaces};
use globals::Globals;
use openuvr_media::input_source::shortcuts::Action;
use openuvr_media::input_source::{InputSource, SourceError, SourceEvent};
use openuvr_media::window::{WindowConfig, WindowError};

/// How long the compositor may take to configure a new window. A running compositor takes milliseconds.
const CONFIGURE: Duration = Duration::from_secs(5);

/// Reads keyboard, pointer and touch of the client's window.
pub struct WaylandInputSource {
    queue: EventQueue<State>,
    state: State,
}

/// The receiver of all events from the connection's queue.
pub(super) struct State {
    stage: Arc<SharedSurface>,
    globals: Globals,
    queue: QueueHandle<State>,
    keyboard: keyboard::Keyboard,
    pointer: pointer::Pointer,
    touch: touch::Touch,
    grab: grab::Grab,
    window: window::Window,
    outputs: outputs::Outputs,
    /// The window's size as last reported.
    reported: Option<Size>,
    ready: VecDeque<SourceEvent>,
}

impl WaylandInputSource {
    /// Opens the window. Returns the window's input source, and the part of the window that the presenter uses.
    ///
    /// # Errors
    /// [`WindowError`], in one line, if the compositor cannot be reached, does not answer, or lacks a protocol.
    pub(crate) fn open(
        config: &WindowConfig,
    ) -> Result<(WaylandInputSource, Arc<SharedSurface>), WindowError> {
        let display = display::name_or_default(config.display.as_deref());
        let conn = display::connect(config.display.as_deref()).map_err(WindowError)?;
        let (globals, mut queue) = Globals::bind(&conn, &display)?;
        let handle = queue.handle();
        let waker = openuvr_media::waker::Waker::new().map_err(|e| WindowError(e.to_string()))?;
        let parts: Surfaces = globals.surfaces(&handle);
        let scene = Scene::new(config.size, config.follow, config.observer);
        let stage = SharedSurface::new(conn, display, parts, waker, scene);
        let stage = Arc::new(stage);
        let state = State {
            window: window::Window::new(&globals, &stage, &handle, config),
            stage: Arc::clone(&stage),
            globals,
            queue: handle,
            keyboard: keyboard::Keyboard::new(config.keys),
            pointer: pointer::Pointer::default(),
            touch: touch::Touch::default(),
            grab: grab::Grab::new(config.grab),
            outputs: outputs::Outputs::default(),
            reported: None,
            ready: VecDeque::new(),
        };
        let mut source = WaylandInputSource { queue, state };
        // The first arrangement of the window needs the pending events of the seat and the outputs.
        source.queue.flush().map_err(|cause| stage.gone(&cause))?;
        let end = Instant::now() + CONFIGURE;
        while !source.state.window.is_configured() {
            if Instant::now() >= end {
                return Err(WindowError(format!(
                    "can't open a window on the Wayland display {}: its compositor did not answer within {} s",
                    stage.display,
                    CONFIGURE.as_secs()
                )));
            }
            source.turn(Some(end))?;
        }
        stage.flush()?;
        // The queue keeps the other events that have arrived together with the configuration.
        queue = source.queue;
        Ok((
            WaylandInputSource {
                queue,
                state: source.state,
            },
            stage,
        ))
    }

    /// Handles pending events, or waits for new ones until `end`.
    fn turn(&mut self, end: Option<Instant>) -> Result<(), WindowError> {
        let stage = Arc::clone(&self.state.stage);
        let gone = |cause: &dyn std::fmt::Display| stage.gone(cause);
        let handled = self
            .queue
            .dispatch_pending(&mut self.state)
            .map_err(|cause| gone(&cause))?;
        self.state.follow_scene();
        let events = stage.send()?;
        if handled > 0 || !self.state.ready.is_empty() {
            return Ok(());
        }
        let Some(guard) = self.queue.prepare_read() else {
            // Another event has arrived in between.
            return Ok(());
        };
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let fd = guard.connection_fd();
        let waker = stage.waker.fd();
        let mut ready = [
            PollFd::from_borrowed_fd(fd, events),
            PollFd::from_borrowed_fd(waker, PollFlags::IN),
        ];
        match poll(&mut ready, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(cause) => return Err(gone(&cause)),
        }
        let readable = !ready[0].revents().is_empty();
        if !ready[1].revents().is_empty() {
            stage.waker.lower();
        }
        if readable {
            match guard.read() {
                Ok(_) => {}
                Err(WaylandError::Io(cause)) if cause.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(cause) => return Err(gone(&cause)),
            }
        }
        Ok(())
    }
}

impl InputSource for WaylandInputSource {
    fn next(&mut self, timeout: Option<Duration>) -> Result<SourceEvent, SourceError> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(event) = self.state.ready.pop_front() {
                return Ok(event);
            }
            self.turn(end).map_err(|cause| SourceError(cause.0))?;
            if self.state.ready.is_empty() && end.is_some_and(|end| Instant::now() >= end) {
                return Ok(SourceEvent::TimedOut);
            }
        }
    }

    fn follow(&mut self, keys: Keys) {
        self.state.keyboard.keys.follow(keys);
    }
}

impl State {
    fn send(&mut self, event: InputEvent) {
        self.ready.push_back(SourceEvent::Input(event));
    }

    /// Reacts to changes that the presenter has made in the scene.
    fn follow_scene(&mut self) {
        if !self.window.is_configured() {
            return;
        }
        let (window, request) = {
            let mut scene = self.stage.scene();
            (scene.window(), std::mem::take(&mut scene.relative_changed))
        };
        if self.reported.replace(window) != Some(window) {
            self.ready.push_back(SourceEvent::Resized(window));
        }
        if request {
            self.grab.declined = false;
            self.follow_request();
        }
    }

    /// Changes the scene. Then redraws the host's pointer over the picture, because the pointer depends on the scene.
    fn change(&mut self, apply: impl FnOnce(&mut Scene)) {
        let mut scene = self.stage.scene();
        apply(&mut scene);
        self.stage.draw_pointer(&mut scene);
        self.stage.surfaces.window.commit();
    }

    fn own(&mut self, own: Action) {
        match own {
            Action::Quit => self.ready.push_back(SourceEvent::Closed),
            Action::Overlay => self.ready.push_back(SourceEvent::ToggleOverlay),
            Action::Eyes => self.ready.push_back(SourceEvent::NextEyes),
            Action::Recentre => self.ready.push_back(SourceEvent::Recentre),
            Action::Sound(wish) => self.ready.push_back(SourceEvent::Sound(wish)),
            Action::FullScreen => self.window.toggle_full_screen(&self.stage),
            Action::Grab if self.grab.is_requested() => {
                self.grab.declined = true;
                self.release();
            }
            Action::Grab => {
                self.keyboard.keys.reset_composition();
                (self.grab.declined, self.grab.for_host) = (false, false);
                self.take_pointer();
            }
            Action::Keys => {
                let other = self.keyboard.keys.switch_mode(self.grab.is_active());
                self.ready.push_back(SourceEvent::Keys(other));
            }
        }
    }
}

/// The error if the connection fails before the window exists.
fn gone(display: &str, cause: &dyn std::fmt::Display) -> WindowError {
    crate::window::gone(display, cause)
}
