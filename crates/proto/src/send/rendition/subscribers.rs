//! The subscribers of a rendition, and the state of the current frame for each.

use std::collections::VecDeque;
use std::time::Duration;

use super::frame::{Current, FrameOutcome};
use crate::control::negotiate::{ClientConstraints, Role};
use crate::ecn::Ecn;
use crate::id::{FrameId, SubscriberId, ViewId};
use crate::send::loss::LinkState;
use crate::send::policy::Policy;
use crate::send::subscriber::{Departure, Frame, Progress, Slice, Subscriber};
use crate::time::Instant;
use crate::trace::{DropCause, FrameCost, Stage, Stamps};
use crate::wire::video::{FrameHeader, InputEcho};

pub(super) struct Member<S> {
    pub(super) id: SubscriberId,
    pub(super) role: Role,
    pub(super) constraints: ClientConstraints,
    pub(super) link: Option<LinkState>,
    /// The subscriber's first key frame. Earlier frames are useless to it.
    pub(super) started: Option<FrameId>,
    /// When its first frame started.
    observer_since: Option<Instant>,
    /// Whether it was subscribed at the newest capture, so that the frame gets an outcome for it.
    pub(super) present: bool,
    /// The state of the current frame; `None` if the subscriber does not get it.
    progress: Option<Phase>,
    pub(super) subscriber: S,
}

#[derive(Clone, Copy)]
enum Phase {
    /// The subscriber gets the slices.
    Begun,
    Over(Progress),
}

impl<S> Member<S> {
    /// The transmission of the newest frame.
    pub(super) fn departure(&self) -> Option<Departure> {
        match self.progress {
            Some(Phase::Over(Progress::Sent(left))) => Some(left),
            _ => None,
        }
    }
}

pub(super) struct Subscribers<S> {
    view: ViewId,
    /// The subscribers, with the player first.
    pub(super) members: Vec<Member<S>>,
}

impl<S> Subscribers<S> {
    pub(super) fn new(view: ViewId) -> Subscribers<S> {
        Subscribers {
            view,
            members: Vec::new(),
        }
    }
}

impl<S: Subscriber> Subscribers<S> {
    pub(super) fn add(
        &mut self,
        id: SubscriberId,
        role: Role,
        constraints: ClientConstraints,
        subscriber: S,
    ) {
        self.members.retain(|member| member.id != id);
        self.members.push(Member {
            id,
            role,
            constraints,
            link: None,
            started: None,
            observer_since: None,
            present: false,
            progress: None,
            subscriber,
        });
    }

    pub(super) fn remove(&mut self, id: SubscriberId) -> Option<S> {
        let place = self.members.iter().position(|member| member.id == id)?;
        Some(self.members.remove(place).subscriber)
    }

    pub(super) fn member(&mut self, id: SubscriberId) -> Option<&mut Member<S>> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    pub(super) fn player(&self) -> Option<&Member<S>> {
        self.members.iter().find(|m| m.role == Role::Player)
    }

    pub(super) fn demote_player(&mut self) {
        for member in &mut self.members {
            member.role = Role::Observer;
        }
    }

    /// Sorts the player first, because its slices are sent first.
    pub(super) fn sort(&mut self) {
        self.members.sort_by_key(|m| m.role == Role::Observer);
    }

    /// The player's round trip; without a player, the round trip of the earliest subscriber.
    pub(super) fn round_trip(&self) -> Duration {
        let link = self.members.first().and_then(|member| member.link);
        link.map_or(Duration::ZERO, |link| link.round_trip)
    }

    /// The shortest repetition interval of a still picture over all subscribers.
    pub(super) fn repeats(&self, newest: Instant) -> Option<Duration> {
        let wanted = |member: &Member<S>| {
            let since = member.observer_since?;
            member.subscriber.intake().repeats(newest.since(since))
        };
        self.members.iter().filter_map(wanted).min()
    }

    /// Handles the capture of a frame.
    pub(super) fn frame_captured(&mut self) {
        for member in &mut self.members {
            member.present = true;
            member.progress = None;
        }
    }

    /// Starts the frame for all subscribers that can use it.
    pub(super) fn start_frame(&mut self, now: Instant, frame: &Frame, policy: &mut Policy) {
        let header = &frame.header;
        for member in self.members.iter_mut().filter(|member| member.present) {
            if frame.configuration.is_some() {
                member.started.get_or_insert(header.frame);
            }
            if member.started.is_none() {
                continue;
            }
            member.progress = Some(Phase::Begun);
            member.observer_since.get_or_insert(now);
            let plays = member.role == Role::Player;
            let frame = Frame {
                // Input numbers are per session, so the player's are meaningless to others.
                header: match plays {
                    true => *header,
                    false => without_echo(header),
                },
                pose: frame.pose.filter(|_| plays),
                link: member.link,
                // The policy knows only the player's link.
                pacing: frame.pacing.filter(|_| plays),
                ecn: match plays {
                    true => frame.ecn,
                    false => Ecn::NotEct,
                },
                ..*frame
            };
            member.subscriber.start_frame(now, &frame);
            let protection = member.subscriber.protection().filter(|_| plays);
            if let Some((protection, link)) = protection.zip(member.link) {
                policy.protected(protection, &link);
            }
        }
    }

    /// Tells each subscriber that all slices were delivered. Returns when to call this again, if slices still wait for
    /// a link.
    pub(super) fn end(&mut self, now: Instant) -> Option<Instant> {
        let mut until: Option<Instant> = None;
        let mut player = None;
        for member in &mut self.members {
            if let Some(Phase::Begun | Phase::Over(Progress::Deferred(_))) = member.progress {
                let progress = member.subscriber.end(now);
                member.progress = Some(Phase::Over(progress));
                if let Progress::Deferred(at) = progress {
                    until = Some(until.map_or(at, |before| before.min(at)));
                }
            }
            if member.role == Role::Player && member.progress.is_some() {
                player = Some(matches!(
                    member.progress,
                    Some(Phase::Over(Progress::Deferred(_)))
                ));
            }
        }
        // After the player's last slice, the rendition does not wait for observers.
        until.filter(|_| player != Some(false))
    }

    /// The transmission to the first subscriber that got the frame.
    pub(super) fn first_departure(&self) -> Option<Departure> {
        self.members.iter().find_map(Member::departure)
    }

    /// Ends the frame for each subscriber.
    pub(super) fn finish(
        &mut self,
        now: Instant,
        frame: FrameId,
        current: &Current,
        ends: &mut VecDeque<FrameOutcome>,
    ) {
        for member in self.members.iter_mut().filter(|member| member.present) {
            let mut stamps = current.stamps;
            let end = match member.progress {
                Some(Phase::Over(Progress::Sent(left))) => {
                    for (stage, at) in
                        [(Stage::FirstSent, left.first), (Stage::LastSent, left.last)]
                    {
                        if let Some(at) = at {
                            stamps.stamp(stage, at);
                        }
                    }
                    match left.overflowed && left.first.is_none() {
                        true => Err((Stage::FirstSent, DropCause::SendBufferFull)),
                        false => Ok(cost(current, &left)),
                    }
                }
                // Later frames refer to this frame, so they are useless to the subscriber before another key frame.
                Some(_) => {
                    member.started = None;
                    let (stage, why) = (Stage::FirstSent, DropCause::SendBufferFull);
                    member.subscriber.dropped(now, frame, stage, why);
                    Err((stage, why))
                }
                None => {
                    let (stage, why) = (Stage::FirstSent, DropCause::AwaitingKeyFrame);
                    member.subscriber.dropped(now, frame, stage, why);
                    Err((stage, why))
                }
            };
            (member.present, member.progress) = (false, None);
            ends.push_back(FrameOutcome {
                subscriber: member.id,
                view: self.view,
                frame,
                stamps,
                end,
            });
        }
    }

    /// Ends the frame with the same outcome for all.
    pub(super) fn drop_frame(
        &mut self,
        now: Instant,
        (frame, stamps): (FrameId, Stamps),
        (stage, why): (Stage, DropCause),
        ends: &mut VecDeque<FrameOutcome>,
    ) {
        for member in self.members.iter_mut().filter(|member| member.present) {
            (member.present, member.progress) = (false, None);
            member.subscriber.dropped(now, frame, stage, why);
            ends.push_back(FrameOutcome {
                subscriber: member.id,
                view: self.view,
                frame,
                stamps,
                end: Err((stage, why)),
            });
        }
    }

    pub(super) fn check_invariants(&self) {
        let plays = |member: &&Member<S>| member.role == Role::Player;
        assert!(self.members.iter().filter(plays).count() <= 1);
        assert!(self.members.is_sorted_by_key(|m| m.role == Role::Observer));
        let begun = |member: &Member<S>| member.progress.is_none() || member.started.is_some();
        assert!(self.members.iter().all(begun));
    }
}

/// Passes a frame's slices to all its subscribers.
pub struct FanOut<'a, S> {
    pub(super) members: &'a mut [Member<S>],
    pub(super) stamps: &'a mut Stamps,
    pub(super) policy: &'a mut Policy,
    pub(super) frame: FrameId,
}

impl<S: Subscriber> FanOut<'_, S> {
    /// Passes on a slice that the encoder delivered.
    pub fn slice(&mut self, now: Instant, slice: &Slice<'_>) {
        self.stamps.stamp(Stage::FirstSlice, now);
        if let Some(frames) = slice.clean_after.filter(|_| slice.place.index == 0) {
            self.policy.refresh_began(self.frame, frames);
        }
        for member in self.members.iter_mut() {
            if let Some(Phase::Begun) = member.progress {
                member.subscriber.slice(now, slice);
            }
        }
    }
}

fn without_echo(header: &FrameHeader) -> FrameHeader {
    FrameHeader {
        echo: InputEcho::default(),
        ..*header
    }
}

fn cost(current: &Current, left: &Departure) -> FrameCost {
    FrameCost {
        key_frame: current.key_frame,
        repeats: current.repeats,
        qp: current.qp,
        datagrams: left.datagrams,
        parity: left.parity,
        bytes: left.bytes,
    }
}
