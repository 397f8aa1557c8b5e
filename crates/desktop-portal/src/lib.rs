//! A desktop session captured through its portals, for compositors that let no program copy their screen, such as
//! GNOME's and KDE's.
//!
//! ```text
//!                    ┌─ session thread ─┐          D-Bus
//! DesktopSession ────┤  async (tokio)   ├════ xdg-desktop-portal ═══ compositor
//!   │   │   │        └──────────────────┘                               ║
//!   │   │   └ input: one queue, in order                                ║ PipeWire: pictures in shared memory
//!   │   └ PortalCursor ◄─ pointer ─┐                                    ║
//!   └ PortalCapture    ◄─ frames ──┴─ thread of libpipewire ════════════╝
//! ```
//! The portal ScreenCast asks the user which screen to share, and provides a PipeWire stream. The portal RemoteDesktop, if
//! there is one, accepts input in the same session. libpipewire is opened at run time.
//!
//! Limits: pictures only in shared memory, not in GPU buffers; one screen or window; no clipboard.
//!
//! Spec: XDG Desktop Portal, `org.freedesktop.portal.ScreenCast` version 4, `org.freedesktop.portal.RemoteDesktop`
//! version 2.
#![deny(unsafe_code)]

mod capture;
mod cursor;
mod desktop;
mod input;
mod session;
mod stream;
mod wait;

pub use capture::PortalCapture;
pub use cursor::PortalCursor;
pub use desktop::DesktopSession;
pub use input::PortalInput;
pub use session::{Options, PortalError, Portals};
