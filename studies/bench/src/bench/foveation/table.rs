//! Determines in which parts of a side every pixel is coded, and in which parts only one of two or one of four pixels.
//! All counts are whole numbers, so the position of each coded pixel is exact.

use openuvr_proto::units::Size;

/// The runs of pixels along one side, in order: the number of coded pixels, and the number of picture pixels that each
/// of them covers.
pub(super) struct Table {
    runs: [(u32, u32); 5],
}

impl Table {
    /// The table for a side of `side` pixels, a multiple of 32. The middle half is not scaled. The adjacent eighth at
    /// each end is scaled by 2, and the outer eighth at each end by 4.
    pub(super) fn new(side: u32) -> Table {
        let edge = side / 8 / 4;
        let beside = side / 8 / 2;
        let middle = side - 2 * (edge * 4 + beside * 2);
        // The number of coded pixels is even, which 4:2:0 requires.
        Table {
            runs: [(edge, 4), (beside, 2), (middle, 1), (beside, 2), (edge, 4)],
        }
    }

    /// Number of pixels that are coded.
    pub(super) fn coded(&self) -> u32 {
        self.runs.iter().map(|(count, _)| count).sum()
    }

    /// For each coded pixel, the first picture pixel that it covers, and the number of picture pixels that it covers.
    fn covers(&self) -> Vec<(usize, usize)> {
        let mut covers = Vec::new();
        let mut at = 0;
        for (count, each) in self.runs {
            for _ in 0..count {
                covers.push((at, each as usize));
                at += each as usize;
            }
        }
        covers
    }
}

/// Shrinks a picture of one byte per pixel. Each pixel of the result is the average of the pixels that it covers.
pub(super) fn shrink(picture: &[u8], size: Size, tables: &[Table; 2]) -> Vec<u8> {
    let (columns, rows) = (tables[0].covers(), tables[1].covers());
    let width = size.width as usize;
    let mut out = Vec::with_capacity(columns.len() * rows.len());
    let mut sums = vec![0_u32; columns.len()];
    for (y, high) in rows {
        sums.fill(0);
        for row in picture[y * width..(y + high) * width].chunks_exact(width) {
            for (sum, (x, wide)) in sums.iter_mut().zip(&columns) {
                *sum += row[*x..x + wide].iter().map(|v| u32::from(*v)).sum::<u32>();
            }
        }
        let all = sums.iter().zip(&columns).map(|(sum, (_, wide))| {
            let of = u32::try_from(wide * high).unwrap_or(1);
            u8::try_from((sum + of / 2) / of).unwrap_or(u8::MAX)
        });
        out.extend(all);
    }
    out
}

/// Reverses [`shrink`]: copies each pixel to all pixels that it covers.
pub(super) fn enlarge(small: &[u8], size: Size, tables: &[Table; 2]) -> Vec<u8> {
    let (columns, rows) = (tables[0].covers(), tables[1].covers());
    let width = size.width as usize;
    let mut out = Vec::with_capacity(size.pixels());
    for (row, (_, high)) in small.chunks_exact(columns.len()).zip(rows) {
        let start = out.len();
        for (value, (_, wide)) in row.iter().zip(&columns) {
            out.resize(out.len() + wide, *value);
        }
        for _ in 1..high {
            out.extend_from_within(start..start + width);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_shrunk_and_enlarged_shrinks_to_the_same() {
        for side in [128, 640, 1920] {
            let tables = [Table::new(side), Table::new(128)];
            assert!(tables[0].coded().is_multiple_of(2));
            let size = Size::new(side, 128);
            let picture: Vec<u8> = (0..size.pixels()).map(|i| (i * 7919 % 251) as u8).collect();
            let small = shrink(&picture, size, &tables);
            let large = enlarge(&small, size, &tables);
            assert_eq!(large.len(), picture.len());
            assert_eq!(shrink(&large, size, &tables), small);
            // The middle of the picture is unchanged.
            let (x, y) = (side as usize / 2, 64);
            let at = y * side as usize + x;
            assert_eq!(large[at], picture[at]);
        }
    }
}
