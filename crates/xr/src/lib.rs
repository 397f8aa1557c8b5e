//! `libopenuvr_xr.so`: an OpenXR runtime. Its headset is an OpenUVR client.
//!
//! ```text
//! application ─► loader of OpenXR ─► negotiate ─► dispatch: one table of names
//!                                                     │
//!   api: reads and checks what the application hands over, one file per chapter of the specification
//!     │                              │
//!     ▼                              ▼
//!   logic: what is decided,      graphics: images of swapchains, composition, read-back, by vulkan or gl
//!   without clocks or pointers       │
//!                                    ▼
//!                                stream: the host in this process (runtime::guest) ─► clients
//! ```
//! The rules of a guest hold: nothing is printed, nothing is done in a child that the application forks, a
//! panic is `XR_ERROR_RUNTIME_FAILURE`, and if the stream fails the application goes on. Handles are numbers
//! that are looked up, never pointers that are trusted.
//!
//! What is implemented of the specification, and what is not: `docs/openxr.md`.

mod api;
mod border;
mod debug;
mod dispatch;
mod extensions;
mod gl;
mod graphics;
mod handles;
mod instance;
mod logic;
pub mod negotiate;
mod refusal;
mod session;
mod settings;
mod stream;
mod swapchain;
mod vulkan;
