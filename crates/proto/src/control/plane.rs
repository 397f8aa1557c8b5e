//! The control plane of one session, the same on both sides: sealing, clocks, liveness and the reliable stream. Other
//! messages are passed up.

use std::collections::VecDeque;
use std::time::Duration;

use super::clock::ClockMap;
use super::handshake::Established;
use super::negotiate::Negotiation;
use super::stream::{Incoming, Outgoing};
use crate::bytes::Reject;
use crate::time::{Instant, PeerInstant};
use crate::wire::control::{MAX_CONTROL_BODY, Message, Messages};
use crate::wire::header::{HEADER, Plane, TAG};
use crate::wire::seal::{Direction, Opener, Sealer};

/// Ping interval, which is also the keep-alive interval. The clock map keeps the sixteen newest exchanges.
pub const PING_EVERY: Duration = Duration::from_millis(500);

/// Number of initial pings, which are sent at a shorter interval. One-way delays then have an error bound from the
/// start.
const FIRST_PINGS: u32 = 8;
const FIRST_PING_EVERY: Duration = Duration::from_millis(20);

/// Silence after which a peer is pinged more often: more than a ping interval. A restarted peer reports its restart in
/// reply to the next datagram, so frequent pings reveal the restart sooner.
const QUIET: Duration = Duration::from_millis(600);
const QUIET_PING_EVERY: Duration = Duration::from_millis(100);

/// Ping interval while a silent peer has keys pressed. It is half of the time after which the host stops key repeat, so
/// that the repeat continues even if one answer is lost.
const HOLDING_PING_EVERY: Duration = Duration::from_millis(50);

/// Silence after which a session ends: ten ping intervals.
pub const SILENCE: Duration = Duration::from_secs(5);

/// Maximum number of queued datagram bodies. If the queue is full, the oldest body is dropped, because its messages are
/// retransmitted or superseded.
const MAX_WAITING: usize = 64;

/// The reason for a session's next timeout.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Wakeup {
    /// Queued datagrams.
    Transmit,
    /// The next ping.
    Ping,
    /// Retransmission of an unacknowledged segment.
    Resend,
    /// The peer's silence timeout.
    Silence,
    /// Release of a silent peer's keys.
    ReleaseInput,
    /// End of key repeat for a silent peer.
    StopRepeat,
    /// Repetition of the pressed keys.
    PressedKeys,
    /// Repetition of the newest frame's number.
    Beacon,
    /// Timeout of a frame report.
    Unreported,
    /// Retransmission of unacknowledged input.
    InputAgain,
    /// Repetition of a key-frame request.
    KeyFrameRequest,
    /// Retransmission of reports.
    ReportAgain,
    /// Retry or timeout of a transport probe.
    Probe,
    /// Retransmission of a path challenge.
    Path,
    /// A queued pose, controller state or display state.
    Pose,
    /// A rumble or haptic message, or its repetition.
    Rumble,
}

/// The earlier of two timeouts.
#[must_use]
pub fn earlier(
    a: Option<(Instant, Wakeup)>,
    b: Option<(Instant, Wakeup)>,
) -> Option<(Instant, Wakeup)> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.0 < a.0 { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// An event for the session layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PlaneEvent {
    Message(Message<'static>),
    Negotiation(Negotiation),
}

/// One session's control plane.
pub(crate) struct ControlPlane {
    sealer: Sealer,
    opener: Opener,
    body: Vec<u8>,
    waiting: VecDeque<Vec<u8>>,
    outgoing: Outgoing,
    incoming: Incoming,
    pub(crate) clock: ClockMap,
    next_ping: Instant,
    last_ping: Instant,
    /// The peer has keys pressed, so its silence is detected faster.
    peer_holds: bool,
    pings: u32,
    last_sent: Instant,
    last_received: Instant,
    last_answer: Instant,
    in_order: bool,
}

impl ControlPlane {
    pub(crate) fn new(now: Instant, established: &Established, sends: Direction) -> ControlPlane {
        let receives = match sends {
            Direction::HostToClient => Direction::ClientToHost,
            Direction::ClientToHost => Direction::HostToClient,
        };
        let (secret, session) = (&established.secret, established.session);
        ControlPlane {
            sealer: Sealer::new(secret, session, sends, Plane::Control),
            opener: Opener::new(secret, session, receives, Plane::Control),
            body: Vec::new(),
            waiting: VecDeque::new(),
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            clock: ClockMap::default(),
            next_ping: now,
            last_ping: now,
            peer_holds: false,
            pings: 0,
            last_sent: now,
            last_received: now,
            last_answer: now,
            in_order: true,
        }
    }

    /// Decrypts a datagram and handles the plane's own messages.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        datagram: &[u8],
    ) -> Result<Vec<PlaneEvent>, Reject> {
        let mut body = std::mem::take(&mut self.body);
        let outcome = self.opener.open(datagram, &mut body).and_then(|opened| {
            self.last_received = now;
            self.in_order = opened.newest;
            self.handle_body(now, &body)
        });
        self.body = body;
        outcome
    }

    /// Handles a body. If one message cannot be parsed, none of the messages takes effect, not even the valid ones. The
    /// sender repeats the messages that need an acknowledgement.
    fn handle_body(&mut self, now: Instant, body: &[u8]) -> Result<Vec<PlaneEvent>, Reject> {
        let messages = Messages::new(body).collect::<Result<Vec<_>, _>>()?;
        let negotiations = self.handle_segments(&messages)?;
        let mut heard = Vec::new();
        for message in messages {
            match message {
                Message::Ping { asked } => {
                    let now = PeerInstant(now.0);
                    self.queue(&Message::Pong {
                        asked,
                        received: now,
                        answered: now,
                    });
                }
                Message::Pong {
                    asked,
                    received,
                    answered,
                } => {
                    self.last_answer = now;
                    self.clock.note(Instant(asked), received, answered, now);
                }
                Message::SegmentsAcked { through } => {
                    let round_trip = self.round_trip();
                    self.outgoing.acknowledge(now, through, round_trip);
                }
                other => heard.extend(owned(other).map(PlaneEvent::Message)),
            }
        }
        heard.extend(negotiations.into_iter().map(PlaneEvent::Negotiation));
        Ok(heard)
    }

    /// Returns the messages that the segments in `messages` complete. If one message of the stream is invalid, only
    /// this message is skipped. The valid messages around the invalid one must not be skipped: the segments of all are
    /// acknowledged together, so the sender does not retransmit them.
    fn handle_segments(&mut self, messages: &[Message<'_>]) -> Result<Vec<Negotiation>, Reject> {
        let mut segments = false;
        for message in messages {
            if let Message::Segment { offset, bytes } = message {
                self.incoming.segment(*offset, bytes)?;
                segments = true;
            }
        }
        let mut negotiations = Vec::new();
        if segments {
            while let Some(message) = self.incoming.message()? {
                negotiations.extend(Negotiation::parse(&message).ok().flatten());
            }
            let through = self.incoming.through();
            self.queue(&Message::SegmentsAcked { through });
        }
        Ok(negotiations)
    }

    /// Queues a message.
    pub(crate) fn queue(&mut self, message: &Message<'_>) {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        self.append(bytes);
    }

    fn append(&mut self, bytes: Vec<u8>) {
        if let Some(last) = self.waiting.back_mut()
            && last.len() + bytes.len() <= MAX_CONTROL_BODY
        {
            last.extend_from_slice(&bytes);
            return;
        }
        self.wait(bytes);
    }

    /// Queues messages into one datagram; together they have at most [`MAX_CONTROL_BODY`] bytes.
    pub(crate) fn queue_together<'a>(&mut self, messages: impl Iterator<Item = Message<'a>>) {
        let mut bytes = Vec::new();
        messages.for_each(|message| message.write(&mut bytes));
        self.append(bytes);
    }

    /// Queues a message in three separate datagrams, because it is not acknowledged.
    pub(crate) fn queue_thrice(&mut self, message: &Message<'_>) {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        for _ in 0..3 {
            self.wait(bytes.clone());
        }
    }

    fn wait(&mut self, body: Vec<u8>) {
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(body);
    }

    /// Sends a message reliably. Returns whether there was room.
    pub(crate) fn negotiate(&mut self, message: &Negotiation) -> bool {
        self.outgoing.push(&message.to_bytes())
    }

    /// Whether all reliable messages have been acknowledged.
    pub(crate) fn is_settled(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Whether the last handled datagram was the newest so far.
    pub(crate) fn received_in_order(&self) -> bool {
        self.in_order
    }

    /// Replaces `out` by the next sealed datagram; returns whether there was one.
    pub(crate) fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if now >= self.ping_at() {
            self.pings += 1;
            self.last_ping = now;
            self.next_ping = now
                + match self.silence(now) {
                    _ if self.pings < FIRST_PINGS => FIRST_PING_EVERY,
                    silence if silence >= QUIET => QUIET_PING_EVERY,
                    _ => PING_EVERY,
                };
            self.queue(&Message::Ping { asked: now.0 });
        }
        let round_trip = self.round_trip();
        if let Some((offset, bytes)) = self.outgoing.poll(now, round_trip) {
            self.queue(&Message::Segment {
                offset,
                bytes: &bytes,
            });
        }
        let Some(body) = self.waiting.pop_front() else {
            return false;
        };
        out.clear();
        self.append_sealed(now, out, |out| out.extend_from_slice(&body));
        true
    }

    /// Appends a datagram with only this message, for a path other than the session's.
    pub(crate) fn seal_alone(&mut self, now: Instant, message: &Message<'_>, out: &mut Vec<u8>) {
        self.append_sealed(now, out, |out| message.write(out));
    }

    fn append_sealed(&mut self, now: Instant, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.resize(start + HEADER, 0);
        body(out);
        out.resize(out.len() + TAG, 0);
        self.sealer.seal(now, &mut out[start..]);
        self.last_sent = now;
    }

    /// Sets whether the peer has keys pressed.
    pub(crate) fn peer_holds(&mut self, holds: bool) {
        self.peer_holds = holds;
    }

    fn ping_at(&self) -> Instant {
        if !self.peer_holds {
            return self.next_ping;
        }
        let silent = self.last_received.max(self.last_ping) + HOLDING_PING_EVERY;
        self.next_ping.min(silent)
    }

    /// The shortest recent round trip; 20 ms before the first measurement (guess).
    pub(crate) fn round_trip(&self) -> Duration {
        self.clock.round_trip().unwrap_or(Duration::from_millis(20))
    }

    /// Time since the peer's last datagram.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        now.since(self.last_received)
    }

    /// Pings at once, and restarts the time of [`ControlPlane::unanswered`].
    pub(crate) fn ping_now(&mut self, now: Instant) {
        self.next_ping = now;
        self.last_answer = now;
    }

    /// Pings at once and a few times more, to check whether the peer is alive.
    pub(crate) fn ping_burst(&mut self, now: Instant) {
        self.next_ping = now;
        self.pings = 0;
    }

    /// Time since the last sent datagram.
    pub(crate) fn own_silence(&self, now: Instant) -> Duration {
        now.since(self.last_sent)
    }

    pub(crate) fn last_sent(&self) -> Instant {
        self.last_sent
    }

    /// Time since the last answer to a ping. Unlike [`ControlPlane::silence`], it covers both directions.
    pub(crate) fn unanswered(&self, now: Instant) -> Duration {
        now.since(self.last_answer)
    }

    pub(crate) fn last_received(&self) -> Instant {
        self.last_received
    }

    pub(crate) fn check_invariants(&self) {
        assert!(self.waiting.len() <= MAX_WAITING);
        let longest = self.waiting.iter().map(Vec::len).max();
        assert!(longest.unwrap_or(0) <= MAX_CONTROL_BODY);
        self.incoming.check_invariants();
    }

    pub(crate) fn next_timeout(&self) -> Option<(Instant, Wakeup)> {
        let waiting = (!self.waiting.is_empty()).then_some((Instant(i64::MIN), Wakeup::Transmit));
        let resend = self.outgoing.next_timeout().map(|at| (at, Wakeup::Resend));
        let silence = Some((self.last_received + SILENCE, Wakeup::Silence));
        let ping = Some((self.ping_at(), Wakeup::Ping));
        earlier(earlier(waiting, resend), earlier(silence, ping))
    }
}

/// Returns an owned copy of a message that is passed up.
fn owned(message: Message<'_>) -> Option<Message<'static>> {
    Some(match message {
        Message::Report(r) => Message::Report(r),
        Message::ReportsAcked { view, through } => Message::ReportsAcked { view, through },
        Message::ReportsAfter { view, frame } => Message::ReportsAfter { view, frame },
        Message::KeyFrameRequest {
            view,
            last_good,
            newest,
        } => Message::KeyFrameRequest {
            view,
            last_good,
            newest,
        },
        Message::RetransmissionRequest(request) => Message::RetransmissionRequest(request),
        Message::Beacon { view, newest } => Message::Beacon { view, newest },
        Message::CursorMoved { serial, at } => Message::CursorMoved { serial, at },
        Message::Input(batch) => Message::Input(batch),
        Message::InputAcked { through } => Message::InputAcked { through },
        Message::ControlEvent(decision) => Message::ControlEvent(decision),
        Message::AudioReport(report) => Message::AudioReport(report),
        Message::Goodbye { reason } => Message::Goodbye { reason },
        Message::Probe { token, segmented } => Message::Probe { token, segmented },
        Message::Probed {
            token,
            piece,
            transport,
            padding,
        } => Message::Probed {
            token,
            piece,
            transport,
            padding,
        },
        Message::PathChallenge { token } => Message::PathChallenge { token },
        Message::PathResponse { token } => Message::PathResponse { token },
        Message::Pose { id, sampled, pose } => Message::Pose { id, sampled, pose },
        Message::Rumble {
            serial,
            pad,
            rumble,
            millis,
        } => Message::Rumble {
            serial,
            pad,
            rumble,
            millis,
        },
        Message::Controllers {
            number,
            sampled,
            states,
        } => Message::Controllers {
            number,
            sampled,
            states,
        },
        Message::Haptic { serial, haptic } => Message::Haptic { serial, haptic },
        Message::Display { number, display } => Message::Display { number, display },
        Message::PoseSchedule { number, at } => Message::PoseSchedule { number, at },
        Message::Ping { .. }
        | Message::Pong { .. }
        | Message::Segment { .. }
        | Message::SegmentsAcked { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::handshake::{PublicKey, SessionSecret};
    use crate::control::negotiate::{Refusal, Role};
    use crate::id::{FrameId, SessionId, ViewId};
    use crate::input::keys::Keys;
    use crate::wire::control::GoodbyeReason;

    /// A known kind with an invalid length.
    const BAD: [u8; 4] = [1, 1, 0, 0];

    fn pair() -> (ControlPlane, ControlPlane) {
        let established = Established {
            session: SessionId(7),
            secret: SessionSecret([3; 32]),
            peer: PublicKey([4; 32]),
            version: 1,
        };
        let plane = |sends| ControlPlane::new(Instant(0), &established, sends);
        let (mut host, mut client) = (
            plane(Direction::HostToClient),
            plane(Direction::ClientToHost),
        );
        (host.pings, client.pings) = (1, 1);
        (host.next_ping, client.next_ping) = (Instant(i64::MAX), Instant(i64::MAX));
        (host, client)
    }

    /// Transfers the next datagram of `from` with `behind` appended.
    fn transfer(
        from: &mut ControlPlane,
        to: &mut ControlPlane,
        behind: &[u8],
    ) -> Result<Vec<PlaneEvent>, Reject> {
        if let Some((offset, bytes)) = from.outgoing.poll(Instant(0), Duration::ZERO) {
            let bytes = &bytes;
            from.queue(&Message::Segment { offset, bytes });
        }
        let mut body = from.waiting.pop_front().unwrap_or_default();
        body.extend_from_slice(behind);
        let mut datagram = Vec::new();
        from.append_sealed(Instant(0), &mut datagram, |out| {
            out.extend_from_slice(&body);
        });
        to.handle(Instant(0), &datagram)
    }

    #[test]
    fn a_datagram_with_a_bad_message_has_no_effect_at_all() {
        assert!(Messages::new(&BAD).any(|m| m.is_err()));
        let (mut host, mut client) = pair();
        let quit = Message::Goodbye {
            reason: GoodbyeReason::Quit,
        };
        let refused = Negotiation::Refused(Refusal::Full);
        assert!(client.negotiate(&refused));
        client.queue(&Message::Ping { asked: 5 });
        client.queue(&quit);
        assert!(transfer(&mut client, &mut host, &BAD).is_err());
        assert!(host.waiting.is_empty(), "nothing is answered");
        assert_eq!(host.incoming.through(), 0);
        client.queue(&quit);
        let heard = transfer(&mut client, &mut host, &[]);
        assert_eq!(heard, Ok(vec![PlaneEvent::Message(quit)]));
        // The stream continues after a retransmission.
        let again = client.outgoing.next_timeout().unwrap_or_default();
        let (offset, bytes) = client.outgoing.poll(again, Duration::ZERO).unwrap();
        let bytes = &bytes;
        client.queue(&Message::Segment { offset, bytes });
        let heard = transfer(&mut client, &mut host, &[]);
        assert_eq!(heard, Ok(vec![PlaneEvent::Negotiation(refused)]));
    }

    #[test]
    fn a_datagram_with_an_invalid_segment_has_no_effect() {
        let (mut host, mut client) = pair();
        client.queue(&Message::Ping { asked: 5 });
        client.queue(&Message::Segment {
            offset: u64::MAX,
            bytes: b"x",
        });
        assert!(transfer(&mut client, &mut host, &[]).is_err());
        assert!(host.waiting.is_empty(), "nothing is answered");
    }

    /// The valid messages around the bad one have been acknowledged, so they would not be retransmitted.
    #[test]
    fn a_bad_message_of_the_stream_is_skipped_alone() {
        let (mut host, mut client) = pair();
        let granted = Negotiation::Granted {
            role: Role::Player,
            host: "h".into(),
            keys: Keys::default(),
            observer_reason: None,
        };
        assert!(client.negotiate(&granted));
        // A role that does not exist.
        assert!(client.outgoing.push(&[2, 9, 0]));
        assert!(client.negotiate(&granted));
        let seen = Message::ReportsAcked {
            view: ViewId::FIRST,
            through: FrameId(3),
        };
        client.queue(&seen);
        let heard = transfer(&mut client, &mut host, &[]).unwrap();
        let twice = PlaneEvent::Negotiation(granted);
        assert_eq!(heard, [PlaneEvent::Message(seen), twice.clone(), twice]);
    }
}
