//! The studies: what a link does to a stream, reproducibly.
//!
//! What it is not: part of a host or a client. Nothing they run depends on this crate.
#![forbid(unsafe_code)]

pub mod hop;
pub mod lateness;
pub mod link;
mod random;
pub mod world;
