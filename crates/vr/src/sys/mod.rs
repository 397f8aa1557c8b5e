//! What has to be `unsafe`: the two loaders, and all that is said to Vulkan.
#![allow(unsafe_code)]

mod buffer;
mod gpu;
mod image;
mod painter;
mod pipeline;
mod target;
mod upload;

pub(crate) use gpu::{Gpu, Made, load};
pub(crate) use painter::{Constants, Eye, Kind, Painter, Thing, Vertex};
pub(crate) use target::Target;
pub(crate) use upload::Upload;
