//! The host's threads: capture → convert → encode → seal → send, and the control plane beside it.
//!
//! ```text
//! media    capture ─► convert ─► encode ─► (each slice) seal ─► send     one thread, one frame
//! further  └─ copy ─► convert ─► encode ─► (each slice) seal ─► send     one for each further rendition
//! control  receive ─► handshake │ sessions ─► input sink                 at a time
//! audio    capture ─► encode ─► seal ─► send, for each session that was granted it
//! cursor   pointer ─► sessions
//! clipboard  what is copied on the display ─► sessions; what the player copied ─► display
//! trust    who paired, who came ─► disk
//! ```
//! The media thread never waits for the control thread but for the lock around the sessions, which
//! nobody holds across a system call that can block. What overflows is a named drop.

mod admit;
mod audio;
mod clipboard;
pub mod config;
mod control;
mod cursor;
mod encodings;
mod figures;
mod gateway_host;
mod inputs;
mod media;
mod microphone;
mod notices;
mod pads;
mod pairing_text;
mod requests;
mod subscribe;
mod trust;
mod window_sizes;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_media::capture::cursor::CursorWatch;
use openuvr_media::capture::x11::Viewport;
use openuvr_media::capture::{Capture, Waker};
use openuvr_media::convert::Converter;
use openuvr_media::input_sink::InputSink;
use openuvr_media::input_sink::device::Devices;
use openuvr_media::input_sink::pads::{Pads, ShownPads};
use openuvr_net::Link;
use openuvr_net::address::segmented;
use openuvr_proto::control::handshake::HostHandshake;
use openuvr_proto::control::identity::Identity;
use openuvr_proto::control::negotiate::{Role, Wishes};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::ticket::TicketGate;
use openuvr_proto::host::figures::Figures;
use openuvr_proto::host::{Asked, Host, HostPolicy};
use openuvr_proto::id::{PathId, SubscriberId};
use openuvr_proto::input::pad::MAX_PADS;
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::send::rendition::{AppliedInput, FrameOutcome};
use openuvr_proto::send::subscriber::Feedback;
use openuvr_proto::units::Bitrate;
use openuvr_proto::wire::control::{GoodbyeReason, ResendRequest};

pub use self::admit::{Admission, AdmitRefused, AdmissionGrant};
use self::audio::AudioCommand;
pub use self::audio::{AudioSource, OpenCapture, Payload};
pub use self::clipboard::{CLIPBOARD_WAYS, SharedClipboard};
use self::encodings::Assigned;
pub use self::encodings::{Encoding, Encodings, SUBPEL_PIXELS, codec_of};
pub use self::gateway_host::{Admitted, GatewayHost, Listener};
pub use self::inputs::{ApplicationInput, InputQueue};
use self::microphone::Microphone;
use self::notices::Board;
pub use self::notices::{Notice, Notices};
pub use self::subscribe::SubscribeError;
use crate::clock;
use crate::scheduling_latency::WakeupSite;
use crate::sched::{self, Scheduler};
pub use crate::sound_player::{AudioSink, OpenPlayback};
use crate::trust_store::DeviceStore;

/// Messages that may wait for the media thread: each comes from a subscriber's coming, going or
/// wish, of which there are few.
const MEDIA_COMMANDS: usize = 256;

/// Ends of frames that may wait for the control thread, which takes them at each turn: a frame of
/// each of 64 clients ([`config::Config::max_observers`]) four times.
const ENDS: usize = 256;

/// Commands that may wait for the audio thread, which takes them after each payload: the coming, going or
/// moving of a client.
const AUDIO_COMMANDS: usize = 256;

/// Everything that a host needs. All of it is opened by the caller, so that each failure has its
/// own clear line before a thread starts.
pub struct HostSetup {
    /// Names, roles, limits.
    pub policy: HostPolicy,
    /// Who this host is.
    pub identity: Identity,
    /// Whom it knows.
    pub devices: DeviceStore,
    /// A pairing window to open at once: its PIN and how long.
    pub pairing: Option<(Pin, Duration)>,
    /// What takes a portal's tickets, if they are taken.
    pub tickets: Option<TicketGate>,
    /// The way to the clients.
    pub link: Arc<dyn Link>,
    /// Where pictures come from.
    pub capture: Box<dyn Capture>,
    /// Where the picture lies on its display; `None` if input is not injected there.
    pub viewport: Option<Viewport>,
    /// The pointer, if it is sent.
    pub cursor: Option<CursorWatch>,
    /// Where input goes.
    pub input: Input,
    /// Converts pictures for encoders that want NV12.
    pub converter: Converter,
    /// How pictures are encoded, and for whom.
    pub encodings: Encodings,
    /// Where the player's microphone is heard, if it may be: [`HostPolicy::streams`] offers it.
    pub microphone: Option<AudioSink>,
    /// The sound that clients may have, if there is any: [`HostPolicy::streams`] offers it.
    pub audio: Option<AudioSource>,
    /// The clipboard that the player shares, if it does.
    pub clipboard: Option<SharedClipboard>,
    /// Where the player's game pads are shown, if they are.
    pub pads: Option<Pads>,
    /// How urgent the threads are.
    pub scheduler: Scheduler,
}

/// Where the player's input goes.
pub enum Input {
    /// Into a window system or a device.
    Sink(Box<dyn InputSink>),
    /// To the application, which takes it when it draws.
    Application(Arc<InputQueue>),
}

/// What the other threads tell the media thread.
enum MediaCommand {
    Add {
        id: SubscriberId,
        role: Role,
        assigned: Assigned,
        attachment: Attachment,
    },
    Role(SubscriberId, Role),
    Path(SubscriberId, PathId),
    Remove(SubscriberId),
    /// What a subscriber says of what it gets.
    Feedback(SubscriberId, Feedback),
    Resend(SubscriberId, ResendRequest),
    /// What the video may take at most.
    Limit(Bitrate),
    /// A rendition's thread gives back what it made it with.
    Returned(Box<media::ReturnedPipeline>),
}

impl MediaCommand {
    /// Whom it is about.
    fn subscriber(&self) -> Option<SubscriberId> {
        match self {
            MediaCommand::Add { id, .. }
            | MediaCommand::Role(id, _)
            | MediaCommand::Path(id, _)
            | MediaCommand::Remove(id)
            | MediaCommand::Feedback(id, _)
            | MediaCommand::Resend(id, _) => Some(*id),
            MediaCommand::Limit(_) | MediaCommand::Returned(_) => None,
        }
    }
}

/// How a subscriber takes frames.
enum Attachment {
    /// Sealed, and sent there.
    Session {
        path: PathId,
        wishes: Wishes,
        media: Box<MediaSender>,
    },
    /// In a thread of its own.
    Other {
        wishes: Wishes,
        detached: subscribe::Detached,
    },
}

/// What the host's threads share.
struct Shared {
    sessions: Mutex<Host>,
    /// Room for a datagram, for whoever has the sessions.
    datagram: Mutex<Vec<u8>>,
    link: Arc<dyn Link>,
    stop: AtomicBool,
    /// What the clients are told at the end.
    goodbye_reason: Mutex<GoodbyeReason>,
    /// Until when the control thread sleeps, in nanoseconds of our clock.
    control_sleeps_until: AtomicI64,
    /// The newest input that was injected.
    injected: Mutex<Option<AppliedInput>>,
    /// What the application lets the video take at most, in bits a second, until the media thread
    /// has seen it; then 0.
    bitrate_limit: AtomicU64,
    /// How frames of further renditions ended, for the control thread, which tells the sessions: an
    /// ordinary thread must not hold them while the player's waits.
    ends: SyncSender<FrameOutcome>,
    /// Where others, or its timer, wake the control thread; and where others wake the media thread.
    to_control: WakeupSite,
    control_timer: WakeupSite,
    to_media: WakeupSite,
    notices: Board,
    /// How the subscribers see it: written by the control thread, and not waited for by the media thread.
    figures: Mutex<Figures>,
    /// The threads of subscribers that are no sessions.
    detached: subscribe::DetachedSubscribers,
}

impl Shared {
    /// Those of a host that starts, and where its frames' ends come out.
    fn new(
        policy: HostPolicy,
        link: Arc<dyn Link>,
        scheduler: &Scheduler,
    ) -> (Arc<Shared>, Receiver<FrameOutcome>) {
        let (ends, end_inbox) = sync_channel(ENDS);
        let shared = Shared {
            sessions: Mutex::new(Host::new(policy)),
            datagram: Mutex::default(),
            link,
            stop: AtomicBool::new(false),
            goodbye_reason: Mutex::new(GoodbyeReason::Quit),
            control_sleeps_until: AtomicI64::new(i64::MAX),
            injected: Mutex::default(),
            bitrate_limit: AtomicU64::new(0),
            ends,
            to_control: scheduler.site("host-to-control"),
            control_timer: scheduler.site("host-control-timer"),
            to_media: scheduler.site("host-to-media"),
            notices: Board::default(),
            figures: Mutex::default(),
            detached: subscribe::DetachedSubscribers::default(),
        };
        (Arc::new(shared), end_inbox)
    }

    fn sessions(&self) -> MutexGuard<'_, Host> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what the sessions want to say, and wakes the control thread if it would sleep past
    /// the sessions' next timeout.
    fn flush(&self, sessions: &mut Host) {
        let mut datagram = self.datagram.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(path) = sessions.poll_transmit(clock::now(), &mut datagram) {
            // What is not sent is sent again; a full buffer is no reason to stop.
            let _ = self.link.send(path, &datagram, datagram.len());
        }
        while let Some(probe) = sessions.poll_probe() {
            self.answer_probe(sessions, &probe);
        }
        while let Some(id) = sessions.poll_updated() {
            self.detached.update(id);
        }
        let next = sessions.next_timeout().map_or(i64::MAX, |(at, _)| at.0);
        if next < self.control_sleeps_until.load(Ordering::Relaxed) {
            self.wake_control();
        }
    }

    fn wake_control(&self) {
        self.to_control.sent();
        self.link.wake();
    }

    fn wake_media(&self, media: &Waker) {
        self.to_media.sent();
        media.wake();
    }

    /// Sends a burst as a frame would be sent. A transport that finds out on the way that it can't
    /// is not what it said, and says so.
    fn answer_probe(&self, sessions: &mut Host, probe: &Asked) {
        let path = segmented(probe.path, probe.segmented);
        let mut burst = Vec::new();
        loop {
            let transport = self.link.rung(path);
            let segment = sessions.answer_probe(clock::now(), probe, transport, &mut burst);
            // What does not arrive is the answer, too.
            let _ = self.link.send(path, &burst, segment);
            if self.link.rung(path) == transport {
                break;
            }
        }
    }

    /// The host's end.
    fn finish(&self, notice: Notice) {
        self.notices.finish(notice);
    }

    fn notice(&self, notice: Notice) {
        self.notices.post(notice);
    }

    /// The source is to be seen now, or not: both ends are told.
    fn source_shown(&self, shown: bool) {
        let mut sessions = self.sessions();
        let news = sessions.source_shown(shown);
        self.flush(&mut sessions);
        drop(sessions);
        if news {
            self.notice(Notice::SourceShown(shown));
        }
    }

    /// The source ended for `why`: the clients are told when the host stops.
    fn end_source(&self, why: GoodbyeReason) {
        let goodbye_reason = self.goodbye_reason.lock();
        *goodbye_reason.unwrap_or_else(PoisonError::into_inner) = why;
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether the host stops, or its source has ended.
    fn is_ending(&self) -> bool {
        self.stopping() || self.notices.is_finished()
    }
}

/// Says so when the thread that holds it panics: without it the host would go on as if nothing
/// were.
struct PanicReporter(Arc<Shared>, &'static str);

impl Drop for PanicReporter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = format!("the {} thread panicked: please report it", self.1);
            self.0.finish(Notice::Failed(why));
        }
    }
}

/// Each is opened anew for each size, whenever it fails, and whenever somebody comes to take what it makes;
/// that it can be opened at all is better known before somebody connects.
fn open_encoders(setup: &HostSetup) -> Result<(), String> {
    let size = setup.capture.size();
    for encoding in setup.encodings.all() {
        let target = encoding.rendition.policy.range.start;
        media::open(encoding, size, target).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn handshake(setup: &mut HostSetup) -> Result<HostHandshake, String> {
    let mut handshake = HostHandshake::new(&setup.identity).map_err(|e| e.to_string())?;
    if let Some((pin, span)) = &setup.pairing {
        handshake.open_pairing(clock::now(), pin.clone(), *span);
    }
    if let Some(gate) = setup.tickets.take() {
        handshake.take_tickets(gate);
    }
    Ok(handshake)
}

fn thread_error(error: std::io::Error) -> String {
    format!("can't start a thread: {error}")
}

/// A running host. Dropping it stops it.
pub struct HostRuntime {
    shared: Arc<Shared>,
    /// From the start on.
    notices: Notices,
    threads: Vec<JoinHandle<()>>,
    wakers: Vec<Waker>,
    commands: SyncSender<control::Command>,
    /// To the media thread, and what wakes it.
    media_commands: SyncSender<MediaCommand>,
    media: Waker,
    /// To the audio thread, if there is sound.
    audio: Option<SyncSender<AudioCommand>>,
    scheduler: Scheduler,
    /// Subscribers beside the sessions until now.
    others: AtomicU32,
}

impl HostRuntime {
    /// Starts the threads.
    ///
    /// # Errors
    /// One line, if a thread can't be started, an encoder can't be opened, or no randomness is
    /// to be had.
    pub fn start(mut setup: HostSetup) -> Result<HostRuntime, String> {
        open_encoders(&setup)?;
        let handshake = handshake(&mut setup)?;
        let encodings = Arc::new(setup.encodings);
        let (shared, ends) = Shared::new(setup.policy, setup.link, &setup.scheduler);
        let notices = shared.notices.reader();
        let (media_commands, media_inbox) = sync_channel(MEDIA_COMMANDS);
        let (commands, command_inbox) = sync_channel(16);
        let media = setup.capture.waker();
        // From here on a failure stops what was started, by its drop.
        let mut host = HostRuntime {
            shared,
            notices,
            threads: Vec::new(),
            wakers: vec![media.clone()],
            commands,
            media_commands: media_commands.clone(),
            media: media.clone(),
            audio: None,
            scheduler: setup.scheduler,
            others: AtomicU32::new(0),
        };
        let audio = setup.audio.map(|source| host.start_audio(source));
        let audio = audio.transpose().map_err(thread_error)?;
        let (shared, scheduler) = (host.shared.clone(), host.scheduler.clone());
        let microphone = Microphone::new(shared, scheduler, setup.microphone);
        host.audio.clone_from(&audio);
        let clipboard = setup.clipboard.map(|shares| host.start_clipboard(shares));
        let clipboard = clipboard.transpose().map_err(thread_error)?;
        let pads = setup.pads.map(|pads| host.start_pads(pads));
        let pads = pads.transpose().map_err(thread_error)?;
        let pictures = (setup.capture, setup.converter);
        host.start_media(
            pictures,
            encodings.clone(),
            (media_commands.clone(), media_inbox),
        )
        .and_then(|()| {
            let (trust, writer) =
                trust::Trust::start(&host.shared, setup.devices, &host.scheduler)?;
            host.start_control(control::Control {
                shared: host.shared.clone(),
                handshake,
                trust,
                input: setup.input,
                input_devices: Devices::default(),
                viewport: setup.viewport,
                encodings,
                media_commands,
                media,
                audio,
                microphone,
                clipboard,
                pads,
                ends,
                commands: command_inbox,
                paths: std::collections::HashMap::new(),
                player: None,
                window_sizes: window_sizes::WindowSizes::default(),
                loss_reported: false,
                withheld: None,
            })?;
            // It ends when the control thread has.
            host.threads.push(writer);
            setup
                .cursor
                .map_or(Ok(()), |watch| host.start_cursor(watch))
        })
        .map_err(thread_error)?;
        Ok(host)
    }

    fn start_audio(&mut self, source: AudioSource) -> std::io::Result<SyncSender<AudioCommand>> {
        let (commands, inbox) = sync_channel(AUDIO_COMMANDS);
        let audio = audio::Audio::new(self.shared.clone(), source, inbox);
        self.start_thread(sched::ThreadRole::Audio, "audio", move || audio.run())?;
        Ok(commands)
    }

    fn start_clipboard(&mut self, shares: SharedClipboard) -> std::io::Result<clipboard::Inbox> {
        let inbox = shares.inbox();
        self.shared.sessions().clipboard_ways(shares.ways());
        self.wakers.push(inbox.waker.clone());
        let (shared, its) = (self.shared.clone(), inbox.clone());
        self.start_thread(sched::ThreadRole::Background, "clipboard", move || {
            clipboard::run(&shared, shares, &its);
        })?;
        Ok(inbox)
    }

    fn start_pads(&mut self, pads: Pads) -> std::io::Result<ShownPads> {
        self.shared.sessions().pads_taken(MAX_PADS);
        self.wakers.push(pads.rumble.waker());
        let shared = self.shared.clone();
        self.start_thread(sched::ThreadRole::Background, "pads", move || {
            pads::run(&shared, pads.rumble);
        })?;
        Ok(ShownPads::new(pads.sink))
    }

    fn start_media(
        &mut self,
        pictures: (Box<dyn Capture>, Converter),
        encodings: Arc<Encodings>,
        media_commands: (SyncSender<MediaCommand>, Receiver<MediaCommand>),
    ) -> std::io::Result<()> {
        let (shared, scheduler) = (self.shared.clone(), self.scheduler.clone());
        let media = media::Media::new(shared, pictures, encodings, scheduler, media_commands);
        self.start_thread(sched::ThreadRole::Encode, "media", move || media.run())
    }

    fn start_control(&mut self, control: control::Control) -> std::io::Result<()> {
        self.start_thread(sched::ThreadRole::Dispatch, "control", move || control.run())
    }

    fn start_cursor(&mut self, watch: CursorWatch) -> std::io::Result<()> {
        self.wakers.push(watch.waker());
        let shared = self.shared.clone();
        self.start_thread(sched::ThreadRole::Input, "cursor", move || {
            cursor::run(&shared, watch);
        })
    }

    fn start_thread(
        &mut self,
        role: sched::ThreadRole,
        name: &'static str,
        run: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        let panic_reporter = PanicReporter(self.shared.clone(), name);
        let thread = (self.scheduler).spawn(role, &format!("ouvr-{name}"), move || {
            let _panic_reporter = panic_reporter;
            run();
        });
        self.threads.push(thread?);
        Ok(())
    }

    /// The next notice since the start; `None` when `timeout` is over. For the one who started the host.
    #[must_use]
    pub fn notice(&self, timeout: Duration) -> Option<Notice> {
        self.notices.next(timeout)
    }

    /// One more reader of the notices, from now on. Each gets all of them; one that is slower than 4096
    /// notices loses the oldest, and is told how many ([`Notice::Lost`]).
    #[must_use]
    pub fn notices(&self) -> Notices {
        self.shared.notices.reader()
    }

    /// The application has ended by itself: when the host stops, the clients are told so, and look for it no
    /// longer.
    pub fn source_ended(&self) {
        self.shared.end_source(GoodbyeReason::SourceEnded);
    }

    /// What is streamed is to be seen now, or not (a window that was minimised): the clients and who
    /// reads the notices are told if it is new.
    pub fn source_shown(&self, shown: bool) {
        self.shared.source_shown(shown);
    }

    fn command(&self, command: control::Command) -> Result<(), String> {
        let sent = self.commands.try_send(command);
        self.shared.link.wake();
        sent.map_err(|e| match e {
            TrySendError::Full(_) => "the host is busy: try again".to_owned(),
            TrySendError::Disconnected(_) => "the host has stopped".to_owned(),
        })
    }

    /// What the video may take on the wire at most from the next frame on.
    pub fn set_bitrate(&self, target: Bitrate) {
        self.shared.bitrate_limit.store(target.0, Ordering::Relaxed);
    }

    /// Says goodbye to all clients, stops the threads, and gives back what they still told.
    #[must_use]
    pub fn stop(mut self) -> Vec<Notice> {
        self.halt();
        self.notices.drain()
    }

    /// Says goodbye to all clients and lets the threads end, without waiting for them.
    pub fn cancel(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for waker in &self.wakers {
            waker.wake();
        }
        self.shared.link.wake();
    }

    fn halt(&mut self) {
        self.cancel();
        // While nobody listens the audio thread waits for commands, and none can come now.
        self.audio = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
        self.shared.detached.clear();
    }
}

impl Drop for HostRuntime {
    fn drop(&mut self) {
        self.halt();
    }
}
