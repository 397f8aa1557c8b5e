//! How much the link carries, from the delay and the loss of each frame: quick down, slow up.
//!
//! A queue that grows shows in the client's report of the first frame that waited in it, long
//! before anything is lost. How far a frame's datagrams were spread out on the way says what the
//! link carries; while its queue is not empty that is its rate. So one round trip and two frames
//! after a link became slower, the target is below what it carries now, and new frames are held
//! back while the queue drains. A link without a queue is climbed again, faster when the spread of
//! the frames says that there is room.
//!
//! What it is not: it chooses no quantiser (that is [`rate`](super::rate)), and loss alone is not
//! congestion to it unless it is heavy: radio links lose without being full, and parity is made
//! for that.

mod range;

use std::collections::VecDeque;
use std::time::Duration;

use crate::bytes::MAX_DATAGRAM;
pub use crate::decision::Change;
use crate::id::FrameId;
use crate::time::{Instant, PeerInstant};
use crate::units::Bitrate;
pub use range::Range;

/// A frame's way over the link, from the client's report and the host's books.
#[derive(Clone, Copy, Debug)]
pub struct Crossing {
    /// The frame.
    pub frame: FrameId,
    /// Bytes of its datagrams but for parity, transport headers included: what had to arrive until
    /// it was recoverable.
    pub bytes: u32,
    /// When its first and last datagram left, on the host's clock.
    pub sent: (Instant, Instant),
    /// When the first arrived, on the client's clock; `None` if none did.
    pub first: Option<PeerInstant>,
    /// When enough had arrived for the whole frame; `None` if that never was.
    pub recoverable: Option<PeerInstant>,
    /// Datagrams that arrived and that did not, since the report before.
    pub datagrams: (u16, u16),
}

/// A frame that took longer than this, or than a frame's interval, beyond the empty link's delay is
/// late: a narrow link takes that long for the frame alone, and the next finds it free again. A
/// client's scheduler adds less (99 % of the frames on an idle machine: 2 ms).
const LATE: Duration = Duration::from_millis(10);
/// One frame that waited this long is enough; otherwise two that were late in a row are.
const VERY_LATE: Duration = Duration::from_millis(60);
/// So many frames in a row that were late, and fast, are more than a hiccup. If they were late all
/// by the same, though the link has room or less was sent, the path has become longer.
const STANDSTILL: usize = 8;
/// The share of the measured capacity that becomes the target: the rest drains the queue.
const BELOW_CAPACITY: f64 = 0.8;
/// A single cut halves at most: one frame's spread may be a hiccup of the radio.
const LARGEST_CUT: f64 = 0.5;
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
            level: VecDeque::with_capacity(STANDSTILL),
            eased: None,
            last_wait: Duration::ZERO,
            moved_at: FrameId::NONE,
            cut_at: FrameId::NONE,
            lowered_at: FrameId::NONE,
            newest: FrameId::NONE,
            capacity: None,
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
        self.crossed = (0.0, 0.0);
    }

    /// The client will not report on a frame any more, and has said nothing by that.
    pub fn unreported(&mut self, frame: FrameId) {
        self.under_way.retain(|(f, ..)| *f > frame);
    }

    /// The client reported on a frame.
    pub fn on_report(&mut self, now: Instant, crossing: &Crossing) -> Option<Change> {
        self.last_heard = Some(now);
        self.under_way.retain(|(frame, ..)| *frame > crossing.frame);
        if !self.draining && self.capacity.is_some_and(|(_, at)| now > at + REMEMBERED) {
            self.capacity = None;
        }
        if crossing.frame > self.lowered_at {
            let (arrived, missing) = crossing.datagrams;
            self.lost.0 += u32::from(missing);
            self.lost.1 += u32::from(arrived) + u32::from(missing);
        }
        if self.draining && self.capacity.is_none_or(|(c, _)| self.backlog(c) < DRAINED) {
            self.draining = false;
        }
        let first = crossing.first.filter(|_| crossing.frame > self.moved_at);
        let queue = first.and_then(|first| self.waited(now, crossing, first));
        queue
            .or_else(|| self.heavy_loss(now))
            .or_else(|| self.climb(now))
    }

    /// What a frame's delay says.
    fn waited(&mut self, now: Instant, crossing: &Crossing, first: PeerInstant) -> Option<Change> {
        // The first datagram alone says how long an empty link takes: behind it, a decoder that is
        // more urgent than the encoder can make the last one look as if it had left after it
        // arrived. Of a frame that lost something, it also says how long the frame waited.
        let empty = first.0.saturating_sub(crossing.sent.0.0);
        let delay = match crossing.recoverable {
            Some(last) => last.0.saturating_sub(crossing.sent.1.0),
            None => empty,
        };
        let wait = self.above_base(now, empty, delay);
        let growing = wait >= self.last_wait;
        self.last_wait = wait;
        let crossed = self.crossed_with(crossing, first);
        self.note_late(crossing.frame, empty, wait);
        if let Some(empty) = self.longer_path(crossed) {
            self.rebase(now, empty);
            return Some(Change::Longer { by: wait });
        }
        let full = (self.late >= 2 && growing) || wait > VERY_LATE;
        if !full || crossing.frame <= self.cut_at {
            return None;
        }
        // What crossed much faster than we send did not wait behind what we sent: the link stood
        // still for a moment, and that is no reason to send less unless it goes on.
        let capacity = match crossed.filter(|crossed| *crossed <= self.target * ROOM) {
            Some(crossed) => crossed,
            None if self.level.len() == STANDSTILL => self.target * LARGEST_CUT,
            None => return None,
        };
        let to = (capacity * BELOW_CAPACITY).max(self.target * LARGEST_CUT);
        if to >= self.target {
            // A few large frames: the rate is right, only the queue has to drain.
            if wait > VERY_LATE {
                self.fill(now, capacity);
            }
            return None;
        }
        if !self.cut(now, to, capacity) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "> 0"
        )]
        let capacity = Bitrate(capacity as u64);
        Some(Change::Queue {
            to: self.target(),
            waited: wait,
            capacity,
        })
    }

    /// Keeps what the late frames in a row have in common.
    fn note_late(&mut self, frame: FrameId, empty: i64, wait: Duration) {
        if wait <= self.interval.max(LATE) {
            self.on_time();
            return;
        }
        self.late += 1;
        if self.eased.is_none_or(|eased| frame > eased) {
            if self.level.len() == STANDSTILL {
                self.level.pop_front();
            }
            self.level.push_back(empty);
        }
    }

    fn on_time(&mut self) {
        self.late = 0;
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
        if !harmless || self.level.len() < STANDSTILL {
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

    /// What the link carried of a frame, in bits a second; `None` if that can't be told.
    fn crossed_with(&mut self, crossing: &Crossing, first: PeerInstant) -> Option<f64> {
        let (arrived, missing) = crossing.datagrams;
        let Some(last) = crossing.recoverable else {
            // It is what its queue let through of what we sent.
            let all = f64::from(arrived) + f64::from(missing);
            return (missing > 0).then(|| self.target * f64::from(arrived) / all);
        };
        let spread = last.since(first).max(Duration::from_micros(50));
        // The first datagram's own time on the link is not in the spread.
        let bytes = (f64::from(crossing.bytes) - MAX_DATAGRAM as f64).max(1.0);
        self.crossed.0 += bytes * 8.0;
        self.crossed.1 += spread.as_secs_f64();
        // It arrived in less time than it was sent in: a stop of the link delayed all of it.
        let sent_over = crossing.sent.1.since(crossing.sent.0);
        (spread > sent_over / 2).then(|| bytes * 8.0 / spread.as_secs_f64())
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
        self.late = 0;
        self.level.clear();
        self.eased = Some(self.newest);
        self.lowered_at = self.newest;
        self.lost = (0, 0);
        to < before
    }

    fn heavy_loss(&mut self, now: Instant) -> Option<Change> {
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
        lower.then_some(Change::Loss {
            to: self.target(),
            lost,
        })
    }

    fn climb(&mut self, now: Instant) -> Option<Change> {
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
        let room = bits > self.target * ROOM * seconds;
        let factor = match (room, near) {
            (true, _) => CLIMB_FREE,
            (false, true) => CLIMB_CAREFUL,
            (false, false) => CLIMB,
        };
        self.target = (self.target * factor).min(max);
        let to = self.target();
        if self.target >= max {
            self.climbing = false;
            return Some(Change::Full { to });
        }
        let news = !std::mem::replace(&mut self.climbing, true);
        news.then_some(Change::Climb { to })
    }

    /// Time has passed without a report; call it before each frame.
    pub fn quiet(&mut self, now: Instant, round_trip: Duration) -> Option<Change> {
        self.round_trip = round_trip;
        let heard = self.last_heard?;
        let oldest = self.under_way.front().map(|(_, at, _)| *at)?;
        let since = now.since(heard.max(oldest));
        if since < SILENT + round_trip * 2 {
            return None;
        }
        self.last_heard = Some(now);
        let to = self.target * LARGEST_CUT;
        if self.target <= self.range.min.0 as f64 {
            return None;
        }
        self.cut(now, to, to);
        // Nothing tells when a dead link is drained.
        self.draining = false;
        Some(Change::Silence { to: self.target() })
    }
}

/// The second of our clock in which `now` is.
fn second(now: Instant) -> i64 {
    now.0.div_euclid(1_000_000_000)
}

#[cfg(test)]
mod tests;
