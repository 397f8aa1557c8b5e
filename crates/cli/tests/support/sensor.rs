//! A recorded inertial sensor: a folder with the files of Linux IIO, and a FIFO in place of the character device.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::process::Command;

use openuvr_clock as clock;

use super::{Folder, eventually};

/// Radians a second of a digit: 1000° a second in 16 bits.
const SCALE: f64 = 1000.0 / 32768.0 / 180.0 * std::f64::consts::PI;

/// Samples a second.
const RATE: f64 = 200.0;

/// Nanoseconds between samples.
const PERIOD: i64 = 5_000_000;

/// A sensor whose samples the test writes.
pub(crate) struct Sensor {
    folder: Folder,
    samples: File,
    /// The time of the next sample.
    stamp: i64,
}

impl Sensor {
    /// An upright sensor at rest.
    pub(crate) fn new() -> Sensor {
        let folder = Folder::new();
        let device = folder.path().join("iio:device0");
        for name in ["scan_elements", "buffer"] {
            fs::create_dir_all(device.join(name)).expect("a temporary folder");
        }
        let write = |name: &str, text: &str| {
            fs::write(device.join(name), format!("{text}\n")).expect("a temporary folder");
        };
        for (name, text) in [
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
        ] {
            write(name, text);
        }
        let mut index = 0;
        for sensor in ["in_accel", "in_anglvel"] {
            for axis in ["x", "y", "z"] {
                let channel = format!("scan_elements/{sensor}_{axis}");
                write(&format!("{sensor}_{axis}_raw"), "0");
                write(&format!("{channel}_en"), "0");
                write(&format!("{channel}_index"), &index.to_string());
                write(&format!("{channel}_type"), "le:s16/16>>0");
                index += 1;
            }
        }
        let fifo = device.join("samples");
        let made = Command::new("mkfifo").arg(&fifo).status();
        assert!(made.expect("mkfifo is there").success());
        // Opened for reading and writing: the client may open it at any time.
        let samples = OpenOptions::new().read(true).write(true).open(fifo);
        Sensor {
            folder,
            samples: samples.expect("the test's FIFO"),
            stamp: clock::now().0,
        }
    }

    /// The argument of `--head-pose`.
    pub(crate) fn spec(&self) -> String {
        format!("iio:{}", self.folder.path().display())
    }

    /// The value of an attribute.
    pub(crate) fn attribute(&self, name: &str) -> String {
        let path = self.folder.path().join("iio:device0").join(name);
        let text = fs::read_to_string(path).expect("it exists");
        text.trim().to_owned()
    }

    /// Turns by these degrees to the left, in steps of a sample; gravity stays along y. Returns when the client has
    /// used all samples.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the angles of the tests are small"
    )]
    pub(crate) fn turn_left(&mut self, degrees: f64) {
        // At most 500° a second, with whole digits.
        let steps = (degrees.abs() / 500.0 * RATE).ceil().max(1.0);
        let digits = degrees.to_radians() * RATE / steps / SCALE;
        for step in 0..steps as u32 {
            // The rounding of the digits is that of their sum.
            let sum = |step: u32| (digits * f64::from(step)).round();
            self.sample((sum(step + 1) - sum(step)) as i16);
        }
        self.wait_until_read();
        // It is read after the others were used, and changes nothing.
        self.sample(0);
        self.wait_until_read();
    }

    fn wait_until_read(&self) {
        eventually("the client reads the sensor", || {
            let unread = rustix::io::ioctl_fionread(&self.samples).expect("a FIFO");
            (unread == 0).then_some(())
        });
    }

    /// Writes a sample with this angular velocity around the vertical axis.
    fn sample(&mut self, digits: i16) {
        let words = [0, 9807, 0, 0, digits, 0];
        let mut scan: Vec<u8> = words.into_iter().flat_map(i16::to_le_bytes).collect();
        scan.extend([0; 4]);
        scan.extend(self.stamp.to_le_bytes());
        self.samples.write_all(&scan).expect("room in the FIFO");
        self.stamp += PERIOD;
    }
}
