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
