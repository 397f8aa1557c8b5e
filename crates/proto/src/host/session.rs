//! One OpenUVR session of a host: its grants, paths and rate limits.

use std::time::Duration;

use super::event::{Ending, ProbeRequest};
use super::member::Member;
use crate::control::clipboard::{ReceivedText, SentText};
use crate::control::handshake::Established;
use crate::control::negotiate::{Negotiation, Role};
use crate::control::path::Paths;
use crate::control::plane::{ControlPlane, PlaneEvent};
use crate::id::{PathId, SessionId};
use crate::input::inbox::Inbox;
use crate::recv::uplink::UplinkReceiver;
use crate::send::plane::MediaSender;
use crate::time::Instant;
use crate::wire::control::{GoodbyeReason, Message};
use crate::wire::seal::Direction;

/// Time after which a client that has sent no offer is dropped.
pub(super) const OFFER_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of key-frame requests, retransmission requests and audio reports of a client within
/// [`FEEDBACK_REQUESTS_PERIOD`]. A retransmission request makes the media thread search recent frames. A client on a
/// bad link sends one request per lost slice, and 32 requests cover four frames of eight slices.
const FEEDBACK_REQUESTS: u32 = 32;

/// See [`FEEDBACK_REQUESTS`]: the duration of one frame at 100 frames/s.
const FEEDBACK_REQUESTS_PERIOD: Duration = Duration::from_millis(10);

/// Maximum probes of a client within [`PROBES_PERIOD`]: enough for a complete transport selection without answers
/// (three paths, four probes each). Each probe triggers a burst of full datagrams; all bursts together take at most
/// 0.54 Mb/s.
const PROBES: u32 = 12;

/// See [`PROBES`].
const PROBES_PERIOD: Duration = Duration::from_secs(2);

/// Maximum number of window sizes that the host takes from a client within [`WINDOW_SIZES_PERIOD`]. This project's
/// client sends a size after it has been stable for 150 ms.
const WINDOW_SIZES: u32 = 20;

/// See [`WINDOW_SIZES`].
const WINDOW_SIZES_PERIOD: Duration = Duration::from_secs(1);

/// A rate limit on a client's requests, so that the client cannot starve others. Excess requests are dropped. A client
/// repeats key-frame requests, retransmission requests and probes as if they were lost.
pub(super) struct Allowance {
    most: u32,
    within: Duration,
    taken: u32,
    since: Instant,
}

impl Allowance {
    fn new(now: Instant, most: u32, within: Duration) -> Allowance {
        Allowance {
            most,
            within,
            taken: 0,
            since: now,
        }
    }

    /// Whether the limit allows one more request.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= self.within {
            (self.taken, self.since) = (0, now);
        }
        self.taken = self.taken.saturating_add(1);
        self.taken <= self.most
    }
}

pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) member: Member,
    pub(super) peer: [u8; 32],
    pub(super) paths: Paths,
    pub(super) began: Instant,
    pub(super) plane: ControlPlane,
    pub(super) media: Option<Box<MediaSender>>,
    /// Receives the client's streams.
    pub(super) uplink: Option<Box<UplinkReceiver>>,
    pub(super) observe_only: bool,
    /// Whether it has a role.
    pub(super) joined: bool,
    pub(super) inbox: Inbox,
    /// A cursor shape is pending; the latest wins. It is sent when the previous shape has been acknowledged, so that an
    /// animated cursor does not fill a queue.
    pub(super) shape_due: bool,
    /// A change of the mouse mode is pending; the latest wins.
    pub(super) mouse_due: bool,
    /// A change of the source's visibility is pending; the latest wins.
    pub(super) shown_due: bool,
    pub(super) feedback_requests: Allowance,
    pub(super) probes: Allowance,
    pub(super) window_sizes: Allowance,
    /// Clipboard text in both directions.
    pub(super) sent_text: SentText,
    pub(super) received_text: ReceivedText,
    /// The unanswered probe, and whether the client allows segmentation offload.
    pub(super) probe_request: Option<ProbeRequest>,
    pub(super) segmented: bool,
}

impl Session {
    /// A session after its handshake at `path`.
    pub(super) fn new(now: Instant, path: PathId, established: &Established) -> Session {
        Session {
            id: established.session,
            member: Member::new(established.session.into(), true),
            peer: established.peer.0,
            paths: Paths::new(path),
            began: now,
            plane: ControlPlane::new(now, established, Direction::HostToClient),
            media: Some(Box::new(MediaSender::new(established))),
            uplink: Some(Box::new(UplinkReceiver::new(established))),
            observe_only: false,
            joined: false,
            inbox: Inbox::default(),
            shape_due: false,
            mouse_due: false,
            shown_due: false,
            feedback_requests: Allowance::new(now, FEEDBACK_REQUESTS, FEEDBACK_REQUESTS_PERIOD),
            probes: Allowance::new(now, PROBES, PROBES_PERIOD),
            window_sizes: Allowance::new(now, WINDOW_SIZES, WINDOW_SIZES_PERIOD),
            sent_text: SentText::default(),
            received_text: ReceivedText::default(),
            probe_request: None,
            segmented: true,
        }
    }

    /// Called after each grant: sends a player the number of accepted pads, if any.
    pub(super) fn send_pads_taken(&mut self, role: Role, most: u8) {
        if role == Role::Player && most > 0 {
            // The stream has just taken the grant, so these two bytes fit too.
            let _ = self.plane.negotiate(&Negotiation::PadsTaken(most));
        }
    }

    /// Called after each grant: requests ECN counts from a player if the host uses L4S.
    pub(super) fn send_ecn_feedback(&mut self, role: Role, wanted: bool) {
        if role == Role::Player && wanted {
            // The stream has just taken the grant, so this byte fits too.
            let _ = self.plane.negotiate(&Negotiation::EcnFeedback);
        }
    }

    /// Whether it has a role and has not ended.
    pub(super) fn is_active(&self) -> bool {
        self.joined && !self.member.is_over()
    }

    /// Ends the session. It is removed after the reason and the queued messages have been sent.
    pub(super) fn end(&mut self, reason: GoodbyeReason, ending: Ending) {
        self.plane.queue_thrice(&Message::Goodbye { reason });
        self.member.ending = Some(ending);
    }

    /// Handles path messages: validation, probes and moves. Returns whether the video's path or segmentation
    /// changed.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        from: PathId,
        bytes: usize,
        heard: &[PlaneEvent],
    ) -> bool {
        let mut tries = false;
        let mut changed = false;
        for heard in heard {
            match heard {
                PlaneEvent::Message(Message::PathResponse { token }) => {
                    tries = true;
                    changed |= self.paths.answered(from, *token);
                }
                PlaneEvent::Message(Message::Probe { token, segmented }) => {
                    tries = true;
                    if !self.probes.take(now) {
                        continue;
                    }
                    self.probe_request = Some(ProbeRequest {
                        session: self.id,
                        path: from,
                        segmented: *segmented,
                        token: *token,
                    });
                    if from == self.paths.now() && self.segmented != *segmented {
                        self.segmented = *segmented;
                        changed = true;
                    }
                }
                _ => {}
            }
        }
        // A reordered datagram from before the last move does not move the session back.
        let moves = !tries && self.plane.received_in_order();
        changed | self.paths.on_datagram(now, from, bytes, moves)
    }

    /// Takes the unanswered probe, if its path has been validated.
    pub(super) fn poll_probe_request(&mut self) -> Option<ProbeRequest> {
        let paths = &self.paths;
        self.probe_request
            .take_if(|request| paths.is_validated(request.path))
    }

    /// Whether a state message may be sent now. Only the newest state matters.
    pub(super) fn can_send_state(&self) -> bool {
        let due = self.shape_due || self.shown_due;
        due && self.is_active() && self.plane.is_settled()
    }

    /// Whether a fragment of clipboard text may be sent now. At most one is unacknowledged at a time, so that other
    /// messages wait behind one fragment at most.
    pub(super) fn can_send_text(&self) -> bool {
        self.sent_text.is_due() && self.is_active() && self.plane.is_settled()
    }

    pub(super) fn can_send_mouse(&self) -> bool {
        self.mouse_due && self.is_active()
    }

    /// Whether a refused client may not have received the reason yet.
    pub(super) fn is_refusal_pending(&self) -> bool {
        matches!(self.member.ending, Some(Ending::Refused(_))) && !self.plane.is_settled()
    }

    pub(super) fn is_lingering(&self, now: Instant) -> bool {
        self.is_refusal_pending() && now.since(self.began) < OFFER_TIMEOUT
    }
}
