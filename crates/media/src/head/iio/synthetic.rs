//! Synthetic sensors for tests: the readings of an inertial sensor with known motion and the errors
//! of cheap sensors, generated from a seed.

use std::f64::consts::{PI, TAU};

use openuvr_proto::rotation::Rotation;

/// Standard gravity in m/s².
const GRAVITY: f64 = 9.806_65;

/// The motion of the sensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Motion {
    /// The sensor lies still.
    Rest,
    /// A head that looks around from second 5 to second 50, and rests before and after that time.
    LookAround,
}

/// A sensor with noise, offset and quantisation.
#[derive(Clone, Debug)]
pub(super) struct Sensor {
    /// Samples per second.
    pub(super) rate: f64,
    /// The gyroscope's offset in radians per second.
    pub(super) offset: [f64; 3],
    /// Standard deviation of the gyroscope in radians per second.
    gyroscope_noise: f64,
    /// Standard deviation of the accelerometer in m/s².
    accelerometer_noise: f64,
    motion: Motion,
    samples: u32,
    orientation: Rotation,
    state: u64,
}

/// Radians per second per raw unit: ±500° per second in 16 bits.
pub(super) const GYROSCOPE_SCALE: f64 = 500.0 / 32768.0 * PI / 180.0;

/// m/s² per raw unit: ±4 g in 16 bits.
pub(super) const ACCELEROMETER_SCALE: f64 = 4.0 * GRAVITY / 32768.0;

impl Sensor {
    /// An MPU-6050 with an offset of 0.5° per second. Its noise is taken from the data sheet
    /// (revision 3.4, sections 6.1 and 6.2), over 100 Hz. The noise of an LSM6DS3 is not larger.
    pub(super) fn mpu6050(rate: f64, motion: Motion, seed: u64) -> Sensor {
        let offset = 0.5 * PI / 180.0;
        Sensor {
            rate,
            offset: [offset, -offset, offset],
            gyroscope_noise: 0.05 * PI / 180.0,
            accelerometer_noise: 0.04,
            motion,
            samples: 0,
            orientation: Rotation::NONE,
            state: seed,
        }
    }

    /// Seconds since the start.
    pub(super) fn time(&self) -> f64 {
        f64::from(self.samples) / self.rate
    }

    /// The true orientation.
    pub(super) fn orientation(&self) -> Rotation {
        self.orientation
    }

    /// The next angular velocity and acceleration, as read.
    pub(super) fn sample(&mut self) -> ([f64; 3], [f64; 3]) {
        let (rate, acceleration) = self.digits();
        let scaled = |digits: [i16; 3], scale: f64| digits.map(|digit| f64::from(digit) * scale);
        (
            scaled(rate, GYROSCOPE_SCALE),
            scaled(acceleration, ACCELEROMETER_SCALE),
        )
    }

    /// The next sample as raw values.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a sensor's raw values are integers, too"
    )]
    pub(super) fn digits(&mut self) -> ([i16; 3], [i16; 3]) {
        let (time, step) = (self.time(), 1.0 / self.rate);
        let (turn, shake) = self.moves(time);
        self.samples += 1;
        self.orientation = self
            .orientation
            .after(Rotation::around(turn.map(|v| (v * step) as f32)));
        let down = self.orientation.inverse().turn([0.0, GRAVITY as f32, 0.0]);
        let rate = [0, 1, 2].map(|axis| {
            let read = turn[axis] + self.offset[axis] + self.noise() * self.gyroscope_noise;
            (read / GYROSCOPE_SCALE).round() as i16
        });
        let acceleration = [0, 1, 2].map(|axis| {
            let read =
                f64::from(down[axis]) + shake[axis] + self.noise() * self.accelerometer_noise;
            (read / ACCELEROMETER_SCALE).round() as i16
        });
        (rate, acceleration)
    }

    /// Angular velocity and acceleration of the motion at a time.
    fn moves(&self, time: f64) -> ([f64; 3], [f64; 3]) {
        if self.motion == Motion::Rest || !(5.0..50.0).contains(&time) {
            return ([0.0; 3], [0.0; 3]);
        }
        let swing = |degrees: f64, hertz: f64| (degrees * PI / 180.0) * (TAU * hertz * time).sin();
        let push = |hertz: f64| 0.5 * (TAU * hertz * time).sin();
        (
            [swing(40.0, 0.4), swing(90.0, 0.2), swing(15.0, 0.6)],
            [push(1.5), push(2.0), push(1.1)],
        )
    }

    /// A number of the standard normal distribution (Box–Muller).
    fn noise(&mut self) -> f64 {
        let (radius, angle) = (self.uniform(), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (TAU * angle).cos()
    }

    /// A number in (0, 1] by `SplitMix64`.
    #[allow(clippy::cast_precision_loss, reason = "53 bits are exact")]
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 + f64::EPSILON
    }
}
