//! A head pose source that reads an inertial sensor of this machine: a gyroscope and an accelerometer of Linux's
//! industrial I/O subsystem (IIO), such as an MPU-6050 or LSM6DS3 of a Raspberry Pi.
//!
//! ```text
//! FOLDER/iio:device0   in_anglvel_*, in_accel_*    attributes
//!                      scan_elements, buffer       the buffer's set-up
//!                      samples                     a recording in place of /dev/iio:device0
//! ```
//! If the devices have buffers that this user may set up, samples come from the buffers, at a rate that follows the
//! host's requests (`rate.rs`). Otherwise, samples come from `*_raw`, which is read at a fixed rate and also at the
//! times requested by the host (`schedule.rs`). The newest of the samples that are read together becomes a pose at
//! once. Changed attributes are restored when the source is dropped. There is no magnetometer, so yaw drifts by up to a
//! degree per minute.
//!
//! Specification: `Documentation/ABI/testing/sysfs-bus-iio` and `Documentation/iio` of Linux.

mod attributes;
mod buffer;
mod device;
mod fusion;
mod health;
mod polled;
mod rate;
mod rest;
pub mod scan;
#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::display::RefreshTiming;
use openuvr_proto::pose::Pose;
use openuvr_proto::time::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::attributes::Changes;
use self::buffer::{Stream, Timing};
use self::device::{Kind, Sensor};
use self::fusion::Fusion;
use self::health::{Change, Flood, Health, Symptom};
use self::polled::RawAxes;
use self::rate::{RateRequest, USUAL_RATE};
use self::scan::Scan;
use super::schedule::{SAMPLING_INTERVAL, Schedule};
use super::{Backend, HeadPose, HeadPoseError, HeadPoseSource};

/// The kernel's folder of IIO devices.
pub const DEFAULT_FOLDER: &str = "/sys/bus/iio/devices";

/// Seconds between samples of a sensor whose rate is unknown.
const USUAL_PERIOD: f64 = 1.0 / USUAL_RATE;

/// Maximum time between two samples of a motion; a longer time is an interruption (guess).
const MAX_STEP: Duration = Duration::from_millis(250);

/// The table entry.
pub const BACKEND: Backend = Backend {
    name: "iio",
    argument: "folder",
    open: |folder| {
        let folder = match folder {
            "" => DEFAULT_FOLDER,
            folder => folder,
        };
        let source = Box::new(Iio::open(Path::new(folder))?);
        Ok(HeadPose {
            source,
            input: None,
        })
    },
};

/// Reads a gyroscope and an accelerometer.
pub struct Iio {
    input: Input,
    tracker: Tracker,
    schedule: Schedule,
    request: RateRequest,
    /// Changes to the attributes, undone on drop after the files are closed: first the changes to the buffers, then the
    /// changes to the rates. Drivers refuse to change the rate while a buffer is enabled.
    changes: [Changes; 2],
}

/// The origin of the samples.
enum Input {
    /// The buffers of one device or of two.
    Buffers(Vec<Stream>),
    /// The current values of the gyroscope and the accelerometer, and the time of the last measurement.
    Polled([RawAxes; 2], Option<Instant>),
}

impl Iio {
    /// Finds the sensors in `folder`, or in its devices, and starts them.
    ///
    /// # Errors
    /// [`HeadPoseError`] if a sensor is missing or can't be read.
    pub fn open(folder: &Path) -> Result<Iio, HeadPoseError> {
        let sensors = device::find(folder)?;
        let mut rates = Changes::default();
        let periods = [&sensors[0], &sensors[1]]
            .map(|sensor| device::set_rate(sensor, USUAL_RATE, &mut rates).map(f64::recip));
        let mut buffers = Changes::default();
        let (input, interval) = match open_buffers(&sensors, periods, &mut buffers) {
            Ok(streams) => (Input::Buffers(streams), None),
            Err(why) => {
                // Dropping the changes restores the buffers' attributes.
                drop(std::mem::take(&mut buffers));
                tracing::info!(
                    "the sensor's values are read one at a time, without its buffer: {why}"
                );
                let axes = [RawAxes::open(&sensors[0])?, RawAxes::open(&sensors[1])?];
                // If the first measurement fails, opening fails.
                for axes in &axes {
                    axes.read()?;
                }
                (
                    Input::Polled(axes, None),
                    Some(SAMPLING_INTERVAL.as_secs_f64()),
                )
            }
        };
        let [gyroscope, accelerometer] =
            periods.map(|period| interval.or(period).unwrap_or(USUAL_PERIOD));
        Ok(Iio {
            input,
            tracker: Tracker {
                fusion: Fusion::new(gyroscope, accelerometer),
                health: Health::new(clock::now()),
                device: sensors[0].device.clone(),
                sensors,
            },
            schedule: Schedule::default(),
            request: RateRequest::default(),
            changes: [buffers, rates],
        })
    }

    /// Sets the rate of sensors with buffers for a host that samples a pose once per `period`.
    fn follow(&mut self, period: Duration) {
        let Input::Buffers(streams) = &mut self.input else {
            return;
        };
        // A recording in a file has a single rate.
        if streams.iter().any(Stream::is_recording) {
            return;
        }
        let Some(wanted) = self.request.update(period) else {
            return;
        };
        let sensors = &self.tracker.sensors;
        if !sensors.iter().any(|it| device::changes_rate(it, wanted)) {
            return;
        }
        // Drivers refuse to change the rate while a buffer is enabled.
        for stream in streams.iter() {
            if let Err(cause) = stream.enable(false) {
                tracing::info!("the sensor's sampling rate is unchanged: {cause}");
            }
        }
        let [_, rates] = &mut self.changes;
        let periods = [&sensors[0], &sensors[1]]
            .map(|sensor| device::set_rate(sensor, wanted, rates).map(f64::recip));
        for (stream, period) in streams.iter_mut().zip(periods) {
            stream.set_period(period);
            if let Err(cause) = stream.enable(true) {
                tracing::warn!(
                    "head tracking stops, because the sensor's buffer can't be enabled again: {cause}; restart the client"
                );
            }
        }
        let [gyroscope, accelerometer] = periods.map(|period| period.unwrap_or(USUAL_PERIOD));
        self.tracker.fusion.set_periods(gyroscope, accelerometer);
    }

    /// Waits for samples, at most until `until`, and reads them. Returns the newest pose.
    fn read(&mut self, until: Instant) -> Result<Option<(Pose, Instant)>, HeadPoseError> {
        match &mut self.input {
            Input::Buffers(streams) => {
                wait_for_one(streams, until);
                let mut newest = None;
                for stream in streams {
                    let now = clock::now();
                    let mut flood = None;
                    let taken = stream.read(now, |scan, timing| {
                        match self.tracker.scan(scan, timing, now) {
                            Ok(pose) => newest = pose.map(|pose| (pose, timing.at)).or(newest),
                            Err(e) => flood = Some(e),
                        }
                    });
                    taken.map_err(|cause| self.tracker.ended(&cause))?;
                    flood.map_or(Ok(()), |flood| Err(self.tracker.floods(flood)))?;
                }
                Ok(newest)
            }
            Input::Polled(axes, last) => {
                let due = last.map_or(clock::now(), |last| self.schedule.after(last));
                std::thread::sleep(due.min(until).since(clock::now()));
                let now = clock::now();
                if now < due {
                    return Ok(None);
                }
                let since = last
                    .replace(now)
                    .map_or(SAMPLING_INTERVAL, |last| now.since(last));
                let scan = Scan {
                    gyroscope: axes[0].read()?,
                    accelerometer: axes[1].read()?,
                    timestamp: None,
                };
                let step = match since <= MAX_STEP {
                    true => since,
                    false => SAMPLING_INTERVAL,
                };
                let timing = Timing {
                    at: now,
                    step: step.as_secs_f64(),
                };
                let pose = self.tracker.scan(scan, timing, now);
                let pose = pose.map_err(|flood| self.tracker.floods(flood))?;
                Ok(pose.map(|pose| (pose, now)))
            }
        }
    }
}

impl HeadPoseSource for Iio {
    fn next(&mut self, timeout: Duration) -> Result<Option<(Pose, Instant)>, HeadPoseError> {
        let until = clock::now() + timeout;
        loop {
            if let Some(pose) = self.read(until)? {
                return Ok(Some(pose));
            }
            let now = clock::now();
            let change = self.tracker.health.silence(now);
            self.tracker.report(change);
            if now >= until {
                return Ok(None);
            }
        }
    }

    /// Polled sensors are also read at the `wanted` times, because they have no timing of their own. For sensors with
    /// buffers, only the sampling rate is adapted.
    fn aim(&mut self, wanted: Option<RefreshTiming<Instant>>) {
        self.schedule.aim(wanted);
        if let Some(wanted) = wanted {
            self.follow(wanted.period);
        }
    }
}

/// Sets up a buffer for each sensor, or a single buffer if both sensors belong to one device.
fn open_buffers(
    sensors: &[Sensor; 2],
    periods: [Option<f64>; 2],
    changes: &mut Changes,
) -> Result<Vec<Stream>, String> {
    let [gyroscope, accelerometer] = sensors;
    if gyroscope.device == accelerometer.device {
        let both = [Kind::Gyroscope, Kind::Accelerometer];
        return Ok(vec![Stream::open(
            &gyroscope.device,
            &both,
            periods[0],
            changes,
        )?]);
    }
    let mut open =
        |sensor: &Sensor, period| Stream::open(&sensor.device, &[sensor.kind], period, changes);
    Ok(vec![
        open(gyroscope, periods[0])?,
        open(accelerometer, periods[1])?,
    ])
}

/// Waits until a stream has scans, at most until `until`.
fn wait_for_one(streams: &[Stream], until: Instant) {
    let ready = streams.iter().map(Stream::readiness);
    let until = ready
        .clone()
        .filter_map(Result::err)
        .fold(until, Instant::min);
    let mut fds: Vec<PollFd<'_>> = ready
        .filter_map(Result::ok)
        .map(|file| PollFd::new(file, PollFlags::IN))
        .collect();
    // If `poll` is interrupted, the caller reads anyway.
    let left = Timespec::try_from(until.since(clock::now())).ok();
    let _ = poll(&mut fds, left.as_ref());
}

/// Converts scans to poses. It has no clock.
struct Tracker {
    fusion: Fusion,
    health: Health,
    sensors: [Sensor; 2],
    /// The gyroscope's device, for messages.
    device: PathBuf,
}

impl Tracker {
    /// The pose after a scan; `None` without the gyroscope's values or before gravity is known.
    fn scan(&mut self, scan: Scan, timing: Timing, now: Instant) -> Result<Option<Pose>, Flood> {
        if let Some(raw) = scan.gyroscope {
            let change = self.health.sample(raw, now)?;
            self.report(change);
        }
        let [gyroscope, accelerometer] = &self.sensors;
        let rate = scan.gyroscope.map(|raw| gyroscope.conversion.apply(raw));
        // The value of a stuck sensor is not an angular velocity. If the fusion used it, the view would not stop
        // turning.
        let stuck = self.health.is_stuck();
        if let Some(rate) = rate
            && !stuck
        {
            self.fusion.turn(rate, timing.step);
        }
        if let Some(raw) = scan.accelerometer {
            self.fusion.accelerate(accelerometer.conversion.apply(raw));
        }
        Ok(rate.and_then(|rate| match stuck {
            true => self.fusion.pose_at_rest(),
            false => self.fusion.pose(rate),
        }))
    }

    /// Logs the start or the end of a fault.
    fn report(&self, change: Option<Change>) {
        let device = self.device.display();
        match change {
            Some(Change::Failed(Symptom::Silent)) => tracing::warn!(
                "the sensor {device} has sent nothing for 2 s: check its cable and its driver (dmesg)"
            ),
            Some(Change::Failed(Symptom::Stuck(value))) => tracing::warn!(
                "the sensor {device} hangs and only repeats the value {value:?}, so the view does not turn: reload its driver"
            ),
            Some(Change::Recovered) => tracing::info!("the sensor {device} works again"),
            None => {}
        }
    }

    fn ended(&self, cause: &std::io::Error) -> HeadPoseError {
        let device = self.device.display();
        HeadPoseError(match cause.kind() {
            std::io::ErrorKind::UnexpectedEof => format!("the samples of {device} have ended"),
            _ => format!("can't read samples of {device}: {cause}; was the sensor removed?"),
        })
    }

    fn floods(&self, flood: Flood) -> HeadPoseError {
        let device = self.device.display();
        HeadPoseError(format!(
            "the sensor {device} sends {flood}; lower its sampling_frequency"
        ))
    }
}
