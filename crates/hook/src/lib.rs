//! `libopenuvr_hook.so` is loaded into an unmodified game. It captures each frame when the game presents it, and
//! streams it from inside the game's process.
//!
//! ```text
//! game ─► swap or present ─► windows: is this the largest? ─► stream: is a frame requested?
//!                              │ no: nothing more                │ yes
//!                              ▼                                 ▼
//!                          the real call ◄──────────────── read back ─► submit ─► host threads
//! ```
//! `openuvr run` loads it (`LD_PRELOAD`, and as a Vulkan layer) and controls it over a socket; without that socket it
//! does nothing. Rules:
//!
//! - Before the first swap or presented image, it only records the graphics API's objects, and requests Vulkan
//!   swapchains that can be read.
//! - It does nothing in a forked child, and prints nothing.
//! - It makes the real call exactly once and returns its result to the game.
//! - If anything in it fails, the game continues.
//!
//! It cannot capture 32-bit, statically linked or set-user-ID programs (for set-user-ID programs, the loader ignores
//! `LD_PRELOAD`).

mod exports;
mod gl;
mod libc_symbols;
mod process;
mod real;
mod session;
mod stack;
mod stream;
mod vulkan;
mod window_tracker;
mod windows;
mod x_display;
