//! The window and the OpenGL calls of the scene: everything of it that needs `unsafe`.
//!
//! Other modules decide what to draw ([`room`](super::room), [`camera`](super::camera)).
//! Xlib and libGL are opened at run time, so that the program starts without them.
#![allow(unsafe_code)]

mod renderer;
mod window;

pub(super) use renderer::{PixelBuffer, Renderer};
pub(super) use window::{Direction, Event, Window};
