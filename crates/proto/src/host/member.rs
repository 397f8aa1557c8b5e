//! The state of a subscriber, common to all kinds.

use std::collections::VecDeque;

use super::REPEAT_WITHIN;
use super::event::{Ending, HostEvent};
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
    /// The link's loss from the reports of all views.
    pub(super) loss: LossMeter,
    /// Whether it sent input as the player since the last release.
    pub(super) holds_input: bool,
    pressed: Pressed,
    /// Whether the pressed keys may repeat.
    repeats: bool,
    /// Its newest pose as the player.
    pub(super) posed: Option<ReceivedPose>,
    /// Its newest controller states.
    pub(super) controlled: Option<ReceivedControllers>,
    /// The number and content of its newest display message, with the phase on both clocks.
    display: Option<(u32, PlayerDisplay)>,
    /// Set when it has ended.
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

    /// Closes the sent frames, because no more reports on them follow.
    pub(super) fn end_frames(&mut self) {
        self.views.iter_mut().for_each(|view| view.ledger.end());
    }

    /// Handles a frame report; unknown views are ignored.
    pub(super) fn reported(&mut self, now: Instant, report: &Report, clock: &ClockMap) {
        if let Some(view) = self.views.get(report.view) {
            (view.ledger).reported(now, report, clock, &mut self.loss);
        }
    }

    /// Records a frame's outcome at the host. With `in_hand`, "sent" only means that the frame was handed to a
    /// component that transmits it later. A sent frame of an ended member counts as dropped, because no report on it
    /// will follow.
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

    /// Records input that the member sent as the player.
    pub(super) fn did(&mut self, event: &InputEvent) {
        self.holds_input = true;
        self.pressed.note(event);
    }

    /// Releases all of the member's input. Enables key repeat again, so that the keys of the next player repeat.
    pub(super) fn release(&mut self, events: &mut VecDeque<HostEvent>) {
        self.holds_input = false;
        self.pressed = Pressed::default();
        events.push_back(HostEvent::ReleaseInput);
        if !std::mem::replace(&mut self.repeats, true) {
            events.push_back(HostEvent::KeyRepeat(true));
        }
    }

    /// Whether any of the member's keys or buttons are pressed.
    pub(super) fn holds_keys(&self) -> bool {
        !self.pressed.held().is_empty()
    }

    /// Whether the member's keys may repeat, given the last activity at `heard`; `None` if unchanged.
    pub(super) fn poll_repeats(&mut self, now: Instant, heard: Instant) -> Option<bool> {
        let may = !self.holds_keys() || now.since(heard) < REPEAT_WITHIN;
        (std::mem::replace(&mut self.repeats, may) != may).then_some(may)
    }

    /// When key repeat ends without further activity.
    pub(super) fn repeats_until(&self, heard: Instant) -> Option<Instant> {
        (self.repeats && self.holds_keys()).then(|| heard + REPEAT_WITHIN)
    }

    /// Handles the loss of the player's role.
    pub(super) fn on_demoted(&mut self, events: &mut VecDeque<HostEvent>) {
        self.release(events);
        self.posed = None;
        self.controlled = None;
    }

    /// Sets the player's controllers. Older states are ignored.
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

    /// Its display, if known.
    pub(super) fn display(&self) -> Option<PlayerDisplay> {
        self.display.map(|(_, display)| display)
    }

    /// Sets its display.
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

    /// Sets the player's pose. Older poses are ignored.
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
