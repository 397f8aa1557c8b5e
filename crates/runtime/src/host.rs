//! The host's threads: capture → convert → encode → seal → send, and the control plane in parallel.
//!
//! ```text
//! media    capture ─► convert ─► encode ─► (each slice) seal ─► send     one thread, one frame at a time
//! rendition └─ copy ─► convert ─► encode ─► (each slice) seal ─► send    one thread for each secondary rendition
//! control  receive ─► handshake │ sessions ─► input sink
//! audio    capture ─► encode ─► seal ─► send, for each session with a granted stream
//! cursor   pointer ─► sessions
//! clipboard  text copied on the display ─► sessions; the player's text ─► display
//! trust    pairings and visits of devices ─► disk
//! ```
//! The media thread waits for the control thread only at the mutex of the sessions. No thread holds that mutex across a
//! blocking system call. If a queue overflows, the frame is dropped, and its outcome states the cause.

mod admit;
mod audio;
mod clipboard;
pub mod config;
mod control;
mod cursor;
mod encodings;
mod figures;
mod gateway_host;
mod heartbeat;
mod inputs;
mod media;
mod microphone;
mod notices;
mod pads;
mod pairing_words;
mod requests;
mod subscribe;
mod trust;
mod window_sizes;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_clock as clock;
pub use openuvr_media::audio::aac::{CONFIG as AAC_CONFIG, MAX_BYTES as AAC_MAX_BYTES};
use openuvr_media::capture::cursor::CursorWatch;
use openuvr_media::capture::x11::Viewport;
use openuvr_media::capture::{Capture, Waker};
use openuvr_media::convert::Converter;
use openuvr_media::input_sink::InputSink;
use openuvr_media::input_sink::device::Devices;
use openuvr_media::input_sink::pads::{Pads, VirtualPads};
use openuvr_net::Link;
use openuvr_net::address::segmented;
use openuvr_proto::control::handshake::HostHandshake;
use openuvr_proto::control::identity::Identity;
use openuvr_proto::control::negotiate::{ClientConstraints, Role};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::ticket::TicketGate;
use openuvr_proto::host::figures::Figures;
use openuvr_proto::host::{Host, HostPolicy, ProbeRequest};
use openuvr_proto::id::{PathId, SubscriberId};
use openuvr_proto::input::pad::MAX_PADS;
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::send::rendition::{AppliedInput, FrameOutcome};
use openuvr_proto::send::subscriber::Feedback;
use openuvr_proto::units::Bitrate;
use openuvr_proto::wire::control::{GoodbyeReason, RetransmissionRequest};

pub use self::admit::{Admission, AdmissionCallback, AdmissionGrant, AdmitRefused};
use self::audio::AudioCommand;
pub(crate) use self::audio::add_callback;
pub use self::audio::{AudioSource, OpenCapture, Payload, SoundCodec};
pub use self::clipboard::{CLIPBOARD_DIRECTIONS, SharedClipboard};
use self::encodings::Assigned;
pub use self::encodings::{EncoderName, Encoding, Encodings, SUBPEL_PIXELS, codec_of};
pub use self::gateway_host::{AudioListener, GatewayHost};
pub use self::inputs::{ApplicationInput, InputQueue};
use self::microphone::Microphone;
use self::notices::Board;
pub use self::notices::{Notice, Notices};
pub use self::subscribe::SubscribeError;
use crate::sched::{self, Scheduler};
use crate::scheduling_latency::WakeupSite;
pub use crate::sound_player::{AudioSink, OpenPlayback};
use crate::trust_store::DeviceStore;

/// Capacity of the media thread's command queue. The commands announce subscribers that join or leave, and forward
/// their requests and feedback.
const MEDIA_COMMANDS: usize = 256;

/// The value of [`Shared::key_frame_interval`] that requests no change.
const UNCHANGED: u64 = u64::MAX;

/// Maximum number of frame outcomes that wait for the control thread: four frames of each of 64 clients
/// ([`config::Config::max_observers`]). The control thread takes the outcomes in each iteration.
const ENDS: usize = 256;

/// Maximum number of commands that wait for the audio thread, which takes them after each payload. A client causes a
/// command when it joins, leaves or changes its path.
const AUDIO_COMMANDS: usize = 256;

/// Everything a host needs. The caller opens all components, so that each failure is reported before a thread starts.
pub struct HostSetup {
    /// Names, roles, limits.
    pub policy: HostPolicy,
    /// The host's identity.
    pub identity: Identity,
    /// The known devices.
    pub devices: DeviceStore,
    /// The PIN and the duration of a pairing window that opens when the host starts.
    pub pairing: Option<(Pin, Duration)>,
    /// Validates a portal's tickets, if enabled.
    pub tickets: Option<TicketGate>,
    /// The link to the clients.
    pub link: Arc<dyn Link>,
    /// The source of pictures.
    pub capture: Box<dyn Capture>,
    /// The picture's position on its display; `None` if input is not injected into that display.
    pub viewport: Option<Viewport>,
    /// Watches the pointer, if the pointer is sent to clients.
    pub cursor: Option<Box<dyn CursorWatch>>,
    /// The target of input.
    pub input: Input,
    /// Converts pictures for encoders that require NV12.
    pub converter: Converter,
    /// The encoders and their assignment to clients.
    pub encodings: Encodings,
    /// The output for the player's microphone, if [`HostPolicy::streams`] offers one.
    pub microphone: Option<AudioSink>,
    /// The sound for clients, if [`HostPolicy::streams`] offers it.
    pub audio: Option<AudioSource>,
    /// The clipboard that is shared with the player, if enabled.
    pub clipboard: Option<SharedClipboard>,
    /// The sink of the player's game pads, if enabled.
    pub pads: Option<Pads>,
    /// Starts the threads with their priorities.
    pub scheduler: Scheduler,
}

/// The target of the player's input.
pub enum Input {
    /// A window system or a device.
    Sink(Box<dyn InputSink>),
    /// The application, which takes the input when it draws.
    Application(Arc<InputQueue>),
}

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
    Feedback(SubscriberId, Feedback),
    Resend(SubscriberId, RetransmissionRequest),
    /// The maximum bitrate of the video.
    Limit(Bitrate),
    /// The GOP size of the video; `None`: key frames only on request.
    KeyFrameInterval(Option<u32>),
    /// A rendition's thread returned its pipeline.
    Returned(Box<media::ReturnedPipeline>),
}

impl MediaCommand {
    /// The subscriber that the command concerns, if any.
    fn subscriber(&self) -> Option<SubscriberId> {
        match self {
            MediaCommand::Add { id, .. }
            | MediaCommand::Role(id, _)
            | MediaCommand::Path(id, _)
            | MediaCommand::Remove(id)
            | MediaCommand::Feedback(id, _)
            | MediaCommand::Resend(id, _) => Some(*id),
            MediaCommand::Limit(_)
            | MediaCommand::KeyFrameInterval(_)
            | MediaCommand::Returned(_) => None,
        }
    }
}

/// How a subscriber receives frames.
enum Attachment {
    /// A session: frames are sealed and sent to `path`.
    Session {
        path: PathId,
        constraints: ClientConstraints,
        media: Box<MediaSender>,
    },
    /// A subscriber with its own thread.
    Other {
        constraints: ClientConstraints,
        detached: subscribe::Detached,
    },
}

/// State shared by the host's threads.
struct Shared {
    sessions: Mutex<Host>,
    /// Datagram buffer; used while the sessions are locked.
    datagram: Mutex<Vec<u8>>,
    link: Arc<dyn Link>,
    stop: AtomicBool,
    /// The goodbye reason that the host sends to clients when it stops.
    goodbye_reason: Mutex<GoodbyeReason>,
    /// The time until which the control thread sleeps, in nanoseconds of the local clock.
    control_sleeps_until: AtomicI64,
    injected: Mutex<Option<AppliedInput>>,
    /// A new bitrate limit set by the application, in bit/s; 0 after the media thread has read the limit.
    bitrate_limit: AtomicU64,
    /// A new GOP size set by the application; 0: key frames only on request; [`UNCHANGED`] after the media thread has
    /// read it.
    key_frame_interval: AtomicU64,
    /// Frame outcomes of secondary renditions, for the control thread, which updates the sessions. The threads of
    /// secondary renditions must not lock the sessions themselves: they have no real-time priority, and the media
    /// thread, which serves the player, would wait for them.
    ends: SyncSender<FrameOutcome>,
    /// The wake-up sites of the control thread, of the control thread's timer, and of the media thread.
    to_control: WakeupSite,
    control_timer: WakeupSite,
    to_media: WakeupSite,
    heartbeat: heartbeat::Heartbeat,
    notices: Board,
    /// Statistics of the subscribers. The control thread writes them; the media thread does not lock them.
    figures: Mutex<Figures>,
    /// Subscribers that are not sessions. Each has its own thread.
    detached: subscribe::DetachedSubscribers,
}

impl Shared {
    /// The state of a new host, and the receiver of frame outcomes.
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
            key_frame_interval: AtomicU64::new(UNCHANGED),
            ends,
            to_control: scheduler.site("host-to-control"),
            control_timer: scheduler.site("host-control-timer"),
            to_media: scheduler.site("host-to-media"),
            heartbeat: heartbeat::Heartbeat::default(),
            notices: Board::default(),
            figures: Mutex::default(),
            detached: subscribe::DetachedSubscribers::default(),
        };
        (Arc::new(shared), end_inbox)
    }

    fn sessions(&self) -> MutexGuard<'_, Host> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the sessions' pending datagrams, and wakes the control thread if it would sleep past the
    /// sessions' next timeout.
    fn flush(&self, sessions: &mut Host) {
        let mut datagram = self.datagram.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(path) = sessions.poll_transmit(clock::now(), &mut datagram) {
            // Ignore errors: lost datagrams are retransmitted, and a full buffer is no reason to stop.
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

    /// Sends a burst that is as large as a frame. If the transport degrades during sending (no GSO), the burst is sent
    /// again, labelled with the actual transport.
    fn answer_probe(&self, sessions: &mut Host, asked: &ProbeRequest) {
        let path = segmented(asked.path, asked.segmented);
        let mut burst = Vec::new();
        loop {
            let transport = self.link.transport(path);
            let segment = sessions.answer_probe(clock::now(), asked, transport, &mut burst);
            // Ignore errors, because the client concludes from a missing burst that the transport fails.
            let _ = self.link.send(path, &burst, segment);
            if self.link.transport(path) == transport {
                break;
            }
        }
    }

    /// Posts the notice of the host's end. The owner of the host then stops it.
    fn finish(&self, notice: Notice) {
        self.notices.finish(notice);
    }

    fn notice(&self, notice: Notice) {
        self.notices.post(notice);
    }

    /// Sets the source's visibility. If it changed, notifies clients and readers of notices.
    fn source_shown(&self, shown: bool) {
        let mut sessions = self.sessions();
        let news = sessions.source_shown(shown);
        self.flush(&mut sessions);
        drop(sessions);
        if news {
            self.notice(Notice::SourceShown(shown));
        }
    }

    /// Records why the source ended. The host sends this reason to clients when it stops.
    fn end_source(&self, why: GoodbyeReason) {
        let goodbye_reason = self.goodbye_reason.lock();
        *goodbye_reason.unwrap_or_else(PoisonError::into_inner) = why;
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether the host is stopping or its source has ended.
    fn is_ending(&self) -> bool {
        self.stopping() || self.notices.is_finished()
    }
}

/// Reports a panic of the thread that owns this value. Otherwise, the host would continue without that thread.
struct PanicReporter(Arc<Shared>, &'static str);

impl Drop for PanicReporter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = format!("the {} thread panicked: please report it", self.1);
            self.0.finish(Notice::Failed(why));
        }
    }
}

/// Opens each encoder once as a check, before clients connect. Encoders are opened again for the first subscriber, for
/// each new size, and after a failure.
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
    /// All notices since the start.
    notices: Notices,
    threads: Vec<JoinHandle<()>>,
    wakers: Vec<Waker>,
    commands: SyncSender<control::Command>,
    /// Commands to the media thread, and its waker.
    media_commands: SyncSender<MediaCommand>,
    media: Waker,
    /// Commands to the audio thread, if there is sound.
    audio: Option<SyncSender<AudioCommand>>,
    scheduler: Scheduler,
    /// Number of subscribers so far that are not sessions.
    others: AtomicU32,
}

impl HostRuntime {
    /// Starts the threads.
    ///
    /// # Errors
    /// Returns a one-line error if a thread cannot be started, an encoder cannot be opened, or the system provides no
    /// randomness.
    pub fn start(mut setup: HostSetup) -> Result<HostRuntime, String> {
        open_encoders(&setup)?;
        let handshake = handshake(&mut setup)?;
        let encodings = Arc::new(setup.encodings);
        let (shared, ends) = Shared::new(setup.policy, setup.link, &setup.scheduler);
        if encodings.use_l4s() {
            shared.sessions().request_ecn_feedback();
        }
        let notices = shared.notices.reader();
        let (media_commands, media_inbox) = sync_channel(MEDIA_COMMANDS);
        let (commands, command_inbox) = sync_channel(16);
        let media = setup.capture.waker();
        // From here on, dropping `host` stops the started threads.
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
            // The trust writer ends after the control thread.
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
        self.shared
            .sessions()
            .clipboard_directions(shares.directions());
        self.wakers.push(inbox.waker.clone());
        let (shared, its) = (self.shared.clone(), inbox.clone());
        self.start_thread(sched::ThreadRole::Background, "clipboard", move || {
            clipboard::run(&shared, shares, &its);
        })?;
        Ok(inbox)
    }

    fn start_pads(&mut self, pads: Pads) -> std::io::Result<VirtualPads> {
        self.shared.sessions().pads_taken(MAX_PADS);
        self.wakers.push(pads.rumble.waker());
        let shared = self.shared.clone();
        self.start_thread(sched::ThreadRole::Background, "pads", move || {
            pads::run(&shared, pads.rumble);
        })?;
        Ok(VirtualPads::new(pads.sink))
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
        self.start_thread(sched::ThreadRole::Dispatch, "control", move || {
            control.run()
        })
    }

    fn start_cursor(&mut self, watch: Box<dyn CursorWatch>) -> std::io::Result<()> {
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

    /// The next notice since the host started; `None` after `timeout`. Only the owner of the host uses this reader.
    #[must_use]
    pub fn notice(&self, timeout: Duration) -> Option<Notice> {
        self.notices.next(timeout)
    }

    /// Creates another reader, which gets all notices from now on. A reader that is more than 4096 notices behind loses
    /// the oldest notices. [`Notice::Lost`] contains the number of lost notices.
    #[must_use]
    pub fn notices(&self) -> Notices {
        self.shared.notices.reader()
    }

    /// Checks whether the control thread and the media thread still run their loops. Returns the name of a thread that
    /// has not completed an iteration since the previous call. This call wakes both threads; allow them some time
    /// before the next call.
    #[must_use]
    pub fn hanging_thread(&self) -> Option<&'static str> {
        let hangs = self.shared.heartbeat.probe();
        self.shared.wake_control();
        self.shared.wake_media(&self.media);
        hangs
    }

    /// Records that the application has exited. When the host stops, it sends this reason to clients, which then do not
    /// reconnect.
    pub fn source_ended(&self) {
        self.shared.end_source(GoodbyeReason::SourceEnded);
    }

    /// Reports whether the streamed source is visible (a window that is not minimised). A change is sent to
    /// clients and readers of notices.
    pub fn source_shown(&self, shown: bool) {
        self.shared.source_shown(shown);
    }

    fn command(&self, command: control::Command) -> Result<(), String> {
        let sent = self.commands.try_send(command);
        self.shared.link.wake();
        sent.map_err(|e| match e {
            TrySendError::Full(_) => "the host is busy: retry".to_owned(),
            TrySendError::Disconnected(_) => "the host has stopped".to_owned(),
        })
    }

    /// Limits the video's bitrate on the wire, starting with the next frame.
    pub fn set_bitrate(&self, target: Bitrate) {
        self.shared.bitrate_limit.store(target.0, Ordering::Relaxed);
    }

    /// Changes the GOP size of the video, starting with the next frame: a key frame every `frames` frames, in
    /// [`KEY_FRAME_INTERVALS`](config::KEY_FRAME_INTERVALS); `None`: key frames only on request.
    pub fn set_key_frame_interval(&self, frames: Option<u32>) {
        let frames = frames.unwrap_or(0).into();
        self.shared
            .key_frame_interval
            .store(frames, Ordering::Relaxed);
    }

    /// Says goodbye to all clients, stops the threads, and returns the remaining notices.
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
        // Without listeners, the audio thread blocks while it waits for commands. Closing the command channel ends the
        // thread.
        self.audio = None;
        for thread in self.threads.drain(..) {
            // A panic was already reported on standard error.
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
