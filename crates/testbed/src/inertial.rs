//! The files of an inertial sensor in the form of Linux IIO, and the sensor's samples.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// The angular velocity of one digit (the unit of raw samples), in radians per second: 16 bits represent ±1000° per
/// second.
const SCALE: f64 = 1000.0 / 32768.0 / 180.0 * std::f64::consts::PI;

/// Samples per second.
const RATE: f64 = 200.0;

/// Nanoseconds between samples.
pub const PERIOD: i64 = 5_000_000;

/// The folder of the sensor among those of all devices.
pub const DEVICE: &str = "iio:device0";

/// Makes an upright sensor at rest in `folder`, as [`DEVICE`]. Returns the FIFO that replaces the character device. It
/// is open for reading and writing, so that a client may open and close it at any time.
///
/// # Errors
/// Returns an error if a file cannot be made.
pub fn make(folder: &Path) -> io::Result<File> {
    let device = folder.join(DEVICE);
    for name in ["scan_elements", "buffer"] {
        fs::create_dir_all(device.join(name))?;
    }
    for (name, text) in attributes() {
        fs::write(device.join(name), format!("{text}\n"))?;
    }
    let fifo = device.join("samples");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    OpenOptions::new().read(true).write(true).open(fifo)
}

/// The attributes of an upright sensor at rest: for each one, its file in the device's folder, and the file's text.
pub fn attributes() -> Vec<(String, String)> {
    let mut attributes: Vec<(String, String)> = [
        ("name", "recorded"),
        ("sampling_frequency", "200"),
        ("current_timestamp_clock", "monotonic"),
        ("buffer/enable", "0"),
        ("buffer/length", "2"),
        ("in_anglvel_scale", &SCALE.to_string()),
        ("in_accel_scale", "0.001"),
        ("scan_elements/in_timestamp_en", "0"),
        ("scan_elements/in_timestamp_index", "6"),
        ("scan_elements/in_timestamp_type", "le:s64/64>>0"),
    ]
    .map(|(name, text)| (name.to_owned(), text.to_owned()))
    .into();
    let channels = ["in_accel", "in_anglvel"]
        .into_iter()
        .flat_map(|sensor| ["x", "y", "z"].map(|axis| format!("{sensor}_{axis}")));
    for (index, channel) in channels.enumerate() {
        let element = format!("scan_elements/{channel}");
        attributes.extend([
            (format!("{channel}_raw"), "0".to_owned()),
            (format!("{element}_en"), "0".to_owned()),
            (format!("{element}_index"), index.to_string()),
            (format!("{element}_type"), "le:s16/16>>0".to_owned()),
        ]);
    }
    attributes
}

/// The samples of a turn to the left by `degrees`. Each sample is an angular velocity in digits.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the angles of the tests are small"
)]
pub fn turn_left(degrees: f64) -> Vec<i16> {
    // The turn has at most 500° per second. Its angular velocities are whole digits.
    let steps = (degrees.abs() / 500.0 * RATE).ceil().max(1.0);
    let digits = degrees.to_radians() * RATE / steps / SCALE;
    // The sums are rounded, not the samples, so that rounding errors do not add up.
    let sum = |step: u32| (digits * f64::from(step)).round();
    (0..steps as u32)
        .map(|step| (sum(step + 1) - sum(step)) as i16)
        .collect()
}

/// A sample with this angular velocity around the vertical axis, in digits; gravity stays along y.
pub fn sample(digits: i16, stamp: i64) -> Vec<u8> {
    let words = [0, 9807, 0, 0, digits, 0];
    let mut scan: Vec<u8> = words.into_iter().flat_map(i16::to_le_bytes).collect();
    scan.extend([0; 4]);
    scan.extend(stamp.to_le_bytes());
    scan
}
