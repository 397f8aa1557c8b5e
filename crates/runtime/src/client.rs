//! The client's threads: receive → reassemble → decode → present, and input beside it.
//!
//! ```text
//! media   receive ─► reassemble ─► decode ─► present     one thread, blocking; it also runs the
//!                └─► session (control plane)             control plane of what arrives
//! audio   jitter buffer ─► decode ─► play                 of what the media thread received
//! input   window ─► session ─► send
//! pads    game pads ─► session; what they are to feel ─► game pads
//! head    head source ─► session, and who re-aims pictures
//! eyes    pictures with views ─► re-aimed ─► present      at the display's own rate
//! clipboard  what is copied here ─► session; what was copied at the host ─► display
//! search  name ─► addresses, when the host is lost
//! ```
//! Receiving and decoding share a thread, so that a slice is decoded the moment it is here, while
//! later slices are still being encoded.

mod audio;
mod clipboard;
pub mod config;
mod connect;
pub mod eyes;
mod head;
mod ladder;
pub mod link;
mod media;
mod microphone;
mod overlay;
mod pads;
mod screen;
mod search;
mod target;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_media::decode;
use openuvr_media::head::hands::Hands;
use openuvr_media::head::{Head, HeadInput};
use openuvr_media::input_source::pads::mapping::Database;
use openuvr_media::input_source::{InputSource, SoundWish, SourceEvent};
use openuvr_media::present::{PresentError, Surface};
use openuvr_net::ladder::Ladder;
use openuvr_net::{Link as _, LinkError};
use openuvr_proto::client::ClientSession;
use openuvr_proto::control::handshake::HandshakeError;
use openuvr_proto::control::identity::{DeviceName, Identity};
use openuvr_proto::control::ladder::Rung;
use openuvr_proto::control::negotiate::{Offer, Refusal, Role, WatchReason};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::controller::{Controllers, Haptic};
use openuvr_proto::display::{Display, Refresh};
use openuvr_proto::id::{PathId, PoseId};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::pose::Pose;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::{AudioReport, GoodbyeReason, Report};

use crate::clock;
use crate::handoffs::Site;
use crate::lock::lock;
use crate::sched::{self, Scheduler};
use crate::trust_store::HostStore;

use self::config::PortalWord;
pub use self::eyes::{DrawWith, EyeView, Eyes, ReAimed, Reproject};
pub use self::microphone::{MicrophoneSource, OpenMicrophone};
pub use crate::sound_player::{AudioSink, OpenPlayback, Volume};
pub use target::{BadTarget, Target};

/// Notices that may wait for the application: a few seconds of reports.
const NOTICES: usize = 4096;

/// What a client's window is called: the host's name and, if its person only watches, why.
#[must_use]
pub fn title(host: &str, watching: Option<WatchReason>) -> String {
    match watching {
        Some(why) => format!("OpenUVR – {host} ({why})"),
        None => format!("OpenUVR – {host}"),
    }
}

/// Opens the surface for pictures of a size, with a title; called once, when the first picture is
/// there.
pub type OpenSurface = Box<dyn FnMut(Size, &str, Role) -> Result<Surface, PresentError> + Send>;

/// Everything that a client needs.
pub struct ClientSetup {
    /// Who this client is.
    pub identity: Identity,
    /// What it calls itself.
    pub name: DeviceName,
    /// Whom it knows.
    pub hosts: HostStore,
    /// The host's address as the person wrote it: under it the host is remembered.
    pub host: String,
    /// The same; a lost host is asked for again under its name.
    pub target: Target,
    /// The host's addresses, best first: the first that answers is taken.
    pub paths: Vec<PathId>,
    /// The PIN that the host shows, for one pairing; a known host is not shown it, see
    /// [`HostCredentials`](openuvr_proto::control::credentials::HostCredentials).
    pub pin: Option<Pin>,
    /// What a portal says of the host, in place of what is known of it and of a PIN.
    pub portal: Option<PortalWord>,
    /// Whether to pair although the host is known.
    pub pair_again: bool,
    /// What is asked of the host.
    pub offer: Offer,
    /// What decodes its codec, instead of the first of the table that does.
    pub decoder: Option<decode::Backend>,
    /// The ways there.
    pub link: Arc<Ladder>,
    /// The one transport that will do; `None`: the best that works.
    pub only: Option<Rung>,
    /// Where pictures go.
    pub surface: OpenSurface,
    /// Input that does not come from the surface's window; `None`: the window's.
    pub input: Option<Box<dyn InputSource>>,
    /// Whether input is sent at all.
    pub send_input: bool,
    /// Where the person's head is; `None`: nobody knows, or the application says it
    /// ([`ClientRuntime::set_pose`]).
    pub head: Option<Head>,
    /// How pictures of eyes are shown.
    pub eyes: Eyes,
    /// Where sound goes; `None`: nowhere, and the offer asks for none.
    pub audio: Option<AudioSink>,
    /// The person's microphone; `None`: the offer names none.
    pub microphone: Option<MicrophoneSource>,
    /// The X display (`:0`; empty: what the environment variable DISPLAY says) whose clipboard the host may
    /// share; `None`: none.
    pub clipboard: Option<String>,
    /// What is known of game pads, if those of this machine are for a host that takes them; `None`: they are
    /// not.
    pub pads: Option<Database>,
    /// Whether figures of the latency lie over the picture at first.
    pub overlay: bool,
    /// Whether a lost host is looked for again.
    pub reconnect: bool,
    /// How urgent the threads are.
    pub scheduler: Scheduler,
}

/// How much louder or quieter one press makes sound, in per cent of how it comes.
const VOLUME_STEP: i32 = 10;

/// What `openuvr client` says before the name of a session's link; benches look for it in its messages.
pub const COMES_BY: &str = "the video comes by ";

/// Something that the application may want to show or write down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A session began: paired just now, or known from before.
    Connected {
        /// Whether the PIN was used.
        paired: bool,
        /// The host's key's fingerprint.
        fingerprint: String,
        /// That of the key which was known before, if they paired again.
        before: Option<String>,
    },
    /// The host granted a role.
    Granted {
        /// The role.
        role: Role,
        /// The host's name.
        host: String,
        /// Why an observer does not play.
        watching: Option<WatchReason>,
    },
    /// The host's video comes with this transport now.
    Link(Rung),
    /// The first picture of this size is shown.
    Showing(Size),
    /// The person wants keys told like this from now on.
    Keys(Keys),
    /// Whether what is streamed is to be seen at the host: if not, no pictures come for now.
    SourceShown(bool),
    /// A game pad of this name is for the host from now on (`true`), or is not any more.
    Pad(String, bool),
    /// What the person should know of the clipboard that the host shares: never what was copied.
    Clipboard(String),
    /// What the person should know of the microphone: that it is another device.
    Sound(String),
    /// What became of a frame.
    Report(Report),
    /// How sound is played, about once a second.
    Audio(AudioReport),
    /// The person wants to see these eyes.
    Eyes(EyeView),
    /// What re-aiming pictures to where the head looks has cost; told at the end.
    ReAimed(ReAimed),
    /// A hand of the person's is to feel this now, in place of what it felt.
    Haptic(Haptic),
    /// The person changed how loud sound is: per cent, 0 where it is muted.
    Volume(u32),
    /// The host is silent or gone; it is looked for again.
    Lost(Option<GoodbyeReason>),
    /// It is over.
    StopReason(StopReason),
    /// Something failed and the client goes on.
    Trouble(String),
}

/// Why a client stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// The person closed the window or asked to stop.
    Quit,
    /// The host ended it, for this reason.
    Host(GoodbyeReason),
    /// No session came about.
    Handshake(HandshakeError),
    /// The host granted nothing.
    Refused(Refusal),
    /// Something failed for good.
    Failed(String),
}

/// What the client's threads share.
struct Shared {
    session: Mutex<Option<ClientSession>>,
    /// Room for a datagram, for whoever has the session.
    datagram: Mutex<Vec<u8>>,
    paths: Arc<ladder::Paths>,
    link: Arc<Ladder>,
    stop: AtomicBool,
    /// Whether the person wants to see figures over the picture.
    overlay: AtomicBool,
    /// How loud sound is; `None`: there is none.
    volume: Option<Arc<Volume>>,
    /// How the host's application reads keys: a [`Keys`].
    keys: AtomicU8,
    /// The size of the window that shows the pictures, as the host is to hear it.
    window_size: Mutex<Option<Size>>,
    /// What the display is like that shows the pictures, if that was said.
    display: Mutex<Option<Display>>,
    clipboard: clipboard::Desk,
    pads: pads::PadDesk,
    eyes: Arc<eyes::Desk>,
    /// What input moves the head, if input does.
    head_input: Mutex<Option<Box<dyn HeadInput>>>,
    /// The emulated controllers of a client with a head source.
    hands: Mutex<Option<Hands>>,
    media_sleeps_until: AtomicI64,
    /// Where others wake the media thread.
    to_media: Site,
    unsent: Mutex<Option<String>>,
    notices: SyncSender<Notice>,
    end: Mutex<Option<StopReason>>,
    lost_notices: AtomicU64,
}

impl Shared {
    fn session(&self) -> MutexGuard<'_, Option<ClientSession>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a datagram to the host. What is not sent is sent again; why it was not is kept, for
    /// when the host falls silent. A full buffer is no reason.
    fn send(&self, path: PathId, datagram: &[u8]) {
        let outcome = self.link.send(path, datagram, datagram.len());
        let why = outcome.err().filter(|e| !matches!(e, LinkError::Full));
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        *unsent = why.map(|e| e.to_string());
    }

    /// Why the last datagram was not sent, if it was not.
    fn unsent(&self) -> Option<String> {
        let unsent = self.unsent.lock();
        unsent.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends what the session wants to say, and wakes the media thread if it would sleep past
    /// the session's next timeout.
    fn flush(&self, session: &mut ClientSession) {
        let mut datagram = self.datagram.lock().unwrap_or_else(PoisonError::into_inner);
        while session.poll_transmit(clock::now(), &mut datagram) {
            self.send(self.paths.now(), &datagram);
        }
        while let Some(path) = session.poll_on_path(clock::now(), &mut datagram) {
            // What does not arrive is the answer.
            let _ = self.link.send(path, &datagram, datagram.len());
        }
        let next = session.next_timeout().map_or(i64::MAX, |(at, _)| at.0);
        if next < self.media_sleeps_until.load(Ordering::Relaxed) {
            self.to_media.sent();
            self.link.wake();
        }
    }

    /// Changes how loud sound is, as the person wants it, and tells.
    fn sound_wish(&self, wish: SoundWish) {
        let Some(volume) = &self.volume else {
            return;
        };
        let percent = match wish {
            SoundWish::Mute => volume.toggle_mute().then_some(0),
            SoundWish::Louder => Some(volume.change(VOLUME_STEP)),
            SoundWish::Quieter => Some(volume.change(-VOLUME_STEP)),
        };
        self.notice(Notice::Volume(percent.unwrap_or_else(|| volume.change(0))));
    }

    /// The person's head is here: see [`ClientRuntime::set_pose`].
    fn pose(&self, pose: &Pose, sampled: Instant) -> Option<PoseId> {
        self.eyes.head_at(*pose, sampled);
        let mut session = self.session();
        let session = session.as_mut()?;
        let id = session.pose(clock::now(), *pose, sampled);
        self.flush(session);
        Some(id)
    }

    /// Whether this moves the head, and thus is not for the host.
    fn moves_head(&self, event: &InputEvent) -> bool {
        let head = |input: &mut Box<dyn HeadInput>| input.take(event);
        let hands = |hands: &mut Hands| hands.take(event);
        lock(&self.head_input).as_mut().is_some_and(head)
            || lock(&self.hands).as_mut().is_some_and(hands)
    }

    /// From now on input is for head and hands, or not any more.
    fn grabbed(&self, grabbed: bool) {
        if let Some(input) = lock(&self.head_input).as_mut() {
            input.grabbed(grabbed);
        }
        if let Some(hands) = lock(&self.hands).as_mut() {
            hands.grabbed(grabbed);
        }
    }

    /// When poses are to be sampled, of a host that says it.
    fn poses_wanted(&self) -> Option<Refresh<Instant>> {
        self.session().as_ref()?.poses_wanted(clock::now())
    }

    /// The person holds these: see [`ClientRuntime::push_controllers`].
    fn controllers(&self, sampled: Instant, states: Controllers) -> Option<u32> {
        let mut session = self.session();
        let session = session.as_mut()?;
        let number = session.controllers(clock::now(), states, sampled);
        self.flush(session);
        Some(number)
    }

    /// Sends what the person did, now if it is not known when.
    fn input(&self, event: InputEvent, sampled: Option<Instant>) {
        let now = clock::now();
        if let Some(session) = self.session().as_mut() {
            session.input(now, event, sampled.map_or(now, |at| at.min(now)));
            self.flush(session);
        }
    }

    /// The window has this size: the host hears of it now, and at the beginning of each session.
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

    /// Passes on what the ladder says; the end, if it is one.
    fn ladder_event(&self, event: ladder::LinkEvent) -> Option<StopReason> {
        match event {
            ladder::LinkEvent::On(rung) => self.notice(Notice::Link(rung)),
            ladder::LinkEvent::Trouble(why) => self.notice(Notice::Trouble(why)),
            ladder::LinkEvent::Failed(why) => return Some(StopReason::Failed(why)),
        }
        None
    }

    /// The client's end, which must not be lost among reports that nobody reads.
    fn finish(&self, over: StopReason) {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.get_or_insert(over);
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

/// Says so when the thread that holds it panics, and ends the others: without it the window would
/// only stand still, or take no input, not even its being closed.
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
    /// Starts the media thread, which connects, and the input thread once there is a surface.
    ///
    /// # Errors
    /// One line, if a thread can't be started.
    pub fn start(mut setup: ClientSetup) -> Result<ClientRuntime, String> {
        let (head, head_input) =
            (setup.head.take()).map_or((None, None), |head| (Some(head.source), head.input));
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
            clipboard: clipboard::Desk::default(),
            pads: pads::PadDesk::default(),
            eyes: Arc::new(eyes::Desk::new(setup.eyes.view)),
            head_input: Mutex::new(head_input),
            hands: Mutex::new(head.is_some().then(Hands::default)),
            media_sleeps_until: AtomicI64::new(i64::MAX),
            to_media: setup.scheduler.site("client-to-media"),
            unsent: Mutex::new(None),
            notices,
            end: Mutex::new(None),
            lost_notices: AtomicU64::new(0),
        });
        let scheduler = setup.scheduler.clone();
        let start = |e: std::io::Error| format!("can't start a thread: {e}");
        let search = match setup.reconnect {
            true => Some(search::Search::start(
                setup.target.clone(),
                setup.only,
                &scheduler,
            )),
            false => None,
        };
        let search = search.transpose().map_err(start)?;
        let media = media::Media::new(shared.clone(), setup, search, head.is_some());
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
        // If it can't be started, the others end with what is dropped.
        let head = head.map(|source| head::start(&client.shared, &scheduler, source));
        client.head = head.transpose().map_err(start)?;
        Ok(client)
    }

    /// Why the last datagram could not be sent to the host, if it could not: no network, a firewall
    /// of this machine.
    #[must_use]
    pub fn unsent(&self) -> Option<String> {
        self.shared.unsent()
    }

    /// The next notice; `None` when `timeout` is over. One thread asks at a time.
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
            end.take().map(Notice::StopReason)
        })
    }

    /// The person did this, now: input beside that of the surface. From any thread.
    pub fn input(&self, event: InputEvent) {
        self.shared.input(event, None);
    }

    /// The person's head is here, at `sampled` of the monotonic clock: the time of the sensor, or
    /// the moment that it was predicted for. It leaves at once; of more than 2000 a second some do
    /// not. From any thread. Its number; `None` while there is no session.
    pub fn set_pose(&self, pose: &Pose, sampled: Instant) -> Option<PoseId> {
        self.shared.pose(pose, sampled)
    }

    /// The person holds these controllers, as they were at `sampled` of the monotonic clock. They leave as
    /// poses do: the latest counts. From any thread. Their number; `None` while there is no session.
    pub fn push_controllers(&self, sampled: Instant, states: Controllers) -> Option<u32> {
        self.shared.controllers(sampled, states)
    }

    /// The display that shows the pictures is like this: the host's application draws what its eyes see, and for
    /// the moments at which it shows pictures. Said again when it changes, and in each session. From any thread.
    pub fn set_display(&self, display: Display) {
        let mut session = self.shared.session();
        *lock(&self.shared.display) = Some(display);
        if let Some(session) = session.as_mut() {
            session.display(clock::now(), display);
            self.shared.flush(session);
        }
    }

    /// Notices that found no room because nobody read them.
    #[must_use]
    pub fn lost_notices(&self) -> u64 {
        self.shared.lost_notices.load(Ordering::Relaxed)
    }

    /// Says goodbye to the host, stops the threads, and gives back what they still told.
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
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

impl Drop for ClientRuntime {
    fn drop(&mut self) {
        self.halt();
    }
}

/// How often the input thread looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A window that is dragged has many sizes: the host hears of one that stays for so long (guess: a hand
/// that rests). [`LOOK_EVERY`] may come on top.
const RESTS: Duration = Duration::from_millis(150);

/// The input thread: what the person does leaves the moment it happens.
fn run_input(shared: &Shared, mut source: Box<dyn InputSource>, send: bool) {
    let mut resized: Option<(Size, Instant)> = None;
    while !shared.stopping() {
        if let Some((size, _)) = resized.take_if(|(_, at)| clock::now().since(*at) >= RESTS) {
            shared.window_size(size);
        }
        let keys = [Keys::Symbol, Keys::Position, Keys::Both];
        let by = usize::from(shared.keys.load(Ordering::Relaxed));
        source.follow(keys.get(by).copied().unwrap_or_default());
        match source.next(Some(LOOK_EVERY)) {
            Ok(SourceEvent::Input(event)) if shared.moves_head(&event) => {}
            Ok(SourceEvent::Grabbed(grabbed)) => shared.grabbed(grabbed),
            Ok(SourceEvent::NextEyes) => shared.notice(Notice::Eyes(shared.eyes.next_view())),
            Ok(SourceEvent::Input(event)) if send => shared.input(event, None),
            Ok(SourceEvent::Sampled(event, at)) if send => shared.input(event, Some(at)),
            Ok(SourceEvent::Input(_) | SourceEvent::Sampled(..) | SourceEvent::TimedOut) => {}
            Ok(SourceEvent::Focused(focused)) => shared.focused(focused),
            Ok(SourceEvent::ToggleOverlay) => {
                shared.overlay.fetch_xor(true, Ordering::Relaxed);
                shared.link.wake();
            }
            Ok(SourceEvent::Sound(wish)) => shared.sound_wish(wish),
            Ok(SourceEvent::Resized(size)) => resized = Some((size, clock::now())),
            Ok(SourceEvent::Keys(keys)) => shared.notice(Notice::Keys(keys)),
            Ok(SourceEvent::Closed) => {
                shared.finish(StopReason::Quit);
                shared.stop();
            }
            Err(e) => {
                shared.finish(StopReason::Failed(e.to_string()));
                shared.stop();
            }
        }
    }
}
