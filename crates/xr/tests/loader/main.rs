//! Test applications that load the runtime through the system's OpenXR loader. Each test runs in its own process,
//! because the loader reads its environment only once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::print_stderr, reason = "the test harness captures the output")]

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
