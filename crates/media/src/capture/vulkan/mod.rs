//! Reads back pictures of a Vulkan application. The application's own queue copies its images to host memory. Each copy
//! is submitted when the device has finished it.
//!
//! This module serves components between an application and its display: the Vulkan layer of crate `hook`, and an
//! OpenXR runtime. The runtime owns the swapchain images. This module intercepts nothing and does not decide which
//! picture is read.

mod pixels;
mod sys;

pub use self::pixels::Pixels;
pub use self::sys::{Copy, CopyRegion, InitCommands, Ring, Wait};
