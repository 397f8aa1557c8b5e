//! Game pads as presented by Linux: codes of buttons and axes, the device presented to games, and files. A library in a
//! game's process reads these files to present the device in place of the kernel.
//!
//! ```text
//! FOLDER/dev/event240      one per device: description and state (`description`); a game
//!                          sees its creation and removal in `/dev/input`
//! FOLDER/socket/event240   where a process that opens the device connects; it receives
//!                          `struct input_event`s and sends its writes (`requests`)
//! ```
//! The library itself is crate `pads`; the server is in
//! [`input_sink::pads`](crate::input_sink::pads).

pub mod codes;
pub mod description;
#[cfg(any(feature = "host", feature = "client"))]
pub mod force_feedback;
pub mod requests;
#[cfg(feature = "host")]
pub mod xbox;

/// The environment variable with the path of FOLDER. It is set for a process that should see the devices in this
/// folder.
pub const FOLDER: &str = "OPENUVR_PADS";

/// Prefix of the physical location of the devices that a host presents. A client on the host's machine must not forward
/// such a device as the user's pad.
pub const OWN_LOCATION: &str = "openuvr/";

/// The subfolder listed or watched in place of `/dev/input`.
pub const DEVICES: &str = "dev";

/// The subfolder with the sockets.
pub const SOCKETS: &str = "socket";

/// The number of the first device, `event240`. It is far from the kernel's numbers, which count
/// from 0.
pub const FIRST_EVENT: u32 = 240;

/// Maximum number of devices in a folder.
pub const MAX_DEVICES: u32 = 8;
