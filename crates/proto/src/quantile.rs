//! Quantiles by nearest rank: the smallest measured value that at least the given percentage of the values
//! don't exceed, without interpolation.

/// The `percent`th percentile of `sorted`, in 0..=100; `None` for an empty slice.
#[must_use]
pub fn nearest_rank<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = sorted.len().saturating_mul(percent).div_ceil(100);
    let last = sorted.len().checked_sub(1)?;
    sorted.get(rank.saturating_sub(1).min(last)).copied()
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
        // The third worst of 300 frames.
        let frames: Vec<u32> = (1..=300).collect();
        assert_eq!(nearest_rank(&frames, 99), Some(297));
    }
}
