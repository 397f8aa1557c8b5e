//! The current values of a sensor, read one at a time from `*_raw`. This is for devices without a buffer, and for users
//! without permission to set up the buffer.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use super::super::HeadPoseError;
use super::attributes::unreadable;
use super::device::{AXES, Sensor};

/// Maximum length of a value: a sign, ten digits, the line end, and a reserve.
const MAX_TEXT: usize = 32;

/// The files of a sensor's axes. They stay open: each read of a sysfs file from its start measures again.
pub(super) struct RawAxes([(PathBuf, File); 3]);

impl RawAxes {
    /// Opens the files.
    ///
    /// # Errors
    /// [`HeadPoseError`] if a file can't be opened.
    pub(super) fn open(sensor: &Sensor) -> Result<RawAxes, HeadPoseError> {
        let open = |axis: &str| {
            let path = sensor.kind.raw(&sensor.device, axis);
            let file = File::open(&path).map_err(|cause| unreadable(&path, &cause))?;
            Ok((path, file))
        };
        let [x, y, z] = AXES;
        Ok(RawAxes([open(x)?, open(y)?, open(z)?]))
    }

    /// Measures the values. `None` if a value is being written at this moment, or if a signal interrupts the
    /// measurement.
    ///
    /// # Errors
    /// [`HeadPoseError`] if the device is gone, or if a file does not contain a number.
    pub(super) fn read(&self) -> Result<Option<[i64; 3]>, HeadPoseError> {
        let mut values = [0; 3];
        for (value, (path, file)) in values.iter_mut().zip(&self.0) {
            let mut text = [0; MAX_TEXT];
            let read = match file.read_at(&mut text, 0) {
                Ok(0) => return Ok(None),
                Ok(read) => read,
                Err(e) if e.kind() == ErrorKind::Interrupted => return Ok(None),
                Err(cause) => return Err(unreadable(path, &cause)),
            };
            let text = text.get(..read).and_then(|text| str::from_utf8(text).ok());
            let number = text.and_then(|text| text.trim().parse().ok());
            *value = number.ok_or_else(|| {
                HeadPoseError(format!(
                    "{} does not contain a whole number; check the sensor's driver (dmesg)",
                    path.display()
                ))
            })?;
        }
        Ok(Some(values))
    }
}
