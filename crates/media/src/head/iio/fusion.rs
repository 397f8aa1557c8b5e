//! The orientation of a head from a gyroscope and an accelerometer.
//!
//! The filter is VQF (D. Laidig, T. Seel, "VQF: Highly accurate IMU orientation estimation with bias estimation and magnetic
//! disturbance rejection", Information Fusion 91, 2023), without a magnetometer: gravity corrects pitch and roll, rest
//! corrects the gyroscope's offset, and yaw drifts with the remaining error. VQF handles offsets of up to 2° per second;
//! [`RestDetector`] measures a larger offset beforehand.
//!
//! Sensor axes are the axes of IIO's mount matrix (`Documentation/devicetree/bindings/iio/mount-matrix.txt`): x to the
//! right, y up, z towards the viewer. A head's axes in OpenXR are the same. Position and linear velocity are not
//! measured.
//!
//! This module has no clock; the duration of each sample is an argument.

use openuvr_proto::pose::Pose;
use openuvr_proto::rotation::Rotation;
use vqf_rs::VQF;

use super::super::recentre::{AHEAD, heading};
use super::rest::{RestDetector, Window};

/// A residual offset above this limit, in radians per second around one axis, is taken from [`RestDetector`]. The limit
/// is half of VQF's limit of 2° per second.
const LARGE_OFFSET: f64 = std::f64::consts::PI / 180.0;

/// Uncertainty of an offset measured at rest, in radians per second: 0.03° per second, the value that VQF uses for a
/// rest.
const OFFSET_SIGMA: f64 = 0.03 * std::f64::consts::PI / 180.0;

/// The state of the filter.
pub(super) struct Fusion {
    filter: VQF,
    detector: RestDetector,
    /// The gyroscope's offset, which the filter refines.
    offset: [f64; 3],
    measured: bool,
    /// Whether gravity is known. Without gravity, there is no orientation.
    level: bool,
    /// Rotates the filter's frame so that the first pose looks ahead.
    heading: Option<Rotation>,
    /// The orientation at the start of the current window of the detector.
    window_start: Rotation,
}

impl Fusion {
    /// A filter for these sampling intervals in seconds.
    #[must_use]
    pub(super) fn new(gyroscope: f64, accelerometer: f64) -> Fusion {
        Fusion {
            filter: VQF::new(gyroscope, Some(accelerometer), None, None),
            detector: RestDetector::default(),
            offset: [0.0; 3],
            measured: false,
            level: false,
            heading: None,
            window_start: Rotation::NONE,
        }
    }

    /// Continues with other sampling intervals in seconds. Orientation, offset and heading are kept.
    pub(super) fn set_periods(&mut self, gyroscope: f64, accelerometer: f64) {
        let mut filter = VQF::new(gyroscope, Some(accelerometer), None, None);
        let now = *filter.coeffs();
        let state = filter.state_mut();
        *state = *self.filter.state();
        settle(&mut state.acc_lp_state, now.acc_lp_b, now.acc_lp_a);
        let motion = &mut state.motion_bias_est_rlp_state;
        settle(motion, now.acc_lp_b, now.acc_lp_a);
        let motion = &mut state.motion_bias_est_bias_lp_state;
        settle(motion, now.acc_lp_b, now.acc_lp_a);
        let rest = &mut state.rest_gyr_lp_state;
        settle(rest, now.rest_gyr_lp_b, now.rest_gyr_lp_a);
        let rest = &mut state.rest_acc_lp_state;
        settle(rest, now.rest_acc_lp_b, now.rest_acc_lp_a);
        self.filter = filter;
    }

    /// Processes an acceleration in m/s². Values that are zero, too large or not finite are ignored.
    pub(super) fn accelerate(&mut self, acceleration: [f64; 3]) {
        if is_usable(acceleration) && acceleration != [0.0; 3] {
            self.detector.accelerate(acceleration);
            self.filter.update_acc(acceleration);
            self.level = true;
        }
    }

    /// Processes an angular velocity in radians per second, `step` seconds after the previous value. Values that are
    /// too large or not finite are ignored.
    pub(super) fn turn(&mut self, rate: [f64; 3], step: f64) {
        if !is_usable(rate) {
            return;
        }
        let rest = [0, 1, 2].map(|axis| rate[axis] - self.offset[axis]);
        self.filter.update_gyr_with_ts(rest, step);
        if let Some(window) = self.detector.turn(rate, step) {
            if let Window::Rest { offset } = window {
                self.adopt(offset);
            }
            self.window_start = self.rotation();
        }
    }

    /// Uses the offset of the first window of rest. Uses the offset of a later window only if this offset differs so
    /// much from the current offset that the filter could not find it. The head did not turn in a window of rest, so
    /// the heading at the start of the window is restored.
    fn adopt(&mut self, offset: [f64; 3]) {
        let far = |axis: usize| (offset[axis] - self.offset[axis]).abs() > LARGE_OFFSET;
        if self.measured && !(0..3).any(far) {
            return;
        }
        self.measured = true;
        self.offset = offset;
        self.filter.set_bias_estimate([0.0; 3], Some(OFFSET_SIGMA));
        let turned = self.rotation().after(self.window_start.inverse());
        if let Some(heading) = &mut self.heading {
            *heading = heading.after(around_up(turned).inverse());
        }
    }

    /// The pose after the newest samples, with the angular velocity derived from the measured `rate` in radians per second.
    /// `None` before the first acceleration.
    #[must_use]
    pub(super) fn pose(&mut self, rate: [f64; 3]) -> Option<Pose> {
        let (refined, _) = self.filter.bias_estimate();
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the seven digits of an f32 are enough"
        )]
        let rate = [0, 1, 2].map(|axis| (rate[axis] - self.offset[axis] - refined[axis]) as f32);
        self.turning(rate)
    }

    /// The pose of a head that does not turn. `None` before the first acceleration.
    #[must_use]
    pub(super) fn pose_at_rest(&mut self) -> Option<Pose> {
        self.turning([0.0; 3])
    }

    /// The pose with an angular velocity in radians per second, around the sensor's axes.
    fn turning(&mut self, rate: [f32; 3]) -> Option<Pose> {
        if !self.level {
            return None;
        }
        let rotation = self.rotation();
        let heading = *self.heading.get_or_insert_with(|| ahead(rotation));
        let rotation = heading.after(rotation);
        let pose = Pose::new([0.0; 3], rotation.0).ok()?;
        pose.moving(None, Some(rotation.turn(rate))).ok()
    }

    /// The orientation in the filter's frame, with y up.
    fn rotation(&self) -> Rotation {
        let found = self.filter.quat_6d();
        #[allow(clippy::cast_possible_truncation, reason = "between -1 and 1")]
        let [w, x, y, z] = [found.0, found.1, found.2, found.3].map(|v| v as f32);
        // The filter's frame has z up.
        let upright = Rotation::around([-std::f32::consts::FRAC_PI_2, 0.0, 0.0]);
        upright.after(Rotation([x, y, z, w]))
    }
}

/// Sets the states of second-order low-pass filters (transposed direct form II) after a change of their coefficients,
/// so that the outputs do not jump. Each filter is then in its steady state for its last output. The last output is
/// close to the first state, because the first coefficient is small. A filter whose first state is NaN still computes
/// its initial mean.
fn settle(states: &mut [[f64; 2]], b: [f64; 3], a: [f64; 2]) {
    if states.first().is_none_or(|first| first[0].is_nan()) {
        return;
    }
    for state in states {
        let output = state[0];
        *state = [output * (1.0 - b[0]), output * (b[2] - a[1])];
    }
}

/// Whether a vector is finite, and small enough to be squared.
fn is_usable(vector: [f64; 3]) -> bool {
    vector.iter().all(|v| v.abs() < 1e6)
}

/// The part of a rotation around the vertical axis (swing-twist decomposition).
fn around_up(rotation: Rotation) -> Rotation {
    let [_, y, _, w] = rotation.0;
    let length = y.hypot(w);
    match length > 1e-6 {
        true => Rotation([0.0, y / length, 0.0, w / length]),
        false => Rotation::NONE,
    }
}

/// The rotation around the vertical axis after which a head looks ahead. If the head looks almost straight up or down,
/// its upper side determines the direction.
fn ahead(rotation: Rotation) -> Rotation {
    let direction = rotation.turn(AHEAD);
    heading(direction).unwrap_or_else(|| {
        let upper = rotation.turn([0.0, 1.0, 0.0]);
        heading(upper.map(|v| -v * direction[1].signum())).unwrap_or(Rotation::NONE)
    })
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{Motion, Sensor};
    use super::*;

    /// Maximum drift of an orientation at the end of a minute, in degrees.
    const MOST: f32 = 1.0;

    /// The angle between the true orientation and the orientation that the filter finds after `seconds`.
    fn error_after(mut sensor: Sensor, seconds: f64) -> (f32, Fusion) {
        let step = 1.0 / sensor.rate;
        let mut fusion = Fusion::new(step, step);
        let mut last = None;
        while sensor.time() < seconds {
            let (rate, acceleration) = sensor.sample();
            fusion.turn(rate, step);
            fusion.accelerate(acceleration);
            last = fusion.pose(rate);
        }
        let found = Rotation::of(&last.expect("a pose"));
        let off = found.after(sensor.orientation().inverse()).vector();
        let degrees = off.iter().map(|v| v * v).sum::<f32>().sqrt().to_degrees();
        (degrees, fusion)
    }

    #[test]
    fn the_orientation_drifts_by_at_most_a_degree_a_minute() {
        for rate in [104.0, 200.0] {
            for seed in 0..8 {
                for motion in [Motion::Rest, Motion::LookAround] {
                    let sensor = Sensor::mpu6050(rate, motion, seed);
                    let (error, _) = error_after(sensor, 60.0);
                    println!("{rate} Hz, {motion:?}, seed {seed}: {error:.3}° after a minute");
                    assert!(error <= MOST, "{rate} Hz, {motion:?}, {seed}: {error}°");
                }
            }
        }
    }

    #[test]
    fn other_sampling_intervals_do_not_turn_the_head() {
        for seed in 0..4 {
            let mut sensor = Sensor::mpu6050(400.0, Motion::LookAround, seed);
            let mut fusion = Fusion::new(1.0 / 200.0, 1.0 / 200.0);
            // For half a minute, 200 samples per second, each the mean of two readings; then 400 samples per second.
            let mut pose = None;
            while sensor.time() < 30.0 {
                let (first, second) = (sensor.sample(), sensor.sample());
                let mean = |a: [f64; 3], b: [f64; 3]| [0, 1, 2].map(|i| f64::midpoint(a[i], b[i]));
                let rate = mean(first.0, second.0);
                fusion.turn(rate, 1.0 / 200.0);
                fusion.accelerate(mean(first.1, second.1));
                pose = fusion.pose(rate);
            }
            let apart = |pose: &Option<Pose>, other: Rotation| {
                let found = Rotation::of(&pose.expect("a pose"));
                let off = found.after(other.inverse()).vector();
                off.iter().map(|v| v * v).sum::<f32>().sqrt().to_degrees()
            };
            let before = Rotation::of(&pose.expect("a pose"));
            fusion.set_periods(1.0 / 400.0, 1.0 / 400.0);
            let jump = apart(&fusion.pose([0.0; 3]), before);
            assert!(jump < 1e-3, "{seed}: {jump}°");
            while sensor.time() < 60.0 {
                let (rate, acceleration) = sensor.sample();
                fusion.turn(rate, 1.0 / 400.0);
                fusion.accelerate(acceleration);
                pose = fusion.pose(rate);
            }
            let error = apart(&pose, sensor.orientation());
            assert!(error <= MOST, "{seed}: {error}°");
        }
    }

    #[test]
    fn a_large_offset_is_measured_at_the_first_rest() {
        for seed in 0..4 {
            let mut sensor = Sensor::mpu6050(104.0, Motion::Rest, seed);
            sensor.offset = [0.3, -0.25, 0.2];
            let (error, fusion) = error_after(sensor, 60.0);
            assert!(error <= MOST, "{error}°");
            assert!(fusion.measured && fusion.filter.rest_detected());
        }
    }

    #[test]
    fn an_offset_that_jumps_is_measured_again() {
        let mut sensor = Sensor::mpu6050(104.0, Motion::Rest, 3);
        let step = 1.0 / sensor.rate;
        let mut fusion = Fusion::new(step, step);
        let mut turned = |sensor: &mut Sensor, seconds: f64| {
            let until = sensor.time() + seconds;
            let mut pose = None;
            while sensor.time() < until {
                let (rate, acceleration) = sensor.sample();
                fusion.turn(rate, step);
                fusion.accelerate(acceleration);
                pose = fusion.pose(rate);
            }
            Rotation::of(&pose.expect("a pose")).vector()[1].to_degrees()
        };
        turned(&mut sensor, 5.0);
        sensor.offset = [0.0, 0.2, 0.0];
        let after = turned(&mut sensor, 5.0);
        let later = turned(&mut sensor, 30.0);
        assert!((later - after).abs() < 0.5, "{after} {later}");
    }

    #[test]
    fn a_turn_has_its_direction_and_its_velocity() {
        let mut fusion = Fusion::new(0.01, 0.01);
        let up = [0.0, 9.81, 0.0];
        assert_eq!(fusion.pose([0.0; 3]), None, "gravity is unknown");
        fusion.accelerate(up);
        let first = fusion.pose([0.0; 3]).expect("a pose");
        assert!(Rotation::of(&first).vector().iter().all(|v| v.abs() < 1e-4));
        // A quarter of a turn to the left in half a second.
        let rate = [0.0, std::f64::consts::PI, 0.0];
        for _ in 0..50 {
            fusion.turn(rate, 0.01);
            fusion.accelerate(up);
        }
        let pose = fusion.pose(rate).expect("a pose");
        let looks = Rotation::of(&pose).turn([0.0, 0.0, -1.0]);
        assert!(looks[0] < -0.99, "{looks:?}");
        let velocity = pose.angular_velocity().expect("measured");
        assert!(
            (velocity[1] - std::f32::consts::PI).abs() < 0.05,
            "{velocity:?}"
        );
        assert_eq!(pose.linear_velocity(), None);
    }

    #[test]
    fn the_first_pose_looks_ahead_in_any_position() {
        for gravity in [
            [0.0, 9.81, 0.0],
            [9.81, 0.0, 0.0],
            [0.0, 0.0, 9.81],
            [0.0, 0.0, -9.81],
        ] {
            let mut fusion = Fusion::new(0.01, 0.01);
            fusion.accelerate(gravity);
            let rotation = Rotation::of(&fusion.pose([0.0; 3]).expect("a pose"));
            let (looks, up) = (
                rotation.turn([0.0, 0.0, -1.0]),
                rotation.turn([0.0, 1.0, 0.0]),
            );
            assert!(
                looks[0].abs() < 1e-3 && looks[2] < 1e-3,
                "{gravity:?} {looks:?}"
            );
            assert!(up[0].abs() < 1.001 && up[1] > -1e-3, "{gravity:?} {up:?}");
        }
    }

    #[test]
    fn unusable_values_change_nothing() {
        let mut fusion = Fusion::new(0.01, 0.01);
        fusion.accelerate([0.0, 9.81, 0.0]);
        let before = fusion.pose([0.0; 3]);
        for bad in [f64::NAN, f64::INFINITY, 1e300] {
            fusion.turn([bad, 0.0, 0.0], 0.01);
            fusion.accelerate([0.0, bad, 0.0]);
        }
        assert_eq!(fusion.pose([0.0; 3]), before);
        assert_eq!(fusion.pose([f64::NAN, 0.0, 0.0]), None);
    }
}
