//! One encoder's output and its subscribers: frame types, skipped frames, and the outcome of each frame per
//! subscriber.
//!
//! ```text
//!  a picture ─► captured ─► start ─► (encoder) ─► slice, slice … ─► end ─► poll_end
//!               skipped?    Plan                  to all at once    pacing   for each subscriber
//! ```
//! Sans-I/O: the module has no clock, encoder or link. The host's media thread and the tests' deterministic simulation add
//! them. One frame is processed at a time. Subscribers may join, leave and send feedback at any moment.

mod constant_rate;
mod frame;
mod player;
mod subscribers;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use crate::control::negotiate::{ClientConstraints, Role};
use crate::id::{ConfigEpoch, FrameId, InputSeq, SubscriberId};
use crate::send::congestion::Range;
use crate::send::key_frame::KeyFrameRequester;
use crate::send::loss::LinkState;
pub use crate::send::policy::Settings as PolicySettings;
use crate::send::policy::{ControlEvent, NextFrame, Policy, Recovery, TRANSPORT_HEADERS};
use crate::send::rate::{Difference, RateControl};
use crate::send::static_refinement::StaticRefinement;
use crate::send::subscriber::{Departure, Feedback, Frame, Subscriber};
use crate::time::Instant;
use crate::trace::{DropCause, Stage};
use crate::units::{Bitrate, Size};
use crate::wire::video::{
    Configuration, DrawingTimes, EchoKind, FrameHeader, InputEcho, PoseEcho, Views,
};

use self::constant_rate::ConstantRate;
pub use self::frame::{AppliedInput, FrameOutcome, OpenedEncoder, Plan, Settings};
use self::frame::{Current, Marked};
pub use self::subscribers::FanOut;
use self::subscribers::Subscribers;

/// Retry interval of a still picture after a failed frame (guess).
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Retry interval of a skipped picture: a third of a frame interval at 60 frames/s (guess).
const HELD_LOOK: Duration = Duration::from_millis(5);

/// Maximum number of sent frames kept until their report: two seconds at 240 frames/s.
const REMEMBERED: usize = 512;

/// See the module documentation.
pub struct Rendition<S> {
    settings: Settings,
    policy: Policy,
    /// The quantiser control, and the target to which it was set.
    rate: RateControl,
    target: Bitrate,
    /// The bounds of the rate without a player's limit.
    allowed: Range,
    constraints: ClientConstraints,
    /// The maximum frames a second for a player with an unknown display.
    usual_fps: f64,
    encoder: Option<OpenedEncoder>,
    epoch: ConfigEpoch,
    subscribers: Subscribers<S>,
    player: Option<SubscriberId>,
    /// The newest frames sent to the player.
    departures: VecDeque<(FrameId, Departure)>,
    /// The newest frame, and the newest coded one.
    frame: FrameId,
    coded: FrameId,
    /// The newest picture was skipped, so it is due even if the source is still.
    held: bool,
    last_frame_at: Instant,
    /// The link is full until this time, so still pictures are not repeated before it.
    repeat_after: Instant,
    failed_at: Option<Instant>,
    /// The schedule of repetitions of a still picture for a constant frame rate.
    constant_rate: ConstantRate,
    last_echo: InputSeq,
    /// The echo of the newest picture.
    picture_echo: InputEcho,
    static_refinement: StaticRefinement,
    /// The macroblocks that the current frame need not code.
    unchanged: Vec<bool>,
    current: Current,
    ends: VecDeque<FrameOutcome>,
}

impl<S: Subscriber> Rendition<S> {
    /// A rendition without subscribers or coded frames.
    #[must_use]
    pub fn new(settings: Settings) -> Rendition<S> {
        let policy = Policy::new(settings.policy);
        let target = policy.target();
        Rendition {
            rate: RateControl::new(target, settings.policy.fps),
            target,
            allowed: settings.policy.range,
            settings,
            policy,
            constraints: ClientConstraints::default(),
            usual_fps: settings.policy.fps,
            encoder: None,
            epoch: ConfigEpoch(0),
            subscribers: Subscribers::new(settings.view),
            player: None,
            departures: VecDeque::with_capacity(REMEMBERED),
            frame: FrameId::NONE,
            coded: FrameId::NONE,
            held: false,
            last_frame_at: Instant::default(),
            repeat_after: Instant::default(),
            failed_at: None,
            constant_rate: ConstantRate::default(),
            last_echo: InputSeq::default(),
            picture_echo: InputEcho::default(),
            static_refinement: StaticRefinement::default(),
            unchanged: Vec::new(),
            current: Current::default(),
            ends: VecDeque::new(),
        }
    }

    /// Adds a subscriber. It gets frames from the next key frame on, which is requested now. If `role` is the player's,
    /// an earlier player becomes an observer.
    pub fn subscribe(
        &mut self,
        id: SubscriberId,
        role: Role,
        constraints: ClientConstraints,
        subscriber: S,
    ) {
        self.policy
            .join(KeyFrameRequester::of(role, subscriber.intake()));
        if role == Role::Player {
            self.subscribers.demote_player();
        }
        self.subscribers.add(id, role, constraints, subscriber);
        self.update_player();
    }

    /// Removes a subscriber.
    pub fn unsubscribe(&mut self, id: SubscriberId) -> Option<S> {
        let gone = self.subscribers.remove(id);
        self.update_player();
        gone
    }

    /// Changes a subscriber's role.
    pub fn set_role(&mut self, id: SubscriberId, role: Role) {
        if role == Role::Player {
            self.subscribers.demote_player();
        }
        if let Some(member) = self.subscribers.member(id) {
            member.role = role;
        }
        self.update_player();
    }

    /// The subscriber with this id.
    pub fn subscriber(&mut self, id: SubscriberId) -> Option<&mut S> {
        self.subscribers
            .member(id)
            .map(|member| &mut member.subscriber)
    }

    /// All subscribers, the player first.
    pub fn subscribers(&mut self) -> impl Iterator<Item = (SubscriberId, &mut S)> {
        self.subscribers
            .members
            .iter_mut()
            .map(|m| (m.id, &mut m.subscriber))
    }

    /// Whether there are no subscribers.
    #[must_use]
    pub fn is_unwatched(&self) -> bool {
        self.subscribers.members.is_empty()
    }

    /// Handles a change of a subscriber's path.
    pub fn path_changed(&mut self, id: SubscriberId) {
        if self.player == Some(id) {
            self.policy.path_changed();
        }
    }

    /// Sets the maximum rate. Congestion control restarts at this maximum, or at the player's limit if that is lower.
    pub fn limit(&mut self, highest: Bitrate) {
        self.allowed = self.allowed.up_to(highest);
        self.policy
            .set_range(self.allowed.limited_to(self.constraints.bitrate));
    }

    /// Changes the GOP size from the next frame on: a key frame every `frames` frames (at least 1), or only on request
    /// if `frames` is `None` (OpenUVR paper, section IV-B3). The rate control then divides the bits between key frames
    /// and other frames for this GOP size.
    pub fn set_key_frame_interval(&mut self, frames: Option<u32>) {
        self.settings.policy.key_frame_interval = frames;
        self.policy.set_key_frame_interval(frames);
        self.rate.set_key_every(self.key_every());
    }

    /// The GOP size for the rate control.
    fn key_every(&self) -> Option<u32> {
        // Without references, all frames are key frames, so none is larger than the others.
        let referring = self.encoder.is_some_and(|encoder| encoder.depth > 0);
        let key_every = self.settings.policy.key_frame_interval;
        key_every.filter(|_| referring)
    }

    /// Updates the link state of each subscriber for which `look` returns a state, as [`Feedback::Link`] does.
    pub fn follow_links(&mut self, mut look: impl FnMut(SubscriberId) -> Option<LinkState>) {
        for member in &mut self.subscribers.members {
            member.link = look(member.id).or(member.link);
        }
    }

    /// Handles a subscriber's feedback.
    pub fn feedback(&mut self, now: Instant, from: SubscriberId, feedback: Feedback) {
        let Some(member) = self.subscribers.member(from) else {
            return;
        };
        match feedback {
            Feedback::Link(link) => member.link = Some(link),
            Feedback::Estimate(rate) => {
                if member.role == Role::Player {
                    self.policy.on_estimate(rate);
                }
            }
            Feedback::KeyFrame { last_good, newest } => {
                let requester = KeyFrameRequester::of(member.role, member.subscriber.intake());
                self.policy.request_key_frame(requester, last_good, newest);
            }
            // Only the player's reports affect the rate and the references. A frame that was not sent to the player is
            // not a loss.
            Feedback::Frame(report) => {
                let meant = member.started.is_some_and(|first| first <= report.frame);
                if member.role == Role::Player && meant {
                    let departure = self.departures.iter().rev();
                    let departure = departure.copied().find(|(of, _)| *of == report.frame);
                    (self.policy).on_report(now, &report, departure.map(|(_, left)| left).as_ref());
                }
            }
            // The timestamps that matter here have already been mapped by the ledger.
            Feedback::Clock { .. } => {}
        }
    }

    /// The next event of the policy.
    pub fn poll_control_event(&mut self) -> Option<ControlEvent> {
        self.policy.poll_control_event()
    }

    /// The next outcome of a frame for a subscriber.
    pub fn poll_end(&mut self) -> Option<FrameOutcome> {
        self.ends.pop_front()
    }

    /// When to call [`Rendition::captured`] for a still source, if there is a picture.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.is_unwatched() {
            return None;
        }
        let static_refinement = self.static_refinement.due(self.policy.target());
        let static_refinement = static_refinement.filter(|_| self.settings.static_refinement);
        let due = if self.held {
            // A frame for another deadline would also be skipped, and the deadline would be due again at once.
            self.last_frame_at + HELD_LOOK
        } else {
            let repeat = self.repeat_due();
            self.policy
                .due()
                .into_iter()
                .chain(static_refinement)
                .chain(repeat)
                .min()?
        };
        // A persistent failure would otherwise be retried in a busy loop.
        let calm = self.failed_at.map(|since| since + RETRY_DELAY);
        Some(calm.map_or(due, |calm| due.max(calm)))
    }

    /// When a still picture is repeated for subscribers that need it, or for a constant frame rate.
    fn repeat_due(&self) -> Option<Instant> {
        // There is nothing to repeat before the first frame. A key frame is due then.
        (self.coded != FrameId::NONE).then_some(())?;
        let every = self.subscribers.repeats(self.last_frame_at);
        let needed = every.map(|every| self.last_frame_at + every);
        let constant = self.constant_rate.due();
        let constant = constant.filter(|_| self.settings.constant_rate);
        let due = needed.into_iter().chain(constant).min()?;
        Some(due.max(self.repeat_after))
    }

    /// Handles an available picture. `fresh` states whether it was captured now; otherwise, it was sent or skipped
    /// before. A skipped picture is new to all subscribers. It must not count as still, because a full link would then
    /// get refinements. Returns whether to code the picture.
    pub fn captured(&mut self, now: Instant, fresh: bool) -> bool {
        if self.is_unwatched() {
            return false;
        }
        self.policy.set_round_trip(self.subscribers.round_trip());
        let held = self.policy.held_until(now);
        if let Some(until) = held.filter(|_| !fresh && !self.held)
            && self.policy.due().is_none_or(|at| at > now)
        {
            // Only a refinement or repetition is due. It waits, because it uses only spare capacity.
            let later = until.max(now + HELD_LOOK);
            self.static_refinement.wait(later);
            self.repeat_after = later;
            return false;
        }
        let again = std::mem::replace(&mut self.held, held.is_some());
        self.last_frame_at = now;
        if self.held && again && !fresh {
            // The outcome of this skipped picture has already been recorded.
            return false;
        }
        self.constant_rate
            .frame(now, self.settings.policy.interval());
        self.frame = self.frame.next();
        let still = !again && !fresh;
        self.current = Current {
            still,
            // Before the first frame, the available picture may have been captured without subscribers.
            repeats: still && self.coded != FrameId::NONE,
            ..Current::default()
        };
        self.current.stamps.stamp(Stage::Captured, now);
        self.subscribers.frame_captured();
        if self.held {
            self.drop_frame(now, Stage::Converted, DropCause::CongestionSkipped);
            return false;
        }
        true
    }

    /// Ends a captured frame for all subscribers because a newer picture replaced it before it was coded.
    pub fn superseded(&mut self, now: Instant) {
        if self.is_unwatched() {
            return;
        }
        self.frame = self.frame.next();
        self.current = Current::default();
        self.subscribers.frame_captured();
        self.drop_frame(now, Stage::Converted, DropCause::Superseded);
    }

    /// The newest frame's number.
    #[must_use]
    pub fn frame(&self) -> FrameId {
        self.frame
    }

    /// Whether the current frame repeats a picture that was sent before.
    #[must_use]
    pub fn repeats(&self) -> bool {
        self.current.repeats
    }

    /// Stamps a stage of the current frame.
    pub fn stamp(&mut self, stage: Stage, at: Instant) {
        self.current.stamps.stamp(stage, at);
    }

    /// Sets the newest input applied before the capture. An earlier player's input has other numbers and is ignored. A
    /// frame that repeats a picture shows no newer input than the picture's first frame.
    pub fn applied(&mut self, input: &AppliedInput) {
        if self.current.repeats {
            self.current.echo = self.picture_echo;
            return;
        }
        if self.player != Some(input.from) || input.seq == InputSeq::default() {
            return;
        }
        if input.seq != self.last_echo {
            self.last_echo = input.seq;
            let stage = match input.kind {
                EchoKind::Consumed => Stage::InputConsumed,
                EchoKind::Injected | EchoKind::None => Stage::InputInjected,
            };
            self.current
                .stamps
                .stamp(Stage::InputReceived, input.received);
            self.current.stamps.stamp(stage, input.applied);
        }
        self.current.echo = InputEcho {
            seq: input.seq,
            kind: input.kind,
        };
        self.picture_echo = self.current.echo;
    }

    /// Sets the pose and the views with which the application drew the frame.
    pub fn drawn(&mut self, pose: Option<(SubscriberId, PoseEcho)>, views: Option<Views>) {
        // An earlier player's poses have other numbers.
        let of_player = pose.filter(|(from, _)| self.player == Some(*from));
        self.current.pose = of_player.map(|(_, echo)| echo);
        self.current.views = views;
    }

    /// Sets the drawing times, as far as the application reported them.
    pub fn drawn_at(&mut self, times: DrawingTimes) {
        self.current.times = times;
    }

    /// Whether a new encoder for pictures of `size` is needed before coding.
    #[must_use]
    pub fn needs_encoder(&self, size: Size) -> bool {
        self.encoder.is_none_or(|encoder| encoder.size != size)
    }

    /// Handles the opening of an encoder. A new configuration epoch starts.
    pub fn encoder_opened(&mut self, encoder: OpenedEncoder) {
        self.epoch = ConfigEpoch(self.epoch.0.wrapping_add(1));
        self.encoder = Some(encoder);
        self.policy.encoder_opened(encoder.depth);
        self.rate.opened(encoder.size, self.key_every());
        self.static_refinement
            .opened(encoder.macroblocks, encoder.codes_parts);
        self.coded = FrameId::NONE;
    }

    /// The encoder's current target.
    #[must_use]
    pub fn target(&self) -> Bitrate {
        self.target
    }

    /// The encoder's target from the next frame on, if it changed.
    pub fn new_target(&mut self) -> Option<Bitrate> {
        let target = self.policy.target();
        if std::mem::replace(&mut self.target, target) == target {
            return None;
        }
        self.rate.retarget(target, self.settings.policy.fps);
        Some(target)
    }

    /// Starts coding the captured frame. Returns its plan and the destination of its slices, or `None` without an
    /// encoder. `changed` returns whether a macroblock differs from the newest coded frame. It is `None` if any
    /// macroblock may differ. `difference` is the picture's difference from the previous one, if it is known.
    pub fn start_frame(
        &mut self,
        now: Instant,
        changed: Option<&dyn Fn(usize) -> bool>,
        difference: Option<Difference>,
    ) -> Option<(Plan<'_>, FanOut<'_, S>)> {
        let encoder = self.encoder?;
        let pacing = self.policy.pacing(now);
        let ecn = self.policy.mark(self.frame);
        let refreshing = self.policy.is_refreshing();
        // Requests that arrive later apply to a later frame.
        let (reference, refresh) = match self.policy.next(now, self.frame) {
            NextFrame::Key => (FrameId::NONE, false),
            NextFrame::Predicted(reference) => (reference, false),
            NextFrame::IntraRefresh(reference) => (reference, true),
        };
        let key_frame = reference == FrameId::NONE;
        // Without references, all frames are key frames, so none is more important than the others.
        let intra = encoder.depth == 0;
        if key_frame && self.player.is_some() && self.policy.is_link_unknown() {
            self.rate.limit_key_frame();
        }
        let follows = reference == self.coded && !key_frame;
        let still = self.current.still;
        let may_improve = self.settings.static_refinement && still && (intra || follows);
        let improvement = match self.static_refinement.due(self.target) {
            Some(at) if may_improve && at <= now => self.static_refinement.next(self.target),
            _ => None,
        };
        let qp = match improvement {
            Some(improvement) => improvement.qp,
            None if still && intra => self.static_refinement.worst(),
            None => {
                let narrow = self.player.is_some() && self.policy.is_link_narrow();
                self.rate
                    .set_difference(difference.filter(|_| !intra), narrow);
                self.rate.qp(key_frame && !intra)
            }
        };
        // An intra refresh also codes unchanged macroblocks.
        let refreshes = self.settings.policy.recovery == Recovery::Refresh;
        let marked = match changed {
            Some(changed) if follows && improvement.is_none() && !refreshes => {
                self.static_refinement
                    .mark(qp, &mut self.unchanged, changed);
                Marked::SinceNewest
            }
            Some(changed) if !(key_frame || follows || refreshes) => {
                (self.static_refinement).mark_back(reference, &mut self.unchanged, changed);
                Marked::SinceReference
            }
            _ => Marked::Nothing,
        };
        (self.current.key_frame, self.current.qp) = (key_frame, qp);
        (self.current.improvement, self.current.marked) = (improvement, marked);
        self.current.keeps_quality = still && follows && !refreshing;
        let header = FrameHeader {
            frame: self.frame,
            reference,
            epoch: self.epoch,
            stream: self.settings.view.stream,
            view: self.settings.view.view,
            captured: (self.current.stamps.at(Stage::Captured)).map_or(0, |at| at.0),
            clock_epoch: 0,
            echo: self.current.echo,
        };
        let configuration = key_frame.then_some(Configuration {
            size: encoder.size,
            codec: encoder.codec,
            colour: encoder.colour,
            fps: self.settings.policy.rounded_fps(),
        });
        let frame = Frame {
            header,
            configuration,
            pose: self.current.pose,
            views: self.current.views,
            times: self.current.times,
            slices: encoder.slices,
            interval: self.settings.policy.interval(),
            link: None,
            pacing,
            ecn,
        };
        self.subscribers.start_frame(now, &frame, &mut self.policy);
        let plan = Plan {
            frame: self.frame,
            reference,
            refresh,
            qp,
            part: improvement.filter(|_| encoder.codes_parts),
            unchanged: (marked == Marked::SinceNewest).then_some(&self.unchanged),
        };
        let fan_out = FanOut {
            members: &mut self.subscribers.members,
            stamps: &mut self.current.stamps,
            policy: &mut self.policy,
            frame: self.frame,
        };
        Some((plan, fan_out))
    }

    /// The destination of the current frame's slices.
    pub fn fan_out(&mut self) -> FanOut<'_, S> {
        FanOut {
            members: &mut self.subscribers.members,
            stamps: &mut self.current.stamps,
            policy: &mut self.policy,
            frame: self.frame,
        }
    }

    /// Handles the end of the encoder's slices. If slices are still waiting for a link, returns when to call this
    /// method again; nothing may be captured before that time. If the player gets the frame, the wait ends with the
    /// player's last slice, even if observers need longer.
    #[must_use]
    pub fn end(&mut self, now: Instant) -> Option<Instant> {
        if !std::mem::replace(&mut self.current.encoded, true) {
            self.current.stamps.stamp(Stage::Encoded, now);
        }
        if let Some(at) = self.subscribers.end(now) {
            return Some(at);
        }
        self.finish(now);
        None
    }

    /// Records the transmission and the outcome of the frame for all subscribers.
    fn finish(&mut self, now: Instant) {
        self.failed_at = None;
        let Current { key_frame, qp, .. } = self.current;
        let intra = self.encoder.is_some_and(|encoder| encoder.depth == 0);
        // The bits of one transmission, independent of the number of subscribers: the transmission to the player if
        // there is one.
        let mut bits = 0;
        if let Some(left) = self.subscribers.first_departure() {
            bits = u64::from(on_the_wire(&left) + left.again) * 8;
            let dear = key_frame && !intra;
            if !self.current.still || dear {
                self.rate.coded(dear, qp, bits);
            }
        }
        let player = self.subscribers.player().filter(|member| member.present);
        let plays = player.is_some();
        let left = player.and_then(subscribers::Member::departure);
        let left = left.filter(|left| left.first.is_some());
        self.policy
            .sent(now, self.frame, left.as_ref().map(on_the_wire));
        if let Some(left) = left {
            if self.departures.len() == REMEMBERED {
                self.departures.pop_front();
            }
            self.departures.push_back((self.frame, left));
        } else if plays {
            self.policy.unsent(self.frame);
        }
        self.subscribers
            .finish(now, self.frame, &self.current, &mut self.ends);
        self.coded = self.frame;
        match (self.current.improvement, self.current.marked) {
            (Some(done), _) => {
                let interval = self.settings.policy.interval();
                (self.static_refinement).improved(
                    now,
                    self.frame,
                    &done,
                    bits,
                    self.target,
                    interval,
                );
            }
            // A repetition does not postpone the next refinement, because repetitions may follow each other more
            // closely than refinements.
            (None, Marked::Nothing) if self.current.still && intra => {}
            // If the frame keeps the quality, only an intra refresh could make its macroblocks worse, because a refresh
            // codes them without reference.
            (None, Marked::Nothing)
                if self.current.keeps_quality && !self.policy.is_refreshing() =>
            {
                self.static_refinement.repeated_in_full(self.frame, qp);
            }
            (None, Marked::SinceNewest) if self.current.still => {
                (self.static_refinement).repeated(self.frame, qp, &self.unchanged);
            }
            (None, Marked::Nothing) => self.static_refinement.coded(now, self.frame, qp, bits),
            (None, _) => {
                (self.static_refinement).coded_in_part(now, self.frame, qp, bits, &self.unchanged);
            }
        }
    }

    /// Ends the frame because it was not coded: `stage` failed. A new encoder codes the next frame.
    pub fn failed(&mut self, now: Instant, stage: Stage) {
        self.encoder = None;
        self.failed_at = Some(self.last_frame_at);
        self.policy.failed();
        self.drop_frame(now, stage, DropCause::EncodeFailed);
    }

    /// Ends the frame for all subscribers that were present at its capture.
    fn drop_frame(&mut self, now: Instant, stage: Stage, why: DropCause) {
        let stamps = self.current.stamps;
        (self.subscribers).drop_frame(now, (self.frame, stamps), (stage, why), &mut self.ends);
    }

    /// Panics if an invariant does not hold: for tests and fuzzing.
    pub fn check_invariants(&self) {
        self.subscribers.check_invariants();
        assert_eq!(
            self.player,
            self.subscribers.player().map(|member| member.id)
        );
        assert!(self.coded <= self.frame);
    }
}

/// The departure's bytes with all headers.
fn on_the_wire(left: &Departure) -> u32 {
    left.bytes + left.datagrams * TRANSPORT_HEADERS
}
