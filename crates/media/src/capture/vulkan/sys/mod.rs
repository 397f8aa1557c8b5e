//! What calls Vulkan.
#![allow(unsafe_code)]

mod ring;
mod slot;

pub use self::ring::{Copy, InitCommands, Ring, Wait};
