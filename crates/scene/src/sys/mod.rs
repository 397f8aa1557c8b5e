//! The window and the OpenGL calls of the scene: all of its code that needs `unsafe`.
//!
//! Other modules decide what to draw ([`room`](super::room), [`camera`](super::camera)).
//! Xlib and libGL, or libwayland and libEGL, are opened at run time, so that the program starts without them.
#![allow(unsafe_code)]

mod event;
mod renderer;
mod wayland;
mod window;
mod x11;

pub(super) use event::{Direction, Event};
pub(super) use renderer::{CodePlace, PixelBuffer, Renderer};
pub(super) use window::Window;
