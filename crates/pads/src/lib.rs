//! `libopenuvr_pads.so`: presents emulated game pads as event devices in `/dev/input` to the process that loads it,
//! without the kernel. The events come from a socket.
//!
//! ```text
//! program ─► open("/dev/input/event240") ─► a socket, connected to the device's server
//!            read, poll, write ───────────► that socket: `struct input_event`s both ways
//!            ioctl(EVIOCG…) ──────────────► a file with the device's description and state
//!            listing, watching /dev/input ► a folder with that file, and links to the kernel's own devices
//! ```
//! `openuvr_media::pad` defines the file layout. The environment variable `OPENUVR_PADS` names the folder; it is read
//! once, at the start of the process. Without the variable, all calls are passed to the C library, as are calls for
//! other paths and devices.
//!
//! Forked children, signal handlers and programs that start other programs may call all functions. Therefore, the
//! library's only state is the folder's name, the effect numbers in use, and the addresses of the real functions. It
//! has no lock, allocation, thread, output or panic. An open device is recognised by the address to which its socket is
//! connected, even if the descriptor was duplicated, inherited or passed to another process.
//!
//! `/dev/input/js*`, udev and `/sys` are not provided. SDL is configured to work without them
//! (`SDL_JOYSTICK_DISABLE_UDEV`).

mod device;
mod folder;
mod io;
mod ioctl;
mod list;
mod open;
mod real;
mod stat;
