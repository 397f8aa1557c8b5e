//! Conversions between RGB and YUV, and scaling, equal plain integer arithmetic bit for bit, independently of the vector
//! instructions in use.
//!
//! To RGB, the instructions of x86-64 (AVX2) and of 64-bit ARM (with and without RDM) round in the same way, so one
//! stream gives the same picture on all clients. To YUV, `yuv` rounds in three ways, which are modelled here. Samples
//! of hosts with different processors may differ by up to 2. `./dev test-arm` runs these tests on emulated processors
//! with and without RDM. On x86-64, they need AVX2: with SSE4.1, `yuv` rounds the end of each row differently.
#![cfg(all(feature = "host", feature = "client"))]
#![allow(
    clippy::cast_possible_truncation,
    reason = "samples are clamped, and the pictures are small"
)]

mod skip;

use std::array::from_fn;

use openuvr_media::convert::{Converter, Scaler};
use openuvr_media::picture::{Picture, PixelFormat, Plane, RowOrder};
use openuvr_media::present::to_bgrx;
use openuvr_proto::units::Size;

/// Widths with and without a remainder after blocks of 8, 16 and 32 pixels, and odd and even heights.
const SIZES: [(u32, u32); 9] = [
    (1, 1),
    (2, 1),
    (8, 1),
    (24, 3),
    (33, 3),
    (37, 7),
    (64, 4),
    (150, 6),
    (333, 5),
];

/// Bytes after each row.
const GAPS: [usize; 2] = [0, 12];

/// BT.709 in limited range, in units of 2⁻¹³: the weights of red, green and blue.
const LUMA: [i32; 3] = [1496, 5032, 508];
const CB: [i32; 3] = [-824, -2774, 3598];
const CR: [i32; 3] = [3598, -3268, -330];

/// The rounding of a conversion to YUV.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rounding {
    /// Samples are widened to 12 bits by repeating their upper bits; each product is rounded (AVX2).
    Repeated,
    /// Samples are widened to 12 bits with zeros; each product is rounded (NEON with RDM).
    Shifted,
    /// Only the sum of products is rounded (NEON without RDM).
    Sum,
}

#[cfg(target_arch = "x86_64")]
fn rounding() -> Option<Rounding> {
    std::arch::is_x86_feature_detected!("avx2").then_some(Rounding::Repeated)
}

#[cfg(target_arch = "aarch64")]
fn rounding() -> Option<Rounding> {
    let rdm = std::arch::is_aarch64_feature_detected!("rdm");
    Some(if rdm {
        Rounding::Shifted
    } else {
        Rounding::Sum
    })
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn rounding() -> Option<Rounding> {
    None
}

/// The rounding of this processor. If it has none of the three, the test is skipped.
fn rounding_or_skip() -> Option<Rounding> {
    let rounding = rounding();
    if rounding.is_none() {
        skip::skip("needs x86-64 with AVX2, or 64-bit ARM");
    }
    rounding
}

/// `a × b / 2¹⁵`, rounded: the instructions PMULHRSW and SQRDMULH.
fn product(a: i32, b: i32) -> i32 {
    (a * b + (1 << 14)) >> 15
}

fn clamped(sample: i32) -> u8 {
    sample.clamp(0, 255) as u8
}

impl Rounding {
    fn widened(self, sample: i32) -> i32 {
        match self {
            Rounding::Repeated => (sample * 257) >> 4,
            Rounding::Shifted => sample << 4,
            Rounding::Sum => sample,
        }
    }

    /// The widened mean of two columns of one row, or of two rows.
    fn mean(self, upper: [i32; 2], lower: Option<[i32; 2]>) -> i32 {
        let sum = |row: [i32; 2]| row[0] + row[1];
        match (self, lower) {
            (Rounding::Repeated, Some(lower)) => {
                ((upper[0] + lower[0] + 1) / 2 + (upper[1] + lower[1] + 1) / 2) << 3
            }
            (Rounding::Shifted, Some(lower)) => (sum(upper) + sum(lower)) << 2,
            (Rounding::Repeated | Rounding::Shifted, None) => sum(upper) << 3,
            (Rounding::Sum, Some(lower)) => ((sum(upper) + sum(lower) + 1) / 2 + 1) / 2,
            (Rounding::Sum, None) => (sum(upper) + 1) / 2,
        }
    }

    fn weighted(self, widened: [i32; 3], weights: [i32; 3], offset: i32) -> i32 {
        let pairs = widened.into_iter().zip(weights);
        if self == Rounding::Sum {
            let sum: i32 = pairs.map(|(a, b)| a * b).sum();
            return (sum + (offset << 13) + (1 << 12) - 1) >> 13;
        }
        // The sum has two fractional bits.
        let sum: i32 = pairs.map(|(a, b)| product(a, b)).sum();
        sum + (offset << 2)
    }

    fn luma(self, widened: [i32; 3]) -> u8 {
        let sum = self.weighted(widened, LUMA, 16);
        clamped(if self == Rounding::Sum { sum } else { sum >> 2 })
    }

    fn chroma(self, widened: [i32; 3]) -> [u8; 2] {
        [CB, CR].map(|weights| {
            let sum = self.weighted(widened, weights, 128);
            clamped(if self == Rounding::Sum {
                sum
            } else {
                (sum + 1) >> 2
            })
        })
    }
}

/// BT.709 in limited range to blue, green, red and 255.
fn pixel([y, u, v]: [u8; 3]) -> [u8; 4] {
    let y = product(i32::from(y.saturating_sub(16)) << 2, 9539);
    let [u, v] = [u, v].map(|sample| (i32::from(sample) - 128) << 2);
    let green = y - product(v, 4366) - product(u, 1747);
    [
        clamped(y + product(u, 17305)),
        clamped(green),
        clamped(y + product(v, 14686)),
        255,
    ]
}

/// Deterministic noise (xorshift64).
fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    std::iter::repeat_with(|| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed.to_le_bytes()[3]
    })
    .take(len)
    .collect()
}

/// Red, green and blue of a pixel of a packed picture; columns beyond the last repeat it.
fn colour(picture: &Picture<'_>, x: usize, y: usize) -> [i32; 3] {
    let bytes = picture.format.packed().expect("packed");
    let x = x.min(picture.size.width as usize - 1);
    let at = y * picture.planes[0].stride + x * bytes;
    let colour: [i32; 3] = from_fn(|i| i32::from(picture.planes[0].data[at + i]));
    match picture.format {
        PixelFormat::Rgbx | PixelFormat::Rgb => colour,
        _ => [colour[2], colour[1], colour[0]],
    }
}

/// The planes Y, U and V without gaps, with one chroma sample for `step` pixels in each direction.
fn plain_planes(rounding: Rounding, picture: &Picture<'_>, step: usize) -> [Vec<u8>; 3] {
    let (width, height) = (picture.size.width as usize, picture.size.height as usize);
    let mut planes: [Vec<u8>; 3] = Default::default();
    for y in 0..height.next_multiple_of(step) {
        for x in 0..width.next_multiple_of(step) {
            let colour = colour(picture, x, y.min(height - 1));
            planes[0].push(rounding.luma(colour.map(|sample| rounding.widened(sample))));
        }
    }
    for y in (0..height).step_by(step) {
        for x in (0..width).step_by(step) {
            let at = |x, y| colour(picture, x, y);
            let widened: [i32; 3] = from_fn(|i| match step {
                1 => rounding.widened(at(x, y)[i]),
                _ => {
                    let row = |y| [at(x, y)[i], at(x + 1, y)[i]];
                    rounding.mean(row(y), (y + 1 < height).then(|| row(y + 1)))
                }
            });
            let [u, v] = rounding.chroma(widened);
            planes[1].push(u);
            planes[2].push(v);
        }
    }
    planes
}

#[test]
fn conversion_to_yuv_is_plain_arithmetic() {
    let Some(rounding) = rounding_or_skip() else {
        return;
    };
    let mut converter = Converter::new();
    for ((width, height), gap) in SIZES.into_iter().flat_map(|s| GAPS.map(|gap| (s, gap))) {
        let size = Size::new(width, height);
        for format in [
            PixelFormat::Bgrx,
            PixelFormat::Rgbx,
            PixelFormat::Bgr,
            PixelFormat::Rgb,
        ] {
            let row = width as usize * format.packed().expect("packed");
            let stride = row + gap;
            // The last row has no gap.
            let data = noise(stride * (height as usize - 1) + row, 5);
            let plane = Plane {
                data: &data,
                stride,
            };
            let picture = Picture {
                size,
                format,
                rows: RowOrder::TopDown,
                planes: [plane, Plane::EMPTY, Plane::EMPTY],
            };
            for to in [PixelFormat::Nv12, PixelFormat::I420, PixelFormat::I444] {
                let step = if to == PixelFormat::I444 { 1 } else { 2 };
                let [y, u, v] = plain_planes(rounding, &picture, step);
                let want = match to {
                    PixelFormat::Nv12 => {
                        let chroma = u.into_iter().zip(v);
                        vec![y, chroma.flat_map(|(u, v)| [u, v]).collect()]
                    }
                    _ => vec![y, u, v],
                };
                let have = converter.convert(&picture, to).expect("packed");
                for (n, (have, want)) in have.planes.iter().zip(want).enumerate() {
                    assert!(
                        have.data == want,
                        "{rounding:?}, {size}, gap {gap}: {format:?} to {to:?}, plane {n}"
                    );
                }
            }
        }
    }
}

#[test]
fn processors_differ_by_two_from_plain_arithmetic() {
    let roundings = [Rounding::Repeated, Rounding::Shifted, Rounding::Sum];
    let data = noise(3 << 16, 7);
    let (colours, _) = data.as_chunks::<3>();
    for colour in colours {
        let samples = roundings.map(|rounding| {
            let widened = colour.map(|sample| rounding.widened(i32::from(sample)));
            let [u, v] = rounding.chroma(widened);
            [rounding.luma(widened), u, v]
        });
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            for (a, b) in samples[a].into_iter().zip(samples[b]) {
                assert!(a.abs_diff(b) <= 2, "{colour:?}: {samples:?}");
            }
        }
    }
}

#[test]
fn conversion_to_rgb_is_plain_arithmetic() {
    if rounding_or_skip().is_none() {
        return;
    }
    for ((width, height), gap) in SIZES.into_iter().flat_map(|s| GAPS.map(|gap| (s, gap))) {
        let size = Size::new(width, height);
        let (width, height) = (width as usize, height as usize);
        let (half_width, half_height) = (width.div_ceil(2), height.div_ceil(2));
        for format in [
            PixelFormat::Nv12,
            PixelFormat::I420,
            PixelFormat::I444,
            PixelFormat::Gbr,
            PixelFormat::Bgrx,
        ] {
            // Bytes per row, and rows.
            let shapes = match format {
                PixelFormat::Nv12 => [
                    (half_width * 2, height),
                    (half_width * 2, half_height),
                    (0, 0),
                ],
                PixelFormat::I420 => [
                    (width, height),
                    (half_width, half_height),
                    (half_width, half_height),
                ],
                PixelFormat::Bgrx => [(width * 4, height), (0, 0), (0, 0)],
                _ => [(width, height); 3],
            };
            let data: [Vec<u8>; 3] =
                from_fn(|i| noise((shapes[i].0 + gap) * shapes[i].1, i as u64 + 1));
            let planes: [Plane<'_>; 3] = from_fn(|i| Plane {
                data: &data[i],
                stride: shapes[i].0 + gap,
            });
            let picture = Picture {
                size,
                format,
                rows: RowOrder::TopDown,
                planes,
            };
            let sample =
                |plane: usize, x: usize, y: usize| data[plane][y * planes[plane].stride + x];
            let mut want = Vec::new();
            for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
                want.extend(match format {
                    PixelFormat::Nv12 => pixel([
                        sample(0, x, y),
                        sample(1, x / 2 * 2, y / 2),
                        sample(1, x / 2 * 2 + 1, y / 2),
                    ]),
                    PixelFormat::I420 => pixel([
                        sample(0, x, y),
                        sample(1, x / 2, y / 2),
                        sample(2, x / 2, y / 2),
                    ]),
                    PixelFormat::I444 => pixel([0, 1, 2].map(|plane| sample(plane, x, y))),
                    PixelFormat::Gbr => {
                        let [green, blue, red] = [0, 1, 2].map(|plane| sample(plane, x, y));
                        [blue, green, red, 255]
                    }
                    _ => from_fn(|i| sample(0, x * 4 + i, y)),
                });
            }
            let mut have = vec![1; size.pixels() * 4];
            to_bgrx(&picture, &mut have).expect("a complete picture");
            assert!(have == want, "{size}, gap {gap}: {format:?}");
        }
    }
}

/// The source pixels that a scaled pixel covers, and their weights in units of 1/256.
fn covered(at: u64, from: u64, to: u64) -> Vec<(usize, u32)> {
    let (begin, end) = (at * from, (at + 1) * from);
    let upto = |pixel: u64| ((pixel * to).clamp(begin, end) - begin) * 256 / from;
    (begin / to..end.div_ceil(to))
        .map(|pixel| (pixel as usize, (upto(pixel + 1) - upto(pixel)) as u32))
        .collect()
}

#[test]
fn scaling_is_plain_arithmetic() {
    let mut scaler = Scaler::default();
    for (from, to) in [
        ((150, 33), (75, 16)),
        ((333, 7), (100, 7)),
        ((37, 64), (36, 5)),
    ] {
        let (from, to) = (Size::new(from.0, from.1), Size::new(to.0, to.1));
        for (format, bytes) in [(PixelFormat::Bgrx, 4), (PixelFormat::Rgb, 3)] {
            let stride = from.width as usize * bytes + 12;
            let data = noise(stride * from.height as usize, 3);
            let mut picture = Picture::bgrx(from, &data, stride);
            picture.format = format;
            let mut want = Vec::new();
            for (y, x) in (0..to.height).flat_map(|y| (0..to.width).map(move |x| (y, x))) {
                let rows = covered(y.into(), from.height.into(), to.height.into());
                let columns = covered(x.into(), from.width.into(), to.width.into());
                for channel in 0..bytes {
                    let mut sum = 1 << 15;
                    for (row, share) in &rows {
                        for (column, weight) in &columns {
                            let sample = data[row * stride + column * bytes + channel];
                            sum += u32::from(sample) * share * weight;
                        }
                    }
                    want.push((sum >> 16) as u8);
                }
            }
            let have = scaler.scale(&picture, to).expect("a smaller size");
            assert!(have.planes[0].data == want, "{from} to {to}: {format:?}");
        }
    }
}
