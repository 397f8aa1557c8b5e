//! Bit-level H.264: NAL units of an Annex B stream (ITU-T H.264 annex B), fixed-length and
//! Exp-Golomb numbers (9.1), and emulation prevention (7.4.1).

use super::h264_error::SkipError;

/// The NAL units of an Annex B chunk, without start codes. The search ends at a slice, which is the
/// last unit of its chunk and by far the longest.
pub(super) fn nal_units(chunk: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = behind_start_code(chunk);
    std::iter::from_fn(move || {
        let nal = rest.take()?;
        if nal.first().is_some_and(|first| matches!(first & 31, 1 | 5)) {
            return Some(nal);
        }
        rest = behind_start_code(nal);
        let end = nal.len() - rest.map_or(0, |rest| rest.len() + 3);
        Some(&nal[..end])
    })
}

fn behind_start_code(bytes: &[u8]) -> Option<&[u8]> {
    let start = bytes.windows(3).position(|three| three == [0, 0, 1])?;
    Some(&bytes[start + 3..])
}

/// Reads numbers from the start of a NAL unit.
pub(super) struct BitReader {
    payload: Vec<u8>,
    bit: usize,
}

impl BitReader {
    /// Starts after the header byte of `nal`. Removes emulation prevention, and reads at most
    /// `limit` bytes.
    pub(super) fn nal(nal: &[u8], limit: usize) -> BitReader {
        let (mut payload, mut zeros) = (Vec::with_capacity(limit.min(nal.len())), 0);
        for &byte in nal.iter().skip(1).take(limit) {
            if zeros >= 2 && byte == 3 {
                zeros = 0;
                continue;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            payload.push(byte);
        }
        BitReader { payload, bit: 0 }
    }

    /// The next `count` bits, at most 32.
    pub(super) fn u(&mut self, count: u32) -> Result<u32, SkipError> {
        let mut value = 0;
        for _ in 0..count {
            let byte = self.payload.get(self.bit / 8).ok_or(SkipError::Damaged)?;
            value = value << 1 | u32::from(byte >> (7 - self.bit % 8) & 1);
            self.bit += 1;
        }
        Ok(value)
    }

    /// An unsigned Exp-Golomb number.
    pub(super) fn ue(&mut self) -> Result<u32, SkipError> {
        let mut zeros = 0;
        while self.u(1)? == 0 {
            zeros += 1;
            if zeros > 31 {
                return Err(SkipError::Damaged);
            }
        }
        Ok((1 << zeros) - 1 + self.u(zeros)?)
    }

    /// A signed Exp-Golomb number.
    pub(super) fn se(&mut self) -> Result<i32, SkipError> {
        let k = self.ue()?;
        let magnitude = k.div_ceil(2).cast_signed();
        Ok(if k % 2 == 1 { magnitude } else { -magnitude })
    }
}

/// Writes consecutive numbers.
#[derive(Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    bits: usize,
}

impl BitWriter {
    /// The low `count` bits of `value`, highest first.
    pub(super) fn u(&mut self, count: u32, value: u32) {
        for i in (0..count).rev() {
            if self.bits.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let bit = u8::from(value >> i & 1 == 1);
            if let Some(last) = self.bytes.last_mut() {
                *last |= bit << (7 - self.bits % 8);
            }
            self.bits += 1;
        }
    }

    /// Pads with zeros to the next byte.
    pub(super) fn align(&mut self) {
        self.bits = self.bits.next_multiple_of(8);
    }

    /// An unsigned Exp-Golomb number, less than 2^32 − 1.
    pub(super) fn ue(&mut self, value: u32) {
        let value = value.saturating_add(1);
        let length = 32 - value.leading_zeros();
        self.u(length - 1, 0);
        self.u(length, value);
    }

    /// A signed Exp-Golomb number, its magnitude less than 2^31.
    pub(super) fn se(&mut self, value: i32) {
        let double = value.unsigned_abs().saturating_mul(2);
        self.ue(if value > 0 { double - 1 } else { double });
    }

    /// Ends the unit with its stop bit, and appends it to `out` with emulation prevention.
    pub(super) fn finish(mut self, out: &mut Vec<u8>) {
        self.u(1, 1);
        let mut zeros = 0;
        for byte in self.bytes {
            if zeros >= 2 && byte <= 3 {
                out.push(3);
                zeros = 0;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            out.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let unsigned = [0, 1, 2, 7, 8, 255, 65_535, 1 << 20, u32::MAX - 2];
        let signed = [0, 1, -1, 2, -2, 51, -300, i32::MAX - 1, -i32::MAX + 1];
        let mut writer = BitWriter::default();
        unsigned.iter().for_each(|&n| writer.ue(n));
        signed.iter().for_each(|&n| writer.se(n));
        writer.u(17, 0);
        let mut nal = vec![0x41];
        writer.finish(&mut nal);
        assert!(!nal.windows(3).any(|w| w[..2] == [0, 0] && w[2] < 3));
        let mut reader = BitReader::nal(&nal, nal.len());
        for n in unsigned {
            assert_eq!(reader.ue(), Ok(n));
        }
        for n in signed {
            assert_eq!(reader.se(), Ok(n));
        }
        assert_eq!(reader.u(17), Ok(0));
    }

    #[test]
    fn units_end_where_the_next_starts_and_a_slice_at_the_end() {
        let chunk = [
            0, 0, 0, 1, 0x67, 9, 0, 0, 1, 0x68, 8, 0, 0, 1, 0x65, 1, 0, 0, 1,
        ];
        let units: Vec<_> = nal_units(&chunk).collect();
        let expected: [&[u8]; 3] = [&[0x67, 9], &[0x68, 8], &[0x65, 1, 0, 0, 1]];
        assert_eq!(units, expected);
        assert_eq!(nal_units(&[0, 0, 1]).count(), 1);
        assert_eq!(nal_units(&[]).count(), 0);
    }
}
