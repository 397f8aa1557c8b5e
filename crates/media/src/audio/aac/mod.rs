//! AAC-LC (ISO/IEC 14496-3) with the encoder of libavcodec, loaded at run time: encodes blocks of samples to access
//! units, for video players and recordings that do not support Opus.
//!
//! The encoder collects 1024 sample frames (21 ms) and delays them by as many, so a client that plays uses Opus.

mod sys;

use openuvr_proto::units::Bitrate;

use super::{AudioError, CHANNELS};

/// Sample frames of an access unit (ISO/IEC 14496-3 section 4.5.1.1).
pub const FRAME: u16 = 1024;

/// The `AudioSpecificConfig` of all streams (ISO/IEC 14496-3 section 1.6.2.1): object type 2 (AAC LC), sampling frequency
/// index 3 (48 kHz), channel configuration 2 (left and right), and a `GASpecificConfig` of zeros.
pub const CONFIG: [u8; 2] = [0x11, 0x90];

/// Maximum bytes of an access unit: 6144 bits for each of two channels (ISO/IEC 14496-3 section 4.5.3.1).
pub const MAX_BYTES: u16 = 6144 / 8 * 2;

/// An encoded block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessUnit<'a> {
    /// The index of its first decoded sample frame; 0 is the first sample frame of the first block. The first access
    /// unit starts at −1024 and contains silence.
    pub first: i64,
    /// A `raw_data_block`.
    pub bytes: &'a [u8],
}

/// Encodes one stream.
pub struct Encoder {
    encoder: sys::Encoder,
    /// The index of the next block's first sample frame.
    next: i64,
}

impl Encoder {
    /// An encoder with this mean bitrate, excluding headers.
    ///
    /// # Errors
    /// [`AudioError`] if libavcodec or its AAC encoder is not installed (the text names the package), or if it refuses
    /// the settings.
    pub fn open(bitrate: Bitrate) -> Result<Encoder, AudioError> {
        let opened = sys::Encoder::open(bitrate.0);
        let encoder = opened.map_err(|why| AudioError(format!("no AAC encoder: {why}")))?;
        tracing::debug!(bitrate = bitrate.0, "opened the AAC encoder");
        Ok(Encoder { encoder, next: 0 })
    }

    /// Encodes a block of [`FRAME`] sample frames. The first block yields no access unit, each later one yields the next
    /// access unit.
    ///
    /// # Errors
    /// [`AudioError`] if the block has another length, or if the encoder fails.
    pub fn encode(&mut self, block: &[f32]) -> Result<Option<AccessUnit<'_>>, AudioError> {
        let frames = usize::from(FRAME);
        if block.len() != frames * CHANNELS {
            let got = block.len() / CHANNELS;
            return Err(AudioError(format!(
                "an AAC block of {got} samples: it must have {frames}"
            )));
        }
        let failed = |why| AudioError(format!("AAC: {why}"));
        self.encoder.send(block, self.next).map_err(failed)?;
        self.next += i64::from(FRAME);
        if !self.encoder.receive().map_err(failed)? {
            return Ok(None);
        }
        let (first, bytes) = self.encoder.packet();
        Ok(Some(AccessUnit { first, bytes }))
    }

    /// The index of the next block's first sample frame.
    #[must_use]
    pub fn next(&self) -> i64 {
        self.next
    }
}

#[cfg(test)]
mod tests;
