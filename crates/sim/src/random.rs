//! A seeded random sequence with a fixed algorithm. Studies are compared over years, and a library may change its
//! algorithm between versions.
//!
//! The algorithm is SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014, figure
//! 16). It must not be used for secrets.

/// One sequence.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed that has the number `stream`. Different streams are uncorrelated.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut start = Random(seed);
        let base = start.bits();
        Random(base ^ Random(stream).bits())
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        self.bits().to_le_bytes()[7]
    }

    /// A number in `0..limit`; 0 if `limit` is 0. The distribution is slightly non-uniform, so use small limits.
    pub fn below(&mut self, limit: usize) -> usize {
        let value = usize::try_from(self.bits() >> 33).unwrap_or(0);
        value.checked_rem(limit).unwrap_or(0)
    }

    /// Uniform in 0..1, with 53 bits.
    pub fn unit(&mut self) -> f64 {
        #[allow(clippy::cast_precision_loss)] // 53 bits fit exactly.
        let bits = (self.bits() >> 11) as f64;
        bits / 9_007_199_254_740_992.0
    }

    /// True with this probability: never at 0 (or NaN), always at 1.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A whole number from the exponential distribution with this mean, saturating.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss
    )]
    pub fn exponential(&mut self, mean: u64) -> u64 {
        (-(1.0 - self.unit()).ln() * mean as f64).round() as u64
    }

    /// A sample of the standard normal distribution (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let (radius, turn) = (1.0 - self.unit(), self.unit());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_sequence_is_the_published_one() {
        // Reference output for seed 1234567, as printed by other implementations.
        let mut random = Random(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn never_is_never_and_always_is_always() {
        let mut random = Random::new(1, 1);
        assert!((0..1000).all(|_| !random.chance(0.0)));
        assert!((0..1000).all(|_| random.chance(1.0)));
    }
}
