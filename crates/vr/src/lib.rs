//! OpenXR applications of ours, for any runtime: [`room`], a room to look around in, and [`headset`], a client
//! whose surface is a headset.
//!
//! What it is not: the runtime, which is the crate `xr`. The loader of OpenXR and Vulkan are opened at run time;
//! no display server is needed.
#![deny(unsafe_code)]
#![allow(
    clippy::cast_precision_loss,
    reason = "sides of pictures and steps of grids are small"
)]

pub mod headset;
pub mod room;

mod error;
mod hands;
mod session;
mod sys;

pub use error::VrError;
