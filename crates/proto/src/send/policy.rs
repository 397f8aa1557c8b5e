//! What is done about loss and a link that changes: one policy, each event with its reason.
//!
//! It joins what knows one thing each: [`References`] (what the player has), [`KeyFramePolicy`]
//! (how often a key frame helps), [`IntraRefresh`] (intra refresh), [`Congestion`] (what the link carries).
//! The media thread asks it before each frame and tells it afterwards; the client's reports on the
//! player's frames are what it learns from. It is a value: `now` comes in.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use crate::bytes::MAX_DATAGRAM;
pub use crate::control_event::{ControlEvent, KeyFrameReason, TYPICAL};
use crate::id::FrameId;
use crate::send::congestion::{Congestion, FrameTransit, Range, RateChange};
use crate::send::intra_refresh::IntraRefresh;
use crate::send::key_frame::{KeyFramePolicy, KeyFrameRequester, hold_off};
use crate::send::loss::LinkState;
use crate::send::packetize::Protection;
use crate::send::references::References;
use crate::send::subscriber::Departure;
use crate::time::{Instant, PeerInstant};
use crate::trace::{DropCause, Fidelity, Outcome};
use crate::units::Bitrate;
use crate::wire::control::Report;

/// Bytes of UDP and IPv4 headers in front of each datagram (20 + 8).
pub const TRANSPORT_HEADERS: u32 = 28;

/// Decisions that wait to be read; older ones go.
const MAX_EVENTS: usize = 32;

/// What the policy is given at the start.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The highest number of frames a second; of one that follows the player's display, where that is not
    /// known.
    pub fps: f64,
    /// Between what the rate may vary.
    pub range: Range,
    /// Whether it varies; otherwise it stays at the highest.
    pub adaptive: bool,
    /// How a loss is answered.
    pub recovery: Recovery,
    /// Every so many-th frame is a key frame, wanted or not; `None`: only those that are wanted.
    pub key_frame_every: Option<u32>,
}

impl Settings {
    /// Between two frames at the highest rate.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.fps.max(1.0))
    }

    /// Frames a second, rounded up: 1–65 535.
    #[must_use]
    pub fn whole_fps(&self) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "it is within 1–65 535")]
        #[expect(clippy::cast_sign_loss, reason = "it is within 1–65 535")]
        let fps = self.fps.ceil().clamp(1.0, 65_535.0) as u16;
        fps
    }

    fn congestion(&self) -> Congestion {
        Congestion::new(self.range, self.interval())
    }
}

/// How a picture that was damaged by a loss is made clean again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// By a frame that refers to the newest sound one, as long as the encoder remembers it.
    ReferenceInvalidation,
    /// By a key frame.
    KeyFrame,
    /// By an intra refresh, which the encoder must be able to make.
    Refresh,
}

/// What the next frame is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextFrame {
    /// A key frame.
    Key,
    /// A frame that refers to this one.
    Predicted(FrameId),
    /// A frame that refers to this one, the newest, and that begins an intra refresh, unless
    /// one is under way: then the frame behind that one does.
    IntraRefresh(FrameId),
}

/// Decides for one rendition.
#[derive(Debug)]
pub struct Policy {
    settings: Settings,
    round_trip: Duration,
    /// How many of the newest frames the encoder remembers.
    depth: u8,
    references: References,
    intra_refresh: IntraRefresh,
    key_frames: KeyFramePolicy,
    congestion: Congestion,
    last_coded: Option<Instant>,
    holding: bool,
    /// Parity of a typical frame, and whether what is missing is sent again.
    protection: (u8, bool),
    events: VecDeque<ControlEvent>,
}

impl Policy {
    /// A policy for a rendition of which nothing was coded yet.
    #[must_use]
    pub fn new(settings: Settings) -> Policy {
        Policy {
            settings,
            round_trip: Duration::ZERO,
            depth: 1,
            references: References::default(),
            intra_refresh: IntraRefresh::default(),
            key_frames: KeyFramePolicy::with_one_every(settings.key_frame_every),
            congestion: settings.congestion(),
            last_coded: None,
            holding: false,
            protection: (0, true),
            events: VecDeque::new(),
        }
    }

    fn emit(&mut self, event: ControlEvent) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// What was decided since the last call.
    pub fn poll_control_event(&mut self) -> Option<ControlEvent> {
        self.events.pop_front()
    }

    /// Another encoder was opened: nothing can be referred to, and it remembers `depth` frames; with
    /// 0 each frame is a key frame.
    pub fn encoder_opened(&mut self, depth: u8) {
        self.depth = match self.settings.recovery {
            Recovery::ReferenceInvalidation => depth,
            Recovery::KeyFrame | Recovery::Refresh => depth.min(1),
        };
        self.references.forget();
    }

    /// Somebody starts to watch.
    pub fn join(&mut self, requester: KeyFrameRequester) {
        self.key_frames.join(requester);
    }

    /// Another player, or none: what was learnt of the link is not true of it.
    pub fn player_changed(&mut self) {
        self.congestion = self.settings.congestion();
        self.holding = false;
        self.protection = (0, true);
    }

    /// The player's datagrams take another path.
    pub fn path_changed(&mut self) {
        self.congestion.path_changed();
        self.holding = false;
    }

    /// The shortest round trip to the player.
    pub fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    /// How the player's frames are protected from now on.
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

    /// What the link was found to carry when it was full of late; more than that is not sent in
    /// a burst.
    #[must_use]
    pub fn capacity(&self) -> Option<Bitrate> {
        self.congestion
            .capacity()
            .filter(|_| self.settings.adaptive)
    }

    /// The highest number of frames a second from now on. Before [`Policy::player_changed`].
    pub fn set_fps(&mut self, fps: f64) {
        self.settings.fps = fps;
    }

    /// Between what the rate may vary from now on; it starts anew.
    pub fn set_range(&mut self, range: Range) {
        self.settings.range = range;
        self.congestion = self.settings.congestion();
    }

    /// Somebody's picture is broken: the newest frame that they displayed whole, and the newest
    /// of which they know.
    pub fn request_key_frame(
        &mut self,
        requester: KeyFrameRequester,
        last_good: FrameId,
        newest: FrameId,
    ) {
        if requester == KeyFrameRequester::Player && self.refreshes() {
            // A refresh mends whatever picture there is; what was lost of it the reports say.
            if last_good != FrameId::NONE {
                return;
            }
        } else if requester == KeyFrameRequester::Player {
            self.references.only_good(last_good, newest);
            if self.references.newest_sound(self.depth).is_some() {
                return;
            }
        }
        self.key_frames.request(requester, newest);
    }

    /// What became of a frame at the player, and what had left of it, if anything had.
    pub fn on_report(&mut self, now: Instant, report: &Report, left: Option<&Departure>) {
        self.note(report.frame, report.outcome);
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
        // Of a frame of which nothing arrived, the report on the next one counts what is missing.
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
            // What was sent again came a round trip later, not through a queue.
            recoverable: recoverable.filter(|_| report.resent == 0),
            datagrams: (fit(counted), report.missing),
        };
        let change = self.congestion.on_report(now, &transit);
        self.rate_changed(change);
    }

    fn note(&mut self, frame: FrameId, outcome: Outcome) {
        match outcome {
            // Who says nothing of its frames is believed to have them.
            Outcome::Displayed(Fidelity::Complete) | Outcome::SentUnacknowledged => {
                self.references.whole(frame);
                self.intra_refresh.whole(frame);
            }
            // It arrived: what it builds on did not.
            Outcome::Displayed(Fidelity::Tainted) => self.references.broken(frame),
            // Decoded like any other, but not shown; or never coded.
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
        if let Some(change) = change.filter(|_| self.settings.adaptive) {
            self.emit(ControlEvent::Rate(change));
        }
    }

    /// What may be sent now, all headers and repairs included.
    #[must_use]
    pub fn target(&self) -> Bitrate {
        if self.settings.adaptive {
            self.congestion.target()
        } else {
            self.settings.range.max
        }
    }

    /// When a frame is due although nothing moves, because a picture is broken or somebody waits.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let key_frame = self.key_frames.due(self.hold_off());
        let repairable = match self.refreshes() {
            true => self.intra_refresh.needs_frames(),
            false => {
                self.references.is_broken() && self.references.newest_sound(self.depth).is_some()
            }
        };
        // What moves brings the next frame by itself. One more between two of them, above all a key
        // frame, is more than a link of twice the mean rate takes.
        let still = self.last_coded.map(|at| at + self.interval() * 2);
        let key_frame = key_frame.map(|at| still.map_or(at, |still| at.max(still)));
        let repair = still.filter(|_| repairable);
        key_frame.into_iter().chain(repair).min()
    }

    /// Until when a new frame is held back for the link's queue to drain.
    pub fn held_until(&mut self, now: Instant) -> Option<Instant> {
        let change = self.congestion.quiet(now, self.round_trip);
        self.rate_changed(change);
        let held = self
            .congestion
            .held_until(now)
            .filter(|_| self.settings.adaptive);
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

    /// What frame `frame` is to be. It is taken for begun: a wish that comes from now on is for
    /// another one.
    pub fn next(&mut self, now: Instant, frame: FrameId) -> NextFrame {
        if self.depth == 0 {
            // Whatever was wished for, this frame fulfils.
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
        // Within the hold-off of a key frame that was lost too, whatever is sent is tainted.
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

    /// The frame that was begun begins an intra refresh, which is through so many frames later.
    pub fn refresh_began(&mut self, frame: FrameId, clean_after: u16) {
        self.intra_refresh.start(frame, clean_after);
    }

    /// The frame that was begun left: `bytes` to the player, if there is one, all headers
    /// included.
    pub fn sent(&mut self, now: Instant, frame: FrameId, bytes: Option<u32>) {
        self.last_coded = Some(now);
        if let Some(bytes) = bytes {
            self.congestion.sent(now, frame, bytes);
        }
    }

    /// The frame that was begun did not reach the link for the player.
    pub fn unsent(&mut self, frame: FrameId) {
        self.references.broken(frame);
        self.intra_refresh.lose(frame);
    }

    /// The frame that was begun was not coded: a key frame must follow.
    pub fn failed(&mut self) {
        self.references.forget();
        self.key_frames.failed();
    }
}

/// Bytes of a frame's datagrams with their transport headers, but not of its parity, which is as
/// long as its longest datagrams.
fn data_bytes(left: &Departure) -> u32 {
    let data = left.datagrams.saturating_sub(left.parity);
    let full = u32::try_from(MAX_DATAGRAM).unwrap_or(u32::MAX);
    let parity = left.parity.saturating_mul(full).min(left.bytes / 2);
    left.bytes - parity + data * TRANSPORT_HEADERS
}
