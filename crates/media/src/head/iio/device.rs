//! The gyroscope and the accelerometer among the IIO devices of a folder, and the conversion of
//! their raw values.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::super::HeadPoseError;
use super::attributes::{self, Changes, parsed};

/// Maximum number of entries read from a folder: each is an attribute or a device (guess).
pub(super) const MAX_ENTRIES: usize = 512;

/// The axes, as in the names of attributes.
pub(super) const AXES: [&str; 3] = ["x", "y", "z"];

/// A kind of sensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// In radians per second.
    Gyroscope,
    /// In m/s².
    Accelerometer,
}

impl Kind {
    /// The prefix of its attributes.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Kind::Gyroscope => "in_anglvel",
            Kind::Accelerometer => "in_accel",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Gyroscope => "gyroscope",
            Kind::Accelerometer => "accelerometer",
        }
    }

    /// The file with the current value of an axis.
    pub(super) fn raw(self, device: &Path, axis: &str) -> PathBuf {
        device.join(format!("{}_{axis}_raw", self.prefix()))
    }

    fn is_in(self, device: &Path) -> bool {
        AXES.iter().all(|axis| self.raw(device, axis).exists())
    }
}

#[derive(Clone, Debug)]
pub(super) struct Sensor {
    pub(super) kind: Kind,
    /// The device's folder.
    pub(super) device: PathBuf,
    pub(super) conversion: Conversion,
}

/// Finds both sensors: in `folder` itself if `folder` is the device of a gyroscope, otherwise in the devices in
/// `folder`. If the gyroscope's device has no accelerometer, the accelerometer of another device is used.
///
/// # Errors
/// Returns an error if one of the two sensors is missing or has attributes that can't be used.
pub(super) fn find(folder: &Path) -> Result<[Sensor; 2], HeadPoseError> {
    let (gyroscope, accelerometer) = match Kind::Gyroscope.is_in(folder) {
        true => {
            let beside = folder.canonicalize().ok();
            let parent = beside.as_deref().and_then(Path::parent);
            let own = Kind::Accelerometer.is_in(folder);
            let beside = || parent.and_then(|parent| first(parent, Kind::Accelerometer));
            let found = own.then(|| folder.to_owned()).or_else(beside);
            (Some(folder.to_owned()), found)
        }
        false => {
            let devices = devices(folder).map_err(|cause| {
                HeadPoseError(format!(
                    "no IIO devices in {}: {cause}; load the sensor's driver, or specify the sensor's folder: --head-pose iio:FOLDER",
                    folder.display()
                ))
            })?;
            let one = |kind: Kind| devices.iter().find(|device| kind.is_in(device)).cloned();
            let gyroscope = one(Kind::Gyroscope);
            // Prefers the accelerometer of the same chip: in the same IIO device, or in an IIO device with the same
            // parent device.
            let accelerometer = gyroscope.as_deref().and_then(|gyroscope| {
                let chip = parent_of(gyroscope);
                let near = |device: &&PathBuf| parent_of(device) == chip;
                let own = Some(gyroscope).filter(|device| Kind::Accelerometer.is_in(device));
                let mut others = devices.iter().filter(|it| Kind::Accelerometer.is_in(it));
                own.map(Path::to_owned)
                    .or_else(|| others.clone().find(near).cloned())
                    .or_else(|| others.next().cloned())
            });
            (gyroscope, accelerometer)
        }
    };
    let missing = |kind: Kind| {
        HeadPoseError(format!(
            "no {} in {}: no device has {}_x_raw, _y_raw and _z_raw; load the sensor's driver (modprobe \
             inv_mpu6050_i2c, \
             st_lsm6dsx_i2c or similar), or specify the sensor's folder: --head-pose iio:FOLDER",
            kind.name(),
            folder.display(),
            kind.prefix()
        ))
    };
    let sensor = |kind: Kind, device: Option<PathBuf>| {
        let device = device.ok_or_else(|| missing(kind))?;
        let conversion = Conversion::read(&device, kind)?;
        Ok(Sensor {
            kind,
            device,
            conversion,
        })
    };
    Ok([
        sensor(Kind::Gyroscope, gyroscope)?,
        sensor(Kind::Accelerometer, accelerometer)?,
    ])
}

fn devices(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let names = attributes::names(folder, MAX_ENTRIES)?;
    Ok(names.iter().map(|name| folder.join(name)).collect())
}

fn first(folder: &Path, kind: Kind) -> Option<PathBuf> {
    let devices = devices(folder).ok()?;
    devices.into_iter().find(|device| kind.is_in(device))
}

fn parent_of(device: &Path) -> Option<PathBuf> {
    Some(device.canonicalize().ok()?.parent()?.to_owned())
}

/// The conversion of raw values to a vector in the axes of the head.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Conversion {
    scale: [f64; 3],
    offset: [f64; 3],
    mount: MountMatrix,
}

impl Conversion {
    fn read(device: &Path, kind: Kind) -> Result<Conversion, HeadPoseError> {
        let prefix = kind.prefix();
        let number = |name: &str| {
            let mut values = [None; 3];
            for (value, axis) in values.iter_mut().zip(AXES) {
                let own = device.join(format!("{prefix}_{axis}_{name}"));
                let shared = device.join(format!("{prefix}_{name}"));
                *value = match parsed::<f64>(&own, "a number")? {
                    Some(value) => Some(value),
                    None => parsed::<f64>(&shared, "a number")?,
                };
            }
            Ok(values)
        };
        let scale = number("scale")?.map(|scale| scale.filter(|v| v.is_finite() && *v != 0.0));
        let [Some(x), Some(y), Some(z)] = scale else {
            return Err(HeadPoseError(format!(
                "{}/{prefix}_scale is missing or zero: the driver does not support this sensor",
                device.display()
            )));
        };
        let offset = number("offset")?.map(|offset| offset.filter(|v| v.is_finite()));
        let matrices = [
            format!("{prefix}_mount_matrix"),
            "in_mount_matrix".to_owned(),
            "mount_matrix".to_owned(),
        ];
        let mut mount = None;
        for name in matrices {
            mount = mount.or(parsed(
                &device.join(name),
                "a rotation such as 1, 0, 0; 0, 1, 0; 0, 0, 1",
            )?);
        }
        Ok(Conversion {
            scale: [x, y, z],
            offset: offset.map(Option::unwrap_or_default),
            mount: mount.unwrap_or(MountMatrix::IDENTITY),
        })
    }

    /// The vector of these raw values.
    #[allow(
        clippy::cast_precision_loss,
        reason = "a sensor's values have far fewer than 53 bits; longer ones would be rounded"
    )]
    pub(super) fn apply(&self, digits: [i64; 3]) -> [f64; 3] {
        let sensor = [0, 1, 2].map(|i| (digits[i] as f64 + self.offset[i]) * self.scale[i]);
        let row = |row: [f64; 3]| row[0] * sensor[0] + row[1] * sensor[1] + row[2] * sensor[2];
        self.mount.0.map(row)
    }
}

/// The rotation from a sensor's axes to the head's, by rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct MountMatrix([[f64; 3]; 3]);

impl MountMatrix {
    /// The sensor's axes are the head's axes.
    const IDENTITY: MountMatrix = MountMatrix([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);

    /// Tolerance for the matrix's determinant and squared row lengths, which should be 1. Values in device trees have
    /// few decimals.
    const TOLERANCE: f64 = 0.05;

    fn determinant(&self) -> f64 {
        let [[a, b, c], [d, e, f], [g, h, i]] = self.0;
        a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    }
}

/// The text is not a rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NotARotation;

impl FromStr for MountMatrix {
    type Err = NotARotation;

    /// Parses `1, 0, 0; 0, 1, 0; 0, 0, 1`. Refuses a mirrored (left-handed) frame, because a gyroscope can't have one.
    fn from_str(text: &str) -> Result<MountMatrix, NotARotation> {
        let row = |text: &str| -> Option<[f64; 3]> {
            let numbers: Result<Vec<f64>, _> = text
                .split(',')
                .map(|number| number.trim().parse())
                .collect();
            numbers.ok()?.try_into().ok()
        };
        let rows: Option<Vec<[f64; 3]>> = text.split(';').map(row).collect();
        let rows = rows
            .and_then(|rows| rows.try_into().ok())
            .ok_or(NotARotation)?;
        let matrix = MountMatrix(rows);
        let lengths = matrix.0.map(|row| row.iter().map(|v| v * v).sum::<f64>());
        let unit = |value: f64| (value - 1.0).abs() <= Self::TOLERANCE;
        let rotates = lengths.into_iter().all(unit) && unit(matrix.determinant());
        rotates.then_some(matrix).ok_or(NotARotation)
    }
}

/// Sets the rate of a sensor to the lowest available rate that is at least `wanted` per second, otherwise to the
/// highest rate. Returns the sensor's rate, if known. Without permission to change the rate, the rate stays unchanged.
pub(super) fn set_rate(sensor: &Sensor, wanted: f64, changes: &mut Changes) -> Option<f64> {
    let (path, rate) = find_rate(sensor, wanted)?;
    if let Some(rate) = rate
        && let Err(cause) = changes.set(path.clone(), &rate)
    {
        let path = path.display();
        tracing::info!("the sensor's sampling rate is unchanged: can't write {path}: {cause}");
    }
    let rate = attributes::read(&path).ok()?.trim().parse::<f64>().ok()?;
    // A rate outside of this range is an error of the driver.
    (0.1..=1e5).contains(&rate).then_some(rate)
}

/// Whether [`set_rate`] would change the rate of a sensor.
pub(super) fn changes_rate(sensor: &Sensor, wanted: f64) -> bool {
    let Some((path, Some(rate))) = find_rate(sensor, wanted) else {
        return false;
    };
    attributes::read(&path).is_ok_and(|now| now.trim() != rate)
}

/// The attribute with the rate of a sensor, and the text of the rate for `wanted` samples per second, if there is a
/// choice.
fn find_rate(sensor: &Sensor, wanted: f64) -> Option<(PathBuf, Option<String>)> {
    let prefix = sensor.kind.prefix();
    let own = format!("{prefix}_sampling_frequency");
    let names = [own.as_str(), "sampling_frequency"];
    let name = names
        .into_iter()
        .find(|name| sensor.device.join(name).exists())?;
    let available = attributes::read(&sensor.device.join(format!("{name}_available")));
    let rate = available.ok().and_then(|text| choose_rate(&text, wanted));
    Some((sensor.device.join(name), rate))
}

/// The text of the lowest available rate that is at least `wanted`, otherwise of the highest rate.
/// `available` is a list `25 50 100`, or a range `[1 1 200]` of minimum, step and maximum.
fn choose_rate(available: &str, wanted: f64) -> Option<String> {
    let text = available.trim();
    if let Some(range) = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
    {
        let numbers: Result<Vec<f64>, _> = range.split_whitespace().map(str::parse).collect();
        let [low, step, high] = numbers.ok()?[..] else {
            return None;
        };
        if !(low.is_finite() && high.is_finite() && step > 0.0 && low <= high) {
            return None;
        }
        let steps = ((wanted - low) / step).ceil().max(0.0);
        return Some(format!("{}", (low + steps * step).min(high)));
    }
    let rates = text.split_whitespace().filter_map(|word| {
        let rate: f64 = word.parse().ok()?;
        (rate.is_finite() && rate > 0.0).then_some((rate, word))
    });
    let enough = rates.clone().filter(|(rate, _)| *rate >= wanted);
    let lowest = enough.min_by(|(a, _), (b, _)| a.total_cmp(b));
    let best = lowest.or_else(|| rates.max_by(|(a, _), (b, _)| a.total_cmp(b)));
    best.map(|(_, word)| word.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_lowest_sufficient_rate_is_chosen() {
        let choose = |available, wanted| choose_rate(available, wanted);
        let list = "12.5 26 52 104 208 416\n";
        assert_eq!(choose(list, 200.0).as_deref(), Some("208"));
        assert_eq!(choose(list, 104.0).as_deref(), Some("104"));
        assert_eq!(choose(list, 9000.0).as_deref(), Some("416"));
        assert_eq!(choose("[4 1 1000]", 199.5).as_deref(), Some("200"));
        assert_eq!(choose("[4 1 100]", 200.0).as_deref(), Some("100"));
        for bad in [
            "",
            "fast",
            "[1 0 2]",
            "[1 2]",
            "nan -1",
            "[nan 1 nan]",
            "[3 1 2]",
        ] {
            assert_eq!(choose(bad, 200.0), None, "{bad}");
        }
    }

    #[test]
    fn a_mount_matrix_rotates() {
        let matrix = "0, 1, 0; -1, 0, 0; 0, 0, 1"
            .parse::<MountMatrix>()
            .expect("a rotation");
        let conversion = Conversion {
            scale: [0.5; 3],
            offset: [2.0, 0.0, 0.0],
            mount: matrix,
        };
        assert_eq!(conversion.apply([8, 4, 2]), [2.0, -5.0, 1.0]);
        for bad in [
            "",
            "1, 0, 0; 0, 1, 0",
            "1, 0, 0; 0, 1, 0; 0, 0",
            "1, 0, 0; 0, 1, 0; 0, 0, -1",
            "2, 0, 0; 0, 1, 0; 0, 0, 1",
            "nan, 0, 0; 0, 1, 0; 0, 0, 1",
            "0, 0, 0; 0, 0, 0; 0, 0, 0",
        ] {
            assert_eq!(bad.parse::<MountMatrix>(), Err(NotARotation), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,60}", wanted: f64) {
            let _ = text.parse::<MountMatrix>();
            let _ = choose_rate(&text, wanted);
        }
    }
}
