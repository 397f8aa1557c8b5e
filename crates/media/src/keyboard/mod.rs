//! Keyboards of X servers and Wayland compositors: the physical keys of key codes, and their symbols.
//!
//! Shared by input source and input sink. Not an input method: dead keys and compose sequences are
//! in module `compose`, used by the source.
//!
//! Spec: The X Keyboard Extension, protocol version 1.0 (XKB), sections 7, 12 and 18.

pub mod codes;
#[cfg(feature = "client")]
pub(crate) mod compose;
pub mod keymap;
mod load;
#[cfg(feature = "wayland")]
pub mod session;
#[cfg(feature = "wayland")]
pub(crate) mod xkbcommon;

pub(crate) use load::CORE_KEYBOARD;
pub use load::{XkbError, XkbKeyboard};
