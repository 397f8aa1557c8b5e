//! The forward transform: CDF 9/7 by lifting (ITU-T T.800, F.4.8.2), with 16-bit integers.
//!
//! A sample is the pixel's difference from 128, with five fraction bits. Each row is transformed when it is read. The
//! vertical steps of a row follow as soon as the rows below it are transformed, so that its samples are still in the
//! first-level cache. The rows of the result are interleaved: even rows are low-pass vertically, and left halves of
//! rows are low-pass horizontally.

use crate::video::Plane;

/// Number of fraction bits of a sample. With five bits, the largest intermediate value of a lifting step, about 2.6
/// times 128 * 32, fits in 16 bits.
pub(crate) const FRACTION: u32 = 5;

/// The lifting coefficients of T.800, table F.4, as fractions of 32768. The first coefficient is -1.586134342; its
/// integer part, -1, is applied separately.
const ALPHA: i16 = -19_207;
const BETA: i16 = -1_736;
const GAMMA: i16 = 28_931;
const DELTA: i16 = 14_533;

/// 1 / 1.230174105^2: the scale of a sample that is low-pass in both directions.
const LOW: i16 = 21_653;

/// A subband.
#[derive(Clone, Copy)]
pub(crate) struct Band {
    /// 0 is the finest level.
    pub(crate) level: usize,
    /// Whether the band is high-pass horizontally, and whether it is high-pass vertically.
    pub(crate) high: (bool, bool),
}

/// The samples of a band, in `height` rows of `width` samples.
pub(crate) struct Samples<'a> {
    rows: &'a [Vec<i16>],
    high: (bool, bool),
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Samples<'_> {
    pub(crate) fn row(&self, y: usize) -> &[i16] {
        let row = &self.rows[2 * y + usize::from(self.high.1)];
        if self.high.0 {
            &row[self.width..2 * self.width]
        } else {
            &row[..self.width]
        }
    }
}

/// The transform of planes with a fixed size, and its last result.
pub(crate) struct Wavelet {
    /// The rows of each level. A row has the low-pass half, then the high-pass half.
    levels: Vec<Vec<Vec<i16>>>,
    width: usize,
    even: Vec<i16>,
    odd: Vec<i16>,
}

impl Wavelet {
    /// The height is extended to a multiple of 32 (16 for chroma), by repetition of the last row.
    pub(crate) fn new(width: usize, height: usize, levels: usize) -> Wavelet {
        let height = height.next_multiple_of(1 << levels);
        let level = |number: usize| vec![vec![0; width >> number]; height >> number];
        Wavelet {
            levels: (0..levels).map(level).collect(),
            width,
            even: vec![0; width / 2 + 1],
            odd: vec![0; width / 2 + 1],
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn height(&self) -> usize {
        self.levels[0].len()
    }

    pub(crate) fn samples(&self, band: Band) -> Samples<'_> {
        let rows = &self.levels[band.level];
        Samples {
            rows,
            high: band.high,
            width: self.width >> (band.level + 1),
            height: rows.len() / 2,
        }
    }

    /// Transforms a plane.
    pub(crate) fn forward(&mut self, plane: &Plane) {
        let Wavelet {
            levels, even, odd, ..
        } = self;
        for number in 0..levels.len() {
            let (before, rest) = levels.split_at_mut(number);
            let rows = &mut rest[0];
            let half = rows[0].len() / 2;
            let (even, odd) = (&mut even[..=half], &mut odd[..=half]);
            for y in 0..rows.len() {
                match before.last() {
                    None => split_pixels(plane.row(y), even, odd),
                    Some(finer) => split(&finer[2 * y][..2 * half], even, odd),
                }
                lift_row(even, odd);
                rows[y][..half].copy_from_slice(&even[..half]);
                rows[y][half..].copy_from_slice(&odd[1..]);
                if y % 2 == 1 && y >= 3 {
                    // Lift the previous pair of rows, because its steps also need the even row below it.
                    lift_columns(rows, (y - 1) / 2 - 1, half);
                }
            }
            lift_last_columns(rows, half);
        }
    }
}

/// Splits a row of pixels into even and odd samples. The first element of `odd` and the last element of `even` are
/// reserved for mirrored samples.
fn split_pixels(row: &[u8], even: &mut [i16], odd: &mut [i16]) {
    let pairs = row.as_chunks::<2>().0.iter();
    for ((pair, even), odd) in pairs.zip(even).zip(&mut odd[1..]) {
        *even = (i16::from(pair[0]) - 128) << FRACTION;
        *odd = (i16::from(pair[1]) - 128) << FRACTION;
    }
}

fn split(row: &[i16], even: &mut [i16], odd: &mut [i16]) {
    let pairs = row.as_chunks::<2>().0.iter();
    for ((pair, even), odd) in pairs.zip(even).zip(&mut odd[1..]) {
        (*even, *odd) = (pair[0], pair[1]);
    }
}

/// a * b / 32768, rounded.
#[inline(always)]
fn scaled(a: i16, b: i16) -> i16 {
    ((i32::from(a) * i32::from(b) + 0x4000) >> 15) as i16
}

/// A lifting step with the first coefficient, for a sample with the neighbours `a` and `b`.
#[inline(always)]
fn step_alpha(target: &mut i16, a: i16, b: i16) {
    let sum = a.wrapping_add(b);
    *target = target.wrapping_sub(sum).wrapping_add(scaled(sum, ALPHA));
}

#[inline(always)]
fn step(target: &mut i16, a: i16, b: i16, by: i16) {
    *target = target.wrapping_add(scaled(a.wrapping_add(b), by));
}

/// Lifts a row. Both ends are mirrored at the outermost sample.
fn lift_row(even: &mut [i16], odd: &mut [i16]) {
    let half = even.len() - 1;
    even[half] = even[half - 1];
    on_samples(&mut odd[1..], even, step_alpha);
    odd[0] = odd[1];
    on_samples(even, odd, |t, a, b| step(t, a, b, BETA));
    even[half] = even[half - 1];
    on_samples(&mut odd[1..], even, |t, a, b| step(t, a, b, GAMMA));
    odd[0] = odd[1];
    on_samples(even, odd, |t, a, b| step(t, a, b, DELTA));
}

/// Applies a step to each sample that has two neighbours. The loop has no indices, so that the compiler can vectorise
/// it.
#[inline(always)]
fn on_samples(targets: &mut [i16], neighbours: &[i16], step: impl Fn(&mut i16, i16, i16)) {
    let pairs = neighbours.iter().zip(&neighbours[1..]);
    for (sample, (a, b)) in targets.iter_mut().zip(pairs) {
        step(sample, *a, *b);
    }
}

/// Performs the vertical lifting steps that are possible after row `2 * k + 2` has been read.
fn lift_columns(rows: &mut [Vec<i16>], k: usize, half: usize) {
    let even = |k: usize| 2 * k;
    let odd = |k: usize| 2 * k + 1;
    on_row(rows, odd(k), even(k), even(k + 1), step_alpha);
    on_row(
        rows,
        even(k),
        odd(k.saturating_sub(1)),
        odd(k),
        |t, a, b| step(t, a, b, BETA),
    );
    if let Some(before) = k.checked_sub(1) {
        finish(rows, before, even(k), half);
    }
}

/// Performs the steps at the lower end, at which the rows are mirrored.
fn lift_last_columns(rows: &mut [Vec<i16>], half: usize) {
    let k = rows.len() / 2 - 1;
    on_row(rows, 2 * k + 1, 2 * k, 2 * k, step_alpha);
    on_row(
        rows,
        2 * k,
        2 * k.saturating_sub(1) + 1,
        2 * k + 1,
        |t, a, b| step(t, a, b, BETA),
    );
    if let Some(before) = k.checked_sub(1) {
        finish(rows, before, 2 * k, half);
    }
    finish(rows, k, 2 * k, half);
}

/// Performs the last two steps for the rows `2 * k` and `2 * k + 1`. `below` is the next even row, or its mirror image.
fn finish(rows: &mut [Vec<i16>], k: usize, below: usize, half: usize) {
    on_row(rows, 2 * k + 1, 2 * k, below, |t, a, b| {
        step(t, a, b, GAMMA)
    });
    let above = 2 * k.saturating_sub(1) + 1;
    on_row(rows, 2 * k, above, 2 * k + 1, |t, a, b| {
        step(t, a, b, DELTA)
    });
    for low in &mut rows[2 * k][..half] {
        *low = scaled(*low, LOW);
    }
}

#[inline(always)]
fn on_row(
    rows: &mut [Vec<i16>],
    target: usize,
    a: usize,
    b: usize,
    step: impl Fn(&mut i16, i16, i16),
) {
    let mut row = std::mem::take(&mut rows[target]);
    for ((sample, a), b) in row.iter_mut().zip(&rows[a]).zip(&rows[b]) {
        step(sample, *a, *b);
    }
    rows[target] = row;
}
