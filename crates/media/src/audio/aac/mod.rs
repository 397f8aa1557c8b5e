//! AAC-LC (ISO/IEC 14496-3) with libavcodec's encoder, loaded at run time. The encoder turns blocks of samples into
//! access units, for video players and recordings that do not support Opus.
//!
//! Clients use Opus, because the AAC encoder delays sound more: it collects 1024 sample frames (21 ms), and returns
//! them one block later.

mod sys;

use openuvr_proto::units::Bitrate;

use super::{AudioError, CHANNELS};

/// Number of sample frames in an access unit (ISO/IEC 14496-3 section 4.5.1.1).
pub const FRAME: u16 = 1024;

/// The `AudioSpecificConfig` of each stream (ISO/IEC 14496-3 section 1.6.2.1): object type 2 (AAC LC), sampling
/// frequency index 3 (48 kHz), channel configuration 2 (left and right), and a `GASpecificConfig` of zeros.
pub const CONFIG: [u8; 2] = [0x11, 0x90];

/// Maximum size of an access unit in bytes: 6144 bits for each of two channels (ISO/IEC 14496-3 section 4.5.3.1).
pub const MAX_BYTES: u16 = 6144 / 8 * 2;

/// An encoded access unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessUnit<'a> {
    /// The index of the first sample frame that a decoder returns for this access unit. Index 0 is the first sample
    /// frame of the first block. The first access unit starts at −1024 and contains silence.
    pub first: i64,
    /// A `raw_data_block` of the specification.
    pub bytes: &'a [u8],
}

/// Encodes one stream.
pub struct Encoder {
    encoder: sys::Encoder,
    /// The index of the next block's first sample frame.
    next: i64,
}

impl Encoder {
    /// Opens an encoder. `bitrate` is the mean bitrate of the access units, without transport headers.
    ///
    /// # Errors
    /// [`AudioError`] if libavcodec or its AAC encoder is not installed (the text names the package), or if the encoder
    /// refuses the settings.
    pub fn open(bitrate: Bitrate) -> Result<Encoder, AudioError> {
        let opened = sys::Encoder::open(bitrate.0);
        let encoder = opened.map_err(|why| AudioError(format!("no AAC encoder: {why}")))?;
        tracing::debug!(bitrate = bitrate.0, "opened the AAC encoder");
        Ok(Encoder { encoder, next: 0 })
    }

    /// Encodes a block of [`FRAME`] interleaved sample frames. The first block yields no access unit; each later block
    /// yields one access unit.
    ///
    /// # Errors
    /// [`AudioError`] if the block has another length, or if the encoder fails.
    pub fn encode(&mut self, block: &[f32]) -> Result<Option<AccessUnit<'_>>, AudioError> {
        let frames = usize::from(FRAME);
        if block.len() != frames * CHANNELS {
            let got = block.len() / CHANNELS;
            return Err(AudioError(format!(
                "an AAC block has {got} sample frames: it must have {frames}"
            )));
        }
        let failed = |why| AudioError(format!("the AAC encoder failed: {why}"));
        self.encoder.send(block, self.next).map_err(failed)?;
        self.next += i64::from(FRAME);
        if !self.encoder.receive().map_err(failed)? {
            return Ok(None);
        }
        let (first, bytes) = self.encoder.packet();
        Ok(Some(AccessUnit { first, bytes }))
    }

    /// The index of the first sample frame of the next block, from 0.
    #[must_use]
    pub fn next(&self) -> i64 {
        self.next
    }
}

#[cfg(test)]
mod tests;
