//! Congestion control from the delay and loss of each frame: fast decrease, slow increase.
//!
//! A growing queue is visible in the report of the first frame that waited in it, long before a loss. While the queue
//! is not empty, the spread of a frame's datagrams at the receiver gives the link's capacity. If a link slows down, the
//! target is therefore below its capacity after one round trip and two frames. New frames are skipped while the queue
//! drains. Without a queue, the target rises, and it rises faster when the frames' spread shows spare capacity.
//!
//! Lateness alone proves nothing about the link, because a machine may have been busy. Late frames therefore decrease
//! the rate only if the link spread the datagrams of a frame, or spread the late frames, or lost datagrams. The assumed
//! capacity is never below the rate at which the late frames arrived. A decrease is reverted if later frames contradict
//! it.
//!
//! Marks of an L4S queue show congestion before a delay does (`scalable.rs`). While marks arrive, they determine the
//! rate, and the response to delay remains a safeguard.
//!
//! The module does not choose quantisers (see [`rate`](super::rate)). Radio links lose datagrams without being full,
//! and FEC repairs these losses. Therefore, a loss counts as congestion only if it is heavy, or if the path has a
//! marking queue.

mod delivered;
mod marks;
mod range;
mod scalable;
mod tentative;

use std::collections::VecDeque;
use std::time::Duration;

pub use crate::control_event::RateChange;
use crate::ecn::EcnCounts;
use crate::id::FrameId;
use crate::time::{Instant, PeerInstant};
use crate::units::Bitrate;
use delivered::Delivered;
pub use range::Range;
use scalable::{CLASSIC, Scalable};
use tentative::{OnTime, TentativeDecrease};

/// A frame's transit over the link, from the client's report and the host's records.
#[derive(Clone, Copy, Debug)]
pub struct FrameTransit {
    /// The frame.
    pub frame: FrameId,
    /// Bytes of its data datagrams (without FEC repair), including transport headers: the bytes that must arrive before
    /// it is recoverable.
    pub bytes: u32,
    /// The number of its data datagrams.
    pub data: u32,
    /// Earliest send time of its first datagram, and latest send time of its last datagram (host clock).
    pub sent: (Instant, Instant),
    /// Arrival of its first datagram (client clock); `None` if none arrived. Without kernel timestamps, it is the time of
    /// processing.
    pub first: Option<PeerInstant>,
    /// When the frame was recoverable; `None` if it never was.
    pub recoverable: Option<PeerInstant>,
    /// Datagrams received and lost since the previous report.
    pub datagrams: (u16, u16),
    /// Counts of the ECN fields of datagrams that were sent with ECT(1), since the previous report; `None` without L4S.
    pub ecn: Option<EcnCounts>,
}

/// A frame is late if its delay exceeds that of the empty link by more than this and by more than a frame interval. A
/// narrow link may need almost a frame interval for one frame, and still be idle again when the next frame is sent.
const LATE: Duration = Duration::from_millis(10);
/// Number of consecutive late frames that prove congestion if the link spread them. A pause between two datagrams of a
/// single frame is not enough.
const SPREAD_FRAMES: u32 = 2;
/// Minimum excess of a frame's spread over its sending time. A machine adds up to this time between two datagrams that
/// arrive together (guess). A full link of 10 Mb/s adds the same time for each datagram.
const LEAST_SPREAD: Duration = Duration::from_millis(1);
/// Queueing delay of a frame above which a drain starts, even if the target stays.
const VERY_LATE: Duration = Duration::from_millis(60);
/// Number of consecutive late frames that a brief stall does not explain. If all of them are late by the same amount,
/// although the link has spare capacity or the target was lowered, the path has become longer.
const PLATEAU_FRAMES: usize = 8;
/// Minimum time from the arrival of the first of the consecutive late frames to that of the last. After a stall of a
/// machine or link, all of them arrive at once.
const MIN_PLATEAU: Duration = Duration::from_millis(60);
/// Minimum interval between stall events.
const STALL_EVENT_INTERVAL: Duration = Duration::from_secs(5);
/// Share of the measured capacity that becomes the target; the rest drains the queue. With 0.8, a tenth of the frames
/// wait longer than 20 ms on the links of `crates/sim/tests/adaptive/narrow.rs`; with this value, fewer do.
const BELOW_CAPACITY: f64 = 0.75;
/// Minimum factor of one decrease (guess). It limits the decrease, because a brief disturbance of a radio link may also
/// spread two frames.
const LARGEST_CUT: f64 = 0.25;
/// Decrease factor without reports.
const SILENT_CUT: f64 = 0.5;
/// Loss above this is congestion. Google's congestion control uses a tenth (draft-ietf-rmcat-gcc-02, section 6). In
/// measurements with a loss of a tenth, FEC still repairs every frame.
const HEAVY_LOSS: f64 = 0.15;
/// Loss above this is congestion on a path with a marking L4S queue, because such a queue drops only when it is
/// overloaded. Google's congestion control ignores a loss below this value (draft-ietf-rmcat-gcc-02, section 6).
const MARKING_LOSS: f64 = 0.02;
/// As [`LOSS_CONFIDENCE`], for [`MARKING_LOSS`]: 2.5 · √(0.02 · 0.98).
const MARKING_LOSS_CONFIDENCE: f64 = 0.35;
/// Minimum datagrams of a loss sample.
const LOSS_SAMPLE: u32 = 200;
/// Maximum datagrams of a loss sample: a second of 10 Mb/s.
const LOSS_MEMORY: u32 = 1000;
/// Required excess of a measured loss over [`HEAVY_LOSS`], times √n for n datagrams: 2.5 standard deviations at the
/// threshold, √(0.15 · 0.85) each. Over 200 datagrams, a link with 10 % loss exceeds 15 % in one of a hundred samples,
/// and there are seven samples a second. With this margin, it exceeds the limit less than once an hour.
const LOSS_CONFIDENCE: f64 = 0.9;
/// Interval of increases.
const CLIMB_EVERY: Duration = Duration::from_millis(250);
/// Normal increase per step (8 to 20 Mb/s in four seconds).
const CLIMB: f64 = 1.06;
/// Increase if the frames since the last step crossed the link faster than the target by the factor [`ROOM`], which is
/// impossible on a full link.
const CLIMB_FREE: f64 = 1.15;
const ROOM: f64 = 1.5;
/// Increase near the rate at which the link was last full.
const CLIMB_CAREFUL: f64 = 1.01;
/// While the capacity of a full link is remembered, the target increases only up to this share of it. The rest is for
/// frames that are larger than the mean. The limit does not apply if frames cross the link faster than the capacity by
/// the factor [`WIDER`], or if the capacity was measured over several frames.
const HELD: f64 = 0.85;
const WIDER: f64 = 1.1;
/// A rate counts as near the rate at which the link was last full if it is between these multiples of that rate.
const NEAR: (f64, f64) = (0.85, 1.15);
/// Time for which the rate of a full link is remembered.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Window for the empty link's delay, in seconds. Clocks drift apart by 1 ms in this time.
const BASE_WINDOW: i64 = 10;
/// Maximum interval between frames while frames are skipped, so that the picture does not freeze.
const MAX_SKIP: Duration = Duration::from_millis(100);
/// New frames are skipped while the queue is longer than this.
const DRAINED: Duration = Duration::from_millis(20);
/// Maximum excess of the sent data over the target rate on a recently full link, as transmission time. It is enough for
/// a key frame or a scene change. If frames exceed it even with the coarsest quantiser, some are skipped.
const OVERDRAWN: Duration = Duration::from_millis(100);
/// Time for which a link counts as recently full. Afterwards, the excess is not limited: FEC repair alone may cause
/// more, which is harmless on a link with spare capacity.
const RECENTLY_FULL: Duration = Duration::from_secs(5);
/// Time without a report, in addition to two round trips, after which the link counts as full.
const SILENT: Duration = Duration::from_millis(300);
/// Maximum unreported frames in flight.
const KEPT: usize = 256;

/// Congestion control for the player's link.
#[derive(Clone, Debug)]
pub struct Congestion {
    range: Range,
    interval: Duration,
    round_trip: Duration,
    target: f64,
    /// The shortest delay in each second of the host clock. The delays contain the clock offset, so only their
    /// differences are meaningful.
    bases: VecDeque<(i64, i64)>,
    /// Unreported frames: send time and bytes.
    in_flight: VecDeque<(FrameId, Instant, u32)>,
    late: u32,
    /// Number of consecutive late frames that the link spread. `delivered` covers all consecutive late frames.
    spread: u32,
    delivered: Delivered,
    /// The newest decrease while it can be reverted. `taken_back` is the time of the last revert.
    tentative: Option<TentativeDecrease>,
    taken_back: Option<Instant>,
    paused: Option<Instant>,
    /// First-datagram delays of the consecutive late frames sent after `eased`, at most [`PLATEAU_FRAMES`].
    level: VecDeque<i64>,
    /// The newest frame at the last decrease; `None` as soon as a later frame is on time.
    eased: Option<FrameId>,
    last_wait: Duration,
    /// The newest frame at the last path change. Earlier frames took the old path.
    moved_at: FrameId,
    /// The newest frame when the target last decreased or a drain last started. Reports on earlier frames describe the
    /// link before that time.
    cut_at: FrameId,
    /// The newest frame at the last decrease because of a queue, a loss or missing reports.
    lowered_at: FrameId,
    newest: FrameId,
    capacity: Option<(f64, Instant)>,
    /// Whether the capacity was measured over several frames, not from the spread of one frame.
    counted: bool,
    /// Bits of the frames since the last increase, and the duration of their spread in seconds.
    crossed: (f64, f64),
    next_climb: Option<Instant>,
    draining: bool,
    /// When all sent data would have been transmitted at the target rate.
    paid_at: Instant,
    last_sent: Option<Instant>,
    last_report: Option<Instant>,
    lost: (u32, u32),
    climbing: bool,
    scalable: Scalable,
    /// The pacing rate in bits per second, as the marks determine it; 0 before the first mark.
    pace: f64,
}

impl Congestion {
    /// Creates the state for a link without measurements and a frame every `interval`.
    #[must_use]
    pub fn new(range: Range, interval: Duration) -> Congestion {
        Congestion {
            range,
            interval,
            round_trip: Duration::ZERO,
            target: range.start.0.clamp(range.min.0, range.max.0) as f64,
            bases: VecDeque::new(),
            in_flight: VecDeque::new(),
            late: 0,
            spread: 0,
            delivered: Delivered::default(),
            tentative: None,
            taken_back: None,
            paused: None,
            level: VecDeque::with_capacity(PLATEAU_FRAMES),
            eased: None,
            last_wait: Duration::ZERO,
            moved_at: FrameId::NONE,
            cut_at: FrameId::NONE,
            lowered_at: FrameId::NONE,
            newest: FrameId::NONE,
            capacity: None,
            counted: false,
            crossed: (0.0, 0.0),
            next_climb: None,
            draining: false,
            paid_at: Instant(i64::MIN),
            last_sent: None,
            last_report: None,
            lost: (0, 0),
            climbing: false,
            scalable: Scalable::default(),
            pace: 0.0,
        }
    }

    /// The target rate, including all headers.
    #[must_use]
    pub fn target(&self) -> Bitrate {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "> 0"
        )]
        let target = self.target as u64;
        Bitrate(target)
    }

    /// The link's capacity, if the link was recently full and the target is less than 15 % above this capacity.
    #[must_use]
    pub fn capacity(&self) -> Option<Bitrate> {
        let full = self.capacity.map(|(full, _)| full);
        let full = full.filter(|full| self.target < full * NEAR.1)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "> 0"
        )]
        let full = full as u64;
        Some(Bitrate(full))
    }

    /// Whether no frame has been sent to the player, so that nothing is known about the link.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.last_sent.is_none()
    }

    /// Records a frame that was sent to the player.
    pub fn sent(&mut self, now: Instant, frame: FrameId, bytes: u32) {
        if self.in_flight.len() == KEPT {
            self.in_flight.pop_front();
        }
        self.in_flight.push_back((frame, now, bytes));
        self.newest = frame;
        let takes = Duration::from_secs_f64((f64::from(bytes) * 8.0 / self.target).min(10.0));
        // An idle link accumulates no credit.
        let before = match self.capacity {
            Some(_) => self.paid_at.max(now),
            None => now,
        };
        self.paid_at = before + takes;
        self.last_sent = Some(now);
        self.last_report.get_or_insert(now);
    }

    /// The time until which new frames are skipped, because earlier frames still wait in the link's queue, or exceeded
    /// the target rate on a link that was recently full.
    #[must_use]
    pub fn held_until(&self, now: Instant) -> Option<Instant> {
        let (capacity, full_at) = self.capacity?;
        let queued = match self.draining {
            true => self.backlog(capacity).saturating_sub(DRAINED),
            false => Duration::ZERO,
        };
        // At the maximum rate, no frame is skipped because of an excess. A fixed rate is always at its maximum.
        let reduced = self.target < self.range.max.0 as f64;
        let overdrawn = match reduced && now < full_at + RECENTLY_FULL {
            true => self.paid_at.since(now).saturating_sub(OVERDRAWN),
            false => Duration::ZERO,
        };
        let until = now + queued.max(overdrawn);
        let at_most = self.last_sent? + MAX_SKIP;
        Some(until.min(at_most)).filter(|until| *until > now)
    }

    /// The time until the link's queue is empty. The queue is the data in flight minus the data of one round trip.
    fn backlog(&self, capacity: f64) -> Duration {
        let bytes: u64 = self.in_flight.iter().map(|(.., b)| u64::from(*b)).sum();
        let all = Duration::from_secs_f64((bytes as f64 * 8.0 / capacity.max(1.0)).min(10.0));
        all.saturating_sub(self.round_trip)
    }

    /// Resets delays and capacity because the player's path changed. The target stays, as the best estimate.
    pub fn path_changed(&mut self) {
        self.bases.clear();
        self.on_time();
        self.last_wait = Duration::ZERO;
        self.moved_at = self.newest;
        self.capacity = None;
        self.draining = false;
        self.tentative = None;
        self.crossed = (0.0, 0.0);
        self.scalable = Scalable::default();
        self.pace = 0.0;
    }

    /// Handles a frame on which the ledger gave up because no report arrived. This call does not count as a report.
    pub fn unreported(&mut self, frame: FrameId) {
        self.in_flight.retain(|(f, ..)| *f > frame);
    }

    /// Handles the client's report on a frame.
    pub fn on_report(&mut self, now: Instant, transit: &FrameTransit) -> Option<RateChange> {
        self.last_report = Some(now);
        self.in_flight.retain(|(frame, ..)| *frame > transit.frame);
        if !self.draining && self.capacity.is_some_and(|(_, at)| now > at + REMEMBERED) {
            self.capacity = None;
        }
        if transit.frame > self.lowered_at {
            let (arrived, missing) = transit.datagrams;
            self.lost.0 += u32::from(missing);
            self.lost.1 += u32::from(arrived) + u32::from(missing);
        }
        if self.draining && self.capacity.is_none_or(|(c, _)| self.backlog(c) < DRAINED) {
            self.draining = false;
        }
        let first = transit.first.filter(|_| transit.frame > self.moved_at);
        let queue = first.and_then(|first| self.waited(now, transit, first));
        if let Some(RateChange::Queue { .. }) = queue {
            self.scalable.note_cut(self.newest, now + self.round_trip);
        }
        let marks = self.respond_to_marks(now, transit, first);
        queue
            .or(marks)
            .or_else(|| self.heavy_loss(now))
            .or_else(|| self.take_back(now, transit))
            .or_else(|| self.climb(now))
    }

    /// Evaluates a frame's delay.
    fn waited(
        &mut self,
        now: Instant,
        transit: &FrameTransit,
        first: PeerInstant,
    ) -> Option<RateChange> {
        // Only the first datagram measures the empty link. The recorded send time of the last datagram may be later
        // than its arrival, if the decoder has a higher priority than the encoder. An incomplete frame has no last
        // datagram, so its first datagram measures the queueing delay, too.
        let empty = first.0.saturating_sub(transit.sent.0.0);
        let delay = match transit.recoverable {
            Some(last) => last.0.saturating_sub(transit.sent.1.0),
            None => empty,
        };
        let wait = self.above_base(now, empty, delay);
        let growing = wait >= self.last_wait;
        self.last_wait = wait;
        // A frame that crossed much faster than the target did not queue behind sent data.
        let crossed = self.crossed_with(transit, first);
        let slow = crossed.filter(|crossed| *crossed <= self.target * ROOM);
        self.note_late(transit, empty, wait, slow.is_some());
        if let Some(empty) = self.longer_path(crossed) {
            self.rebase(now, empty);
            return Some(RateChange::LongerPath { by: wait });
        }
        if self.late == 0 || transit.frame <= self.cut_at {
            return None;
        }
        let full = self.spread >= SPREAD_FRAMES && (growing || wait > VERY_LATE);
        let long = self.delivered.span() >= MIN_PLATEAU;
        let goes_on = self.level.len() == PLATEAU_FRAMES && long;
        let delivered = self.delivered.rate().filter(|_| full || goes_on);
        let measured = slow.filter(|_| full).into_iter().chain(delivered);
        let Some(capacity) = measured.max_by(f64::total_cmp) else {
            return self.pause(now, wait, crossed);
        };
        let to = (capacity * BELOW_CAPACITY).max(self.target * LARGEST_CUT);
        if to >= self.target {
            // A few large frames caused the queue. The rate is right, and only the queue must drain.
            if wait > VERY_LATE {
                self.fill(now, capacity);
            }
            return None;
        }
        let before = self.target;
        // Without a spread, later frames cannot contradict a decrease.
        let is_tentative = slow.is_some();
        if !self.cut(now, to, capacity) {
            return None;
        }
        self.counted = long;
        self.set_tentative(now, before, is_tentative.then_some(Some(capacity)));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "> 0"
        )]
        let capacity = Bitrate(capacity as u64);
        Some(RateChange::Queue {
            to: self.target(),
            waited: wait,
            capacity,
        })
    }

    /// Handles a late frame without evidence of a full link.
    fn pause(&mut self, now: Instant, wait: Duration, crossed: Option<f64>) -> Option<RateChange> {
        let is_reported = self
            .paused
            .is_some_and(|at| now < at + STALL_EVENT_INTERVAL);
        if is_reported || crossed.is_some() || wait <= self.interval.max(LATE) * 2 {
            return None;
        }
        self.paused = Some(now);
        Some(RateChange::Stall { by: wait })
    }

    /// Collects the common properties of consecutive late frames.
    fn note_late(&mut self, transit: &FrameTransit, empty: i64, wait: Duration, slow: bool) {
        if wait <= self.interval.max(LATE) {
            self.on_time();
            return;
        }
        self.late += 1;
        self.spread += u32::from(slow);
        let (arrived, missing) = transit.datagrams;
        if let Some(last) = transit.recoverable.or(transit.first) {
            let share = match transit.recoverable {
                Some(_) => 1.0,
                None => f64::from(arrived) / (f64::from(arrived) + f64::from(missing)).max(1.0),
            };
            let bits = f64::from(transit.bytes) * 8.0;
            self.delivered.note(last, bits * share);
        }
        let frame = transit.frame;
        if self.eased.is_none_or(|eased| frame > eased) {
            if self.level.len() == PLATEAU_FRAMES {
                self.level.pop_front();
            }
            self.level.push_back(empty);
        }
    }

    fn on_time(&mut self) {
        self.late = 0;
        self.spread = 0;
        self.delivered = Delivered::default();
        self.level.clear();
        self.eased = None;
    }

    /// The delay of the empty path, if the frames are late because the path became longer. In that case, all frames are
    /// late by the same amount, although the newest frame crossed the link as fast as an idle link permits (`crossed`),
    /// or the target has already been lowered. If a queue were the cause, the delay would have grown or shrunk.
    fn longer_path(&self, crossed: Option<f64>) -> Option<i64> {
        let within_limits = match crossed {
            Some(crossed) => crossed * BELOW_CAPACITY >= self.target,
            None => self.eased.is_some(),
        };
        // The length of a full queue is constant too, but a full queue overflows.
        let (missing, all) = self.lost;
        let overflows = f64::from(missing) > HEAVY_LOSS * f64::from(all);
        if !within_limits || overflows || self.level.len() < PLATEAU_FRAMES {
            return None;
        }
        // The minimum of each half excludes jitter.
        let before = *self.level.iter().take(PLATEAU_FRAMES / 2).min()?;
        let after = *self.level.iter().skip(PLATEAU_FRAMES / 2).min()?;
        let apart = Duration::from_nanos(before.abs_diff(after));
        (apart <= self.interval.max(LATE)).then_some(before.min(after))
    }

    /// Sets the empty link's delay to `empty`, and no longer assumes that the link is full.
    fn rebase(&mut self, now: Instant, empty: i64) {
        self.bases.clear();
        self.bases.push_back((second(now), empty));
        self.on_time();
        self.capacity = None;
        self.draining = false;
    }

    /// Records the decrease from `before` so that it can be reverted. `capacity` is the assumed capacity, or
    /// `Some(None)` if it is unknown. With `None`, the decrease is final. A decrease within [`REMEMBERED`] after a
    /// revert is final too.
    fn set_tentative(&mut self, now: Instant, before: f64, capacity: Option<Option<f64>>) {
        let lately = self.taken_back.is_some_and(|at| now < at + REMEMBERED);
        let first = self
            .tentative
            .map_or(before, |tentative| tentative.before().max(before));
        let capacity = capacity.filter(|_| !lately);
        self.tentative = capacity.map(|capacity| TentativeDecrease::new(first, capacity));
    }

    /// Reverts a decrease that later frames contradict.
    fn take_back(&mut self, now: Instant, transit: &FrameTransit) -> Option<RateChange> {
        let tentative = self.tentative.as_mut()?;
        if transit.frame <= self.lowered_at {
            return None;
        }
        let (Some(first), Some(last), 0) =
            (transit.first, transit.recoverable, transit.datagrams.1)
        else {
            tentative.on_bad_frame();
            return None;
        };
        if self.late > 0 {
            tentative.on_bad_frame();
            return None;
        }
        let spread = last.since(first);
        let frame = OnTime {
            bits: behind_first(transit),
            spread,
            spread_by_link: spread > sent_over(transit) + LEAST_SPREAD,
        };
        let wrong = tentative.on_time(&frame)?;
        let before = tentative.before();
        self.tentative = None;
        if !wrong || before <= self.target {
            return None;
        }
        self.taken_back = Some(now);
        self.capacity = None;
        self.draining = false;
        self.climbing = false;
        self.crossed = (0.0, 0.0);
        self.target = before.min(self.range.max.0 as f64);
        Some(RateChange::Reverted { to: self.target() })
    }

    /// The rate at which the link carried a frame, in bits a second; `None` if unknown.
    fn crossed_with(&mut self, transit: &FrameTransit, first: PeerInstant) -> Option<f64> {
        let (arrived, missing) = transit.datagrams;
        let Some(last) = transit.recoverable else {
            // The data was sent at the target rate, and the link passed on the arrived share of it.
            let all = f64::from(arrived) + f64::from(missing);
            return (missing > 0).then(|| self.target * f64::from(arrived) / all);
        };
        let spread = last.since(first).max(Duration::from_micros(50));
        let bits = behind_first(transit);
        self.crossed.0 += bits;
        self.crossed.1 += spread.as_secs_f64();
        // Only a link that is slower than the sender spreads a frame. Otherwise, the link kept up, or it delivered
        // everything at once after a stall.
        let by_link = bits > 0.0 && spread > sent_over(transit) + LEAST_SPREAD;
        by_link.then(|| bits / spread.as_secs_f64())
    }

    /// The excess of `delay` over the shortest recent delay of the empty link, including `empty`.
    fn above_base(&mut self, now: Instant, empty: i64, delay: i64) -> Duration {
        let second = second(now);
        match self.bases.back_mut() {
            Some((at, base)) if *at == second => *base = empty.min(*base),
            _ => self.bases.push_back((second, empty)),
        }
        while self
            .bases
            .front()
            .is_some_and(|(at, _)| *at <= second - BASE_WINDOW)
        {
            self.bases.pop_front();
        }
        let above = delay.saturating_sub(self.base().unwrap_or(delay));
        Duration::from_nanos(u64::try_from(above).unwrap_or(0))
    }

    /// The shortest recent delay of the empty link, with the offset between the clocks.
    fn base(&self) -> Option<i64> {
        self.bases.iter().map(|(_, base)| *base).min()
    }

    /// Starts a drain because the link is full.
    fn fill(&mut self, now: Instant, capacity: f64) {
        self.capacity = Some((capacity.max(self.range.min.0 as f64), now));
        self.cut_at = self.newest;
        self.draining = true;
    }

    /// Lowers the target and starts a drain. Returns whether the target became lower.
    fn cut(&mut self, now: Instant, to: f64, capacity: f64) -> bool {
        let to = to.clamp(self.range.min.0 as f64, self.range.max.0 as f64);
        let before = std::mem::replace(&mut self.target, to);
        self.fill(now, capacity);
        self.climbing = false;
        self.next_climb = Some(now + CLIMB_EVERY * 2);
        self.crossed = (0.0, 0.0);
        self.on_time();
        self.eased = Some(self.newest);
        self.lowered_at = self.newest;
        self.lost = (0, 0);
        to < before
    }

    fn heavy_loss(&mut self, now: Instant) -> Option<RateChange> {
        let (missing, all) = self.lost;
        if all < LOSS_SAMPLE {
            return None;
        }
        if all >= LOSS_MEMORY {
            self.lost = (0, 0);
        }
        let lost = f64::from(missing) / f64::from(all);
        let marks = self.scalable.is_active(now);
        let (limit, confidence) = match marks {
            true => (MARKING_LOSS, MARKING_LOSS_CONFIDENCE),
            false => (HEAVY_LOSS, LOSS_CONFIDENCE),
        };
        if lost <= limit + confidence / f64::from(all).sqrt() {
            return None;
        }
        // The target decreases by half of the loss, as in draft-ietf-rmcat-gcc-02. On a path with a marking queue, it
        // decreases at least as much as the rate of a classic sender would. If the loss persists, the target decreases
        // again.
        let most = if marks { CLASSIC } else { 1.0 };
        let to = self.target * (1.0 - lost / 2.0).min(most);
        let lower = self.cut(now, to, to);
        self.draining = false;
        self.tentative = None;
        lower.then_some(RateChange::Loss {
            to: self.target(),
            lost,
        })
    }

    fn climb(&mut self, now: Instant) -> Option<RateChange> {
        let max = self.range.max.0 as f64;
        if self.target >= max || self.late > 0 || self.draining || self.scalable.is_active(now) {
            return None;
        }
        let due = *self.next_climb.get_or_insert(now + CLIMB_EVERY);
        if now < due {
            return None;
        }
        self.next_climb = Some(now + CLIMB_EVERY);
        let near = self
            .capacity
            .is_some_and(|(full, _)| (full * NEAR.0..full * NEAR.1).contains(&self.target));
        let (bits, seconds) = std::mem::take(&mut self.crossed);
        // On a link that delivers in bursts, each frame looks fast.
        let bursts = near && self.counted;
        let room = bits > self.target * ROOM * seconds && !bursts;
        let factor = match (room, near) {
            (true, _) => CLIMB_FREE,
            (false, true) => CLIMB_CAREFUL,
            (false, false) => CLIMB,
        };
        let unchanged = |full: &f64| bits < full * WIDER * seconds && !room && !self.counted;
        let held = self.capacity.map(|(full, _)| full).filter(unchanged);
        let most = held.map_or(max, |full| max.min(full * HELD));
        let raised = (self.target * factor).min(most);
        if raised <= self.target {
            return None;
        }
        self.target = raised;
        let to = self.target();
        if self.target >= max {
            self.climbing = false;
            return Some(RateChange::Maximum { to });
        }
        let news = !std::mem::replace(&mut self.climbing, true);
        news.then_some(RateChange::Increase { to })
    }

    /// Checks for missing reports. Call it before each frame.
    pub fn quiet(&mut self, now: Instant, round_trip: Duration) -> Option<RateChange> {
        self.round_trip = round_trip;
        let last = self.last_report?;
        let oldest = self.in_flight.front().map(|(_, at, _)| *at)?;
        let since = now.since(last.max(oldest));
        if since < SILENT + round_trip * 2 {
            return None;
        }
        self.last_report = Some(now);
        let to = self.target * SILENT_CUT;
        if self.target <= self.range.min.0 as f64 {
            return None;
        }
        let before = self.target;
        self.cut(now, to, to);
        // The drain of a dead link cannot be observed.
        self.draining = false;
        self.set_tentative(now, before, Some(None));
        Some(RateChange::Silence { to: self.target() })
    }
}

/// Bits of a frame after its first datagram, because the spread does not contain that datagram's time.
fn behind_first(transit: &FrameTransit) -> f64 {
    let data = f64::from(transit.data.max(1));
    f64::from(transit.bytes) * 8.0 * (data - 1.0) / data
}

/// The duration of sending.
fn sent_over(transit: &FrameTransit) -> Duration {
    transit.sent.1.since(transit.sent.0)
}

/// The second of the host clock that contains `now`.
fn second(now: Instant) -> i64 {
    now.0.div_euclid(1_000_000_000)
}

#[cfg(test)]
mod tests;
