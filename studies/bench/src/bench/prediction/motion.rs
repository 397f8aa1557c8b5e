//! Head motion: generated from a seed, or read from a file.

use anyhow::{Context as _, Result, ensure};
use openuvr_proto::motion::Velocity;
use openuvr_proto::pose::Pose;
use openuvr_proto::rotation::Rotation;

use super::angle;

/// Standard deviations of the tracker's noise, in radians and in metres.
const NOISE: (f64, f64) = (0.02 * std::f64::consts::PI / 180.0, 0.0002);

/// Number of poses per second in a generated motion. Between them, poses are interpolated.
const STEPS: f64 = 1000.0;

/// A head pose: position in metres; yaw, pitch and roll in radians.
#[derive(Clone, Copy, Debug)]
pub(super) struct EulerPose {
    at: [f64; 3],
    turned: [f64; 3],
}

#[allow(clippy::cast_possible_truncation, reason = "poses have seven digits")]
fn three(v: [f64; 3]) -> [f32; 3] {
    v.map(|v| v as f32)
}

impl EulerPose {
    fn rotation(&self) -> Rotation {
        let [yaw, pitch, roll] = three(self.turned);
        Rotation::of_head(yaw, pitch, roll)
    }

    pub(super) fn pose(&self) -> Option<Pose> {
        let Rotation(orientation) = self.rotation();
        Pose::new(three(self.at), orientation).ok()
    }

    /// The error of a predicted pose, in degrees and millimetres.
    pub(super) fn from(&self, at: [f32; 3], turned: Rotation) -> (f64, f64) {
        let apart = (self.at.iter().zip(at)).map(|(a, b)| (a - f64::from(b)).powi(2));
        let metres = apart.sum::<f64>().sqrt();
        (angle(self.rotation(), turned), metres * 1e3)
    }

    fn between(&self, other: &EulerPose, part: f64) -> EulerPose {
        let mixed = |a: [f64; 3], b: [f64; 3]| [0, 1, 2].map(|i| a[i] + (b[i] - a[i]) * part);
        EulerPose {
            at: mixed(self.at, other.at),
            turned: mixed(self.turned, other.turned),
        }
    }
}

/// Head poses at increasing times.
pub(super) struct Motion(Vec<(f64, EulerPose)>);

impl Motion {
    /// Parses a motion of lines `seconds,x,y,z,yaw,pitch,roll`. Empty lines and comments (`#`) are skipped.
    pub(super) fn read(text: &str) -> Result<Motion> {
        let mut places: Vec<(f64, EulerPose)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let words = line.split(',').map(|word| word.trim().parse::<f64>());
            let words: Result<Vec<f64>, _> = words.collect();
            let words = words.with_context(|| format!("line {number}"))?;
            let finite = words.iter().all(|v| v.is_finite());
            ensure!(
                words.len() == 7 && finite,
                "line {number}: expected seven numbers"
            );
            let later = places.last().is_none_or(|(before, _)| words[0] > *before);
            ensure!(later, "line {number}: seconds must increase");
            let place = EulerPose {
                at: [words[1], words[2], words[3]],
                turned: [words[4], words[5], words[6]].map(f64::to_radians),
            };
            places.push((words[0], place));
        }
        ensure!(places.len() >= 2, "expected at least two lines");
        // Unwrap the angles: from 359 to 1 degrees is a turn by 2 degrees.
        for i in 1..places.len() {
            let before = places[i - 1].1.turned;
            for (angle, before) in places[i].1.turned.iter_mut().zip(before) {
                let whole = std::f64::consts::TAU;
                *angle -= ((*angle - before) / whole).round() * whole;
            }
        }
        Ok(Motion(places))
    }

    /// A deterministic motion that rests, turns, sways and leans.
    pub(super) fn generated(seconds: f64) -> Motion {
        let mut random = Random(1);
        let mut turns = Turns::new(0.0);
        let mut places = Vec::new();
        let mut step = 0_u32;
        loop {
            let now = f64::from(step) / STEPS;
            step += 1;
            if now > seconds {
                return Motion(places);
            }
            if now >= turns.until {
                turns = turns.next(&mut random);
            }
            let sway = |hertz: f64, millimetres: f64| {
                (now * hertz * std::f64::consts::TAU).sin() * millimetres / 1e3
            };
            let [yaw, pitch, lean] = turns.at(now);
            let place = EulerPose {
                at: [
                    lean + sway(0.31, 4.0),
                    1.65 + sway(0.27, 3.0),
                    sway(0.43, 5.0),
                ],
                // A turning head tilts slightly.
                turned: [yaw, pitch, yaw * 0.05 + sway(0.37, 6.0)],
            };
            places.push((now, place));
        }
    }

    pub(super) fn seconds(&self) -> f64 {
        let ends = self.0.first().zip(self.0.last());
        ends.map_or(0.0, |(first, last)| last.0 - first.0)
    }

    /// The pose at this time; `None` before the start of the motion, and at its end or later.
    pub(super) fn at(&self, at: f64) -> Option<EulerPose> {
        let next = self.0.partition_point(|(when, _)| *when <= at);
        let ((from, before), (to, after)) = (self.0.get(next.checked_sub(1)?)?, self.0.get(next)?);
        Some(before.between(after, (at - from) / (to - from)))
    }

    /// The velocity that a tracker with a gyroscope would measure.
    pub(super) fn velocity(&self, at: f64) -> Velocity {
        const APART: f64 = 0.002;
        let places = self.at(at - APART / 2.0).zip(self.at(at + APART / 2.0));
        let poses = places.and_then(|(a, b)| a.pose().zip(b.pose()));
        #[allow(clippy::cast_possible_truncation, reason = "a constant")]
        poses.map_or(Velocity::default(), |(a, b)| {
            Velocity::between(&a, &b, APART as f32)
        })
    }

    /// A tracker's samples, `rate` per second.
    pub(super) fn tracked(&self, rate: f64) -> Vec<(f64, EulerPose)> {
        let mut random = Random(2);
        let first = self.0.first().map_or(0.0, |(at, _)| *at);
        let mut samples = Vec::new();
        for n in 0_u32.. {
            let at = first + f64::from(n) / rate;
            let Some(mut place) = self.at(at) else { break };
            place.turned = place.turned.map(|v| v + random.normal() * NOISE.0);
            place.at = place.at.map(|v| v + random.normal() * NOISE.1);
            samples.push((at, place));
        }
        samples
    }
}

/// A turn of the head, and the pause after the turn.
struct Turns {
    begins: f64,
    lasts: f64,
    until: f64,
    /// The start of the turn: yaw and pitch in radians, and sideways lean in metres. `to` is its end.
    from: [f64; 3],
    to: [f64; 3],
}

impl Turns {
    fn new(at: f64) -> Turns {
        Turns {
            begins: at,
            lasts: 0.1,
            until: at + 1.0,
            from: [0.0; 3],
            to: [0.0; 3],
        }
    }

    fn next(&self, random: &mut Random) -> Turns {
        let degrees = random.within(10.0, 80.0);
        // Turn back to the front if the limit is near.
        let side = match self.to[0] {
            yaw if yaw > 0.9 => -1.0,
            yaw if yaw < -0.9 => 1.0,
            _ if random.within(0.0, 1.0) < 0.5 => -1.0,
            _ => 1.0,
        };
        // The maximum speed of a minimum-jerk turn is 1.875 times its average speed.
        let lasts = degrees * 1.875 / random.within(100.0, 300.0);
        let begins = self.until;
        Turns {
            begins,
            lasts,
            until: begins + lasts + random.within(0.2, 1.5),
            from: self.to,
            to: [
                self.to[0] + side * degrees.to_radians(),
                random.within(-20.0, 15.0).to_radians(),
                random.within(-0.1, 0.1),
            ],
        }
    }

    /// A minimum-jerk profile (Flash and Hogan 1985).
    fn at(&self, now: f64) -> [f64; 3] {
        let t = ((now - self.begins) / self.lasts).clamp(0.0, 1.0);
        let part = t.powi(3) * (10.0 - 15.0 * t + 6.0 * t * t);
        [0, 1, 2].map(|i| self.from[i] + (self.to[i] - self.from[i]) * part)
    }
}

/// Random numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        #[allow(clippy::cast_precision_loss, reason = "53 bits are left")]
        let unit = ((z ^ (z >> 31)) >> 11) as f64;
        unit / (1_u64 << 53) as f64
    }

    fn within(&mut self, low: f64, high: f64) -> f64 {
        low + self.unit() * (high - low)
    }

    /// A number with the standard normal distribution (Box-Muller transform).
    fn normal(&mut self) -> f64 {
        let (a, b) = (self.unit().max(1e-12), self.unit());
        (-2.0 * a.ln()).sqrt() * (b * std::f64::consts::TAU).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_read_and_interpolated() {
        let motion = Motion::read("# head\n0,0,1,0,350,0,0\n1,1,1,0,10,0,0\n").unwrap();
        let half = motion.at(0.5).unwrap();
        assert!((half.at[0] - 0.5).abs() < 1e-9);
        // The interpolation passes through 0 degrees, not through 180 degrees.
        assert!((half.turned[0].to_degrees() - 360.0).abs() < 1e-9);
        assert!(motion.at(-0.1).is_none() && motion.at(1.0).is_none());
        for bad in [
            "",
            "0,0,0,0,0,0,0",
            "0,0,0,0,0,0,0\n0,0,0,0,0,0,0",
            "1,x",
            "0,0\n1,0",
        ] {
            assert!(Motion::read(bad).is_err(), "{bad:?}");
        }
    }
}
