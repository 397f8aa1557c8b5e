//! A host inside an application's process. The application only submits pictures and takes input; the guest does
//! everything else.
//!
//! ```no_run
//! use openuvr_media::capture::pool::Pool;
//! use openuvr_proto::units::Size;
//! use openuvr_runtime::guest::{Guest, InputTarget};
//! use openuvr_runtime::host::config::Config;
//!
//! let size = Size::new(1280, 720);
//! let guest = Guest::start(&Config::default(), InputTarget::Application, size, |notice| {
//!     println!("{notice:?}"); // the PIN, subscribers, the outcome of each frame
//! })?;
//! let pool = Pool::default();
//! while !guest.is_over() {
//!     while let Some(input) = guest.next_input() {
//!         println!("{:?}", input.event);
//!     }
//!     let mut picture = pool.take(size);
//!     picture.bytes().fill(128); // draw
//!     if guest.wants() {
//!         let _ = guest.submit(Box::new(picture)); // `None`: the host has ended
//!     }
//! }
//! # Ok::<(), String>(())
//! ```
//! A guest starts no second process, does not call `exit` or `mlockall`, and uses no console and no signals. It has no
//! global state, so an application may have several guests. If the stream fails, the application continues. In a forked
//! child of the application, a guest does nothing.

mod first_picture;
mod statistics;

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::application::WindowScope;
use openuvr_media::capture::CaptureError;
use openuvr_media::capture::cursor::CursorWatch;
use openuvr_media::capture::cursor::x11::X11Cursor;
use openuvr_media::capture::submit::{self, Frame, FrameDemand, Submitter, Ticket};
use openuvr_media::capture::x11::Viewport;
use openuvr_media::capture::{ConsumedInput, RenderInfo};
use openuvr_media::clipboard::x11::X11Clipboard;
use openuvr_media::convert::Converter;
use openuvr_media::cursor::CursorShape;
use openuvr_media::input_sink::{self, pads};
pub use openuvr_net::CloseOnFork;
use openuvr_net::Link as _;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::controller::{Haptic, ReceivedControllers};
use openuvr_proto::display::{PlayerDisplay, RefreshTiming};
use openuvr_proto::id::DeviceId;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::pose::ReceivedPose;
use openuvr_proto::time::Instant;
use openuvr_proto::units::{Bitrate, Size};

use crate::csv::Csv;
use crate::host::config::Config;
use crate::host::{HostRuntime, HostSetup, Input, Notice, SharedClipboard};
use crate::lock::lock;
use crate::remote::GatewayListener;
use crate::sched;

use first_picture::FirstPictureTimer;

pub use crate::host::{ApplicationInput, InputQueue};
pub use statistics::Statistics;

/// How long the notice thread waits for a notice before it checks whether the guest is ending.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The target of the player's input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InputTarget {
    /// The application, which calls [`Guest::next_input`].
    Application,
    /// The windows of this X display, through XTEST.
    Display(String),
    /// None.
    Nothing,
}

/// A host in the process of the application whose pictures it streams. All methods may be called from any thread.
/// Dropping the guest says goodbye to the clients and joins the guest's threads, which usually takes less than a tenth
/// of a second.
pub struct Guest {
    /// `None` while the guest is being dropped.
    running: Option<Running>,
    frames: Arc<Submitter>,
    inputs: Option<Arc<InputQueue>>,
    placement: Mutex<Placement>,
    drawing: Mutex<Drawing>,
    statistics: Arc<Mutex<Statistics>>,
    pin: Option<Pin>,
    endpoint: String,
    address: Option<SocketAddr>,
    /// The id of the process in which the guest was started.
    process: u32,
}

struct Running {
    host: Arc<HostRuntime>,
    ended: Arc<AtomicBool>,
    notice_reader: JoinHandle<()>,
    /// Accepts gateways in another process, if enabled.
    gateways: Option<GatewayListener>,
}

type NoticeCallback = Box<dyn FnMut(Notice) + Send>;

/// Passes notices to the application, the statistics and the CSV.
struct NoticeReader {
    on_notice: NoticeCallback,
    statistics: Arc<Mutex<Statistics>>,
    csv: Option<Csv>,
}

impl NoticeReader {
    fn deliver(&mut self, notice: Notice) {
        let mut statistics = lock(&self.statistics);
        statistics.note(&notice);
        if let Notice::Audio(session, report) = &notice
            && let Some(csv) = &mut self.csv
        {
            csv.audio((*session).into(), report);
        }
        if let Notice::Record(record) = &notice {
            let rendition = statistics.rendition(record.subscriber);
            drop(statistics);
            self.write(|csv| csv.row(record, rendition));
        } else {
            drop(statistics);
        }
        (self.on_notice)(notice);
    }

    /// Writes the buffered rows to the disk, if this is due. Without this call, the rows would wait for the next frame,
    /// and would be lost if the application is killed.
    fn tick(&mut self, now: Instant) {
        self.write(|csv| csv.tick(now));
    }

    /// Writes to the CSV. After the first error, nothing more is written.
    fn write(&mut self, with: impl FnOnce(&mut Csv) -> io::Result<()>) {
        let Some(Err(e)) = self.csv.as_mut().map(with) else {
            return;
        };
        self.csv = None;
        (self.on_notice)(Notice::Warning(format!(
            "can't write the CSV file: {e}; nothing more is written to it"
        )));
    }
}

/// The position of the picture on the display.
struct Placement {
    x: i32,
    y: i32,
    /// The size set by the application; `None` for the size of the newest picture.
    size: Option<Size>,
    newest: Size,
    viewport: Viewport,
}

impl Placement {
    fn apply(&self) {
        let size = self.size.unwrap_or(self.newest);
        self.viewport.set(self.x, self.y, size);
    }
}

/// The picture that is being drawn.
#[derive(Default)]
struct Drawing {
    begun: Option<Instant>,
    /// The newest input that the application took before it started the picture.
    input: Option<ConsumedInput>,
    /// The newest input that the application has taken.
    newest: Option<ConsumedInput>,
    /// The input that [`Guest::deliver_input`] is passing to the application.
    delivered: Option<ConsumedInput>,
    /// The pose with which the picture is drawn.
    pose: Option<ReceivedPose>,
    /// The newest pose that the application has taken.
    newest_pose: Option<ReceivedPose>,
}

impl Guest {
    /// Starts a host for pictures of `size`; later pictures may have other sizes. `on_notice` is called for one notice
    /// at a time: during this call for warnings, and afterwards in the notice thread. After the guest has been dropped,
    /// `on_notice` is no longer called.
    ///
    /// # Errors
    /// Returns a one-line error if a component cannot be opened or a value is out of range.
    pub fn start(
        config: &Config,
        input: InputTarget,
        size: Size,
        on_notice: impl FnMut(Notice) + Send + 'static,
    ) -> Result<Guest, String> {
        let display = match &input {
            InputTarget::Display(display) => Some(display.clone()),
            InputTarget::Application | InputTarget::Nothing => None,
        };
        Guest::on_display(config, input, display.as_deref(), size, on_notice)
    }

    /// Like [`Guest::start`], for an application whose windows are on the X display `display`, which may differ from
    /// the target of `input`. If `display` is empty, the variable `DISPLAY` names the display. Clients see the pointer
    /// of that display if [`Config::cursor`] is set. If `display` is `None`, neither pointer nor clipboard is shared.
    ///
    /// # Errors
    /// The errors of [`Guest::start`]. If the pointer, the clipboard, the game pads or the gateway's socket cannot be
    /// opened, the guest posts a warning and continues without it.
    pub fn on_display(
        config: &Config,
        input: InputTarget,
        display: Option<&str>,
        size: Size,
        mut on_notice: impl FnMut(Notice) + Send + 'static,
    ) -> Result<Guest, String> {
        let csv = config.csv.as_deref().map(create).transpose()?;
        let mut opened = config.open()?;
        if input == InputTarget::Application {
            opened.policy.keys = Keys::Both;
        }
        let scheduler = config.scheduler();
        // Encoder threads get no real-time priority, because they would preempt the application during its swap.
        // Measured on two cores: real-time threads delay each frame of the application by 4 ms in addition to the
        // read-back. Ordinary threads delay it by 1 ms, but the encoded picture is then 1 ms later.
        let scheduler = scheduler.without_realtime(sched::ThreadRole::Encode);
        let (frames, capture) = submit::channel(size, config.fps).map_err(|e| e.to_string())?;
        let frames = Arc::new(frames);
        let viewport = Viewport::new(0, 0, size);
        let inputs = (input == InputTarget::Application).then(Arc::<InputQueue>::default);
        let sink = |name: &str| input_sink::open(name).map(Input::Sink);
        let input = match &input {
            InputTarget::Display(display) => sink(&format!("xtest:{display}")),
            InputTarget::Nothing => sink("null"),
            InputTarget::Application => Ok(Input::Application(inputs.clone().unwrap_or_default())),
        };
        let input = input.map_err(|e| e.to_string())?;
        let watch = |display: &str| -> Result<Box<dyn CursorWatch>, CaptureError> {
            let named = Some(display).filter(|display| !display.is_empty());
            Ok(Box::new(X11Cursor::open(named, viewport.clone())?))
        };
        let cursor = display.filter(|_| config.cursor).map(watch).transpose();
        let cursor = cursor.map_err(|e| format!("pointer not sent: {e}"));
        let cursor = or_warn(cursor, &mut on_notice);
        let directions = config.clipboard;
        let clipboard = match display {
            None if directions.any() => Err("no display".to_owned()),
            None => Ok(None),
            Some(display) => SharedClipboard::open(directions, |watch, most| {
                Ok(Box::new(X11Clipboard::open(display, watch, most)?))
            }),
        };
        let clipboard = clipboard.map_err(|why| format!("clipboard not shared: {why}"));
        let clipboard = or_warn(clipboard, &mut on_notice);
        if let Some(why) = opened.sounds.no_sound_reason {
            on_notice(Notice::Warning(why));
        }
        let folder = config.pads_folder.as_deref();
        let pads = folder.map(|folder| pads::game::open(folder, &config.seats));
        let pads = or_warn(pads.transpose().map_err(|e| e.to_string()), &mut on_notice);
        let address = opened.link.local_addr();
        let pin = opened.pairing.as_ref().map(|(pin, _)| pin.clone());
        let host = HostRuntime::start(HostSetup {
            policy: opened.policy,
            identity: opened.identity,
            devices: opened.devices,
            pairing: opened.pairing,
            tickets: opened.tickets,
            link: opened.link,
            capture: Box::new(capture),
            viewport: Some(viewport.clone()),
            cursor,
            input,
            converter: Converter::new(),
            encodings: opened.encodings,
            audio: opened.sounds.audio,
            microphone: opened.sounds.microphone,
            clipboard,
            pads,
            scheduler: scheduler.clone(),
        })?;
        let host = Arc::new(host);
        let open = |path: &Path| GatewayListener::open(path, &host, &scheduler);
        let gateways = or_warn(
            config.gateway.as_deref().map(open).transpose(),
            &mut on_notice,
        );
        let statistics = Arc::<Mutex<Statistics>>::default();
        let ended = Arc::new(AtomicBool::new(false));
        let mut notice_reader = NoticeReader {
            on_notice: Box::new(on_notice),
            statistics: statistics.clone(),
            csv,
        };
        let (source, end, submitter) = (host.clone(), ended.clone(), frames.clone());
        let mut first_picture = FirstPictureTimer::default();
        let notice_reader =
            scheduler.spawn(sched::ThreadRole::Background, "ouvr-notices", move || {
                while !end.load(Ordering::Acquire) {
                    let notice = source.notice(POLL_INTERVAL);
                    let now = clock::now();
                    notice_reader.tick(now);
                    let watched = !lock(&notice_reader.statistics).clients.is_empty();
                    if first_picture.has_expired(now, watched, submitter.submitted()) {
                        notice_reader.deliver(Notice::NoPicture);
                    }
                    let Some(notice) = notice else { continue };
                    if matches!(notice, Notice::Failed(_) | Notice::SourceEnded(_)) {
                        source.cancel();
                    }
                    notice_reader.deliver(notice);
                }
                // `Guest::drop` has already released its reference, so this is the last reference. Notices of the
                // host's end are also delivered in this thread.
                for notice in Arc::into_inner(source)
                    .into_iter()
                    .flat_map(HostRuntime::stop)
                {
                    notice_reader.deliver(notice);
                }
                notice_reader.write(Csv::finish);
            });
        let notice_reader = notice_reader.map_err(|e| format!("can't start a thread: {e}"))?;
        Ok(Guest {
            running: Some(Running {
                host,
                ended,
                notice_reader,
                gateways,
            }),
            frames,
            inputs,
            placement: Mutex::new(Placement {
                x: 0,
                y: 0,
                size: None,
                newest: size,
                viewport,
            }),
            drawing: Mutex::default(),
            statistics,
            pin,
            endpoint: opened.endpoint,
            address,
            process: std::process::id(),
        })
    }

    /// Whether to submit a picture that is finished now; see [`Submitter`]. In a forked child, no picture is wanted.
    #[must_use]
    pub fn wanted(&self) -> FrameDemand {
        match self.forked() {
            true => FrameDemand::Closed,
            false => self.frames.demand(clock::now()),
        }
    }

    /// Whether [`Guest::wanted`] is [`FrameDemand::Now`].
    #[must_use]
    pub fn wants(&self) -> bool {
        self.wanted() == FrameDemand::Now
    }

    /// Whether the host has ended, so that no more pictures are needed. True in a forked child.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.forked() || self.frames.is_over()
    }

    /// Marks the start of a picture. The picture then shows the input taken before this call. Without this call, a
    /// picture shows the input taken before it is submitted.
    pub fn begin_frame(&self) {
        let mut drawing = lock(&self.drawing);
        drawing.begun = Some(clock::now());
        drawing.input = drawing.newest;
        drawing.pose = drawing.newest_pose;
    }

    /// Returns the metadata of the drawn picture, which has the size `size`. Ends the picture, so the next one can be
    /// started.
    #[must_use]
    pub fn drawn(&self, size: Size) -> RenderInfo {
        let mut placement = lock(&self.placement);
        if std::mem::replace(&mut placement.newest, size) != size {
            placement.apply();
        }
        drop(placement);
        let mut drawing = lock(&self.drawing);
        let begun = drawing.begun.take();
        let (input, pose) = match begun {
            Some(_) => (drawing.input, drawing.pose),
            None => (drawing.newest, drawing.newest_pose),
        };
        RenderInfo {
            input,
            pose,
            begun,
            ..RenderInfo::default()
        }
    }

    /// Submits the drawn picture; `None` if the host has ended.
    #[must_use]
    pub fn submit(&self, frame: Box<dyn Frame>) -> Option<Ticket> {
        if self.forked() {
            return None;
        }
        let drawn = self.drawn(frame.picture().size);
        self.frames.submit(frame, drawn)
    }

    /// Waits at most for `timeout` until this picture or a newer one has been encoded and sent. Returns whether the
    /// picture has been sent; `false` on timeout, or if the host has ended.
    #[must_use]
    pub fn wait(&self, ticket: Ticket, timeout: Duration) -> bool {
        !self.forked() && self.frames.wait(ticket, timeout)
    }

    /// The submitter of pictures, for threads that cannot borrow the guest.
    #[must_use]
    pub fn frames(&self) -> &Arc<Submitter> {
        &self.frames
    }

    /// Takes the oldest pending input; `None` if no input is pending or input does not go to the application.
    #[must_use]
    pub fn next_input(&self) -> Option<ApplicationInput> {
        if self.forked() {
            return None;
        }
        Some(self.taken(self.inputs.as_ref()?.pop()?))
    }

    /// Waits for input, at most for `timeout`, and passes the oldest event to `handle`. A picture that another thread
    /// begins before `handle` returns does not show the event, unless `handle` calls [`Guest::accept_input`].
    pub fn deliver_input(&self, timeout: Duration, handle: impl FnOnce(ApplicationInput)) {
        if self.forked() {
            return;
        }
        let inputs = self.inputs.as_ref();
        let Some(mut input) = inputs.and_then(|inputs| inputs.wait(timeout)) else {
            return;
        };
        input.taken.taken = clock::now();
        lock(&self.drawing).delivered = Some(input.taken);
        handle(input);
        self.accept_input();
    }

    /// Marks the event that [`Guest::deliver_input`] is passing on as taken, before `handle` returns. An application
    /// that draws in `handle` calls this method.
    pub fn accept_input(&self) {
        let mut drawing = lock(&self.drawing);
        if let Some(taken) = drawing.delivered.take() {
            drawing.newest = Some(taken);
        }
    }

    /// Marks an input as taken now.
    fn taken(&self, mut input: ApplicationInput) -> ApplicationInput {
        input.taken.taken = clock::now();
        lock(&self.drawing).newest = Some(input.taken);
        input
    }

    /// Sends the events of the player's device with this number to `fd`; see [`HostRuntime::map_device`].
    ///
    /// # Errors
    /// Returns a one-line error if `fd` cannot be written to, the host's command queue is full, or the host has ended.
    pub fn map_device(&self, device: DeviceId, fd: OwnedFd) -> Result<(), String> {
        let host = self
            .host()
            .ok_or("the host belongs to the parent process")?;
        host.map_device(device, fd)
    }

    /// Ends the mapping of [`Guest::map_device`]. The device's pressed keys are released first.
    ///
    /// # Errors
    /// Returns a one-line error if the host's command queue is full or the host has ended.
    pub fn unmap_device(&self, device: DeviceId) -> Result<(), String> {
        let host = self
            .host()
            .ok_or("the host belongs to the parent process")?;
        host.unmap_device(device)
    }

    /// The player's newest head pose; `None` before the current player has sent a pose. The next picture that the
    /// application begins is labelled with this pose. If the application uses [`Guest::begin_frame`], it must call
    /// `pose` before `begin_frame`.
    #[must_use]
    pub fn pose(&self) -> Option<ReceivedPose> {
        let posed = self.host()?.pose();
        lock(&self.drawing).newest_pose = posed;
        posed
    }

    /// The player's newest controller states; `None` before the current player has sent any.
    #[must_use]
    pub fn controllers(&self) -> Option<ReceivedControllers> {
        self.host()?.controllers()
    }

    /// The player's display; `None` until the player's client has reported it.
    #[must_use]
    pub fn display(&self) -> Option<PlayerDisplay> {
        self.host()?.display()
    }

    /// Announces the times at which the application samples poses; see [`HostRuntime::pose_schedule`].
    pub fn pose_schedule(&self, wanted: RefreshTiming<Instant>) {
        if let Some(host) = self.host() {
            host.pose_schedule(wanted);
        }
    }

    /// Plays haptic feedback: see [`HostRuntime::haptic`].
    pub fn haptic(&self, haptic: Haptic) {
        if let Some(host) = self.host() {
            host.haptic(haptic);
        }
    }

    /// Sets the picture's position and size on the display into which input is injected: the left edge, the upper edge
    /// and the size, in pixels. If `size` is `None`, the size of the newest picture is used. Initially, the picture is
    /// in the upper left corner.
    pub fn set_viewport(&self, x: i32, y: i32, size: Option<Size>) {
        let mut placement = lock(&self.placement);
        (placement.x, placement.y, placement.size) = (x, y, size);
        placement.apply();
    }

    /// Sets the application's pointer: see [`HostRuntime::set_pointer`].
    pub fn set_pointer(&self, shape: Option<&CursorShape>, at: Option<(u16, u16)>) {
        if let Some(host) = self.host() {
            host.set_pointer(shape, at);
        }
    }

    /// Selects relative mouse motion: see [`HostRuntime::set_relative_mouse`].
    pub fn set_relative_mouse(&self, relative: bool) {
        if let Some(host) = self.host() {
            host.set_relative_mouse(relative);
        }
    }

    /// Sets the captured window on the display into which input is injected. Keys and clicks go to this window and its
    /// menus and dialogs, and are withheld if they would reach another window. If `window` is `None`, which is the
    /// initial value, input goes to any window.
    pub fn set_window(&self, window: Option<u32>) {
        lock(&self.placement).viewport.set_window(window);
    }

    /// Sets which other windows of the application also receive input. The picture must show these windows.
    pub fn set_window_scope(&self, scope: WindowScope) {
        lock(&self.placement).viewport.set_window_scope(scope);
    }

    /// Reports whether the window is visible on its display (not minimised). The clients are notified.
    pub fn set_shown(&self, shown: bool) {
        if let Some(host) = self.host() {
            host.source_shown(shown);
        }
    }

    /// Records that the application is exiting: see [`HostRuntime::source_ended`].
    pub fn source_ended(&self) {
        if let Some(host) = self.host() {
            host.source_ended();
        }
    }

    /// The current statistics.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        lock(&self.statistics).clone()
    }

    /// The PIN of the initial pairing window; `None` if pairing was initially closed.
    #[must_use]
    pub fn pin(&self) -> Option<&Pin> {
        self.pin.as_ref()
    }

    /// The endpoint for clients, as text.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The UDP address of the endpoint; `None` if only raw Ethernet is used.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Opens pairing with `pin` for the duration `span`.
    pub fn open_pairing(&self, pin: Pin, span: Duration) {
        if let Some(host) = self.host() {
            host.open_pairing(pin, span);
        }
    }

    /// Limits the video's bitrate.
    pub fn set_bitrate(&self, max: Bitrate) {
        if let Some(host) = self.host() {
            host.set_bitrate(max);
        }
    }

    /// Changes the GOP size of the video: see [`HostRuntime::set_key_frame_interval`].
    pub fn set_key_frame_interval(&self, frames: Option<u32>) {
        if let Some(host) = self.host() {
            host.set_key_frame_interval(frames);
        }
    }

    /// The host; `None` in a forked child, in which the host has no threads.
    fn host(&self) -> Option<&HostRuntime> {
        let running = self.running.as_ref().filter(|_| !self.forked());
        running.map(|running| &*running.host)
    }

    fn forked(&self) -> bool {
        self.process != std::process::id()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let Some(Running {
            host,
            ended,
            notice_reader,
            gateways,
        }) = self.running.take()
        else {
            return;
        };
        if self.forked() {
            // This is a forked child, without the host's threads. Those threads may have held the host's locks during
            // the fork, so drop nothing here.
            std::mem::forget((host, notice_reader, gateways, self.frames.clone()));
            return;
        }
        // The host's threads end while the notice thread delivers the last notices.
        host.cancel();
        // Drop the gateway listener first, because its threads hold references to the host.
        drop(gateways);
        drop(host);
        ended.store(true, Ordering::Release);
        // A panic was already reported.
        let _ = notice_reader.join();
    }
}

/// The opened value. If opening failed, posts a warning and returns `None`: the guest continues without the value.
fn or_warn<T>(opened: Result<Option<T>, String>, on_notice: &mut impl FnMut(Notice)) -> Option<T> {
    opened.unwrap_or_else(|why| {
        on_notice(Notice::Warning(why));
        None
    })
}

/// A new CSV with its header.
fn create(path: &Path) -> Result<Csv, String> {
    let file = File::create(path).and_then(|file| Csv::new(Box::new(file)));
    file.map_err(|e| format!("can't write {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use openuvr_proto::id::{FrameId, SubscriberId, ViewId};
    use openuvr_proto::trace::{FrameRecord, Outcome};

    use super::*;

    #[test]
    fn a_row_is_written_although_no_frame_follows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames.csv");
        let mut reader = NoticeReader {
            on_notice: Box::new(|_| ()),
            statistics: Arc::default(),
            csv: Some(create(&path).unwrap()),
        };
        let lines = || std::fs::read_to_string(&path).unwrap().lines().count();
        let now = Instant(7_000_000_000);
        reader.tick(now);
        let of = (ViewId::FIRST, FrameId(1));
        let record = FrameRecord::new(SubscriberId::Other(1), of, Outcome::SentUnacknowledged);
        reader.deliver(Notice::Record(Box::new(record)));
        reader.tick(now + Duration::from_millis(999));
        assert_eq!(lines(), 1, "only the header");
        reader.tick(now + Duration::from_secs(1));
        assert_eq!(lines(), 2);
    }
}
