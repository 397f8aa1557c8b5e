//! The MUD (mobile user device): shows what a host streams, and sends it a person's input.

use std::ffi::{c_char, c_int};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openuvr_media::audio::application::Taken;
use openuvr_media::cursor::CursorShape;
use openuvr_media::input_source::evdev::{Evdev, Registrar};
use openuvr_media::input_source::{InputSource, SourceError};
use openuvr_media::present::x11::WindowConfig;
use openuvr_proto::control::negotiate::Wishes;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_runtime::client::config::Config;
use openuvr_runtime::client::{ClientRuntime, ClientSetup, Eyes, Target};
use openuvr_runtime::host::config::BITRATES;
use openuvr_runtime::lock::lock;
use openuvr_runtime::sched::ThreadRole;

use crate::app_presenter::{OnFrame, Pictures, Shown};
use crate::catch_panic::catch_panic;
use crate::config::openuvr_mud_config;
use crate::enums::{self, Decoding, OPENUVR_SURFACE};
use crate::error::OPENUVR_ERROR::OPENUVR_ERROR_ENDED;
use crate::error::{DONE, Failure, Outcome};
use crate::ffi::{must_give_text, read, text, write};
use crate::handle::{Handle, Kind, alloc, call, open, take};
use crate::input::{Devices, device_id, duplicated, event_of, openuvr_input, openuvr_pose};
use crate::log::{Log, OPENUVR_LOG_LEVEL};
use crate::notices::{MudState, note};
use crate::picture::openuvr_picture;
use crate::sound_choice;
use crate::statistics::openuvr_mud_statistics;
use crate::surface;
use crate::worker::Worker;

/// A MUD. Made by `openuvr_alloc_mud_context` or `openuvr_open_mud`, ended by `openuvr_close_mud`. A
/// process may have several; they share nothing. Its functions may be called from any thread, but for
/// `openuvr_next_frame` and `openuvr_close_mud`.
pub struct openuvr_mud_context {
    _private: (),
}

/// A context has nothing besides its settings and its threads.
#[derive(Default)]
pub(crate) struct Mud;

pub(crate) struct Settings {
    /// With any host, until [`Settings::host`] is known.
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
    /// What the application was told of the pointer, whose shape it may look at.
    pub(crate) pointed: Mutex<Option<Arc<CursorShape>>>,
    /// What the application looks at.
    lent: Mutex<Option<Shown>>,
    /// Whether the application shows the pictures, and how it gets them.
    pub(crate) surface: OPENUVR_SURFACE,
    pulled: bool,
    client: Option<Arc<ClientRuntime>>,
    devices: Option<Registrar>,
    pub(crate) state: Arc<Mutex<MudState>>,
    log: Arc<Log>,
    teller: Option<Worker>,
    /// What the application takes.
    pub(crate) taken: Option<Taken>,
}

impl Drop for Started {
    fn drop(&mut self) {
        self.teller.take();
        // The thread is gone, so this is the last.
        let client = self.client.take().and_then(Arc::into_inner);
        for notice in client.map(ClientRuntime::stop).unwrap_or_default() {
            note(&self.state, &self.pictures, &self.log, notice);
        }
    }
}

// --- Making and ending one ------------------------------------------------------------------------

/// Makes a MUD (paper, Table I): `decoder` of `OPENUVR_ENCODER_TYPE`, `network` of
/// `OPENUVR_NETWORK_TYPE`. Say with `openuvr_set_host` where its host is.
///
/// NULL if this machine can't serve it; `openuvr_check_mud_support` says why and what would work. Nothing is
/// started yet. From any thread.
#[unsafe(no_mangle)]
pub extern "C" fn openuvr_alloc_mud_context(
    decoder: u32,
    network: u32,
) -> *mut openuvr_mud_context {
    // SAFETY: it has no texts.
    unsafe {
        alloc::<Mud, _>(&openuvr_mud_config {
            decoder,
            network,
            ..openuvr_mud_config::default()
        })
    }
}

/// Makes a MUD of a configuration and puts it into `*context`, NULL there if that fails; then `why`,
/// if not NULL, holds the reason as far as `why_size` bytes go. Nothing is started yet. From any
/// thread.
///
/// # Safety
/// Each pointer is NULL or valid for what the function does with it; texts end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_open_mud(
    config: *const openuvr_mud_config,
    context: *mut *mut openuvr_mud_context,
    why: *mut c_char,
    why_size: usize,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
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
        // SAFETY: the caller has promised this function the same.
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
        let surface = enums::surface(config.surface)?;
        let nowhere = Target {
            host: String::new(),
            port: 0,
        };
        Ok(Settings {
            config: Config {
                pin,
                pair_again: config.pair_again != 0,
                wishes: wishes(config)?,
                link: only,
                config_dir: dir.map(PathBuf::from),
                name: name.unwrap_or_default(),
                observe: config.observe != 0,
                take_over: config.take_over != 0,
                decoder: match word.decoder {
                    Decoding::Hardware(name) => Some(name.to_owned()),
                    Decoding::Usual | Decoding::None(_) => None,
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
            let why =
                "no host is named: openuvr_set_host, or host in the configuration, says where it is";
            Failure::state(why)
        })?;
        let opened = settings.config.open().map_err(Failure::failed)?;
        if opened.needs_pin() {
            let why = format!(
                "the host {} is new: give the PIN that it shows",
                opened.host
            );
            return Err(Failure::state(why));
        }
        for why in &opened.unusable {
            log.tell(OPENUVR_LOG_LEVEL::OPENUVR_LOG_WARNING, why);
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
            identity: opened.identity,
            name: opened.name,
            hosts: opened.hosts,
            host: opened.host,
            target: opened.target,
            paths: opened.paths,
            pin: opened.pin,
            portal: opened.portal,
            pair_again: opened.pair_again,
            offer: opened.offer,
            decoder: opened.decoder,
            link: opened.link,
            only: opened.only,
            surface,
            input: evdev.map(|evdev| Box::new(evdev) as Box<dyn InputSource>),
            send_input: true,
            head: None,
            eyes: Eyes::default(),
            audio: opened.audio,
            microphone: opened.microphone,
            // The application shares its own, if it has one.
            clipboard: None,
            pads: None,
            overlay: settings.overlay,
            reconnect: settings.reconnect,
            scheduler: settings.config.scheduler(),
        });
        let client = Arc::new(client.map_err(Failure::failed)?);
        let state = Arc::<Mutex<MudState>>::default();
        let teller = tell(&client, &state, &pictures, log)?;
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
            teller: Some(teller),
            taken: settings.config.taken.clone(),
        })
    }
}

impl Settings {
    /// What reads the devices; `None` if the window gives the input.
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

/// Starts the thread that keeps and passes on what the client's threads say.
fn tell(
    client: &Arc<ClientRuntime>,
    state: &Arc<Mutex<MudState>>,
    pictures: &Arc<Pictures>,
    log: &Arc<Log>,
) -> Outcome<Worker> {
    let (client, state, pictures, log) =
        (client.clone(), state.clone(), pictures.clone(), log.clone());
    Worker::start(ThreadRole::Background, "ouvr-notices", move |turn| {
        if let Some(notice) = client.notice(turn) {
            note(&state, &pictures, &log, notice);
        }
    })
}

/// The window's size; not valid: the picture's.
fn window_size(config: &openuvr_mud_config) -> Outcome<Size> {
    let size = Size::new(config.width, config.height);
    if !size.is_valid() && (config.width, config.height) != (0, 0) {
        let why = format!("a window of {size}: its sides are 1 to {}", Size::MAX_SIDE);
        return Err(Failure::argument(why));
    }
    Ok(size)
}

/// What the host is asked for.
fn wishes(config: &openuvr_mud_config) -> Outcome<Wishes> {
    let most = Size::new(config.max_width, config.max_height);
    if !most.is_valid() && (config.max_width, config.max_height) != (0, 0) {
        let why = format!(
            "max_width and max_height are {most}: the sides of a picture are 1 to {}",
            Size::MAX_SIDE
        );
        return Err(Failure::argument(why));
    }
    let rate = Some(Bitrate(config.max_bitrate)).filter(|most| most.0 != 0);
    if rate.is_some_and(|rate| !BITRATES.contains(&rate)) {
        let (least, most) = (BITRATES.start().0, BITRATES.end().0);
        let why = format!(
            "max_bitrate is {}: it is {least} to {most} bits per second, or 0",
            config.max_bitrate
        );
        return Err(Failure::argument(why));
    }
    Ok(Wishes {
        bitrate: rate,
        size: Some(most).filter(|size| size.is_valid()),
        // Where its pictures are shown is the application's affair.
        fps: None,
    })
}

/// What the host is called, in the form that the settings have it.
fn target(host: &str) -> Outcome<Target> {
    host.parse()
        .map_err(|e| Failure::argument(format!("host: {host:?}: {e}")))
}

/// Says goodbye to the host, closes the window, ends the threads, and frees the context; `*context`
/// becomes NULL. Does nothing if it is NULL already, so that a second call through the same variable
/// is harmless; a copy of the pointer must not be used any more. No other call may be under way with
/// this context. After it returns no callback is called. It waits for what its threads are at: a callback
/// that has not returned, the picture that is being decoded; besides a tenth of a second.
///
/// # Safety
/// `context` is NULL or points to NULL or to a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_close_mud(context: *mut *mut openuvr_mud_context) {
    catch_panic((), || {
        // SAFETY: the caller has promised this function the same.
        drop(unsafe { take::<Mud>(context.cast()) });
    });
}

// --- Telling it what to do ------------------------------------------------------------------------

/// Says where the host is, as in `openuvr_mud_config`, and with `pin`, if not NULL, the PIN that it
/// shows: needed for the first meeting. Before the thread is started. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; the texts are NULL or end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_set_host(
    context: *mut openuvr_mud_context,
    host: *const c_char,
    pin: *const c_char,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
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

/// Starts the threads that show what the host streams and send it the person's input (paper, Table
/// I). It returns before the host has answered: `openuvr_mud_statistics` tells the state. From any
/// thread; blocks while the name service is asked.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_init_mud_thread(context: *mut openuvr_mud_context) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe { call(context.cast::<Handle<Mud>>(), Handle::init) }
}

impl Started {
    pub(crate) fn client(&self) -> Outcome<&ClientRuntime> {
        let over = || Failure::new(OPENUVR_ERROR_ENDED, "the stream has ended");
        self.client.as_deref().ok_or_else(over)
    }

    /// The end, if it has come.
    pub(crate) fn end(&self) -> Option<Failure> {
        let end = lock(&self.state).end.clone();
        end.map(|why| Failure::new(OPENUVR_ERROR_ENDED, why))
    }
}

// --- Pictures and input without a window ----------------------------------------------------------

/// With `OPENUVR_SURFACE_APPLICATION`: the newest picture that was not taken yet, BGRX without gaps,
/// waited for at most `timeout_ms` milliseconds, and no longer than the stream goes on. Returns 1 if
/// there was one, 0 if not. Its memory is valid until the next call or the end. `size` of `*picture` is
/// set by the caller. From one thread at a time.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `picture` is NULL or writable for as many bytes
/// as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_next_frame(
    context: *mut openuvr_mud_context,
    picture: *mut openuvr_picture,
    timeout_ms: u32,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            read(picture, openuvr_picture::default(), "the picture")?;
            let started = handle.started()?;
            if !started.pulled {
                let why = "pictures go to a window or to the callback on_frame: set the surface to \
                           OPENUVR_SURFACE_APPLICATION, and no callback";
                return Err(Failure::state(why));
            }
            if let Some(last) = lock(&started.lent).take() {
                started.pictures.give_back(last);
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

/// With `OPENUVR_SURFACE_APPLICATION`: sends what the person did to the host, now. Before a session
/// has begun nobody hears it. From any thread; does not block.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `input` is NULL or readable for as many bytes as
/// its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_input(
    context: *mut openuvr_mud_context,
    input: *const openuvr_input,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
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

/// Sends where the person's head is. It is no event: only the newest counts. More than 2000 a second
/// are not sent. Returns its number, or 0 while there is no session. From any thread; does not block.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `pose` is NULL or readable for as many bytes as
/// its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_pose(
    context: *mut openuvr_mud_context,
    pose: *const openuvr_pose,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            let pose = read(pose, openuvr_pose::default(), "the pose")?;
            let (told, sampled) = pose.told()?;
            let client = handle.started()?.client()?;
            let id = client.set_pose(&told, sampled);
            Ok(id.map_or(0, |id| c_int::try_from(id.0).unwrap_or(c_int::MAX)))
        })
    }
}

/// Registers an input device (paper, Table I): what the event device or mouse (`/dev/input/event3`,
/// `/dev/input/mice`) that is open for reading as `fd` says goes to the host as device `id`, 0 to
/// 255, a number that the host's application knows too (`OPENUVR_DEVICE`). A pipe or socket may give
/// `struct input_event`s as well. The descriptor is duplicated: it stays the caller's, but becomes
/// non-blocking. With a window, register before the thread is started; the window's own keys and
/// mouse, which would say the same again, are then not sent. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_register_input_device(
    context: *mut openuvr_mud_context,
    id: c_int,
    fd: c_int,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
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
                let why = "input comes from the window: register devices before \
                           openuvr_init_mud_thread";
                Failure::state(why)
            })?;
            let added = devices.register(id, fd);
            added.map_err(|e| Failure::argument(e.to_string()))?;
            Ok(DONE)
        })
    }
}

// --- What there is to tell ------------------------------------------------------------------------

/// Writes the message of the last call with this context that failed, or why it is over, as far as
/// `size` bytes go. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `text` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_mud_last_error(
    context: *mut openuvr_mud_context,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            let end = handle.running().and_then(Started::end);
            let message = end.map_or_else(|| handle.message(), |end| end.why.into());
            must_give_text(&message, text, size)
        })
    }
}

/// Fills `*statistics`, whose `size` the caller has set; its `state` is an `OPENUVR_MUD_STATE`. From
/// any thread, once the thread is started.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `statistics` is NULL or writable for as many
/// bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_mud_statistics(
    context: *mut openuvr_mud_context,
    statistics: *mut openuvr_mud_statistics,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            let told = lock(&handle.started()?.state).statistics;
            write(statistics, &told, "the statistics").map(|()| DONE)
        })
    }
}
