//! Applications that load our runtime as any does: through the loader of OpenXR that the system has. Each test is
//! a process of its own, for the loader reads its environment once.

#![allow(clippy::unwrap_used, reason = "a test ends there")]
#![allow(clippy::print_stderr, reason = "the harness keeps it")]

#[macro_use]
mod rig;
mod actions;
mod conformance;
mod life;
mod misuse;
mod streamed;
mod viewer;
mod vulkan;
