//! Similarity of two pictures: PSNR and SSIM of their luma, as defined in the papers.
//!
//! PSNR is 10·log10(255² ÷ mean squared difference). SSIM is defined by Wang, Bovik, Sheikh and Simoncelli (IEEE
//! Transactions on Image Processing 13, 2004, equation 13, K1 = 0.01, K2 = 0.03). It is computed over windows of 8×8
//! pixels with a stride of 4 and uniform weights, as encoders do. The windows in the paper are 11×11 with Gaussian
//! weights, which costs twenty times as much.
//!
//! This module does not handle frames or streams.

use openuvr_proto::units::Size;

/// The luma of a picture, or of a part of a picture, with one byte per pixel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Luma {
    width: usize,
    data: Vec<u8>,
}

/// The PSNR of equal pictures in decibels. It is finite, so that means can be computed.
pub(super) const EQUAL: f64 = 100.0;

/// Side of a window in pixels. `STEP` is the stride of the windows.
const WINDOW: usize = 8;
const STEP: usize = 4;

impl Luma {
    /// Computes the luma (BT.709, full range) of a packed BGRX picture, without the first `skip` rows.
    pub(super) fn of(bgrx: &[u8], size: Size, skip: u32) -> Luma {
        let width = size.width as usize;
        // The weights 0.0722, 0.7152 and 0.2126 in units of 1/65536. Their sum is exactly one.
        let luma = |p: &[u8]| {
            let sum = u32::from(p[0]) * 4_732 + u32::from(p[1]) * 46_871 + u32::from(p[2]) * 13_933;
            ((sum + 32_768) >> 16) as u8
        };
        let from = (skip as usize * width * 4).min(bgrx.len());
        Luma {
            width,
            data: bgrx[from..].chunks_exact(4).map(luma).collect(),
        }
    }

    /// The PSNR in decibels, at most [`EQUAL`]; `None` if the sizes differ.
    pub(super) fn psnr(&self, other: &Luma) -> Option<f64> {
        if self.width != other.width || self.data.len() != other.data.len() {
            return None;
        }
        let square = |(a, b): (&u8, &u8)| u64::from(a.abs_diff(*b)).pow(2);
        let sum: u64 = self.data.iter().zip(&other.data).map(square).sum();
        let mean = sum as f64 / self.data.len().max(1) as f64;
        Some((10.0 * (255.0_f64.powi(2) / mean).log10()).min(EQUAL))
    }

    /// The mean SSIM of all windows, which is 1 for equal pictures; `None` if the sizes differ or if the picture is
    /// smaller than a window.
    pub(super) fn ssim(&self, other: &Luma) -> Option<f64> {
        let rows = self.data.len() / self.width.max(1);
        let (across, down) = (self.width / STEP, rows / STEP);
        let fits = across * STEP >= WINDOW && down * STEP >= WINDOW;
        if self.width != other.width || self.data.len() != other.data.len() || !fits {
            return None;
        }
        let mut above: Vec<Sums> = Vec::new();
        let (mut sum, mut count) = (0.0, 0_u32);
        for row in 0..down {
            let here: Vec<Sums> = (0..across).map(|x| self.sums(other, x, row)).collect();
            for (above, here) in std::iter::zip(above.windows(2), here.windows(2)) {
                let [a, b]: [Sums; 2] = [above[0].plus(above[1]), here[0].plus(here[1])];
                sum += a.plus(b).ssim();
                count += 1;
            }
            above = here;
        }
        Some(sum / f64::from(count.max(1)))
    }

    /// Sums over the quarter of a window at this position.
    fn sums(&self, other: &Luma, x: usize, y: usize) -> Sums {
        let mut sums = Sums::default();
        for row in y * STEP..(y + 1) * STEP {
            let at = row * self.width + x * STEP;
            for (a, b) in std::iter::zip(&self.data[at..at + STEP], &other.data[at..at + STEP]) {
                let (a, b) = (u32::from(*a), u32::from(*b));
                sums.a += a;
                sums.b += b;
                sums.squares += a * a + b * b;
                sums.products += a * b;
            }
        }
        sums
    }
}

/// Sums over pixels of two pictures.
#[derive(Clone, Copy, Default, Debug)]
struct Sums {
    a: u32,
    b: u32,
    /// The sum of a² + b²: only the sum of the two variances is needed.
    squares: u32,
    products: u32,
}

impl Sums {
    fn plus(self, other: Sums) -> Sums {
        Sums {
            a: self.a + other.a,
            b: self.b + other.b,
            squares: self.squares + other.squares,
            products: self.products + other.products,
        }
    }

    /// The SSIM of one window.
    fn ssim(self) -> f64 {
        const C1: f64 = (0.01 * 255.0) * (0.01 * 255.0);
        const C2: f64 = (0.03 * 255.0) * (0.03 * 255.0);
        const PIXELS: f64 = (WINDOW * WINDOW) as f64;
        let [a, b, squares, products] =
            [self.a, self.b, self.squares, self.products].map(|sum| f64::from(sum) / PIXELS);
        let variances = squares - a * a - b * b;
        let covariance = products - a * b;
        (2.0 * a * b + C1) * (2.0 * covariance + C2) / ((a * a + b * b + C1) * (variances + C2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(width: usize, rows: usize, value: impl Fn(usize, usize) -> u8) -> Luma {
        let pixels = (0..width * rows).map(|i| (i % width, i / width));
        Luma {
            width,
            data: pixels.map(|(x, y)| value(x, y)).collect(),
        }
    }

    /// A picture with texture and a gradient, and a coarser, darker, noisy version of it.
    fn pair() -> (Luma, Luma) {
        let one = |x: usize, y: usize| ((x * 7 + y * 13) % 61 + x + y) as u8;
        let other = |x: usize, y: usize| {
            let noise = (x * 31 + y * 17) % 11;
            ((usize::from(one(x, y)) / 8 * 8 + noise) * 9 / 10) as u8
        };
        (picture(48, 32, one), picture(48, 32, other))
    }

    #[test]
    fn luma_is_that_of_the_standard() {
        let size = Size::new(2, 2);
        let bgrx = [
            [9, 9, 9, 9],
            [9, 9, 9, 9], // skipped
            [255, 255, 255, 0],
            [200, 100, 50, 0],
        ];
        let luma = Luma::of(bgrx.as_flattened(), size, 1);
        // 0.0722·200 + 0.7152·100 + 0.2126·50 = 96.59
        assert_eq!(luma.data, [255, 97]);
    }

    #[test]
    fn equal_pictures_are_perfect_and_other_sizes_are_no_pair() {
        let (one, _) = pair();
        assert_eq!((one.psnr(&one), one.ssim(&one)), (Some(EQUAL), Some(1.0)));
        let small = picture(32, 48, |_, _| 0);
        assert_eq!((one.psnr(&small), one.ssim(&small)), (None, None));
        let tiny = picture(7, 9, |_, _| 0);
        assert_eq!(tiny.ssim(&tiny), None);
    }

    #[test]
    fn flat_pictures_have_the_values_of_the_formulas() {
        let (a, b) = (picture(16, 16, |_, _| 100), picture(16, 16, |_, _| 110));
        // 10·log10(255² ÷ 100), and (2·100·110 + 6.5025) ÷ (100² + 110² + 6.5025).
        assert!((a.psnr(&b).unwrap() - 28.1308).abs() < 1e-4);
        assert!((a.ssim(&b).unwrap() - 0.995_476_4).abs() < 1e-6);
    }

    #[test]
    fn the_opposite_is_less_than_nothing() {
        let one = picture(16, 16, |x, y| if (x + y) % 2 == 0 { 255 } else { 0 });
        let other = picture(16, 16, |x, y| if (x + y) % 2 == 0 { 0 } else { 255 });
        assert!(one.ssim(&other).unwrap() < -0.99);
        assert_eq!(one.psnr(&other).map(|db| db.abs()), Some(0.0));
    }

    #[test]
    fn a_textured_pair_has_the_known_value() {
        let (one, other) = pair();
        assert!((one.psnr(&other).unwrap() - PSNR).abs() < 1e-6);
        assert!((one.ssim(&other).unwrap() - SSIM).abs() < 1e-6);
        assert_eq!(one.ssim(&other), other.ssim(&one), "whichever comes first");
    }
    /// Computed independently with numpy from the definitions, window by window.
    const PSNR: f64 = 30.795_414_290;
    const SSIM: f64 = 0.971_994_020;
}
