//! Quantiser and packing: blocks of 32x32 coefficients, in bit planes.

use crate::transform::{Band, FRACTION, Samples};

/// Number of coefficients on a side of a block, and on a side of the smaller blocks inside it.
pub(crate) const BLOCK: usize = 32;
const SMALL: usize = 8;

/// Size of a block's header in bytes.
pub(crate) const HEADER: usize = 8;

/// The code of the scale 1 in the upper four bits of an 8x8 block's byte: 6 / 8 + 0.25 = 1.
const SCALE_ONE: u8 = 6 << 4;

/// The quantiser steps of all bands of a plane.
pub(crate) struct Quantiser {
    /// The bitstream's code of the step, by level and band.
    codes: Vec<[u8; 4]>,
}

impl Quantiser {
    /// `norms` has the weight of a coefficient's error in the picture, by level and band ([`crate::inverse::norms`]).
    pub(crate) fn new(step: f32, norms: &[[f32; 4]]) -> Quantiser {
        // The packer's reciprocal has 16 bits, so a step is at least about two units of the integer samples.
        let least = 2.0 * 1.513_328 / (1 << FRACTION) as f32;
        let code = |norm: f32| code_of((step / norm).max(least) / 255.0);
        Quantiser {
            codes: norms.iter().map(|level| level.map(code)).collect(),
        }
    }

    pub(crate) fn code(&self, band: Band) -> u8 {
        self.codes[band.level][index(band)]
    }
}

/// The band's index within its level in the bitstream.
pub(crate) fn index(band: Band) -> usize {
    usize::from(band.high.0) + 2 * usize::from(band.high.1)
}

/// The scale that a bitstream code stands for: (8 + m) * 2^(e - 3), for samples from -0.5 to 0.5. The lower three bits
/// of the code are m, and e is 4 minus the upper five bits.
pub(crate) fn scale_of(code: u8) -> f32 {
    let exponent = 4 - i32::from(code >> 3);
    f32::from(8 + (code & 7)) * 2_f32.powi(exponent - 3)
}

/// The code with the largest scale that is not above `scale`.
fn code_of(scale: f32) -> u8 {
    let fits = |code: &u8| scale_of(*code) <= scale;
    let mut codes: Vec<u8> = (0..=167).collect();
    codes.sort_by(|a, b| scale_of(*b).total_cmp(&scale_of(*a)));
    codes.into_iter().find(fits).unwrap_or(167)
}

/// Writes blocks.
#[derive(Default)]
pub(crate) struct Packer {
    pub(crate) coded: Vec<u8>,
    /// The number of the next block.
    block: u32,
    payload: Vec<u8>,
    signs: Signs,
}

impl Packer {
    pub(crate) fn clear(&mut self) {
        self.coded.clear();
        self.block = 0;
    }

    /// Quantises and writes all blocks of a band.
    pub(crate) fn band(&mut self, samples: &Samples<'_>, quantiser: &Quantiser, band: Band) {
        let code = quantiser.code(band);
        // The transform leaves the factor 1.230174105^2 in bands that are high-pass in both directions.
        let gain = if band.high == (true, true) {
            1.513_328
        } else {
            1.0
        };
        let step = scale_of(code) * 255.0 * (1 << FRACTION) as f32 / gain;
        let reciprocal = (65_536.0 / step) as u16;
        for y in (0..samples.height).step_by(BLOCK) {
            for x in (0..samples.width).step_by(BLOCK) {
                self.one(samples, (x, y), reciprocal, code);
                self.block += 1;
            }
        }
    }

    fn one(&mut self, samples: &Samples<'_>, (x, y): (usize, usize), reciprocal: u16, code: u8) {
        let (width, height) = (BLOCK.min(samples.width - x), BLOCK.min(samples.height - y));
        let mut values = [[0_u16; BLOCK]; BLOCK];
        let mut negative = [[0_u8; BLOCK]; BLOCK];
        // For each row of 8x8 blocks, the bitwise OR of the coefficients in each column.
        let mut joined = [[0_u16; BLOCK]; BLOCK / SMALL];
        for row in 0..height {
            let from = &samples.row(y + row)[x..x + width];
            let joined = &mut joined[row / SMALL];
            for (negative, from) in negative[row].iter_mut().zip(from) {
                *negative = u8::from(*from < 0);
            }
            for ((value, joined), from) in values[row].iter_mut().zip(joined).zip(from) {
                *value = ((u32::from(from.unsigned_abs()) * u32::from(reciprocal)) >> 16) as u16;
                *joined |= *value;
            }
        }
        let mut ballot = 0_u16;
        for (row, joined) in joined.iter().enumerate() {
            for (column, part) in joined.as_chunks::<SMALL>().0.iter().enumerate() {
                let any = part.iter().fold(0, |all, one| all | one) != 0;
                ballot |= u16::from(any) << (row * 4 + column);
            }
        }
        if ballot == 0 {
            return;
        }
        self.payload.clear();
        self.signs.clear();
        let begin = self.coded.len();
        let count = ballot.count_ones() as usize;
        self.coded.resize(begin + HEADER + 3 * count, 0);
        let mut number = 0;
        for small in 0..16 {
            if ballot >> small & 1 == 0 {
                continue;
            }
            let (row, column) = (small / 4 * SMALL, small % 4 * SMALL);
            let lanes = subblocks(&values, row, column);
            let negatives = subblocks(&negative, row, column);
            let need = lanes.map(|lanes| {
                let joined = lanes.iter().fold(0, |all, one| all | one);
                16 - joined.leading_zeros() as u8
            });
            let most = need.into_iter().max().unwrap_or(0);
            let base = most.saturating_sub(3);
            let mut word = 0_u16;
            for (at, (lanes, need)) in lanes.iter().zip(need).enumerate() {
                let extra = need.saturating_sub(base);
                word |= u16::from(extra) << (2 * at);
                planes(lanes, base + extra, &mut self.payload);
                if need > 0 {
                    self.signs.subblock(lanes, &negatives[at]);
                }
            }
            let words = begin + HEADER + 2 * number;
            self.coded[words..words + 2].copy_from_slice(&word.to_le_bytes());
            self.coded[begin + HEADER + 2 * count + number] = SCALE_ONE | base;
            number += 1;
        }
        self.coded.extend_from_slice(&self.payload);
        self.signs.finish(&mut self.coded);
        self.coded
            .resize((self.coded.len() - begin).next_multiple_of(4) + begin, 0);
        let words = ((self.coded.len() - begin) / 4) as u16;
        let header = &mut self.coded[begin..begin + HEADER];
        header[..2].copy_from_slice(&ballot.to_le_bytes());
        header[2..4].copy_from_slice(&words.to_le_bytes());
        header[4..].copy_from_slice(&(u32::from(code) | self.block << 8).to_le_bytes());
    }
}

/// The (x, y) position of a coefficient in its 8x8 block. Subblocks are 4 wide and 2 high, numbered from top to bottom
/// in columns of four. Coefficients of a subblock are numbered from top to bottom in columns of two.
pub(crate) fn place(subblock: usize, lane: usize) -> (usize, usize) {
    (subblock / 4 * 4 + lane / 2, subblock % 4 * 2 + lane % 2)
}

fn subblocks<T: Copy>(values: &[[T; BLOCK]; BLOCK], row: usize, column: usize) -> [[T; 8]; 8] {
    std::array::from_fn(|subblock| {
        let (x, y) = place(subblock, 0);
        let upper = &values[row + y][column + x..][..4];
        let lower = &values[row + y + 1][column + x..][..4];
        std::array::from_fn(|lane| {
            if lane % 2 == 0 {
                upper[lane / 2]
            } else {
                lower[lane / 2]
            }
        })
    })
}

/// Writes the bit planes of eight values, the most significant first.
fn planes(lanes: &[u16; 8], count: u8, payload: &mut Vec<u8>) {
    let low = u64::from_le_bytes(lanes.map(|lane| lane as u8));
    let high = u64::from_le_bytes(lanes.map(|lane| (lane >> 8) as u8));
    for plane in (0..count).rev() {
        let bytes = if plane < 8 {
            low >> plane
        } else {
            high >> (plane - 8)
        };
        // Gathers the lowest bit of each byte: the bit of byte i becomes bit i.
        let bits = bytes & 0x0101_0101_0101_0101;
        payload.push((bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8);
    }
}

/// Signs of the coefficients that are not zero.
#[derive(Default)]
struct Signs {
    bytes: Vec<u8>,
    bits: u64,
    count: u32,
}

impl Signs {
    fn clear(&mut self) {
        self.bytes.clear();
        (self.bits, self.count) = (0, 0);
    }

    fn subblock(&mut self, lanes: &[u16; 8], negative: &[u8; 8]) {
        for (value, negative) in lanes.iter().zip(negative) {
            // There is no branch, because the processor could not predict it.
            let some = u32::from(*value > 0);
            self.bits |= (u64::from(*negative) & u64::from(some)) << self.count;
            self.count += some;
        }
        if self.count >= 32 {
            self.bytes
                .extend_from_slice(&(self.bits as u32).to_le_bytes());
            self.bits >>= 32;
            self.count -= 32;
        }
    }

    fn finish(&mut self, coded: &mut Vec<u8>) {
        coded.extend_from_slice(&self.bytes);
        let rest = (self.count as usize).div_ceil(8);
        coded.extend_from_slice(&self.bits.to_le_bytes()[..rest]);
    }
}
