//! Keyboards of X servers: which key code is which physical key, and what a key types.
//!
//! The input source and the input sink share it. It is no input method: dead keys and compose
//! sequences are module `compose`, which the source asks.
//!
//! Spec: The X Keyboard Extension, protocol version 1.0 (XKB), sections 7, 12 and 18.

pub mod codes;
#[cfg(feature = "client")]
pub(crate) mod compose;
pub mod keymap;
mod load;

pub(crate) use load::CORE_KEYBOARD;
pub use load::{XkbError, XkbKeyboard};
