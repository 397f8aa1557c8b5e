//! What a host keeps of each subscriber, whatever kind it is.

use super::REPEAT_WITHIN;
use super::event::Ending;
use super::views::Views;
use crate::control::clock::ClockMap;
use crate::controller::{Controllers, ReceivedControllers};
use crate::display::{Display, PlayerDisplay, RefreshTiming};
use crate::id::{PoseId, SubscriberId};
use crate::input::event::InputEvent;
use crate::input::pressed::Pressed;
use crate::ledger::SentFrame;
use crate::pose::{Pose, ReceivedPose};
use crate::send::loss::LossMeter;
use crate::send::rendition::FrameOutcome;
use crate::seq;
use crate::time::{Instant, PeerInstant};
use crate::trace::{DropCause, Stage};
use crate::wire::control::Report;

pub(super) struct Member {
    pub(super) id: SubscriberId,
    pub(super) views: Views,
    /// What the reports on all of them say of the link.
    pub(super) loss: LossMeter,
    /// Whether it did something as the player since everything was released.
    pub(super) holds_input: bool,
    /// The keys and buttons that are down.
    pressed: Pressed,
    /// Whether they may repeat.
    repeats: bool,
    /// The newest pose since it became the player.
    pub(super) posed: Option<ReceivedPose>,
    /// What it holds, as it said last.
    pub(super) controlled: Option<ReceivedControllers>,
    /// The number of what was said of its display last, and that: its phase on both clocks.
    display: Option<(u32, PlayerDisplay)>,
    /// Set when it is over.
    pub(super) ending: Option<Ending>,
}

impl Member {
    pub(super) fn new(id: SubscriberId, reports: bool) -> Member {
        Member {
            id,
            views: Views::new(id, reports),
            loss: LossMeter::default(),
            holds_input: false,
            pressed: Pressed::default(),
            repeats: true,
            posed: None,
            controlled: None,
            display: None,
            ending: None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.ending.is_some()
    }

    /// Of frames that left nobody will say more.
    pub(super) fn end_frames(&mut self) {
        self.views.iter_mut().for_each(|view| view.ledger.end());
    }

    /// Its client reported on a frame; on one of a view that it does not get, it says nothing.
    pub(super) fn reported(&mut self, now: Instant, report: &Report, clock: &ClockMap) {
        if let Some(view) = self.views.get(report.view) {
            (view.ledger).reported(now, report, clock, &mut self.loss);
        }
    }

    /// How a frame ended here, for its ledger; `in_hand`: one that left was handed over. Of one that is
    /// over nobody will say more.
    pub(super) fn record(
        &mut self,
        now: Instant,
        end: &FrameOutcome,
        in_hand: bool,
        clock: &ClockMap,
    ) {
        let (frame, stamps) = (end.frame, end.stamps);
        let over = self.is_over();
        let Some(view) = self.views.get(end.view) else {
            return;
        };
        let ledger = &mut view.ledger;
        match end.end {
            Ok(_) if over => {
                let (stage, why) = (Stage::FirstReceived, DropCause::SessionEnded);
                ledger.dropped(frame, stamps, stage, why);
            }
            Ok(cost) => {
                let sent = SentFrame {
                    view: end.view,
                    frame,
                    stamps,
                    cost,
                };
                ledger.sent(now, sent, in_hand, clock, &mut self.loss);
            }
            Err((stage, why)) => ledger.dropped(frame, stamps, stage, why),
        }
    }

    /// It did this as the player.
    pub(super) fn did(&mut self, event: &InputEvent) {
        self.holds_input = true;
        self.pressed.note(event);
    }

    /// Everything that it holds is released.
    pub(super) fn released(&mut self) {
        self.holds_input = false;
        self.pressed = Pressed::default();
    }

    /// Whether keys or buttons of it are down.
    pub(super) fn holds_keys(&self) -> bool {
        !self.pressed.held().is_empty()
    }

    /// Whether its keys may repeat now that it was heard last at `heard`, if that is news.
    pub(super) fn poll_repeats(&mut self, now: Instant, heard: Instant) -> Option<bool> {
        let may = !self.holds_keys() || now.since(heard) < REPEAT_WITHIN;
        (std::mem::replace(&mut self.repeats, may) != may).then_some(may)
    }

    /// When they may not repeat any more, if nothing is heard until then.
    pub(super) fn repeats_until(&self, heard: Instant) -> Option<Instant> {
        (self.repeats && self.holds_keys()).then(|| heard + REPEAT_WITHIN)
    }

    /// It is the player no more.
    pub(super) fn displaced(&mut self) {
        self.released();
        self.posed = None;
        self.controlled = None;
    }

    /// The player holds these now; older ones than the newest change nothing.
    pub(super) fn controls(
        &mut self,
        now: Instant,
        (number, states): (u32, Controllers),
        sampled: PeerInstant,
        clock: &ClockMap,
    ) {
        let before = self.controlled;
        if before.is_none_or(|before| seq::newer(number, before.number)) {
            self.controlled = Some(ReceivedControllers {
                subscriber: self.id,
                number,
                states,
                sampled,
                sampled_here: clock.to_mine(sampled, now),
                received: now,
            });
        }
    }

    /// What its display is like, if it has said so.
    pub(super) fn display(&self) -> Option<PlayerDisplay> {
        self.display.map(|(_, display)| display)
    }

    /// Its display is like this.
    pub(super) fn set_display(
        &mut self,
        now: Instant,
        (number, display): (u32, Display),
        clock: &ClockMap,
    ) {
        if (self.display).is_some_and(|(before, _)| !seq::newer(number, before)) {
            return;
        }
        let refresh = display.refresh.and_then(|refresh| {
            Some(RefreshTiming {
                phase: clock.to_mine(refresh.phase, now)?,
                period: refresh.period,
            })
        });
        let eyes = display.eyes;
        self.display = Some((number, PlayerDisplay { refresh, eyes }));
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
            self.posed = Some(ReceivedPose {
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
