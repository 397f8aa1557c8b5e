//! A host and a client that are connected by a link. The input controls the link (loss, repetition, reordering, damage
//! and forgery) and the actions of host and client.
//!
//! Host and client are both correct, so the checks go beyond robustness: altered or repeated datagrams are rejected
//! without effect, each input event is applied once and in order, and received slices are equal to the sent slices.
//! After the link has recovered, every captured frame has exactly one outcome.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use openuvr_proto::client::{ClientEvent, ClientSession};
use openuvr_proto::control::negotiate::{ClientConstraints, Offer, Role};
use openuvr_proto::control_event::{ControlEvent, KeyFrameReason};
use openuvr_proto::host::{Host, HostEvent, HostPolicy, SecondPlayer};
use openuvr_proto::id::{
    ConfigEpoch, DeviceId, FrameId, InputSeq, PathId, PoseId, SessionId, ViewId,
};
use openuvr_proto::input::event::{InputEvent, KeyCode};
use openuvr_proto::input::keys::Keys;
use openuvr_proto::pose::Pose;
use openuvr_proto::recv::plane::MediaReceiver;
use openuvr_proto::recv::reassemble::VideoOutput;
use openuvr_proto::send::fec::{FecLevel, FecPlan};
use openuvr_proto::send::loss::Loss;
use openuvr_proto::send::packetize::{Protection, SendBuf, VideoSender};
use openuvr_proto::send::rendition::FrameOutcome;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{DropCause, FrameCost, Outcome, Stage, Stamps};
use openuvr_proto::units::Size;
use openuvr_proto::wire::Reject;
use openuvr_proto::wire::control::Report;
use openuvr_proto::wire::header::{Plane, plane_of};
use openuvr_proto::wire::video::{
    Configuration, EchoKind, Extensions, FrameHeader, InputEcho, SlicePlace,
};

use crate::{Draw, established};

const PATH: PathId = PathId([7; PathId::LEN]);
const SESSION: SessionId = SessionId(1);

/// Maximum number of datagrams in flight in one direction; further datagrams are lost. The limit is less than the
/// replay window, so no datagram is rejected because of its age.
const MAX_IN_FLIGHT: usize = 128;

/// Number of delivered datagrams that are kept to be repeated.
const REMEMBERED: usize = 64;

/// One direction of the link.
#[derive(Default)]
struct LinkDirection {
    queue: VecDeque<Vec<u8>>,
    old: VecDeque<Vec<u8>>,
}

impl LinkDirection {
    fn send(&mut self, datagram: &[u8]) {
        if self.queue.len() < MAX_IN_FLIGHT {
            self.queue.push_back(datagram.to_vec());
        }
    }

    fn remember(&mut self, datagram: Vec<u8>) {
        if self.old.len() == REMEMBERED {
            self.old.pop_front();
        }
        self.old.push_back(datagram);
    }
}

/// Host and client, the link between them, and their expected state.
struct Conversation {
    now: Instant,
    host: Host,
    client: ClientSession,
    receiver: MediaReceiver,
    sender: Option<Box<VideoSender>>,
    up: LinkDirection,
    down: LinkDirection,
    /// Whether both sessions are active.
    is_active: bool,
    captured: BTreeSet<FrameId>,
    ended: BTreeSet<FrameId>,
    /// The newest frame that the client has displayed or dropped.
    shown: FrameId,
    typed: InputSeq,
    applied: InputSeq,
    sent_pose: PoseId,
    newest_pose: PoseId,
    control_events: Vec<ControlEvent>,
}

pub(crate) fn conversation(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let mut conversation = Conversation::new();
    while !draw.is_empty() {
        conversation.act(&mut draw);
        conversation.settle();
    }
    conversation.drain();
}

impl Conversation {
    fn new() -> Conversation {
        let now = Instant(1_000_000_000);
        let e = established(1, SESSION.0);
        let mut host = Host::new(HostPolicy {
            name: "fuzz".into(),
            codecs: 1 << 1,
            second_player: SecondPlayer::Refuse,
            max_observers: 1,
            keys: Keys::default(),
            streams: Vec::new(),
        });
        host.established(now, PATH, &e);
        let offer = Offer {
            role: Role::Player,
            take_over: false,
            codecs: 2,
            name: String::new(),
            software: String::new(),
            constraints: ClientConstraints::default(),
            streams: Vec::new(),
        };
        Conversation {
            now,
            host,
            client: ClientSession::new(now, &e, offer),
            receiver: MediaReceiver::new(&e),
            sender: None,
            up: LinkDirection::default(),
            down: LinkDirection::default(),
            is_active: true,
            captured: BTreeSet::new(),
            ended: BTreeSet::new(),
            shown: FrameId::NONE,
            typed: InputSeq::default(),
            sent_pose: PoseId::default(),
            newest_pose: PoseId::default(),
            applied: InputSeq::default(),
            control_events: Vec::new(),
        }
    }

    fn act(&mut self, draw: &mut Draw<'_>) {
        let what = draw.u8();
        let upwards = what & 16 != 0;
        match what % 16 {
            0 => self.now.0 += i64::from(draw.u8()) * 100_000,
            1 => self.now.0 += i64::from(draw.u8()) * 10_000_000,
            2 => {
                let how = draw.u8();
                let event = match how & 2 {
                    0 => InputEvent::Key {
                        code: KeyCode(u16::from(what)),
                        text: None,
                        pressed: how & 1 == 0,
                    },
                    _ => InputEvent::Device {
                        device: DeviceId(how >> 6),
                        kind: u16::from(how >> 4 & 3),
                        code: u16::from(how >> 3 & 1),
                        value: i32::from(how & 1),
                    },
                };
                self.typed = self.client.input(self.now, event, self.now);
            }
            3 | 4 => self.frame(draw),
            5 => self.host.cursor_moved(Some((draw.u16(), 9))),
            6 => {
                let event = ControlEvent::KeyFrame {
                    frame: FrameId(draw.u16().into()),
                    why: KeyFrameReason::Requested,
                };
                self.host.control_event(event);
                self.control_events.push(event);
            }
            7 => self.lose(upwards, draw.u8()),
            8 => self.again(upwards, draw.u8()),
            9 => self.altered(upwards, draw),
            10 => {
                let at = [f32::from(what), 0.0, 0.0];
                let pose = Pose::new(at, [0.0, 0.0, 0.0, 1.0]).expect("a pose");
                self.sent_pose = self.client.pose(self.now, pose, self.now);
            }
            _ => {
                // Deliver a datagram, possibly out of order.
                let place = usize::from(draw.u8() / 64);
                self.deliver(upwards, place);
            }
        }
    }

    fn direction(&mut self, upwards: bool) -> &mut LinkDirection {
        if upwards {
            &mut self.up
        } else {
            &mut self.down
        }
    }

    fn lose(&mut self, upwards: bool, n: u8) {
        let queue = &mut self.direction(upwards).queue;
        let n = usize::from(n) % (queue.len() + 1);
        queue.drain(..n);
    }

    fn deliver(&mut self, upwards: bool, place: usize) {
        let Some(datagram) = self.direction(upwards).queue.remove(place) else {
            return;
        };
        let taken = self.hand_over(upwards, &datagram);
        // A client without an offer is removed silently.
        self.is_active &= taken != Err(Reject::Session);
        // A receiver keeps a limited number of incomplete frames.
        let too_many = taken == Err(Reject::Range("frames in flight"));
        assert!(
            taken.is_ok() || too_many || !self.is_active,
            "a valid datagram was rejected: {taken:?}"
        );
        self.direction(upwards).remember(datagram);
    }

    /// Repeats a datagram that has already been delivered.
    fn again(&mut self, upwards: bool, n: u8) {
        let old = &self.direction(upwards).old;
        let Some(datagram) = old.get(usize::from(n) % old.len().max(1)).cloned() else {
            return;
        };
        self.refused(upwards, &datagram);
    }

    /// Delivers an altered copy of the next datagram in flight. The datagram itself stays in flight.
    fn altered(&mut self, upwards: bool, draw: &mut Draw<'_>) {
        let Some(mut datagram) = self.direction(upwards).queue.front().cloned() else {
            return;
        };
        match draw.u8() % 3 {
            0 => {
                let at = usize::from(draw.u16()) % datagram.len();
                datagram[at] ^= 1 << (draw.u8() % 8);
            }
            1 => datagram.truncate(usize::from(draw.u16()) % datagram.len()),
            _ => datagram.push(draw.u8()),
        }
        self.refused(upwards, &datagram);
    }

    /// Delivers a datagram that is altered or repeated. It must be rejected, and must not change a timer.
    fn refused(&mut self, upwards: bool, datagram: &[u8]) {
        let before = (self.host.next_timeout(), self.client.next_timeout());
        let taken = self.hand_over(upwards, datagram);
        assert!(taken.is_err(), "a forged or repeated datagram was accepted");
        let after = (self.host.next_timeout(), self.client.next_timeout());
        assert_eq!(before, after, "a refused datagram changed a timer");
    }

    fn hand_over(&mut self, upwards: bool, datagram: &[u8]) -> Result<(), Reject> {
        match plane_of(datagram)? {
            _ if upwards => self.host.handle_datagram(self.now, PATH, datagram),
            Plane::Media => self.receiver.handle_datagram(self.now, datagram),
            _ => self.client.handle_datagram(self.now, PATH, datagram),
        }
    }

    /// The host captures a frame, and sends it or drops it.
    fn frame(&mut self, draw: &mut Draw<'_>) {
        let Some(sender) = self.sender.as_mut() else {
            return;
        };
        let newest = self.captured.last().copied().unwrap_or(FrameId::NONE);
        let (frame, how) = (newest.next(), draw.u8());
        self.captured.insert(frame);
        let stamps = Stamps::default();
        if how & 15 == 0 {
            let (stage, why) = (Stage::Converted, DropCause::Superseded);
            let end = FrameOutcome {
                subscriber: SESSION.into(),
                view: ViewId::FIRST,
                frame,
                stamps,
                end: Err((stage, why)),
            };
            self.host.record(self.now, &end);
            return;
        }
        let key = how & 3 == 0 || newest == FrameId::NONE;
        let header = FrameHeader {
            frame,
            reference: if key { FrameId::NONE } else { newest },
            epoch: ConfigEpoch(1),
            stream: 0,
            view: 0,
            captured: self.now.0,
            clock_epoch: 0,
            echo: InputEcho::default(),
        };
        let configuration = key.then_some(Configuration {
            size: Size::new(640, 48),
            codec: 1,
            colour: 1,
            fps: 60,
        });
        let extensions = Extensions {
            configuration,
            clean_after: (how & 36 == 36).then_some(3),
            ..Extensions::default()
        };
        let loss = Loss {
            rate: f64::from(how / 64) / 10.0,
            run: 1.0,
        };
        sender.protect(&Protection {
            parity: FecPlan::of(loss, FecLevel::Standard),
            resend: how & 16 != 0,
        });
        let mut buffer = SendBuf::default();
        for index in 0..SLICES {
            let place = SlicePlace {
                index,
                count: SLICES,
                first_mb: u16::from(index) * 40,
                mbs: 40,
            };
            let bytes = slice(frame, index);
            sender.slice(self.now, &header, extensions, place, &bytes, &mut buffer);
            buffer.iter().for_each(|datagram| self.down.send(datagram));
        }
        sender.parity(self.now, &mut buffer);
        buffer.iter().for_each(|datagram| self.down.send(datagram));
        let cost = FrameCost::default();
        let end = FrameOutcome {
            subscriber: SESSION.into(),
            view: ViewId::FIRST,
            frame,
            stamps,
            end: Ok(cost),
        };
        self.host.record(self.now, &end);
    }

    /// Does the threads' work after each step: timers, events, frames, and all transmissions.
    fn settle(&mut self) {
        self.host.handle_timeout(self.now);
        self.client.handle_timeout(self.now);
        while let Some(event) = self.client.poll_event() {
            self.at_the_client(event);
        }
        self.show();
        let mut datagram = Vec::new();
        while self.host.poll_transmit(self.now, &mut datagram).is_some() {
            self.down.send(&datagram);
        }
        while self.client.poll_transmit(self.now, &mut datagram) {
            self.up.send(&datagram);
        }
        // A session ends when its last datagram has been sent.
        while let Some(event) = self.host.poll_event() {
            self.at_the_host(event);
        }
        if let Some(pose) = self.host.pose() {
            assert!(
                (self.newest_pose..=self.sent_pose).contains(&pose.id),
                "the host went back to an older pose"
            );
            self.newest_pose = pose.id;
        }
        self.host.check_invariants();
        self.client.check_invariants();
        self.receiver.check_invariants();
    }

    fn at_the_host(&mut self, event: HostEvent) {
        match event {
            HostEvent::Subscribed { media, .. } => self.sender = Some(Box::new(media.video())),
            HostEvent::Input { arrived, .. } => {
                // A release that reconciles the pressed keys has the number of the previous event.
                let next = arrived.seq.0 == self.applied.0 + 1;
                assert!(
                    next || arrived.seq == self.applied,
                    "input arrived out of order"
                );
                self.applied = arrived.seq;
            }
            HostEvent::RetransmissionRequested(_, request) => {
                let mut buffer = SendBuf::default();
                if let Some(sender) = self.sender.as_mut() {
                    sender.resend(self.now, &request, &mut buffer);
                }
                buffer.iter().for_each(|datagram| self.down.send(datagram));
            }
            HostEvent::Record(record) => {
                let frame = record.frame;
                assert!(
                    self.captured.contains(&frame),
                    "{frame:?} was never captured"
                );
                assert!(self.ended.insert(frame), "{frame:?} ended twice");
            }
            HostEvent::Ended(..) => {
                self.is_active = false;
                self.sender = None;
                assert_eq!(self.captured, self.ended, "these frames did not end");
            }
            _ => {}
        }
    }

    fn at_the_client(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Announced(_, newest) => self.receiver.first().announce(self.now, newest),
            ClientEvent::ControlEvent(event) => {
                assert!(self.control_events.contains(&event), "{event:?}");
            }
            ClientEvent::Ended(_) | ClientEvent::Refused(_) => self.is_active = false,
            _ => {}
        }
    }

    /// Takes the receiver's outputs and reports them to the host.
    fn show(&mut self) {
        while let Some(step) = self.receiver.first().poll(self.now) {
            let (frame, outcome, first) = match step {
                VideoOutput::Slice {
                    header,
                    macroblocks,
                    bytes,
                    ..
                } => {
                    assert!(
                        header.frame > self.shown,
                        "a slice arrived for a frame that had ended"
                    );
                    let index = u8::try_from(macroblocks.0 / 40).unwrap_or(0);
                    assert!(bytes == slice(header.frame, index), "a slice was altered");
                    continue;
                }
                VideoOutput::Missing { .. } => continue,
                VideoOutput::End(end) => (
                    end.header.frame,
                    Outcome::Displayed(end.fidelity),
                    Some(end.first_received),
                ),
                VideoOutput::Dropped {
                    frame,
                    why,
                    first_received,
                } => {
                    let stage = Stage::Recoverable;
                    (frame, Outcome::Dropped { stage, why }, first_received)
                }
            };
            assert!(frame > self.shown, "frames ended out of order");
            self.shown = frame;
            self.client.report(self.now, report(frame, outcome, first));
        }
        self.receiver.first().round_trip(self.client.round_trip());
        while let Some(request) = self.receiver.first().poll_request(self.now) {
            self.client.resend(request);
        }
        let view = self.receiver.first();
        let (picture, epoch) = (view.picture(), view.epoch());
        (self.client).picture(self.now, ViewId::FIRST, picture, epoch);
    }

    /// Delivers all datagrams without impairments until every captured frame has ended and every input event is
    /// applied, or until a session has ended. This requires the pending acknowledgements, beacons and retransmissions.
    /// The longest wait is a round trip, which the input may have extended.
    fn drain(&mut self) {
        for _ in 0..1000 {
            self.now = self.now + Duration::from_millis(20);
            for upwards in [true, false] {
                while !self.direction(upwards).queue.is_empty() {
                    self.deliver(upwards, 0);
                }
            }
            self.settle();
            let settled = self.captured == self.ended && self.typed == self.applied;
            if !self.is_active || settled {
                return;
            }
        }
        panic!(
            "incomplete: {:?} captured, {:?} ended, {:?} typed, {:?} applied",
            self.captured, self.ended, self.typed, self.applied
        );
    }
}

const SLICES: u8 = 3;

/// The bytes of a slice, which depend on frame and index. They need at most two datagrams.
fn slice(frame: FrameId, index: u8) -> Vec<u8> {
    let length = 1 + (frame.0 as usize * 977 + usize::from(index) * 331) % 2000;
    let byte = |i: usize| (i as u32 ^ frame.0 ^ u32::from(index) << 4) as u8;
    (0..length).map(byte).collect()
}

fn report(frame: FrameId, outcome: Outcome, first: Option<Instant>) -> Report {
    Report {
        view: ViewId::FIRST,
        frame,
        outcome,
        first_received: first.map(|at| PeerInstant(at.0)),
        recoverable: None,
        decoded: None,
        submitted: None,
        presented: None,
        motion_to_photon: None,
        echo: EchoKind::None,
        datagrams: 1,
        missing: 0,
        runs: 0,
        repaired: 0,
        resent: 0,
        pose: None,
        ecn: None,
        age: Default::default(),
    }
}
