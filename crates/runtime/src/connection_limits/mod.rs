//! Limits for connections of clients. Unauthenticated clients share a pool in which they evict each other
//! ([`EvictingPool`]). Known clients have a separate limit ([`Quota`]), so an unauthenticated client never takes a slot
//! that a known client needs.

mod evicting_pool;
mod network;
mod quota;

pub use self::evicting_pool::{EvictingPool, PoolSlot};
pub use self::network::Network;
pub use self::quota::{Quota, QuotaSlot};
