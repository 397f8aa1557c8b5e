//! Game pads as Linux shows them: the numbers of their buttons and axes, the device that games are given, and
//! the files through which a library in a game's process shows it where the kernel does not.
//!
//! ```text
//! FOLDER/dev/event240      one for each device: what it is and how it is held (`description`); its coming
//!                          and going is what a game sees of `/dev/input`
//! FOLDER/socket/event240   where a process that opens the device connects; `struct input_event`s come from
//!                          there, and what the game writes goes there (`requests`)
//! ```
//! What it is not: the library itself (crate `pads`), nor who serves the devices
//! ([`input_sink::pads`](crate::input_sink::pads)).

pub mod codes;
pub mod description;
#[cfg(any(feature = "host", feature = "client"))]
pub mod force_feedback;
pub mod requests;
#[cfg(feature = "host")]
pub mod xbox;

/// The environment variable that names FOLDER to a process that is to see its devices.
pub const FOLDER: &str = "OPENUVR_PADS";

/// What our own devices say of where they are plugged in begins with this: a client that is on the host's machine
/// must not take them for its person's.
pub const OWN_PLACE: &str = "openuvr/";

/// What of FOLDER stands in for `/dev/input` where that is listed or watched.
pub const DEVICES: &str = "dev";

/// What of FOLDER has the sockets.
pub const SOCKETS: &str = "socket";

/// The number of the first device, `event240`: far from what the kernel gives, which counts from 0.
pub const FIRST_EVENT: u32 = 240;

/// Devices in a folder at most.
pub const MAX_DEVICES: u32 = 8;
