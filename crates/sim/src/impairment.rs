//! Parameters of a link's impairments: delay, jitter, loss, reordering, duplication, a bottleneck.
//!
//! The model in [`link`](crate::link) applies them. [`schedule`](crate::schedule) describes their change over time.

use std::time::Duration;

use openuvr_proto::units::Bitrate;

/// A link's impairments. The default is a perfect link without delay. Probabilities are 0 to 1 and
/// independent for each datagram unless stated otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Impairment {
    /// Delay of every datagram.
    pub delay: Duration,
    /// Maximum additional delay. The additional delay is uniformly distributed. The order is preserved: a datagram
    /// waits for earlier datagrams.
    pub jitter: Duration,
    /// Probability of loss.
    pub loss: f64,
    /// Burst loss, in addition to the independent loss.
    pub burst: Option<BurstLoss>,
    /// Probability that a datagram is delayed by [`Impairment::reorder_by`], so that later datagrams overtake it.
    pub reorder: f64,
    /// Additional delay of a reordered datagram.
    pub reorder_by: Duration,
    /// Probability of duplication. The copy follows immediately.
    pub duplicate: f64,
    /// The rate of the bottleneck; `None` if it is unlimited.
    pub rate: Option<Bitrate>,
    /// Limit of the bottleneck's queue.
    pub queue: Queue,
}

impl Impairment {
    /// The limit of the bottleneck's queue in bytes. A limit as a time becomes the bytes that the rate carries in this
    /// time. Without a rate, no queue forms, and such a limit becomes `usize::MAX`.
    #[must_use]
    pub fn queue_bytes(&self) -> usize {
        match (self.queue, self.rate) {
            (Queue::Bytes(bytes), _) => bytes,
            (Queue::Time(_), None) => usize::MAX,
            (Queue::Time(time), Some(Bitrate(rate))) => {
                let bytes = time.as_nanos() * u128::from(rate) / 8 / 1_000_000_000;
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }
        }
    }
}

/// Limit of a bottleneck's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// In bytes.
    Bytes(usize),
    /// As a time: how long the bottleneck takes to send a full queue. This bounds the queueing delay.
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

/// Gilbert-Elliott burst loss: a good state without loss, and a bad one (Gilbert 1960, Elliott
/// 1963). The state may change before each datagram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BurstLoss {
    /// Probability of changing from good to bad.
    pub enter: f64,
    /// Probability of changing from bad to good. The mean length of a burst is `1 / leave` datagrams.
    pub leave: f64,
    /// Probability that a datagram is lost while the state is bad.
    pub loss: f64,
}
