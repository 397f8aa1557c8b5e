//! Keyboards of X servers and Wayland compositors: the physical keys of key codes, and their symbols.
//!
//! The input source and the input sink share this module. Dead keys and compose sequences are in module `compose`,
//! which only the source uses. This is not an input method.
//!
//! Spec: The X Keyboard Extension, protocol version 1.0 (XKB), sections 7, 12 and 18.

pub mod codes;
#[cfg(feature = "client")]
pub(crate) mod compose;
pub mod keymap;
mod load;

pub(crate) use load::CORE_KEYBOARD;
pub use load::{XkbError, XkbKeyboard};
