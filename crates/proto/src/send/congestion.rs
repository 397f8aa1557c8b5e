//! How much the link carries, from the delay and the loss of each frame: quick down, slow up.
//!
//! A queue that grows shows in the client's report of the first frame that waited in it, long
//! before anything is lost. How far a frame's datagrams were spread out on the way says what the
//! link carries; while its queue is not empty that is its rate. So one round trip and two frames
//! after a link became slower, the target is below what it carries now, and new frames are held
//! back while the queue drains. A link without a queue is climbed again, faster when the spread of
//! the frames says that there is room.
//!
//! A frame that is only late says nothing of the link: a machine may have been busy. So nothing is cut
//! without a loss or a spread, be it between the datagrams of a frame or between late frames, and
//! never below what the link delivered meanwhile. A cut that the next frames contradict is taken back.
//!
//! What it is not: it chooses no quantiser (that is [`rate`](super::rate)), and loss alone is not
//! congestion to it unless it is heavy: radio links lose without being full, and parity is made
//! for that.

mod delivered;
mod doubt;
mod range;

use std::collections::VecDeque;
use std::time::Duration;

pub use crate::control_event::RateChange;
use crate::id::FrameId;
use crate::time::{Instant, PeerInstant};
use crate::units::Bitrate;
use delivered::Delivered;
use doubt::{Doubt, OnTime};
pub use range::Range;

/// A frame's way over the link, from the client's report and the host's books.
#[derive(Clone, Copy, Debug)]
pub struct FrameTransit {
    /// The frame.
    pub frame: FrameId,
    /// Bytes of its datagrams but for parity, transport headers included: what had to arrive until
    /// it was recoverable.
    pub bytes: u32,
    /// How many datagrams these were in.
    pub data: u32,
    /// When its first datagram left at the earliest and its last one at the latest, on the host's clock.
    pub sent: (Instant, Instant),
    /// When the first arrived, on the client's clock; `None` if none did. A client that does not know
    /// when its machine received it says when it looked.
    pub first: Option<PeerInstant>,
    /// When enough had arrived for the whole frame; `None` if that never was.
    pub recoverable: Option<PeerInstant>,
    /// Datagrams that arrived and that did not, since the report before.
    pub datagrams: (u16, u16),
}

/// A frame that took longer than this, or than a frame's interval, beyond the empty link's delay is
/// late: a narrow link takes that long for the frame alone, and the next finds it free again.
const LATE: Duration = Duration::from_millis(10);
/// So many of the late frames in a row must have been spread on the way: one may have met a pause between two
/// of its datagrams.
const SPREAD_FRAMES: u32 = 2;
/// A spread that is less than this beyond how the frame was sent tells nothing: what machines add between
/// two datagrams that arrive together (guess; a full link of 10 Mb/s adds as much for each).
const LEAST_SPREAD: Duration = Duration::from_millis(1);
/// Frames that waited this long have to drain, also if the target needs not change.
const VERY_LATE: Duration = Duration::from_millis(60);
/// So many frames in a row that were late, and fast, are more than a hiccup. If they were late all
/// by the same, though the link has room or less was sent, the path has become longer.
const STANDSTILL: usize = 8;
/// … and arrived over this long: what a machine or a link held back for a while arrives at one moment. Longer
/// than the pauses that machines are tested with, 0.1 s.
const STANDSTILL_TAKES: Duration = Duration::from_millis(60);
/// A pause is told of no more often than this.
const PAUSES_TOLD: Duration = Duration::from_secs(5);
/// The share of the measured capacity that becomes the target: the rest drains the queue. With 0.8 a tenth
/// of the frames waits longer than 20 ms on the links of `crates/lab/tests/narrow.rs`, with this less.
const BELOW_CAPACITY: f64 = 0.75;
/// A single cut goes down to a quarter at most (guess): two frames' spread may be a hiccup of the radio.
const LARGEST_CUT: f64 = 0.25;
/// Where nothing is heard, each cut halves.
const SILENT_CUT: f64 = 0.5;
/// Loss beyond this is congestion. Google's congestion control draws the line at a tenth
/// (draft-ietf-rmcat-gcc-02, section 6); measured at a tenth, parity still brings every frame.
const HEAVY_LOSS: f64 = 0.15;
/// Loss is judged over so many datagrams at least, …
const LOSS_SAMPLE: u32 = 200;
/// … and over so many at most: a second of 10 Mb/s.
const LOSS_MEMORY: u32 = 1000;
/// How far beyond the line a share must be that was counted over n datagrams, times √n: 2.5 standard
/// deviations at the line, √(0.15 · 0.85) each. A link that loses a tenth looks like more than 15 % over
/// 200 datagrams once in a hundred times, seven times a second; beyond this, less than once in an hour.
const LOSS_DOUBT: f64 = 0.9;
/// The target climbs this often …
const CLIMB_EVERY: Duration = Duration::from_millis(250);
/// … by this factor (8 to 20 Mb/s in four seconds), …
const CLIMB: f64 = 1.06;
/// … by this one if the frames since the last step crossed this much faster than the target (on a
/// full link they can't), …
const CLIMB_FREE: f64 = 1.15;
const ROOM: f64 = 1.5;
/// … and by this one near the rate at which the link was last full.
const CLIMB_CAREFUL: f64 = 1.01;
/// What is near that rate, and how long it is remembered.
const NEAR: (f64, f64) = (0.85, 1.15);
const REMEMBERED: Duration = Duration::from_secs(10);
/// The shortest delay of this long is the empty link's: clocks drift apart by 1 ms in it.
const BASE_WINDOW: i64 = 10;
/// While the queue drains, a frame still leaves this often, so that nothing looks frozen.
const HELD_AT_MOST: Duration = Duration::from_millis(100);
/// New frames are held back while more than this is in the queue.
const DRAINED: Duration = Duration::from_millis(20);
/// On a link that was full of late, frames may take so much more than the target (a key frame, a
/// picture that changes at once); where even the coarsest quantiser takes more, some are left out.
const OVERDRAWN: Duration = Duration::from_millis(100);
/// … while it was found to be full no longer ago than this: parity alone may take more, and harms
/// nobody on a link that has room.
const FULL_LATELY: Duration = Duration::from_secs(5);
/// Without a report for this long and two round trips, the link is taken for full.
const SILENT: Duration = Duration::from_millis(300);
/// Frames that may be on their way without a report.
const KEPT: usize = 256;

/// Follows the link of the player.
#[derive(Clone, Debug)]
pub struct Congestion {
    range: Range,
    interval: Duration,
    round_trip: Duration,
    target: f64,
    /// The shortest delays by second of our clock: the difference of two clocks, so only
    /// differences of it mean something.
    bases: VecDeque<(i64, i64)>,
    /// Frames that left and were not reported on: when, and their bytes.
    under_way: VecDeque<(FrameId, Instant, u32)>,
    late: u32,
    /// Those of the late frames in a row that the link spread, and what it delivered of all.
    spread: u32,
    delivered: Delivered,
    /// The newest cut, as long as it may turn out to be wrong; and when one did.
    doubt: Option<Doubt>,
    taken_back: Option<Instant>,
    paused: Option<Instant>,
    /// Delays of the first datagrams of the late frames in a row that left after `eased`, the
    /// newest [`STANDSTILL`] of them.
    level: VecDeque<i64>,
    /// The newest frame when the target was last cut, if all that came since was late.
    eased: Option<FrameId>,
    last_wait: Duration,
    /// The newest frame when the path changed: earlier ones took another.
    moved_at: FrameId,
    /// The newest frame when the target was last cut: earlier ones tell of the time before.
    cut_at: FrameId,
    /// The same, but for the times when only the queue was found to be full.
    lowered_at: FrameId,
    newest: FrameId,
    capacity: Option<(f64, Instant)>,
    /// It was counted over several frames, not seen from the spread of one.
    counted: bool,
    /// Bits of the frames since the last climb, and the seconds over which they were spread.
    crossed: (f64, f64),
    next_climb: Option<Instant>,
    draining: bool,
    /// When what was sent until now would have left at the target.
    paid_at: Instant,
    last_sent: Option<Instant>,
    last_heard: Option<Instant>,
    lost: (u32, u32),
    climbing: bool,
}

impl Congestion {
    /// Follows a link of which nothing is known, for frames that come each `interval`.
    #[must_use]
    pub fn new(range: Range, interval: Duration) -> Congestion {
        Congestion {
            range,
            interval,
            round_trip: Duration::ZERO,
            target: range.start.0.clamp(range.min.0, range.max.0) as f64,
            bases: VecDeque::new(),
            under_way: VecDeque::new(),
            late: 0,
            spread: 0,
            delivered: Delivered::default(),
            doubt: None,
            taken_back: None,
            paused: None,
            level: VecDeque::with_capacity(STANDSTILL),
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
            last_heard: None,
            lost: (0, 0),
            climbing: false,
        }
    }

    /// What may be sent now, all headers included.
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

    /// What the link carries, if it was full of late and the target has not climbed past that.
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

    /// A frame left for the player.
    pub fn sent(&mut self, now: Instant, frame: FrameId, bytes: u32) {
        if self.under_way.len() == KEPT {
            self.under_way.pop_front();
        }
        self.under_way.push_back((frame, now, bytes));
        self.newest = frame;
        let takes = Duration::from_secs_f64((f64::from(bytes) * 8.0 / self.target).min(10.0));
        // What a link with room took is not owed to it.
        let before = match self.capacity {
            Some(_) => self.paid_at.max(now),
            None => now,
        };
        self.paid_at = before + takes;
        self.last_sent = Some(now);
        self.last_heard.get_or_insert(now);
    }

    /// Until when a new frame is held back, because what left before still waits in the link's
    /// queue, or was more than a full link carries.
    #[must_use]
    pub fn held_until(&self, now: Instant) -> Option<Instant> {
        let (capacity, full_at) = self.capacity?;
        let queued = match self.draining {
            true => self.backlog(capacity).saturating_sub(DRAINED),
            false => Duration::ZERO,
        };
        // A stream that may not take less anyway goes on as it is.
        let reduced = self.target < self.range.max.0 as f64;
        let overdrawn = match reduced && now < full_at + FULL_LATELY {
            true => self.paid_at.since(now).saturating_sub(OVERDRAWN),
            false => Duration::ZERO,
        };
        let until = now + queued.max(overdrawn);
        let at_most = self.last_sent? + HELD_AT_MOST;
        Some(until.min(at_most)).filter(|until| *until > now)
    }

    /// How long the link needs for what waits in its queue: what is under way, but for what it
    /// carries in a round trip anyway.
    fn backlog(&self, capacity: f64) -> Duration {
        let bytes: u64 = self.under_way.iter().map(|(.., b)| u64::from(*b)).sum();
        let all = Duration::from_secs_f64((bytes as f64 * 8.0 / capacity.max(1.0)).min(10.0));
        all.saturating_sub(self.round_trip)
    }

    /// The player's datagrams take another path from now on: what was learnt of delays and of a full
    /// link is not true of it. The target is, as far as is known.
    pub fn path_changed(&mut self) {
        self.bases.clear();
        self.on_time();
        self.last_wait = Duration::ZERO;
        self.moved_at = self.newest;
        self.capacity = None;
        self.draining = false;
        self.doubt = None;
        self.crossed = (0.0, 0.0);
    }

    /// The client will not report on a frame any more, and has said nothing by that.
    pub fn unreported(&mut self, frame: FrameId) {
        self.under_way.retain(|(f, ..)| *f > frame);
    }

    /// The client reported on a frame.
    pub fn on_report(&mut self, now: Instant, transit: &FrameTransit) -> Option<RateChange> {
        self.last_heard = Some(now);
        self.under_way.retain(|(frame, ..)| *frame > transit.frame);
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
        queue
            .or_else(|| self.heavy_loss(now))
            .or_else(|| self.take_back(now, transit))
            .or_else(|| self.climb(now))
    }

    /// What a frame's delay says.
    fn waited(
        &mut self,
        now: Instant,
        transit: &FrameTransit,
        first: PeerInstant,
    ) -> Option<RateChange> {
        // The first datagram alone says how long an empty link takes: behind it, a decoder that is
        // more urgent than the encoder can make the last one look as if it had left after it
        // arrived. Of a frame that lost something, it also says how long the frame waited.
        let empty = first.0.saturating_sub(transit.sent.0.0);
        let delay = match transit.recoverable {
            Some(last) => last.0.saturating_sub(transit.sent.1.0),
            None => empty,
        };
        let wait = self.above_base(now, empty, delay);
        let growing = wait >= self.last_wait;
        self.last_wait = wait;
        // What crossed much faster than we send did not wait behind what we sent.
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
        let long = self.delivered.span() >= STANDSTILL_TAKES;
        let goes_on = self.level.len() == STANDSTILL && long;
        let delivered = self.delivered.rate().filter(|_| full || goes_on);
        let measured = slow.filter(|_| full).into_iter().chain(delivered);
        let Some(capacity) = measured.max_by(f64::total_cmp) else {
            return self.pause(now, wait, crossed);
        };
        let to = (capacity * BELOW_CAPACITY).max(self.target * LARGEST_CUT);
        if to >= self.target {
            // A few large frames: the rate is right, only the queue has to drain.
            if wait > VERY_LATE {
                self.fill(now, capacity);
            }
            return None;
        }
        let before = self.target;
        // Where frames have no spread, what follows a cut has none to contradict it with.
        let doubtful = slow.is_some();
        if !self.cut(now, to, capacity) {
            return None;
        }
        self.counted = long;
        self.doubt(now, before, doubtful.then_some(Some(capacity)));
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

    /// A frame was late, but nothing tells that the link was full.
    fn pause(&mut self, now: Instant, wait: Duration, crossed: Option<f64>) -> Option<RateChange> {
        let told = self.paused.is_some_and(|at| now < at + PAUSES_TOLD);
        if told || crossed.is_some() || wait <= self.interval.max(LATE) * 2 {
            return None;
        }
        self.paused = Some(now);
        Some(RateChange::Stall { by: wait })
    }

    /// Keeps what the late frames in a row have in common.
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
            if self.level.len() == STANDSTILL {
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

    /// The delay of the empty path, if that is why the frames are late: all by the same, although
    /// the newest `crossed` as fast as on a link with room, or although less is sent already. A
    /// queue of ours would have grown or drained.
    fn longer_path(&self, crossed: Option<f64>) -> Option<i64> {
        let harmless = match crossed {
            Some(crossed) => crossed * BELOW_CAPACITY >= self.target,
            None => self.eased.is_some(),
        };
        // A queue that is full neither grows nor drains: it overflows.
        let (missing, all) = self.lost;
        let overflows = f64::from(missing) > HEAVY_LOSS * f64::from(all);
        if !harmless || overflows || self.level.len() < STANDSTILL {
            return None;
        }
        // The shortest of each half: what jitter adds is not the path's.
        let before = *self.level.iter().take(STANDSTILL / 2).min()?;
        let after = *self.level.iter().skip(STANDSTILL / 2).min()?;
        let apart = Duration::from_nanos(before.abs_diff(after));
        (apart <= self.interval.max(LATE)).then_some(before.min(after))
    }

    /// From now on `empty` is the delay of the empty link; what was taken for a full one was not.
    fn rebase(&mut self, now: Instant, empty: i64) {
        self.bases.clear();
        self.bases.push_back((second(now), empty));
        self.on_time();
        self.capacity = None;
        self.draining = false;
    }

    /// The target was cut from `before`, for a link that was taken to carry what `capacity` says inside; `None`
    /// outside: it is believed. So is the second cut within a while.
    fn doubt(&mut self, now: Instant, before: f64, capacity: Option<Option<f64>>) {
        let lately = self.taken_back.is_some_and(|at| now < at + REMEMBERED);
        let first = self
            .doubt
            .map_or(before, |doubt| doubt.before().max(before));
        let capacity = capacity.filter(|_| !lately);
        self.doubt = capacity.map(|capacity| Doubt::new(first, capacity));
    }

    /// A cut that the frames behind it contradict is taken back.
    fn take_back(&mut self, now: Instant, transit: &FrameTransit) -> Option<RateChange> {
        let doubt = self.doubt.as_mut()?;
        if transit.frame <= self.lowered_at {
            return None;
        }
        let (Some(first), Some(last), 0) =
            (transit.first, transit.recoverable, transit.datagrams.1)
        else {
            doubt.harmed();
            return None;
        };
        if self.late > 0 {
            doubt.harmed();
            return None;
        }
        let spread = last.since(first);
        let frame = OnTime {
            bits: behind_first(transit),
            spread,
            spread_by_link: spread > sent_over(transit) + LEAST_SPREAD,
        };
        let wrong = doubt.on_time(&frame)?;
        let before = doubt.before();
        self.doubt = None;
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

    /// What the link carried of a frame, in bits a second; `None` if that can't be told.
    fn crossed_with(&mut self, transit: &FrameTransit, first: PeerInstant) -> Option<f64> {
        let (arrived, missing) = transit.datagrams;
        let Some(last) = transit.recoverable else {
            // It is what its queue let through of what we sent.
            let all = f64::from(arrived) + f64::from(missing);
            return (missing > 0).then(|| self.target * f64::from(arrived) / all);
        };
        let spread = last.since(first).max(Duration::from_micros(50));
        let bits = behind_first(transit);
        self.crossed.0 += bits;
        self.crossed.1 += spread.as_secs_f64();
        // A link that is no narrower than what it is sent does not spread it: then it kept up, or delivered all
        // at once what a pause had held back.
        let by_link = bits > 0.0 && spread > sent_over(transit) + LEAST_SPREAD;
        by_link.then(|| bits / spread.as_secs_f64())
    }

    /// How much longer `delay` is than the shortest of those on an `empty` link.
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
        let base = self.bases.iter().map(|(_, base)| *base).min();
        let above = delay.saturating_sub(base.unwrap_or(delay));
        Duration::from_nanos(u64::try_from(above).unwrap_or(0))
    }

    /// The link is full: its queue has to drain.
    fn fill(&mut self, now: Instant, capacity: f64) {
        self.capacity = Some((capacity.max(self.range.min.0 as f64), now));
        self.cut_at = self.newest;
        self.draining = true;
    }

    /// Whether the target is lower than before.
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
        if lost <= HEAVY_LOSS + LOSS_DOUBT / f64::from(all).sqrt() {
            return None;
        }
        // Half of it, as in the draft: loss that stays is answered again.
        let to = self.target * (1.0 - lost / 2.0);
        let lower = self.cut(now, to, to);
        self.draining = false;
        self.doubt = None;
        lower.then_some(RateChange::Loss {
            to: self.target(),
            lost,
        })
    }

    fn climb(&mut self, now: Instant) -> Option<RateChange> {
        let max = self.range.max.0 as f64;
        if self.target >= max || self.late > 0 || self.draining {
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
        // Of a link that delivers in bursts each frame looks fast.
        let bursts = near && self.counted;
        let room = bits > self.target * ROOM * seconds && !bursts;
        let factor = match (room, near) {
            (true, _) => CLIMB_FREE,
            (false, true) => CLIMB_CAREFUL,
            (false, false) => CLIMB,
        };
        self.target = (self.target * factor).min(max);
        let to = self.target();
        if self.target >= max {
            self.climbing = false;
            return Some(RateChange::Maximum { to });
        }
        let news = !std::mem::replace(&mut self.climbing, true);
        news.then_some(RateChange::Increase { to })
    }

    /// Time has passed without a report; call it before each frame.
    pub fn quiet(&mut self, now: Instant, round_trip: Duration) -> Option<RateChange> {
        self.round_trip = round_trip;
        let heard = self.last_heard?;
        let oldest = self.under_way.front().map(|(_, at, _)| *at)?;
        let since = now.since(heard.max(oldest));
        if since < SILENT + round_trip * 2 {
            return None;
        }
        self.last_heard = Some(now);
        let to = self.target * SILENT_CUT;
        if self.target <= self.range.min.0 as f64 {
            return None;
        }
        let before = self.target;
        self.cut(now, to, to);
        // Nothing tells when a dead link is drained.
        self.draining = false;
        self.doubt(now, before, Some(None));
        Some(RateChange::Silence { to: self.target() })
    }
}

/// Bits of a frame behind its first datagram, whose own time on the link is not in the spread.
fn behind_first(transit: &FrameTransit) -> f64 {
    let data = f64::from(transit.data.max(1));
    f64::from(transit.bytes) * 8.0 * (data - 1.0) / data
}

/// Over how long it was sent.
fn sent_over(transit: &FrameTransit) -> Duration {
    transit.sent.1.since(transit.sent.0)
}

/// The second of our clock in which `now` is.
fn second(now: Instant) -> i64 {
    now.0.div_euclid(1_000_000_000)
}

#[cfg(test)]
mod tests;
