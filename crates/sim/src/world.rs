//! A deterministic test world on a virtual clock: one host, its clients, and the links between them.
//!
//! Sessions, rendition, senders and receivers are the shipped protocol code. The world adds the clock, the links, and
//! stand-ins for encoder and display. Each client has its own clock, with an offset and drift, so that the tests detect
//! a time taken from the wrong clock. The same seed gives the same run on every machine. A run panics if one of these
//! invariants is violated: received bytes equal the sent bytes; slices, frames and audio payloads are in
//! order; clock bounds hold; and timers advance.
//!
//! The world has no codec. A frame's slices are reproducible random bytes.

mod clock;
mod device;
mod host;
mod machine;
mod source;
mod tone;
mod view;
mod wakeups;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openuvr_proto::client::ClientEvent;
use openuvr_proto::control::handshake::{Established, PublicKey, SessionSecret};
use openuvr_proto::control::negotiate::{ClientConstraints, Offer, Role};
use openuvr_proto::control::streams::StreamOffer;
use openuvr_proto::control_event::ControlEvent;
use openuvr_proto::ecn::Ecn;
use openuvr_proto::host::{Ending, Host, HostPolicy, SecondPlayer};
use openuvr_proto::id::{FrameId, InputSeq, PathId, PoseId, SessionId, ViewId};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::pose::{Pose, ReceivedPose};
use openuvr_proto::send::congestion::Range;
use openuvr_proto::send::l4s::L4sMode;
use openuvr_proto::send::policy::Recovery;
use openuvr_proto::send::rendition::{AppliedInput, PolicySettings, Settings};
use openuvr_proto::send::update::CursorShape;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::FrameRecord;
use openuvr_proto::wire::Reject;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::media::{StreamId, StreamKind};

use crate::link::{Counters, LinkModel};
use crate::schedule::ImpairmentSchedule;
pub use clock::Clock;
pub use device::Device;
pub use machine::{DisplayedFrame, Machine};
pub use tone::ReceivedTone;
use tone::Tone;
use view::{Content, FREE, View};
pub use wakeups::{Stall, Wakeups};

/// Frame period while something moves: 60 Hz.
pub const FRAME_INTERVAL: Duration = Duration::from_nanos(16_666_667);

/// The host, its clients and the links.
pub struct World {
    now: Instant,
    seed: u64,
    host: Host,
    views: Vec<View>,
    tones: Vec<Tone>,
    machines: Vec<Machine>,
    /// The newest injected input.
    applied: Option<AppliedInput>,
    control: Vec<u8>,
    /// Scheduling of the host's threads; initially punctual.
    pub wakeups: Wakeups,
    /// Whether frames get the FEC that their link requires; initially yes.
    pub parity: bool,
    /// Whether requested fragments are retransmitted; initially yes.
    pub resend: bool,
    /// Whether the application draws each frame with the newest pose; initially no.
    pub draws_poses: bool,
    /// Control events with their times.
    pub decisions: Vec<(Instant, ControlEvent)>,
    /// Key frames with their start times.
    pub key_frames_sent: Vec<(FrameId, Instant)>,
    /// Intra refreshes: the first frame of each, and the number of frames after it until the refresh is complete.
    pub refreshes_sent: Vec<(FrameId, u16)>,
    /// For each session, the host's records of its frames, with the outcome of each frame.
    pub records: BTreeMap<u32, Vec<FrameRecord>>,
    /// For each session and view, the frames captured while the session was subscribed.
    captured: BTreeMap<(u32, ViewId), Vec<FrameId>>,
    /// Frames that were sent while nothing moved, and so repeat an earlier picture.
    pub repeated: BTreeSet<FrameId>,
    /// Input injected by the host, in order.
    pub injected: Vec<(InputSeq, InputEvent)>,
    /// Times at which the host released all input.
    pub released: Vec<Instant>,
    /// Times at which the repeat of held keys was disabled (`false`) or enabled (`true`).
    pub repeats: Vec<(bool, Instant)>,
    /// Ended sessions.
    pub ended: Vec<(SessionId, Ending, Instant)>,
    /// Role changes: the session, and its new role.
    pub role_changes: Vec<(SessionId, Role)>,
}

impl World {
    /// A host without clients and without motion, with at most two observers.
    #[must_use]
    pub fn new(seed: u64, second_player: SecondPlayer) -> World {
        World::with_observers(seed, second_player, 2)
    }

    /// Like `World::new`, with another maximum number of observers.
    #[must_use]
    pub fn with_observers(seed: u64, second_player: SecondPlayer, max_observers: usize) -> World {
        World {
            now: Instant(1_000_000_000),
            seed,
            host: Host::new(HostPolicy {
                name: "world".into(),
                codecs: 1 << 1,
                second_player,
                max_observers,
                keys: Keys::default(),
                streams: vec![tone::OFFER, two_views()],
            }),
            views: vec![View::new(seed, FREE)],
            tones: Vec::new(),
            machines: Vec::new(),
            applied: None,
            control: Vec::new(),
            wakeups: Wakeups::default(),
            parity: true,
            resend: true,
            draws_poses: false,
            decisions: Vec::new(),
            key_frames_sent: Vec::new(),
            refreshes_sent: Vec::new(),
            records: BTreeMap::new(),
            captured: BTreeMap::new(),
            repeated: BTreeSet::new(),
            injected: Vec::new(),
            released: Vec::new(),
            repeats: Vec::new(),
            ended: Vec::new(),
            role_changes: Vec::new(),
        }
    }

    /// Answers losses with intra refreshes instead of key frames. A refresh completes `clean_after` frames after its
    /// first frame. Call this method before clients connect.
    pub fn use_intra_refreshes(&mut self, clean_after: u16) {
        let settings = Settings {
            policy: PolicySettings {
                recovery: Recovery::Refresh,
                ..FREE.policy
            },
            ..FREE
        };
        let mut view = View::new(self.seed, settings);
        view.source.clean_after = clean_after;
        self.views = vec![view];
    }

    /// Adapts the bitrate to the link within `range`. A picture takes `complexity` bits at quantiser 0, and is coded at
    /// the quantiser that the rate control requests. Call this method before clients connect.
    pub fn adapt(&mut self, range: Range, complexity: f64) {
        self.adapt_with(L4sMode::Off, range, complexity);
    }

    /// Adapts the bitrate like [`World::adapt`], with this use of L4S. Call this method before clients connect.
    pub fn adapt_with(&mut self, l4s: L4sMode, range: Range, complexity: f64) {
        if l4s != L4sMode::Off {
            self.host.request_ecn_feedback();
        }
        let settings = Settings {
            policy: PolicySettings {
                range,
                adaptive: true,
                l4s,
                recovery: Recovery::ReferenceInvalidation,
                ..FREE.policy
            },
            ..FREE
        };
        let mut view = View::new(self.seed, settings);
        view.content = Some(Content::new(self.seed, complexity));
        self.views = vec![view];
    }

    /// Makes every `frames`-th picture a flash, which differs strongly from the previous picture and takes more bits.
    /// Call this method after [`World::adapt`].
    pub fn flash_every(&mut self, frames: u32) {
        for content in self
            .views
            .iter_mut()
            .filter_map(|view| view.content.as_mut())
        {
            content.flash_every(frames);
        }
    }

    /// Repeats a still picture at the frame rate of [`FRAME_INTERVAL`]. Call this method before clients connect.
    pub fn keep_frame_rate(&mut self) {
        let settings = Settings {
            constant_rate: true,
            ..FREE
        };
        self.views = vec![View::new(self.seed, settings)];
    }

    /// Adds a second view with its own frames and encoder. Call this method before clients connect.
    pub fn show_two_views(&mut self) {
        let settings = Settings {
            view: ViewId { stream: 0, view: 1 },
            ..FREE
        };
        self.views.push(View::new(self.seed, settings));
    }

    /// The world's time, which is the host's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A client's machine.
    #[must_use]
    pub fn machine(&self, client: usize) -> &Machine {
        &self.machines[client]
    }

    /// Counters of a client's link to the host.
    #[must_use]
    pub fn upstream(&self, client: usize) -> Counters {
        self.machines[client].up.counters()
    }

    /// Counters of the host's link to a client.
    #[must_use]
    pub fn downstream(&self, client: usize) -> Counters {
        self.machines[client].down.counters()
    }

    /// Names the next step of the test. The name is printed if the run fails.
    #[expect(
        clippy::print_stderr,
        reason = "output of a test, which the harness captures"
    )]
    pub fn step(&self, what: &str) {
        eprintln!("{:9.3} s  {what}", (self.now.0 as f64) / 1e9);
    }

    /// Connects a device. Returns the client's index.
    pub fn connect(&mut self, device: &Device) -> usize {
        let client = self.machines.len();
        let established = established(device.number, client);
        let path = path(client);
        self.host.established(self.now, path, &established);
        let seed = self.seed.wrapping_add(1 + client as u64);
        let link = |schedule: &ImpairmentSchedule, seed| {
            let mut link = LinkModel::on_course(schedule.clone(), self.now, seed);
            link.set_discipline(device.discipline, seed);
            link
        };
        let links = (
            link(&device.down, seed.wrapping_mul(2)),
            link(&device.up, seed.wrapping_mul(2) + 1),
        );
        let offer = Offer {
            role: device.role,
            take_over: device.take_over,
            codecs: 1 << 1,
            name: format!("device {}", device.number),
            software: "openuvr world".into(),
            constraints: ClientConstraints::default(),
            streams: device.streams(),
        };
        self.machines
            .push(Machine::new(self.now, device, &established, offer, links));
        self.turn();
        client
    }

    /// Runs for `span` with motion: one frame per [`FRAME_INTERVAL`].
    pub fn play(&mut self, span: Duration) {
        let now = self.now;
        (self.views.iter_mut()).for_each(|view| view.source.next = Some(now));
        self.run(span);
        (self.views.iter_mut()).for_each(|view| view.source.next = None);
    }

    /// Runs with motion for `count` frames.
    pub fn frames(&mut self, count: u32) {
        self.play(FRAME_INTERVAL * count - FRAME_INTERVAL / 2);
    }

    /// Runs for `span` without motion.
    pub fn rest(&mut self, span: Duration) {
        self.run(span);
    }

    /// Sends an input event from a client.
    pub fn input(&mut self, client: usize, event: InputEvent) -> InputSeq {
        let seq = self.machines[client].input(self.now, event);
        self.turn();
        seq
    }

    /// Sends a head pose from a client.
    pub fn pose(&mut self, client: usize, pose: Pose) -> PoseId {
        let id = self.machines[client].pose(self.now, pose);
        self.turn();
        id
    }

    /// The newest head pose of the player that reached the host.
    #[must_use]
    pub fn posed(&self) -> Option<ReceivedPose> {
        self.host.pose()
    }

    /// Sets whether the host's source is visible.
    pub fn source_shown(&mut self, shown: bool) {
        let _ = self.host.source_shown(shown);
    }

    /// Changes the pointer's shape.
    pub fn cursor_shape(&mut self, shape: CursorShape) {
        self.host.cursor_shape(shape);
        self.turn();
    }

    /// Moves the pointer at the host.
    pub fn cursor_moved(&mut self, at: (u16, u16)) {
        self.host.cursor_moved(Some(at));
        self.turn();
    }

    /// Cuts or restores a client's link.
    pub fn set_link_down(&mut self, client: usize, dead: bool) {
        self.machines[client].dead = dead;
    }

    /// Starts or stops dropping all datagrams from the host to a client.
    pub fn set_downstream_lost(&mut self, client: usize, deaf: bool) {
        self.machines[client].deaf = deaf;
    }

    /// Ends a client's session.
    pub fn goodbye(&mut self, client: usize) {
        self.machines[client].goodbye(self.now);
        self.turn();
    }

    /// Ends all sessions at the host.
    pub fn end(&mut self, reason: GoodbyeReason) {
        self.host.end(reason, |_| true);
        self.turn();
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        let mut stuck = 0;
        loop {
            self.turn();
            let next = self.next_event().unwrap_or(end).min(end);
            if next > self.now {
                stuck = 0;
                self.now = next;
            } else if self.now >= end {
                break;
            } else {
                stuck += 1;
                assert!(stuck < 1000, "a timer does not advance: {}", self.why());
            }
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let host = self.host.next_timeout().map(|t| t.0);
        let views = self.views.iter().filter_map(View::next_event);
        let tones = self.tones.iter().map(|tone| tone.next);
        let arrivals = self.machines.iter().filter_map(|m| m.up.next_timeout());
        let host = (host
            .into_iter()
            .chain(views)
            .chain(tones)
            .chain(arrivals)
            .min())
        .map(|at| self.wakeups.runs_at(at.max(self.now)));
        let machines = self
            .machines
            .iter()
            .filter_map(|m| m.next_timeout(self.now));
        host.into_iter().chain(machines).min()
    }

    fn why(&self) -> String {
        let clients: Vec<_> = self.machines.iter().map(Machine::wakeup).collect();
        format!("host {:?}, clients {clients:?}", self.host.next_timeout())
    }

    /// Performs everything that is due now.
    fn turn(&mut self) {
        let host_runs = self.wakeups.runs(self.now);
        if host_runs {
            self.host.handle_timeout(self.now);
            self.capture();
            self.play_tones();
        }
        for turns in 0.. {
            assert!(turns < 10_000, "the peers never stop exchanging datagrams");
            self.send_control();
            self.host_events();
            let mut busy = false;
            for client in 0..self.machines.len() {
                let machine = &mut self.machines[client];
                busy |= machine.turn(self.now, &self.views);
                while host_runs && let Some(datagram) = machine.up.poll(self.now) {
                    busy = true;
                    match self.host.handle_datagram(self.now, path(client), &datagram) {
                        Ok(()) | Err(Reject::Replayed | Reject::Session) => {}
                        Err(reject) => {
                            panic!("the host rejected a datagram of an honest client: {reject}")
                        }
                    }
                }
            }
            self.host.check_invariants();
            (self.views.iter()).for_each(|view| view.rendition.check_invariants());
            if !busy {
                break;
            }
        }
    }

    fn send_control(&mut self) {
        while let Some(to) = self.host.poll_transmit(self.now, &mut self.control) {
            let machine = &mut self.machines[usize::from(to.0[0])];
            machine.send_down(self.now, Ecn::NotEct, &self.control);
        }
    }

    /// The session of a client.
    #[must_use]
    pub fn session(&self, client: usize) -> SessionId {
        self.machines[client].session
    }

    /// Outcomes of the frames of a client's session, from the host's records.
    #[must_use]
    pub fn records_of(&self, client: usize) -> &[FrameRecord] {
        self.records
            .get(&self.session(client).0)
            .map_or(&[], Vec::as_slice)
    }

    /// The frames of the first view that were captured while a client was subscribed, in order.
    #[must_use]
    pub fn captured_for(&self, client: usize) -> &[FrameId] {
        self.captured_of(client, ViewId::FIRST)
    }

    /// The frames of `view` that were captured while a client was subscribed, in order.
    #[must_use]
    pub fn captured_of(&self, client: usize, view: ViewId) -> &[FrameId] {
        let captured = self.captured.get(&(self.session(client).0, view));
        captured.map_or(&[], Vec::as_slice)
    }

    /// Number of test tone payloads sent to a client.
    #[must_use]
    pub fn played_to(&self, client: usize) -> u64 {
        let session = self.session(client);
        let tone = self.tones.iter().find(|tone| tone.session == session);
        tone.map_or(0, Tone::payloads)
    }

    /// Panics unless each frame that was captured while a client was subscribed has exactly one outcome.
    pub fn check_conservation(&self, client: usize) {
        let session = self.session(client).0;
        let of_it = self.captured.iter().filter(|((of, _), _)| *of == session);
        let mut captured: Vec<_> = of_it
            .flat_map(|((_, view), frames)| frames.iter().map(|frame| (*view, *frame)))
            .collect();
        let records = self.records_of(client).iter();
        let mut ended: Vec<_> = records.map(|r| (r.view, r.frame)).collect();
        captured.sort();
        ended.sort();
        if ended != captured {
            let odd = |a: &[(ViewId, FrameId)], b: &[(ViewId, FrameId)]| -> Vec<_> {
                let missing = a.iter().filter(|f| !b.contains(f)).copied();
                missing.collect()
            };
            let (endless, unknown) = (odd(&captured, &ended), odd(&ended, &captured));
            panic!(
                "client {client}: frames without an end {endless:?}, ends of unknown frames {unknown:?}; {} ends for \
                 {} frames",
                ended.len(),
                captured.len()
            );
        }
    }

    /// Events of a client's session so far.
    #[must_use]
    pub fn events_of(&self, client: usize) -> &[ClientEvent] {
        &self.machines[client].events
    }
}

/// The video offer of the world's host and of some clients.
fn two_views() -> StreamOffer {
    StreamOffer {
        stream: StreamId::first(StreamKind::Video),
        to_client: true,
        to_host: false,
        formats: 0,
        views: 2,
    }
}

/// The result of a handshake at both ends.
fn established(device: u8, connection: usize) -> Established {
    let session = 0x0100 + u32::try_from(connection).unwrap_or(0);
    let mut secret = [device; 32];
    secret[..4].copy_from_slice(&session.to_le_bytes());
    Established {
        session: SessionId(session),
        secret: SessionSecret(secret),
        peer: PublicKey([device; 32]),
        version: 1,
    }
}

fn path(client: usize) -> PathId {
    let mut path = PathId::default();
    path.0[0] = u8::try_from(client).unwrap_or(u8::MAX);
    path
}
