//! The `unsafe` code: the OpenXR and Vulkan loaders, and all Vulkan calls.
#![allow(unsafe_code)]

mod buffer;
mod draw_call;
mod gpu;
mod image;
mod painter;
mod pipeline;
mod target;
mod upload;

pub(crate) use draw_call::{Constants, DrawCall, Kind, Vertex};
pub(crate) use gpu::{Gpu, NewSession, load};
pub(crate) use painter::{EyeFrame, Painter};
pub(crate) use target::Target;
pub(crate) use upload::Upload;
