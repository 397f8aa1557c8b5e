//! Limits for connections of clients: strangers in a pool in which they evict each other ([`EvictingPool`]), known
//! clients in a number of their own ([`Quota`]), so that no stranger takes a place that a known client needs.

mod evicting_pool;
mod network;
mod quota;

pub use self::evicting_pool::{EvictingPool, PoolSlot};
pub use self::network::Network;
pub use self::quota::{Quota, QuotaSlot};
