//! The client's threads: receive → reassemble → decode → present, and input in parallel.
//!
//! ```text
//! media   receive ─► reassemble ─► decode ─► present     one thread, blocking; it also passes
//!                └─► session (control plane)             control datagrams to the session
//! audio   jitter buffer ─► decode ─► play                 payloads from the media thread
//! input   window ─► session ─► send
//! pads    game pads ─► session; rumble ─► game pads
//! head    head source ─► session and reprojection
//! eyes    stereo pictures ─► reproject ─► present         at the display's own rate
//! clipboard  local text ─► session; the host's text ─► display
//! search  name ─► addresses, when the host is lost
//! ```
//! Receiving and decoding share a thread. A slice is therefore decoded on arrival, while the host is still encoding
//! later slices.

mod audio;
mod clipboard;
pub mod config;
mod connect;
mod head;
mod input;
pub mod link;
mod media;
mod microphone;
mod overlay;
mod pads;
mod resolver;
mod screen;
pub mod stereo;
mod target;
mod transport_probing;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::clipboard::OpenClipboard;
use openuvr_media::decode;
use openuvr_media::head::controllers::EmulatedControllers;
use openuvr_media::head::recentre::Recentre;
use openuvr_media::head::{HeadPose, HeadPoseInput};
use openuvr_media::input_source::pads::mapping::Database;
use openuvr_media::input_source::{InputSource, SoundCommand};
use openuvr_media::motion::{Motion, MotionSettings, Output};
use openuvr_media::present::{PresentError, Surface};
use openuvr_net::transport_selection::TransportSelector;
use openuvr_net::{Link as _, LinkError};
use openuvr_proto::client::ClientSession;
use openuvr_proto::control::handshake::HandshakeError;
use openuvr_proto::control::identity::{DeviceName, Identity};
use openuvr_proto::control::negotiate::{ObserverReason, Offer, Refusal, Role};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::controller::{Controllers, Haptic};
use openuvr_proto::display::{Display, RefreshTiming};
use openuvr_proto::id::{PathId, PoseId};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::pose::Pose;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::{AudioReport, GoodbyeReason, Report};
use openuvr_proto::wire::video::Configuration;

use crate::lock::lock;
use crate::sched::{self, Scheduler};
use crate::scheduling_latency::WakeupSite;
use crate::trust_store::HostStore;

use self::config::PortalCredentials;
pub use self::microphone::{MicrophoneSource, OpenMicrophone};
pub use self::stereo::{DrawBackend, EyeView, Reproject, ReprojectionCost, StereoSettings};
pub use crate::sound_player::{AudioSink, OpenPlayback, Volume};
pub use target::{BadTarget, Target};

/// Maximum number of notices that wait for the application: about a minute of frame reports at 60 frames/s.
const NOTICES: usize = 4096;

/// The title of a client's window: the host's name and, for an observer, the reason why it observes.
#[must_use]
pub fn title(host: &str, reason: Option<ObserverReason>) -> String {
    match reason {
        Some(why) => format!("OpenUVR – {host} ({why})"),
        None => format!("OpenUVR – {host}"),
    }
}

/// Opens the surface for pictures of this configuration, with this title and for a client with this role. Called once,
/// for the first picture.
pub type OpenSurface =
    Box<dyn FnMut(Configuration, &str, Role) -> Result<Surface, PresentError> + Send>;

/// Searches for a lost host, and returns its paths or one line with the reason why it was not found. May block for
/// seconds.
pub type SearchHost = Box<dyn FnMut() -> Result<Vec<PathId>, String> + Send>;

/// Everything a client needs.
pub struct ClientSetup {
    /// The client's identity.
    pub identity: Identity,
    /// The device name that the client announces.
    pub name: DeviceName,
    /// The known hosts.
    pub hosts: HostStore,
    /// The host's name or address as the user entered it, followed by the port. The host's key is stored in `hosts`
    /// under this text.
    pub host: String,
    /// The parsed address. Its host name is resolved again when the host is lost.
    pub target: Target,
    /// The host's addresses, best first. The first address that answers is used.
    pub paths: Vec<PathId>,
    /// Searches for the host when it is lost, instead of resolving `target` again. For a host that was discovered.
    pub search: Option<SearchHost>,
    /// The PIN that the host shows, for one pairing. The client does not use it with a known host; see
    /// [`HostCredentials`](openuvr_proto::control::credentials::HostCredentials).
    pub pin: Option<Pin>,
    /// Host key and ticket from a portal. They replace the stored key and the PIN.
    pub portal: Option<PortalCredentials>,
    /// Whether to pair even if the host is known.
    pub pair_again: bool,
    /// The session offer.
    pub offer: Offer,
    /// The decoder to use; `None` for the first decoder in the table that supports the codec.
    pub decoder: Option<decode::Backend>,
    /// The transports to the host.
    pub link: Arc<TransportSelector>,
    /// Forces a transport; `None` for the best transport that works.
    pub only: Option<TransportKind>,
    /// Opens the surface that shows the pictures.
    pub surface: OpenSurface,
    /// An input source that replaces the surface's window; `None` for the window.
    pub input: Option<Box<dyn InputSource>>,
    /// Whether input is sent at all.
    pub send_input: bool,
    /// The head-pose source; `None` if there is none or the application sets the poses ([`ClientRuntime::set_pose`]).
    pub head: Option<HeadPose>,
    /// If set, head poses are not sent as poses, but converted to mouse or game-pad input for a game.
    pub motion: Option<MotionSettings>,
    /// How stereo pictures are shown.
    pub eyes: StereoSettings,
    /// The audio output; `None` for no sound. The offer must then request no sound.
    pub audio: Option<AudioSink>,
    /// The microphone; `None` if the offer contains no microphone.
    pub microphone: Option<MicrophoneSource>,
    /// The clipboard that is shared with the host; `None` if no clipboard is shared.
    pub clipboard: Option<OpenClipboard>,
    /// The mapping database for forwarding local game pads; `None` if game pads are not forwarded.
    pub pads: Option<Database>,
    /// Whether the latency overlay is initially shown.
    pub overlay: bool,
    /// Whether to reconnect to a lost host.
    pub reconnect: bool,
    /// Starts the threads with their priorities.
    pub scheduler: Scheduler,
}

/// Volume change for one key press, in percent of the received level.
const VOLUME_STEP: i32 = 10;

/// The text that `openuvr client` prints before the name of a session's transport. The benchmarks search for this text.
pub const VIDEO_TRANSPORT: &str = "video transport: ";

/// An event that the application may show or log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A session began.
    Connected {
        /// Whether the devices have just been paired.
        paired: bool,
        /// The fingerprint of the host's key.
        fingerprint: String,
        /// The fingerprint of the host's previously known key, if the devices were paired again.
        before: Option<String>,
    },
    /// The host granted a role.
    Granted {
        /// The role.
        role: Role,
        /// The host's name.
        host: String,
        /// Why the client observes, if it is an observer.
        observer_reason: Option<ObserverReason>,
    },
    /// The host's video now uses this transport.
    Link(TransportKind),
    /// The first picture of this size is shown.
    Showing(Size),
    /// The user changed how keys are sent.
    Keys(Keys),
    /// Whether the streamed source is visible at the host. While it is hidden, no new pictures arrive.
    SourceShown(bool),
    /// Whether a game pad with this name is now forwarded to the host.
    Pad(String, bool),
    /// A message about the shared clipboard. It never contains the clipboard's content.
    Clipboard(String),
    /// A message about a change of the microphone device.
    Sound(String),
    /// The outcome of a frame.
    Report(Report),
    /// Playback statistics, about once a second.
    Audio(AudioReport),
    /// The user selected this eye view.
    EyeView(EyeView),
    /// The cost of reprojection. Sent when reprojection ends.
    ReprojectionCost(ReprojectionCost),
    /// Haptic feedback for one hand. It replaces the previous feedback for that hand.
    Haptic(Haptic),
    /// The user changed the volume. The value is in percent, and 0 when muted.
    Volume(u32),
    /// The host is silent or gone; the client reconnects.
    Lost(Option<GoodbyeReason>),
    /// The client stopped.
    StopReason(StopReason),
    /// Something failed, but the client continues.
    Warning(String),
}

/// Why a client stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// The user closed the window or asked to stop.
    Quit,
    /// The host ended the session for this reason.
    Host(GoodbyeReason),
    /// No session was established.
    Handshake(HandshakeError),
    /// The host refused the session.
    Refused(Refusal),
    /// A permanent failure.
    Failed(String),
}

/// State shared by the client's threads.
struct Shared {
    session: Mutex<Option<ClientSession>>,
    /// Datagram buffer; used while the session is locked.
    datagram: Mutex<Vec<u8>>,
    paths: Arc<transport_probing::Paths>,
    link: Arc<TransportSelector>,
    stop: AtomicBool,
    overlay: AtomicBool,
    /// The volume; `None` if there is no sound.
    volume: Option<Arc<Volume>>,
    /// How the host's application reads keys, as the number of a [`Keys`] variant.
    keys: AtomicU8,
    /// The size of the window that shows the pictures, as reported to the host.
    window_size: Mutex<Option<Size>>,
    /// The properties of the display that shows the pictures, if they were set.
    display: Mutex<Option<Display>>,
    clipboard: clipboard::SharedState,
    pads: pads::PadState,
    eyes: Arc<stereo::Mailbox>,
    /// Moves the emulated head by input events, if the head source supports it.
    head_input: Mutex<Option<Box<dyn HeadPoseInput>>>,
    /// Whether the user has recentred since the last head pose.
    recentre: AtomicBool,
    /// The emulated controllers of a client with a head source.
    hands: Mutex<Option<EmulatedControllers>>,
    media_sleeps_until: AtomicI64,
    to_media: WakeupSite,
    unsent: Mutex<Option<String>>,
    notices: SyncSender<Notice>,
    end: Mutex<Option<StopReason>>,
    lost_notices: AtomicU64,
}

impl Shared {
    fn session(&self) -> MutexGuard<'_, Option<ClientSession>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a datagram to the host. The session retransmits lost datagrams. An error other than a full buffer is kept
    /// as text: if the host falls silent, this error is the likely reason.
    fn send(&self, path: PathId, datagram: &[u8]) {
        let outcome = self.link.send(path, datagram, datagram.len());
        let why = outcome.err().filter(|e| !matches!(e, LinkError::Full));
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        *unsent = why.map(|e| e.to_string());
    }

    /// The error of the last send, if it failed.
    fn unsent(&self) -> Option<String> {
        let unsent = self.unsent.lock();
        unsent.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends the session's pending datagrams, and wakes the media thread if it would sleep past the session's
    /// next timeout.
    fn flush(&self, session: &mut ClientSession) {
        let mut datagram = self.datagram.lock().unwrap_or_else(PoisonError::into_inner);
        while session.poll_transmit(clock::now(), &mut datagram) {
            self.send(self.paths.current(), &datagram);
        }
        while let Some(path) = session.poll_on_path(clock::now(), &mut datagram) {
            // Ignore errors, because a lost probe also shows that the path fails.
            let _ = self.link.send(path, &datagram, datagram.len());
        }
        let next = session.next_timeout().map_or(i64::MAX, |(at, _)| at.0);
        if next < self.media_sleeps_until.load(Ordering::Relaxed) {
            self.to_media.sent();
            self.link.wake();
        }
    }

    fn change_volume(&self, change: SoundCommand) {
        let Some(volume) = &self.volume else {
            return;
        };
        let percent = match change {
            SoundCommand::Mute => volume.toggle_mute().then_some(0),
            SoundCommand::Louder => Some(volume.change(VOLUME_STEP)),
            SoundCommand::Quieter => Some(volume.change(-VOLUME_STEP)),
        };
        self.notice(Notice::Volume(percent.unwrap_or_else(|| volume.change(0))));
    }

    /// See [`ClientRuntime::set_pose`].
    fn pose(&self, pose: &Pose, sampled: Instant) -> Option<PoseId> {
        self.eyes.set_head(*pose, sampled);
        let mut session = self.session();
        let session = session.as_mut()?;
        let id = session.pose(clock::now(), *pose, sampled);
        self.flush(session);
        Some(id)
    }

    /// Whether the event moves the emulated head or controllers, and is therefore not sent to the host.
    fn is_head_input(&self, event: &InputEvent) -> bool {
        let head = |input: &mut Box<dyn HeadPoseInput>| input.take(event);
        let hands = |hands: &mut EmulatedControllers| hands.take(event);
        lock(&self.head_input).as_mut().is_some_and(head)
            || lock(&self.hands).as_mut().is_some_and(hands)
    }

    /// Starts or stops directing input to the emulated head and controllers.
    fn grabbed(&self, grabbed: bool) {
        if let Some(input) = lock(&self.head_input).as_mut() {
            input.grabbed(grabbed);
        }
        if let Some(hands) = lock(&self.hands).as_mut() {
            hands.grabbed(grabbed);
        }
    }

    /// The times at which the host wants poses to be sampled, if it announces them.
    fn pose_schedule(&self) -> Option<RefreshTiming<Instant>> {
        self.session().as_ref()?.pose_schedule(clock::now())
    }

    /// See [`ClientRuntime::push_controllers`].
    fn controllers(&self, sampled: Instant, states: Controllers) -> Option<u32> {
        let mut session = self.session();
        let session = session.as_mut()?;
        let number = session.controllers(clock::now(), states, sampled);
        self.flush(session);
        Some(number)
    }

    /// Sends an input event. If `sampled` is `None`, the event happened now.
    fn input(&self, event: InputEvent, sampled: Option<Instant>) {
        let now = clock::now();
        if let Some(session) = self.session().as_mut() {
            session.input(now, event, sampled.map_or(now, |at| at.min(now)));
            self.flush(session);
        }
    }

    /// Reports the window size to the host, now and at the start of each session.
    fn window_size(&self, size: Size) {
        let mut session = self.session();
        *lock(&self.window_size) = Some(size);
        if let Some(session) = session.as_mut() {
            session.window_size(size);
            self.flush(session);
        }
    }

    fn notice(&self, notice: Notice) {
        if let Err(TrySendError::Full(_)) = self.notices.try_send(notice) {
            self.lost_notices.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Posts a transport event as a notice. Returns the stop reason if the event ends the client.
    fn transport_event(&self, event: transport_probing::TransportEvent) -> Option<StopReason> {
        match event {
            transport_probing::TransportEvent::Selected(transport) => {
                self.notice(Notice::Link(transport))
            }
            transport_probing::TransportEvent::Warning(why) => self.notice(Notice::Warning(why)),
            transport_probing::TransportEvent::Failed(why) => return Some(StopReason::Failed(why)),
        }
        None
    }

    /// Stores the reason why the client ends, separately from the notices, whose queue may overflow.
    fn finish(&self, reason: StopReason) {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.get_or_insert(reason);
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.link.wake();
        self.clipboard.wake();
        self.pads.wake();
    }
}

/// Reports a panic of the thread that owns this value, and stops the other threads. Otherwise, the window would freeze
/// and ignore even its close button.
struct PanicReporter(Arc<Shared>, &'static str);

impl Drop for PanicReporter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = format!("the {} thread panicked: please report it", self.1);
            self.0.finish(StopReason::Failed(why));
            self.0.stop();
        }
    }
}

/// A running client. Dropping it stops it.
pub struct ClientRuntime {
    shared: Arc<Shared>,
    notices: Mutex<Receiver<Notice>>,
    media: Option<JoinHandle<()>>,
    head: Option<JoinHandle<()>>,
}

impl ClientRuntime {
    /// Starts the media thread, which connects to the host. When the media thread has opened the surface, it starts the
    /// input threads.
    ///
    /// # Errors
    /// Returns a one-line error if a thread cannot be started.
    pub fn start(mut setup: ClientSetup) -> Result<ClientRuntime, String> {
        let (head, head_input) =
            (setup.head.take()).map_or((None, None), |head| (Some(head.source), head.input));
        let motion = setup.motion.take();
        let deflects = motion.is_some_and(|motion| matches!(motion.output, Output::Pad(_)));
        // With motion settings, poses are converted to other input, so the game receives no head poses.
        let has_head = head.is_some() && motion.is_none();
        let (notices, inbox) = sync_channel(NOTICES);
        let shared = Arc::new(Shared {
            session: Mutex::new(None),
            datagram: Mutex::default(),
            paths: Arc::default(),
            link: setup.link.clone(),
            stop: AtomicBool::new(false),
            overlay: AtomicBool::new(setup.overlay),
            volume: setup.audio.as_ref().map(|sink| sink.volume.clone()),
            keys: AtomicU8::default(),
            window_size: Mutex::default(),
            display: Mutex::default(),
            clipboard: clipboard::SharedState::default(),
            pads: pads::PadState::new(deflects),
            eyes: Arc::new(stereo::Mailbox::new(setup.eyes.view)),
            head_input: Mutex::new(head_input),
            recentre: AtomicBool::new(false),
            hands: Mutex::new(has_head.then(EmulatedControllers::default)),
            media_sleeps_until: AtomicI64::new(i64::MAX),
            to_media: setup.scheduler.site("client-to-media"),
            unsent: Mutex::new(None),
            notices,
            end: Mutex::new(None),
            lost_notices: AtomicU64::new(0),
        });
        let scheduler = setup.scheduler.clone();
        let start = |e: std::io::Error| format!("can't start a thread: {e}");
        let resolver = match setup.reconnect {
            true => Some(resolver::AddressResolver::start(
                setup.target.clone(),
                setup.only,
                setup.search.take(),
                &scheduler,
            )),
            false => None,
        };
        let resolver = resolver.transpose().map_err(start)?;
        let media = media::Media::new(shared.clone(), setup, resolver, has_head);
        let panic_reporter = PanicReporter(shared.clone(), "media");
        let media = scheduler
            .spawn(sched::ThreadRole::Decode, "ouvr-media", move || {
                let _panic_reporter = panic_reporter;
                media.run();
            })
            .map_err(start)?;
        let mut client = ClientRuntime {
            shared,
            notices: Mutex::new(inbox),
            media: Some(media),
            head: None,
        };
        // If the head thread cannot be started, dropping `client` stops the other threads.
        let target = motion.map_or_else(
            || head::PoseTarget::Host(Recentre::default()),
            |motion| head::PoseTarget::Game(Motion::new(&motion)),
        );
        let head = head.map(|source| head::start(&client.shared, &scheduler, source, target));
        client.head = head.transpose().map_err(start)?;
        Ok(client)
    }

    /// The error of the last send to the host (for example, no network or a local firewall); `None` if the send
    /// succeeded.
    #[must_use]
    pub fn unsent(&self) -> Option<String> {
        self.shared.unsent()
    }

    /// The next notice; `None` after `timeout`. Only one thread can wait at a time.
    #[must_use]
    pub fn notice(&self, timeout: Duration) -> Option<Notice> {
        let notices = self.notices.lock();
        let notices = notices.unwrap_or_else(PoisonError::into_inner);
        let notice = notices.recv_timeout(timeout).ok();
        notice.or_else(|| {
            let mut end = self
                .shared
                .end
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            // Notices that were posted after the timeout precede the end.
            if end.is_some()
                && let Ok(notice) = notices.try_recv()
            {
                return Some(notice);
            }
            end.take().map(Notice::StopReason)
        })
    }

    /// Sends an input event that happened now, in addition to the events of the surface. Callable from any thread.
    pub fn input(&self, event: InputEvent) {
        self.shared.input(event, None);
    }

    /// Sends a head pose to the host at once, but at most 2000 poses a second, and uses it for reprojection. `sampled`
    /// is on the monotonic clock: the sensor's time, or the time for which the pose was predicted. Callable from any
    /// thread. Returns the pose's number; `None` without a session.
    pub fn set_pose(&self, pose: &Pose, sampled: Instant) -> Option<PoseId> {
        self.shared.pose(pose, sampled)
    }

    /// Sends the controller states sampled at `sampled` (monotonic clock). As with poses, only the newest states count.
    /// Callable from any thread. Returns the number that identifies these states; `None` without a session.
    pub fn push_controllers(&self, sampled: Instant, states: Controllers) -> Option<u32> {
        self.shared.controllers(sampled, states)
    }

    /// Sets the properties of the display. The host's application renders for the display's fields of view and refresh
    /// times. The properties are sent on each change and in each session. Callable from any thread.
    pub fn set_display(&self, display: Display) {
        let mut session = self.shared.session();
        *lock(&self.shared.display) = Some(display);
        if let Some(session) = session.as_mut() {
            session.display(clock::now(), display);
            self.shared.flush(session);
        }
    }

    /// Number of notices dropped because the queue was full.
    #[must_use]
    pub fn lost_notices(&self) -> u64 {
        self.shared.lost_notices.load(Ordering::Relaxed)
    }

    /// Says goodbye to the host, stops the threads, and returns the remaining notices.
    #[must_use]
    pub fn stop(mut self) -> Vec<Notice> {
        self.halt();
        let notices = self.notices.get_mut();
        let notices = notices.unwrap_or_else(PoisonError::into_inner);
        notices.try_iter().collect()
    }

    fn halt(&mut self) {
        self.shared.stop();
        for thread in [self.media.take(), self.head.take()].into_iter().flatten() {
            // A panic was already reported on standard error.
            let _ = thread.join();
        }
    }
}

impl Drop for ClientRuntime {
    fn drop(&mut self) {
        self.halt();
    }
}
