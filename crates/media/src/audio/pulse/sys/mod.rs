//! libpulse, loaded at run time: a connection to the sound server, and the connection's streams. The calling thread
//! runs the connection's main loop. The parent module chooses devices and formats.
//!
//! This module declares the part of libpulse's "asynchronous API" that is unchanged since PulseAudio 1.0, the ABI of
//! `libpulse.so.0`. Callbacks only collect replies; states are polled after each iteration of the main loop.
#![allow(unsafe_code)]

mod connection;
mod functions;
mod stream;

pub(super) use connection::Connection;
pub(super) use functions::{
    ADJUST_LATENCY, AUTO_TIMING_UPDATE, BufferAttributes, DONT_MOVE, EARLY_REQUESTS, FRAME,
    INTERPOLATE_TIMING,
};
pub(super) use stream::Stream;
