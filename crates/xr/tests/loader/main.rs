//! Test applications that load the runtime through the system's OpenXR loader. Each test runs in its own process,
//! because the loader reads its environment only once.

#![allow(clippy::unwrap_used, reason = "a test ends there")]
#![allow(clippy::print_stderr, reason = "the harness keeps it")]

#[macro_use]
mod rig;
mod actions;
mod conformance;
mod debug;
mod lifecycle;
mod misuse;
mod streamed;
mod viewer;
mod vulkan;
