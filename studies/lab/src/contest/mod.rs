//! Rate controllers that share a bottleneck with bulk transfers, on a virtual clock.
//!
//! A video sender ([`video`]) with one of the controllers in [`controller`] streams over a bottleneck with one of the
//! queue disciplines of `openuvr_sim::aqm`, beside flows of `openuvr_sim::flows` ([`run`]). All controllers have the
//! same frame rate, the same kind of reports and the same link. [`figures`] computes latency, rates and fairness.
//!
//! The model has no encoder, decoder or display. A frame's latency starts at its capture and ends when the client has
//! all of its datagrams. There is neither FEC nor reference invalidation: a lost datagram is repeated once, after the
//! client has detected the gap. Feedback and acknowledgements are delayed, but never lost or queued.

pub mod controller;
pub mod figures;
pub mod run;
pub mod video;

#[cfg(test)]
mod tests;
