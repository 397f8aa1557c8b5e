//! libpulse, opened at run time: a connection to the sound server, driven by the thread that calls, and the
//! streams over it. Not what is recorded or played: that is in the parent module.
//!
//! Declared here is the part of libpulse's "asynchronous API" that has been the same since PulseAudio 1.0:
//! `libpulse.so.0` stands for it. Nothing is called back but what gathers an answer; states are asked for
//! after each turn of the main loop.
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
