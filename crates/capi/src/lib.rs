//! `libopenuvr`: the OpenUVR API (paper, Table I and Fig. 9) for applications in C, and for thin
//! clients ("MUDs").
//!
//! The header `include/openuvr.h` is generated from this crate (`tests/header.rs`); its comments are the
//! doc comments here. `docs/adr/0008-c-api.md` explains the choices where the paper has two forms.
//!
//! Threads and protocol are in `openuvr_runtime::guest` and `openuvr_runtime::client`.
// The names of the C API.
#![allow(non_camel_case_types)]

mod app_presenter;
mod buffer_poller;
mod callback_scope;
mod catch_panic;
mod config;
pub mod controllers;
mod dma_buf;
pub mod enums;
mod error;
pub mod event;
pub mod features;
mod ffi;
mod gl;
mod handle;
pub mod host;
mod input;
pub mod keys;
mod launcher;
pub mod log;
pub mod mud;
mod notices;
mod picture;
pub mod pointer;
pub mod poll;
mod skip_log;
pub mod sound;
pub mod sound_choice;
mod statistics;
pub mod submit;
mod surface;
mod version;
mod worker;

pub use config::{openuvr_config, openuvr_config_default};
pub use config::{openuvr_mud_config, openuvr_mud_config_default};
pub use error::{OPENUVR_ERROR, openuvr_error_text};
pub use input::{OPENUVR_INPUT_KIND, openuvr_input, openuvr_pose};
pub use log::{OPENUVR_LOG_LEVEL, openuvr_log_callback};
pub use picture::{OPENUVR_PIXEL_FORMAT, openuvr_picture};
pub use statistics::{OPENUVR_MUD_STATE, openuvr_mud_statistics, openuvr_statistics};
pub use version::openuvr_version;

/// The size of a structure, as in its `size` field.
#[expect(
    clippy::cast_possible_truncation,
    reason = "structures of a few hundred bytes"
)]
pub(crate) const fn size_of32<T>() -> u32 {
    size_of::<T>() as u32
}
