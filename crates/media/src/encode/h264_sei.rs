//! The recovery point SEI message of an H.264 stream (ITU-T H.264 D.1.8, D.2.8). The message states that the picture
//! will be free of errors after a number of frames, regardless of earlier losses. Other messages are ignored.

use super::h264::exp_golomb;

/// The NAL unit type of SEI (table 7-1), and the message's payload type (D.1.1).
const NAL_SEI: u8 = 6;
const RECOVERY_POINT: u32 = 6;

/// Maximum number of bytes read from a unit. The message has 6 bytes and comes first.
const READ: usize = 64;

/// The number of frames after which the picture is bit-exact regardless of earlier losses, provided that nothing is
/// lost from here on. `None` if `unit`, with its start code, does not contain the message, or if the message does not
/// promise an exact match.
pub(super) fn clean_after(unit: &[u8]) -> Option<u16> {
    let one = unit.iter().take(4).position(|byte| *byte == 1)?;
    let (header, rest) = unit[one + 1..].split_first()?;
    if header & 31 != NAL_SEI {
        return None;
    }
    let rest = without_escapes(&rest[..rest.len().min(READ)]);
    let mut rest = &rest[..];
    loop {
        let kind = number(&mut rest)?;
        let length = usize::try_from(number(&mut rest)?).ok()?;
        let (message, behind) = rest.split_at_checked(length)?;
        rest = behind;
        if kind != RECOVERY_POINT {
            continue;
        }
        let (frames, bits) = exp_golomb(message)?;
        // exact_match_flag and broken_link_flag.
        let exact = message.get(bits / 8)? >> (7 - bits % 8) & 1 == 1;
        return u16::try_from(frames).ok().filter(|_| exact);
    }
}

/// A type or length of a message (7.3.2.3.1): each byte of 255 adds 255, and another byte follows.
fn number(rest: &mut &[u8]) -> Option<u32> {
    let mut sum = 0;
    loop {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        sum += u32::from(*byte);
        if *byte != 255 {
            return Some(sum);
        }
    }
}

/// Removes emulation prevention bytes (7.4.1).
fn without_escapes(bytes: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
    let mut zeros = 0;
    for byte in bytes {
        if zeros >= 2 && *byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if *byte == 0 { zeros + 1 } else { 0 };
        out.push(*byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit with these messages, with emulation prevention.
    fn unit(messages: &[(u32, &[u8])]) -> Vec<u8> {
        let mut unit = vec![0, 0, 0, 1, NAL_SEI];
        let mut zeros = 0;
        let mut put = |byte: u8| {
            if zeros >= 2 && byte <= 3 {
                unit.push(3);
                zeros = 0;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            unit.push(byte);
        };
        for (kind, body) in messages {
            for mut number in [*kind, u32::try_from(body.len()).expect("short")] {
                while number >= 255 {
                    put(255);
                    number -= 255;
                }
                put(u8::try_from(number).expect("below 255"));
            }
            body.iter().copied().for_each(&mut put);
        }
        put(0x80);
        unit
    }

    /// A recovery point after this many frames.
    fn point(frames: u16, exact: bool) -> Vec<u8> {
        let value = u64::from(frames) + 1;
        let length = 64 - value.leading_zeros();
        let used = 2 * length - 1;
        // The count is followed by the exact flag, "not broken", "no slice groups", and a stop bit.
        let bits = ((value << 1 | u64::from(exact)) << 3 << 1 | 1) << (64 - used - 5);
        bits.to_be_bytes()[..(used as usize + 5).div_ceil(8)].to_vec()
    }

    #[test]
    fn the_recovery_point_is_found_after_other_messages() {
        for frames in [0, 1, 2, 6, 7, 19, 78, 119, 255, 1023, 65_534] {
            let body = point(frames, true);
            assert_eq!(clean_after(&unit(&[(6, &body)])), Some(frames), "{body:?}");
            let other = [0; 12];
            let with_others = unit(&[(5, &other), (300, &[1]), (6, &body)]);
            assert_eq!(clean_after(&with_others), Some(frames));
            assert_eq!(
                clean_after(&with_others[1..]),
                Some(frames),
                "short start code"
            );
            assert_eq!(clean_after(&unit(&[(6, &point(frames, false))])), None);
        }
    }

    #[test]
    fn other_units_give_no_recovery_point() {
        let good = unit(&[(6, &point(78, true))]);
        for end in 0..good.len() - 2 {
            assert_eq!(clean_after(&good[..end]), None, "cut after {end}");
        }
        let mut slice = good.clone();
        slice[4] = 0x65;
        let too_far = unit(&[(6, &[0, 0, 0, 1, 0, 0, 0, 8])]);
        for unit in [
            &slice[..],
            &too_far,
            &unit(&[(5, &[1, 2, 3])]),
            &[0, 0, 1, 6, 255],
        ] {
            assert_eq!(clean_after(unit), None, "{unit:?}");
        }
    }
}
