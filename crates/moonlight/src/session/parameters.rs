//! The parameters of a session's streams, from the client's ANNOUNCE.

use super::mode::Mode;

/// The parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamParameters {
    /// The picture.
    pub mode: Mode,
    /// Video bits per second, including parity.
    pub bitrate: u64,
    /// Bytes of a video packet after its RTP header.
    pub packet_size: usize,
    /// Minimum parity packets of each block.
    pub least_parity: usize,
    /// Whether video is encrypted.
    pub seals_video: bool,
    /// Whether sound is encrypted.
    pub seals_sound: bool,
    /// Duration of a sound packet in milliseconds.
    pub sound_millis: u8,
    /// Channels of the sound: 2, 6 or 8.
    pub channels: u8,
}
