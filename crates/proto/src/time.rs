//! Separate types for the local clock and the peer's clock.
//!
//! [`Instant`] is always on this machine's monotonic clock, and [`PeerInstant`] is always on the peer's. Only
//! [`ClockMap`](crate::control::clock::ClockMap) converts between them, with an error bound. Both are plain nanosecond
//! counts, so tests can construct them and the wire format can encode them.

use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point on this machine's monotonic clock, in nanoseconds since an arbitrary origin.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Instant(pub i64);

/// A point on the peer's monotonic clock, in nanoseconds since the peer's arbitrary origin.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct PeerInstant(pub i64);

/// A value with an error bound: an instant converted from the other clock, or a duration that ends at such an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mapped<T> {
    /// The converted instant, or the duration.
    pub at: T,
    /// The maximum error.
    #[serde(with = "crate::validated::span")]
    pub bound: Duration,
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

impl Instant {
    /// The duration since `earlier`, zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl PeerInstant {
    /// The duration since `earlier`, zero if `earlier` is later.
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
