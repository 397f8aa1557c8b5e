//! libpipewire, which is opened at run time, and the memory of its buffers: the only `unsafe` code of this crate.
#![allow(unsafe_code)]

mod connection;
mod functions;
mod memory;

pub(super) use connection::{Arrival, Chunk, Connection, Listener, Progress};
pub(super) use functions::PipeWire;
pub(super) use memory::Mapping;
