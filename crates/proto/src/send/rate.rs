//! Rate control: one quantiser per frame, no look-ahead.
//!
//! x264's own rate control takes time before the first slice: 1.0 ms at 720p and 2.0 ms at 1080p (measured on one
//! core). With the constant quantisers that this controller chooses, x264 does not need this time. There is no limit
//! within a frame, so key-frame sizes are predicted and kept near three times the size of other frames. With a fixed
//! GOP size, or many requested key frames, all frames get fewer bits, so that the mean stays the same.

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
/// Decrease of the quantiser number that halves the quantiser step (ITU-T H.264, section 8.5) and roughly doubles the
/// bits.
const QP_PER_OCTAVE: f64 = 6.0;
/// The correction of the error per frame, and its limits (measured: settles within six frames on a game's
/// clip without oscillation).
const GAIN: f64 = 0.6;
const STEP_DOWN: f64 = -2.0;
const STEP_UP: f64 = 6.0;
/// Number of frames over which an excess of bits is compensated.
const DEBT_FRAMES: f64 = 30.0;

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
            small_key: false,
        }
    }

    /// Handles a new encoder for pictures of this size, with GOP size `key_every` (`None` for key frames only on
    /// request). The key-frame size is then estimated from the picture size again.
    pub fn opened(&mut self, size: Size, key_every: Option<u32>) {
        self.key_size = Some((size.pixels().max(1) as f64).log2() + KEY_PIXEL);
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
        let shares = if is_large { KEY_FRAME_SHARE } else { 1.0 };
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
            _ => self.qp,
        };
        #[expect(clippy::cast_possible_truncation, reason = "it is within 12–51")]
        let qp = qp.clamp(QP_MIN, QP_MAX).round() as u8;
        qp
    }

    /// Records that a frame was coded with `qp` and took `bits` on the wire, including headers.
    pub fn coded(&mut self, key_frame: bool, qp: u8, bits: u64) {
        let bits = (bits as f64).max(1.0);
        self.debt = (self.debt + bits - self.mean).clamp(-self.mean, self.mean * DEBT_FRAMES);
        let error = QP_PER_OCTAVE * (bits / self.goal(key_frame)).log2();
        let key_frames_only = std::mem::replace(&mut self.after_key, key_frame) && key_frame;
        if key_frame {
            self.key_size = Some(bits.log2() + f64::from(qp) / QP_PER_OCTAVE);
            self.small_key = false;
            // If a picture exceeds the share of a key frame, it probably also exceeds the share of another frame.
            self.qp = (self.qp).max(f64::from(qp) - QP_PER_OCTAVE + error.max(0.0));
            if !key_frames_only {
                return;
            }
        }
        // Consecutive key frames do not show that other frames need coarser quantisers. They may only make the
        // quantisers finer, which is necessary on an idle link.
        let most = if key_frame { 0.0 } else { STEP_UP };
        let step = GAIN * error.clamp(STEP_DOWN, most);
        self.qp = (self.qp + step).clamp(QP_MIN, QP_MAX);
    }
}

/// Margin for oscillation, so that the mean stays below the target (measured: within 0.5 % over 20 s of the
/// built-in scene).
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
