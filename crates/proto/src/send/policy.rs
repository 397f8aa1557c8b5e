//! The policy for losses and changing links. It emits each decision as an event with its reason.
//!
//! It combines [`References`] (frames at the player), [`KeyFramePolicy`] (rate limit of key frames), [`IntraRefresh`],
//! [`Congestion`] (the link's capacity), and [`L4s`] (the ECN field). The media thread queries it before each frame and
//! updates it afterwards. The policy's inputs are the player's reports and the key-frame requests of all clients.
//! Sans-I/O: `now` is an argument.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bytes::MAX_DATAGRAM;
pub use crate::control_event::{ControlEvent, KeyFrameReason, TYPICAL};
use crate::ecn::Ecn;
use crate::id::FrameId;
use crate::send::congestion::{Congestion, FrameTransit, Range, RateChange};
use crate::send::intra_refresh::IntraRefresh;
use crate::send::key_frame::{KeyFramePolicy, KeyFrameRequester, hold_off};
use crate::send::l4s::{L4s, L4sMode};
use crate::send::loss::LinkState;
use crate::send::pace::Pacing;
use crate::send::packetize::Protection;
use crate::send::references::References;
use crate::send::subscriber::Departure;
use crate::time::{Instant, PeerInstant};
use crate::trace::{DropCause, Fidelity, Outcome};
use crate::units::Bitrate;
use crate::wire::control::Report;

/// Bytes of IPv4 and UDP headers in front of each datagram (20 + 8).
pub const TRANSPORT_HEADERS: u32 = 28;

/// Maximum unread events. Older ones are dropped.
const MAX_EVENTS: usize = 32;

/// An estimate is applied if it differs from the target by at least the target divided by this number (guess). Smaller
/// differences are ignored, because some encoders code a key frame after each change of the target.
const ESTIMATE_STEPS: u64 = 20;

/// The settings of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Maximum frames a second. A rendition may lower this value to the refresh rate of the player's display, or
    /// replace it by the frame rate that the player's user has chosen.
    pub fps: f64,
    /// The bounds of the rate.
    pub range: Range,
    /// Whether the rate adapts. Otherwise, it stays at the maximum.
    pub adaptive: bool,
    /// The use of L4S on the player's path. It has no effect unless the rate adapts, because ECT(1) promises a scalable
    /// response.
    pub l4s: L4sMode,
    /// The response to losses.
    pub recovery: Recovery,
    /// GOP size: a key frame every this many frames; `None` for key frames only on request.
    pub key_frame_interval: Option<u32>,
}

impl Settings {
    /// The frame interval at the maximum frame rate.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.fps.max(1.0))
    }

    /// Frames a second, rounded up: 1–65 535.
    #[must_use]
    pub fn rounded_fps(&self) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "it is within 1–65 535")]
        #[expect(clippy::cast_sign_loss, reason = "it is within 1–65 535")]
        let fps = self.fps.ceil().clamp(1.0, 65_535.0) as u16;
        fps
    }

    fn congestion(&self) -> Congestion {
        Congestion::new(self.range, self.interval())
    }

    fn l4s(&self) -> L4s {
        L4s::new(if self.adaptive {
            self.l4s
        } else {
            L4sMode::Off
        })
    }
}

/// The repair of a picture damaged by a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// Reference invalidation: the next frame refers to the newest intact frame. If the encoder no longer keeps that
    /// frame, the next frame is a key frame.
    ReferenceInvalidation,
    /// Repair by a key frame.
    KeyFrame,
    /// Repair by an intra refresh, which requires an encoder that supports it.
    #[serde(rename = "intra-refresh")]
    Refresh,
    /// No repair: reports and requests of clients have no effect on the type of a frame. A damaged picture stays
    /// damaged until the next key frame of [`Settings::key_frame_interval`]. The OpenUVR paper describes such a stream
    /// without a control protocol (section IV-B3).
    None,
}

/// The type of the next frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextFrame {
    /// A key frame.
    Key,
    /// Refers to this frame.
    Predicted(FrameId),
    /// Refers to this frame, the newest, and starts an intra refresh. If a refresh is running, the new refresh starts
    /// after it.
    IntraRefresh(FrameId),
}

/// The policy of one rendition.
#[derive(Debug)]
pub struct Policy {
    settings: Settings,
    round_trip: Duration,
    /// Number of recent frames to which the next frame may refer.
    depth: u8,
    references: References,
    intra_refresh: IntraRefresh,
    key_frames: KeyFramePolicy,
    congestion: Congestion,
    l4s: L4s,
    /// The newest rate estimate of the player's transport. If there is an estimate, `congestion` does not determine the
    /// rate.
    estimate: Option<Bitrate>,
    last_coded: Option<Instant>,
    holding: bool,
    /// Parity shards of a typical frame, and whether retransmission is on.
    protection: (u8, bool),
    events: VecDeque<ControlEvent>,
}

impl Policy {
    /// A policy for a new rendition.
    #[must_use]
    pub fn new(settings: Settings) -> Policy {
        Policy {
            settings,
            round_trip: Duration::ZERO,
            depth: 1,
            references: References::default(),
            intra_refresh: IntraRefresh::default(),
            key_frames: KeyFramePolicy::with_one_every(settings.key_frame_interval),
            congestion: settings.congestion(),
            l4s: settings.l4s(),
            estimate: None,
            last_coded: None,
            holding: false,
            protection: (0, true),
            events: VecDeque::new(),
        }
    }

    /// Changes the GOP size from the next frame on; `None`: key frames only on request. If the current GOP already has
    /// that many frames or more, the next frame is a key frame.
    pub fn set_key_frame_interval(&mut self, frames: Option<u32>) {
        self.settings.key_frame_interval = frames;
        self.key_frames.set_one_every(frames);
    }

    fn emit(&mut self, event: ControlEvent) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// The next event.
    pub fn poll_control_event(&mut self) -> Option<ControlEvent> {
        self.events.pop_front()
    }

    /// Handles the opening of a new encoder: earlier frames cannot be references, and the encoder keeps `depth` frames. With
    /// 0, each frame is a key frame.
    pub fn encoder_opened(&mut self, depth: u8) {
        self.depth = match self.settings.recovery {
            Recovery::ReferenceInvalidation => depth,
            Recovery::KeyFrame | Recovery::Refresh | Recovery::None => depth.min(1),
        };
        self.references.forget();
    }

    /// Handles a subscriber that joins.
    pub fn join(&mut self, requester: KeyFrameRequester) {
        self.key_frames.join(requester);
    }

    /// Resets the link's state, because the player has changed or left.
    pub fn player_changed(&mut self) {
        self.congestion = self.settings.congestion();
        self.l4s = self.settings.l4s();
        self.estimate = None;
        self.holding = false;
        self.protection = (0, true);
    }

    /// Handles a change of the player's path.
    pub fn path_changed(&mut self) {
        self.congestion.path_changed();
        self.l4s.path_changed();
        self.holding = false;
    }

    /// Sets the player's shortest round trip.
    pub fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    /// Sets the protection of the player's frames.
    pub fn protected(&mut self, protection: &Protection, link: &LinkState) {
        let parity = u8::try_from(protection.parity.parity(TYPICAL)).unwrap_or(u8::MAX);
        let now = (parity, protection.resend);
        if std::mem::replace(&mut self.protection, now) != now {
            self.emit(ControlEvent::Protection {
                parity,
                resend: protection.resend,
                loss: link.loss,
                round_trip: link.round_trip,
            });
        }
    }

    /// Whether the next frame is the first on the player's link, whose capacity is therefore unknown.
    #[must_use]
    pub fn is_link_unknown(&self) -> bool {
        self.decides_rate() && self.congestion.is_unused()
    }

    /// The pacing of the player's frames; `None` if bursts are harmless. If an L4S queue marked datagrams recently, the
    /// pacing suits this queue. Otherwise, frames are paced only if the link was recently full or is unknown.
    #[must_use]
    pub fn pacing(&self, now: Instant) -> Option<Pacing> {
        if !self.decides_rate() {
            return None;
        }
        if let Some(rate) = self.congestion.paced_rate(now) {
            return Some(Pacing::scalable(rate));
        }
        // The queue of an unknown link may be too short for a first frame that is larger than expected.
        let rate = match self.is_link_unknown() {
            true => self.target(),
            false => self.congestion.capacity()?,
        };
        Some(Pacing {
            rate,
            burst: self.interval(),
        })
    }

    /// Whether a large frame may wait in the queue of the player's link: the link was recently full, or its capacity is
    /// still unknown.
    #[must_use]
    pub fn is_link_narrow(&self) -> bool {
        self.decides_rate() && (self.is_link_unknown() || self.congestion.capacity().is_some())
    }

    /// The ECN field of the player's datagrams of frame `frame`, which starts now.
    pub fn mark(&mut self, frame: FrameId) -> Ecn {
        self.l4s.mark(frame)
    }

    /// Whether the policy's congestion control determines the rate. Otherwise, the rate is constant or follows the
    /// estimates of the player's transport.
    fn decides_rate(&self) -> bool {
        self.settings.adaptive && self.estimate.is_none()
    }

    /// Handles a rate estimate of the player's transport. Estimates replace the policy's congestion control until the
    /// player changes. After the first estimate, an estimate that differs from the target by less than a twentieth is
    /// ignored, unless it reaches the maximum of the range.
    pub fn on_estimate(&mut self, estimate: Bitrate) {
        let before = self.estimate.map(|_| self.target());
        let to = self.settings.range.clamp(estimate);
        let small = before.is_some_and(|before| {
            let difference = before.0.abs_diff(to.0);
            difference == 0
                || (difference < before.0 / ESTIMATE_STEPS && to != self.settings.range.max)
        });
        if small {
            return;
        }
        self.estimate = Some(to);
        self.holding = false;
        if self.settings.adaptive {
            self.emit(ControlEvent::Rate(RateChange::Estimate { to }));
        }
    }

    /// Sets the maximum frames a second. Call it before [`Policy::player_changed`].
    pub fn set_fps(&mut self, fps: f64) {
        self.settings.fps = fps;
    }

    /// Sets the bounds of the rate, and restarts congestion control.
    pub fn set_range(&mut self, range: Range) {
        self.settings.range = range;
        self.congestion = self.settings.congestion();
    }

    /// Handles a key-frame request of a client whose picture is broken. `last_good` is the client's newest complete
    /// frame, and `newest` is the newest frame known to the client.
    pub fn request_key_frame(
        &mut self,
        requester: KeyFrameRequester,
        last_good: FrameId,
        newest: FrameId,
    ) {
        if self.settings.recovery == Recovery::None {
            return;
        }
        if requester == KeyFrameRequester::Player && self.refreshes() {
            // A refresh repairs any picture, and the reports name the losses, so the request is not needed.
            if last_good != FrameId::NONE {
                return;
            }
        } else if requester == KeyFrameRequester::Player {
            self.references.invalidate(last_good, newest);
            if self.references.newest_sound(self.depth).is_some() {
                return;
            }
        }
        self.key_frames.request(requester, newest);
    }

    /// Handles a player's report on a frame. `left` describes the frame's transmission; `None` if the frame was not
    /// sent.
    pub fn on_report(&mut self, now: Instant, report: &Report, left: Option<&Departure>) {
        if self.settings.recovery != Recovery::None {
            self.note(report.frame, report.outcome);
        }
        let covered = self.l4s.covers(report.frame);
        if let Some(counts) = &report.ecn
            && let Some(change) = self.l4s.on_report(report.frame, counts)
        {
            self.emit(ControlEvent::L4s(change));
        }
        let Some((left, sent)) = left.and_then(|left| Some((left, (left.first?, left.last?))))
        else {
            return;
        };
        let recoverable = report
            .first_received
            .zip(report.recoverable)
            .map(|(at, span)| {
                let span = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
                PeerInstant(at.0.saturating_add(span))
            });
        let says_nothing = match report.outcome {
            Outcome::SentUnacknowledged => true,
            Outcome::Dropped { why, .. } => {
                matches!(why, DropCause::Unreported | DropCause::SessionEnded)
            }
            Outcome::Displayed(_) => false,
        };
        if says_nothing {
            return self.congestion.unreported(report.frame);
        }
        // If nothing of a frame arrived, the report on the next frame counts the lost datagrams of both frames.
        let counted = left.datagrams.saturating_sub(report.missing.into());
        let counted = if report.first_received.is_some() {
            counted
        } else {
            0
        };
        let fit = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
        let transit = FrameTransit {
            frame: report.frame,
            bytes: data_bytes(left),
            data: left.datagrams.saturating_sub(left.parity),
            sent,
            first: report.first_received,
            // Retransmitted data arrived a round trip later, so its delay does not show a queue.
            recoverable: recoverable.filter(|_| report.resent == 0),
            datagrams: (fit(counted), report.missing),
            ecn: report.ecn.filter(|_| covered),
        };
        let change = self.congestion.on_report(now, &transit);
        self.rate_changed(change);
    }

    fn note(&mut self, frame: FrameId, outcome: Outcome) {
        match outcome {
            // A subscriber without reports is assumed to have displayed the frame.
            Outcome::Displayed(Fidelity::Complete) | Outcome::SentUnacknowledged => {
                self.references.displayed(frame);
                self.intra_refresh.displayed(frame);
            }
            // The frame arrived, but its reference is not intact.
            Outcome::Displayed(Fidelity::Tainted) => self.references.broken(frame),
            // The client decoded the frame but did not display it, or the host never coded it.
            Outcome::Dropped {
                why: DropCause::Superseded | DropCause::CongestionSkipped | DropCause::EncodeFailed,
                ..
            } => {}
            Outcome::Displayed(Fidelity::Concealed) | Outcome::Dropped { .. } => {
                self.references.broken(frame);
                self.intra_refresh.lose(frame);
            }
        }
        let no_start = [DropCause::AwaitingKeyFrame, DropCause::DecodeFailed];
        if let Outcome::Dropped { why, .. } = outcome
            && no_start.contains(&why)
            && self.refreshes()
        {
            self.key_frames.request(KeyFrameRequester::Player, frame);
        }
    }

    /// Whether losses are answered by refreshes.
    fn refreshes(&self) -> bool {
        self.settings.recovery == Recovery::Refresh && self.depth > 0
    }

    fn rate_changed(&mut self, change: Option<RateChange>) {
        if let Some(change) = change.filter(|_| self.decides_rate()) {
            self.emit(ControlEvent::Rate(change));
        }
    }

    /// The target rate, including all headers and repair data.
    #[must_use]
    pub fn target(&self) -> Bitrate {
        if !self.settings.adaptive {
            return self.settings.range.max;
        }
        match self.estimate {
            Some(estimate) => self.settings.range.clamp(estimate),
            None => self.congestion.target(),
        }
    }

    /// When a frame of a still picture is due, because a picture is broken or a subscriber waits.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let key_frame = self.key_frames.due(self.hold_off());
        let repairable = match self.refreshes() {
            true => self.intra_refresh.needs_frames(),
            false => {
                self.references.is_broken() && self.references.newest_sound(self.depth).is_some()
            }
        };
        // A moving source delivers the next frame itself. An extra frame in between, especially a key frame, would
        // exceed the capacity even of a link with twice the mean rate.
        let still = self.last_coded.map(|at| at + self.interval() * 2);
        let key_frame = key_frame.map(|at| still.map_or(at, |still| at.max(still)));
        let repair = still.filter(|_| repairable);
        key_frame.into_iter().chain(repair).min()
    }

    /// The time until which new frames are skipped because the link is full.
    pub fn held_until(&mut self, now: Instant) -> Option<Instant> {
        let change = self.congestion.quiet(now, self.round_trip);
        self.rate_changed(change);
        let held = self
            .congestion
            .held_until(now)
            .filter(|_| self.decides_rate());
        let news = !std::mem::replace(&mut self.holding, held.is_some());
        if let Some(until) = held.filter(|_| news) {
            let wait = until.since(now);
            self.emit(ControlEvent::CongestionSkip { wait });
        }
        held
    }

    fn interval(&self) -> Duration {
        self.settings.interval()
    }

    fn hold_off(&self) -> Duration {
        hold_off(self.round_trip, self.interval())
    }

    /// The type of frame `frame`, which starts now. Requests that arrive later apply to a later frame.
    pub fn next(&mut self, now: Instant, frame: FrameId) -> NextFrame {
        if self.depth == 0 {
            // This frame fulfils all pending requests.
            self.key_frames.sent(now, frame);
            self.references.coded(frame, FrameId::NONE);
            return NextFrame::Key;
        }
        let newest = self.references.newest();
        let sound = match self.refreshes() {
            true => Some(newest),
            false => self.references.newest_sound(self.depth),
        };
        let mut why = KeyFrameReason::Requested;
        if newest == FrameId::NONE {
            why = KeyFrameReason::First;
            self.key_frames.failed();
        } else if sound.is_none() {
            why = KeyFrameReason::NoReference;
            self.key_frames.join(KeyFrameRequester::Player);
        } else if self.refreshes() && self.intra_refresh.is_futile() {
            why = KeyFrameReason::RefreshFailed;
            self.key_frames.join(KeyFrameRequester::Player);
        }
        let due = self.key_frames.due(self.hold_off());
        let wanted = due.is_some_and(|at| at <= now);
        if !wanted && self.key_frames.is_periodic(frame) {
            why = KeyFrameReason::Periodic;
        }
        if wanted || why == KeyFrameReason::Periodic {
            self.key_frames.sent(now, frame);
            self.references.coded(frame, FrameId::NONE);
            self.intra_refresh.key_frame(frame);
            self.emit(ControlEvent::KeyFrame { frame, why });
            return NextFrame::Key;
        }
        // Within the hold-off of a lost key frame, no reference is intact, and all frames are tainted.
        let to = sound.unwrap_or(newest);
        if to != newest {
            self.emit(ControlEvent::ReferenceInvalidation { frame, to });
        }
        self.references.coded(frame, to);
        self.intra_refresh.frame();
        if !self.refreshes() {
            return NextFrame::Predicted(to);
        }
        let Some((lost, news)) = self.intra_refresh.request() else {
            return NextFrame::Predicted(to);
        };
        if news {
            self.emit(ControlEvent::IntraRefresh { frame, lost });
        }
        NextFrame::IntraRefresh(to)
    }

    /// Records that the current frame starts an intra refresh, which completes `clean_after` frames later.
    pub fn refresh_began(&mut self, frame: FrameId, clean_after: u16) {
        self.intra_refresh.start(frame, clean_after);
    }

    /// Whether an intra refresh is running: it has started, and needs more frames.
    #[must_use]
    pub fn is_refreshing(&self) -> bool {
        self.refreshes() && self.intra_refresh.is_running()
    }

    /// Records that the current frame was sent. `bytes` is the number of bytes sent to the player, including all
    /// headers; `None` if nothing was sent to a player.
    pub fn sent(&mut self, now: Instant, frame: FrameId, bytes: Option<u32>) {
        self.last_coded = Some(now);
        if let Some(bytes) = bytes {
            self.congestion.sent(now, frame, bytes);
        }
    }

    /// Records that the current frame was not sent to the player.
    pub fn unsent(&mut self, frame: FrameId) {
        self.references.broken(frame);
        self.intra_refresh.lose(frame);
    }

    /// Records that the current frame was not coded, so a key frame must follow.
    pub fn failed(&mut self) {
        self.references.forget();
        self.key_frames.failed();
    }
}

/// Bytes of a frame's data datagrams with transport headers. FEC repair datagrams are as long as the longest data
/// datagram, and are counted as full datagrams.
fn data_bytes(left: &Departure) -> u32 {
    let data = left.datagrams.saturating_sub(left.parity);
    let full = u32::try_from(MAX_DATAGRAM).unwrap_or(u32::MAX);
    let parity = left.parity.saturating_mul(full).min(left.bytes / 2);
    left.bytes - parity + data * TRANSPORT_HEADERS
}
