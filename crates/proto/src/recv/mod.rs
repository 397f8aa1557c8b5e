//! From datagrams to ordered slices and payloads, with retransmission requests.

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

/// The arrival and processing time of a datagram. They differ when a thread wakes up late on a busy machine.
///
/// Link measurements use the arrival time. Waits for missing data use the processing time, because more data may already be
/// in the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrivalTimes {
    /// Arrival at this machine.
    pub arrived: Instant,
    /// Time of processing.
    pub now: Instant,
}
