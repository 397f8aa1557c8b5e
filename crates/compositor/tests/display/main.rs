//! The Wayland display with a client that draws exact contents, hostile clients, and real programs.

#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

mod applications;
mod client;
mod clipboard;
mod hostile;
mod input;
mod pictures;
mod programs;
mod rig;
#[path = "../../../media/tests/skip/mod.rs"]
mod skip;
mod windows;
mod x11;
