//! A world on a virtual clock: one host, its clients, and the links between them.
//!
//! The sessions, senders and receivers are those of the protocol; around them is a small model of
//! what a runtime does with them. Each client has a clock of its own, off and drifting, so that
//! mixing clocks up shows. The same seed gives the same run, on every machine. What must hold of
//! any run (bytes are the ones that were sent, steps come in order, clock bounds hold, timers move
//! on) panics where it does not.
//!
//! What it is not: it has no codec; a frame's slices are random bytes that can be computed again.

mod machine;
mod source;

use std::collections::BTreeMap;
use std::time::Duration;

use openuvr_proto::client::ClientEvent;
use openuvr_proto::control::handshake::{Established, PublicKey, SessionSecret};
use openuvr_proto::control::negotiate::{Negotiation, Offer, Role, Wishes};
use openuvr_proto::host::{Ending, Host, HostEvent, HostPolicy, SecondPlayer, SentFrame};
use openuvr_proto::id::{FrameId, InputSeq, PathId, PoseId, SessionId};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::pose::{Pose, Posed};
use openuvr_proto::send::congestion::Range;
use openuvr_proto::send::fec::ParityPlan;
use openuvr_proto::send::pace::Pacer;
use openuvr_proto::send::packetize::{MediaSender, Protection, SendBuf};
use openuvr_proto::send::policy::{Next, Policy, Recovery, Settings, TRANSPORT_HEADERS};
use openuvr_proto::send::rate::RateControl;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, FrameCost, FrameRecord, Stage, Stamps};
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::Reject;
use openuvr_proto::wire::control::{GoodbyeReason, ResendRequest};
use openuvr_proto::wire::video::{EchoKind, Extensions, InputEcho};

use crate::course::Course;
use crate::link::{Counters, Impairment, LinkModel};
use crate::random::Random;
pub use machine::{Clock, Machine, Shown};
use source::Coding;

/// Frames follow each other at 60 Hz while something moves.
pub const FRAME_INTERVAL: Duration = Duration::from_nanos(16_666_667);

const FPS: f64 = 60.0;

/// A device that connects, and the link to it.
#[derive(Clone, Debug)]
pub struct Device {
    /// Which device: its key and address. One that connects again replaces its own session.
    pub number: u8,
    /// What it asks for.
    pub role: Role,
    /// Whether it wants to take the player's role over.
    pub take_over: bool,
    /// What the link does to datagrams from the host, from the connection on.
    pub down: Course,
    /// What it does to datagrams to the host.
    pub up: Course,
    /// Its clock.
    pub clock: Clock,
}

impl Device {
    /// A device on a perfect link whose clock is off and drifts.
    #[must_use]
    pub fn new(number: u8, role: Role) -> Device {
        Device {
            number,
            role,
            take_over: false,
            down: Course::default(),
            up: Course::default(),
            clock: Clock {
                offset: 7_000_000_000_000 * i64::from(number),
                ppm: 40 - 30 * i64::from(number),
            },
        }
    }

    /// The same impairment both ways.
    #[must_use]
    pub fn behind(self, link: &Impairment) -> Device {
        self.over(link.into())
    }

    /// The same course of impairments both ways; it begins with the connection.
    #[must_use]
    pub fn over(mut self, course: Course) -> Device {
        self.up = course.clone();
        self.down = course;
        self
    }
}

/// A subscriber as the host's media thread knows it.
struct Subscription {
    session: SessionId,
    machine: usize,
    role: Role,
    media: Box<MediaSender>,
    protection: Protection,
    /// Whether a key frame went to it.
    started: bool,
    /// What the frame that is being sent took until now, and when its first datagram left.
    cost: FrameCost,
    first_sent: Option<Instant>,
    /// Bytes that were sent again since the last frame.
    again: u32,
    pacer: Pacer,
}

impl Subscription {
    /// Follows what the link loses, as far as the world allows it.
    fn protect(&mut self, host: &Host, now: Instant, (parity, resend): (bool, bool)) {
        if let Some(link) = host.link(now, self.session) {
            self.protection.follow(&link, FRAME_INTERVAL);
        }
        self.protection.resend &= resend;
        if !parity {
            self.protection.parity = ParityPlan::NONE;
        }
        self.media.protect(&self.protection);
        self.pacer.begin();
        self.cost = FrameCost::default();
        self.first_sent = None;
    }

    /// Sends what is in `out`.
    fn send(&mut self, now: Instant, machine: &mut Machine, out: &SendBuf) {
        for datagram in out.iter() {
            machine.send_down(now, datagram);
        }
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.cost.datagrams += count(out.datagrams());
        self.cost.parity += count(out.parity());
        self.cost.bytes += count(out.len());
        self.first_sent.get_or_insert(now);
    }
}

/// An encoder of which only the sizes of its frames are modelled.
struct Encoder {
    rate: RateControl,
    target: Bitrate,
    /// Bits of a frame at quantiser 0; a key frame takes four times as many.
    complexity: f64,
    noise: Random,
}

impl Encoder {
    /// The quantiser of the next frame and its bytes.
    fn code(&mut self, target: Bitrate, key_frame: bool) -> (u8, u64) {
        if self.target != target {
            self.target = target;
            self.rate.retarget(target, FPS);
        }
        let qp = self.rate.qp(key_frame);
        let content = self.complexity * (0.7 + 0.6 * self.noise.unit());
        let bits = content * if key_frame { 4.0 } else { 1.0 };
        let bytes = bits * 2_f64.powf(-f64::from(qp) / 6.0) / 8.0;
        #[expect(clippy::cast_possible_truncation, reason = "a frame's bytes")]
        #[expect(clippy::cast_sign_loss, reason = "> 0")]
        let bytes = bytes as u64;
        (qp, bytes)
    }
}

/// The host, its clients and the links.
pub struct World {
    now: Instant,
    seed: u64,
    host: Host,
    policy: Policy,
    subscriptions: Vec<Subscription>,
    machines: Vec<Machine>,
    source: source::Source,
    coding: Option<Coding>,
    encoder: Option<Encoder>,
    qp: u8,
    /// The next slice has waited for the pacer.
    paced: bool,
    echo: InputEcho,
    out: SendBuf,
    control: Vec<u8>,
    /// Whether frames get parity as their link needs it: yes at first.
    pub parity: bool,
    /// Whether what is asked for is sent again: yes at first.
    pub resend: bool,
    /// Key frames, and when each was begun.
    pub key_frames_sent: Vec<(FrameId, Instant)>,
    /// Waves of intra blocks: the frame with which each began, and after how many it was through.
    pub waves_sent: Vec<(FrameId, u16)>,
    /// The host's view: how each frame ended, by session.
    pub records: BTreeMap<u32, Vec<FrameRecord>>,
    /// Which frames were captured while a session subscribed.
    pub captured: BTreeMap<u32, Vec<FrameId>>,
    /// Input that the host injected, in order.
    pub injected: Vec<(InputSeq, InputEvent)>,
    /// How often the host released all input, and when.
    pub released: Vec<Instant>,
    /// Sessions that ended.
    pub ended: Vec<(SessionId, Ending, Instant)>,
    /// Players that became observers.
    pub role_changes: Vec<(SessionId, Role)>,
}

impl World {
    /// A host without clients, on which nothing moves. Two may watch.
    #[must_use]
    pub fn new(seed: u64, second_player: SecondPlayer) -> World {
        World::with_observers(seed, second_player, 2)
    }

    /// The same, where so many may watch.
    #[must_use]
    pub fn with_observers(seed: u64, second_player: SecondPlayer, max_observers: usize) -> World {
        World {
            now: Instant(1_000_000_000),
            seed,
            host: Host::new(HostPolicy {
                name: "world".into(),
                codec: 1,
                second_player,
                max_observers,
                keys: Keys::default(),
            }),
            policy: Policy::new(FREE),
            subscriptions: Vec::new(),
            machines: Vec::new(),
            source: source::Source::new(seed),
            coding: None,
            encoder: None,
            qp: 0,
            paced: false,
            echo: InputEcho::default(),
            out: SendBuf::default(),
            control: Vec::new(),
            parity: true,
            resend: true,
            key_frames_sent: Vec::new(),
            waves_sent: Vec::new(),
            records: BTreeMap::new(),
            captured: BTreeMap::new(),
            injected: Vec::new(),
            released: Vec::new(),
            ended: Vec::new(),
            role_changes: Vec::new(),
        }
    }

    /// Losses are answered by waves of intra blocks that are through after so many frames, not by key
    /// frames. Before anybody connects.
    pub fn answer_by_waves(&mut self, clean_after: u16) {
        self.policy = Policy::new(Settings {
            recovery: Recovery::Refresh,
            ..FREE
        });
        self.source.clean_after = clean_after;
    }

    /// From now on the rate follows the link within `range`: pictures that take `complexity` bits
    /// at quantiser 0 are coded as the rate control asks.
    pub fn adapt(&mut self, range: Range, complexity: f64) {
        let adaptive = true;
        let recovery = Recovery::SkipBack;
        self.policy = Policy::new(Settings {
            range,
            adaptive,
            recovery,
            ..FREE
        });
        self.policy.encoder_opened(8);
        self.policy.join(Role::Player);
        let mut rate = RateControl::new(range.start, FPS);
        rate.opened(Size::new(1280, 720), None);
        self.encoder = Some(Encoder {
            rate,
            target: range.start,
            complexity,
            noise: Random::new(self.seed, 99),
        });
    }

    /// The world's time, which is the host's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A client's side.
    #[must_use]
    pub fn machine(&self, client: usize) -> &Machine {
        &self.machines[client]
    }

    /// What a client gave to its link until now.
    #[must_use]
    pub fn upstream(&self, client: usize) -> Counters {
        self.machines[client].up.counters()
    }

    /// What the host gave to a client's link until now.
    #[must_use]
    pub fn downstream(&self, client: usize) -> Counters {
        self.machines[client].down.counters()
    }

    /// Says what comes next; shown when the run fails.
    #[expect(
        clippy::print_stderr,
        reason = "a test's own words, which its harness keeps"
    )]
    pub fn step(&self, what: &str) {
        eprintln!("{:9.3} s  {what}", (self.now.0 as f64) / 1e9);
    }

    /// A device connects; the number by which it is called from now on.
    pub fn connect(&mut self, device: &Device) -> usize {
        let client = self.machines.len();
        let established = established(device.number, client);
        let path = path(client);
        self.host.established(self.now, path, &established);
        let seed = self.seed.wrapping_add(1 + client as u64);
        let links = (
            LinkModel::on_course(device.down.clone(), self.now, seed.wrapping_mul(2)),
            LinkModel::on_course(device.up.clone(), self.now, seed.wrapping_mul(2) + 1),
        );
        let offer = Offer {
            role: device.role,
            take_over: device.take_over,
            codecs: 1 << 1,
            name: format!("device {}", device.number),
            software: "openuvr world".into(),
            wishes: Wishes::default(),
        };
        self.machines
            .push(Machine::new(self.now, device, &established, offer, links));
        self.turn();
        client
    }

    /// Something moves for this long: a frame each [`FRAME_INTERVAL`].
    pub fn play(&mut self, span: Duration) {
        self.source.next = Some(self.now);
        self.run(span);
        self.source.next = None;
    }

    /// Frames are captured this often, until `span` is over.
    pub fn frames(&mut self, count: u32) {
        self.play(FRAME_INTERVAL * count - FRAME_INTERVAL / 2);
    }

    /// Nothing new moves for this long.
    pub fn rest(&mut self, span: Duration) {
        self.run(span);
    }

    /// A person does something at a client.
    pub fn input(&mut self, client: usize, event: InputEvent) -> InputSeq {
        let seq = self.machines[client].input(self.now, event);
        self.turn();
        seq
    }

    /// The head of the person at a client is here.
    pub fn pose(&mut self, client: usize, pose: Pose) -> PoseId {
        let id = self.machines[client].pose(self.now, pose);
        self.turn();
        id
    }

    /// Where the host believes the player's head to be.
    #[must_use]
    pub fn posed(&self) -> Option<Posed> {
        self.host.pose()
    }

    /// The application changes the pointer's shape.
    pub fn source_shown(&mut self, shown: bool) {
        let _ = self.host.source_shown(shown);
    }

    /// The pointer looks different.
    pub fn cursor_shape(&mut self, shape: Negotiation) {
        self.host.cursor_shape(shape);
        self.turn();
    }

    /// The pointer moves at the host.
    pub fn cursor_moved(&mut self, at: (u16, u16)) {
        self.host.cursor_moved(Some(at));
        self.turn();
    }

    /// A client loses its link, or has it back.
    pub fn set_dead(&mut self, client: usize, dead: bool) {
        self.machines[client].dead = dead;
    }

    /// Everything that the host sends to a client from now on is lost, or no longer.
    pub fn set_deaf(&mut self, client: usize, deaf: bool) {
        self.machines[client].deaf = deaf;
    }

    /// A client ends its session.
    pub fn goodbye(&mut self, client: usize) {
        self.machines[client].goodbye(self.now);
        self.turn();
    }

    /// The host ends all sessions.
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
                assert!(stuck < 1000, "a timer does not move on: {}", self.why());
            }
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let own = [
            self.host.next_timeout().map(|t| t.0),
            self.source.next.filter(|_| self.coding.is_none()),
            self.coding.as_ref().map(|c| c.next),
        ];
        let machines = self.machines.iter().filter_map(Machine::next_timeout);
        own.into_iter().flatten().chain(machines).min()
    }

    fn why(&self) -> String {
        let clients: Vec<_> = self.machines.iter().map(Machine::wakeup).collect();
        format!("host {:?}, clients {clients:?}", self.host.next_timeout())
    }

    /// Everything that is due now, until nothing is.
    fn turn(&mut self) {
        self.host.handle_timeout(self.now);
        self.capture();
        for turns in 0.. {
            assert!(turns < 10_000, "the peers never stop talking");
            self.send_control();
            self.host_events();
            let mut busy = false;
            for client in 0..self.machines.len() {
                let machine = &mut self.machines[client];
                busy |= machine.turn(self.now, &self.source);
                while let Some(datagram) = machine.up.poll(self.now) {
                    busy = true;
                    match self.host.handle_datagram(self.now, path(client), &datagram) {
                        Ok(()) | Err(Reject::Replayed | Reject::Session) => {}
                        Err(reject) => panic!("an honest client was refused: {reject}"),
                    }
                }
            }
            self.host.check_invariants();
            if !busy {
                break;
            }
        }
    }

    fn send_control(&mut self) {
        while let Some(to) = self.host.poll_transmit(self.now, &mut self.control) {
            let machine = &mut self.machines[usize::from(to.0[0])];
            machine.send_down(self.now, &self.control);
        }
    }

    fn host_events(&mut self) {
        while let Some(event) = self.host.poll_event() {
            match event {
                HostEvent::Subscribed {
                    session,
                    path,
                    role,
                    media,
                    ..
                } => {
                    self.policy.join(role);
                    self.subscriptions.push(Subscription {
                        session,
                        machine: usize::from(path.0[0]),
                        role,
                        media,
                        protection: Protection::default(),
                        started: false,
                        cost: FrameCost::default(),
                        first_sent: None,
                        again: 0,
                        pacer: Pacer::default(),
                    });
                }
                HostEvent::RoleChanged(session, role) => {
                    self.role_changes.push((session, role));
                    for s in self
                        .subscriptions
                        .iter_mut()
                        .filter(|s| s.session == session)
                    {
                        s.role = role;
                    }
                }
                HostEvent::PathChanged { .. } => panic!("nobody moves in this world"),
                HostEvent::Ended(session, ending) => {
                    self.subscriptions.retain(|s| s.session != session);
                    // A frame that is being coded was meant for it, but does not go there.
                    let coded = self.coding.as_ref().map(|c| c.header.frame);
                    if let Some(captured) = self.captured.get_mut(&session.0) {
                        captured.pop_if(|last| Some(*last) == coded);
                    }
                    self.ended.push((session, ending, self.now));
                }
                HostEvent::Input(arrived) => {
                    self.injected.push((arrived.seq, arrived.event));
                    self.echo = InputEcho {
                        seq: arrived.seq,
                        kind: EchoKind::Injected,
                    };
                }
                HostEvent::ReleaseInput => {
                    self.released.push(self.now);
                    self.echo = InputEcho::default();
                }
                HostEvent::KeyFrameWanted {
                    role,
                    last_good,
                    newest,
                } => self.policy.wish(role, last_good, newest),
                HostEvent::ResendWanted(session, request) => self.send_again(session, &request),
                HostEvent::Record(record) => {
                    self.check_clock(&record);
                    let of = |s: &&Subscription| s.session == record.session;
                    let from = self.subscriptions.iter().find(of);
                    if from.is_some_and(|s| s.role == Role::Player) {
                        self.policy.heard(self.now, &record);
                    }
                    let all = self.records.entry(record.session.0).or_default();
                    all.push(*record);
                }
            }
        }
    }

    fn send_again(&mut self, session: SessionId, request: &ResendRequest) {
        let asks = |s: &&mut Subscription| s.session == session;
        if let Some(s) = self.subscriptions.iter_mut().find(asks) {
            s.media.resend(self.now, request, &mut self.out);
            for datagram in self.out.iter() {
                self.machines[s.machine].send_down(self.now, datagram);
                s.again += u32::try_from(datagram.len()).unwrap_or(u32::MAX) + TRANSPORT_HEADERS;
            }
        }
    }

    /// What the host believes of the client's stamps is true within its bound.
    fn check_clock(&self, record: &FrameRecord) {
        let Some(mapped) = record.client.first_received_here else {
            return;
        };
        let machine = self.machines.iter().find(|m| m.session == record.session);
        let shown = machine.and_then(|m| m.shown.iter().rfind(|s| s.frame == record.frame));
        if let Some(shown) = shown {
            let error = (mapped.at.0 - shown.first_received.0).unsigned_abs();
            assert!(
                u128::from(error) <= mapped.bound.as_nanos(),
                "{error} ns off, {mapped:?}"
            );
        }
    }

    fn capture(&mut self) {
        let due = self.coding.is_none() && self.source.next.is_some_and(|at| at <= self.now);
        if due && self.subscriptions.is_empty() {
            // Nobody watches: nothing is captured.
            self.source.next = Some(self.now + FRAME_INTERVAL);
        } else if due {
            let round_trip = self.host.round_trip().unwrap_or_default();
            self.policy.set_round_trip(round_trip);
            if self.policy.held_until(self.now).is_some() {
                return self.hold_back();
            }
            let next = self.policy.next(self.now, self.source.next_frame());
            let target = self.policy.target();
            let coded =
                (self.encoder.as_mut()).map(|encoder| encoder.code(target, next == Next::Key));
            self.qp = coded.map_or(0, |(qp, _)| qp);
            let size = coded.map(|(_, size)| size);
            let coding = self.source.code(self.now, next, size);
            let frame = coding.header.frame;
            if let Some(frames) = coding.clean_after {
                self.policy.wave_began(frame, frames);
                self.waves_sent.push((frame, frames));
            }
            if coding.header.is_key() {
                self.key_frames_sent.push((frame, self.now));
            }
            for s in &mut self.subscriptions {
                self.captured.entry(s.session.0).or_default().push(frame);
                s.started |= coding.header.is_key();
                s.protect(&self.host, self.now, (self.parity, self.resend));
            }
            // Who subscribes from here on starts with the next key frame.
            self.coding = Some(coding);
        }
        while self.coding.as_ref().is_some_and(|c| c.next <= self.now) {
            if let Some(coding) = self.coding.take() {
                self.coding = self.send_slice(coding);
            }
        }
    }

    /// The frame that is due is not coded: what left before waits in the link's queue.
    fn hold_back(&mut self) {
        let frame = self.source.skip(self.now);
        for s in self.subscriptions.iter().filter(|s| s.started) {
            self.captured.entry(s.session.0).or_default().push(frame);
            let mut stamps = Stamps::default();
            stamps.stamp(Stage::Captured, self.now);
            let (stage, why) = (Stage::Converted, DropCause::HeldBack);
            self.host
                .frame_dropped(self.now, s.session, frame, stamps, stage, why);
        }
    }

    /// How long the next slice waits for the link to take it.
    fn pace(&mut self, bytes: usize) -> Duration {
        let capacity = self.policy.capacity();
        let mut player = (self.subscriptions.iter_mut()).filter(|s| s.role == Role::Player);
        player.next().map_or(Duration::ZERO, |s| {
            s.pacer.wait(self.now, bytes, capacity, FRAME_INTERVAL)
        })
    }

    /// Sends the next slice to everybody; the frame, while it has more.
    fn send_slice(&mut self, mut coding: Coding) -> Option<Coding> {
        let frame = coding.header.frame;
        let (place, bytes) = coding.slice();
        if !std::mem::take(&mut self.paced) {
            let wait = self.pace(bytes.len());
            if !wait.is_zero() {
                self.paced = true;
                coding.next = self.now + wait;
                return Some(coding);
            }
        }
        let last = place.index + 1 == place.count;
        for s in &mut self.subscriptions {
            let captured = self.captured.get(&s.session.0).and_then(|all| all.last());
            if captured != Some(&frame) {
                continue;
            }
            if s.started {
                let mut header = coding.header;
                if s.role == Role::Player {
                    header.echo = coding.echo(self.echo);
                }
                let extensions = Extensions {
                    configuration: header.is_key().then_some(coding.configuration),
                    clean_after: coding.clean_after,
                };
                let out = &mut self.out;
                s.media
                    .slice(self.now, &header, extensions, place, &bytes, out);
                let machine = &mut self.machines[s.machine];
                s.send(self.now, machine, out);
                if last {
                    s.media.parity(self.now, out);
                    s.send(self.now, machine, out);
                }
            }
            if last {
                let mut stamps = Stamps::default();
                stamps.stamp(Stage::Captured, Instant(coding.header.captured));
                if s.started {
                    stamps.stamp(Stage::FirstSent, s.first_sent.unwrap_or(self.now));
                    stamps.stamp(Stage::LastSent, self.now);
                    let cost = FrameCost {
                        key_frame: coding.header.is_key(),
                        qp: self.qp,
                        ..s.cost
                    };
                    let bytes = cost.bytes + cost.datagrams * TRANSPORT_HEADERS;
                    if s.role == Role::Player {
                        self.policy.sent(self.now, frame, Some(bytes));
                    }
                    if let Some(encoder) = self.encoder.as_mut() {
                        let bits = u64::from(bytes + std::mem::take(&mut s.again)) * 8;
                        encoder.rate.coded(cost.key_frame, cost.qp, bits);
                    }
                    let sent = SentFrame {
                        frame,
                        stamps,
                        cost,
                    };
                    self.host.frame_sent(self.now, s.session, sent);
                } else {
                    let (stage, why) = (Stage::FirstSent, DropCause::AwaitingKeyFrame);
                    self.host
                        .frame_dropped(self.now, s.session, frame, stamps, stage, why);
                }
            }
        }
        coding.advance().then_some(coding)
    }

    /// The session of a client.
    #[must_use]
    pub fn session(&self, client: usize) -> SessionId {
        self.machines[client].session
    }

    /// How the frames of a client's session ended, by the host's books.
    #[must_use]
    pub fn records_of(&self, client: usize) -> &[FrameRecord] {
        self.records
            .get(&self.session(client).0)
            .map_or(&[], Vec::as_slice)
    }

    /// Panics unless each frame that was captured while a client subscribed has exactly one end.
    pub fn check_conservation(&self, client: usize) {
        let session = self.session(client).0;
        let mut captured = self.captured.get(&session).cloned().unwrap_or_default();
        let mut ended: Vec<_> = self.records_of(client).iter().map(|r| r.frame).collect();
        captured.sort();
        ended.sort();
        if ended != captured {
            let odd = |a: &[FrameId], b: &[FrameId]| -> Vec<_> {
                let missing = a.iter().filter(|f| !b.contains(f)).copied();
                missing.collect()
            };
            let (endless, unknown) = (odd(&captured, &ended), odd(&ended, &captured));
            panic!(
                "client {client}: no end {endless:?}, never captured {unknown:?}, {} ends of {}",
                ended.len(),
                captured.len()
            );
        }
    }

    /// What a client's session said so far.
    #[must_use]
    pub fn events_of(&self, client: usize) -> &[ClientEvent] {
        &self.machines[client].events
    }
}

/// What the policy of a host is given whose frames have the size that they have.
const FREE: Settings = Settings {
    fps: FPS,
    range: Range {
        min: Bitrate::from_mbps(1000),
        start: Bitrate::from_mbps(1000),
        max: Bitrate::from_mbps(1000),
    },
    adaptive: false,
    recovery: Recovery::KeyFrame,
    key_frame_every: None,
};

/// What a handshake would leave in both hands.
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
