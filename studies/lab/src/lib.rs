//! Models and analyses of the studies: Wi-Fi, rate controllers, captured traffic, latency jitter, attacks.
//!
//! Hosts and clients do not depend on this crate.
#![deny(unsafe_code)]

pub mod attack;
pub mod capture;
pub mod contest;
pub mod jitter;
pub mod traffic;
pub mod wifi;
