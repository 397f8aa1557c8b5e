//! Wrap-around comparison (RFC 1982 serial number arithmetic).

/// Whether 32-bit serial number `a` is newer than `b`.
#[must_use]
pub fn newer(a: u32, b: u32) -> bool {
    let ahead = a.wrapping_sub(b);
    ahead != 0 && ahead < 1 << 31
}

#[cfg(test)]
mod tests {
    use super::newer;

    #[test]
    fn newer_handles_the_wrap_around() {
        assert!(newer(1, 0));
        assert!(!newer(0, 1));
        assert!(!newer(7, 7));
        assert!(newer(3, u32::MAX - 3));
        assert!(!newer(u32::MAX - 3, 3));
    }
}
