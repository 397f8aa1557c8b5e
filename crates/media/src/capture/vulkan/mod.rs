//! Reads back pictures that an application draws with Vulkan: its images are copied into memory of the
//! host, on the application's own queue, and handed over when the device has done so.
//!
//! For whoever stands between an application and its display: the layer of crate `hook`, and an OpenXR
//! runtime, in whose hands the images of swapchains are. What it is not: it intercepts nothing, and does
//! not know which picture is wanted.

mod pixels;
mod sys;

pub use self::pixels::Pixels;
pub use self::sys::{Copy, CopyRegion, InitCommands, Ring, Wait};
