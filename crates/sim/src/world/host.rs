//! The world's host: stand-ins for its threads.

use openuvr_proto::control::streams::Grant;
use openuvr_proto::ecn::Ecn;
use openuvr_proto::host::HostEvent;
use openuvr_proto::id::{SessionId, SubscriberId, ViewId};
use openuvr_proto::send::loss::Loss;
use openuvr_proto::send::rendition::{AppliedInput, OpenedEncoder};
use openuvr_proto::send::session::{Allowed, Session};
use openuvr_proto::send::subscriber::{Feedback, Slice};
use openuvr_proto::time::PeerInstant;
use openuvr_proto::trace::FrameRecord;
use openuvr_proto::wire::control::Report;
use openuvr_proto::wire::media::{StreamId, StreamKind};
use openuvr_proto::wire::video::{EchoKind, PoseEcho};

use super::World;
use super::source::{Coding, MACROBLOCKS, SIZE, SLICES};
use super::tone::{AUDIO, Tone};
use super::view::{Outbox, View};

impl World {
    pub(super) fn host_events(&mut self) {
        while let Some(event) = self.host.poll_event() {
            match event {
                HostEvent::Subscribed {
                    session,
                    role,
                    offer,
                    streams,
                    media,
                    ..
                } => {
                    let video = |grant: &&Grant| grant.stream == StreamId::first(StreamKind::Video);
                    let views = streams.iter().find(video).map_or(1, |grant| grant.views);
                    for view in self.views.iter_mut().filter(|view| view.id.view < views) {
                        let subscriber = Session::new(Box::new(media.video()), Outbox::default());
                        (view.rendition).subscribe(
                            session.into(),
                            role,
                            offer.constraints,
                            subscriber,
                        );
                    }
                    if streams.iter().any(|grant| grant.stream == AUDIO) {
                        self.tones
                            .push(Tone::new(self.now, session, media.timed(AUDIO)));
                    }
                }
                HostEvent::RoleChanged(subscriber, role) => {
                    self.role_changes.push((session_of(subscriber), role));
                    for view in &mut self.views {
                        view.rendition.set_role(subscriber, role);
                    }
                }
                HostEvent::OtherSubscribed { .. } => {
                    panic!("this world has no subscribers but sessions")
                }
                HostEvent::PathChanged { .. } => panic!("no client changes its path in this world"),
                HostEvent::Clipboard(..) => panic!("no clipboard in this world"),
                HostEvent::WindowSize(..) => panic!("no client has a window in this world"),
                HostEvent::Ended(subscriber, ending) => {
                    let session = session_of(subscriber);
                    self.tones.retain(|tone| tone.session != session);
                    for view in &mut self.views {
                        view.rendition.unsubscribe(subscriber);
                        // The subscriber does not receive the frame that is being coded.
                        let coded = view.coding.as_ref().map(|c| c.frame);
                        if let Some(captured) = self.captured.get_mut(&(session.0, view.id)) {
                            captured.pop_if(|last| Some(*last) == coded);
                        }
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
                HostEvent::KeyRepeat(may) => self.repeats.push((may, self.now)),
                HostEvent::KeyFrameRequested {
                    session,
                    view,
                    last_good,
                    newest,
                } => {
                    let wish = Feedback::KeyFrame { last_good, newest };
                    let now = self.now;
                    if let Some(view) = self.view(view) {
                        view.rendition.feedback(now, session.into(), wish);
                    }
                }
                HostEvent::RetransmissionRequested(session, request) => {
                    let now = self.now;
                    let view = self.view(request.view);
                    let subscriber =
                        view.and_then(|view| view.rendition.subscriber(session.into()));
                    if let Some(subscriber) = subscriber {
                        subscriber.resend(now, &request);
                    }
                    self.send_media();
                }
                HostEvent::AudioReport(..) => panic!("no audio reports in this world"),
                HostEvent::Record(record) => {
                    self.check_clock(&record);
                    let arrival = Feedback::Frame(Report::from(&*record));
                    let now = self.now;
                    if let Some(view) = self.view(record.view) {
                        (view.rendition).feedback(now, record.subscriber, arrival);
                    }
                    let all = self.records.entry(record.subscriber.number()).or_default();
                    all.push(*record);
                }
            }
        }
    }

    fn view(&mut self, id: ViewId) -> Option<&mut View> {
        self.views.iter_mut().find(|view| view.id == id)
    }

    /// Sends the due payloads of the test tones.
    pub(super) fn play_tones(&mut self) {
        for tone in &mut self.tones {
            let loss = self.host.link(self.now, tone.session.into());
            let to = |m: &&mut super::Machine| m.session == tone.session;
            let Some(machine) = self.machines.iter_mut().find(to) else {
                continue;
            };
            tone.follow(loss.map_or(Loss::NONE, |link| link.loss));
            while let Some(datagrams) = tone.play(self.now) {
                for datagram in datagrams.iter() {
                    machine.send_down(self.now, Ecn::NotEct, datagram);
                }
            }
        }
    }

    /// Passes the subscribers' datagrams to the links.
    fn send_media(&mut self) {
        let subscribers = self
            .views
            .iter_mut()
            .flat_map(|v| v.rendition.subscribers());
        for (id, subscriber) in subscribers {
            let to = |m: &&mut super::Machine| Some(m.session) == id.session();
            if let Some(machine) = self.machines.iter_mut().find(to) {
                for (ecn, datagram) in subscriber.transmit_path().0.drain(..) {
                    machine.send_down(self.now, ecn, &datagram);
                }
            }
        }
    }

    /// Asserts that the host maps the client's timestamps to its own clock within the bound.
    fn check_clock(&self, record: &FrameRecord) {
        let Some(mapped) = record.client.first_received_here else {
            return;
        };
        let machine =
            (self.machines.iter()).find(|m| SubscriberId::from(m.session) == record.subscriber);
        let this = |s: &&super::DisplayedFrame| s.frame == record.frame && s.view == record.view;
        let shown = machine.and_then(|m| m.shown.iter().rfind(this));
        if let Some(shown) = shown {
            let error = (mapped.at.0 - shown.first_received.0).unsigned_abs();
            assert!(
                u128::from(error) <= mapped.bound.as_nanos(),
                "{error} ns off, {mapped:?}"
            );
        }
    }

    /// Stands in for the media threads, one per view.
    pub(super) fn capture(&mut self) {
        for i in 0..self.views.len() {
            let view = &mut self.views[i];
            if view.coding.is_none() {
                let fresh = view.source.moves(self.now);
                if fresh || view.deadline().is_some_and(|at| at <= self.now) {
                    self.frame(i, fresh);
                }
            }
            while let Some(coding) = self.views[i].coding.take_if(|c| c.next <= self.now) {
                self.views[i].coding = self.code(i, coding);
            }
        }
    }

    /// Processes the picture of a view. `fresh` is whether the picture was just captured.
    fn frame(&mut self, i: usize, fresh: bool) {
        let view = &mut self.views[i];
        let sessions = view.sessions();
        let link = |id: SubscriberId| self.host.link(self.now, id);
        view.rendition.follow_links(link);
        for (_, subscriber) in view.rendition.subscribers() {
            subscriber.allow(Allowed {
                parity: self.parity,
                resend: self.resend,
            });
        }
        let before = view.rendition.frame();
        let goes = view.rendition.captured(self.now, fresh);
        let frame = view.rendition.frame();
        for session in sessions.iter().filter(|_| frame != before) {
            let captured = self.captured.entry((session.0, view.id)).or_default();
            captured.push(frame);
        }
        let repeats = !fresh && !view.held;
        if frame != before {
            view.held = !goes;
        }
        if goes {
            if repeats {
                self.repeated.insert(frame);
            }
            self.start_frame(i);
        }
        self.frames_end(i);
    }

    fn start_frame(&mut self, i: usize) {
        let view = &mut self.views[i];
        if let Some(input) = &self.applied {
            view.rendition.applied(input);
        }
        let drawn = self.host.pose().filter(|_| self.draws_poses).map(|posed| {
            let echo = PoseEcho {
                pose: posed.id,
                at: posed.pose,
                display: Some(PeerInstant(self.now.0)),
            };
            (posed.subscriber, echo)
        });
        let shows = view.shows.filter(|_| self.draws_poses);
        view.rendition.drawn(drawn, shows);
        if view.rendition.needs_encoder(SIZE) {
            view.rendition.encoder_opened(OpenedEncoder {
                size: SIZE,
                codec: 1,
                colour: 1,
                slices: SLICES,
                depth: 8,
                codes_parts: false,
                macroblocks: MACROBLOCKS,
            });
        }
        while let Some(decision) = view.rendition.poll_control_event() {
            self.decisions.push((self.now, decision));
        }
        let _ = view.rendition.new_target();
        let mut content = view.content.as_mut();
        let difference = content.as_mut().map(|content| content.draw());
        let begun = view.rendition.start_frame(self.now, None, difference);
        let Some((plan, _)) = begun else {
            return;
        };
        let size = content.map(|content| content.bytes(plan.qp, plan.is_key()));
        let coding = view.source.code(self.now, &plan, size);
        if let Some(frames) = coding.clean_after {
            self.refreshes_sent.push((plan.frame, frames));
        }
        if plan.is_key() {
            self.key_frames_sent.push((plan.frame, self.now));
        }
        view.coding = Some(coding);
    }

    /// Continues a frame with its next slice, or with paced datagrams. Returns the frame unless everything has been
    /// sent.
    fn code(&mut self, i: usize, mut coding: Coding) -> Option<Coding> {
        if let Some((place, bytes)) = coding.slice() {
            let slice = Slice {
                place,
                clean_after: coding.clean_after,
                bytes: &bytes,
            };
            self.views[i].rendition.fan_out().slice(self.now, &slice);
            self.send_media();
            if coding.advance() {
                return Some(coding);
            }
        }
        let waits = self.views[i].rendition.end(self.now);
        self.send_media();
        if let Some(at) = waits {
            coding.next = at;
            return Some(coding);
        }
        self.frames_end(i);
        None
    }

    /// Records the outcomes of a view's frames.
    fn frames_end(&mut self, i: usize) {
        while let Some(end) = self.views[i].rendition.poll_end() {
            self.host.record(self.now, &end);
        }
    }
}

/// All subscribers of this world are sessions.
fn session_of(subscriber: SubscriberId) -> SessionId {
    subscriber.session().expect("a session")
}
