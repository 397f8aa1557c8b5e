//! One OpenUVR session of a host: what it was given, where it is, and what it may ask for.

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

/// A client that did not say what it wants by then is dropped.
pub(super) const OFFER_TIMEOUT: Duration = Duration::from_secs(5);

/// ClientConstraints of a client (a key frame, parts of a frame again) that are heard within [`WISHES_IN`]. Each
/// has the media thread look through what it sent lately; a client on a bad link has one for a slice
/// that it lacks, and 32 are four frames of eight slices.
const FEEDBACK_REQUESTS: u32 = 32;

/// See [`WISHES`]: a frame at 100 a second.
const FEEDBACK_REQUESTS_PERIOD: Duration = Duration::from_millis(10);

/// Probes of a client that are heard within [`PROBES_IN`]: what a whole climb asks (three ways, four
/// times each) where nothing is answered. Each draws a burst of full datagrams, so that these are
/// 0.54 Mb/s at most.
const PROBES: u32 = 12;

/// See [`PROBES`].
const PROBES_PERIOD: Duration = Duration::from_secs(2);

/// Sizes of a client's window that are heard within [`WINDOW_SIZES_IN`]: one each 150 ms is what ours says
/// while its window is dragged.
const WINDOW_SIZES: u32 = 20;

/// See [`WINDOW_SIZES`].
const WINDOW_SIZES_PERIOD: Duration = Duration::from_secs(1);

/// How often something may be asked for: what a client asks without end must not hold up the others.
/// What is not heard is asked for again, like what was lost.
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

    /// Whether one more is heard.
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
    /// What it may stream to us comes through this.
    pub(super) uplink: Option<Box<UplinkReceiver>>,
    /// Whether it may watch and no more, whatever it asks for.
    pub(super) only_watches: bool,
    /// Whether it was granted a role.
    pub(super) joined: bool,
    pub(super) inbox: Inbox,
    /// The pointer's shape was not said yet. It is when the one before it has arrived, so that an
    /// animated pointer fills no queue: the latest wins.
    pub(super) shape_due: bool,
    /// Whether the application wants relative motion was not said yet; the latest wins, too.
    pub(super) mouse_due: bool,
    /// The same for whether the source is shown.
    pub(super) shown_due: bool,
    /// ClientConstraints and probes that are heard.
    pub(super) feedback_requests: Allowance,
    pub(super) probes: Allowance,
    /// The same for the window's size.
    pub(super) window_sizes: Allowance,
    /// Clipboard text on its way there, and from there.
    pub(super) sent_text: SentText,
    pub(super) received_text: ReceivedText,
    /// What it asked last and nobody answered yet, and whether it lets the kernel cut.
    pub(super) probe_request: Option<ProbeRequest>,
    pub(super) segmented: bool,
}

impl Session {
    /// One that has just shaken hands at `path`.
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
            only_watches: false,
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

    /// Behind each grant: a player hears how many pads are taken, if any are.
    pub(super) fn send_pads_taken(&mut self, role: Role, most: u8) {
        if role == Role::Player && most > 0 {
            // Two bytes behind a grant that had room.
            let _ = self.plane.negotiate(&Negotiation::PadsTaken(most));
        }
    }

    /// Whether it is granted a role and not over.
    pub(super) fn is_active(&self) -> bool {
        self.joined && !self.member.is_over()
    }

    /// Says why it is over; what still waits is sent, then it is forgotten.
    pub(super) fn end(&mut self, reason: GoodbyeReason, ending: Ending) {
        self.plane.queue_thrice(&Message::Goodbye { reason });
        self.member.ending = Some(ending);
    }

    /// Takes what it says of ways: where it is, and what it asks about others. Whether its video goes
    /// elsewhere or otherwise from now on.
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
        // Not one that was on its way since before the last move.
        let moves = !tries && self.plane.heard_in_order();
        changed | self.paths.on_datagram(now, from, bytes, moves)
    }

    /// What it asks, once it has shown that it receives the answer.
    pub(super) fn poll_probe_request(&mut self) -> Option<ProbeRequest> {
        let paths = &self.paths;
        self.probe_request
            .take_if(|request| paths.is_validated(request.path))
    }

    /// Whether what is only said in its newest state may be said now.
    pub(super) fn can_send_state(&self) -> bool {
        let due = self.shape_due || self.shown_due;
        due && self.is_active() && self.plane.is_settled()
    }

    /// Whether a piece of clipboard text may be said now: nothing else waits behind more than one.
    pub(super) fn can_send_text(&self) -> bool {
        self.sent_text.is_due() && self.is_active() && self.plane.is_settled()
    }

    pub(super) fn can_send_mouse(&self) -> bool {
        self.mouse_due && self.is_active()
    }

    /// Whether a client that was refused may still be waiting to hear why.
    pub(super) fn lingers_at_all(&self) -> bool {
        matches!(self.member.ending, Some(Ending::Refused(_))) && !self.plane.is_settled()
    }

    pub(super) fn lingers(&self, now: Instant) -> bool {
        self.lingers_at_all() && now.since(self.began) < OFFER_TIMEOUT
    }
}
