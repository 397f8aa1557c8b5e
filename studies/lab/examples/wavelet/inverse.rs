//! The decoder of luma, in floating point, and the weights of the bands.

use crate::blocks::{BLOCK, HEADER, Quantiser, index, place, scale_of};
use crate::transform::{Band, Wavelet};

const ALPHA: f32 = -1.586_134_3;
const BETA: f32 = -0.052_980_12;
const GAMMA: f32 = 0.882_911_1;
const DELTA: f32 = 0.443_506_85;
const K: f32 = 1.230_174_1;

/// A plane of decoded samples.
struct Plane {
    width: usize,
    height: usize,
    samples: Vec<f32>,
}

impl Plane {
    fn new(width: usize, height: usize) -> Plane {
        Plane {
            width,
            height,
            samples: vec![0.0; width * height],
        }
    }

    /// The coefficient at (x, y) of a band, in the plane of all bands. Coarse levels are in the upper left corner.
    fn at(&mut self, band: Band, x: usize, y: usize) -> &mut f32 {
        let (width, height) = (
            self.width >> (band.level + 1),
            self.height >> (band.level + 1),
        );
        let (x, y) = (
            x + usize::from(band.high.0) * width,
            y + usize::from(band.high.1) * height,
        );
        &mut self.samples[y * self.width + x]
    }

    /// Reverses the transform.
    fn inverse(&mut self, levels: usize) {
        for level in (0..levels).rev() {
            let (width, height) = (self.width >> level, self.height >> level);
            for x in 0..width {
                let column: Vec<f32> = (0..height)
                    .map(|y| self.samples[y * self.width + x])
                    .collect();
                for (y, sample) in synthesised(&column).into_iter().enumerate() {
                    self.samples[y * self.width + x] = sample;
                }
            }
            for y in 0..height {
                let row = &mut self.samples[y * self.width..][..width];
                let samples = synthesised(row);
                row.copy_from_slice(&samples);
            }
        }
    }
}

/// Joins a low-pass half and a high-pass half.
fn synthesised(halves: &[f32]) -> Vec<f32> {
    let half = halves.len() / 2;
    let mut even: Vec<f32> = halves[..half].iter().map(|low| low * K).collect();
    let mut odd: Vec<f32> = halves[half..].iter().map(|high| high / K).collect();
    let below = |odd: &[f32], i: usize| odd[i.saturating_sub(1)] + odd[i];
    let above = |even: &[f32], i: usize| even[i] + even[(i + 1).min(half - 1)];
    for (even_by, odd_by) in [(DELTA, GAMMA), (BETA, ALPHA)] {
        for (i, even) in even.iter_mut().enumerate() {
            *even -= even_by * below(&odd, i);
        }
        for (i, odd) in odd.iter_mut().enumerate() {
            *odd -= odd_by * above(&even, i);
        }
    }
    even.into_iter()
        .zip(odd)
        .flat_map(|(even, odd)| [even, odd])
        .collect()
}

/// By level and band, the norm of a picture with one coefficient of 1 and all others 0. This norm is the weight of an
/// error of this coefficient.
pub(crate) fn norms(levels: usize) -> Vec<[f32; 4]> {
    let side = 8 << levels;
    let norm = |level: usize, high: (bool, bool)| {
        let mut plane = Plane::new(side, side);
        let middle = side >> (level + 2);
        *plane.at(Band { level, high }, middle, middle) = 1.0;
        plane.inverse(level + 1);
        plane
            .samples
            .iter()
            .map(|sample| sample * sample)
            .sum::<f32>()
            .sqrt()
    };
    let bands = [(false, false), (true, false), (false, true), (true, true)];
    (0..levels)
        .map(|level| bands.map(|high| norm(level, high)))
        .collect()
}

/// Decodes the blocks of luma. Returns the luma samples without padding.
pub(crate) fn decode(
    coded: &[u8],
    planes: &[(Wavelet, Quantiser); 3],
    width: usize,
    height: usize,
) -> Vec<u8> {
    let (wavelet, quantiser) = &planes[0];
    let mut plane = Plane::new(wavelet.width(), wavelet.height());
    let mut places = Vec::new();
    for (number, band) in crate::order() {
        let samples = planes[number].0.samples(band);
        for y in (0..samples.height).step_by(BLOCK) {
            let row = (0..samples.width)
                .step_by(BLOCK)
                .map(|x| (number, band, x, y));
            places.extend(row);
        }
    }
    let mut rest = coded;
    while rest.len() >= HEADER {
        let words = usize::from(u16::from_le_bytes([rest[2], rest[3]]));
        let (block, after) = rest.split_at(words * 4);
        rest = after;
        let number = u32::from_le_bytes([block[4], block[5], block[6], block[7]]) >> 8;
        if let (0, band, x, y) = places[number as usize] {
            decode_block(block, &mut plane, band, (x, y), quantiser);
        }
    }
    plane.inverse(5);
    let pixel = |sample: f32| (sample * 255.0 + 128.0).round().clamp(0.0, 255.0) as u8;
    let rows = plane.samples.chunks_exact(plane.width).take(height);
    rows.flat_map(|row| row[..width].iter().copied().map(pixel))
        .collect()
}

fn decode_block(
    block: &[u8],
    plane: &mut Plane,
    band: Band,
    (x, y): (usize, usize),
    quantiser: &Quantiser,
) {
    let ballot = u16::from_le_bytes([block[0], block[1]]);
    debug_assert_eq!(block[4], quantiser.code(band), "band {}", index(band));
    let count = ballot.count_ones() as usize;
    let words = &block[HEADER..];
    let scales = &block[HEADER + 2 * count..];
    let mut payload = HEADER + 3 * count;
    let mut coefficients = Vec::new();
    let coded = (0..16).filter(|small| ballot >> small & 1 == 1);
    for (number, small) in coded.enumerate() {
        let word = u16::from_le_bytes([words[2 * number], words[2 * number + 1]]);
        let scale = scale_of(block[4]) * (f32::from(scales[number] >> 4) / 8.0 + 0.25);
        for subblock in 0..8 {
            let planes = (word >> (2 * subblock) & 3) + u16::from(scales[number] & 15);
            let mut lanes = [0_u32; 8];
            for byte in &block[payload..payload + usize::from(planes)] {
                for (lane, value) in lanes.iter_mut().enumerate() {
                    *value = *value << 1 | u32::from(byte >> lane & 1);
                }
            }
            payload += usize::from(planes);
            for (lane, value) in lanes
                .into_iter()
                .enumerate()
                .filter(|(_, value)| *value > 0)
            {
                let (dx, dy) = place(subblock, lane);
                let (x, y) = (x + small % 4 * 8 + dx, y + small / 4 * 8 + dy);
                coefficients.push((x, y, (value as f32 + 0.5) * scale));
            }
        }
    }
    for (at, (x, y, value)) in coefficients.into_iter().enumerate() {
        let negative = block[payload + at / 8] >> (at % 8) & 1 == 1;
        *plane.at(band, x, y) = if negative { -value } else { value };
    }
}
