//! Rate control: one quantiser per frame, no look-ahead.
//!
//! x264's own rate control takes time before the first slice: 1.0 ms at 720p and 2.0 ms at 1080p (measured on one
//! core). With the constant quantisers that this controller chooses, x264 does not need this time. There is no limit
//! within a frame, so key-frame sizes are predicted and kept near three times the size of other frames. With a fixed
//! GOP size, or many requested key frames, all frames get fewer bits, so that the mean stays the same.
//!
//! A picture that suddenly differs from the previous one, such as a cut or a flash, may take as many bits as a key frame.
//! The controller predicts its size from the [`Difference`], and chooses a coarser quantiser.

use crate::units::{Bitrate, Size};

/// The finest useful quantiser. Below it, no difference is visible (guess).
const QP_MIN: f64 = 12.0;
/// H.264's coarsest quantiser.
const QP_MAX: f64 = 51.0;
/// The initial quantiser.
const QP_START: f64 = 32.0;
/// log2 of the bits per pixel of the first key frame at quantiser 0. At quantiser 32, this is 0.82 bits, measured on a
/// room full of detailed textures. That is a high value for a game.
const KEY_PIXEL: f64 = 5.05;
/// The share of a key frame, relative to the share of another frame.
const KEY_FRAME_SHARE: f64 = 3.0;
/// The share of a suddenly different picture, relative to the share of another frame. With the share of a key frame, it
/// would fill the queue of a link that is already full (simulated: `link_goals.rs`). With 2, 1.5 and 1.25, the p99 of
/// `bench link --cases start` is 33, 29 and 27 ms, but the picture is coarser by 2.5 quantisers with 1.5, and by 4 with
/// 1.25.
const SUDDEN_SHARE: f64 = 1.5;
/// Decrease of the quantiser number that halves the quantiser step (ITU-T H.264, section 8.5) and roughly doubles the
/// bits.
const QP_PER_OCTAVE: f64 = 6.0;
/// The share of a frame's error that is corrected for the next frame if the frame was too large, and the limit of the
/// error (measured: the quantiser settles within six frames on a game's clip).
const GAIN: f64 = 0.6;
const STEP_UP: f64 = 6.0;
/// The same if the frame was too small. A finer quantiser also codes the details that the previous, coarser one has
/// left out: in the built-in scene, a quantiser that is finer by 2 takes 2.2 times the bits at first. With the gain
/// above, the quantiser therefore oscillated, and one frame in sixty took 1.7 times the mean.
const GAIN_FINER: f64 = 0.3;
const STEP_DOWN: f64 = -4.0;
/// Number of frames over which an excess of bits is compensated.
const DEBT_FRAMES: f64 = 30.0;

/// Weight of the newest frame in the means of a [`Cost`] (guess).
const COST_GAIN: f64 = 0.3;
/// The smallest mean difference of the model. Below it, the size of a frame hardly depends on the difference (guess).
const LEAST_DIFFERENCE: f64 = 1.0 / 64.0;

/// The difference between a picture and the previously coded picture.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Difference {
    /// The mean absolute difference of the compared samples, in levels (0 to 255): of the luma, or of all components of a
    /// packed picture.
    pub mean: f64,
    /// The share of the picture that differs visibly (0 to 1).
    pub share: f64,
}

/// The bits that differences have cost at quantiser 0: means over the last frames without the key frames. The mean of
/// the bits is divided by the mean of the levels. A frame without a difference, which only refines the picture, then has
/// little weight.
#[derive(Clone, Copy, Debug)]
struct Cost {
    bits: f64,
    levels: f64,
}

impl Cost {
    fn add(&mut self, newest: Cost) {
        self.bits += COST_GAIN * (newest.bits - self.bits);
        self.levels += COST_GAIN * (newest.levels - self.levels);
    }

    /// log2 of the bits that a picture with this mean difference is expected to take at quantiser 0.
    fn of(&self, mean: f64) -> f64 {
        (self.bits * mean.max(LEAST_DIFFERENCE) / self.levels).log2()
    }
}

/// Chooses quantisers so that the mean rate on the wire stays at the target.
#[derive(Clone, Debug)]
pub struct RateControl {
    /// Mean bits per frame.
    mean: f64,
    /// Bits of a frame other than a key frame.
    share: f64,
    /// The GOP size, if it is fixed.
    key_every: Option<u32>,
    qp: f64,
    debt: f64,
    /// Whether the newest frame was a key frame.
    after_key: bool,
    /// log2 of the bits of a key frame at quantiser 0.
    key_size: Option<f64>,
    /// The first estimate of `key_size`. It is a high value, and limits the size of other frames.
    largest: f64,
    /// The difference of the next frame's picture; `None` if it is unknown.
    difference: Option<Difference>,
    /// Whether suddenly different pictures get a coarser quantiser.
    limits_sudden: bool,
    /// Whether the newest frame was suddenly different.
    after_sudden: bool,
    cost: Option<Cost>,
    /// Whether the next key frame gets only the share of another frame.
    small_key: bool,
}

impl RateControl {
    /// Creates the control for a stream of `fps` frames a second with a rate of `target` on the wire.
    #[must_use]
    pub fn new(target: Bitrate, fps: f64) -> RateControl {
        let mean = mean(target, fps);
        RateControl {
            mean,
            share: mean,
            key_every: None,
            qp: QP_START,
            debt: 0.0,
            after_key: false,
            key_size: None,
            largest: 0.0,
            difference: None,
            limits_sudden: false,
            after_sudden: false,
            cost: None,
            small_key: false,
        }
    }

    /// Handles a new encoder for pictures of this size, with GOP size `key_every` (`None` for key frames only on
    /// request). The key-frame size is then estimated from the picture size again.
    pub fn opened(&mut self, size: Size, key_every: Option<u32>) {
        self.largest = (size.pixels().max(1) as f64).log2() + KEY_PIXEL;
        self.key_size = Some(self.largest);
        (self.difference, self.after_sudden, self.cost) = (None, false, None);
        self.key_every = key_every;
        self.share();
    }

    /// Changes the GOP size from the next frame on; `None`: key frames only on request.
    pub fn set_key_every(&mut self, key_every: Option<u32>) {
        self.key_every = key_every;
        self.share();
    }

    /// Gives the next key frame only the share of another frame, for a link with an unknown capacity.
    pub fn limit_key_frame(&mut self) {
        self.small_key = true;
    }

    /// Sets the difference of the next frame's picture; `None` if it is unknown. `limits_sudden` states whether the
    /// picture gets a coarser quantiser if it is suddenly different.
    pub fn set_difference(&mut self, difference: Option<Difference>, limits_sudden: bool) {
        (self.difference, self.limits_sudden) = (difference, limits_sudden);
    }

    /// Changes the target from the next frame on.
    pub fn retarget(&mut self, target: Bitrate, fps: f64) {
        let before = self.mean;
        self.mean = mean(target, fps);
        self.share();
        self.qp = (self.qp + QP_PER_OCTAVE * (before / self.mean).log2()).clamp(QP_MIN, QP_MAX);
        self.debt = self.debt.min(self.mean * DEBT_FRAMES);
    }

    /// Computes the share of a frame: of `n` frames, the key frame takes three shares and each other frame takes one.
    /// All of them together take `n` times the mean.
    fn share(&mut self) {
        let n = self.key_every.map(|n| f64::from(n.max(1)));
        self.share = self.mean * n.map_or(1.0, |n| n / (n - 1.0 + KEY_FRAME_SHARE));
    }

    /// The target bits of the next frame; fewer while an earlier excess is compensated.
    fn goal(&self, key_frame: bool) -> f64 {
        let is_large = key_frame && !self.small_key;
        self.goal_of(if is_large { KEY_FRAME_SHARE } else { 1.0 })
    }

    /// The target bits of the next frame with this number of shares.
    fn goal_of(&self, shares: f64) -> f64 {
        let saved = 1.0 - self.debt / (self.mean * DEBT_FRAMES);
        self.share * shares * saved.clamp(0.5, 1.0)
    }

    /// The quantiser of the next frame.
    #[must_use]
    pub fn qp(&self, key_frame: bool) -> u8 {
        let qp = match self.key_size {
            Some(size) if key_frame => {
                let fitting = QP_PER_OCTAVE * (size - self.goal(true).log2());
                fitting.max(self.qp)
            }
            _ => self.sudden_qp().unwrap_or(self.qp),
        };
        #[expect(clippy::cast_possible_truncation, reason = "it is within 12–51")]
        let qp = qp.clamp(QP_MIN, QP_MAX).round() as u8;
        qp
    }

    /// The quantiser of a suddenly different picture. `None` if the picture does not exceed the share of such pictures
    /// with the usual quantiser. The picture is expected to take at most as many bits as a key frame of the area that
    /// differs.
    fn sudden_qp(&self) -> Option<f64> {
        let Difference { mean, share } = self.difference.filter(|_| self.limits_sudden)?;
        let expected = self.cost?.of(mean);
        let whole = self.key_size?.max(self.largest);
        let size = expected.min(whole + share.log2());
        let fitting = QP_PER_OCTAVE * (size - self.goal_of(SUDDEN_SHARE).log2());
        Some(fitting).filter(|fitting| *fitting > self.qp)
    }

    /// Records that a frame was coded with `qp` and took `bits` on the wire, including headers.
    pub fn coded(&mut self, key_frame: bool, qp: u8, bits: u64) {
        let bits = (bits as f64).max(1.0);
        let sudden = !key_frame && self.sudden_qp().is_some();
        self.debt = (self.debt + bits - self.mean).clamp(-self.mean, self.mean * DEBT_FRAMES);
        let goal = match sudden {
            true => self.goal_of(SUDDEN_SHARE),
            false => self.goal(key_frame),
        };
        let error = QP_PER_OCTAVE * (bits / goal).log2();
        let key_frames_only = std::mem::replace(&mut self.after_key, key_frame) && key_frame;
        if let Some(difference) = self.difference.take().filter(|_| !key_frame) {
            let newest = Cost {
                bits: bits * (f64::from(qp) / QP_PER_OCTAVE).exp2(),
                levels: difference.mean.max(LEAST_DIFFERENCE),
            };
            self.cost.get_or_insert(newest).add(newest);
        }
        let again = std::mem::replace(&mut self.after_sudden, sudden) && sudden;
        if sudden {
            // A second consecutive sudden picture indicates a lasting motion. A finer quantiser would make every
            // further frame of it sudden.
            let finer = if again { 0.0 } else { QP_PER_OCTAVE };
            self.settle(qp, error, finer);
            return;
        }
        if key_frame {
            self.key_size = Some(bits.log2() + f64::from(qp) / QP_PER_OCTAVE);
            self.small_key = false;
            self.settle(qp, error, QP_PER_OCTAVE);
            if !key_frames_only {
                return;
            }
        }
        // Consecutive key frames do not show that other frames need coarser quantisers. They may only make the
        // quantisers finer, which is necessary on an idle link.
        let most = if key_frame { 0.0 } else { STEP_UP };
        let gain = if error < 0.0 { GAIN_FINER } else { GAIN };
        let step = gain * error.clamp(STEP_DOWN, most);
        self.qp = (self.qp + step).clamp(QP_MIN, QP_MAX);
    }

    /// Sets the quantiser of the frames after a key frame or a suddenly different picture, which was coded with `qp`
    /// and missed its share by `error` quantisers. These frames get a quantiser that is finer than `qp` by at most
    /// `finer`, so that they do not refine the coarse picture at once. If the picture exceeded its share, the next
    /// pictures would probably exceed the smaller share of an ordinary frame, too, so their quantiser is coarser by
    /// `error`.
    fn settle(&mut self, qp: u8, error: f64, finer: f64) {
        let next = f64::from(qp) - finer + error.max(0.0);
        self.qp = self.qp.max(next).min(QP_MAX);
    }
}

/// Margin for oscillation, so that the mean stays below the target. Small frames are corrected by less than large ones,
/// so the mean stays another 2 % below it (measured over 8 s of the built-in scene).
const HEADROOM: f64 = 0.99;

/// Mean bits per frame.
fn mean(target: Bitrate, fps: f64) -> f64 {
    (target.0 as f64 * HEADROOM / fps.max(1.0)).max(1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of a picture at quantiser `qp`. At quantiser 0, a P frame takes `complexity` bits, and a key frame
    /// takes four times as many.
    fn bits(complexity: f64, key_frame: bool, qp: u8) -> u64 {
        let bits = complexity * if key_frame { 4.0 } else { 1.0 };
        (bits * 2_f64.powf(-f64::from(qp) / 6.0)) as u64
    }

    #[test]
    fn the_mean_settles_at_the_target_whatever_the_content() {
        for complexity in [2e6, 8e6, 3e7] {
            let mut rate = RateControl::new(Bitrate::from_mbps(10), 60.0);
            rate.opened(Size::new(1280, 720), None);
            let mut total = 0;
            for frame in 0..600 {
                let key = frame % 200 == 0;
                // In the second half of each second, the scene costs twice as much.
                let cost = complexity * if frame % 60 < 30 { 1.0 } else { 2.0 };
                let qp = rate.qp(key);
                let spent = bits(cost, key, qp);
                if frame > 0 && key {
                    assert!(spent < 3 * 10_000_000 / 60 * 2, "{complexity} {spent}");
                }
                rate.coded(key, qp, spent);
                total += spent;
            }
            let mean = total / 10;
            assert!(
                (8_500_000..=10_600_000).contains(&mean),
                "{complexity}: {mean} b/s"
            );
        }
    }

    /// The compensation works for any interval of key frames, whether or not the rate control knows it.
    #[test]
    fn other_frames_compensate_for_key_frames() {
        for complexity in [5e5, 2e6, 8e6] {
            for every in [1, 2, 3, 5, 10, 30] {
                for known in [true, false] {
                    // Requested key frames are at least two frames apart.
                    if every < 2 && !known {
                        continue;
                    }
                    let mut rate = RateControl::new(Bitrate::from_mbps(10), 60.0);
                    rate.opened(Size::new(1280, 720), known.then_some(every));
                    let mut spent = Vec::new();
                    for frame in 0..600 {
                        let key = frame % every == 0;
                        let qp = rate.qp(key);
                        spent.push(bits(complexity, key, qp));
                        rate.coded(key, qp, spent[frame as usize]);
                    }
                    let mean = spent.iter().sum::<u64>() / 10;
                    let what = format!("{complexity}, every {every}, known {known}: {mean} b/s");
                    assert!(mean <= 10_700_000, "{what}");
                    // The cheapest pictures cannot use the whole rate.
                    assert!(mean >= 8_500_000 || complexity < 1e6, "{what}");
                    let second = spent[..60].iter().sum::<u64>();
                    assert!(
                        !known || second <= 12_000_000,
                        "{what}: {second} in the first"
                    );
                }
            }
        }
    }

    /// The first frames fit into a short queue, although the pictures take up to twice the estimated bits.
    #[test]
    fn a_limited_key_frame_and_the_next_frames_are_small() {
        let share = 10_000_000 / 60;
        for complexity in [2e6, 8e6, 1.6e7] {
            let mut rate = RateControl::new(Bitrate::from_mbps(10), 60.0);
            rate.opened(Size::new(1280, 720), None);
            rate.limit_key_frame();
            let mut first = Vec::new();
            for frame in 0..60 {
                let key = frame == 0;
                let qp = rate.qp(key);
                first.push(bits(complexity, key, qp));
                rate.coded(key, qp, first[frame]);
            }
            assert!(first[0] <= share * 5 / 2, "{complexity}: {first:?}");
            assert!(first[1] <= share, "{complexity}: {first:?}");
            let second = first.iter().sum::<u64>();
            assert!(second >= 8_000_000, "{complexity}: {second} in the first");
            // The next key frame is larger again.
            let later = bits(complexity, true, rate.qp(true));
            assert!(later > share * 2, "{complexity}: {later}");
        }
    }

    /// A stream of ordinary pictures, each of which differs by `mean` levels. Returns the control.
    fn settled(complexity: f64, mean: f64) -> RateControl {
        let mut rate = RateControl::new(Bitrate::from_mbps(10), 60.0);
        rate.opened(Size::new(1280, 720), None);
        for frame in 0..300 {
            let key = frame == 0;
            let difference = Difference { mean, share: 0.9 };
            rate.set_difference((!key).then_some(difference), true);
            let qp = rate.qp(key);
            rate.coded(key, qp, bits(complexity, key, qp));
        }
        rate
    }

    #[test]
    fn a_sudden_picture_is_small_and_the_quality_returns() {
        let share = 10_000_000 / 60;
        for complexity in [2e6, 5e6, 7e6] {
            let mut rate = settled(complexity, 3.0);
            let before = rate.qp(false);
            // A flash takes as many bits as a key frame.
            let mean = 60.0;
            rate.set_difference(Some(Difference { mean, share: 1.0 }), true);
            let qp = rate.qp(false);
            let flash = bits(complexity * 4.0, false, qp);
            assert!(flash <= share * 2, "{complexity}: {flash} at {qp}");
            assert!(bits(complexity * 4.0, false, before) >= share * 3);
            rate.coded(false, qp, flash);
            for frame in 0..60 {
                let mean = 3.0;
                rate.set_difference(Some(Difference { mean, share: 0.9 }), true);
                let qp = rate.qp(false);
                let next = bits(complexity, false, qp);
                assert!(next <= share * 6 / 5, "{complexity}, {frame}: {next}");
                rate.coded(false, qp, next);
            }
            assert!(rate.qp(false).abs_diff(before) <= 1, "{complexity}");
        }
    }

    #[test]
    fn ordinary_variation_does_not_change_the_quantiser() {
        let mut rate = settled(5e6, 3.0);
        let qp = rate.qp(false);
        for mean in [0.1, 1.0, 4.2] {
            rate.set_difference(Some(Difference { mean, share: 1.0 }), true);
            assert_eq!(rate.qp(false), qp, "{mean}");
        }
    }

    /// A finer quantiser also codes the details that the previous, coarser one has left out: if it is finer by 2, the
    /// frame takes 2.2 times the bits, as in the built-in scene.
    #[test]
    fn details_left_out_earlier_do_not_make_the_sizes_oscillate() {
        let mut rate = settled(3e6, 3.0);
        let mut before = rate.qp(false);
        let mut spent = Vec::new();
        for frame in 0..1200 {
            let qp = rate.qp(false);
            let details = 2_f64.powf(0.4 * f64::from(before.saturating_sub(qp)));
            let motion = 1.0 + 0.1 * (f64::from(frame) / 37.0).sin();
            let frame_bits = bits(3e6 * motion * details, false, qp);
            rate.coded(false, qp, frame_bits);
            spent.push(frame_bits);
            before = qp;
        }
        let mean = spent.iter().sum::<u64>() / 1200;
        spent.sort_unstable();
        let p99 = spent[1188];
        assert!(p99 * 10 < mean * 16, "{p99} of {mean} bits");
    }

    /// Every second picture equals the previous one, as in a game that draws 30 frames/s and swaps its buffers 60 times
    /// a second. The equal pictures are only refined.
    #[test]
    fn equal_pictures_do_not_make_the_others_sudden() {
        let mut rate = settled(5e6, 3.0);
        let before = rate.qp(false);
        for frame in 0..600 {
            let equal = frame % 2 == 0;
            let (mean, share) = if equal { (0.0, 0.0) } else { (6.0, 0.9) };
            rate.set_difference(Some(Difference { mean, share }), true);
            let qp = rate.qp(false);
            let refinement = if equal { 0.6 } else { 1.0 };
            rate.coded(false, qp, bits(5e6 * refinement, false, qp));
            // The first pictures differ twice as much as all pictures before them.
            let most = if frame < 8 { 4 } else { 1 };
            assert!(qp <= before + most, "{frame}: {qp}");
        }
    }

    /// The camera of a game turns for a second.
    #[test]
    fn sustained_motion_takes_one_share_per_frame() {
        let share = 10_000_000 / 60;
        let mut rate = settled(2e6, 3.0);
        let mut excess: i64 = 0;
        for frame in 0..60 {
            let mean = 20.0;
            rate.set_difference(Some(Difference { mean, share: 0.9 }), true);
            let qp = rate.qp(false);
            let spent = bits(2e6 * 20.0 / 3.0, false, qp);
            rate.coded(false, qp, spent);
            excess = (excess + spent as i64 - share as i64).max(0);
            assert!(excess < 4 * share as i64, "{frame}: {excess} at {qp}");
        }
    }

    #[test]
    fn a_wide_link_takes_sudden_pictures_as_they_are() {
        let mut rate = settled(5e6, 3.0);
        let before = rate.qp(false);
        let mean = 60.0;
        rate.set_difference(Some(Difference { mean, share: 1.0 }), false);
        assert_eq!(rate.qp(false), before);
    }

    /// On a still desktop, the cost of tiny differences says little about a large difference.
    #[test]
    fn a_new_window_on_a_still_desktop_is_limited_by_its_area() {
        let mut rate = settled(5e4, 0.005);
        assert_eq!(rate.qp(false), 12);
        for (mean, share, at_most) in [(0.2, 0.01, 15), (4.0, 0.1, 24), (40.0, 1.0, 42)] {
            rate.set_difference(Some(Difference { mean, share }), true);
            let qp = rate.qp(false);
            assert!(qp <= at_most, "{share}: {qp}");
            assert_eq!(qp > 12, share > 0.05, "{share}: {qp}");
        }
    }

    #[test]
    fn a_new_target_holds_from_the_next_frame() {
        let mut rate = RateControl::new(Bitrate::from_mbps(20), 60.0);
        for _ in 0..100 {
            let qp = rate.qp(false);
            rate.coded(false, qp, bits(8e6, false, qp));
        }
        rate.retarget(Bitrate::from_mbps(5), 60.0);
        let first = bits(8e6, false, rate.qp(false));
        assert!(first < 2 * 5_000_000 / 60, "{first}");
    }
}
