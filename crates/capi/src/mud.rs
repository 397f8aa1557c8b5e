//! The MUD (mobile user device): displays the stream of a host and sends input to it.

use std::ffi::{c_char, c_int};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openuvr_media::audio::application::AppMicrophone;
use openuvr_media::cursor::CursorShape;
use openuvr_media::input_source::evdev::{Evdev, Registrar};
use openuvr_media::input_source::{InputSource, SourceError};
use openuvr_media::present::x11::WindowConfig;
use openuvr_proto::control::negotiate::ClientConstraints;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_runtime::client::config::Config;
use openuvr_runtime::client::{ClientRuntime, ClientSetup, Target};
use openuvr_runtime::host::config::BITRATES;
use openuvr_runtime::lock::lock;
use openuvr_runtime::sched::ThreadRole;

use crate::app_presenter::{DecodedPicture, OnFrame, Pictures};
use crate::catch_panic::catch_panic;
use crate::config::openuvr_mud_config;
use crate::enums::{self, Decoding, OPENUVR_SURFACE};
use crate::error::OPENUVR_ERROR::OPENUVR_ERROR_ENDED;
use crate::error::{DONE, Failure, Outcome};
use crate::ffi::{must_give_text, read, text, write};
use crate::handle::{Handle, Kind, alloc, call, open, take};
use crate::input::{Devices, device_id, duplicated, event_of, openuvr_input, openuvr_pose};
use crate::log::{Log, OPENUVR_LOG_LEVEL};
use crate::notices::{MudState, record};
use crate::picture::openuvr_picture;
use crate::sound_choice;
use crate::statistics::openuvr_mud_statistics;
use crate::surface;
use crate::worker::Worker;

/// A MUD, created by `openuvr_alloc_mud_context` or `openuvr_open_mud` and closed by `openuvr_close_mud`. A process may
/// have several; they share no state. Its functions may be called from any thread, unless their descriptions restrict
/// this.
pub struct openuvr_mud_context {
    _private: (),
}

/// The state of a MUD's context besides its settings and threads: there is none.
#[derive(Default)]
pub(crate) struct Mud;

pub(crate) struct Settings {
    /// The host is a placeholder until [`Settings::host`] is set.
    config: Config,
    host: Option<Target>,
    reconnect: bool,
    surface: OPENUVR_SURFACE,
    window: WindowConfig,
    overlay: bool,
    on_frame: Option<OnFrame>,
    devices: Devices,
}

pub(crate) struct Started {
    pub(crate) pictures: Arc<Pictures>,
    /// The pointer shape that is lent to the application.
    pub(crate) pointed: Mutex<Option<Arc<CursorShape>>>,
    /// The picture that is lent to the application.
    lent: Mutex<Option<DecodedPicture>>,
    /// The target of pictures, and whether the application polls them.
    pub(crate) surface: OPENUVR_SURFACE,
    pulled: bool,
    client: Option<Arc<ClientRuntime>>,
    devices: Option<Registrar>,
    pub(crate) state: Arc<Mutex<MudState>>,
    log: Arc<Log>,
    notice_worker: Option<Worker>,
    /// The sound for the application.
    pub(crate) taken: Option<AppMicrophone>,
}

impl Drop for Started {
    fn drop(&mut self) {
        self.notice_worker.take();
        // The notice thread has ended, so this is the last reference to the client.
        let client = self.client.take().and_then(Arc::into_inner);
        for notice in client.map(ClientRuntime::stop).unwrap_or_default() {
            record(&self.state, &self.pictures, &self.log, notice);
        }
    }
}

// --- Lifecycle ------------------------------------------------------------------------------------

/// Creates a MUD (paper, Table I) with a `decoder` of `OPENUVR_ENCODER_TYPE` and a `network` of
/// `OPENUVR_NETWORK_TYPE`. Set its host with `openuvr_set_host`.
///
/// Returns NULL if this machine does not support the decoder or the network; `openuvr_check_mud_support` returns the
/// reason and an alternative. No threads are started yet. From any thread.
#[unsafe(no_mangle)]
pub extern "C" fn openuvr_alloc_mud_context(
    decoder: u32,
    network: u32,
) -> *mut openuvr_mud_context {
    // SAFETY: the configuration has no strings.
    unsafe {
        alloc::<Mud, _>(&openuvr_mud_config {
            decoder,
            network,
            ..openuvr_mud_config::default()
        })
    }
}

/// Creates a MUD from a configuration and stores it in `*context`. On failure, `*context` is NULL, and `why`, if not NULL,
/// receives the reason, truncated to `why_size` bytes. No threads are started yet. From any thread.
///
/// # Safety
/// Each pointer is NULL or valid for its use; strings are NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_open_mud(
    config: *const openuvr_mud_config,
    context: *mut *mut openuvr_mud_context,
    why: *mut c_char,
    why_size: usize,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe { open::<Mud, _>(config, context, why, why_size) }
}

impl Kind for Mud {
    const MARK: u64 = u64::from_le_bytes(*b"ouvr_mud");
    const NAME: &'static str = "the MUD";
    const INIT: &'static str = "openuvr_init_mud_thread";
    type Config = openuvr_mud_config;
    type Settings = Settings;
    type Started = Started;

    fn serves(config: &openuvr_mud_config) -> Outcome<()> {
        enums::mud_serves(config.decoder, config.network)
    }

    fn log(config: &openuvr_mud_config) -> Log {
        Log::new(config.log, config.user)
    }

    unsafe fn settings(config: &openuvr_mud_config) -> Outcome<Settings> {
        let word = enums::encoder(config.decoder)?;
        let only = enums::network(config.network)?;
        // SAFETY: the caller upholds this function's requirements, which include those of the called function.
        let (host, pin, dir, name, display) = unsafe {
            (
                text(config.host, "host")?,
                text(config.pin, "pin")?,
                text(config.config_dir, "config_dir")?,
                text(config.name, "name")?,
                text(config.display, "display")?,
            )
        };
        if let Some(pin) = &pin {
            enums::pin(pin)?;
        }
        if config.observe != 0 && config.take_over != 0 {
            let why = "observe and take_over are mutually exclusive: set one of them";
            return Err(Failure::argument(why));
        }
        let surface = enums::surface(config.surface)?;
        let nowhere = Target {
            host: String::new(),
            port: 0,
        };
        Ok(Settings {
            config: Config {
                pin,
                pair_again: config.pair_again != 0,
                constraints: constraints(config)?,
                link: only,
                config_dir: dir.map(PathBuf::from),
                name: name.unwrap_or_default(),
                observe: config.observe != 0,
                take_over: config.take_over != 0,
                decoder: match word.decoder {
                    Decoding::Hardware(name) => Some(name.to_owned()),
                    Decoding::Usual => None,
                },
                only_decoder: matches!(word.decoder, Decoding::Hardware(_)),
                realtime: config.realtime != 0,
                ..sound_choice::mud(config.sound, nowhere)?
            },
            host: host.as_deref().map(target).transpose()?,
            reconnect: config.reconnect != 0,
            surface,
            window: WindowConfig {
                display,
                size: window_size(config)?,
                full_screen: config.full_screen != 0,
                grab: config.grab != 0,
                ..WindowConfig::default()
            },
            overlay: config.overlay != 0,
            on_frame: config.on_frame.map(|call| OnFrame {
                call,
                user: config.user,
            }),
            devices: Devices::default(),
        })
    }

    fn start(settings: &mut Settings, log: &Arc<Log>) -> Outcome<Started> {
        settings.config.host = settings.host.clone().ok_or_else(|| {
            let why = "no host is set: call openuvr_set_host, or set host in the configuration";
            Failure::state(why)
        })?;
        let opened = settings.config.open().map_err(Failure::failed)?;
        if opened.needs_pin() {
            let why = format!(
                "not paired with the host {}: set the PIN that it shows",
                opened.host
            );
            return Err(Failure::state(why));
        }
        for why in &opened.unusable {
            log.write(OPENUVR_LOG_LEVEL::OPENUVR_LOG_WARNING, why);
        }
        let pictures = Arc::<Pictures>::default();
        let pulled = settings.surface == OPENUVR_SURFACE::OPENUVR_SURFACE_APPLICATION
            && settings.on_frame.is_none();
        let evdev = settings.evdev()?;
        let devices = evdev.as_ref().map(Evdev::registrar);
        let surface = match settings.surface {
            OPENUVR_SURFACE::OPENUVR_SURFACE_WINDOW => surface::window(&settings.window)?,
            OPENUVR_SURFACE::OPENUVR_SURFACE_APPLICATION => {
                surface::application(pictures.clone(), settings.on_frame)
            }
        };
        let client = ClientRuntime::start(ClientSetup {
            input: evdev.map(|evdev| Box::new(evdev) as Box<dyn InputSource>),
            // No clipboard is set, because the application handles its own.
            overlay: settings.overlay,
            reconnect: settings.reconnect,
            ..opened.setup(surface, settings.config.scheduler())
        });
        let client = Arc::new(client.map_err(Failure::failed)?);
        let state = Arc::<Mutex<MudState>>::default();
        let notice_worker = start_notice_worker(&client, &state, &pictures, log)?;
        settings.devices.clear();
        Ok(Started {
            pictures,
            pointed: Mutex::default(),
            lent: Mutex::default(),
            surface: settings.surface,
            pulled,
            client: Some(client),
            devices,
            state,
            log: log.clone(),
            notice_worker: Some(notice_worker),
            taken: settings.config.taken.clone(),
        })
    }
}

impl Settings {
    /// The reader of the devices; `None` if input comes from the window.
    fn evdev(&self) -> Outcome<Option<Evdev>> {
        if self.surface == OPENUVR_SURFACE::OPENUVR_SURFACE_WINDOW && self.devices.is_empty() {
            return Ok(None);
        }
        let failed = |e: SourceError| Failure::failed(e.to_string());
        let evdev = Evdev::new().map_err(failed)?;
        let devices = evdev.registrar();
        for (id, fd) in self.devices.copies()? {
            devices.register(id, fd).map_err(failed)?;
        }
        Ok(Some(evdev))
    }
}

/// Starts the thread that records and logs the client's notices.
fn start_notice_worker(
    client: &Arc<ClientRuntime>,
    state: &Arc<Mutex<MudState>>,
    pictures: &Arc<Pictures>,
    log: &Arc<Log>,
) -> Outcome<Worker> {
    let (client, state, pictures, log) =
        (client.clone(), state.clone(), pictures.clone(), log.clone());
    Worker::start(ThreadRole::Background, "ouvr-notices", move |turn| {
        if let Some(notice) = client.notice(turn) {
            record(&state, &pictures, &log, notice);
        }
    })
}

/// The window's size; 0 × 0 means the picture's size.
fn window_size(config: &openuvr_mud_config) -> Outcome<Size> {
    let size = Size::new(config.width, config.height);
    if !size.is_valid() && (config.width, config.height) != (0, 0) {
        let why = format!(
            "invalid window size {size}: each side must be 1 to {}",
            Size::MAX_SIDE
        );
        return Err(Failure::argument(why));
    }
    Ok(size)
}

/// The limits that the MUD requests from the host.
fn constraints(config: &openuvr_mud_config) -> Outcome<ClientConstraints> {
    let most = Size::new(config.max_width, config.max_height);
    if !most.is_valid() && (config.max_width, config.max_height) != (0, 0) {
        let why = format!(
            "invalid max_width and max_height {most}: each must be 1 to {}, or both 0",
            Size::MAX_SIDE
        );
        return Err(Failure::argument(why));
    }
    let rate = Some(Bitrate(config.max_bitrate)).filter(|most| most.0 != 0);
    if rate.is_some_and(|rate| !BITRATES.contains(&rate)) {
        let (least, most) = (BITRATES.start().0, BITRATES.end().0);
        let why = format!(
            "invalid max_bitrate {}: it must be {least} to {most} bit/s, or 0",
            config.max_bitrate
        );
        return Err(Failure::argument(why));
    }
    Ok(ClientConstraints {
        bitrate: rate,
        size: Some(most).filter(|size| size.is_valid()),
        // The display that shows the pictures is unknown here.
        fps: None,
        chosen_fps: None,
    })
}

/// Parses the host's name or address.
fn target(host: &str) -> Outcome<Target> {
    host.parse()
        .map_err(|e| Failure::argument(format!("host: {host:?}: {e}")))
}

/// Closes a MUD: sends the host a goodbye, closes the window, ends the threads, frees the context, and sets `*context` to
/// NULL. Does nothing if it is NULL already, so a second call through the same variable is harmless; copies of the pointer
/// become invalid. No other call with this context may be in progress. After it has returned, no callback is called. It
/// waits for running callbacks and for the picture that is being decoded, plus at most 100 ms.
///
/// # Safety
/// `context` is NULL or points to NULL or to a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_close_mud(context: *mut *mut openuvr_mud_context) {
    catch_panic((), || {
        // SAFETY: the caller upholds this function's requirements, which include those of the called function.
        drop(unsafe { take::<Mud>(context.cast()) });
    });
}

// --- Start ----------------------------------------------------------------------------------------

/// Sets the host, as in `openuvr_mud_config`, and the PIN that it shows for pairing (NULL if not needed). Call it
/// before the threads are started. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; the strings are NULL or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_set_host(
    context: *mut openuvr_mud_context,
    host: *const c_char,
    pin: *const c_char,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            let host = text(host, "host")?.ok_or_else(|| Failure::null("the host's name"))?;
            let pin = text(pin, "pin")?;
            if let Some(pin) = &pin {
                enums::pin(pin)?;
            }
            let mut settings = lock(&handle.settings);
            handle.not_started()?;
            settings.host = Some(target(&host)?);
            settings.config.pin = pin;
            Ok(DONE)
        })
    }
}

/// Starts the threads that display the host's stream and send input to it (paper, Table I). It returns before the connection
/// is established; `openuvr_mud_statistics` returns the state. From any thread; blocks during name resolution.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_init_mud_thread(context: *mut openuvr_mud_context) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe { call(context.cast::<Handle<Mud>>(), Handle::init) }
}

impl Started {
    pub(crate) fn client(&self) -> Outcome<&ClientRuntime> {
        let ended = || Failure::new(OPENUVR_ERROR_ENDED, "the stream has ended");
        self.client.as_deref().ok_or_else(ended)
    }

    /// The error that reports the end of the stream; `None` if the stream has not ended.
    pub(crate) fn end(&self) -> Option<Failure> {
        let end = lock(&self.state).end.clone();
        end.map(|why| Failure::new(OPENUVR_ERROR_ENDED, why))
    }
}

// --- Pictures and input without a window ----------------------------------------------------------

/// Retrieves the newest pending picture, for `OPENUVR_SURFACE_APPLICATION`: BGRX without row padding. Waits at most
/// `timeout_ms` milliseconds, or until the stream ends. Returns 1 if there was one, 0 if not, and `OPENUVR_ERROR_ENDED`
/// when the stream has ended. The picture's memory is valid until the next call or the close. The caller sets `size` of
/// `*picture`. From one thread at a time.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `picture` is NULL or writable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_next_frame(
    context: *mut openuvr_mud_context,
    picture: *mut openuvr_picture,
    timeout_ms: u32,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            read(picture, openuvr_picture::default(), "the picture")?;
            let started = handle.started()?;
            if !started.pulled {
                let why = "pictures go to a window or to the callback on_frame: set the surface to \
                           OPENUVR_SURFACE_APPLICATION, and on_frame to NULL";
                return Err(Failure::state(why));
            }
            if let Some(last) = lock(&started.lent).take() {
                started.pictures.recycle(last);
            }
            let timeout = Duration::from_millis(timeout_ms.into());
            match started.pictures.next(timeout) {
                Some(shown) => {
                    write(picture, &shown.picture(), "the picture")?;
                    *lock(&started.lent) = Some(shown);
                    Ok(1)
                }
                None => started.end().map_or(Ok(0), Err),
            }
        })
    }
}

/// Sends an input event to the host, for `OPENUVR_SURFACE_APPLICATION`. Events before a session starts are
/// discarded. From any thread; does not block.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `input` is NULL or readable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_input(
    context: *mut openuvr_mud_context,
    input: *const openuvr_input,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            let input = read(input, openuvr_input::default(), "the input")?;
            let event = event_of(&input)?;
            let started = handle.started()?;
            if started.surface != OPENUVR_SURFACE::OPENUVR_SURFACE_APPLICATION {
                let why =
                    "input comes from the window: set the surface to OPENUVR_SURFACE_APPLICATION";
                return Err(Failure::state(why));
            }
            started.client()?.input(event);
            Ok(DONE)
        })
    }
}

/// Sends the head pose. It is a state, not an event: only the newest one matters. At most 2000 per second are sent. Returns
/// the pose's number, or 0 if there is no session. From any thread; does not block.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `pose` is NULL or readable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_pose(
    context: *mut openuvr_mud_context,
    pose: *const openuvr_pose,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            let pose = read(pose, openuvr_pose::default(), "the pose")?;
            let (pose, sampled) = pose.parse()?;
            let client = handle.started()?.client()?;
            let id = client.set_pose(&pose, sampled);
            Ok(id.map_or(0, |id| c_int::try_from(id.0).unwrap_or(c_int::MAX)))
        })
    }
}

/// Registers an input device (paper, Table I): the events of `fd` are sent to the host as events of device `id`. The
/// host's application must know this number, 0 to 255, too (`OPENUVR_DEVICE`). `fd` is an event device or mouse
/// (`/dev/input/event3`, `/dev/input/mice`) that is open for reading, or a pipe or socket that delivers `struct
/// input_event`s. The descriptor is duplicated: the caller keeps it, but it becomes non-blocking. With a window,
/// register devices before the threads are started. The window's keyboard and mouse events are then not sent, because
/// they would be duplicates. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_register_input_device(
    context: *mut openuvr_mud_context,
    id: c_int,
    fd: c_int,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            let id = device_id(id)?;
            let (fd, tried) = (duplicated(fd)?, duplicated(fd)?);
            let can = Evdev::new().and_then(|evdev| evdev.registrar().register(id, tried));
            can.map_err(|e| Failure::argument(e.to_string()))?;
            let mut settings = lock(&handle.settings);
            let Some(started) = handle.running() else {
                settings.devices.set(id, Some(fd));
                return Ok(DONE);
            };
            let devices = started.devices.as_ref().ok_or_else(|| {
                let why = "a MUD with a window accepts no devices after its start: register them before \
                           openuvr_init_mud_thread";
                Failure::state(why)
            })?;
            let added = devices.register(id, fd);
            added.map_err(|e| Failure::argument(e.to_string()))?;
            Ok(DONE)
        })
    }
}

// --- Status ---------------------------------------------------------------------------------------

/// Writes the reason why the last call with this context failed, or why the stream has ended, truncated to
/// `size` bytes. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `text` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_mud_last_error(
    context: *mut openuvr_mud_context,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            let end = handle.running().and_then(Started::end);
            let message = end.map_or_else(|| handle.message(), |end| end.why.into());
            must_give_text(&message, text, size)
        })
    }
}

/// Retrieves the statistics into `*statistics` (set its `size` first); `state` is an
/// `OPENUVR_MUD_STATE`. From any thread, after the threads are started.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `statistics` is NULL or writable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_mud_statistics(
    context: *mut openuvr_mud_context,
    statistics: *mut openuvr_mud_statistics,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            let current = lock(&handle.started()?.state).statistics;
            write(statistics, &current, "the statistics").map(|()| DONE)
        })
    }
}
