//! Which input a frame shows.

use crate::id::InputSeq;

/// How the frame relates to the input that it echoes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum EchoKind {
    /// No input yet.
    #[default]
    None = 0,
    /// The input was handed to the window system before the frame was captured: motion-to-photon
    /// figures from it are lower bounds.
    Injected = 1,
    /// The application took the input before it drew the frame: figures are exact.
    Consumed = 2,
}

/// The newest input that was applied before a frame was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InputEcho {
    /// Its sequence number.
    pub seq: InputSeq,
    /// How sure it is that the frame shows it.
    pub kind: EchoKind,
}
