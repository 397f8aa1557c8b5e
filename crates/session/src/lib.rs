//! The session agent: an application with its display, sound, sandbox and host, which start and end together.
//!
//! ```text
//! agent (openuvr session) ─► host, run or xr ─► display, sound, placement, confinement ─► application
//! ```
//! [`agent`] runs a portal's session in its own process. The hosts of `openuvr host`, `run` and `xr` use the same
//! modules for an application that they start, and report to the agent ([`report`]) if there is one.
#![deny(unsafe_code)]

// The macros `print!`, `println!` and `eprintln!` of `openuvr_terminal` replace those of the standard library.
#[macro_use]
extern crate openuvr_terminal;

pub mod agent;
pub mod confine;
pub mod descendants;
mod fit;
pub mod no_picture;
mod pseudo_terminal;
pub mod report;
pub mod stand_in;
mod sys;
mod virtual_audio;
mod virtual_display;

pub use fit::{Fit, max_size};
pub use pseudo_terminal::PseudoTerminal;
pub use virtual_audio::VirtualAudio;
pub use virtual_display::{ApplicationDisplay, RunningApplication, VirtualDisplay};
