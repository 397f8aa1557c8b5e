//! Splits coded H.264 pictures (ITU-T H.264 annex B) into slices to send. This is for encoders that
//! return complete pictures; libx264 reports slices itself. Only headers are read.

use super::{EncodeError, Encoded, Slice};

/// Kinds of NAL unit (table 7-1).
const SLICE: u8 = 1;
const SLICE_IDR: u8 = 5;
const SPS: u8 = 7;
const PPS: u8 = 8;

/// Passes the `units` of a picture of `total_mbs` macroblocks to `sink` as `slices` slices. Parameter sets precede the
/// first slice and are passed with it. If the picture has more than `slices` slices, the last slice passed to `sink`
/// contains the additional slices. `joined` is scratch memory.
///
/// # Errors
/// [`EncodeError`] if there are fewer slices, or if they are out of order.
pub(super) fn deliver(
    units: &[&[u8]],
    (slices, total_mbs): (u8, u32),
    joined: &mut Vec<u8>,
    sink: &mut (dyn FnMut(Slice<'_>) + Send),
) -> Result<Encoded, EncodeError> {
    let parts: Vec<(&[u8], Unit)> = units.iter().map(|u| (*u, Unit::of(u))).collect();
    let starts = starts(&parts, slices, total_mbs)?;
    let key_frame = parts.iter().any(|(_, unit)| {
        matches!(
            unit,
            Unit::Slice {
                key_frame: true,
                ..
            }
        )
    });
    let mut bytes = 0;
    for (index, &(at, first_mb)) in (0..slices).zip(&starts) {
        let next = starts.get(usize::from(index) + 1);
        let from = if index == 0 { 0 } else { at };
        let to = next.map_or(parts.len(), |(next, _)| *next);
        let wanted = || {
            let here = parts[from..to].iter();
            here.filter(|(_, unit)| *unit != Unit::Other)
        };
        let body: &[u8] = if wanted().count() == 1 {
            parts[at].0
        } else {
            joined.clear();
            wanted().for_each(|(unit, _)| joined.extend_from_slice(unit));
            joined
        };
        let mbs = next.map_or(total_mbs, |(_, mb)| *mb) - first_mb;
        bytes += body.len();
        sink(Slice {
            index,
            first_mb: u16::try_from(first_mb).unwrap_or(u16::MAX),
            mbs: u16::try_from(mbs).unwrap_or(u16::MAX),
            last: next.is_none(),
            clean_after: None,
            bytes: body,
        });
    }
    Ok(Encoded {
        key_frame,
        bytes,
        clean_after: None,
    })
}

/// The start of each slice: its index in `parts`, and its first macroblock.
fn starts(
    parts: &[(&[u8], Unit)],
    slices: u8,
    total_mbs: u32,
) -> Result<Vec<(usize, u32)>, EncodeError> {
    let starts: Vec<(usize, u32)> = (0..)
        .zip(parts)
        .filter_map(|(i, (_, unit))| match unit {
            Unit::Slice { first_mb, .. } => Some((i, *first_mb)),
            _ => None,
        })
        .take(slices.into())
        .collect();
    let in_order = starts.windows(2).all(|w| w[0].1 < w[1].1)
        && starts.first().is_some_and(|(_, mb)| *mb == 0)
        && starts.last().is_some_and(|(_, mb)| *mb < total_mbs);
    if starts.len() != usize::from(slices) || !in_order {
        return Err(EncodeError(format!(
            "the encoder returned {} slices; {slices} slices in order were expected",
            starts.len()
        )));
    }
    Ok(starts)
}

/// The role of a NAL unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    /// A slice that starts with macroblock `first_mb`.
    Slice { first_mb: u32, key_frame: bool },
    /// A parameter set.
    ParameterSet,
    /// A unit that decoders do not need: a delimiter or an SEI message.
    Other,
}

impl Unit {
    /// Classifies `bytes`, which include a start code.
    pub(super) fn of(bytes: &[u8]) -> Unit {
        let Some(one) = bytes.iter().take(4).position(|byte| *byte == 1) else {
            return Unit::Other;
        };
        let Some((header, body)) = bytes[one + 1..].split_first() else {
            return Unit::Other;
        };
        match header & 31 {
            kind @ (SLICE | SLICE_IDR) => match exp_golomb(body).map(|(first_mb, _)| first_mb) {
                Some(first_mb) => Unit::Slice {
                    first_mb,
                    key_frame: kind == SLICE_IDR,
                },
                None => Unit::Other,
            },
            SPS | PPS => Unit::ParameterSet,
            _ => Unit::Other,
        }
    }
}

/// Decodes the Exp-Golomb number (ue(v), 9.1) at the start of `body`. Returns the number, and the length of its code in
/// bits. `None` for a code with more than 16 leading zeros, because the numbers that this crate reads have at most 16
/// bits. At the start of a slice header (7.3.3), the code contains no emulation prevention byte, because its zero bytes
/// are followed by a byte above 3.
pub(super) fn exp_golomb(body: &[u8]) -> Option<(u32, usize)> {
    let mut head = [0; 8];
    for (to, from) in head.iter_mut().zip(body) {
        *to = *from;
    }
    let bits = u64::from_be_bytes(head);
    let zeros = bits.leading_zeros();
    if zeros > 16 {
        return None;
    }
    let number = u32::try_from((bits << zeros >> (63 - zeros)) - 1).ok()?;
    Some((number, 2 * zeros as usize + 1))
}

/// The NAL units of a picture, each with its start code.
pub(super) fn units(picture: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = start(picture, 0).map(|at| &picture[at..]);
    std::iter::from_fn(move || {
        let bytes = rest?;
        let next = start(bytes, 4);
        rest = next.map(|at| &bytes[at..]);
        Some(&bytes[..next.unwrap_or(bytes.len())])
    })
}

/// The position of the first start code from `from` on, including a preceding zero byte.
fn start(bytes: &[u8], from: usize) -> Option<usize> {
    let behind = bytes.get(from..)?;
    let at = from + behind.windows(3).position(|three| three == [0, 0, 1])?;
    let zero = at > from && bytes[at - 1] == 0;
    Some(at - usize::from(zero))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_split_at_its_start_codes() {
        let picture = [
            &[0, 0, 0, 1, 0x67, 66, 0][..],
            &[0, 0, 0, 1, 0x68, 9],
            &[0, 0, 1, 0x06, 5],
            &[0, 0, 1, 0x65, 0x88, 0x80],
            &[0, 0, 0, 1, 0x65, 0, 0xA0, 0x40],
        ]
        .concat();
        let found: Vec<_> = units(&picture).map(Unit::of).collect();
        let slice = |first_mb| Unit::Slice {
            first_mb,
            key_frame: true,
        };
        let sets = [Unit::ParameterSet, Unit::ParameterSet, Unit::Other];
        assert_eq!(found[..3], sets);
        assert_eq!(found[3..], [slice(0), slice(319)]);
        assert_eq!(
            units(&picture).map(<[u8]>::len).sum::<usize>(),
            picture.len()
        );
        assert_eq!(units(&[1, 2, 3]).count(), 0);
    }

    #[test]
    fn parameter_sets_go_in_front_and_the_excess_to_the_last() {
        let (set, message) = (&[0, 0, 1, 0x67][..], &[0, 0, 1, 6][..]);
        let slices = [
            &[0, 0, 1, 0x65, 0x80][..],
            &[0, 0, 1, 0x65, 0x50],
            &[0, 0, 1, 0x65, 0x60],
        ];
        let units = [set, message, slices[0], slices[1], slices[2]];
        for (count, expected) in [(3, &[(0, 1), (1, 1), (2, 7)][..]), (1, &[(0, 9)])] {
            let mut seen = Vec::new();
            let mut joined = Vec::new();
            // The second slice starts at macroblock 1, the third at 2.
            let encoded = deliver(&units, (count, 9), &mut joined, &mut |s| {
                assert_eq!(s.last, s.index + 1 == count);
                seen.push((s.first_mb, s.mbs));
                if s.index == 0 {
                    assert!(s.bytes.starts_with(&[0, 0, 1, 0x67, 0, 0, 1, 0x65]));
                }
            });
            assert!(encoded.expect("in order").key_frame);
            assert_eq!(seen, expected);
        }
        let mut sink = |_: Slice<'_>| {};
        for wrong in [&units[..4], &[slices[1], slices[0], slices[2]], &[]] {
            assert!(deliver(wrong, (3, 9), &mut Vec::new(), &mut sink).is_err());
        }
    }

    #[test]
    fn numbers_of_all_lengths_are_read() {
        for (body, number) in [
            (&[0x80][..], 0),
            (&[0x40], 1),
            (&[0x60], 2),
            (&[0x00, 0x80, 0x00], 255),
            (&[0x00, 0x00, 0x80, 0x00, 0x00], 65_535),
        ] {
            let read = exp_golomb(body).map(|(number, _)| number);
            assert_eq!(read, Some(number), "{body:?}");
        }
        assert_eq!(exp_golomb(&[]), None);
    }
}
