//! The buffer of an IIO device: its set-up in sysfs, and the scans of its character device.
//!
//! The scans come from `/dev/NAME`, where `NAME` is the name of the device's folder (`iio:device0`). In a recording,
//! they come from a file or FIFO named `samples` in that folder; a sysfs folder has no such file. A recording in a
//! regular file is read at the sensor's rate.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use openuvr_proto::time::Instant;

use super::attributes::{self, Changes};
use super::device::{AXES, Kind, MAX_ENTRIES};
use super::scan::{Channel, Layout, SampleType, Scan};

/// Number of scans in the kernel's buffer: a third of a second at 200 Hz, and 64 ms at the highest rate. If the reading
/// thread is late by more than this, scans are lost, because the kernel drops new scans while the buffer is full.
const LENGTH: &str = "64";

/// Bytes read in one call: 170 scans of six words and a timestamp.
const READ: usize = 4096;

/// Maximum age of a timestamp of this machine's monotonic clock. An older timestamp comes from a
/// different clock or from a recording.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The scans of a device.
pub(super) struct Stream {
    file: File,
    /// The attribute that enables the buffer.
    switch: PathBuf,
    layout: Layout,
    /// Bytes of an incomplete scan.
    pending: Vec<u8>,
    /// Seconds between samples, if known.
    period: Option<f64>,
    stamp: Option<i64>,
    arrival: Option<Instant>,
    /// The time at which the next scan of a recording in a regular file is due.
    due: Option<Instant>,
}

/// The time at which a scan was sampled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Timing {
    /// On the monotonic clock.
    pub(super) at: Instant,
    /// Seconds since the previous scan.
    pub(super) step: f64,
}

impl Stream {
    /// Sets up the buffer of a device that has these sensors. `period` is the number of seconds
    /// between samples, if known.
    ///
    /// # Errors
    /// Returns the reason, for a message. `changes` contains the changes made so far.
    pub(super) fn open(
        device: &Path,
        kinds: &[Kind],
        period: Option<f64>,
        changes: &mut Changes,
    ) -> Result<Stream, String> {
        let enable = device.join("buffer/enable");
        match attributes::read(&enable) {
            Ok(text) if text.trim() == "0" => {}
            Ok(_) => {
                let enable = enable.display();
                return Err(format!(
                    "another program uses the buffer ({enable} is not 0): stop that \
                     program (systemctl stop iio-sensor-proxy)"
                ));
            }
            Err(cause) => return Err(format!("can't read {}: {cause}", enable.display())),
        }
        // A missing attribute is not an error: the time of arrival is used instead.
        let _ = changes.set(device.join("current_timestamp_clock"), "monotonic");
        let layout = enable_channels(device, kinds, changes)?;
        let mut set = |path: PathBuf, value: &str| {
            let shown = path.display().to_string();
            let changed = changes.set(path, value);
            changed.map_err(|cause| format!("can't write {value:?} to {shown}: {cause}"))
        };
        if let Some(trigger) = missing_trigger(device) {
            set(device.join("trigger/current_trigger"), &trigger)?;
        }
        set(device.join("buffer/length"), LENGTH)?;
        // Devices without a hardware queue do not have this attribute.
        let _ = set(device.join("buffer/watermark"), "1");
        set(enable.clone(), "1")?;
        let path = node(device);
        let (file, regular) =
            open_node(&path).map_err(|cause| format!("can't open {}: {cause}", path.display()))?;
        Ok(Stream {
            file,
            switch: enable,
            layout,
            pending: Vec::with_capacity(READ),
            period,
            stamp: None,
            arrival: None,
            due: regular.then_some(Instant(i64::MIN)),
        })
    }

    /// Whether the scans come from a regular file.
    pub(super) fn is_recording(&self) -> bool {
        self.due.is_some()
    }

    /// Enables or disables the buffer. In any case, the buffer is disabled when the `changes` of [`Stream::open`] are
    /// dropped.
    ///
    /// # Errors
    /// Returns the reason, for a message.
    pub(super) fn enable(&self, on: bool) -> Result<(), String> {
        let value = if on { "1" } else { "0" };
        let path = self.switch.display();
        attributes::write(&self.switch, value)
            .map_err(|cause| format!("can't write {value} to {path}: {cause}"))
    }

    /// Sets the number of seconds between samples, if known.
    pub(super) fn set_period(&mut self, period: Option<f64>) {
        self.period = period;
    }

    /// The descriptor to wait for, or the time until which to wait.
    pub(super) fn readiness(&self) -> Result<&File, Instant> {
        self.due.map_or(Ok(&self.file), Err)
    }

    /// Reads once, without waiting, and passes on each scan.
    ///
    /// # Errors
    /// Returns an error if the device is gone, or if the recording has ended.
    pub(super) fn read(
        &mut self,
        now: Instant,
        mut take: impl FnMut(Scan, Timing),
    ) -> io::Result<()> {
        let size = self.layout.size();
        let mut buffer = [0; READ];
        let mut room = READ - READ % size;
        if let Some(due) = &mut self.due {
            if now < *due {
                return Ok(());
            }
            room = size;
            let period = self.period.unwrap_or(super::USUAL_PERIOD);
            *due = now + Duration::from_secs_f64(period);
        }
        let room = buffer.get_mut(..room).unwrap_or_default();
        let read = match rustix::io::read(&self.file, &mut *room) {
            Ok(read) => read,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.pending.extend_from_slice(&room[..read]);
        let complete = self.pending.len() / size;
        for n in 0..complete {
            let scan = self.layout.decode(&self.pending[n * size..]);
            let timing = self.timing(scan.timestamp, now, complete - 1 - n);
            take(scan, timing);
        }
        self.pending.drain(..complete * size);
        Ok(())
    }

    /// The time of a scan with this timestamp. `later` is the number of scans that follow this scan in the same read.
    fn timing(&mut self, stamp: Option<i64>, now: Instant, later: usize) -> Timing {
        let between = |a: Option<i64>, b: Option<i64>| {
            let step = Duration::from_nanos(u64::try_from(b?.checked_sub(a?)?).ok()?);
            let usable = !step.is_zero() && step <= super::MAX_STEP;
            usable.then_some(step.as_secs_f64())
        };
        let arrival = between(self.arrival.map(|at| at.0), Some(now.0));
        let step = between(self.stamp, stamp).or(self.period).or(arrival);
        let step = step.unwrap_or(super::USUAL_PERIOD);
        (self.stamp, self.arrival) = (stamp.or(self.stamp), Some(now));
        let own = stamp
            .map(Instant)
            .filter(|at| *at <= now && now.since(*at) <= MAX_AGE);
        let behind = u32::try_from(later).unwrap_or(0);
        let behind = Duration::from_secs_f64(step)
            .saturating_mul(behind)
            .min(MAX_AGE);
        let at = own
            .unwrap_or(Instant(now.0.saturating_sub_unsigned(
                u64::try_from(behind.as_nanos()).unwrap_or(0),
            )));
        Timing { at, step }
    }
}

/// Enables the channels of these sensors and the timestamp, and disables all other channels.
fn enable_channels(device: &Path, kinds: &[Kind], changes: &mut Changes) -> Result<Layout, String> {
    let folder = device.join("scan_elements");
    let names = attributes::names(&folder, MAX_ENTRIES)
        .map_err(|cause| format!("can't list {}: {cause}", folder.display()))?;
    let wanted = |name: &str| {
        let axes = kinds
            .iter()
            .flat_map(|kind| (0..3).map(|axis| (*kind, axis)));
        let mut named = axes.filter(|(kind, axis)| {
            name.strip_prefix(kind.prefix()) == Some(format!("_{}", AXES[*axis]).as_str())
        });
        match named.next() {
            Some((Kind::Gyroscope, axis)) => Some(Channel::Gyroscope(axis)),
            Some((Kind::Accelerometer, axis)) => Some(Channel::Accelerometer(axis)),
            None => (name == "in_timestamp").then_some(Channel::Timestamp),
        }
    };
    let mut channels = Vec::new();
    for name in names.iter().filter_map(|name| name.strip_suffix("_en")) {
        let channel = wanted(name);
        let path = folder.join(format!("{name}_en"));
        let shown = path.display().to_string();
        let value = if channel.is_some() { "1" } else { "0" };
        let changed = changes.set(path, value);
        changed.map_err(|cause| format!("can't write {value} to {shown}: {cause}"))?;
        let Some(channel) = channel else { continue };
        let attribute = |suffix: &str| {
            let path = folder.join(format!("{name}_{suffix}"));
            let text = attributes::read(&path);
            let text = text.map_err(|cause| format!("can't read {}: {cause}", path.display()))?;
            Ok::<_, String>((path.display().to_string(), text.trim().to_owned()))
        };
        let (path, index) = attribute("index")?;
        let index = index
            .parse()
            .map_err(|_| format!("{path} contains {index:?} instead of a number"))?;
        let (path, text) = attribute("type")?;
        let kind: SampleType = text
            .parse()
            .map_err(|e| format!("{path} contains {text:?}: {e}"))?;
        if !kind.is_scalar() {
            return Err(format!(
                "{path} contains {text:?}: each sample of an axis must be a single number"
            ));
        }
        channels.push((index, channel, kind));
    }
    let axes = channels
        .iter()
        .filter(|(_, channel, _)| *channel != Channel::Timestamp);
    if axes.count() != kinds.len() * 3 {
        return Err(format!("{} lacks an axis of the sensor", folder.display()));
    }
    Layout::new(channels).ok_or_else(|| format!("the scans of {} are too large", device.display()))
}

/// The name of the device's own trigger (`NAME-devN`, as drivers name it), if the device needs a trigger and none is
/// set.
fn missing_trigger(device: &Path) -> Option<String> {
    let current = attributes::read(&device.join("trigger/current_trigger")).ok()?;
    if !current.trim().is_empty() {
        return None;
    }
    let name = attributes::read(&device.join("name")).ok()?;
    let number = device.file_name()?.to_str()?.strip_prefix("iio:device")?;
    let own = format!("{}-dev{number}", name.trim());
    let devices = device.parent()?;
    let names = attributes::names(devices, MAX_ENTRIES).ok()?;
    let triggers = names.iter().filter(|name| name.starts_with("trigger"));
    let mut triggers =
        triggers.filter_map(|name| attributes::read(&devices.join(name).join("name")).ok());
    triggers.any(|name| name.trim() == own).then_some(own)
}

/// The file with the scans of a device.
fn node(device: &Path) -> PathBuf {
    let recorded = device.join("samples");
    match (recorded.exists(), device.file_name()) {
        (false, Some(name)) => Path::new("/dev").join(name),
        _ => recorded,
    }
}

/// Opens the file without blocking. The second value states whether it is a regular file.
fn open_node(path: &Path) -> io::Result<(File, bool)> {
    let kind = std::fs::metadata(path)?.file_type();
    let mut options = OpenOptions::new();
    // A FIFO that is also open for writing in this process does not end when its writer closes it.
    options.read(true).write(kind.is_fifo());
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    options.custom_flags(flags.cast_signed());
    Ok((options.open(path)?, kind.is_file()))
}
