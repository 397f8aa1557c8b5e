//! The MUD (mobile user device): shows what a host streams, and sends it a person's input.

use std::ffi::{c_char, c_int};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_media::input_source::InputSource;
use openuvr_media::input_source::evdev::{Evdev, Registrar};
use openuvr_media::present::{self, Presenter, x11::WindowConfig};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::trace::{Fidelity, Outcome as Fate};
use openuvr_proto::units::Size;
use openuvr_runtime::client::config::Config;
use openuvr_runtime::client::{ClientRuntime, ClientSetup, Notice, OpenSurface, Over, Target};
use openuvr_runtime::sched::{Role as ThreadRole, Scheduler};

use crate::border::{border, must_give_text, open, read, text, write};
use crate::config::openuvr_mud_config;
use crate::error::OPENUVR_ERROR::{OPENUVR_ERROR_OVER, OPENUVR_ERROR_PANIC};
use crate::error::{DONE, Failure, Outcome};
use crate::held::{Held, Kind, call, lock, take};
use crate::input::{Devices, device_id, duplicated, event_of, openuvr_input, openuvr_pose};
use crate::log::{Log, OPENUVR_LOG_LEVEL};
use crate::picture::openuvr_picture;
use crate::statistics::openuvr_mud_statistics;
use crate::tap::{OnFrame, Pictures, Shown, Tap};
use crate::words::{self, OPENUVR_SURFACE};

/// How often the thread that passes on what happens looks whether it is over.
const TURN: Duration = Duration::from_millis(50);

/// How far a MUD is.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_MUD_STATE {
    /// It looks for its host.
    OPENUVR_MUD_CONNECTING = 0,
    /// It plays.
    OPENUVR_MUD_PLAYING = 1,
    /// It only watches.
    OPENUVR_MUD_OBSERVING = 2,
    /// It is over: the person closed the window, the host ended it, or it failed; the message says
    /// which.
    OPENUVR_MUD_OVER = 3,
}

use OPENUVR_MUD_STATE::*;

/// A MUD. Made by `openuvr_alloc_mud_context` or `openuvr_open_mud`, ended by `openuvr_close_mud`. A
/// process may have several; they share nothing. Its functions may be called from any thread, but for
/// `openuvr_next_frame` and `openuvr_close_mud`.
pub struct openuvr_mud_context {
    _private: (),
}

/// What a context is behind its head.
pub(crate) struct Mud {
    settings: Mutex<Settings>,
    started: OnceLock<Started>,
}

impl Kind for Mud {
    const MARK: u64 = u64::from_le_bytes(*b"ouvr_mud");
    const NAME: &'static str = "the MUD";
}

struct Settings {
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

struct Started {
    pictures: Arc<Pictures>,
    /// What the application looks at.
    lent: Mutex<Option<Shown>>,
    /// Whether the application shows the pictures, and how it gets them.
    surface: OPENUVR_SURFACE,
    pulled: bool,
    client: Option<Arc<ClientRuntime>>,
    devices: Option<Registrar>,
    told: Arc<Mutex<Told>>,
    log: Arc<Log>,
    over: Arc<AtomicBool>,
    teller: Option<JoinHandle<()>>,
}

impl Drop for Started {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.teller.take() {
            let _ = thread.join();
        }
        // The thread is gone, so this is the last.
        let client = self.client.take().and_then(Arc::into_inner);
        for notice in client.map(ClientRuntime::stop).unwrap_or_default() {
            tell(&self.told, &self.pictures, &self.log, notice);
        }
    }
}

/// What was heard from the client's threads.
struct Told {
    statistics: openuvr_mud_statistics,
    end: Option<String>,
}

// --- Making and ending one ------------------------------------------------------------------------

/// Makes a MUD (paper, Table I): `decoder` of `OPENUVR_ENCODER_TYPE`, `network` of
/// `OPENUVR_NETWORK_TYPE`. Say with `openuvr_set_host` where its host is.
///
/// NULL if this machine can't serve it; `openuvr_mud_serves` says why and what would work. Nothing is
/// started yet. From any thread.
#[unsafe(no_mangle)]
pub extern "C" fn openuvr_alloc_mud_context(
    decoder: u32,
    network: u32,
) -> *mut openuvr_mud_context {
    border(std::ptr::null_mut(), || {
        let config = openuvr_mud_config {
            decoder,
            network,
            ..openuvr_mud_config::default()
        };
        // SAFETY: the default has no texts.
        let context = words::mud_serves(decoder, network).and_then(|()| unsafe { make(&config) });
        context.map_or(std::ptr::null_mut(), |context| {
            Box::into_raw(context).cast()
        })
    })
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
    border(OPENUVR_ERROR_PANIC as c_int, || {
        let made = || {
            // SAFETY: as ours.
            let config =
                unsafe { read(config, openuvr_mud_config::default(), "the configuration")? };
            // SAFETY: its texts are the caller's. What is wrong with the words is cheaper to find.
            let made = unsafe { make(&config)? };
            words::mud_serves(config.decoder, config.network)?;
            Ok(made)
        };
        // SAFETY: as ours.
        unsafe { open(context, why, why_size, made) }
    })
}

/// # Safety
/// The texts of `config` are NULL or end with a zero byte.
unsafe fn make(config: &openuvr_mud_config) -> Outcome<Box<Held<Mud>>> {
    let word = words::encoder(config.decoder)?;
    let only = words::network(config.network)?;
    // SAFETY: as ours.
    let (host, pin, dir, name, display) = unsafe {
        (
            text(config.host, "host")?,
            text(config.pin, "pin")?,
            text(config.config_dir, "config_dir")?,
            text(config.name, "name")?,
            text(config.display, "display")?,
        )
    };
    let surface = |surface: OPENUVR_SURFACE| config.surface == surface as u32;
    let surface = if surface(OPENUVR_SURFACE::OPENUVR_SURFACE_WINDOW) {
        OPENUVR_SURFACE::OPENUVR_SURFACE_WINDOW
    } else if surface(OPENUVR_SURFACE::OPENUVR_SURFACE_APPLICATION) {
        OPENUVR_SURFACE::OPENUVR_SURFACE_APPLICATION
    } else {
        let why = format!("{} is none of OPENUVR_SURFACE", config.surface);
        return Err(Failure::argument(why));
    };
    let size = Size::new(config.width, config.height);
    if !size.is_valid() && (config.width, config.height) != (0, 0) {
        let why = format!("a window of {size}: its sides are 1 to {}", Size::MAX_SIDE);
        return Err(Failure::argument(why));
    }
    let nowhere = Target {
        host: String::new(),
        port: 0,
    };
    let settings = Settings {
        config: Config {
            pin,
            link: only,
            config_dir: dir.map(PathBuf::from),
            name: name.unwrap_or_default(),
            observe: config.observe != 0,
            take_over: config.take_over != 0,
            decoder: word.decoder.map(str::to_owned),
            realtime: config.realtime != 0,
            ..Config::new(nowhere)
        },
        host: host.as_deref().map(target).transpose()?,
        reconnect: config.reconnect != 0,
        surface,
        window: WindowConfig {
            display,
            size,
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
    };
    let log = Arc::new(Log::new(config.log, config.user));
    Ok(Held::new(
        log,
        Mud {
            settings: Mutex::new(settings),
            started: OnceLock::new(),
        },
    ))
}

fn target(host: &str) -> Outcome<Target> {
    host.parse()
        .map_err(|e| Failure::argument(format!("host: {host:?}: {e}")))
}

/// Says goodbye to the host, closes the window, ends the threads, and frees the context; `*context`
/// becomes NULL. Does nothing if it is NULL already, so that a second call through the same variable
/// is harmless; a copy of the pointer must not be used any more. No other call may be under way with
/// this context. After it returns no callback is called. Waits two tenths of a second at most.
///
/// # Safety
/// `context` is NULL or points to NULL or to a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_close_mud(context: *mut *mut openuvr_mud_context) {
    border((), || {
        // SAFETY: as ours.
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
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Mud>>(), |held| {
            let host = text(host, "host")?.ok_or_else(|| Failure::null("the host's name"))?;
            let pin = text(pin, "pin")?;
            if held.inner.started.get().is_some() {
                return Err(Failure::state("the thread is started already"));
            }
            let mut settings = lock(&held.inner.settings);
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
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Mud>>(), |held| {
            let mud = &held.inner;
            // Two threads that start it take turns.
            let mut settings = lock(&mud.settings);
            if mud.started.get().is_some() {
                return Err(Failure::state("the thread is started already"));
            }
            let started = start(&mut settings, &held.log)?;
            let _ = mud.started.set(started);
            Ok(DONE)
        })
    }
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
    let evdev = match settings.surface {
        OPENUVR_SURFACE::OPENUVR_SURFACE_WINDOW if settings.devices.is_empty() => None,
        _ => Some(Evdev::new().map_err(|e| Failure::failed(e.to_string()))?),
    };
    let devices = evdev.as_ref().map(Evdev::registrar);
    if let Some(devices) = &devices {
        for (id, fd) in settings.devices.copies()? {
            let added = devices.register(id, fd);
            added.map_err(|e| Failure::failed(e.to_string()))?;
        }
    }
    let surface = match settings.surface {
        OPENUVR_SURFACE::OPENUVR_SURFACE_WINDOW => window(&settings.window)?,
        OPENUVR_SURFACE::OPENUVR_SURFACE_APPLICATION => {
            let mut tap = Some(Tap {
                pictures: pictures.clone(),
                on_frame: settings.on_frame,
            });
            Box::new(move |_: Size, _: &str, _: Role| {
                let tap = tap.take();
                let tap = tap.ok_or_else(|| present::PresentError("opened twice".to_owned()))?;
                Ok((Box::new(tap) as Box<dyn Presenter>, None))
            })
        }
    };
    let client = ClientRuntime::start(ClientSetup {
        identity: opened.identity,
        name: opened.name,
        hosts: opened.hosts,
        host: opened.host,
        paths: opened.paths,
        pin: opened.pin,
        offer: opened.offer,
        decoder: opened.decoder,
        link: opened.link,
        only: opened.only,
        surface,
        input: evdev.map(|evdev| Box::new(evdev) as Box<dyn InputSource>),
        send_input: true,
        overlay: settings.overlay,
        reconnect: settings.reconnect,
        scheduler: settings.config.scheduler(),
    });
    let client = Arc::new(client.map_err(Failure::failed)?);
    let told = Arc::new(Mutex::new(Told {
        statistics: openuvr_mud_statistics::default(),
        end: None,
    }));
    let over = Arc::new(AtomicBool::new(false));
    let (source, own, end, to) = (client.clone(), told.clone(), over.clone(), log.clone());
    let shown = pictures.clone();
    let teller = Scheduler::ordinary().spawn(ThreadRole::Background, "ouvr-notices", move || {
        while !end.load(Ordering::Relaxed) {
            if let Some(notice) = source.notice(TURN) {
                tell(&own, &shown, &to, notice);
            }
        }
    });
    let teller = teller.map_err(|e| Failure::failed(format!("can't start a thread: {e}")))?;
    settings.devices.clear();
    Ok(Started {
        pictures,
        lent: Mutex::default(),
        surface: settings.surface,
        pulled,
        client: Some(client),
        devices,
        told,
        log: log.clone(),
        over,
        teller: Some(teller),
    })
}

/// A window, opened when the first picture tells its size; a display that is not there is told at
/// once.
fn window(config: &WindowConfig) -> Outcome<OpenSurface> {
    let display = match &config.display {
        Some(display) => display.clone(),
        None => std::env::var("DISPLAY").map_err(|_| {
            Failure::failed("no X display is known: set DISPLAY, or display in the configuration")
        })?,
    };
    openuvr_media::display::connect(&display).map_err(Failure::failed)?;
    let config = config.clone();
    Ok(Box::new(move |picture: Size, host: &str, role: Role| {
        let size = match config.size.is_valid() {
            true => config.size,
            false => picture,
        };
        let window = WindowConfig {
            display: Some(display.clone()),
            title: format!("OpenUVR – {host}"),
            size,
            observer: role == Role::Observer,
            ..config.clone()
        };
        present::open("x11", &window)
    }))
}

/// Keeps and passes on what happened.
fn tell(told: &Mutex<Told>, pictures: &Pictures, log: &Log, notice: Notice) {
    use OPENUVR_LOG_LEVEL::*;
    let mut told = lock(told);
    let statistics = &mut told.statistics;
    let (level, line) = match notice {
        Notice::Connected {
            paired,
            fingerprint,
        } => {
            let how = if paired {
                "paired with"
            } else {
                "connected to"
            };
            (OPENUVR_LOG_INFO, format!("{how} the host {fingerprint}"))
        }
        Notice::Granted { role, host } => {
            statistics.state = match role {
                Role::Player => OPENUVR_MUD_PLAYING,
                Role::Observer => OPENUVR_MUD_OBSERVING,
            } as u32;
            (OPENUVR_LOG_INFO, format!("{} at {host}", role.name()))
        }
        Notice::Link(rung) => (
            OPENUVR_LOG_INFO,
            format!("the video comes by {}", rung.name()),
        ),
        Notice::Showing(size) => {
            (statistics.width, statistics.height) = (size.width, size.height);
            (OPENUVR_LOG_INFO, format!("showing {size}"))
        }
        Notice::Report(report) => {
            statistics.frames += 1;
            match report.outcome {
                Fate::Displayed(Fidelity::Whole) => statistics.whole += 1,
                Fate::Displayed(_) => statistics.damaged += 1,
                Fate::Dropped { .. } => statistics.dropped += 1,
            }
            return;
        }
        Notice::Lost(_) => {
            statistics.state = OPENUVR_MUD_CONNECTING as u32;
            let line = "the host is silent or gone; looking for it again";
            (OPENUVR_LOG_WARNING, line.to_owned())
        }
        Notice::Trouble(why) => (OPENUVR_LOG_WARNING, why),
        Notice::Over(over) => {
            statistics.state = OPENUVR_MUD_OVER as u32;
            let (level, line) = match over {
                Over::Quit => (OPENUVR_LOG_INFO, "the person closed the window".to_owned()),
                Over::Host(reason) => (OPENUVR_LOG_INFO, format!("the host ended it: {reason:?}")),
                Over::Handshake(e) => (OPENUVR_LOG_ERROR, e.to_string()),
                Over::Refused(why) => (OPENUVR_LOG_ERROR, why.to_string()),
                Over::Failed(why) => (OPENUVR_LOG_ERROR, why),
            };
            told.end = Some(line.clone());
            pictures.end();
            (level, line)
        }
    };
    // The callback may take its time.
    drop(told);
    log.tell(level, &line);
}

impl Mud {
    fn started(&self) -> Outcome<&Started> {
        let started = self.started.get();
        started.ok_or_else(|| Failure::state("not started yet: call openuvr_init_mud_thread first"))
    }
}

impl Started {
    fn client(&self) -> Outcome<&ClientRuntime> {
        let over = || Failure::new(OPENUVR_ERROR_OVER, "the stream has ended");
        self.client.as_deref().ok_or_else(over)
    }

    /// The end, if it has come.
    fn end(&self) -> Option<Failure> {
        let end = lock(&self.told).end.clone();
        end.map(|why| Failure::new(OPENUVR_ERROR_OVER, why))
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
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Mud>>(), |held| {
            read(picture, openuvr_picture::default(), "the picture")?;
            let started = held.inner.started()?;
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
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Mud>>(), |held| {
            let input = read(input, openuvr_input::default(), "the input")?;
            let event = event_of(&input)?;
            let started = held.inner.started()?;
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
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Mud>>(), |held| {
            let pose = read(pose, openuvr_pose::default(), "the pose")?;
            let (told, sampled) = pose.told()?;
            let client = held.inner.started()?.client()?;
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
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Mud>>(), |held| {
            let id = device_id(id)?;
            let (fd, tried) = (duplicated(fd)?, duplicated(fd)?);
            let can = Evdev::new().and_then(|evdev| evdev.registrar().register(id, tried));
            can.map_err(|e| Failure::argument(e.to_string()))?;
            let mut settings = lock(&held.inner.settings);
            let Some(started) = held.inner.started.get() else {
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
pub unsafe extern "C" fn openuvr_mud_message(
    context: *mut openuvr_mud_context,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Mud>>(), |held| {
            let end = held.inner.started.get().and_then(Started::end);
            let message = end.map_or_else(|| held.message(), |end| end.why);
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
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Mud>>(), |held| {
            let told = lock(&held.inner.started()?.told).statistics;
            write(statistics, &told, "the statistics").map(|()| DONE)
        })
    }
}
