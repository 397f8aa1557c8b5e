//! `libopenuvr_hook.so`: loaded into a game that nobody can change, it takes each picture where the
//! game finishes it, and streams it from inside the game's process.
//!
//! ```text
//! game ─► swap or present ─► windows: is this the largest? ─► stream: is a picture wanted?
//!                              │ no: nothing more                │ yes
//!                              ▼                                 ▼
//!                          the real call ◄──────────────── read back ─► submit ─► host threads
//! ```
//! `openuvr run` loads it (`LD_PRELOAD`, and as a layer of Vulkan), and tells it over a socket what
//! to do; without that socket it does nothing. The rules of a guest: before the first swap nothing
//! happens but that displays, contexts and surfaces are remembered, nothing in a child that the game forks, nothing is printed; the real call is always
//! made, once, and its answer is the game's; if anything fails here, the game goes on.
//!
//! What it is not: it captures no 32-bit or statically linked program, and none that gains
//! privileges when it starts (the loader ignores `LD_PRELOAD` there).

mod exports;
mod gl;
mod libc_symbols;
mod place;
mod process;
mod real;
mod session;
mod stack;
mod stream;
mod vulkan;
mod windows;
mod x_display;
