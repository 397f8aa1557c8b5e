//! What a host keeps of each subscriber, whatever kind it is.

use super::event::Ending;
use crate::control::clock::ClockMap;
use crate::id::{PoseId, SubscriberId};
use crate::ledger::{Ledger, SentFrame};
use crate::pose::{Pose, Posed};
use crate::send::rendition::FrameOutcome;
use crate::seq;
use crate::time::{Instant, PeerInstant};
use crate::trace::{DropCause, Stage};

pub(super) struct Member {
    pub(super) id: SubscriberId,
    pub(super) ledger: Ledger,
    /// Whether it did something as the player since everything was released.
    pub(super) holds_input: bool,
    /// The newest pose since it became the player.
    pub(super) posed: Option<Posed>,
    /// Set when it is over.
    pub(super) ending: Option<Ending>,
}

impl Member {
    pub(super) fn new(id: SubscriberId, reports: bool) -> Member {
        Member {
            id,
            ledger: Ledger::new(id, reports),
            holds_input: false,
            posed: None,
            ending: None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.ending.is_some()
    }

    /// How a frame ended here, for its ledger; `in_hand`: one that left was handed over. Of one that is over nobody will say more.
    pub(super) fn record(
        &mut self,
        now: Instant,
        end: &FrameOutcome,
        in_hand: bool,
        clock: &ClockMap,
    ) {
        let (frame, stamps) = (end.frame, end.stamps);
        match end.end {
            Ok(_) if self.is_over() => {
                let (stage, why) = (Stage::FirstReceived, DropCause::SessionEnded);
                self.ledger.dropped(frame, stamps, stage, why);
            }
            Ok(cost) => {
                let sent = SentFrame {
                    frame,
                    stamps,
                    cost,
                };
                self.ledger.sent(now, sent, in_hand, clock);
            }
            Err((stage, why)) => self.ledger.dropped(frame, stamps, stage, why),
        }
    }

    /// It is the player no more.
    pub(super) fn displaced(&mut self) {
        self.holds_input = false;
        self.posed = None;
    }

    /// The player's head is there now; an older pose than the newest changes nothing.
    pub(super) fn pose(
        &mut self,
        now: Instant,
        (id, pose): (PoseId, Pose),
        sampled: PeerInstant,
        clock: &ClockMap,
    ) {
        if self
            .posed
            .is_none_or(|before| seq::newer(id.0, before.id.0))
        {
            self.posed = Some(Posed {
                subscriber: self.id,
                id,
                pose,
                sampled,
                sampled_here: clock.to_mine(sampled, now),
                received: now,
            });
        }
    }
}
