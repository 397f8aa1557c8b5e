//! OpenXR applications for any runtime: [`room`], a test scene, and [`headset`], a client that presents on a
//! headset.
//!
//! The crate `xr` is the OpenXR runtime itself. The OpenXR and Vulkan loaders are opened at run time; no display server is
//! needed.
#![deny(unsafe_code)]
#![allow(
    clippy::cast_precision_loss,
    reason = "sides of pictures and steps of grids are small"
)]

pub mod headset;
pub mod room;

mod controllers;
mod error;
mod session;
mod sys;

pub use error::VrError;
