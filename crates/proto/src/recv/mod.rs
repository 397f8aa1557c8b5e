//! From datagrams to slices and payloads in order, and what is missing of them.

pub mod assembly;
mod history;
pub mod jitter_buffer;
mod losses;
pub mod output;
pub mod plane;
pub mod reassemble;
mod repair;
pub mod timed;
pub mod uplink;

use crate::time::Instant;

/// When a datagram arrived, and when it is looked at: later, where a thread wakes late on a busy machine.
///
/// What is measured of the link counts from the first; how long is waited for what is missing, from the
/// second: more may lie in the socket already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrivalTimes {
    /// It arrived at this machine.
    pub arrived: Instant,
    /// Now.
    pub now: Instant,
}
