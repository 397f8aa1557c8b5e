//! The Vulkan calls.
#![allow(unsafe_code)]

mod copy;
mod device;
mod ring;
mod slot;

pub use self::copy::{Copy, CopyRegion};
pub use self::device::InitCommands;
pub use self::ring::{Ring, Wait};
