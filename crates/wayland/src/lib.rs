//! Devices of a Wayland session: a host's capture, pointer, input and clipboard, and a client's window.
//!
//! They implement traits of `openuvr-media`. The folders have the same names in both crates. This crate is separate,
//! because the libraries that are loaded into applications must not contain it. If it were a feature of
//! `openuvr-media`, cargo would unify features and thereby add it to these libraries.

#![deny(unsafe_code)]

pub mod capture;
pub mod clipboard;
pub mod cursor;
pub mod display;
pub mod input_sink;
pub mod input_source;
pub mod output_sizes;
pub mod present;
pub mod session_keyboard;
mod window;
mod xkbcommon;
