//! Static refinement: a still picture is improved in parts until it is nearly exact (`EXACT_QP`).
//!
//! It tracks the quantiser of each macroblock and decides which part to code again, with which quantiser and when. Each
//! part is sized to use half of the target rate during one frame interval. When everything has been refined, nothing is
//! due. The policy decides whether the link is full, and the caller provides the changed macroblocks. Sans-I/O: `now`
//! is an argument.

use std::time::Duration;

use crate::id::FrameId;
use crate::time::Instant;
use crate::units::Bitrate;

/// Time without changes before the first refinement: six frames at 60 a second, so that a short pause costs
/// nothing (guess).
const STILL: Duration = Duration::from_millis(100);

/// The first target quantiser, good for a moving picture (guess).
const GOOD_QP: u8 = 20;

/// The final target quantiser. Its quantiser step in H.264 is 1.25 (ITU-T H.264, section 8.5), so the error is about
/// one level of luma. Measured: 54 dB of luma PSNR on text, gradients and noise.
const EXACT_QP: u8 = 6;

/// Decrease of the quantiser per refinement for encoders that cannot code parts. A decrease of 6 would double the bits.
const STEP: u8 = 5;

/// Maximum time that the link may need for the refinement of a complete picture to a quantiser below [`GOOD_QP`]
/// (guess). A change of the picture during this time would have to wait.
const MAX_REFINEMENT_TIME: Duration = Duration::from_millis(250);

/// Divisor that gives the size of the first part: an eighth of the picture's macroblocks (guess). The first part is
/// small because the cost of a macroblock is not known yet.
const FIRST_SHARE: u16 = 8;

/// The smallest part in macroblocks. Below it, a frame's headers dominate (guess).
const SMALLEST: f64 = 8.0;

/// Maximum growth from one part to the next (guess).
const GROWTH: f64 = 4.0;

/// A part to code again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Improvement {
    /// The quantiser.
    pub qp: u8,
    /// The first macroblock, in raster order.
    pub first_mb: u16,
    /// The number of macroblocks, some of which may already be good enough.
    pub mbs: u16,
}

/// The quality of each macroblock, and the next refinement.
#[derive(Clone, Debug, Default)]
pub struct StaticRefinement {
    /// The quantiser of each macroblock.
    qps: Vec<u8>,
    /// The frame that coded each macroblock.
    since: Vec<FrameId>,
    /// Whether the encoder can skip macroblocks.
    parts: bool,
    /// Start of the next part: all macroblocks before it have reached the target.
    from: usize,
    /// Size of the next part in macroblocks, and the target quantiser for which it was measured.
    many: f64,
    goal: u8,
    /// Bits of the newest frame, if complete pictures are refined.
    bits: u64,
    /// When the next refinement may start.
    at: Instant,
}

impl StaticRefinement {
    /// Handles a new encoder for pictures of `mbs` macroblocks. `parts` states whether it can skip macroblocks.
    pub fn opened(&mut self, mbs: u16, parts: bool) {
        *self = StaticRefinement {
            // Nothing can be refined before the first coded frame.
            qps: vec![0; usize::from(mbs)],
            since: vec![FrameId::NONE; usize::from(mbs)],
            parts,
            ..StaticRefinement::default()
        };
    }

    /// Records that the complete picture was coded with `qp` as `frame` and took `bits`.
    pub fn coded(&mut self, now: Instant, frame: FrameId, qp: u8, bits: u64) {
        self.qps.fill(qp);
        self.since.fill(frame);
        self.restart(now, bits);
    }

    /// Marks in `unchanged` the macroblocks that a frame of quantiser `qp` may skip: those that are not `changed` and
    /// were coded with `qp` or a finer quantiser.
    pub fn mark(&self, qp: u8, unchanged: &mut Vec<bool>, changed: impl Fn(usize) -> bool) {
        unchanged.clear();
        let known = self.qps.iter().enumerate();
        unchanged.extend(known.map(|(mb, known)| *known <= qp && !changed(mb)));
    }

    /// Like [`StaticRefinement::mark`], for a frame with an older `reference` after a loss. Marks the macroblocks that
    /// are not `changed` and have not been coded since the reference.
    pub fn mark_back(
        &self,
        reference: FrameId,
        unchanged: &mut Vec<bool>,
        changed: impl Fn(usize) -> bool,
    ) {
        unchanged.clear();
        let since = self.since.iter().enumerate();
        unchanged.extend(since.map(|(mb, since)| *since <= reference && !changed(mb)));
    }

    /// Records that `frame` was coded with `qp` and took `bits`. The `unchanged` macroblocks keep their quality.
    pub fn coded_in_part(
        &mut self,
        now: Instant,
        frame: FrameId,
        qp: u8,
        bits: u64,
        unchanged: &[bool],
    ) {
        self.repeated(frame, qp, unchanged);
        self.restart(now, bits);
    }

    /// Records that `frame` was coded with `qp`, except for its `unchanged` macroblocks, which keep their quality. The
    /// refinement does not restart: if the frame repeats a still picture, the coded macroblocks had a coarser quantiser
    /// before, so no macroblock became worse.
    pub fn repeated(&mut self, frame: FrameId, qp: u8, unchanged: &[bool]) {
        let all = self.qps.iter_mut().zip(&mut self.since).zip(unchanged);
        for ((known, since), _) in all.filter(|(_, same)| !**same) {
            (*known, *since) = (qp, frame);
        }
    }

    /// Records that `frame` repeated the complete still picture with `qp`, and referred to the newest frame.
    /// Macroblocks with the same or a finer quantiser keep it, because a coarser one finds no difference to code. The
    /// refinement does not restart.
    pub fn repeated_in_full(&mut self, frame: FrameId, qp: u8) {
        let all = self.qps.iter_mut().zip(&mut self.since);
        for (known, since) in all.filter(|(known, _)| **known > qp) {
            (*known, *since) = (qp, frame);
        }
    }

    fn restart(&mut self, now: Instant, bits: u64) {
        (self.from, self.goal, self.bits) = (0, 0, bits);
        self.at = now + STILL;
    }

    /// When the next refinement is due at this rate, if any.
    #[must_use]
    pub fn due(&self, target: Bitrate) -> Option<Instant> {
        let goal = if self.parts {
            self.next_goal().is_some()
        } else {
            self.full_picture_qp(target).is_some()
        };
        goal.then_some(self.at)
    }

    /// Records that the link has no capacity before `until`.
    pub fn wait(&mut self, until: Instant) {
        self.at = self.at.max(until);
    }

    /// The next target quantiser, and the first macroblock that has not reached it.
    fn next_goal(&self) -> Option<(u8, usize)> {
        let worse = |goal: u8, from: usize| {
            let rest = self.qps.get(from..)?;
            Some((goal, from + rest.iter().position(|qp| *qp > goal)?))
        };
        let known = if self.goal == 0 { 0 } else { self.from };
        match self.goal {
            EXACT_QP => worse(EXACT_QP, known),
            _ => worse(GOOD_QP, known).or_else(|| worse(EXACT_QP, 0)),
        }
    }

    /// The quantiser for the next complete picture.
    fn full_picture_qp(&self, target: Bitrate) -> Option<u8> {
        let worst = self.qps.iter().copied().max()?;
        if worst <= EXACT_QP {
            return None;
        }
        let better = worst.saturating_sub(STEP);
        if worst > GOOD_QP {
            return Some(better.max(GOOD_QP));
        }
        let room = target.0 as f64 * MAX_REFINEMENT_TIME.as_secs_f64();
        (self.bits as f64 * 2.0 <= room).then_some(better.max(EXACT_QP))
    }

    /// The next refinement. The caller codes it as a frame that refers to the newest frame, and reports the result.
    pub fn next(&mut self, target: Bitrate) -> Option<Improvement> {
        if !self.parts {
            let all = u16::try_from(self.qps.len()).unwrap_or(u16::MAX);
            return self.full_picture_qp(target).map(|qp| Improvement {
                qp,
                first_mb: 0,
                mbs: all,
            });
        }
        let (goal, first) = self.next_goal()?;
        if goal != self.goal {
            self.goal = goal;
            self.many = self.qps.len() as f64 / f64::from(FIRST_SHARE);
        }
        self.from = first;
        let rest = &self.qps[first..];
        let mut left = self.many.max(SMALLEST);
        let mut mbs = 0;
        for (n, _) in rest.iter().enumerate().filter(|(_, qp)| **qp > goal) {
            mbs = n + 1;
            left -= 1.0;
            if left < 1.0 {
                break;
            }
        }
        Some(Improvement {
            qp: goal,
            first_mb: u16::try_from(first).unwrap_or(u16::MAX),
            mbs: u16::try_from(mbs).unwrap_or(u16::MAX),
        })
    }

    /// Records that a refinement was coded as `frame` and took `bits`. `target` is the target rate, and `interval` the
    /// frame interval.
    pub fn improved(
        &mut self,
        now: Instant,
        frame: FrameId,
        done: &Improvement,
        bits: u64,
        target: Bitrate,
        interval: Duration,
    ) {
        self.bits = bits;
        let first = usize::from(done.first_mb);
        let end = (first + usize::from(done.mbs)).min(self.qps.len());
        self.since[first.min(end)..end].fill(frame);
        let improved = &mut self.qps[first.min(end)..end];
        let counted = improved.iter().filter(|qp| **qp > done.qp).count() as f64;
        improved.iter_mut().for_each(|qp| *qp = done.qp.min(*qp));
        if !self.parts {
            self.at = now + STILL;
            return;
        }
        self.from = end;
        let rate = (target.0 as f64 / 2.0).max(1.0);
        let takes = Duration::from_secs_f64(bits as f64 / rate);
        let fits = counted * interval.as_secs_f64() / takes.as_secs_f64().max(1e-6);
        self.many = fits.clamp(SMALLEST, (self.many * GROWTH).max(SMALLEST));
        self.at = now + interval.max(takes);
    }

    /// The coarsest quantiser of all macroblocks.
    #[must_use]
    pub fn worst(&self) -> u8 {
        self.qps.iter().copied().max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Bitrate = Bitrate::from_mbps(10);
    const INTERVAL: Duration = Duration::from_millis(16);

    /// A picture of 1000 macroblocks, coded with `qp`.
    fn coded(parts: bool, qp: u8) -> StaticRefinement {
        let mut static_refinement = StaticRefinement::default();
        static_refinement.opened(1000, parts);
        assert_eq!(static_refinement.due(TARGET), None, "nothing was coded yet");
        static_refinement.coded(Instant(0), FrameId(1), qp, 100_000);
        static_refinement
    }

    /// Refines completely with a cost per macroblock. Returns the steps with their times.
    fn to_the_end(
        static_refinement: &mut StaticRefinement,
        cost: u64,
    ) -> Vec<(Instant, Improvement)> {
        let mut done = Vec::new();
        while let Some(at) = static_refinement.due(TARGET) {
            let what = static_refinement.next(TARGET).expect("it is due");
            done.push((at, what));
            let bits = u64::from(what.mbs) * cost;
            let frame = FrameId(u32::try_from(done.len()).expect("few") + 1);
            static_refinement.improved(at, frame, &what, bits, TARGET, INTERVAL);
            assert!(done.len() < 10_000, "no end");
        }
        done
    }

    #[test]
    fn each_macroblock_becomes_good_then_exact_then_nothing_is_due() {
        let mut static_refinement = coded(true, 40);
        let done = to_the_end(&mut static_refinement, 100);
        assert_eq!(done[0].0, Instant(0) + STILL);
        for goal in [GOOD_QP, EXACT_QP] {
            let parts = done.iter().filter(|(_, what)| what.qp == goal);
            let mbs: Vec<usize> = parts
                .flat_map(|(_, what)| what.first_mb..what.first_mb + what.mbs)
                .map(usize::from)
                .collect();
            assert_eq!(mbs, (0..1000).collect::<Vec<_>>(), "each once, in order");
        }
        assert!(done.is_sorted_by_key(|(_, what)| std::cmp::Reverse(what.qp)));
        assert_eq!(static_refinement.due(TARGET), None);
        assert_eq!(static_refinement.worst(), EXACT_QP);
    }

    #[test]
    fn improvements_take_half_of_the_rate() {
        for cost in [10, 300, 3000] {
            let mut static_refinement = coded(true, 32);
            let done = to_the_end(&mut static_refinement, cost);
            let last = done.last().expect("something").0;
            let bits = 2 * 1000 * cost;
            let takes = (last - STILL).since(Instant(0)).as_secs_f64();
            // `takes` does not contain the time of the last part, so the limit allows for its bits.
            let most = 5e6 * (takes + 1.0 / 60.0) + 150_000.0;
            assert!(bits as f64 <= most, "{cost}: {bits} bits in {takes} s");
            for (_, what) in done.iter().skip(1) {
                let share = u64::from(what.mbs) * cost;
                assert!(share <= 90_000 || what.mbs <= 125, "{cost}: {what:?}");
            }
        }
    }

    #[test]
    fn unchanged_macroblocks_are_not_refined_again() {
        let mut static_refinement = coded(true, 40);
        to_the_end(&mut static_refinement, 100);
        let mut unchanged = Vec::new();
        static_refinement.mark(30, &mut unchanged, |mb| (500..510).contains(&mb));
        assert_eq!(unchanged.iter().filter(|same| !**same).count(), 10);
        let now = Instant(1_000_000_000);
        static_refinement.coded_in_part(now, FrameId(99), 30, 5000, &unchanged);
        assert_eq!(static_refinement.due(TARGET), Some(now + STILL));
        let done = to_the_end(&mut static_refinement, 100);
        let within = |(_, what): &(Instant, Improvement)| {
            (500..510).contains(&what.first_mb) && what.first_mb + what.mbs <= 510
        };
        assert!(done.iter().all(within), "{done:?}");
    }

    #[test]
    fn coarser_macroblocks_are_not_skipped() {
        let mut static_refinement = coded(true, 30);
        let mut unchanged = Vec::new();
        static_refinement.mark(29, &mut unchanged, |_| false);
        assert!(unchanged.iter().all(|same| !same));
        static_refinement.mark(30, &mut unchanged, |_| false);
        assert!(unchanged.iter().all(|same| *same));
        let first = static_refinement.next(TARGET).expect("an improvement");
        static_refinement.improved(Instant(0), FrameId(2), &first, 1000, TARGET, INTERVAL);
        static_refinement.mark(25, &mut unchanged, |_| false);
        let better = unchanged.iter().filter(|same| **same).count();
        assert_eq!(better, usize::from(first.mbs));
    }

    #[test]
    fn a_full_repetition_makes_no_macroblock_worse() {
        let mut static_refinement = coded(true, 30);
        let first = static_refinement.next(TARGET).expect("an improvement");
        static_refinement.improved(Instant(0), FrameId(2), &first, 1000, TARGET, INTERVAL);
        let due = static_refinement.due(TARGET);
        // A coarser repetition changes nothing.
        static_refinement.repeated_in_full(FrameId(3), 40);
        assert_eq!(static_refinement.worst(), 30);
        // A finer one improves the remaining macroblocks.
        static_refinement.repeated_in_full(FrameId(4), 25);
        assert_eq!(static_refinement.worst(), 25);
        let mut unchanged = Vec::new();
        static_refinement.mark(first.qp, &mut unchanged, |_| false);
        let better = unchanged.iter().filter(|same| **same).count();
        assert_eq!(better, usize::from(first.mbs));
        assert_eq!(static_refinement.due(TARGET), due, "not postponed");
    }

    #[test]
    fn only_lost_macroblocks_are_refined_again() {
        let mut static_refinement = coded(true, 30);
        let done = to_the_end(&mut static_refinement, 1000);
        // The last three refinements were lost.
        let lost = &done[done.len() - 3..];
        let sound = FrameId(u32::try_from(done.len()).expect("few") - 2);
        let mut unchanged = Vec::new();
        static_refinement.mark_back(sound, &mut unchanged, |_| false);
        let (now, frame) = (Instant(9_000_000_000), FrameId(1000));
        static_refinement.coded_in_part(now, frame, 30, 1000, &unchanged);
        let again = to_the_end(&mut static_refinement, 1000);
        let first = lost[0].1.first_mb;
        assert!(again.iter().all(|(_, what)| what.first_mb >= first));
        let exact = again.iter().filter(|(_, what)| what.qp == EXACT_QP);
        let mbs: usize = exact.map(|(_, what)| usize::from(what.mbs)).sum();
        assert_eq!(mbs, 1000 - usize::from(first));
    }

    #[test]
    fn a_full_link_delays_an_improvement() {
        let mut static_refinement = coded(true, 30);
        let until = Instant(0) + STILL * 5;
        static_refinement.wait(until);
        assert_eq!(static_refinement.due(TARGET), Some(until));
        static_refinement.wait(Instant(0));
        assert_eq!(static_refinement.due(TARGET), Some(until));
    }

    #[test]
    fn a_complete_picture_is_refined_up_to_the_link_capacity() {
        let mut static_refinement = coded(false, 32);
        let done = to_the_end(&mut static_refinement, 200);
        let steps: Vec<u8> = done.iter().map(|(_, what)| what.qp).collect();
        assert_eq!(steps, [27, 22, 20, 15, 10, 6]);
        assert!(
            done.iter()
                .all(|(_, what)| (what.first_mb, what.mbs) == (0, 1000))
        );
        // The last refinement took 2 Mbit. The next may take 4 Mbit, but the limit is 2.5 Mbit in 250 ms.
        let mut static_refinement = coded(false, 32);
        let done = to_the_end(&mut static_refinement, 2000);
        let steps: Vec<u8> = done.iter().map(|(_, what)| what.qp).collect();
        assert_eq!(steps, [27, 22, 20]);
    }
}
