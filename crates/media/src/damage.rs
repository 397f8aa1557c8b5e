//! Tracks the parts of a picture that differ from an earlier picture, as one span in each row of macroblocks.
//!
//! The tracking is deliberately coarse: it has a codec's granularity, bounded size, and fast merging. The window
//! system's damage, in contrast, is in pixels.

use std::ops::Range;

use openuvr_proto::units::Size;

/// Side of a macroblock in pixels.
const SIDE: u32 = 16;

/// A rectangle of a picture, in pixels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// From the left to the right edge.
    pub columns: Range<u32>,
    /// From the upper to the lower edge.
    pub rows: Range<u32>,
}

impl Block {
    /// The smallest block that contains both blocks.
    #[must_use]
    pub fn joined(&self, other: &Block) -> Block {
        let span = |a: &Range<u32>, b: &Range<u32>| match (a.is_empty(), b.is_empty()) {
            (true, _) => b.clone(),
            (_, true) => a.clone(),
            _ => a.start.min(b.start)..a.end.max(b.end),
        };
        Block {
            columns: span(&self.columns, &other.columns),
            rows: span(&self.rows, &other.rows),
        }
    }
}

/// The macroblocks in which a picture differs from an earlier picture of the same size.
#[derive(Clone, Debug, Default)]
pub struct Damage {
    /// Size of the pictures; empty if the earlier picture is unknown.
    size: Size,
    /// For each row of macroblocks: the first macroblock of the changed span, and the span's end.
    spans: Vec<(u32, u32)>,
}

impl Damage {
    /// Adds `block`, the area in which the next picture of `size` differs; `None` if this is unknown.
    pub fn add(&mut self, size: Size, block: Option<&Block>) {
        let Some(block) = block.filter(|_| size == self.size) else {
            // The difference is unknown until the next call of [`Damage::clear`].
            self.size = Size::default();
            return;
        };
        let (columns, rows) = (&block.columns, &block.rows);
        if columns.is_empty() || rows.is_empty() {
            return;
        }
        let last = self.size.width.div_ceil(SIDE);
        let (left, right) = (columns.start / SIDE, columns.end.div_ceil(SIDE).min(last));
        let rows = (rows.start / SIDE) as usize..rows.end.div_ceil(SIDE) as usize;
        for (first, end) in self.spans.iter_mut().take(rows.end).skip(rows.start) {
            let empty = first >= end;
            (*first, *end) = match empty {
                true => (left, right),
                false => (left.min(*first), right.max(*end)),
            };
        }
    }

    /// Makes the current picture of `size` the basis of comparison.
    pub fn clear(&mut self, size: Size) {
        self.size = size;
        self.spans.clear();
        (self.spans).resize(size.height.div_ceil(SIDE) as usize, (0, 0));
    }

    /// Whether a picture of `size` is known to be partly unchanged.
    #[must_use]
    pub fn is_partial(&self, size: Size) -> bool {
        let all = |(first, end): &(u32, u32)| (*first, *end) == (0, size.width.div_ceil(SIDE));
        self.size == size && size.is_valid() && !self.spans.iter().all(all)
    }

    /// Whether this macroblock, in raster order, has changed.
    #[must_use]
    pub fn has(&self, mb: usize) -> bool {
        let columns = self.size.width.div_ceil(SIDE).max(1) as usize;
        let (row, column) = (mb / columns, mb % columns);
        let span = self.spans.get(row);
        span.is_none_or(|(first, end)| (*first as usize..*end as usize).contains(&column))
    }

    /// The changed areas, clipped to the picture: rectangles from top to bottom that share no rows.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        let mut row = 0;
        std::iter::from_fn(move || {
            loop {
                let span = *self.spans.get(row)?;
                let same = self.spans[row..].iter().take_while(|other| **other == span);
                let begin = row;
                row += same.count();
                if span.0 < span.1 {
                    let pixels = |mbs: usize| u32::try_from(mbs).unwrap_or(u32::MAX) * SIDE;
                    return Some(Block {
                        columns: span.0 * SIDE..(span.1 * SIDE).min(self.size.width),
                        rows: pixels(begin)..pixels(row).min(self.size.height),
                    });
                }
            }
        })
    }

    /// The number of changed pixels.
    #[must_use]
    pub fn pixels(&self) -> usize {
        let area = |block: Block| block.columns.len() * block.rows.len();
        self.blocks().map(area).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size::new(100, 70);

    fn block(columns: Range<u32>, rows: Range<u32>) -> Block {
        Block { columns, rows }
    }

    fn damage(blocks: &[Block]) -> Damage {
        let mut damage = Damage::default();
        damage.clear(SIZE);
        for block in blocks {
            damage.add(SIZE, Some(block));
        }
        damage
    }

    #[test]
    fn damage_is_unknown_before_the_first_picture() {
        let mut damage = Damage::default();
        assert!(!damage.is_partial(SIZE));
        damage.add(SIZE, Some(&block(0..1, 0..1)));
        assert!(!damage.is_partial(SIZE));
        damage.clear(SIZE);
        assert!(damage.is_partial(SIZE) && !damage.has(0));
        assert_eq!(damage.blocks().count(), 0);
        assert!(!damage.is_partial(Size::new(100, 71)), "another size");
        damage.add(SIZE, None);
        damage.add(SIZE, Some(&block(0..1, 0..1)));
        assert!(!damage.is_partial(SIZE), "until the next clear");
    }

    #[test]
    fn rectangles_grow_to_macroblocks_and_end_with_the_picture() {
        let damage = damage(&[block(17..18, 15..17), block(90..100, 69..70)]);
        let blocks: Vec<Block> = damage.blocks().collect();
        assert_eq!(blocks, [block(16..32, 0..32), block(80..100, 64..70)]);
        // Seven columns, five rows.
        let marked: Vec<usize> = (0..35).filter(|mb| damage.has(*mb)).collect();
        assert_eq!(marked, [1, 8, 33, 34]);
        assert_eq!(damage.pixels(), 16 * 32 + 20 * 6);
    }

    #[test]
    fn horizontal_neighbours_are_joined_vertical_ones_are_not() {
        let damage = damage(&[block(0..5, 0..5), block(95..99, 0..5), block(0..5, 40..41)]);
        let blocks: Vec<Block> = damage.blocks().collect();
        assert_eq!(blocks, [block(0..100, 0..16), block(0..16, 32..48)]);
        assert!(damage.is_partial(SIZE));
    }

    #[test]
    fn two_blocks_are_joined_to_one_that_holds_both() {
        let (left, right) = (block(3..5, 10..20), block(50..60, 2..4));
        assert_eq!(left.joined(&right), block(3..60, 2..20));
        assert_eq!(right.joined(&left), block(3..60, 2..20));
        let nothing = block(7..7, 9..9);
        assert_eq!(left.joined(&nothing), left);
        assert_eq!(nothing.joined(&left), left);
    }

    #[test]
    fn full_damage_is_not_partial() {
        let damage = damage(&[block(0..100, 0..70)]);
        assert!(!damage.is_partial(SIZE));
    }
}
