//! The host: an application that streams its pictures and receives a player's input.

use std::ffi::{c_char, c_int, c_void};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use openuvr_media::audio::application::AppSpeaker;
use openuvr_media::capture::pool::Pool;
use openuvr_media::input_sink::device::Descriptor;
use openuvr_net::address::parse_address;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::id::DeviceId;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_runtime::guest::{Guest, InputTarget};
use openuvr_runtime::host::config::Config;
use openuvr_runtime::host::{EncoderName, Notice};
use openuvr_runtime::launch_protocol::LaunchReport;
use openuvr_runtime::lock::lock;
use openuvr_runtime::sched::ThreadRole;

use crate::buffer_poller::BufferPoller;
use crate::catch_panic::catch_panic;
use crate::config::openuvr_config;
use crate::enums::{self, BufferName, OPENUVR_INPUT_TO, narrow};
use crate::error::{DONE, Failure, Outcome};
use crate::event::Events;
use crate::ffi::{must_give_text, read, text, write};
use crate::gl::{Reader, SharingContext};
use crate::handle::{Handle, Kind, alloc, call, open, take};
use crate::input::{Devices, OnInput, device_id, duplicated, openuvr_input, openuvr_pose};
use crate::launcher;
use crate::log::{Log, OPENUVR_LOG_LEVEL};
use crate::notices;
use crate::picture::Layout;
use crate::skip_log::SkipLog;
use crate::sound_choice;
use crate::statistics::openuvr_statistics;
use crate::worker::Worker;

/// A host, created by `openuvr_alloc_context` or `openuvr_open` and closed by `openuvr_close`. A process may have
/// several; they share no state. Its functions may be called from any thread, unless their descriptions restrict this.
pub struct openuvr_context {
    _private: (),
}

/// The state of a host's context, without its settings and threads.
#[derive(Default)]
pub(crate) struct Host {
    /// Memory for copied pictures.
    pub(crate) pool: Pool,
    /// The OpenGL reader. Locked before the settings.
    pub(crate) pixels: Mutex<Option<Reader>>,
    pub(crate) skip_log: Mutex<SkipLog>,
}

impl Drop for Host {
    fn drop(&mut self) {
        // The host's threads, which read pictures in the reader's memory, have ended.
        if let Some(pixels) = lock(&self.pixels).take() {
            pixels.end();
        }
    }
}

/// The settings before the start.
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) size: Size,
    pub(crate) format: u32,
    pub(crate) stride: usize,
    input: InputTarget,
    viewport: Viewport,
    on_input: Option<OnInput>,
    pub(crate) buffer: Option<BufferName>,
    devices: Devices,
}

/// The position of the picture on the display, and its size there; `None`: the picture's own size.
type Viewport = (i32, i32, Option<Size>);

pub(crate) struct Started {
    /// Passes input to the application's callback. It ends before the host does.
    listener: Option<Worker>,
    /// Polls the pixel buffer until the application submits a picture itself. It ends before the host does.
    pub(crate) poller: Mutex<Option<BufferPoller>>,
    pub(crate) guest: Arc<Guest>,
    /// Whether `openuvr_wants` has returned 1 and no picture has been submitted since then.
    pub(crate) promised: AtomicBool,
    /// Session events for the application.
    pub(crate) events: Arc<Events>,
    /// The reason why the stream has ended, if it has.
    pub(crate) end: Arc<OnceLock<String>>,
    /// The application's sound.
    pub(crate) given: Option<AppSpeaker>,
}

// --- Lifecycle ------------------------------------------------------------------------------------

/// Creates a host (paper, Table I) with an `encoder` of `OPENUVR_ENCODER_TYPE`, a `network` of
/// `OPENUVR_NETWORK_TYPE`, and `ptr`, which points to the `GLuint` name of an OpenGL pixel buffer object, or
/// is NULL if pictures are sent with `openuvr_send_picture`. `*ptr` is read for each picture: it must stay
/// valid.
///
/// Returns NULL if this machine does not support the encoder or the network; `openuvr_check_support` returns the reason
/// and an alternative. No threads are started yet. The call takes some tens of milliseconds. From any thread.
///
/// # Safety
/// `ptr` is NULL or points to a `GLuint` until the context is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_alloc_context(
    encoder: u32,
    network: u32,
    ptr: *mut c_void,
) -> *mut openuvr_context {
    // SAFETY: the configuration has no strings.
    unsafe {
        alloc::<Host, _>(&openuvr_config {
            encoder,
            network,
            pixel_buffer: ptr,
            ..openuvr_config::default()
        })
    }
}

/// Creates a host from a configuration and stores it in `*context`. On failure, `*context` is NULL, and `why`, if not NULL,
/// receives the reason, truncated to `why_size` bytes. No threads are started yet. From any thread.
///
/// # Safety
/// Each pointer is NULL or valid for its use; strings are NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_open(
    config: *const openuvr_config,
    context: *mut *mut openuvr_context,
    why: *mut c_char,
    why_size: usize,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe { open::<Host, _>(config, context, why, why_size) }
}

impl Kind for Host {
    const MARK: u64 = u64::from_le_bytes(*b"ouvrhost");
    const NAME: &'static str = "the host";
    const INIT: &'static str = "openuvr_init_thread";
    type Config = openuvr_config;
    type Settings = Settings;
    type Started = Started;

    fn serves(config: &openuvr_config) -> Outcome<()> {
        enums::serves(config.encoder, config.network)
    }

    fn log(config: &openuvr_config) -> Log {
        Log::new(config.log, config.user)
    }

    unsafe fn settings(config: &openuvr_config) -> Outcome<Settings> {
        let word = enums::encoder(config.encoder)?;
        let only = enums::network(config.network)?;
        // SAFETY: the caller upholds this function's requirements, which include those of the called function.
        let (name, bind, dir, pin, display, csv, gateway) = unsafe {
            (
                text(config.name, "name")?,
                text(config.bind, "bind")?,
                text(config.config_dir, "config_dir")?,
                text(config.pin, "pin")?,
                text(config.display, "display")?,
                text(config.csv, "csv")?,
                text(config.gateway, "gateway")?,
            )
        };
        let pin = pin.map(|pin| enums::pin(&pin)).transpose()?;
        let usual = sound_choice::host(config.sound)?;
        let bind = bind.map_or(Ok(usual.bind), |bind| address(&bind))?;
        let config_of_host = Config {
            name: name.unwrap_or_default(),
            bind,
            link: only,
            config_dir: dir.map(PathBuf::from),
            pin,
            pair: config.pair != 0,
            pairing_timeout: at_least_one("pair_seconds", config.pair_seconds)?,
            second_player: second_player(config.second_player)?,
            max_observers: narrow("max_observers", config.max_observers)?,
            encoders: vec![EncoderName(word.encoder)],
            encoder_per_client: config.encoder_per_client != 0,
            slices: narrow("slices", config.slices)?,
            encoder_threads: match config.encoder_threads {
                0 => None,
                threads => Some(narrow("encoder_threads", threads)?),
            },
            fps: config.fps,
            // The application sets the frame rate.
            follows_display: false,
            bitrate: Some(Bitrate(config.bitrate)).filter(|rate| rate.0 != 0),
            realtime: config.realtime != 0,
            csv: csv.map(PathBuf::from),
            gateway: gateway.map(PathBuf::from),
            ..usual
        };
        config_of_host.encodings().map_err(Failure::argument)?;
        let settings = Settings {
            config: config_of_host,
            size: Size::new(config.width, config.height),
            format: config.format,
            stride: config.stride as usize,
            input: input_to(config.input, display)?,
            viewport: (0, 0, None),
            on_input: config.on_input.map(|call| OnInput {
                call,
                user: config.user,
            }),
            buffer: Some(BufferName(config.pixel_buffer)).filter(|name| !name.0.is_null()),
            devices: Devices::default(),
        };
        settings.layout()?;
        Ok(settings)
    }

    fn start(settings: &mut Settings, log: &Arc<Log>) -> Outcome<Started> {
        settings.layout()?;
        let end = Arc::<OnceLock<String>>::default();
        let events = Arc::<Events>::default();
        let (own, why, queue) = (log.clone(), end.clone(), events.clone());
        let mut config = settings.config.clone();
        let launcher = launcher::connect(&mut config)?.map(Arc::new);
        if let (Some(launcher), InputTarget::Display(display)) = (&launcher, &settings.input) {
            // The launcher must know the display before any key press: it releases the keys there if this process is
            // killed.
            launcher.send(&LaunchReport::InputDisplay(display.clone()));
        }
        let notified = launcher.clone();
        let notify = move |notice: Notice| {
            queue.record(&notice);
            if let Some(launcher) = &notified {
                launcher.send(&notice.clone().into());
            }
            if let Some((level, line)) = notices::line(&notice) {
                own.write(level, &line);
                if let Notice::SourceEnded(_) | Notice::Failed(_) = notice {
                    let _ = why.set(line);
                }
            }
        };
        let guest = Guest::start(&config, settings.input.clone(), settings.size, notify);
        let guest = Arc::new(guest.map_err(Failure::failed)?);
        let (x, y, size) = settings.viewport;
        guest.set_viewport(x, y, size);
        for (id, fd) in settings.devices.copies()? {
            map_device(&guest, id, Some(fd))?;
        }
        if let Some(launcher) = launcher {
            launcher.send(&LaunchReport::Streaming {
                size: settings.size,
                endpoint: guest.endpoint().to_owned(),
            });
            if let Some(pin) = guest.pin().filter(|_| config.pin.is_none()) {
                launcher.send(&LaunchReport::Invitation {
                    pin: pin.to_string(),
                    seconds: config.pairing_timeout,
                });
            }
        }
        let info = OPENUVR_LOG_LEVEL::OPENUVR_LOG_INFO;
        log.write(
            info,
            &format!("MUDs reach this host by {}", guest.endpoint()),
        );
        if let Some(pin) = guest.pin() {
            let seconds = config.pairing_timeout;
            log.write(
                info,
                &format!("a new device may pair within {seconds} s with the PIN {pin}"),
            );
        }
        // Input for another target is never passed to the callback.
        let receives = settings.input == InputTarget::Application;
        let listener = match settings.on_input.filter(|_| receives) {
            None => None,
            Some(on_input) => {
                let guest = guest.clone();
                let listener = Worker::start(ThreadRole::Input, "ouvr-input", move |turn| {
                    guest.deliver_input(turn, |input| on_input.notify(&input.into()));
                });
                Some(listener?)
            }
        };
        let poller = settings.poller(&guest, log);
        settings.devices.clear();
        Ok(Started {
            listener,
            poller: Mutex::new(poller),
            guest,
            promised: AtomicBool::new(false),
            events,
            end,
            given: settings.config.given.clone(),
        })
    }
}

/// Parses the listening address.
fn address(bind: &str) -> Outcome<SocketAddr> {
    parse_address(bind).map_err(|why| Failure::argument(format!("bind: {why}")))
}

/// How long pairing stays open. Pairing for no time would be reported as open, but refuse every device.
fn at_least_one(what: &str, seconds: u32) -> Outcome<u32> {
    match seconds {
        0 => Err(Failure::argument(format!("{what} must be at least 1"))),
        seconds => Ok(seconds),
    }
}

/// The policy for second players.
fn second_player(number: u32) -> Outcome<SecondPlayer> {
    match number {
        0 => Ok(SecondPlayer::Refuse),
        1 => Ok(SecondPlayer::Observe),
        2 => Ok(SecondPlayer::TakeOver),
        _ => Err(Failure::argument("second_player must be 0, 1 or 2")),
    }
}

/// The input target; `display` is the X display, if one is set.
fn input_to(word: u32, display: Option<String>) -> Outcome<InputTarget> {
    Ok(match enums::input_to(word)? {
        OPENUVR_INPUT_TO::OPENUVR_INPUT_TO_APPLICATION => InputTarget::Application,
        OPENUVR_INPUT_TO::OPENUVR_INPUT_TO_DISPLAY => {
            InputTarget::Display(display.unwrap_or_default())
        }
        OPENUVR_INPUT_TO::OPENUVR_INPUT_TO_NOTHING => InputTarget::Nothing,
    })
}

impl Settings {
    /// The layout of the pixel buffer.
    pub(crate) fn layout(&self) -> Outcome<Layout> {
        // By default, OpenGL aligns rows to 4 bytes and stores the lowest row first.
        Layout::new(self.size, self.format, self.stride, 4, true)
    }

    /// Starts the thread that polls the pixel buffer. `None` without a pixel buffer or a current OpenGL context, or if the
    /// context cannot be shared, which is logged.
    fn poller(&self, guest: &Arc<Guest>, log: &Arc<Log>) -> Option<BufferPoller> {
        let name = self.buffer?;
        let started = SharingContext::of_current()?
            .and_then(|context| BufferPoller::start(context, name, self.layout()?, guest, log));
        let explain = |failure: &Failure| {
            let why = format!(
                "cannot poll the pixel buffer: {}; call openuvr_frame_ready after each picture",
                failure.why
            );
            log.write(OPENUVR_LOG_LEVEL::OPENUVR_LOG_INFO, &why);
        };
        started.inspect_err(explain).ok()
    }
}

/// Closes a host: sends the MUDs a goodbye, ends the threads, frees the context, and sets `*context` to NULL. Does
/// nothing if it is NULL already, so a second call through the same variable is harmless; copies of the pointer become
/// invalid. No other call with this context may be in progress. After it has returned, no callback is called. It waits
/// for running callbacks, for the picture that is being encoded and for a newly paired device that is being stored,
/// plus at most 100 ms. From any thread; the OpenGL context of a pixel buffer must still exist, unless
/// `openuvr_release_buffer` was called.
///
/// # Safety
/// `context` is NULL or points to NULL or to a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_close(context: *mut *mut openuvr_context) {
    catch_panic((), || {
        // SAFETY: the caller upholds this function's requirements, which include those of the called function.
        drop(unsafe { take::<Host>(context.cast()) });
    });
}

// --- Start ----------------------------------------------------------------------------------------

/// Starts the threads that encode and send the application's pictures and receive the player's input (paper, Table I).
/// If the OpenGL context of the pixel buffer is current on this thread, another thread polls the buffer at the target
/// rate, as in the paper's listing (Fig. 9 a). Polling starts after a second. It ends with the first call of
/// `openuvr_wants`, `openuvr_release_buffer`, or a function that submits pictures. A polled picture may be torn if the
/// application fills the buffer during the copy, and the host does not know which input the picture shows.
/// `openuvr_frame_ready` has neither limit. From any thread; blocks for some tens of milliseconds.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_init_thread(context: *mut openuvr_context) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe { call(context.cast::<Handle<Host>>(), Handle::init) }
}

// --- Input ----------------------------------------------------------------------------------------

/// Retrieves the oldest pending event of the player's input into `*input` (set its `size` first). Returns 1 if there was
/// one, 0 if not. Before drawing, call it until it returns 0. If the queue overflows, one `OPENUVR_INPUT_RELEASE_ALL`
/// replaces the lost events. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `input` is NULL or writable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_next_input(
    context: *mut openuvr_context,
    input: *mut openuvr_input,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            // Validate the structure before an event is removed.
            read(input, openuvr_input::default(), "the input")?;
            let started = handle.started()?;
            if started.listener.is_some() {
                return Err(Failure::state(
                    "input goes to the callback on_input: set on_input to NULL to retrieve input with this function",
                ));
            }
            match started.guest.next_input() {
                Some(event) => write(input, &event.into(), "the input").map(|()| 1),
                None => Ok(0),
            }
        })
    }
}

/// Sets the area of the picture on the X display, for `OPENUVR_INPUT_TO_DISPLAY`: `x` and `y` of its upper left corner,
/// `width` and `height`, in pixels of the screen. A size of 0 and 0 means the size of the picture. Pointer positions are
/// mapped to this area. By default, the area starts at the display's upper left corner. Call this with the area of the
/// window, and again when the window moves (`ConfigureNotify`, and `XTranslateCoordinates` of 0, 0 to the root window). From
/// any thread, even before the threads are started.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_set_viewport(
    context: *mut openuvr_context,
    x: c_int,
    y: c_int,
    width: u32,
    height: u32,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let size = Size::new(width, height);
            if !size.is_valid() && (width, height) != (0, 0) {
                let why = format!(
                    "invalid viewport size {size}: each side must be 1 to {}",
                    Size::MAX_SIDE
                );
                return Err(Failure::argument(why));
            }
            let size = Some(size).filter(|size| size.is_valid());
            let mut settings = lock(&handle.settings);
            settings.viewport = (x, y, size);
            if let Some(started) = handle.running() {
                started.guest.set_viewport(x, y, size);
            }
            Ok(DONE)
        })
    }
}

/// Maps a device of the MUD to a local one (paper, Table I): the events of the device that was registered there as
/// `id`, 0 to 255, are written to `fd` as `struct input_event`s, one report per write. `fd` may be a uinput device, a
/// pipe or a socket. Events of unmapped devices go to the input target. The descriptor is duplicated: the caller keeps
/// it, but it becomes non-blocking. Events that do not fit are lost; the missed changes of keys and touches are written
/// before the next event that fits. A second descriptor for the same `id` replaces the first. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_map_input_device(
    context: *mut openuvr_context,
    id: c_int,
    fd: c_int,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let id = device_id(id)?;
            let can = Descriptor::new(duplicated(fd)?);
            can.map_err(|e| Failure::argument(e.to_string()))?;
            handle.map(id, Some(duplicated(fd)?))
        })
    }
}

/// Ends the mapping of a device: its pressed keys are released at the local device, and its later events go to the input
/// target. Does nothing if it is not mapped. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_unmap_input_device(
    context: *mut openuvr_context,
    id: c_int,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            handle.map(device_id(id)?, None)
        })
    }
}

impl Handle<Host> {
    fn map(&self, id: DeviceId, fd: Option<OwnedFd>) -> Outcome {
        let mut settings = lock(&self.settings);
        match self.running() {
            Some(started) => map_device(&started.guest, id, fd)?,
            None => settings.devices.set(id, fd),
        }
        Ok(DONE)
    }
}

fn map_device(guest: &Guest, id: DeviceId, fd: Option<OwnedFd>) -> Outcome<()> {
    match fd {
        Some(fd) => guest.map_device(id, fd),
        None => guest.unmap_device(id),
    }
    .map_err(Failure::argument)
}

/// Retrieves the player's newest head pose into `*pose` (set its `size` first). Returns 1, or 0 if
/// the current player has sent none. Call it before each picture and before `openuvr_begin_frame`: the
/// picture is sent with this pose. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `pose` is NULL or writable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_last_pose(
    context: *mut openuvr_context,
    pose: *mut openuvr_pose,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            match handle.started()?.guest.pose() {
                Some(posed) => write(pose, &posed.into(), "the pose").map(|()| 1),
                // An invalid structure is an error in any case.
                None => read(pose, openuvr_pose::default(), "the pose").map(|_| 0),
            }
        })
    }
}

// --- Status ---------------------------------------------------------------------------------------

/// Writes the reason why the last call with this context failed, or why the last picture was not accepted, truncated to
/// `size` bytes. From any thread; it reports on the last call of any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `text` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_last_error(
    context: *mut openuvr_context,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            must_give_text(&handle.message(), text, size)
        })
    }
}

/// Writes the PIN of the pairing that was open at the start of the threads; an empty string if pairing was closed then.
/// From any thread, after the threads are started.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `text` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_pin(
    context: *mut openuvr_context,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let pin = handle.started()?.guest.pin();
            must_give_text(&pin.map(Pin::to_string).unwrap_or_default(), text, size)
        })
    }
}

/// Writes the address and transport of this host, such as `UDP [::]:4710, udp-gso`. From any thread, after the threads are
/// started.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `text` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_listen_address(
    context: *mut openuvr_context,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            must_give_text(handle.started()?.guest.endpoint(), text, size)
        })
    }
}

/// Opens pairing for `seconds`: during this time a new device may pair with `pin`, 4 to 12 digits. From any thread, after
/// the threads are started.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `pin` is NULL or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_open_pairing(
    context: *mut openuvr_context,
    pin: *const c_char,
    seconds: u32,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let pin = text(pin, "pin")?.ok_or_else(|| Failure::null("the PIN"))?;
            let pin = enums::pin(&pin)?;
            let span = Duration::from_secs(at_least_one("seconds", seconds)?.into());
            handle.started()?.guest.open_pairing(pin, span);
            Ok(DONE)
        })
    }
}

/// Retrieves the statistics into `*statistics` (set its `size` first). From any thread, after the
/// threads are started.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `statistics` is NULL or writable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_statistics(
    context: *mut openuvr_context,
    statistics: *mut openuvr_statistics,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let current = handle.started()?.guest.statistics();
            write(statistics, &(&current).into(), "the statistics").map(|()| DONE)
        })
    }
}
