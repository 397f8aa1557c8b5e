//! The testbed: programs, displays, browsers and links for tests and studies. It starts real parts and watches them from
//! outside.
//!
//! [`hop`] and [`bridge`] put an emulated link between real hosts and clients. A program that users start does not need
//! this crate, except `openuvr demo`.
#![deny(unsafe_code)]

pub mod bridge;
pub mod hop;
