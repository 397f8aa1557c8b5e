//! The system calls of the links, behind safe functions. The transports handle their errors.
#![allow(unsafe_code)]

pub(crate) mod event;
pub(crate) mod fork;
pub(crate) mod interfaces;
pub(crate) mod message;
#[cfg(test)]
pub(crate) mod namespace;
pub(crate) mod packet;
pub(crate) mod ring;
pub(crate) mod socket;
#[cfg(feature = "xdp")]
pub(crate) mod xsk;
