//! Sessions whose functions are called in any order, and authentic peers that send arbitrary messages.

use std::time::Duration;

use openuvr_proto::client::ClientSession;
use openuvr_proto::control::negotiate::{ClientConstraints, Negotiation, Offer, Role};
use openuvr_proto::control::no_session;
use openuvr_proto::control::streams::StreamOffer;
use openuvr_proto::control::transport_probe::{ProbeTarget, TransportKind};
use openuvr_proto::control_event::{ControlEvent, KeyFrameReason};
use openuvr_proto::ecn::EcnCounts;
use openuvr_proto::host::{Ending, Host, HostEvent, HostPolicy, SecondPlayer, SubscribeRequest};
use openuvr_proto::id::{
    ConfigEpoch, DeviceId, FrameId, PathId, PoseId, SessionId, SubscriberId, ViewId,
};
use openuvr_proto::input::event::{InputEvent, KeyCode};
use openuvr_proto::input::keys::Keys;
use openuvr_proto::pose::Pose;
use openuvr_proto::recv::reassemble::PictureState;
use openuvr_proto::send::rendition::FrameOutcome;
use openuvr_proto::send::subscriber::{Departure, Feedback};
use openuvr_proto::send::update::CursorShape;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{DropCause, FrameCost, Outcome, Stage, Stamps};
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::control::{GoodbyeReason, Message, Report};
use openuvr_proto::wire::header::{HEADER, Plane, TAG};
use openuvr_proto::wire::media::{StreamId, StreamKind};
use openuvr_proto::wire::seal::{Direction, Sealer};
use openuvr_proto::wire::video::EchoKind;
use openuvr_proto::wire::{MAX_DATAGRAM, Reject};

use crate::{Draw, established};

/// A peer that has the session's key and sends arbitrary messages.
struct Peer {
    session: SessionId,
    sealer: Sealer,
    offset: u64,
}

impl Peer {
    fn new(device: u8, session: u32, sends: Direction) -> Peer {
        let e = established(device, session);
        Peer {
            session: e.session,
            sealer: Sealer::new(&e.secret, e.session, sends, Plane::Control),
            offset: 0,
        }
    }

    fn seal(&mut self, body: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; HEADER];
        datagram.extend_from_slice(body);
        datagram.extend_from_slice(&[0; TAG]);
        self.sealer.seal(Instant(0), &mut datagram);
        datagram
    }

    /// A message of the reliable stream.
    fn negotiate(&mut self, message: &[u8]) -> Vec<u8> {
        let mut bytes = (message.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(message);
        let mut body = Vec::new();
        Message::Segment {
            offset: self.offset,
            bytes: &bytes,
        }
        .write(&mut body);
        self.offset += bytes.len() as u64;
        self.seal(&body)
    }

    /// A sealed datagram with random messages.
    fn anything(&mut self, draw: &mut Draw<'_>) -> Vec<u8> {
        let mut body = Vec::new();
        match draw.u8() % 10 {
            0 => body.extend_from_slice(draw.take(64)),
            1 => Message::Pong {
                asked: draw.u64(8) as i64,
                received: PeerInstant(draw.u64(8) as i64),
                answered: PeerInstant(draw.u64(8) as i64),
            }
            .write(&mut body),
            2 => Message::Report(report(draw)).write(&mut body),
            3 => Message::KeyFrameRequest {
                view: view(draw.u8()),
                last_good: FrameId(draw.u8().into()),
                newest: FrameId(draw.u32()),
            }
            .write(&mut body),
            4 => {
                let length = usize::from(draw.u8());
                return self.negotiate(draw.take(length));
            }
            5 => Message::SegmentsAcked {
                through: draw.u16().into(),
            }
            .write(&mut body),
            6 => {
                let (frame, view) = (FrameId(draw.u8().into()), view(draw.u8()));
                Message::ReportsAfter { view, frame }.write(&mut body);
                Message::Report(report(draw)).write(&mut body);
            }
            7 => Message::ReportsAcked {
                view: view(draw.u8()),
                through: FrameId(draw.u8().into()),
            }
            .write(&mut body),
            8 => {
                let id = PoseId(draw.u8().into());
                let sampled = PeerInstant(draw.u64(8) as i64);
                if let Some(pose) = pose(draw) {
                    Message::Pose { id, sampled, pose }.write(&mut body);
                }
            }
            _ => {
                // A message of a random kind and content.
                body.push(draw.u8() % 27);
                let content = draw.take(40);
                body.extend_from_slice(&(content.len() as u16).to_le_bytes());
                body.extend_from_slice(content);
            }
        }
        self.seal(&body)
    }
}

fn report(draw: &mut Draw<'_>) -> Report {
    Report {
        view: view(draw.u8()),
        frame: FrameId(draw.u8().into()),
        outcome: Outcome::Dropped {
            stage: Stage::FirstReceived,
            why: DropCause::Lost,
        },
        first_received: Some(PeerInstant(draw.u64(8) as i64)),
        recoverable: None,
        decoded: None,
        submitted: None,
        presented: None,
        motion_to_photon: None,
        echo: EchoKind::None,
        datagrams: 1,
        missing: draw.u8().into(),
        runs: draw.u8().into(),
        repaired: 0,
        pose: None,
        age: Default::default(),
        resent: 0,
        ecn: Some(u16::from(draw.u8()))
            .filter(|count| count % 2 == 1)
            .map(|ce| EcnCounts {
                ce,
                ..Default::default()
            }),
    }
}

fn offer(draw: &mut Draw<'_>) -> Offer {
    let choice = draw.u8();
    Offer {
        role: if choice & 1 == 0 {
            Role::Player
        } else {
            Role::Observer
        },
        take_over: choice & 2 != 0,
        codecs: if choice & 4 == 0 { 2 } else { 0 },
        name: String::new(),
        software: String::new(),
        constraints: ClientConstraints {
            bitrate: (choice & 8 != 0).then_some(Bitrate(u64::from(choice) * 1000)),
            size: (choice & 16 != 0).then_some(Size::new(choice.into(), 7)),
            fps: std::num::NonZeroU16::new(u16::from(choice) & 32),
            chosen_fps: None,
        },
        streams: match choice & 32 {
            0 => Vec::new(),
            _ => two_eyes(),
        },
    }
}

/// An offer of a video stream with two views. The host has two views, too.
fn two_eyes() -> Vec<StreamOffer> {
    vec![StreamOffer {
        stream: StreamId::first(StreamKind::Video),
        to_client: true,
        to_host: false,
        formats: 0,
        views: 2,
    }]
}

/// One of two views.
fn view(choice: u8) -> ViewId {
    ViewId {
        stream: 0,
        view: choice >> 7,
    }
}

fn shape(n: u8) -> CursorShape {
    let side = u32::from(n);
    CursorShape {
        size: Size::new(side, side),
        hot: (0, 0),
        argb: vec![0; (side * side) as usize],
    }
}

fn shaped(n: u8) -> Negotiation {
    let CursorShape { size, hot, argb } = shape(n);
    Negotiation::CursorShape { size, hot, argb }
}

fn event(n: u8) -> InputEvent {
    match n {
        0..100 => InputEvent::Key {
            code: KeyCode(n.into()),
            text: None,
            pressed: n & 1 == 0,
        },
        100..200 => InputEvent::PointerRelative {
            dx: n.into(),
            dy: 0,
        },
        200..220 => InputEvent::Device {
            device: DeviceId(n & 1),
            kind: u16::from(n >> 1 & 3),
            code: u16::from(n >> 3 & 1),
            value: i32::from(n) - 210,
        },
        _ => InputEvent::ReleaseAll,
    }
}

fn pose(draw: &mut Draw<'_>) -> Option<Pose> {
    let mut three = || [(); 3].map(|()| f32::from_bits(draw.u32()));
    let (position, velocity) = (three(), three());
    let pose = Pose::new(position, [0.0, 0.0, 0.0, 1.0]).ok()?;
    pose.moving(Some(velocity), None).ok()
}

pub(crate) fn host(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let mut host = Host::new(HostPolicy {
        name: "fuzz".into(),
        codecs: 1 << 1,
        second_player: [
            SecondPlayer::Refuse,
            SecondPlayer::Observe,
            SecondPlayer::TakeOver,
        ][usize::from(draw.u8() % 3)],
        max_observers: 2,
        keys: Keys::default(),
        streams: two_eyes(),
    });
    let mut now = Instant(0);
    let mut peers: Vec<Peer> = Vec::new();
    // The number of subscribers that are not sessions and have joined so far.
    let mut others = 0;
    let mut books = Books::default();
    let mut out = Vec::new();
    let mut frame = 0;
    while !draw.is_empty() {
        let what = draw.u8();
        let i = usize::from(what / 16) % peers.len().max(1);
        match what % 16 {
            0 if peers.len() < 32 => {
                let device = draw.u8() % 6;
                let session = peers.len() as u32 + 1;
                peers.push(Peer::new(device, session, Direction::ClientToHost));
                host.established(
                    now,
                    PathId([device; PathId::LEN]),
                    &established(device, session),
                );
            }
            1 => now.0 += i64::from(draw.u8()) * 1_000_000,
            2 => now.0 += i64::from(draw.u16()) * 100_000,
            3 if what >= 240 => {
                host.source_shown(draw.u8() % 2 == 0);
            }
            3 => host.cursor_shape(shape(draw.u8() % 80)),
            4 if what < 128 => host.cursor_moved(Some((draw.u16(), 0))),
            4 => host.control_event(ControlEvent::KeyFrame {
                frame: FrameId(draw.u32()),
                why: KeyFrameReason::Requested,
            }),
            5 if what >= 128 => other(&mut host, now, &mut others, &mut draw),
            5 if draw.u8() < 16 => host.end(GoodbyeReason::Quit, |peer| peer[0] == what / 16),
            6..=8 => {
                frame += 1;
                let sessions = peers.iter().map(|peer| peer.session.into());
                for id in sessions.chain((1..=others).map(SubscriberId::Other)) {
                    books.capture(&mut host, now, id, FrameId(frame), what);
                }
            }
            9 | 10 => {
                if let Some(peer) = peers.get_mut(i) {
                    let offer = Negotiation::Offer(offer(&mut draw));
                    let datagram = peer.negotiate(&offer.to_bytes());
                    let _ = host.handle_datagram(now, PathId([what; PathId::LEN]), &datagram);
                }
            }
            _ => {
                if let Some(peer) = peers.get_mut(i) {
                    let datagram = peer.anything(&mut draw);
                    let from = PathId([what; PathId::LEN]);
                    let taken = host.handle_datagram(now, from, &datagram);
                    if taken == Err(Reject::Session) {
                        let answer = host.answer_unknown_session(now, from, &datagram);
                        assert!(answer.is_none_or(|answer| answer.len() < datagram.len()));
                    }
                }
            }
        }
        host.handle_timeout(now);
        host.check_invariants();
        for sent in 0.. {
            assert!(sent < 10_000, "the host never stops sending");
            if host.poll_transmit(now, &mut out).is_none() {
                break;
            }
        }
        if let Some(posed) = host.pose() {
            let length = posed.pose.orientation().map(|v| v * v).iter().sum::<f32>();
            assert!(
                (0.97..=1.03).contains(&length),
                "the orientation is not a unit quaternion"
            );
            assert!(posed.received <= now);
        }
        while let Some(id) = host.poll_updated() {
            for updates in 0.. {
                assert!(updates < 10, "an update is repeated without limit");
                if host.poll_update(id).is_none() {
                    break;
                }
            }
        }
        while let Some(asked) = host.poll_probe() {
            let transport = TransportKind::ALL[usize::from(asked.segmented)];
            let length = host.answer_probe(now, &asked, transport, &mut out);
            assert!(length == 0 || length == MAX_DATAGRAM);
        }
        while let Some(event) = host.poll_event() {
            books.note(event);
        }
        host.check_invariants();
        let due = host.next_timeout();
        assert!(
            due.is_none_or(|(at, _)| at > now),
            "a timer does not advance: {due:?}"
        );
    }
}

/// A subscriber that is not a session joins, leaves, or sends a message.
fn other(host: &mut Host, now: Instant, others: &mut u32, draw: &mut Draw<'_>) {
    let what = draw.u8();
    let id = SubscriberId::Other(u32::from(what / 16) % (*others).max(1) + 1);
    let frame = FrameId(draw.u8().into());
    let (take_over, reports) = (what & 1 == 0, what & 2 == 0);
    let role = if what & 4 == 0 {
        Role::Player
    } else {
        Role::Observer
    };
    match what % 8 {
        0 | 1 if *others < 16 => {
            *others += 1;
            let request = SubscribeRequest {
                take_over,
                reports,
                ..SubscribeRequest::new(role, "other")
            };
            let _ = host.subscribe(now, SubscriberId::Other(*others), request);
        }
        2 => host.unsubscribe(id, Ending::Silent),
        3 => drop(host.request_role(id, role, take_over)),
        4 => drop(host.input(now, id, event(draw.u8()), PeerInstant(0))),
        5 => {
            if let Some(pose) = pose(draw) {
                let number = openuvr_proto::id::PoseId(draw.u8().into());
                host.posed(now, id, (number, pose), PeerInstant(draw.u32().into()));
            }
        }
        6 => {
            let why = (Stage::FirstSent, DropCause::SendBufferFull);
            let left = if reports {
                Ok(Departure::default())
            } else {
                Err(why)
            };
            host.departed(now, id, frame, left);
        }
        _ => {
            let report = Report::new(frame, Outcome::SentUnacknowledged);
            host.feedback(now, id, &Feedback::Frame(report));
        }
    }
}

/// The captured and the ended frames of each subscriber.
#[derive(Default)]
struct Books {
    captured: std::collections::HashSet<(SubscriberId, FrameId)>,
    ended: std::collections::HashSet<(SubscriberId, FrameId)>,
    /// Subscribers that have not ended yet.
    subscribed: std::collections::HashSet<SubscriberId>,
}

impl Books {
    fn capture(
        &mut self,
        host: &mut Host,
        now: Instant,
        subscriber: SubscriberId,
        frame: FrameId,
        what: u8,
    ) {
        if !self.subscribed.contains(&subscriber) {
            return;
        }
        self.captured.insert((subscriber, frame));
        let end = FrameOutcome {
            subscriber,
            view: ViewId::FIRST,
            frame,
            stamps: Stamps::default(),
            end: match what & 64 {
                0 => Ok(FrameCost::default()),
                _ => Err((Stage::Converted, DropCause::Superseded)),
            },
        };
        host.record(now, &end);
    }

    fn note(&mut self, event: HostEvent) {
        match event {
            HostEvent::Subscribed { session, .. } => {
                assert!(self.subscribed.insert(session.into()));
            }
            HostEvent::OtherSubscribed { subscriber, .. } => {
                assert!(self.subscribed.insert(subscriber));
            }
            HostEvent::Record(record) => {
                let key = (record.subscriber, record.frame);
                assert!(self.captured.contains(&key), "never captured: {key:?}");
                assert!(self.ended.insert(key), "ended twice: {key:?}");
            }
            HostEvent::Ended(subscriber, _) => {
                self.subscribed.remove(&subscriber);
                let of = |all: &std::collections::HashSet<(SubscriberId, FrameId)>| {
                    all.iter().filter(|(id, _)| *id == subscriber).count()
                };
                assert_eq!(
                    of(&self.captured),
                    of(&self.ended),
                    "these frames did not end"
                );
            }
            _ => {}
        }
    }
}

pub(crate) fn client(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let mut now = Instant(0);
    let mut peer = Peer::new(1, 1, Direction::HostToClient);
    let mut client = ClientSession::new(now, &established(1, 1), offer(&mut draw));
    let mut out = Vec::new();
    let mut over = false;
    while !draw.is_empty() {
        match draw.u8() % 15 {
            0 => now.0 += i64::from(draw.u8()) * 1_000_000,
            1 => now.0 += i64::from(draw.u16()) * 100_000,
            2 | 3 => {
                client.input(now, event(draw.u8()), now);
            }
            4 => client.report(now, report(&mut draw)),
            5 => {
                let state = PictureState {
                    broken: draw.u8() & 1 == 0,
                    last_good: FrameId(draw.u8().into()),
                    newest: FrameId(draw.u8().into()),
                };
                let view = view(draw.u8());
                client.picture(now, view, state, ConfigEpoch(draw.u8().into()));
            }
            6 if draw.u8() < 4 => {
                client.goodbye(GoodbyeReason::Quit);
                over = true;
            }
            8 => {
                let path = PathId([draw.u8(); PathId::LEN]);
                let segmented = draw.u8() & 1 == 0;
                client.probe(now, ProbeTarget { path, segmented });
            }
            9 => client.moved(now),
            14 => {
                if let Some(pose) = pose(&mut draw) {
                    client.pose(now, pose, now);
                }
            }
            7 => {
                let datagram = peer.negotiate(&shaped(draw.u8() % 16).to_bytes());
                let _ = client.handle_datagram(now, PathId::default(), &datagram);
            }
            10 => {
                // The host's response for an unknown session. One of its bits may be altered.
                let mut datagram = peer.seal(&[]);
                datagram[..8].copy_from_slice(&[1, 1, 0, 0, 1, 0, 0, 0]);
                datagram[16..24].copy_from_slice(&now.0.to_le_bytes());
                let mut answer = no_session::answer_to(&datagram).expect("a control datagram");
                answer[usize::from(draw.u8() % 28)] ^= draw.u8() & 1;
                client.handle_unsealed(now, &answer);
            }
            11 => client.handle_unsealed(now, draw.take(28)),
            12 => {
                let token = draw.u64(8);
                let mut body = Vec::new();
                Message::PathChallenge { token }.write(&mut body);
                let datagram = peer.seal(&body);
                let from = PathId([draw.u8(); PathId::LEN]);
                let _ = client.handle_datagram(now, from, &datagram);
            }
            _ => {
                let datagram = peer.anything(&mut draw);
                let _ = client.handle_datagram(now, PathId::default(), &datagram);
            }
        }
        client.handle_timeout(now);
        client.check_invariants();
        for sent in 0.. {
            assert!(sent < 10_000, "the client never stops sending");
            if !client.poll_transmit(now, &mut out) {
                break;
            }
        }
        for asked in 0.. {
            assert!(asked < 6, "the client never stops asking");
            if client.poll_on_path(now, &mut out).is_none() {
                break;
            }
        }
        while client.poll_event().is_some() {}
        let due = client.next_timeout();
        assert!(
            due.is_none_or(|(at, _)| at > now),
            "a timer does not advance: {due:?}"
        );
        assert!(!over || due.is_none());
        assert!(client.silence(now) < Duration::from_secs(6) || due.is_none());
    }
}
