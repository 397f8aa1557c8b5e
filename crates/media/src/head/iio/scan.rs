//! The samples of an IIO buffer: their type, their position in a scan, and their value.
//!
//! A scan holds one sample of each enabled channel, in the order of `scan_elements/*_index`. Each sample is aligned to
//! its own size. The size of the scan is rounded up to a multiple of its largest sample's size, as in
//! `iio_compute_scan_bytes` (`drivers/iio/industrialio-buffer.c`). The syntax of `*_type` is specified in
//! `Documentation/ABI/testing/sysfs-bus-iio`.

use std::str::FromStr;

/// Maximum size of a scan: 32 channels of eight bytes, more than an inertial sensor has (guess).
const MAX_SCAN: usize = 256;

/// The type of a sample, as in `le:s16/16>>0`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampleType {
    big_endian: bool,
    signed: bool,
    /// Number of significant bits: at least 1. The sum of `bits` and `shift` is at most the size in bits.
    bits: u32,
    /// Size of a value in bytes: 1, 2, 4 or 8.
    bytes: usize,
    /// Number of bits below the significant bits.
    shift: u32,
    /// Number of values in the sample: 1, except for quaternions and similar types.
    repeat: usize,
}

/// The text is not a sample type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a sample type such as le:s16/16>>0")]
pub struct InvalidType;

impl FromStr for SampleType {
    type Err = InvalidType;

    fn from_str(text: &str) -> Result<SampleType, InvalidType> {
        parse(text.trim()).ok_or(InvalidType)
    }
}

/// Parses `[be|le]:[s|u]BITS/STORAGE[Xrepeat][>>SHIFT]`.
fn parse(text: &str) -> Option<SampleType> {
    let (order, rest) = text.split_once(':')?;
    let big_endian = match order {
        "be" => true,
        "le" => false,
        _ => return None,
    };
    let (bits, rest) = rest.split_once('/')?;
    let (signed, bits) = match bits.split_at_checked(1)? {
        ("s", bits) => (true, bits),
        ("u", bits) => (false, bits),
        _ => return None,
    };
    let (storage, shift) = rest.split_once(">>").unwrap_or((rest, "0"));
    let (storage, repeat) = storage.split_once('X').unwrap_or((storage, "1"));
    let bits = digits(bits)?;
    let bytes = match digits(storage)? {
        8 => 1,
        16 => 2,
        32 => 4,
        64 => 8,
        _ => return None,
    };
    let (shift, repeat) = (digits(shift)?, digits(repeat)?);
    let fits = bits >= 1 && bits + shift <= bytes * 8 && repeat >= 1 && repeat * bytes <= 128;
    fits.then_some(SampleType {
        big_endian,
        signed,
        bits: u32::try_from(bits).ok()?,
        bytes,
        shift: u32::try_from(shift).ok()?,
        repeat,
    })
}

/// Parses up to three digits without a sign. `FromStr` alone would accept a sign.
fn digits(text: &str) -> Option<usize> {
    let plain = text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

impl SampleType {
    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes * self.repeat
    }

    /// Whether a sample consists of a single value.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        self.repeat == 1
    }

    /// The first value in `bytes`; `None` if there are too few bytes. An unsigned value beyond the range of `i64` is
    /// reduced to the maximum of `i64`.
    #[must_use]
    pub fn decode(&self, bytes: &[u8]) -> Option<i64> {
        let bytes = bytes.get(..self.bytes)?;
        let join = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
        let word = match self.big_endian {
            true => bytes.iter().fold(0, join),
            false => bytes.iter().rev().fold(0, join),
        };
        let above = 64 - self.bits;
        let word = (word >> self.shift) << above;
        Some(match self.signed {
            true => word.cast_signed() >> above,
            false => i64::try_from(word >> above).unwrap_or(i64::MAX),
        })
    }
}

/// A channel of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channel {
    /// Angular velocity around x, y or z (0 to 2).
    Gyroscope(usize),
    /// Acceleration along x, y or z (0 to 2).
    Accelerometer(usize),
    /// The time of the scan in nanoseconds.
    Timestamp,
    /// A different channel, which is skipped.
    Other,
}

/// The raw values of a scan. A sensor's values are present if the scan has all of the sensor's axes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scan {
    /// Angular velocity.
    pub gyroscope: Option<[i64; 3]>,
    /// Acceleration.
    pub accelerometer: Option<[i64; 3]>,
    /// Nanoseconds on the clock of the device's timestamps.
    pub timestamp: Option<i64>,
}

/// The layout of a device's scans.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    channels: Vec<(Channel, SampleType, usize)>,
    size: usize,
}

impl Layout {
    /// The layout of the enabled channels, each with its index; `None` if the scan is empty or larger
    /// than an inertial sensor's.
    #[must_use]
    pub fn new(mut channels: Vec<(u32, Channel, SampleType)>) -> Option<Layout> {
        channels.sort_by_key(|(index, ..)| *index);
        let (mut end, mut largest) = (0_usize, 1);
        let mut placed = Vec::new();
        for (_, channel, kind) in channels {
            let at = end.next_multiple_of(kind.size());
            placed.push((channel, kind, at));
            end = at + kind.size();
            largest = largest.max(kind.size());
            if end > MAX_SCAN {
                return None;
            }
        }
        let size = end.next_multiple_of(largest);
        (size > 0).then_some(Layout {
            channels: placed,
            size,
        })
    }

    /// Size of a scan in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The values of a scan. If there are too few `bytes`, values are missing.
    #[must_use]
    pub fn decode(&self, bytes: &[u8]) -> Scan {
        let (mut gyroscope, mut accelerometer) = ([None; 3], [None; 3]);
        let mut timestamp = None;
        for (channel, kind, at) in &self.channels {
            let value = bytes.get(*at..).and_then(|bytes| kind.decode(bytes));
            match channel {
                Channel::Gyroscope(axis) => gyroscope[*axis] = value,
                Channel::Accelerometer(axis) => accelerometer[*axis] = value,
                Channel::Timestamp => timestamp = value,
                Channel::Other => {}
            }
        }
        let all = |axes: [Option<i64>; 3]| Some([axes[0]?, axes[1]?, axes[2]?]);
        Scan {
            gyroscope: all(gyroscope),
            accelerometer: all(accelerometer),
            timestamp,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kind(text: &str) -> SampleType {
        text.parse().expect("a type")
    }

    #[test]
    fn types_of_real_drivers_are_parsed() {
        // The sample types of inv_mpu6050, st_lsm6dsx, bmi160, kxcjk-1013, bno055's quaternion, and the timestamp.
        assert_eq!(kind("be:s16/16>>0\n").decode(&[0xff, 0xfe]), Some(-2));
        assert_eq!(kind("le:s16/16>>0").decode(&[0xfe, 0xff]), Some(-2));
        assert_eq!(kind("le:s12/16>>4").decode(&[0x1f, 0x80]), Some(-2047));
        assert_eq!(kind("le:u12/16>>4").decode(&[0x1f, 0x80]), Some(2049));
        assert_eq!(kind("le:s16/16X4>>0").size(), 8);
        assert!(!kind("le:s16/16X4>>0").is_scalar());
        assert_eq!(
            kind("le:s64/64>>0").decode(&[1, 0, 0, 0, 0, 0, 0, 0x80]),
            Some(i64::MIN + 1)
        );
        assert_eq!(kind("le:u64/64>>0").decode(&[0xff; 8]), Some(i64::MAX));
        assert_eq!(kind("le:s16/16").decode(&[1]), None);
    }

    #[test]
    fn wrong_types_are_refused() {
        for bad in [
            "",
            "s16/16",
            "me:s16/16>>0",
            "le:f16/16>>0",
            "le:s0/16>>0",
            "le:s17/16>>0",
            "le:s16/16>>1",
            "le:s16/24>>0",
            "le:s+6/16>>0",
            "le:s16/16>>-1",
            "le:s16/16X0>>0",
            "le:s16/16X999>>0",
            "le:/16>>0",
            "le:é16/16>>0",
            "le:s99999999999999999999/16>>0",
        ] {
            assert_eq!(bad.parse::<SampleType>(), Err(InvalidType), "{bad}");
        }
    }

    #[test]
    fn a_scan_is_laid_out_as_by_the_kernel() {
        let (word, stamp) = (kind("be:s16/16>>0"), kind("le:s64/64>>0"));
        let gyroscope = |axis: u32| (4 + axis, Channel::Gyroscope(axis as usize), word);
        let accelerometer = |axis: u32| (axis, Channel::Accelerometer(axis as usize), word);
        let mut channels: Vec<_> = (0..3)
            .map(gyroscope)
            .chain((0..3).map(accelerometer))
            .collect();
        channels.push((7, Channel::Timestamp, stamp));
        let layout = Layout::new(channels.clone()).expect("a layout");
        // Twelve bytes for the six words, four of padding, and eight for the timestamp.
        assert_eq!(layout.size(), 24);
        let mut scan: Vec<u8> = (1..=6).flat_map(|n: i16| n.to_be_bytes()).collect();
        scan.extend([0xaa; 4]);
        scan.extend(77_i64.to_le_bytes());
        let decoded = layout.decode(&scan);
        assert_eq!(decoded.accelerometer, Some([1, 2, 3]));
        assert_eq!(decoded.gyroscope, Some([4, 5, 6]));
        assert_eq!(decoded.timestamp, Some(77));
        // A temperature channel between the accelerometer and the gyroscope shifts the gyroscope's channels.
        channels.push((3, Channel::Other, word));
        let layout = Layout::new(channels).expect("a layout");
        assert_eq!(layout.size(), 24);
        assert_eq!(layout.decode(&scan).accelerometer, Some([1, 2, 3]));
        assert_eq!(layout.decode(&scan).gyroscope.map(|v| v[0]), Some(5));
        assert_eq!(Layout::new(Vec::new()), None);
        let many = (0..33).map(|n| (n, Channel::Other, stamp)).collect();
        assert_eq!(Layout::new(many), None);
    }

    /// A valid type with its text.
    fn any_type() -> impl Strategy<Value = (SampleType, String)> {
        (
            0..4_u32,
            any::<bool>(),
            any::<bool>(),
            any::<u32>(),
            any::<u32>(),
        )
            .prop_map(|(power, big_endian, signed, bits, shift)| {
                let storage = 8 << power;
                let bits = bits % storage + 1;
                let shift = shift % (storage - bits + 1);
                let order = if big_endian { "be" } else { "le" };
                let sign = if signed { "s" } else { "u" };
                let text = format!("{order}:{sign}{bits}/{storage}>>{shift}");
                let kind = SampleType {
                    big_endian,
                    signed,
                    bits,
                    bytes: storage as usize / 8,
                    shift,
                    repeat: 1,
                };
                (kind, text)
            })
    }

    proptest! {
        #[test]
        fn every_type_round_trips((kind, text) in any_type()) {
            prop_assert_eq!(text.parse(), Ok(kind));
        }

        #[test]
        fn every_value_round_trips((kind, _) in any_type(), value: i64, padding: u64) {
            // The value cut to the type's bits, as a device would encode it.
            let above = 64 - kind.bits;
            let cut = (value.cast_unsigned() << above) >> above;
            let mask = (u64::MAX >> above) << kind.shift;
            let word = cut << kind.shift | padding & !mask;
            let mut bytes = word.to_le_bytes()[..kind.bytes].to_vec();
            if kind.big_endian {
                bytes.reverse();
            }
            let expected = match kind.signed {
                true => (cut << above).cast_signed() >> above,
                false => i64::try_from(cut).unwrap_or(i64::MAX),
            };
            prop_assert_eq!(kind.decode(&bytes), Some(expected));
        }

        #[test]
        fn no_text_and_no_bytes_panic(text in ".{0,40}", bytes: Vec<u8>, index: u32) {
            if let Ok(kind) = text.parse::<SampleType>() {
                let _ = kind.decode(&bytes);
            }
            let kind = kind("le:s16/32X2>>7");
            let layout = Layout::new(vec![(index, Channel::Gyroscope(2), kind)]);
            prop_assert_eq!(layout.expect("a layout").decode(&bytes).gyroscope, None);
        }
    }
}
