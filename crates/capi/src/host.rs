//! The host: an application whose pictures are streamed and that gets a person's input.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use openuvr_media::capture::submit::Ticket;
use openuvr_media::input_sink::device::Descriptor;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::id::DeviceId;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_runtime::guest::{Guest, InputTo};
use openuvr_runtime::host::Notice;
use openuvr_runtime::host::config::Config;
use openuvr_runtime::sched::{Role, Scheduler};

use crate::border::{border, must_give_text, open, read, text, write};
use crate::config::openuvr_config;
use crate::error::OPENUVR_ERROR::{OPENUVR_ERROR_OVER, OPENUVR_ERROR_PANIC, OPENUVR_ERROR_TIMEOUT};
use crate::error::{DONE, Failure, Outcome};
use crate::gl::{Given, PixelBuffer};
use crate::held::{Held, Kind, call, lock, take};
use crate::input::{Devices, device_id, duplicated, openuvr_input, openuvr_pose};
use crate::log::{Log, OPENUVR_LOG_LEVEL};
use crate::picture::{Layout, Spare, check, give_back, openuvr_picture, taken};
use crate::statistics::openuvr_statistics;
use crate::words::{self, BufferName, OPENUVR_FEATURE, OPENUVR_INPUT_TO};

/// How long a synchronous call waits for a picture to be encoded and sent: a frame takes
/// milliseconds, so that something is wrong long before (guess).
const WAIT: Duration = Duration::from_secs(1);

/// How often the thread of the input callback looks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A host. Made by `openuvr_alloc_context` or `openuvr_open`, ended by `openuvr_close`. A process may
/// have several; they share nothing. Its functions may be called from any thread, but for those that
/// read a pixel buffer, and for `openuvr_close`.
pub struct openuvr_context {
    _private: (),
}

/// What a context is behind its head.
pub(crate) struct Host {
    settings: Mutex<Settings>,
    started: OnceLock<Started>,
    spare: Spare,
    /// Locked before the settings.
    pixels: Mutex<Option<PixelBuffer>>,
}

impl Drop for Host {
    fn drop(&mut self) {
        // First the host's threads, which may look at a picture in the pixel buffers.
        self.started.take();
        if let Some(pixels) = lock(&self.pixels).take() {
            pixels.end();
        }
    }
}

impl Kind for Host {
    const MARK: u64 = u64::from_le_bytes(*b"ouvrhost");
    const NAME: &'static str = "the host";
}

/// What is told before the start.
struct Settings {
    config: Config,
    size: Size,
    format: u32,
    stride: usize,
    input: InputTo,
    viewport: Viewport,
    on_input: Option<OnInput>,
    buffer: Option<BufferName>,
    devices: Devices,
}

/// Where the picture's left and upper edge lie on the display, and its size there; `None`: its own.
type Viewport = (i32, i32, Option<Size>);

pub(crate) struct Started {
    guest: Arc<Guest>,
    listener: Option<Listener>,
    /// Why it ended, if it did.
    end: Arc<OnceLock<String>>,
}

/// The thread that gives input to the application's callback.
struct Listener {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Clone, Copy)]
struct OnInput {
    call: unsafe extern "C" fn(*mut c_void, *const openuvr_input),
    user: *mut c_void,
}

// SAFETY: the header says that it is called on a thread of the library.
unsafe impl Send for OnInput {}

impl OnInput {
    fn tell(&self, input: &openuvr_input) {
        // SAFETY: the application's promise; the event outlives the call.
        unsafe { (self.call)(self.user, input) }
    }
}

// --- Making and ending one ------------------------------------------------------------------------

/// Makes a host (paper, Table I): `encoder` of `OPENUVR_ENCODER_TYPE`, `network` of
/// `OPENUVR_NETWORK_TYPE`, and `ptr`, a `GLuint` that names an OpenGL pixel buffer object, or NULL:
/// pictures then come by `openuvr_send_picture`. What is at `ptr` is read whenever a picture is
/// given: it must stay where it is.
///
/// NULL if this machine can't serve it; `openuvr_serves` says why and what would work. Nothing is
/// started yet. Takes some tens of milliseconds. From any thread.
///
/// # Safety
/// `ptr` is NULL or points to a `GLuint` until the context is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_alloc_context(
    encoder: u32,
    network: u32,
    ptr: *mut c_void,
) -> *mut openuvr_context {
    border(std::ptr::null_mut(), || {
        let config = openuvr_config {
            encoder,
            network,
            pixel_buffer: ptr,
            ..openuvr_config::default()
        };
        // SAFETY: the default has no texts.
        let context = words::serves(encoder, network).and_then(|()| unsafe { make(&config) });
        context.map_or(std::ptr::null_mut(), |context| {
            Box::into_raw(context).cast()
        })
    })
}

/// Makes a host of a configuration and puts it into `*context`, NULL there if that fails; then
/// `why`, if not NULL, holds the reason as far as `why_size` bytes go. Nothing is started yet. From
/// any thread.
///
/// # Safety
/// Each pointer is NULL or valid for what the function does with it; texts end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_open(
    config: *const openuvr_config,
    context: *mut *mut openuvr_context,
    why: *mut c_char,
    why_size: usize,
) -> c_int {
    border(OPENUVR_ERROR_PANIC as c_int, || {
        let made = || {
            // SAFETY: as ours.
            let config = unsafe { read(config, openuvr_config::default(), "the configuration")? };
            // SAFETY: its texts are the caller's. What is wrong with the words is cheaper to find.
            let made = unsafe { make(&config)? };
            words::serves(config.encoder, config.network)?;
            Ok(made)
        };
        // SAFETY: as ours.
        unsafe { open(context, why, why_size, made) }
    })
}

/// # Safety
/// The texts of `config` are NULL or end with a zero byte.
unsafe fn make(config: &openuvr_config) -> Outcome<Box<Held<Host>>> {
    let word = words::encoder(config.encoder)?;
    let only = words::network(config.network)?;
    // SAFETY: as ours.
    let (name, bind, dir, pin, display, csv) = unsafe {
        (
            text(config.name, "name")?,
            text(config.bind, "bind")?,
            text(config.config_dir, "config_dir")?,
            text(config.pin, "pin")?,
            text(config.display, "display")?,
            text(config.csv, "csv")?,
        )
    };
    let usual = Config::default();
    let bind = match bind {
        None => usual.bind,
        Some(bind) => bind.parse().map_err(|_| {
            Failure::argument(format!(
                "bind: {bind:?} is no ADDRESS:PORT such as [::]:4710"
            ))
        })?,
    };
    let second = ["refuse", "observe", "take-over"];
    let second = usize::try_from(config.second_player)
        .ok()
        .and_then(|n| second.get(n));
    let told = Config {
        name: name.unwrap_or_default(),
        bind,
        link: only.map(|rung| rung.name().to_owned()),
        config_dir: dir.map(PathBuf::from),
        pin,
        pair: config.pair != 0,
        pair_for: config.pair_seconds,
        second_player: (*second.ok_or_else(|| Failure::argument("second_player is 0, 1 or 2"))?)
            .to_owned(),
        max_observers: narrow("max_observers", config.max_observers)?,
        encoder: word.encoder.to_owned(),
        slices: narrow("slices", config.slices)?,
        encoder_threads: match config.encoder_threads {
            0 => None,
            threads => Some(narrow("encoder_threads", threads)?),
        },
        fps: config.fps,
        bitrate: Some(config.bitrate).filter(|rate| *rate != 0),
        realtime: config.realtime != 0,
        csv: csv.map(PathBuf::from),
        ..usual
    };
    told.rendition().map_err(Failure::argument)?;
    let to = |to: OPENUVR_INPUT_TO| config.input == to as u32;
    let input = if to(OPENUVR_INPUT_TO::OPENUVR_INPUT_TO_APPLICATION) {
        InputTo::Application
    } else if to(OPENUVR_INPUT_TO::OPENUVR_INPUT_TO_DISPLAY) {
        InputTo::Display(display.unwrap_or_default())
    } else if to(OPENUVR_INPUT_TO::OPENUVR_INPUT_TO_NOTHING) {
        InputTo::Nothing
    } else {
        let why = format!("{} is none of OPENUVR_INPUT_TO", config.input);
        return Err(Failure::argument(why));
    };
    let settings = Settings {
        config: told,
        size: Size::new(config.width, config.height),
        format: config.format,
        stride: config.stride as usize,
        input,
        viewport: (0, 0, None),
        on_input: config.on_input.map(|call| OnInput {
            call,
            user: config.user,
        }),
        buffer: Some(BufferName(config.pixel_buffer)).filter(|name| !name.0.is_null()),
        devices: Devices::default(),
    };
    settings.layout()?;
    let log = Arc::new(Log::new(config.log, config.user));
    Ok(Held::new(
        log,
        Host {
            settings: Mutex::new(settings),
            started: OnceLock::new(),
            spare: Spare::default(),
            pixels: Mutex::default(),
        },
    ))
}

fn narrow<T: TryFrom<u32>>(what: &str, value: u32) -> Outcome<T> {
    T::try_from(value).map_err(|_| Failure::argument(format!("{what}: {value} is out of range")))
}

impl Settings {
    /// How the pixel buffer is to be read.
    fn layout(&self) -> Outcome<Layout> {
        // OpenGL's rows begin at multiples of 4 bytes unless told otherwise, the lowest first.
        Layout::new(self.size, self.format, self.stride, 4, true)
    }
}

/// Says goodbye to the MUDs, ends the threads, and frees the context; `*context` becomes NULL. Does
/// nothing if it is NULL already, so that a second call through the same variable is harmless; a copy
/// of the pointer must not be used any more. No other call may be under way with this context. After
/// it returns no callback is called. Waits two tenths of a second at most. From any thread; a pixel buffer's OpenGL
/// context must still be there, unless `openuvr_release_buffer` was called.
///
/// # Safety
/// `context` is NULL or points to NULL or to a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_close(context: *mut *mut openuvr_context) {
    border((), || {
        // SAFETY: as ours.
        drop(unsafe { take::<Host>(context.cast()) });
    });
}

// --- Telling it what to do ------------------------------------------------------------------------

/// Sets a feature (paper, Table I) of `OPENUVR_FEATURE`, before the thread is started; the bitrate
/// also later. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_set_feature(
    context: *mut openuvr_context,
    feature: u32,
    value: c_int,
) -> c_int {
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            let feature = words::feature(feature)?;
            let host = &held.inner;
            if let Some(started) = host.started.get() {
                return started.set_feature(feature, value);
            }
            lock(&host.settings).set(feature, value)
        })
    }
}

impl Settings {
    fn set(&mut self, feature: OPENUVR_FEATURE, value: c_int) -> Outcome {
        use OPENUVR_FEATURE::*;
        let wrong =
            |range: &str| Failure::argument(format!("{feature:?}: {value} is not within {range}"));
        let whole = u32::try_from(value).map_err(|_| wrong("numbers from 0 on"))?;
        let flag = || match whole {
            0 | 1 => Ok(whole == 1),
            _ => Err(wrong("0 and 1")),
        };
        let part = || {
            let part = u8::try_from(whole).ok().filter(|n| (1..=64).contains(n));
            part.ok_or_else(|| wrong("1 to 64"))
        };
        let side = || match whole {
            1..=Size::MAX_SIDE => Ok(whole),
            _ => Err(wrong("1 to 16384")),
        };
        let config = &mut self.config;
        match feature {
            OPENUVR_FEATURE_TARGET_FPS if (1..=240).contains(&whole) => config.fps = whole.into(),
            OPENUVR_FEATURE_TARGET_FPS => return Err(wrong("1 to 240")),
            OPENUVR_FEATURE_BITRATE => config.bitrate = Some(bitrate(value)?.0),
            OPENUVR_FEATURE_WIDTH => self.size.width = side()?,
            OPENUVR_FEATURE_HEIGHT => self.size.height = side()?,
            OPENUVR_FEATURE_FORMAT => {
                crate::picture::format_of(whole)?;
                self.format = whole;
            }
            OPENUVR_FEATURE_PORT => {
                let port = u16::try_from(whole).map_err(|_| wrong("0 to 65535"))?;
                config.bind.set_port(port);
            }
            OPENUVR_FEATURE_SLICES => config.slices = part()?,
            OPENUVR_FEATURE_ENCODER_THREADS => config.encoder_threads = Some(part()?),
            OPENUVR_FEATURE_PAIRING => config.pair = flag()?,
            OPENUVR_FEATURE_REALTIME => config.realtime = flag()?,
            OPENUVR_FEATURE_STRIDE => self.stride = whole as usize,
            OPENUVR_FEATURE_ENCODER => {
                words::serves(
                    whole,
                    words::OPENUVR_NETWORK_TYPE::OPENUVR_NETWORK_ANY as u32,
                )?;
                config.encoder = words::encoder(whole)?.encoder.to_owned();
            }
        }
        Ok(DONE)
    }
}

impl Started {
    fn set_feature(&self, feature: OPENUVR_FEATURE, value: c_int) -> Outcome {
        if feature == OPENUVR_FEATURE::OPENUVR_FEATURE_BITRATE {
            self.guest.set_bitrate(bitrate(value)?);
            return Ok(DONE);
        }
        Err(Failure::state(format!(
            "{feature:?} can't be set any more: set it before openuvr_init_thread"
        )))
    }
}

fn bitrate(kilobits: c_int) -> Outcome<Bitrate> {
    let rate = u64::try_from(kilobits)
        .ok()
        .filter(|k| (100..=1_000_000).contains(k));
    let rate = rate.ok_or_else(|| {
        Failure::argument(format!(
            "a bitrate of {kilobits} kbit/s: 100 to 1000000 are possible"
        ))
    });
    rate.map(|kilobits| Bitrate(kilobits * 1000))
}

/// Starts the threads that encode what the application gives, send it and receive the person's input
/// (paper, Table I). Pictures are not read without being told: see `openuvr_frame_ready` and
/// `openuvr_send_frame`. From any thread; blocks for some tens of milliseconds.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_init_thread(context: *mut openuvr_context) -> c_int {
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            let host = &held.inner;
            // Two threads that start it take turns.
            let mut settings = lock(&host.settings);
            if host.started.get().is_some() {
                return Err(Failure::state("the thread is started already"));
            }
            let started = start(&mut settings, &held.log)?;
            let _ = host.started.set(started);
            Ok(DONE)
        })
    }
}

fn start(settings: &mut Settings, log: &Arc<Log>) -> Outcome<Started> {
    settings.layout()?;
    let end = Arc::<OnceLock<String>>::default();
    let (own, why) = (log.clone(), end.clone());
    let tell = move |notice: Notice| {
        if let Some((level, line)) = line(&notice) {
            own.tell(level, &line);
            if let Notice::SourceEnded(_) | Notice::Failed(_) = notice {
                let _ = why.set(line);
            }
        }
    };
    let guest = Guest::start(
        &settings.config,
        settings.input.clone(),
        settings.size,
        tell,
    );
    let guest = Arc::new(guest.map_err(Failure::failed)?);
    let (x, y, size) = settings.viewport;
    guest.set_viewport(x, y, size);
    for (id, fd) in settings.devices.copies()? {
        map_device(&guest, id, Some(fd))?;
    }
    let info = OPENUVR_LOG_LEVEL::OPENUVR_LOG_INFO;
    log.tell(info, &format!("MUDs reach this host by {}", guest.place()));
    if let Some(pin) = guest.pin() {
        let seconds = settings.config.pair_for;
        log.tell(
            info,
            &format!("a new device may pair within {seconds} s with the PIN {pin}"),
        );
    }
    let listener = match settings.on_input {
        Some(on_input) => Some(listen(guest.clone(), on_input)?),
        None => None,
    };
    settings.devices.clear();
    Ok(Started {
        guest,
        listener,
        end,
    })
}

fn listen(guest: Arc<Guest>, on_input: OnInput) -> Outcome<Listener> {
    let over = Arc::new(AtomicBool::new(false));
    let end = over.clone();
    let thread = Scheduler::ordinary().spawn(Role::Input, "ouvr-input", move || {
        while !end.load(Ordering::Relaxed) {
            if let Some(input) = guest.wait_for_input(LOOK_EVERY) {
                on_input.tell(&input.into());
            }
        }
    });
    let thread = thread.map_err(|e| Failure::failed(format!("can't start a thread: {e}")))?;
    Ok(Listener {
        over,
        thread: Some(thread),
    })
}

/// What the application is told of a notice.
fn line(notice: &Notice) -> Option<(OPENUVR_LOG_LEVEL, String)> {
    use OPENUVR_LOG_LEVEL::*;
    Some(match notice {
        Notice::Paired { name, fingerprint } => (
            OPENUVR_LOG_INFO,
            format!("paired with {name} ({fingerprint})"),
        ),
        Notice::Subscribed {
            role,
            name,
            software,
            ..
        } => (
            OPENUVR_LOG_INFO,
            format!("{name} joins as {} ({software})", role.name()),
        ),
        Notice::RoleChanged(_, role) => {
            (OPENUVR_LOG_INFO, format!("a client is {} now", role.name()))
        }
        Notice::Link(_, rung) => (
            OPENUVR_LOG_INFO,
            format!("a client's video goes by {} now", rung.name()),
        ),
        Notice::Ended(_, ending) => (OPENUVR_LOG_INFO, format!("a client is gone: {ending:?}")),
        Notice::Resized(size) => (OPENUVR_LOG_INFO, format!("the picture is {size} now")),
        Notice::Decision(decision) => (OPENUVR_LOG_DEBUG, decision.to_string()),
        Notice::SourceEnded(why) => (OPENUVR_LOG_ERROR, (*why).to_owned()),
        Notice::Failed(why) => (OPENUVR_LOG_ERROR, why.clone()),
        Notice::Trouble(why) => (OPENUVR_LOG_WARNING, why.clone()),
        Notice::Record(_) | Notice::Hidden => return None,
    })
}

// --- Pictures -------------------------------------------------------------------------------------

/// The application begins to draw a picture. Whatever input it has taken until now is in that
/// picture: what is measured from a person's act to the picture is exact then. Without this call it
/// is what was taken when the picture is given. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_begin_frame(context: *mut openuvr_context) -> c_int {
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            held.inner.started()?.guest.begin_frame();
            Ok(DONE)
        })
    }
}

/// Gives a picture in plain memory or a dma-buf. With `wait` 0 it returns when the picture is copied
/// (or lent, see `release`), and the newest picture wins; with 1 it returns when the picture is
/// encoded and sent (paper, V-E), or a second later with `OPENUVR_ERROR_TIMEOUT`: it is with the host
/// then, which may still send it. A picture that nobody wants now, because no
/// MUD watches or pictures come faster than the target rate, is not copied: that is no error. Returns
/// 1 if the picture was taken, 0 if it was not wanted, `OPENUVR_ERROR_OVER` if none will be any more
/// because the stream has ended. The size may change from picture to picture. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `picture` is NULL or what it says of its
/// memory is true.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_picture(
    context: *mut openuvr_context,
    picture: *const openuvr_picture,
    wait: c_int,
) -> c_int {
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            let picture = read(picture, openuvr_picture::default(), "the picture")?;
            let host = &held.inner;
            let started = host.started()?;
            let wanted = started.wants();
            if !matches!(wanted, Ok(true)) {
                // Checked all the same: a mistake must not wait for somebody to watch.
                check(&picture)?;
                give_back(&picture);
                return wanted.map(|_| 0);
            }
            let ticket = started.guest.submit(taken(&picture, &host.spare)?);
            started.given(ticket, until(wait != 0))
        })
    }
}

impl Host {
    pub(crate) fn started(&self) -> Outcome<&Started> {
        let started = self.started.get();
        started.ok_or_else(|| Failure::state("not started yet: call openuvr_init_thread first"))
    }
}

impl Started {
    /// Whether a picture is wanted now.
    fn wants(&self) -> Outcome<bool> {
        match self.guest.is_over() {
            true => Err(self.over()),
            false => Ok(self.guest.wants()),
        }
    }

    /// The stream has ended.
    fn over(&self) -> Failure {
        let why = self
            .end
            .get()
            .map_or("the stream has ended", String::as_str);
        Failure::new(OPENUVR_ERROR_OVER, why)
    }

    /// A picture was handed over, if there is a ticket; waits for it, if there is an end of waiting.
    fn given(&self, ticket: Option<Ticket>, until: Option<Instant>) -> Outcome {
        let ticket = ticket.ok_or_else(|| self.over())?;
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match left.is_none_or(|left| self.guest.wait(ticket, left)) {
            true => Ok(1),
            false => Err(self.late("the picture was not encoded and sent within a second")),
        }
    }

    /// What was waited for did not happen.
    fn late(&self, why: &str) -> Failure {
        match self.guest.is_over() {
            true => self.over(),
            false => Failure::new(OPENUVR_ERROR_TIMEOUT, why),
        }
    }
}

/// The pixel buffer holds a whole picture (continuous mode, the paper's usual one): it is copied
/// behind the OpenGL commands that fill it, and encoded and sent while the application goes on, which
/// may fill the buffer again at once. The newest picture wins. Returns 1 if the picture was taken, 0
/// if not: no MUD watches, pictures come faster than the target rate, or the GPU is behind;
/// `OPENUVR_ERROR_OVER` when the stream has ended. On the thread where the OpenGL context of the pixel
/// buffer is current, outside of `glBegin` and `glEnd`; changes none of its state.
///
/// # Safety
/// `context` is NULL or a context that is not closed, whose pixel buffer's name lies where it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_frame_ready(context: *mut openuvr_context) -> c_int {
    // SAFETY: as ours.
    unsafe { call(context.cast::<Held<Host>>(), |held| held.give_buffer(false)) }
}

/// The same, and returns when the picture is encoded and sent (synchronous mode, paper V-E), at most
/// a second later: the application is in step with the stream. Returns 1 if the picture was sent, 0 if
/// nobody wants one now. On the thread where the OpenGL context of the pixel buffer is current.
///
/// # Safety
/// `context` is NULL or a context that is not closed, whose pixel buffer's name lies where it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_frame(context: *mut openuvr_context) -> c_int {
    // SAFETY: as ours.
    unsafe { call(context.cast::<Held<Host>>(), |held| held.give_buffer(true)) }
}

/// Lets go of the OpenGL context of the pixel buffer: to be called, or `openuvr_close`, before that
/// context is destroyed or its display closed, for the stream holds pictures in its memory. They are
/// copied out of it, and no thread of the library uses it any more when this returns (the length of
/// an encode). The stream goes on: the next picture may come from another context. Does nothing if no
/// pixel buffer is in use. On the thread where the context is current; elsewhere, what was allocated
/// in it is freed with it.
///
/// # Safety
/// `context` is NULL or a context that is not closed; the OpenGL context is not destroyed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_release_buffer(context: *mut openuvr_context) -> c_int {
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            if let Some(pixels) = lock(&held.inner.pixels).take() {
                pixels.end();
            }
            Ok(DONE)
        })
    }
}

/// When a call that waits from now on gives up; `None` for one that does not.
fn until(wait: bool) -> Option<Instant> {
    wait.then(|| Instant::now() + WAIT)
}

impl Held<Host> {
    fn give_buffer(&self, wait: bool) -> Outcome {
        let host = &self.inner;
        let started = host.started()?;
        let mut pixels = lock(&host.pixels);
        let (name, layout) = {
            let settings = lock(&host.settings);
            let name = settings.buffer.ok_or_else(|| {
                let why = "this context has no pixel buffer: give pictures by openuvr_send_picture";
                Failure::state(why)
            })?;
            (name, settings.layout()?)
        };
        if !started.wants()? {
            return Ok(0);
        }
        // One for the GPU and the host.
        let until = until(wait);
        match PixelBuffer::read(&mut pixels, &started.guest, name, &layout, until)? {
            Given::Taken(ticket) => started.given(ticket, until),
            Given::UnderWay if wait => {
                Err(started.late("the GPU has not finished the picture within a second"))
            }
            Given::UnderWay => Ok(1),
            Given::Skipped(why, _) if wait => Err(Failure::failed(format!(
                "the pixel buffer was not read: {why}"
            ))),
            Given::Skipped(why, news) => {
                if news {
                    let line = format!("a picture was left out: {why}");
                    self.log.tell(OPENUVR_LOG_LEVEL::OPENUVR_LOG_WARNING, &line);
                }
                Ok(0)
            }
        }
    }
}

// --- Input ----------------------------------------------------------------------------------------

/// Takes the oldest event of the player's input that was not taken yet, into `*input`, whose `size`
/// the caller has set. Returns 1 if there was one, 0 if not. Call it until it returns 0, before you
/// draw. An application that takes none for long gets one `OPENUVR_INPUT_RELEASE_ALL` instead of what
/// it missed. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `input` is NULL or writable for as many bytes
/// as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_next_input(
    context: *mut openuvr_context,
    input: *mut openuvr_input,
) -> c_int {
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            // Before an event is taken that could not be given.
            read(input, openuvr_input::default(), "the input")?;
            let started = held.inner.started()?;
            if started.listener.is_some() {
                return Err(Failure::state("input goes to the callback on_input"));
            }
            match started.guest.next_input() {
                Some(event) => write(input, &event.into(), "the input").map(|()| 1),
                None => Ok(0),
            }
        })
    }
}

/// With `OPENUVR_INPUT_TO_DISPLAY`: the picture is shown at `x` and `y` of the X display, its left and
/// upper edge in pixels of the screen, `width` and `height` pixels large there; both 0: as large as
/// the picture is. So the pointer goes to what the person points at. Until it is called, that is the
/// display's upper left corner: call it with the place of your window, and again when that moves
/// (`ConfigureNotify`, and `XTranslateCoordinates` of 0, 0 to the root window). From any thread, also
/// before the thread is started.
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
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            let size = Size::new(width, height);
            if !size.is_valid() && (width, height) != (0, 0) {
                let why = format!("a place of {size}: its sides are 1 to {}", Size::MAX_SIDE);
                return Err(Failure::argument(why));
            }
            let size = Some(size).filter(|size| size.is_valid());
            let mut settings = lock(&held.inner.settings);
            settings.viewport = (x, y, size);
            if let Some(started) = held.inner.started.get() {
                started.guest.set_viewport(x, y, size);
            }
            Ok(DONE)
        })
    }
}

/// Maps a device of the MUD to a local one (paper, Table I): what the device that was registered
/// there as `id`, 0 to 255, says is written into `fd` as `struct input_event`s, those that belong
/// together at once: a uinput device, a pipe, a socket. What is not mapped comes as input to where
/// input goes. The descriptor is duplicated: it stays the caller's, but becomes non-blocking; what it
/// has no room for is lost, except that keys are released. -1 as `fd` ends it. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_map_input_device(
    context: *mut openuvr_context,
    id: c_int,
    fd: c_int,
) -> c_int {
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            let id = device_id(id)?;
            let fd = match fd {
                -1 => None,
                fd => {
                    let can = Descriptor::new(duplicated(fd)?);
                    can.map_err(|e| Failure::argument(e.to_string()))?;
                    Some(duplicated(fd)?)
                }
            };
            let mut settings = lock(&held.inner.settings);
            match held.inner.started.get() {
                Some(started) => map_device(&started.guest, id, fd)?,
                None => settings.devices.set(id, fd),
            }
            Ok(DONE)
        })
    }
}

fn map_device(guest: &Guest, id: DeviceId, fd: Option<OwnedFd>) -> Outcome<()> {
    match fd {
        Some(fd) => guest.map_device(id, fd),
        None => guest.unmap_device(id),
    }
    .map_err(Failure::argument)
}

/// Writes where the player's head was last into `*pose`, whose `size` the caller has set. Returns 1,
/// or 0 if nobody has told since the player of now came. Ask before each picture. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `pose` is NULL or writable for as many bytes as
/// its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_last_pose(
    context: *mut openuvr_context,
    pose: *mut openuvr_pose,
) -> c_int {
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            match held.inner.started()?.guest.pose() {
                Some(posed) => write(pose, &posed.into(), "the pose").map(|()| 1),
                // What is wrong with it is told all the same.
                None => read(pose, openuvr_pose::default(), "the pose").map(|_| 0),
            }
        })
    }
}

// --- What there is to tell ------------------------------------------------------------------------

/// Writes the message of the last call with this context that failed, as far as `size` bytes go. From
/// any thread; it is of the last call of any of them.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `text` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_message(
    context: *mut openuvr_context,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            must_give_text(&held.message(), text, size)
        })
    }
}

/// Writes the PIN with which a new device may pair; an empty text if none may. From any thread, once
/// the thread is started.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `text` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_pin(
    context: *mut openuvr_context,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            let pin = held.inner.started()?.guest.pin();
            must_give_text(&pin.map(Pin::to_string).unwrap_or_default(), text, size)
        })
    }
}

/// Writes where MUDs reach this host, in words: `UDP [::]:4710, udp-gso`. From any thread, once the
/// thread is started.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `text` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_place(
    context: *mut openuvr_context,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            must_give_text(held.inner.started()?.guest.place(), text, size)
        })
    }
}

/// Lets in a new device that knows `pin`, 4 to 12 digits, for `seconds`. From any thread, once the
/// thread is started.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `pin` is NULL or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_open_pairing(
    context: *mut openuvr_context,
    pin: *const c_char,
    seconds: u32,
) -> c_int {
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            let pin = text(pin, "pin")?.ok_or_else(|| Failure::null("the PIN"))?;
            let pin = Pin::parse(&pin).map_err(|e| Failure::argument(e.to_string()))?;
            let span = Duration::from_secs(seconds.into());
            held.inner.started()?.guest.open_pairing(pin, span);
            Ok(DONE)
        })
    }
}

/// Fills `*statistics`, whose `size` the caller has set. From any thread, once the thread is started.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `statistics` is NULL or writable for as many
/// bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_statistics(
    context: *mut openuvr_context,
    statistics: *mut openuvr_statistics,
) -> c_int {
    // SAFETY: as ours.
    unsafe {
        call(context.cast::<Held<Host>>(), |held| {
            let told = held.inner.started()?.guest.statistics();
            write(statistics, &(&told).into(), "the statistics").map(|()| DONE)
        })
    }
}
