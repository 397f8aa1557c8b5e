//! A client machine: its clock, its session, its receiver, and the link to the host.

use std::collections::BTreeMap;
use std::time::Duration;

use openuvr_proto::client::playout::{self, FrameResult, Playout};
use openuvr_proto::client::{ClientEvent, ClientSession};
use openuvr_proto::control::handshake::Established;
use openuvr_proto::control::negotiate::Offer;
use openuvr_proto::host::Wakeup;
use openuvr_proto::id::{FrameId, InputSeq, PathId, PoseId, SessionId, ViewId};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::pose::Pose;
use openuvr_proto::recv::ArrivalTimes;
use openuvr_proto::recv::reassemble::VideoOutput;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{DropCause, Fidelity};
use openuvr_proto::wire::Reject;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::header::{Plane, plane_of};
use openuvr_proto::wire::video::{PoseEcho, Views};

use super::clock::Clock;
use super::device::Device;
use super::tone::{AUDIO, ReceivedTone};
use super::view::View;
use super::wakeups::Wakeups;
use crate::aqm::{Ecn, Packet};
use crate::link::LinkModel;

/// A finished frame at a client, with times of the world's clock.
#[derive(Clone, Copy, Debug)]
pub struct DisplayedFrame {
    /// The view.
    pub view: ViewId,
    /// The frame's number.
    pub frame: FrameId,
    /// The frame's fidelity.
    pub fidelity: Fidelity,
    /// Capture time.
    pub captured: Instant,
    /// Arrival of the frame's first datagram.
    pub first_received: Instant,
    /// Display time.
    pub at: Instant,
    /// Whether the frame is a key frame.
    pub key_frame: bool,
    /// The pose with which the frame was drawn.
    pub pose: Option<PoseEcho>,
    /// The views of the frame's picture.
    pub views: Option<Views>,
    /// Motion-to-photon latency: first the value computed by the client, then the true value.
    pub motion: Option<(Duration, Duration)>,
}

/// A client.
pub struct Machine {
    /// Session identifier.
    pub session: SessionId,
    clock: Clock,
    wakeups: Wakeups,
    stamps: bool,
    control: ClientSession,
    playout: Playout,
    pub(super) down: LinkModel,
    pub(super) up: LinkModel,
    pub(super) dead: bool,
    pub(super) deaf: bool,
    out: Vec<u8>,
    sampled: Vec<Instant>,
    /// Displayed frames, in order.
    pub shown: Vec<DisplayedFrame>,
    /// Frames dropped by the receiver, in order.
    pub lost: Vec<(FrameId, DropCause)>,
    /// The received part of the test tone.
    pub received_tone: ReceivedTone,
    /// Events of its session.
    pub events: Vec<ClientEvent>,
    newest: BTreeMap<ViewId, FrameId>,
}

impl Machine {
    pub(super) fn new(
        now: Instant,
        device: &Device,
        established: &Established,
        offer: Offer,
        (down, up): (LinkModel, LinkModel),
    ) -> Machine {
        Machine {
            session: established.session,
            clock: device.clock,
            wakeups: device.wakeups.clone(),
            stamps: device.stamps,
            control: ClientSession::new(device.clock.show(now), established, offer),
            playout: Playout::new(established),
            down,
            up,
            dead: false,
            deaf: false,
            out: Vec::new(),
            sampled: Vec::new(),
            shown: Vec::new(),
            lost: Vec::new(),
            received_tone: ReceivedTone::default(),
            events: Vec::new(),
            newest: BTreeMap::new(),
        }
    }

    /// Whether the picture of one of its views is broken.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.playout.media.views().any(|view| view.picture().broken)
    }

    pub(super) fn send_down(&mut self, now: Instant, ecn: Ecn, datagram: &[u8]) {
        if !self.dead && !self.deaf {
            let packet = Packet {
                flow: 0,
                len: datagram.len(),
                ecn,
                content: datagram.to_vec(),
            };
            self.down.send_packet(now, packet);
        }
    }

    pub(super) fn input(&mut self, now: Instant, event: InputEvent) -> InputSeq {
        let mine = self.clock.show(now);
        self.sampled.push(now);
        self.control.input(mine, event, mine)
    }

    pub(super) fn pose(&mut self, now: Instant, pose: Pose) -> PoseId {
        let mine = self.clock.show(now);
        self.control.pose(mine, pose, mine)
    }

    pub(super) fn goodbye(&mut self, now: Instant) {
        self.control.goodbye(GoodbyeReason::Quit);
        self.send_up(now);
    }

    /// Time of the machine's next activity, taking stalls into account.
    pub(super) fn next_timeout(&self, now: Instant) -> Option<Instant> {
        let control = self.control.next_timeout().map(|t| t.0);
        let own = control.into_iter().chain(self.playout.media.next_timeout());
        let due = own
            .map(|at| self.clock.world(at))
            .chain(self.down.next_timeout());
        due.min().map(|at| self.wakeups.runs_at(at.max(now)))
    }

    pub(super) fn wakeup(&self) -> Option<(Instant, Wakeup)> {
        self.control.next_timeout()
    }

    /// Performs due activities at `now`. Returns whether there were any.
    pub(super) fn turn(&mut self, now: Instant, views: &[View]) -> bool {
        if !self.wakeups.runs(now) {
            return false;
        }
        let mine = self.clock.show(now);
        let mut busy = false;
        while let Some((arrived, packet)) = self.down.poll_packet(now) {
            busy = true;
            let arrived = match self.stamps {
                true => self.clock.show(arrived),
                false => mine,
            };
            self.take((now, mine, arrived), &packet, views);
        }
        self.control.handle_timeout(mine);
        self.output(now, mine, views);
        self.playout.media.check_invariants();
        self.control.check_invariants();
        self.check_clock(now, mine);
        busy | self.send_up(now)
    }

    /// Receives a datagram at `now`, which is `mine` on the client's clock. `arrived` is the arrival time on the
    /// client's clock.
    fn take(
        &mut self,
        (now, mine, arrived): (Instant, Instant, Instant),
        packet: &Packet<Vec<u8>>,
        views: &[View],
    ) {
        let datagram = &packet.content[..];
        let seen = ArrivalTimes { now: mine, arrived };
        let taken = match plane_of(datagram) {
            Ok(Plane::Media) => self
                .playout
                .media
                .handle_arrival(seen, Some(packet.ecn), datagram),
            _ => self
                .control
                .handle_datagram(mine, PathId::default(), datagram),
        };
        match taken {
            Ok(()) | Err(Reject::Replayed) => {}
            Err(reject) => panic!("an honest host was refused: {reject}"),
        }
        self.output(now, mine, views);
    }

    fn send_up(&mut self, now: Instant) -> bool {
        let mut any = false;
        while self
            .control
            .poll_transmit(self.clock.show(now), &mut self.out)
        {
            any = true;
            if !self.dead {
                self.up.send(now, self.out.clone());
            }
        }
        any
    }

    /// Stands in for decoders, display and loudspeaker.
    fn output(&mut self, now: Instant, mine: Instant, views: &[View]) {
        while let Some(event) = self.control.poll_event() {
            match event {
                ClientEvent::Announced(view, newest) => {
                    if let Some(view) = self.playout.media.view(view) {
                        view.announce(mine, newest);
                    }
                }
                event => {
                    match &event {
                        ClientEvent::Streams(grants) => self.playout.media.granted(grants),
                        ClientEvent::EcnFeedback => self.playout.media.report_ecn(),
                        _ => {}
                    }
                    self.events.push(event);
                }
            }
        }
        for view in views {
            self.show(now, mine, view);
        }
        if let Some(stream) = self.playout.media.timed(AUDIO) {
            self.received_tone.listen(now, mine, stream);
        }
        self.playout.consult(mine, &mut self.control);
    }

    /// Takes the available slices of a view.
    fn show(&mut self, now: Instant, mine: Instant, view: &View) {
        while let Some(step) = (self.playout.media.view(view.id)).and_then(|v| v.poll(mine)) {
            let fate = FrameResult::of(&step);
            let newest = self.newest.get(&view.id).copied();
            let newest = newest.unwrap_or(FrameId::NONE);
            match step {
                VideoOutput::Slice {
                    header,
                    macroblocks,
                    bytes,
                    ..
                } => {
                    assert!(header.frame > newest, "slices in order");
                    assert_eq!(header.view_id(), view.id, "a slice belongs to another view");
                    let sent = view.source.slice(&header, macroblocks.0);
                    assert!(bytes == sent, "the bytes of {:?} differ", header.frame);
                }
                VideoOutput::Missing { header, .. } => {
                    assert!(header.frame > newest, "slices in order");
                }
                VideoOutput::End(_) | VideoOutput::Dropped { .. } => {}
            }
            if let Some(fate) = fate {
                self.finish(now, mine, view.id, &fate);
            }
        }
    }

    /// Finishes a frame. Decoding and display take no time.
    fn finish(&mut self, now: Instant, mine: Instant, view: ViewId, fate: &FrameResult) {
        let shown = playout::Presentation {
            decoded: Some(mine),
            submitted: Some(mine),
            failure: None,
        };
        let report = (self.playout).finish(mine, view, fate, &shown, &mut self.control);
        assert_eq!(report.view, view);
        let before = self.newest.insert(view, report.frame);
        assert!(before < Some(report.frame), "frames in order, once each");
        match fate {
            FrameResult::Dropped { frame, why, .. } => self.lost.push((*frame, *why)),
            FrameResult::Completed(end) => {
                let place = (end.header.echo.seq.0 as usize).checked_sub(1);
                let sampled = place.and_then(|place| self.sampled.get(place));
                let motion = report.motion_to_photon.zip(sampled);
                self.shown.push(DisplayedFrame {
                    view,
                    frame: report.frame,
                    fidelity: end.fidelity,
                    captured: Instant(end.header.captured),
                    first_received: self.clock.world(end.first_received),
                    at: now,
                    key_frame: end.header.is_key(),
                    pose: end.pose,
                    views: end.views,
                    motion: motion.map(|(computed, sampled)| (computed, now.since(*sampled))),
                });
            }
        }
    }

    /// Asserts that the client maps the host's clock to its own within the bound.
    fn check_clock(&self, now: Instant, mine: Instant) {
        let believed = self.control.clock().to_mine(PeerInstant(now.0), mine);
        if let Some(mapped) = believed {
            let error = (mapped.at.0 - mine.0).unsigned_abs();
            assert!(
                u128::from(error) <= mapped.bound.as_nanos(),
                "{error} ns off, {mapped:?}"
            );
        }
    }
}
