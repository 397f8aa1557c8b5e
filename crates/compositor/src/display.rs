//! A running display: its thread, its socket, and its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use openuvr_clock as clock;
use openuvr_media::capture::Waker;
use openuvr_media::clipboard::WatchMode;
use openuvr_media::temporary_folder::TemporaryFolder;
use openuvr_proto::units::Size;
use smithay::reexports::calloop::channel::{Channel, Event, sync_channel as command_channel};
use smithay::reexports::calloop::generic::Generic;
use smithay::reexports::calloop::{EventLoop, Interest, Mode, PostAction};
use smithay::reexports::wayland_server::{Display, ListeningSocket};

use crate::error::DisplayError;
use crate::outside::{
    COMMANDS, Command, Commands, DisplayCapture, DisplayClipboard, DisplayCursor, DisplayInput,
    DisplayResizer, Endpoints,
};
use crate::state::State;
use crate::xwayland::X11Display;
use crate::xwayland::wire::{REPORTS, Report};

/// The stack of the compositor's thread. smithay calls itself once for each level of nested subsurfaces, and a client may
/// nest all of its 4096 surfaces (`MAX_SURFACES`). The stack has 8 KiB for each level: ten times the 800 bytes of the
/// largest such function in a release build. Unused memory of a stack is not allocated.
const STACK: usize = 32 << 20;

/// The settings of a display.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder in which the display creates its own folder, with the socket.
    pub folder: PathBuf,
    /// The size in pixels.
    pub size: Size,
    /// The refresh rate in hertz until the capture sets another one. Positive finite values are limited to the range 1
    /// to 1000; any other value means 60.
    pub fps: f64,
    /// The scale, in pixels per logical unit of windows, 0.5 to 4.
    pub scale: f64,
    /// The cookie file to create for the X11 display. The file must not exist yet. `None` for a file next to the
    /// socket.
    pub authority: Option<PathBuf>,
}

/// How X11 applications reach the display.
#[derive(Clone, Debug)]
pub struct X11Access {
    /// The value of `DISPLAY`.
    pub display: String,
    /// The value of `XAUTHORITY`.
    pub authority: PathBuf,
    process: Arc<AtomicU32>,
}

impl X11Access {
    /// The process id of the X server, while it runs.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        Some(self.process.load(Ordering::Relaxed)).filter(|id| *id != 0)
    }
}

/// A running display. On drop it ends, and its applications lose their connection.
pub struct WaylandDisplay {
    size: Size,
    socket: PathBuf,
    ends: Endpoints,
    commands: Commands,
    x11: Result<X11Access, String>,
    thread: Option<JoinHandle<()>>,
    /// Removed after the thread has ended.
    _folder: TemporaryFolder,
}

impl WaylandDisplay {
    /// Starts a display. It accepts applications when this function returns.
    ///
    /// # Errors
    /// [`DisplayError`] if the socket can't be created, the keyboard layout is unknown, or this process has no
    /// descriptor or thread left.
    pub fn start(options: &Options) -> Result<WaylandDisplay, DisplayError> {
        let size = options.size;
        // The folder makes the socket accessible only to processes of this user.
        let folder = TemporaryFolder::create(&options.folder, "openuvr-wayland-");
        let refused = |path: &Path, why: &dyn std::fmt::Display| DisplayError::Socket {
            path: path.display().to_string(),
            why: why.to_string(),
        };
        let folder = folder.map_err(|why| refused(&options.folder, &why))?;
        let socket = folder.path().join("wayland-0");
        let listening = ListeningSocket::bind_absolute(socket.clone());
        let listening = listening.map_err(|why| refused(&socket, &why))?;
        let started = |why: &dyn std::fmt::Display| DisplayError::Start(why.to_string());
        let ends = Endpoints::new(size).map_err(|why| started(&why))?;
        let (commands, inbox) = command_channel(COMMANDS);
        let (ready, result) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("ouvr-wayland".to_owned())
            .stack_size(STACK);
        let own = folder.path().join("xauthority");
        let authority = options.authority.clone().unwrap_or(own);
        let (reports, reported) = command_channel(REPORTS);
        let opened = X11Display::open(authority, reports);
        let x11 = opened
            .as_ref()
            .map_err(String::clone)
            .map(|opened| X11Access {
                display: opened.name(),
                authority: opened.authority().to_owned(),
                process: opened.process(),
            });
        let (its, options) = (ends.clone(), options.clone());
        let thread = thread.spawn(move || {
            let _guard = EndReporter(its.clone());
            let made = Compositor::new(
                &options,
                its.clone(),
                (listening, inbox),
                (opened.ok(), reported),
            );
            let compositor = match made {
                Ok(compositor) => {
                    drop(ready.send(Ok(())));
                    compositor
                }
                Err(why) => return drop(ready.send(Err(why))),
            };
            if let Err(why) = compositor.run() {
                its.exchange
                    .end(format!("the Wayland display failed: {why}"));
            }
        });
        let display = WaylandDisplay {
            size,
            socket,
            ends,
            commands,
            x11,
            thread: Some(thread.map_err(|why| started(&why))?),
            _folder: folder,
        };
        wait_for(&result)?;
        Ok(display)
    }

    /// The socket's path, for `WAYLAND_DISPLAY`.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// How X11 applications reach the display.
    ///
    /// # Errors
    /// Returns the reason, in one line, if X11 applications cannot reach the display.
    pub fn x11(&self) -> Result<&X11Access, &str> {
        self.x11.as_ref().map_err(String::as_str)
    }

    /// Runs `f` in the compositor's thread, for example to set its priority.
    pub fn run_in_thread(&self, f: impl FnOnce() + Send + 'static) {
        // An error is ignored: sending fails only if the display has ended.
        let _ = self.commands.send(Command::Run(Box::new(f)));
    }

    /// Accepts the peer of `stream` as a client, and gives the client a number.
    #[cfg(feature = "conformance")]
    pub fn accept_numbered(&self, stream: std::os::unix::net::UnixStream, number: i32) {
        let _ = self.commands.send(Command::Accept(stream, number));
    }

    /// Moves the upper left corner of a window to `at`, in units of windows, even if the window fills the display. The
    /// window has the surface with the protocol identifier `surface` of the client number `client`. Waits until the
    /// window has this position.
    #[cfg(feature = "conformance")]
    pub fn move_window(&self, client: i32, surface: u32, at: (i32, i32)) {
        let (done, is_done) = sync_channel(1);
        let _ = self.commands.send(Command::MoveWindow {
            client,
            surface,
            at,
            done,
        });
        // An error is ignored: it means that the display has ended.
        let _ = is_done.recv();
    }

    /// The number of visible windows, which the compositor's thread updates.
    pub fn windows(&self) -> impl Fn() -> usize + Send + 'static {
        let count: Arc<AtomicUsize> = self.ends.windows();
        move || count.load(Ordering::Relaxed)
    }

    /// The capture of the display's pictures. A display supports only one capture.
    ///
    /// # Errors
    /// [`DisplayError`] if no descriptor is left.
    pub fn capture(&self) -> Result<DisplayCapture, DisplayError> {
        let exchange = self.ends.exchange.clone();
        Ok(DisplayCapture::new(
            exchange,
            self.commands.clone(),
            waker()?,
        ))
    }

    /// The watcher of the pointer. A display supports only one `DisplayCursor`.
    ///
    /// # Errors
    /// [`DisplayError`] if no descriptor is left.
    pub fn cursor(&self) -> Result<DisplayCursor, DisplayError> {
        Ok(DisplayCursor::new(self.ends.cursor.clone(), waker()?))
    }

    /// The sink for the player's input.
    pub fn input(&self) -> DisplayInput {
        DisplayInput::new(self.commands.clone())
    }

    /// The clipboard. A display supports only one `DisplayClipboard`. It reads copied text as `watch` specifies, up to
    /// `most` bytes.
    ///
    /// # Errors
    /// [`DisplayError`] if no descriptor is left.
    pub fn clipboard(
        &self,
        watch: WatchMode,
        most: usize,
    ) -> Result<DisplayClipboard, DisplayError> {
        let reads = watch != WatchMode::Nothing;
        let board = self.ends.clipboard.clone();
        let commands = self.commands.clone();
        Ok(DisplayClipboard::new(
            board,
            commands,
            (reads, most),
            waker()?,
        ))
    }

    /// The handle that changes the display's size.
    pub fn resizer(&self) -> DisplayResizer {
        DisplayResizer::new(self.ends.exchange.clone(), self.commands.clone(), self.size)
    }
}

impl Drop for WaylandDisplay {
    fn drop(&mut self) {
        // If the command queue is full, this call waits until the compositor's thread reads from it.
        let _ = self.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn waker() -> Result<Waker, DisplayError> {
    Waker::new().map_err(|why| DisplayError::Start(why.to_string()))
}

fn wait_for(result: &Receiver<Result<(), DisplayError>>) -> Result<(), DisplayError> {
    let panicked =
        || DisplayError::Start("the display's thread panicked: please report this bug".to_owned());
    result.recv().unwrap_or_else(|_| Err(panicked()))
}

/// Reports the display's end to the other threads when the compositor's thread ends, even if it panics.
struct EndReporter(Endpoints);

impl Drop for EndReporter {
    fn drop(&mut self) {
        let why = match std::thread::panicking() {
            true => "the Wayland display's thread panicked: please report this bug",
            false => "the Wayland display has ended",
        };
        self.0.exchange.end(why.to_owned());
    }
}

/// The compositor in its thread.
struct Compositor {
    events: EventLoop<'static, State>,
    display: Display<State>,
    state: State,
}

impl Compositor {
    fn new(
        options: &Options,
        ends: Endpoints,
        (listening, inbox): (ListeningSocket, Channel<Command>),
        (x11, reported): (Option<X11Display>, Channel<Report>),
    ) -> Result<Compositor, DisplayError> {
        let started = |why: &dyn std::fmt::Display| DisplayError::Start(why.to_string());
        let events = EventLoop::try_new().map_err(|why| started(&why))?;
        let mut display = Display::new().map_err(|why| started(&why))?;
        let scale = options.scale.clamp(0.5, 4.0);
        let mut state = State::new(
            &display,
            options.size,
            options.fps,
            scale,
            ends,
            events.handle(),
        )?;
        let handle = events.handle();
        let clients = display.backend().poll_fd().try_clone_to_owned();
        let clients = clients.map_err(|why| started(&why))?;
        // This source only ends the wait: `run` reads the clients' requests after each wait.
        let clients = Generic::new(clients, Interest::READ, Mode::Level);
        handle
            .insert_source(clients, |_, _, _| Ok(PostAction::Continue))
            .map_err(|why| started(&why))?;
        let listening = Generic::new(listening, Interest::READ, Mode::Level);
        handle
            .insert_source(listening, |_, socket, state: &mut State| {
                while let Ok(Some(stream)) = socket.accept() {
                    state.accept(stream);
                }
                Ok(PostAction::Continue)
            })
            .map_err(|why| started(&why))?;
        handle
            .insert_source(inbox, |event, (), state| match event {
                Event::Msg(command) => state.execute(command),
                Event::Closed => state.stopped = true,
            })
            .map_err(|why| started(&why))?;
        handle
            .insert_source(reported, |event, (), state| {
                if let Event::Msg(report) = event {
                    state.reported(report);
                }
            })
            .map_err(|why| started(&why))?;
        state.x11_display = x11;
        state.await_x11();
        Ok(Compositor {
            events,
            display,
            state,
        })
    }

    fn run(mut self) -> Result<(), String> {
        while !self.state.stopped {
            self.state.settle();
            self.display
                .flush_clients()
                .map_err(|why| why.to_string())?;
            let due = self.state.frames.due();
            let wait = due.map(|due| due.since(clock::now()));
            self.events
                .dispatch(wait, &mut self.state)
                .map_err(|why| why.to_string())?;
            self.display
                .dispatch_clients(&mut self.state)
                .map_err(|why| why.to_string())?;
        }
        Ok(())
    }
}

impl State {
    fn execute(&mut self, command: Command) {
        match command {
            Command::Input { event, .. } => self.apply(&event),
            Command::ReleaseAll => self.release_all(),
            Command::Repeat(may) => self.allow_repeat(may),
            Command::Offer(text) => self.offer(text),
            Command::Run(run) => run(),
            #[cfg(feature = "conformance")]
            Command::Accept(stream, number) => self.accept_numbered(stream, number),
            #[cfg(feature = "conformance")]
            Command::MoveWindow {
                client,
                surface,
                at,
                done,
            } => {
                self.move_window(client, surface, at);
                // An error is ignored: it means that the suite no longer waits.
                let _ = done.send(());
            }
            Command::Settings => {
                let settings = self.ends.exchange.settings();
                if let Some(fps) = settings.fps {
                    self.set_fps(fps);
                }
                if let Some(watched) = settings.watched {
                    self.set_watched(watched);
                }
                if let Some(size) = settings.size.filter(|size| *size != self.pictures.size()) {
                    self.resize(size);
                }
            }
            Command::Stop => self.stopped = true,
        }
    }
}
