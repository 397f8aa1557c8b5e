//! `libopenuvr_pads.so`: presents event devices in `/dev/input` to the process that loads it,
//! without the kernel: game pads with events from a socket.
//!
//! ```text
//! program ─► open("/dev/input/event240") ─► a socket, connected to the device's server
//!            read, poll, write ───────────► that socket: `struct input_event`s both ways
//!            ioctl(EVIOCG…) ──────────────► a file with the device's description and state
//!            listing, watching /dev/input ► a folder with that file, and links to the kernel's own devices
//! ```
//! `openuvr_media::pad` defines the file layout. The environment variable `OPENUVR_PADS` sets the
//! folder at the start of the process; without it, every function calls the C library's. Other
//! paths and devices are always passed through.
//!
//! Constraints: no state except for the folder's name and the owners of effects, no lock, no
//! allocation, no thread, no output, no panic; so that forked children, signal handlers and
//! programs that start others may call all functions. An open device is recognised by the address
//! to which its socket is connected, even if the descriptor was duplicated, inherited or passed to
//! another process.
//!
//! Not provided: `/dev/input/js*`, udev and `/sys`: SDL is configured to do without
//! (`SDL_JOYSTICK_DISABLE_UDEV`).

mod device;
mod folder;
mod io;
mod ioctl;
mod list;
mod open;
mod real;
mod stat;
