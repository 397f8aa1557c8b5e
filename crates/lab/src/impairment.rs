//! What a link does to datagrams, as parameters: delay, jitter, loss, reordering, duplication, a bottleneck.
//!
//! What it is not: the model that does it ([`link`](crate::link)), or their change over time
//! ([`schedule`](crate::schedule)).

use std::time::Duration;

use openuvr_proto::units::Bitrate;

/// What a link does to datagrams. The default is a perfect link: everything arrives at once.
/// Probabilities are 0 to 1, for each datagram on its own unless said otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Impairment {
    /// Every datagram takes this long.
    pub delay: Duration,
    /// And up to this much more, uniformly. Order is kept: a datagram waits for those before it.
    pub jitter: Duration,
    /// Probability that it is lost.
    pub loss: f64,
    /// Losses that come together, in addition.
    pub burst: Option<BurstLoss>,
    /// Probability that it is held back by [`Impairment::reorder_by`], so that those behind it
    /// overtake it.
    pub reorder: f64,
    /// How long a reordered datagram is held back.
    pub reorder_by: Duration,
    /// Probability that it arrives twice, one right behind the other.
    pub duplicate: f64,
    /// The bottleneck; `None`: unlimited.
    pub rate: Option<Bitrate>,
    /// What waits before the bottleneck at most; what finds it full is lost.
    pub queue: Queue,
}

/// How much may wait before a bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// So many bytes.
    Bytes(usize),
    /// What the bottleneck sends in so much time: at most so long does anything wait.
    Time(Duration),
}

impl Default for Impairment {
    fn default() -> Impairment {
        Impairment {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            burst: None,
            reorder: 0.0,
            reorder_by: Duration::from_millis(2),
            duplicate: 0.0,
            rate: None,
            queue: Queue::Bytes(64 << 10),
        }
    }
}

/// Bursty loss: a good state without loss, and a bad one (Gilbert 1960, Elliott 1963). Before each
/// datagram the state may change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BurstLoss {
    /// Probability to go from good to bad.
    pub enter: f64,
    /// Probability to go from bad to good: a burst is `1 / leave` datagrams long in the mean.
    pub leave: f64,
    /// Probability that a datagram is lost in the bad state.
    pub loss: f64,
}
