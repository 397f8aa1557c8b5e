//! `libopenuvr_pads.so`: loaded into a process, it shows that process event devices in `/dev/input` which the
//! kernel does not have: game pads whose events come over a socket.
//!
//! ```text
//! program ─► open("/dev/input/event240") ─► a socket, connected to who serves the device
//!            read, poll, write ───────────► that socket: `struct input_event`s both ways
//!            ioctl(EVIOCG…) ──────────────► a file that says what the device is and how it is held
//!            listing, watching /dev/input ► a folder with that file, and links to the kernel's own devices
//! ```
//! `openuvr_media::pad` says what lies where. The environment variable `OPENUVR_PADS` names the folder when the
//! process starts; without it, every function here is the C library's and nothing else. What is about other
//! paths and other devices always is.
//!
//! The rules of a guest: no state but the folder's name and who uploaded which effect, no lock, no memory taken,
//! no thread, nothing printed, no panic; so that a forked child, a signal handler and a program that starts
//! another may use all of it. An open device is recognised by the address that its socket is connected to, also
//! where the descriptor was copied, inherited or handed to another process.
//!
//! What it is not: it shows no `/dev/input/js*`, nothing of udev and nothing in `/sys`: SDL is told to do without
//! (`SDL_JOYSTICK_DISABLE_UDEV`).

mod device;
mod folder;
mod io;
mod ioctl;
mod list;
mod open;
mod real;
mod stat;
