//! Splits a slice of H.264 into RTP payloads (RFC 6184, packetization mode 1). A NAL unit that fits is sent as a single
//! packet (section 5.6), and a larger one in fragments (FU-A, section 5.8).
//!
//! A slice is packetized as soon as the encoder outputs it, without waiting for the rest of the frame.

pub mod vp9;

/// Maximum payload in bytes. With RTP header (12), header extensions (up to 40), SRTP tag (16), UDP and IPv6 (48), a
/// packet stays below the 1280 bytes that every IPv6 link carries.
pub const MAX_PAYLOAD: usize = 1150;

/// NAL unit type of a fragment (RFC 6184 table 1).
const FU_A: u8 = 28;

/// Start and end of a fragmented NAL unit (RFC 6184 section 5.8).
const START: u8 = 0x80;
const END: u8 = 0x40;

/// Calls `each` with each payload of `slice`, which is in Annex B form. The second argument states whether the payload
/// is the last.
pub fn payloads(slice: &[u8], mut each: impl FnMut(&[u8], bool)) {
    let mut packet = Vec::with_capacity(MAX_PAYLOAD);
    let mut units = nal_units(slice).peekable();
    while let Some(unit) = units.next() {
        let last_unit = units.peek().is_none();
        if unit.len() <= MAX_PAYLOAD {
            each(unit, last_unit);
            continue;
        }
        let (header, body) = (unit[0], &unit[1..]);
        let parts = body.len().div_ceil(MAX_PAYLOAD - 2);
        // Equal lengths avoid a final packet of a few bytes.
        let size = body.len().div_ceil(parts);
        for (index, part) in body.chunks(size).enumerate() {
            let (first, last) = (index == 0, index + 1 == parts);
            let edge = if first { START } else { 0 } | if last { END } else { 0 };
            packet.clear();
            // The first byte (FU indicator) has the NAL unit's forbidden bit and nal_ref_idc. The second byte (FU
            // header) has the unit's type.
            packet.push(header & 0xe0 | FU_A);
            packet.push(header & 0x1f | edge);
            packet.extend_from_slice(part);
            each(&packet, last && last_unit);
        }
    }
}

/// The NAL units between start codes (ITU-T H.264 annex B), without empty ones.
pub(crate) fn nal_units(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = start_code(stream).map(|(_, behind)| &stream[behind..]);
    std::iter::from_fn(move || {
        let unit = rest?;
        match start_code(unit) {
            Some((before, behind)) => {
                rest = Some(&unit[behind..]);
                Some(trimmed(&unit[..before]))
            }
            None => {
                rest = None;
                Some(trimmed(unit))
            }
        }
    })
    .filter(|unit| !unit.is_empty())
}

/// The position of the first three-byte start code, and the position after it.
fn start_code(bytes: &[u8]) -> Option<(usize, usize)> {
    let at = bytes.windows(3).position(|three| three == [0, 0, 1])?;
    Some((at, at + 3))
}

/// The unit without trailing zeros, which belong to the next start code or are padding.
fn trimmed(unit: &[u8]) -> &[u8] {
    let end = unit
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    &unit[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(slice: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let mut all = Vec::new();
        payloads(slice, |payload, last| all.push((payload.to_vec(), last)));
        all
    }

    /// Reassembles payloads as a receiver does (RFC 6184 section 5.8).
    fn joined(payloads: &[(Vec<u8>, bool)]) -> Vec<Vec<u8>> {
        let mut units: Vec<Vec<u8>> = Vec::new();
        for (payload, _) in payloads {
            if payload[0] & 0x1f != FU_A {
                units.push(payload.clone());
                continue;
            }
            if payload[1] & START != 0 {
                units.push(vec![payload[0] & 0xe0 | payload[1] & 0x1f]);
            }
            units.last_mut().unwrap().extend_from_slice(&payload[2..]);
        }
        units
    }

    #[test]
    fn parameter_sets_and_a_slice_come_apart_and_together() {
        let sps = vec![0x67, 0x42, 0, 7];
        let pps = vec![0x68, 0xce];
        let mut idr = vec![0x65];
        idr.extend((0..5000_u32).map(|n| u8::try_from(n % 251).unwrap() | 1));
        let mut stream = vec![0, 0, 0, 1];
        stream.extend(&sps);
        stream.extend([0, 0, 0, 1]);
        stream.extend(&pps);
        stream.extend([0, 0, 1]);
        stream.extend(&idr);
        let all = all(&stream);
        assert_eq!(joined(&all), [sps, pps, idr]);
        assert!(all.iter().all(|(p, _)| p.len() <= MAX_PAYLOAD));
        let lasts = all.iter().map(|(_, last)| *last);
        assert_eq!(lasts.rev().collect::<Vec<_>>()[..2], [true, false]);
        assert_eq!(all.iter().filter(|(_, last)| *last).count(), 1);
    }

    #[test]
    fn lengths_near_the_limit_survive() {
        for length in MAX_PAYLOAD - 1..MAX_PAYLOAD + 4 {
            let unit = vec![0x41; length];
            let mut stream = vec![0, 0, 1];
            stream.extend(&unit);
            let all = all(&stream);
            assert_eq!(joined(&all), [unit]);
            assert_eq!(all.len(), 1 + usize::from(length > MAX_PAYLOAD));
        }
    }

    #[test]
    fn data_without_a_nal_unit_makes_no_packet() {
        for nothing in [&[][..], &[0, 0, 1], &[1, 2, 3], &[0, 0, 1, 0, 0, 1, 0]] {
            assert_eq!(all(nothing), []);
        }
    }
}
