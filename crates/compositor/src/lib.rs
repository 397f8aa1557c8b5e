//! A Wayland display without a screen, for one streamed application: a compositor in a thread of its own.
//!
//! It is informed of each finished frame, and holds the application's buffer, so that a capture needs neither polling nor a
//! second process. A window that fills the display is copied once, as far as it has changed; anything else is composed in
//! memory. It draws nothing of its own: no cursor (the client draws it), no frames, no background.
//!
//! ```text
//! application ═ socket ═► protocols ─► content ─► scene ─► paint ─► pictures ─► DisplayCapture ─► media thread
//!      ▲                                                               cursor ─► DisplayCursor
//!      └──── seat ◄─── input, keyboard ◄─── DisplayInput ◄─── control thread
//! ```
//! X11 applications run through a rootless Xwayland (`xwayland`).
//!
//! Limits: pixels in shared memory (`wl_shm`) alone, so that applications render in software; no tablets, no touch.
//!
//! Spec: the protocols of `wayland` and `wayland-protocols`, as named in `protocols`.
#![deny(unsafe_code)]

mod content;
mod copied;
mod display;
mod error;
mod icons;
mod outside;
mod paint;
mod pictures;
mod scene;
mod selection;
mod state;
mod windows;
mod xwayland;

pub use display::{Options, WaylandDisplay, X11Access};
pub use error::DisplayError;
pub use outside::{DisplayCapture, DisplayClipboard, DisplayCursor, DisplayInput, DisplayResizer};
