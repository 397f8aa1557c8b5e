//! The studies: what a link does to a stream, reproducibly.
//!
//! What it is not: part of a host or a client. Nothing they run depends on this crate.
#![deny(unsafe_code)]

pub mod attack;
pub mod bridge;
pub mod capture;
pub mod hop;
pub mod impairment;
pub mod jitter;
pub mod lateness;
pub mod link;
mod random;
pub mod schedule;
pub mod script;
pub mod traffic;
pub mod wifi;
pub mod world;
