//! A Wayland display without a screen, for one streamed application. It is a compositor in its own thread.
//!
//! The compositor is informed of each finished frame, and holds the application's buffer. A capture therefore needs
//! neither polling nor a second process. If one window fills the display, its changed parts are copied once, and
//! nothing else is drawn. Otherwise, the picture is composed in memory. The compositor draws only the surfaces of
//! applications. It draws no cursor (OpenUVR's client draws it), no window frames, and only black as the background.
//!
//! ```text
//! application ═ socket ═► protocols ─► content ─► scene ─► paint ─► pictures ─► DisplayCapture ─► media thread
//!      ▲                                                               cursor ─► DisplayCursor
//!      └──── seat ◄─── input, keyboard ◄─── DisplayInput ◄─── control thread
//! ```
//! X11 applications run through a rootless Xwayland (`xwayland`).
//!
//! Limits: pixels only in shared memory (`wl_shm`), so that applications render in software; no tablets; no touch.
//!
//! Spec: the protocols of `wayland` and `wayland-protocols` that are listed in `protocols`.
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
