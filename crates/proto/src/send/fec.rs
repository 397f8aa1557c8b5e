//! Forward error correction: the amount of repair data per block, and its computation.
//!
//! A block fails if it loses more shards than it has parity shards. This probability is computed with Gilbert's loss model
//! (1960): a good state without loss and a bad state in which everything is lost, with the measured [`Loss`] as its two
//! parameters.

use reed_solomon_simd::ReedSolomonEncoder;

use super::loss::Loss;
use crate::wire::fec::{BLOCK, MAX_PARITY, MAX_SHARD, SHARD_LENGTH};

/// The target failure probability of a block, and the limit of its parity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FecLevel {
    /// 10⁻³: one failure in 17 s at 60 frames/s. There are at most half as many parity shards as data shards. Used if a
    /// retransmission delays its frame by at most half a frame interval.
    #[default]
    Standard,
    /// 10⁻³, but there may be two parity shards for three data shards. Used if a retransmission delays its frame longer.
    Raised,
    /// 10⁻⁵, with the same limit as [`FecLevel::Raised`]. Used if each failure costs all frames of a round trip.
    High,
}

impl FecLevel {
    /// The target failure probability of a block.
    #[must_use]
    pub const fn block_loss(self) -> f64 {
        match self {
            FecLevel::Standard | FecLevel::Raised => 1e-3,
            FecLevel::High => 1e-5,
        }
    }

    /// Maximum parity shards of a block with `data` data shards.
    fn cap(self, data: usize) -> usize {
        let cap = match self {
            FecLevel::Standard => data.div_ceil(2),
            FecLevel::Raised | FecLevel::High => (data * 2).div_ceil(3),
        };
        cap.clamp(SMALL, MAX_PARITY)
    }
}

/// Loss rate below which FEC is off. At this rate, about one in a thousand frames of 16 datagrams loses a datagram.
const NEGLIGIBLE: f64 = 5e-5;

/// A small block may get up to this number of parity shards, even beyond the limit of its level. The shards cost
/// little, and a burst may hit a small block completely.
const SMALL: usize = 4;

/// Number of data shards of the block that decides whether FEC helps at all: a frame of 10 Mb/s at 60 frames/s.
const TYPICAL: usize = 16;

/// Loss rate and run length are quantised in quarters of an octave.
const STEPS_PER_OCTAVE: f64 = 4.0;

/// The number of parity shards per number of data shards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FecPlan {
    cell: Option<Cell>,
    parity: [u8; BLOCK + 1],
}

impl Default for FecPlan {
    fn default() -> FecPlan {
        FecPlan::NONE
    }
}

impl FecPlan {
    /// No parity.
    pub const NONE: FecPlan = FecPlan {
        cell: None,
        parity: [0; BLOCK + 1],
    };

    /// The plan for this loss. A block gets enough parity shards to fail with the probability of `level` at most, but
    /// no more than the level's limit; small blocks may get up to four. If parity would not even halve the failures,
    /// there is none, because the outages are longer than parity can repair. Takes about 0.1 ms.
    #[must_use]
    pub fn of(loss: Loss, level: FecLevel) -> FecPlan {
        match Cell::of(loss, level) {
            Some(cell) => FecPlan {
                cell: Some(cell),
                parity: fitting(cell.loss(), level),
            },
            None => FecPlan::NONE,
        }
    }

    /// Updates the plan for `loss`. Costs nothing while the loss stays within a quarter of an octave.
    pub fn follow(&mut self, loss: Loss, level: FecLevel) {
        if self.cell != Cell::of(loss, level) {
            *self = FecPlan::of(loss, level);
        }
    }

    /// Parity shards for a block of `data` data shards.
    #[must_use]
    pub fn parity(&self, data: usize) -> usize {
        self.parity.get(data).copied().unwrap_or(0).into()
    }

    /// Whether no block gets parity. Otherwise, all blocks do.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.parity[BLOCK] == 0
    }
}

/// The key of a plan: loss rate and run length in quarters of an octave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cell {
    rate: i32,
    run: i32,
    level: FecLevel,
}

impl Cell {
    fn of(loss: Loss, level: FecLevel) -> Option<Cell> {
        #[expect(clippy::cast_possible_truncation, reason = "both are small")]
        let step = |x: f64| (x.log2() * STEPS_PER_OCTAVE).round() as i32;
        let rate = loss.rate.clamp(0.0, 0.5);
        (rate >= NEGLIGIBLE).then(|| Cell {
            rate: step(rate),
            run: step(loss.run.clamp(1.0, 64.0)),
            level,
        })
    }

    fn loss(self) -> Loss {
        let value = |step: i32| 2_f64.powf(f64::from(step) / STEPS_PER_OCTAVE);
        Loss {
            rate: value(self.rate),
            run: value(self.run),
        }
    }
}

/// For each number of data shards, the smallest number of parity shards with which a block fails no more often than
/// `level` permits. One pass covers all block lengths n: each step extends the distribution of losses among n
/// consecutive datagrams to n + 1.
fn fitting(loss: Loss, level: FecLevel) -> [u8; BLOCK + 1] {
    const MOST: usize = MAX_PARITY + 1;
    // The mean run is never shorter than that of independent losses.
    let rate = loss.rate.min(0.5);
    let leave = 1.0 / loss.run.max(1.0 / (1.0 - rate));
    let enter = rate * leave / (1.0 - rate);
    // Probability of c losses with the link in the good and the bad state. The last entry covers all higher numbers.
    let mut good = [0.0; MOST + 1];
    let mut bad = [0.0; MOST + 1];
    (good[0], bad[0]) = (1.0 - rate, rate);
    let mut parity: [Option<u8>; BLOCK + 1] = [None; BLOCK + 1];
    // Failure probability of a block without parity, and with the maximum parity.
    let (mut bare, mut best) = ([0.0; BLOCK + 1], [0.0; BLOCK + 1]);
    for n in 1..=BLOCK + MAX_PARITY {
        let mut above_bad = 0.0;
        for c in (0..=MOST).rev() {
            let to_good = good[c] * (1.0 - enter) + bad[c] * leave;
            let lost = good[c] * enter + bad[c] * (1.0 - leave);
            good[c] = to_good;
            if c == MOST {
                above_bad = lost;
            } else {
                bad[c + 1] = lost + if c + 1 == MOST { above_bad } else { 0.0 };
            }
        }
        bad[0] = 0.0;
        let mut kept = 0.0;
        for m in 0..=MAX_PARITY.min(n - 1) {
            kept += good[m] + bad[m];
            let data = n - m;
            if data > BLOCK {
                continue;
            }
            if parity[data].is_none() && 1.0 - kept <= level.block_loss() {
                parity[data] = u8::try_from(m).ok();
            }
            if m == 0 {
                bare[data] = 1.0 - kept;
            }
            if m == level.cap(data) {
                best[data] = 1.0 - kept;
            }
        }
    }
    if best[TYPICAL] > bare[TYPICAL] / 2.0 {
        return [0; BLOCK + 1];
    }
    std::array::from_fn(|data| {
        let most = u8::try_from(level.cap(data)).unwrap_or(u8::MAX);
        let wanted = parity[data].unwrap_or(most).clamp(1, most);
        if data == 0 { 0 } else { wanted }
    })
}

/// The data shards of the current block, and its encoder.
#[derive(Default)]
pub(super) struct BlockCoder {
    shards: Vec<u8>,
    count: usize,
    longest: usize,
    coder: Option<ReedSolomonEncoder>,
}

impl BlockCoder {
    /// The number of data shards.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.longest = 0;
        self.shards.clear();
    }

    /// Adds a body of at most [`MAX_SHARD`] − [`SHARD_LENGTH`] bytes.
    pub(super) fn push(&mut self, body: &[u8]) {
        let Ok(length) = u16::try_from(body.len()) else {
            return;
        };
        let end = (self.count + 1) * MAX_SHARD;
        self.shards.extend_from_slice(&length.to_le_bytes());
        self.shards.extend_from_slice(body);
        self.shards.resize(end, 0);
        self.count += 1;
        self.longest = self.longest.max(SHARD_LENGTH + body.len());
    }

    /// Computes the parity, calls `each` with `parity` shards and their indices, then empties the block.
    pub(super) fn finish(&mut self, parity: usize, mut each: impl FnMut(usize, &[u8])) {
        let bytes = self.longest.next_multiple_of(2);
        // This never fails, because block, parity and length are within the code's limits.
        if let Some(coder) = coder(&mut self.coder, self.count, parity, bytes) {
            for shard in self.shards.chunks_exact(MAX_SHARD) {
                let _ = coder.add_original_shard(&shard[..bytes]);
            }
            if let Ok(coded) = coder.encode() {
                coded
                    .recovery_iter()
                    .enumerate()
                    .for_each(|(i, s)| each(i, s));
            }
        }
        self.clear();
    }
}

/// Prepares the encoder for a block. Its storage is reused.
fn coder(
    coder: &mut Option<ReedSolomonEncoder>,
    data: usize,
    parity: usize,
    bytes: usize,
) -> Option<&mut ReedSolomonEncoder> {
    let ready = match coder {
        Some(coder) => coder.reset(data, parity, bytes),
        None => ReedSolomonEncoder::new(data, parity, bytes).map(|new| *coder = Some(new)),
    };
    ready.ok()?;
    coder.as_mut()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use reed_solomon_simd::engine::NoSimd;
    use reed_solomon_simd::rate::{DefaultRateEncoder, RateEncoder as _};

    use super::*;

    /// A Gilbert link (SplitMix64 draws).
    struct Gilbert {
        seed: u64,
        bad: bool,
        enter: f64,
        leave: f64,
    }

    impl Gilbert {
        fn new(loss: Loss, seed: u64) -> Gilbert {
            let leave = 1.0 / loss.run.max(1.0 / (1.0 - loss.rate));
            Gilbert {
                seed,
                bad: false,
                enter: loss.rate * leave / (1.0 - loss.rate),
                leave,
            }
        }

        fn loses(&mut self) -> bool {
            self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.seed;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let unit = ((z ^ (z >> 31)) >> 11) as f64 / 9_007_199_254_740_992.0;
            self.bad ^= unit < if self.bad { self.leave } else { self.enter };
            self.bad
        }

        /// The share of blocks of `n` datagrams in which more than `parity` are lost.
        fn fails(&mut self, n: usize, parity: usize, blocks: u32) -> f64 {
            let lost = (0..blocks)
                .filter(|_| (0..n).filter(|_| self.loses()).count() > parity)
                .count();
            lost as f64 / f64::from(blocks)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// On a simulated link, blocks fail at most three times as often as planned. They may exceed the planned rate
        /// because a plan is computed for a quantised loss, up to an eighth of an octave away. A plan has hardly more
        /// parity than needed: with one parity shard less and 2.5 times the loss, blocks fail at least a tenth as often
        /// as planned. The test tolerates five standard deviations of the count.
        #[test]
        fn blocks_fail_at_the_target_rate(
            rate in 0.002_f64..0.1, run in 1.0_f64..6.0, data in 1..=BLOCK, seed: u64,
        ) {
            let loss = Loss { rate, run };
            let plan = FecPlan::of(loss, FecLevel::Standard);
            let parity = plan.parity(data);
            let cap = FecLevel::Standard.cap(data);
            prop_assert!(parity <= cap);
            let mut link = Gilbert::new(loss, seed);
            if parity < cap {
                let fails = link.fails(data + parity, parity, 20_000);
                let most = 3.0 * FecLevel::Standard.block_loss();
                let chance = 5.0 * (most / 20_000.0).sqrt();
                prop_assert!(fails <= most + chance, "{fails}, {parity} for {data}");
            }
            if parity > 0 {
                let more = Loss { rate: rate * 2.5, run };
                let mut link = Gilbert::new(more, seed);
                let fails = link.fails(data + parity - 1, parity - 1, 20_000);
                prop_assert!(fails >= 0.1 * FecLevel::Standard.block_loss(), "{fails}, {parity} for {data}");
            }
        }

        /// More loss never means less parity.
        #[test]
        fn more_loss_means_more_parity(
            rate in 0.0001_f64..0.1, more in 1.2_f64..2.0, data in 1..=BLOCK,
        ) {
            let plan = |rate| FecPlan::of(Loss { rate, run: 1.0 }, FecLevel::Standard);
            prop_assert!(plan(rate).parity(data) <= plan(rate * more).parity(data));
        }

        /// The parity does not depend on the vector instructions of the processor. The second block reuses the storage
        /// of the first.
        #[test]
        fn parity_is_that_of_plain_arithmetic(
            blocks in vec(
                (vec(vec(any::<u8>(), 0..=MAX_SHARD - SHARD_LENGTH), 1..20), 1..=10_usize), 2,
            ),
        ) {
            let mut block = BlockCoder::default();
            for (bodies, parity) in blocks {
                bodies.iter().for_each(|body| block.push(body));
                let mut coded = Vec::new();
                block.finish(parity, |index, shard| coded.push((index, shard.to_vec())));

                let longest = bodies.iter().map(Vec::len).max().unwrap_or(0);
                let bytes = (SHARD_LENGTH + longest).next_multiple_of(2);
                let engine = NoSimd::new();
                let mut plain =
                    DefaultRateEncoder::new(bodies.len(), parity, bytes, engine, None).unwrap();
                for body in &bodies {
                    let mut shard = u16::try_from(body.len()).unwrap().to_le_bytes().to_vec();
                    shard.extend_from_slice(body);
                    shard.resize(bytes, 0);
                    plain.add_original_shard(&shard).unwrap();
                }
                let plain = plain.encode().unwrap();
                let plain: Vec<_> = plain.recovery_iter().map(<[u8]>::to_vec).enumerate().collect();
                prop_assert!(coded == plain);
            }
        }
    }

    #[test]
    fn without_loss_there_is_none() {
        let plan = FecPlan::of(Loss::NONE, FecLevel::High);
        assert!(plan.is_none());
        assert!((0..=BLOCK).all(|data| plan.parity(data) == 0));
    }

    #[test]
    fn outages_do_not_change_the_delay() {
        let outages = Loss {
            rate: 0.03,
            run: 60.0,
        };
        assert!(FecPlan::of(outages, FecLevel::High).is_none());
    }

    /// Half as many parity shards as data shards leave one failed block a second.
    #[test]
    fn bursts_get_more_parity_if_a_retransmission_is_slow() {
        let bursts = Loss {
            rate: 0.02,
            run: 4.0,
        };
        let parity = |level| FecPlan::of(bursts, level).parity(12);
        assert_eq!(parity(FecLevel::Standard), 6);
        assert_eq!(parity(FecLevel::Raised), 8);
        let mut link = Gilbert::new(bursts, 1);
        assert!(link.fails(12 + 6, 6, 100_000) > 0.012);
        assert!(link.fails(12 + 8, 8, 100_000) < 0.010);
    }

    #[test]
    fn one_percent_costs_a_frame_of_sixteen_datagrams_two() {
        let loss = Loss {
            rate: 0.01,
            run: 1.0,
        };
        assert_eq!(FecPlan::of(loss, FecLevel::Standard).parity(16), 2);
        assert_eq!(FecPlan::of(loss, FecLevel::High).parity(16), 4);
    }
}
