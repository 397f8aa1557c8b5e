//! Joins the NAL units of a coded HEVC picture (ITU-T H.265 annex B) to one slice to send. Only the units' headers are
//! read.

use super::{EncodeError, Encoded, Slice};

/// NAL unit types of coded slices (table 7-1).
const SLICES: std::ops::RangeInclusive<u8> = 0..=31;
/// NAL unit types of the slices with which decoding can start.
const KEY_SLICES: std::ops::RangeInclusive<u8> = 16..=23;
/// NAL unit types of video, sequence and picture parameter sets.
const SETS: std::ops::RangeInclusive<u8> = 32..=34;

/// Passes the slices in `units` to `sink` as one slice, with the parameter sets in front of a key frame. `sets` holds
/// the newest parameter sets, because not every encoder repeats them. `joined` is scratch memory. Other units, such as
/// delimiters and SEI messages, are left out.
///
/// # Errors
/// [`EncodeError`] if there is no slice.
pub(super) fn deliver(
    units: &[&[u8]],
    sets: &mut Vec<u8>,
    joined: &mut Vec<u8>,
    sink: &mut (dyn FnMut(Slice<'_>) + Send),
) -> Result<Encoded, EncodeError> {
    let of = |kinds: std::ops::RangeInclusive<u8>| {
        (units.iter()).filter(move |unit| kind(unit).is_some_and(|kind| kinds.contains(&kind)))
    };
    let key_frame = of(KEY_SLICES).next().is_some();
    if of(SETS).next().is_some() {
        sets.clear();
        of(SETS).for_each(|unit| sets.extend_from_slice(unit));
    }
    joined.clear();
    if key_frame {
        joined.extend_from_slice(sets);
    }
    let start = joined.len();
    of(SLICES).for_each(|unit| joined.extend_from_slice(unit));
    if joined.len() == start {
        return Err(EncodeError(
            "the encoder returned a picture without a slice; choose another encoder".to_owned(),
        ));
    }
    sink(Slice {
        index: 0,
        first_mb: 0,
        mbs: 0,
        last: true,
        clean_after: None,
        bytes: joined,
    });
    Ok(Encoded {
        key_frame,
        bytes: joined.len(),
        clean_after: None,
    })
}

/// The NAL unit type of a unit that begins with its start code (7.3.1.2). `None` if the unit has no header.
fn kind(unit: &[u8]) -> Option<u8> {
    let one = unit.iter().take(4).position(|byte| *byte == 1)?;
    Some(unit.get(one + 1)? >> 1 & 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(kind: u8, body: u8) -> Vec<u8> {
        vec![0, 0, 1, kind << 1, 1, body]
    }

    fn delivered(units: &[Vec<u8>], sets: &mut Vec<u8>) -> Result<(bool, Vec<u8>), EncodeError> {
        let units: Vec<&[u8]> = units.iter().map(Vec::as_slice).collect();
        let mut bytes = Vec::new();
        let encoded = deliver(&units, sets, &mut Vec::new(), &mut |slice: Slice<'_>| {
            assert!(slice.last && slice.mbs == 0);
            bytes.extend_from_slice(slice.bytes);
        })?;
        assert_eq!(encoded.bytes, bytes.len());
        Ok((encoded.key_frame, bytes))
    }

    #[test]
    fn key_frames_start_with_the_newest_parameter_sets() {
        let (sps, idr, message) = (unit(33, 7), unit(19, 8), unit(39, 9));
        let mut sets = Vec::new();
        let first = [sps.clone(), message, idr.clone()];
        let (key_frame, bytes) = delivered(&first, &mut sets).unwrap();
        assert!(key_frame);
        assert_eq!(bytes, [&sps[..], &idr].concat());
        let (key_frame, bytes) = delivered(&[unit(1, 5)], &mut sets).unwrap();
        assert!(!key_frame);
        assert_eq!(bytes, unit(1, 5));
        let (_, bytes) = delivered(std::slice::from_ref(&idr), &mut sets).unwrap();
        assert_eq!(bytes, [&sps[..], &idr].concat());
    }

    #[test]
    fn a_picture_without_a_slice_is_an_error() {
        for units in [&[][..], &[unit(33, 1)], &[vec![0, 0, 1]]] {
            assert!(delivered(units, &mut Vec::new()).is_err());
        }
    }
}
