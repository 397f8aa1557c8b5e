//! Two clocks, two types.
//!
//! [`Instant`] is always this machine's monotonic clock, [`PeerInstant`] always the other
//! machine's. Nothing converts one into the other except
//! [`ClockMap`](crate::control::clock::ClockMap), and that returns an error bound.
//! Both are plain nanosecond counts, so tests can construct them and the wire can carry them.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point on this machine's monotonic clock, in nanoseconds since an arbitrary origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(pub i64);

/// A point on the peer's monotonic clock, in nanoseconds since the peer's arbitrary origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PeerInstant(pub i64);

/// An instant of the other clock, or a span that ends there, and how wrong it may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapped<T> {
    /// The converted instant, or the span.
    pub at: T,
    /// It is off by at most this much.
    pub bound: Duration,
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

impl Instant {
    /// The span since `earlier`, zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl PeerInstant {
    /// The span since `earlier`, zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: PeerInstant) -> Duration {
        Instant(self.0).since(Instant(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(span)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, span: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos(span)))
    }
}
