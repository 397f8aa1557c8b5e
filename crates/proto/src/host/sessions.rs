//! The OpenUVR sessions of a host: handshakes, offers, reports, and their control messages.

use std::collections::VecDeque;

use super::roles::Grant;
use super::session::{OFFER_TIMEOUT, Session};
use super::views::View;
use super::{Ending, Host, HostEvent, ProbeRequest, RELEASE_AFTER};
use crate::bytes::Reject;
use crate::control::handshake::{Established, PublicKey};
use crate::control::negotiate::{Negotiation, Offer, Refusal, Role};
use crate::control::no_session::{self, NO_SESSION};
use crate::control::plane::{PlaneEvent, SILENCE, Wakeup, earlier};
use crate::control::streams;
use crate::control::transport_probe::{BURST, TransportKind};
use crate::id::{FrameId, PathId, SessionId, SubscriberId, ViewId};
use crate::send::loss::LinkState;
use crate::time::Instant;
use crate::wire::control::{GoodbyeReason, MAX_CONTROL_BODY, Message, RetransmissionRequest};
use crate::wire::header::{Header, Plane};

/// Bytes of padding that make a probe's answer a full datagram. Kind, length and the fields take nine bytes.
#[expect(clippy::cast_possible_truncation, reason = "a datagram has 1400 bytes")]
const PROBED_PADDING: u16 = (MAX_CONTROL_BODY - 9) as u16;

impl Host {
    /// Adds a session after a handshake with the peer at `path`, and ends the device's earlier session.
    pub fn established(&mut self, now: Instant, path: PathId, established: &Established) {
        let (peer, new) = (established.peer.0, established.session.into());
        for old in &mut self.sessions {
            if old.peer == peer && !old.member.is_over() {
                self.roles.succeed(old.member.id, new);
                // The earlier session may belong to another program on the same device. This reason keeps that program
                // from reconnecting, which would end the new session in turn. A client that lost its link and
                // reconnected has new keys, so it cannot read the message.
                old.end(GoodbyeReason::TakenOver, Ending::Replaced);
            }
        }
        self.sessions.push(Session::new(now, path, established));
        self.reap();
    }

    /// Restricts a session that has not sent an offer yet to observing.
    pub fn observe_only(&mut self, session: SessionId) {
        if let Some(session) = self.sessions.iter_mut().find(|s| s.id == session) {
            session.observe_only = true;
        }
    }

    /// Handles a sealed datagram.
    ///
    /// # Errors
    /// [`Reject`] if it belongs to no session, is not authentic, is a duplicate, or is invalid.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: PathId,
        datagram: &[u8],
    ) -> Result<(), Reject> {
        let (header, plane) = Header::parse(datagram)?;
        if plane != Plane::Control {
            return Err(Reject::Kind(plane as u8));
        }
        let id = header.session();
        let i = self
            .sessions
            .iter()
            .position(|s| s.id == id)
            .ok_or(Reject::Session)?;
        let heard = self.sessions[i].plane.handle(now, datagram)?;
        let session = &mut self.sessions[i];
        if session.follow(now, from, datagram.len(), &heard) {
            self.events.push_back(HostEvent::PathChanged {
                session: id,
                path: session.paths.now(),
                segmented: session.segmented,
            });
        }
        let reports = |heard: &PlaneEvent| matches!(heard, PlaneEvent::Message(Message::Report(_)));
        let reports = heard.iter().any(reports);
        let mut after = (ViewId::FIRST, FrameId::NONE);
        for heard in heard {
            match heard {
                PlaneEvent::Negotiation(Negotiation::Offer(offer)) => self.offered(i, offer),
                PlaneEvent::Negotiation(Negotiation::WindowSize(size)) => {
                    let session = &mut self.sessions[i];
                    if session.is_active() && session.window_sizes.take(now) {
                        let id = session.id;
                        self.events.push_back(HostEvent::WindowSize(id, size));
                    }
                }
                PlaneEvent::Negotiation(Negotiation::ClipboardPiece(piece)) => {
                    self.clipboard_piece(i, &piece);
                }
                PlaneEvent::Negotiation(_) => {}
                PlaneEvent::Message(Message::ReportsAfter { view, frame }) => {
                    after = (view, frame);
                }
                PlaneEvent::Message(message) => {
                    if let Message::Report(report) = &message
                        && let Some(view) = self.sessions[i].member.views.get(report.view)
                    {
                        let of_it = Some(after.1).filter(|_| after.0 == report.view);
                        let after = of_it.unwrap_or(FrameId::NONE);
                        view.ledger.followed(after, report.frame);
                    }
                    self.handle_message(now, i, &message);
                }
            }
        }
        if reports && self.sessions[i].joined {
            let s = &mut self.sessions[i];
            for view in s.member.views.iter_mut() {
                view.ledger.close_lost();
                let through = view.ledger.reported_through();
                let view = view.id;
                s.plane.queue(&Message::ReportsAcked { view, through });
            }
        }
        self.sessions[i].push_key_repeat(now, &mut self.events);
        self.reap();
        Ok(())
    }

    /// The reply to a datagram from `from` that was rejected with [`Reject::Session`]; `None` if it is not a control
    /// datagram, or if the rate limit for such replies is reached.
    pub fn answer_unknown_session(
        &mut self,
        now: Instant,
        from: PathId,
        datagram: &[u8],
    ) -> Option<[u8; NO_SESSION]> {
        let answer = no_session::answer_to(datagram)?;
        self.unknown_sessions
            .may(now, from.network())
            .then_some(answer)
    }

    fn offered(&mut self, i: usize, offer: Offer) {
        let session = &self.sessions[i];
        if session.joined || session.member.is_over() {
            return;
        }
        let decodes = offer.codecs & self.policy.codecs != 0;
        let granted = match decodes {
            true if session.observe_only => {
                (self.roles).request(session.member.id, Role::Observer, false)
            }
            true => (self.roles).request(session.member.id, offer.role, offer.take_over),
            false => Err(Refusal::NoCommonCodec),
        };
        let grant = match granted {
            Ok(grant) => grant,
            Err(refusal) => {
                let session = &mut self.sessions[i];
                // The stream is empty, so there is room.
                let _ = session.plane.negotiate(&Negotiation::Refused(refusal));
                session.member.ending = Some(Ending::Refused(refusal));
                return;
            }
        };
        self.settle_roles();
        let granted = self.granted(grant);
        let streams = streams::granted(&self.policy.streams, &offer.streams);
        let session = &mut self.sessions[i];
        session.joined = true;
        session.member.views.granted(&streams);
        let _ = session.plane.negotiate(&granted);
        if !streams.is_empty() {
            let grants = Negotiation::Streams(streams.clone());
            let _ = session.plane.negotiate(&grants);
        }
        session.send_clipboard_directions(grant.role, self.clipboard_directions);
        session.send_pads_taken(grant.role, self.pads_taken);
        session.send_ecn_feedback(grant.role, self.ecn_feedback);
        session.shape_due = self.cursor.shape().is_some();
        session.mouse_due = self.cursor.relative_mouse();
        session.shown_due = !self.source_shown;
        session.plane.queue(&self.cursor.moved());
        let mut uplink = session.uplink.take();
        if let Some(uplink) = &mut uplink {
            uplink.granted(&streams);
        }
        if let Some(media) = session.media.take() {
            self.events.push_back(HostEvent::Subscribed {
                session: session.id,
                path: session.paths.now(),
                segmented: session.segmented,
                peer: PublicKey(session.peer),
                role: grant.role,
                offer: Box::new(offer),
                streams,
                media,
                uplink: uplink.filter(|uplink| uplink.is_open()),
            });
        }
    }

    /// The grant message for a client.
    pub(super) fn granted(&self, grant: Grant) -> Negotiation {
        Negotiation::Granted {
            role: grant.role,
            host: self.policy.name.clone(),
            keys: self.policy.keys,
            observer_reason: grant.observer_reason,
        }
    }

    fn handle_message(&mut self, now: Instant, i: usize, message: &Message<'_>) {
        let s = &mut self.sessions[i];
        if let (Message::Goodbye { reason }, None) = (message, s.member.ending) {
            s.member.ending = Some(Ending::Goodbye(*reason));
        }
        let Some(role) = self.roles.role(s.member.id) else {
            return;
        };
        match message {
            Message::Input(batch) if role == Role::Player => {
                for arrived in s.inbox.take(batch) {
                    s.member.did(&arrived.event);
                    self.inputs_waiting += 1;
                    self.events.push_back(HostEvent::Input {
                        from: s.member.id,
                        arrived,
                        received: now,
                    });
                }
                s.plane.queue(&Message::InputAcked {
                    through: s.inbox.through(),
                });
            }
            // An observer's input is ignored, but acknowledged so that it is not retransmitted.
            Message::Input(batch) => {
                s.inbox.skip(batch);
                s.plane.queue(&Message::InputAcked {
                    through: s.inbox.through(),
                });
            }
            Message::Pose { id, sampled, pose } if role == Role::Player => {
                s.member.pose(now, (*id, *pose), *sampled, &s.plane.clock);
            }
            Message::Controllers {
                number,
                sampled,
                states,
            } if role == Role::Player => {
                let clock = &s.plane.clock;
                s.member.controls(now, (*number, *states), *sampled, clock);
            }
            Message::Display { number, display } => {
                let clock = &s.plane.clock;
                s.member.set_display(now, (*number, *display), clock);
            }
            Message::Report(report) => {
                s.member.reported(now, report, &s.plane.clock);
            }
            // Requests for views that the client does not get are ignored.
            Message::KeyFrameRequest { view, .. }
            | Message::RetransmissionRequest(RetransmissionRequest { view, .. })
                if s.member.views.get(*view).is_none() => {}
            Message::KeyFrameRequest {
                view,
                last_good,
                newest,
            } if s.feedback_requests.take(now) => {
                self.events.push_back(HostEvent::KeyFrameRequested {
                    session: s.id,
                    view: *view,
                    last_good: *last_good,
                    newest: *newest,
                });
            }
            Message::AudioReport(report) if s.feedback_requests.take(now) => {
                self.events.push_back(HostEvent::AudioReport(s.id, *report));
            }
            Message::RetransmissionRequest(request) if s.feedback_requests.take(now) => {
                self.events
                    .push_back(HostEvent::RetransmissionRequested(s.id, request.clone()));
            }
            _ => {}
        }
    }

    /// Ends the sessions and external subscriptions that `which` selects by the device's public key.
    pub fn end(&mut self, reason: GoodbyeReason, which: impl Fn(&[u8; 32]) -> bool) {
        self.end_sessions(reason, &which);
        self.dismiss_devices(reason, which);
        // The next call may be `poll_transmit` in another thread, which removes ended sessions. They must not keep
        // their roles.
        self.reap();
    }

    /// Ends the sessions that `which` selects. The caller must then free their roles ([`Host::reap`]).
    pub(super) fn end_sessions(
        &mut self,
        reason: GoodbyeReason,
        which: impl Fn(&[u8; 32]) -> bool,
    ) {
        for s in &mut self.sessions {
            if !s.member.is_over() && which(&s.peer) {
                s.end(reason, Ending::Closed);
            }
        }
    }

    /// Replaces `out` by the next datagram; returns its destination. Removes ended sessions that have nothing more to
    /// send.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<PathId> {
        self.send_rumble(now);
        let mut i = 0;
        while let Some(s) = self.sessions.get_mut(i) {
            if s.can_send_state() {
                if let Some(shape) = self.cursor.shaped().filter(|_| s.shape_due) {
                    s.shape_due = !s.plane.negotiate(&shape);
                }
                if s.shown_due {
                    let shown = Negotiation::SourceShown(self.source_shown);
                    s.shown_due = !s.plane.negotiate(&shown);
                }
            }
            if s.can_send_mouse() {
                let mouse = Negotiation::RelativeMouse(self.cursor.relative_mouse());
                s.mouse_due = !s.plane.negotiate(&mouse);
            }
            if s.can_send_text()
                && let Some(piece) = s.sent_text.piece()
                && s.plane.negotiate(&Negotiation::ClipboardPiece(piece))
            {
                s.sent_text.mark_sent();
            }
            if s.plane.poll_transmit(now, out) {
                return Some(s.paths.now());
            }
            if !s.member.is_over()
                && let Some((path, token)) = s.paths.poll(now)
            {
                out.clear();
                (s.plane).seal_alone(now, &Message::PathChallenge { token }, out);
                return Some(path);
            }
            if let Some(ending) = s.member.ending.filter(|_| !s.is_lingering(now)) {
                s.member.end_frames();
                while let Some(record) = s.member.views.poll() {
                    self.events.push_back(HostEvent::Record(Box::new(record)));
                }
                let ended = HostEvent::Ended(s.member.id, ending);
                self.events.push_back(ended);
                self.sessions.remove(i);
            } else {
                i += 1;
            }
        }
        None
    }

    /// Queues rumble and haptic messages for the player's client.
    fn send_rumble(&mut self, now: Instant) {
        let player = self.roles.player();
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|s| Some(s.member.id) == player && s.is_active());
        let mut others = self.others.iter_mut();
        let other = others.find(|o| Some(o.member.id) == player && !o.member.is_over());
        if session.is_none() && other.is_none() {
            return self.forget_vibrations();
        }
        let mut due = other.map(|other| &mut other.due);
        let mut plane = session.map(|session| &mut session.plane);
        while let Some(update) = self.rumbles.poll(now) {
            if let Some(plane) = &mut plane {
                plane.queue(&update.message());
            }
            if let Some(due) = &mut due {
                due.rumbles[update.pad.index()] = Some((update.rumble, update.millis));
            }
        }
        while let Some(update) = self.haptics.poll(now) {
            if let Some(plane) = &mut plane {
                plane.queue(&update.message());
            }
            // Updates to external subscribers are not lost, so they need no repetition.
            if let Some(due) = due.as_mut().filter(|_| update.is_new) {
                due.haptics[update.haptic.hand.index()] = Some(update.haptic);
            }
        }
    }

    /// A client's probe of a validated path.
    pub fn poll_probe(&mut self) -> Option<ProbeRequest> {
        self.sessions
            .iter_mut()
            .find_map(Session::poll_probe_request)
    }

    /// Replaces `out` by the answer: [`BURST`] consecutive datagrams of the returned length, to be sent over `transport` in
    /// one call. Returns zero if the session is gone.
    pub fn answer_probe(
        &mut self,
        now: Instant,
        asked: &ProbeRequest,
        transport: TransportKind,
        out: &mut Vec<u8>,
    ) -> usize {
        out.clear();
        let Some(s) = self.sessions.iter_mut().find(|s| s.id == asked.session) else {
            return 0;
        };
        for piece in 0..BURST {
            let message = Message::Probed {
                token: asked.token,
                piece,
                transport: Some(transport),
                padding: PROBED_PADDING,
            };
            s.plane.seal_alone(now, &message, out);
        }
        out.len() / usize::from(BURST)
    }

    /// The link state of a subscriber with a session; otherwise `None`.
    #[must_use]
    pub fn link(&self, now: Instant, id: SubscriberId) -> Option<LinkState> {
        let session = self.sessions.iter().find(|s| s.member.id == id)?;
        Some(LinkState {
            round_trip: session.plane.round_trip(),
            loss: session.member.loss.loss(now),
        })
    }

    /// Handles a session's timeout.
    pub(super) fn session_timeout(&mut self, now: Instant) {
        for s in &mut self.sessions {
            if s.member.is_over() {
                continue;
            }
            let silence = s.plane.silence(now);
            if silence >= SILENCE {
                s.member.ending = Some(Ending::Silent);
            } else if !s.joined && now.since(s.began) >= OFFER_TIMEOUT {
                s.member.ending = Some(Ending::Closed);
            }
            if s.member.holds_input && silence >= RELEASE_AFTER {
                s.member.release(&mut self.events);
            }
            s.push_key_repeat(now, &mut self.events);
            for view in s.member.views.iter_mut() {
                if let Some(beacon) = view.poll_beacon(now) {
                    s.plane.queue(&beacon);
                    // The datagram with the last cursor position may have been lost, so the position is repeated with
                    // each beacon.
                    s.plane.queue(&self.cursor.moved());
                }
            }
        }
    }
}

impl Session {
    /// Emits a change of key repeat, after the events that caused it. While keys are pressed, a silent client
    /// is pinged sooner.
    fn push_key_repeat(&mut self, now: Instant, events: &mut VecDeque<HostEvent>) {
        let member = &mut self.member;
        let repeats = member.poll_repeats(now, self.plane.last_received());
        events.extend(repeats.map(HostEvent::KeyRepeat));
        self.plane.peer_holds(member.holds_keys());
    }

    pub(super) fn next_timeout(&self) -> Option<(Instant, Wakeup)> {
        let over = self.member.is_over() && !self.is_refusal_pending();
        if over || self.can_send_state() || self.can_send_text() {
            return Some((Instant(i64::MIN), Wakeup::Transmit));
        }
        let beacon = self.member.views.iter().filter_map(View::next_beacon);
        let beacon = beacon.min().map(|at| (at, Wakeup::Beacon));
        let release = (self.member.holds_input).then(|| {
            let at = self.plane.last_received() + RELEASE_AFTER;
            (at, Wakeup::ReleaseInput)
        });
        let repeat = self.member.repeats_until(self.plane.last_received());
        let repeat = repeat.map(|at| (at, Wakeup::StopRepeat));
        let release = earlier(release, repeat);
        let unreported = self.member.views.next_timeout();
        let unreported = unreported.map(|at| (at, Wakeup::Unreported));
        let offer_deadline =
            (!self.joined).then_some((self.began + OFFER_TIMEOUT, Wakeup::Silence));
        // An ended session's path is no longer validated.
        let path = (self.paths.next_timeout()).filter(|_| !self.member.is_over());
        let path = path.map(|at| (at, Wakeup::Path));
        let own = earlier(
            earlier(beacon, release),
            earlier(unreported, offer_deadline),
        );
        earlier(earlier(own, path), self.plane.next_timeout())
    }
}
