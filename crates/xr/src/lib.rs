//! `libopenuvr_xr.so`: an OpenXR runtime. Its headset is an OpenUVR client.
//!
//! ```text
//! application ─► OpenXR loader ─► negotiate ─► dispatch: one table of names
//!                                                     │
//!   api: validates parameters, one file per chapter of the specification
//!     │                              │
//!     ▼                              ▼
//!   logic: decisions,            graphics: swapchain images, composition, read-back, by vulkan or gl
//!   without clocks or pointers       │
//!                                    ▼
//!                                stream: host in this process (runtime::guest) ─► clients
//! ```
//! The library runs inside the application. It prints nothing, does nothing in a forked child, turns a panic into
//! `XR_ERROR_RUNTIME_FAILURE`, and keeps the application running if the stream fails. Handles are looked up in a table;
//! the runtime never dereferences them.
//!
//! `docs/openxr.md` lists the implemented parts of the specification.

mod api;
mod debug;
mod dispatch;
mod extensions;
mod failure_report;
mod ffi;
mod gl;
mod graphics;
mod handles;
mod instance;
mod logic;
pub mod negotiate;
mod session;
mod settings;
mod stream;
mod swapchain;
mod vulkan;
