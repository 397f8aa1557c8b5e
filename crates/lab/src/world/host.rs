//! The world's host: what its threads would do with the sessions and the rendition.

use openuvr_proto::host::HostEvent;
use openuvr_proto::id::{SessionId, SubscriberId};
use openuvr_proto::send::congestion::Range;
use openuvr_proto::send::packetize::SendBuf;
use openuvr_proto::send::policy::Recovery;
use openuvr_proto::send::rendition::{AppliedInput, OpenedEncoder, PolicySettings, Settings};
use openuvr_proto::send::session::{Allowed, Session, Transmit, Transmitted};
use openuvr_proto::send::subscriber::{Feedback, Slice};
use openuvr_proto::time::Instant;
use openuvr_proto::trace::FrameRecord;
use openuvr_proto::units::Bitrate;
use openuvr_proto::wire::control::Report;
use openuvr_proto::wire::video::EchoKind;

use super::World;
use super::source::{Coding, MACROBLOCKS, SIZE, SLICES};
use crate::random::Random;

/// A host whose frames have the size that they have.
pub(super) const FREE: Settings = Settings {
    policy: PolicySettings {
        fps: 60.0,
        range: Range {
            min: Bitrate::from_mbps(1000),
            start: Bitrate::from_mbps(1000),
            max: Bitrate::from_mbps(1000),
        },
        adaptive: false,
        recovery: Recovery::KeyFrame,
        key_frame_every: None,
    },
    // There is no picture that could be made better.
    top_up: false,
};

/// Datagrams on their way from a sender to its link.
#[derive(Default)]
pub(super) struct Outbox(Vec<Vec<u8>>);

impl Transmit for Outbox {
    fn transmit(&mut self, now: Instant, datagrams: &SendBuf) -> Transmitted {
        self.0.extend(datagrams.iter().map(<[u8]>::to_vec));
        let sent = (!datagrams.is_empty()).then_some(now);
        Transmitted {
            first: sent,
            last: sent,
            overflowed: false,
        }
    }
}

/// What the frames show, of which only the sizes are modelled.
pub(super) struct Content {
    /// Bits of a frame at quantiser 0; a key frame takes four times as many.
    complexity: f64,
    noise: Random,
}

impl Content {
    pub(super) fn new(seed: u64, complexity: f64) -> Content {
        Content {
            complexity,
            noise: Random::new(seed, 99),
        }
    }

    /// The bytes of the next frame.
    fn bytes(&mut self, qp: u8, key_frame: bool) -> u64 {
        let content = self.complexity * (0.7 + 0.6 * self.noise.unit());
        let bits = content * if key_frame { 4.0 } else { 1.0 };
        let bytes = bits * 2_f64.powf(-f64::from(qp) / 6.0) / 8.0;
        #[expect(clippy::cast_possible_truncation, reason = "a frame's bytes")]
        #[expect(clippy::cast_sign_loss, reason = "> 0")]
        let bytes = bytes as u64;
        bytes
    }
}

impl World {
    pub(super) fn host_events(&mut self) {
        while let Some(event) = self.host.poll_event() {
            match event {
                HostEvent::Subscribed {
                    session,
                    role,
                    offer,
                    media,
                    ..
                } => {
                    let subscriber = Session::new(media, Outbox::default());
                    (self.rendition).subscribe(session.into(), role, offer.wishes, subscriber);
                }
                HostEvent::RoleChanged(subscriber, role) => {
                    self.role_changes.push((session_of(subscriber), role));
                    self.rendition.set_role(subscriber, role);
                }
                HostEvent::OtherSubscribed { .. } => panic!("only sessions are in this world"),
                HostEvent::PathChanged { .. } => panic!("nobody moves in this world"),
                HostEvent::Ended(subscriber, ending) => {
                    self.rendition.unsubscribe(subscriber);
                    let session = session_of(subscriber);
                    // A frame that is being coded was meant for it, but does not go there.
                    let coded = self.coding.as_ref().map(|c| c.frame);
                    if let Some(captured) = self.captured.get_mut(&session.0) {
                        captured.pop_if(|last| Some(*last) == coded);
                    }
                    self.ended.push((session, ending, self.now));
                }
                HostEvent::Input {
                    from,
                    arrived,
                    received,
                } => {
                    self.injected.push((arrived.seq, arrived.event));
                    self.applied = Some(AppliedInput {
                        from,
                        seq: arrived.seq,
                        kind: EchoKind::Injected,
                        received,
                        applied: self.now,
                    });
                }
                HostEvent::ReleaseInput => self.released.push(self.now),
                HostEvent::KeyFrameWanted {
                    session,
                    last_good,
                    newest,
                } => {
                    let wish = Feedback::KeyFrame { last_good, newest };
                    self.rendition.feedback(self.now, session.into(), wish);
                }
                HostEvent::ResendWanted(session, request) => {
                    if let Some(subscriber) = self.rendition.subscriber(session.into()) {
                        subscriber.resend(self.now, &request);
                    }
                    self.send_media();
                }
                HostEvent::Record(record) => {
                    self.check_clock(&record);
                    let arrival = Feedback::Frame(Report::from(&*record));
                    (self.rendition).feedback(self.now, record.subscriber, arrival);
                    let all = self.records.entry(record.subscriber.number()).or_default();
                    all.push(*record);
                }
            }
        }
    }

    /// Hands to the links what the subscribers have sent.
    fn send_media(&mut self) {
        for (id, subscriber) in self.rendition.subscribers() {
            let to = |m: &&mut super::Machine| Some(m.session) == id.session();
            if let Some(machine) = self.machines.iter_mut().find(to) {
                for datagram in subscriber.transmit_path().0.drain(..) {
                    machine.send_down(self.now, &datagram);
                }
            }
        }
    }

    /// What the host believes of the client's stamps is true within its bound.
    fn check_clock(&self, record: &FrameRecord) {
        let Some(mapped) = record.client.first_received_here else {
            return;
        };
        let machine = self
            .machines
            .iter()
            .find(|m| SubscriberId::from(m.session) == record.subscriber);
        let shown = machine.and_then(|m| m.shown.iter().rfind(|s| s.frame == record.frame));
        if let Some(shown) = shown {
            let error = (mapped.at.0 - shown.first_received.0).unsigned_abs();
            assert!(
                u128::from(error) <= mapped.bound.as_nanos(),
                "{error} ns off, {mapped:?}"
            );
        }
    }

    /// When a frame is due although nothing moves: the media thread's own deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let idle = self.coding.is_none() && self.source.is_pictured();
        self.rendition.next_deadline().filter(|_| idle)
    }

    /// What the media thread would do now.
    pub(super) fn capture(&mut self) {
        if self.coding.is_none() {
            let fresh = self.source.moves(self.now);
            if fresh || self.deadline().is_some_and(|at| at <= self.now) {
                self.frame(fresh);
            }
        }
        while self.coding.as_ref().is_some_and(|c| c.next <= self.now) {
            if let Some(coding) = self.coding.take() {
                self.coding = self.code(coding);
            }
        }
    }

    fn sessions(&mut self) -> Vec<SessionId> {
        let ids = self.rendition.subscribers();
        ids.filter_map(|(id, _)| id.session()).collect()
    }

    /// Looks at the picture, which was captured just now if it is `fresh`.
    fn frame(&mut self, fresh: bool) {
        let sessions = self.sessions();
        let link = |id: SubscriberId| self.host.link(self.now, id);
        self.rendition.follow_links(link);
        for (_, subscriber) in self.rendition.subscribers() {
            subscriber.allow(Allowed {
                parity: self.parity,
                resend: self.resend,
            });
        }
        let before = self.rendition.frame();
        let goes = self.rendition.captured(self.now, fresh);
        let frame = self.rendition.frame();
        for session in sessions.iter().filter(|_| frame != before) {
            self.captured.entry(session.0).or_default().push(frame);
        }
        if goes {
            if !fresh && !self.held {
                self.repeated.insert(frame);
            }
            self.begin();
        }
        if frame != before {
            self.held = !goes;
        }
        self.frames_end();
    }

    fn begin(&mut self) {
        if let Some(input) = &self.applied {
            self.rendition.applied(input);
        }
        if self.rendition.needs_encoder(SIZE) {
            self.rendition.encoder_opened(OpenedEncoder {
                size: SIZE,
                codec: 1,
                colour: 1,
                slices: SLICES,
                depth: 8,
                codes_parts: false,
                macroblocks: MACROBLOCKS,
            });
        }
        let _ = self.rendition.new_target();
        let Some((plan, _)) = self.rendition.begin(self.now, None) else {
            return;
        };
        let content = self.content.as_mut();
        let size = content.map(|content| content.bytes(plan.qp, plan.is_key()));
        let coding = self.source.code(self.now, &plan, size);
        if let Some(frames) = coding.clean_after {
            self.waves_sent.push((plan.frame, frames));
        }
        if plan.is_key() {
            self.key_frames_sent.push((plan.frame, self.now));
        }
        self.coding = Some(coding);
    }

    /// Goes on with a frame: its next slice, or what had to wait; the frame, until all has left.
    fn code(&mut self, mut coding: Coding) -> Option<Coding> {
        if let Some((place, bytes)) = coding.slice() {
            let slice = Slice {
                place,
                clean_after: coding.clean_after,
                bytes: &bytes,
            };
            self.rendition.fan_out().slice(self.now, &slice);
            self.send_media();
            if coding.advance() {
                return Some(coding);
            }
        }
        let waits = self.rendition.end(self.now);
        self.send_media();
        if let Some(at) = waits {
            coding.next = at;
            return Some(coding);
        }
        self.frames_end();
        None
    }

    /// Tells the books how frames ended.
    fn frames_end(&mut self) {
        while let Some(end) = self.rendition.poll_end() {
            self.host.record(self.now, &end);
        }
    }
}

/// All who come to this world have one.
fn session_of(subscriber: SubscriberId) -> SessionId {
    subscriber.session().expect("a session")
}
