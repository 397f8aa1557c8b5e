//! Studies: reproducible emulation of links, and its analysis.
//!
//! Hosts and clients do not depend on this crate.
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
