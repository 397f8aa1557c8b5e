//! Messages from a host in an application's process to the program that started the application.

use openuvr_proto::units::Size;
use serde::{Deserialize, Serialize};

use crate::frame::Message;
use crate::notice::Notice;

/// A message of the host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum LaunchReport {
    /// The host is streaming.
    Streaming {
        /// The picture size.
        size: Size,
        /// The endpoint for clients.
        endpoint: String,
    },
    /// A new device may pair.
    Invitation {
        /// The PIN.
        pin: String,
        /// The duration of the pairing window in seconds.
        seconds: u32,
    },
    /// The player's input is injected into this display. Sent before the first key is pressed there, so that the launcher
    /// can release the keys if the process is killed.
    InputDisplay(String),
    /// A notice of the host.
    Notice(Notice),
}

impl Message for LaunchReport {
    /// This is enough for a frame record, which has about 40 numbers. Names and reasons are shorter.
    const MAX_LEN: usize = 8 << 10;
}

impl From<Notice> for LaunchReport {
    fn from(notice: Notice) -> LaunchReport {
        LaunchReport::Notice(notice)
    }
}

#[cfg(test)]
mod tests;
