//! `libopenuvr`: the OpenUVR API (paper, Table I and Fig. 9) for applications in C, and for thin
//! clients ("MUDs").
//!
//! The header `include/openuvr.h` is generated from this crate (`tests/header.rs`), its text is the
//! documentation of the items here. How it was decided where the paper has two forms:
//! `docs/adr/0008-c-api.md`.
//!
//! What it is not: it has no thread and no protocol of its own; those are `openuvr_runtime::guest`
//! and `openuvr_runtime::client`.
// A program in C reads these names.
#![allow(non_camel_case_types)]

mod app_presenter;
mod callback_scope;
mod catch_panic;
mod config;
mod dma_buf;
pub mod enums;
mod error;
pub mod event;
pub mod features;
mod ffi;
mod gl;
mod handle;
pub mod hands;
pub mod host;
mod input;
pub mod keys;
mod left_out;
pub mod log;
pub mod mud;
mod notices;
mod picture;
pub mod pointer;
pub mod poll;
pub mod sound;
pub mod sound_choice;
mod started_by;
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

/// The size of a structure, as it crosses the boundary.
#[expect(
    clippy::cast_possible_truncation,
    reason = "structures of a few hundred bytes"
)]
pub(crate) const fn size_of32<T>() -> u32 {
    size_of::<T>() as u32
}
