//! One client of a host: what it was given, where it is, and what it may ask for.

use std::time::Duration;

use super::event::{Asked, Ending};
use super::roles::Claim;
use super::{BEACONS, OFFER_TIMEOUT};
use crate::control::handshake::Established;
use crate::control::negotiate::Role;
use crate::control::path::Paths;
use crate::control::plane::{ControlEvent, ControlPlane};
use crate::id::{FrameId, PathId, SessionId};
use crate::input::inbox::Inbox;
use crate::ledger::Ledger;
use crate::pose::Posed;
use crate::send::packetize::MediaSender;
use crate::time::Instant;
use crate::wire::control::Message;
use crate::wire::seal::Direction;

/// Wishes of a client (a key frame, parts of a frame again) that are heard within [`WISHES_IN`]. Each
/// has the media thread look through what it sent lately; a client on a bad link has one for a slice
/// that it lacks, and 32 are four frames of eight slices.
const WISHES: u32 = 32;

/// See [`WISHES`]: a frame at 100 a second.
const WISHES_IN: Duration = Duration::from_millis(10);

/// Probes of a client that are heard within [`PROBES_IN`]: what a whole climb asks (three ways, four
/// times each) where nothing is answered. Each draws a burst of full datagrams, so that these are
/// 0.54 Mb/s at most.
const PROBES: u32 = 12;

/// See [`PROBES`].
const PROBES_IN: Duration = Duration::from_secs(2);

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

pub(super) struct Subscriber {
    pub(super) id: SessionId,
    pub(super) peer: [u8; 32],
    pub(super) paths: Paths,
    pub(super) began: Instant,
    pub(super) plane: ControlPlane,
    pub(super) media: Option<Box<MediaSender>>,
    pub(super) role: Option<Role>,
    /// The device played in a session that this one replaced: the role waits for its offer.
    pub(super) succeeds_player: bool,
    /// What it gets when nobody plays.
    pub(super) claim: Claim,
    pub(super) inbox: Inbox,
    pub(super) holds_input: bool,
    /// The newest pose since it became the player.
    pub(super) posed: Option<Posed>,
    pub(super) ledger: Ledger,
    pub(super) newest_sent: FrameId,
    /// The pointer's shape was not said yet. It is when the one before it has arrived, so that an
    /// animated pointer fills no queue: the latest wins.
    pub(super) shape_due: bool,
    /// Whether the application wants relative motion was not said yet; the latest wins, too.
    pub(super) mouse_due: bool,
    /// The same for whether the source is shown.
    pub(super) shown_due: bool,
    pub(super) beacon: Option<(Instant, usize)>,
    /// Wishes and probes that are heard.
    pub(super) wishes: Allowance,
    pub(super) probes: Allowance,
    /// What it asked last and nobody answered yet, and whether it lets the kernel cut.
    pub(super) asked: Option<Asked>,
    pub(super) segmented: bool,
    /// Set when it is over: what still waits is sent, then it is forgotten.
    pub(super) ending: Option<Ending>,
}

impl Subscriber {
    /// Whether the player's role is its, or waits for what it will ask for.
    pub(super) fn is_players(&self) -> bool {
        match self.role {
            Some(role) => role == Role::Player,
            None => self.succeeds_player,
        }
    }

    /// One that has just shaken hands at `path`.
    pub(super) fn new(
        now: Instant,
        path: PathId,
        established: &Established,
        succeeds_player: bool,
    ) -> Subscriber {
        Subscriber {
            id: established.session,
            peer: established.peer.0,
            paths: Paths::new(path),
            began: now,
            plane: ControlPlane::new(now, established, Direction::HostToClient),
            media: Some(Box::new(MediaSender::new(established))),
            role: None,
            succeeds_player,
            claim: Claim::None,
            inbox: Inbox::default(),
            holds_input: false,
            posed: None,
            ledger: Ledger::new(established.session),
            newest_sent: FrameId::NONE,
            shape_due: false,
            mouse_due: false,
            shown_due: false,
            beacon: None,
            wishes: Allowance::new(now, WISHES, WISHES_IN),
            probes: Allowance::new(now, PROBES, PROBES_IN),
            asked: None,
            segmented: true,
            ending: None,
        }
    }

    /// Takes what it says of ways: where it is, and what it asks about others. Whether its video goes
    /// elsewhere or otherwise from now on.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        from: PathId,
        bytes: usize,
        heard: &[ControlEvent],
    ) -> bool {
        let mut tries = false;
        let mut changed = false;
        for heard in heard {
            match heard {
                ControlEvent::Message(Message::PathResponse { token }) => {
                    tries = true;
                    changed |= self.paths.answered(from, *token);
                }
                ControlEvent::Message(Message::Probe { token, segmented }) => {
                    tries = true;
                    if !self.probes.take(now) {
                        continue;
                    }
                    self.asked = Some(Asked {
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
        changed | self.paths.heard(now, from, bytes, moves)
    }

    /// What it asks, once it has shown that it receives the answer.
    pub(super) fn poll_asked(&mut self) -> Option<Asked> {
        let paths = &self.paths;
        self.asked.take_if(|asked| paths.is_shown(asked.path))
    }

    /// Says the number of the newest frame, now and then, until a newer one comes.
    pub(super) fn announce(&mut self, now: Instant, frame: FrameId) {
        self.newest_sent = self.newest_sent.max(frame);
        self.beacon = Some((now + BEACONS[0], 0));
    }

    /// Whether what is only said in its newest state may be said now.
    pub(super) fn can_say_state(&self) -> bool {
        let due = self.shape_due || self.shown_due;
        due && self.role.is_some() && self.ending.is_none() && self.plane.is_settled()
    }

    pub(super) fn can_say_mouse(&self) -> bool {
        self.mouse_due && self.role.is_some() && self.ending.is_none()
    }

    /// Whether a client that was refused may still be waiting to hear why.
    pub(super) fn lingers_at_all(&self) -> bool {
        matches!(self.ending, Some(Ending::Refused(_))) && !self.plane.is_settled()
    }

    pub(super) fn lingers(&self, now: Instant) -> bool {
        self.lingers_at_all() && now.since(self.began) < OFFER_TIMEOUT
    }
}
