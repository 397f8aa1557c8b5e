//! The testbed: programs, displays, browsers and links for tests and studies. It starts real programs and observes them
//! from outside.
//!
//! - Programs: [`child`] is a process that is stopped when its parent ends; [`programs`] finds `openuvr`; [`pair`]
//!   starts a host and a client, optionally on a [`cable`] between two network namespaces.
//! - Displays: [`display`] starts a virtual display; [`screen`] reads pixels, [`reader`] reads the bar codes of frames,
//!   and [`picture_match`] compares pictures. [`sound`] is a sound server, and [`clicks`] detects clicks in its audio.
//! - Browsers: [`chromium`]. Virtual machines: [`machine`]. Sensors: [`inertial`].
//! - Links: [`hop`] and [`bridge`] emulate a link between real programs; [`emulated`] runs a hop in a thread;
//!   [`raw_cables`] are virtual cables with packet sockets on their ends.
//! - Results: [`stats`], [`journey`] (a frame's stages) and [`audio_reports`].
//!
//! Hosts and clients do not depend on this crate; only tests, studies and `openuvr demo` do.
#![deny(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "statistics work in floating point"
)]

pub mod audio_reports;
pub mod background;
pub mod bridge;
pub mod cable;
pub mod child;
pub mod chromium;
pub mod clicks;
pub mod display;
pub mod emulated;
pub mod hop;
pub mod inertial;
pub mod journey;
pub mod machine;
pub mod pair;
pub mod picture_match;
pub mod programs;
pub mod raw_cables;
pub mod reader;
pub mod sched;
pub mod screen;
pub mod sound;
pub mod stats;
