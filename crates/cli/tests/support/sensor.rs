//! A recorded inertial sensor: a folder with the files of Linux IIO, and a FIFO in place of the character device.

use std::fs::{self, File};
use std::io::Write as _;

use openuvr_clock as clock;
use openuvr_testbed::inertial::{self, DEVICE, PERIOD};

use super::{Folder, eventually};

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
        let samples = inertial::make(folder.path()).expect("a temporary folder");
        Sensor {
            folder,
            samples,
            stamp: clock::now().0,
        }
    }

    /// The argument of `--head-pose`.
    pub(crate) fn spec(&self) -> String {
        format!("iio:{}", self.folder.path().display())
    }

    /// The value of an attribute.
    pub(crate) fn attribute(&self, name: &str) -> String {
        let path = self.folder.path().join(DEVICE).join(name);
        let text = fs::read_to_string(path).expect("it exists");
        text.trim().to_owned()
    }

    /// Turns the sensor by these degrees to the left, one sample at a time. Returns when the client has used all
    /// samples.
    pub(crate) fn turn_left(&mut self, degrees: f64) {
        for digits in inertial::turn_left(degrees) {
            self.sample(digits);
        }
        self.wait_until_read();
        // When the client has read this sample, it has used all earlier samples. The sample itself changes nothing.
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
        let scan = inertial::sample(digits, self.stamp);
        self.samples.write_all(&scan).expect("room in the FIFO");
        self.stamp += PERIOD;
    }
}
