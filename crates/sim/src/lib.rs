//! The deterministic world: hosts, clients and links on a virtual clock, for tests of the protocol and for studies.
//!
//! [`world`] runs the shipped protocol code. [`aqm`] contains queue disciplines, [`bottleneck`] applies a discipline to
//! a link, and [`flows`] contains bulk transfers that compete for a bottleneck. [`link`] models one direction of a
//! link. The link's [`impairment`] changes according to a [`schedule`], whose text form [`script`] parses. [`medium`]
//! is the interface of link models that several clients share. No module reads a clock or uses a random source of the
//! system: the caller passes times and seeds. Hosts and clients do not depend on this crate.
#![forbid(unsafe_code)]

pub mod aqm;
pub mod bottleneck;
mod choices;
pub mod flows;
pub mod impairment;
pub mod lateness;
pub mod link;
pub mod medium;
pub mod random;
pub mod schedule;
pub mod script;
pub mod world;
