//! Quantiles by nearest rank, without interpolation: the smallest measured value such that at least the given share of
//! all values is less than or equal to it. The median of an even number of values is the lower of the two middle ones.

/// The unit of shares: 9999 units are the 99.99th percentile.
pub const UNITS: u16 = 10_000;

/// The percentile `percent` (0..=100) of `sorted`, which is in ascending order; `None` for an empty slice.
#[must_use]
pub fn nearest_rank<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let units = percent.saturating_mul(usize::from(UNITS) / 100);
    value(sorted, u16::try_from(units).unwrap_or(UNITS))
}

/// The quantile of `sorted` (in ascending order) at `share`, which is clamped to 0.0..=1.0 and rounded to [`UNITS`];
/// `None` for an empty slice.
#[must_use]
pub fn at_share<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    #[expect(clippy::cast_possible_truncation, reason = "the share is clamped")]
    let units = (share.clamp(0.0, 1.0) * f64::from(UNITS)).round() as u16;
    value(sorted, units)
}

/// The rank of the quantile at `units` of [`UNITS`] among `count` values. Rank 1 is the smallest value.
#[must_use]
pub fn rank(count: u64, units: u16) -> u64 {
    let product = u128::from(count) * u128::from(units.min(UNITS));
    // At most `count`.
    u64::try_from(product.div_ceil(u128::from(UNITS)))
        .unwrap_or(count)
        .max(1)
}

fn value<T: Copy>(sorted: &[T], units: u16) -> Option<T> {
    let rank = rank(u64::try_from(sorted.len()).ok()?, units);
    sorted.get(usize::try_from(rank - 1).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        assert_eq!(nearest_rank::<u32>(&[], 50), None);
        assert_eq!(nearest_rank(&[7], 1), Some(7));
        assert_eq!(nearest_rank(&[7], 99), Some(7));
        let hundred: Vec<u32> = (1..=100).collect();
        let of = |percent| nearest_rank(&hundred, percent);
        assert_eq!([of(0), of(50), of(99), of(100)], [1, 50, 99, 100].map(Some));
        assert_eq!([of(101), of(usize::MAX)], [100, 100].map(Some));
        // The fourth worst of 300 frames.
        let frames: Vec<u32> = (1..=300).collect();
        assert_eq!(nearest_rank(&frames, 99), Some(297));
    }

    #[test]
    fn a_share_is_the_same_quantile() {
        // The textbook example of the definition.
        let sorted = [15, 20, 35, 40, 50];
        let at = |share| at_share(&sorted, share).unwrap();
        assert_eq!([0.05, 0.3, 0.4, 0.5, 1.0].map(at), [15, 20, 20, 35, 50]);
        assert_eq!([-1.0, 2.0, f64::NAN].map(at), [15, 50, 15]);
        assert_eq!(at_share::<u64>(&[], 0.5), None);
        // 0.07 × 100 is above 7 in floating point.
        let hundred: Vec<u32> = (1..=100).collect();
        assert_eq!(at_share(&hundred, 0.07), Some(7));
    }

    #[test]
    fn ranks_are_between_one_and_the_count() {
        assert_eq!(
            [0, 1, 5000, UNITS].map(|units| rank(3, units)),
            [1, 1, 2, 3]
        );
        assert_eq!(rank(10_001, 9999), 10_000);
        assert_eq!(rank(u64::MAX, u16::MAX), u64::MAX);
        assert_eq!(rank(0, UNITS), 1);
    }
}
