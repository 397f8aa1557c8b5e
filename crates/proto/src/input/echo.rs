//! The newest input shown in a frame.

use serde::{Deserialize, Serialize};

use crate::id::InputSeq;

/// The relation between the frame and the input that it echoes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[repr(u8)]
pub enum EchoKind {
    /// No input yet.
    #[default]
    None = 0,
    /// The input was injected into the window system before the frame was captured, so motion-to-photon values from it are
    /// lower bounds.
    Injected = 1,
    /// The application took the input before it drew the frame, so motion-to-photon values from it are exact.
    Consumed = 2,
}

/// The newest input that was applied before a frame was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct InputEcho {
    /// Its sequence number.
    pub seq: InputSeq,
    /// The certainty with which the frame shows it.
    pub kind: EchoKind,
}
