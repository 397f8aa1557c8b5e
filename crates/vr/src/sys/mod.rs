//! What has to be `unsafe`: the two loaders, and all that is said to Vulkan.
#![allow(unsafe_code)]

mod buffer;
mod gpu;
mod image;
mod painter;
mod pipeline;
mod target;
mod thing;
mod upload;

pub(crate) use gpu::{Gpu, Made, load};
pub(crate) use painter::{Eye, Painter};
pub(crate) use target::Target;
pub(crate) use thing::{Constants, Kind, Thing, Vertex};
pub(crate) use upload::Upload;
