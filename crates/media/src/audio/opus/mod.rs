//! Opus (RFC 6716) with libopus, opened at run time: blocks of samples to payloads and back.
//!
//! The encoder is set to "restricted low delay": it looks 2.5 ms ahead, less than any other mode, and codes
//! with CELT only. Its in-band repetition of lost frames is not there then, nor is it wanted: the protocol
//! repeats whole payloads (`openuvr_proto::send::timed`).

mod sys;

use openuvr_proto::units::Bitrate;

use super::{AudioError, CHANNELS};

/// The bitrate that nobody has to think about, in bits a second: 96 kbit/s are near to transparent for most
/// music with frames of 20 ms (listening tests at hydrogenaud.io, 2014); shorter frames, whose headers and
/// shorter windows cost more, get a third more.
pub const BITRATE: Bitrate = Bitrate(128_000);

/// The range of bitrates, in bits a second: below, music suffers; more than the upper one Opus does not
/// use (RFC 6716, section 2.1.1).
pub const BITRATES: std::ops::RangeInclusive<u64> = 16_000..=510_000;

/// How much the encoder searches, of 10 (guess: half; `examples/audio_latency.rs` tells what it costs).
const COMPLEXITY: i32 = 5;

/// The longest payload: a packet of one frame (RFC 6716, section 3.4).
pub const MAX_BYTES: usize = 1275;

/// Encodes one stream.
pub struct Encoder {
    encoder: sys::Encoder,
    lookahead: u32,
    bytes: Vec<u8>,
}

impl Encoder {
    /// An encoder for payloads of about the same length (constant bitrate, so that a stream's cost is known), or
    /// of as many bytes as the sound needs.
    ///
    /// # Errors
    /// [`AudioError`] if libopus is not there (the text says which package has it), or refuses.
    pub fn open(bitrate: Bitrate, variable: bool) -> Result<Encoder, AudioError> {
        let library = sys::Library::open(std::env::var_os("OPENUVR_OPUS"))?;
        let mut encoder = sys::Encoder::new(&library, bits(bitrate)?, variable, COMPLEXITY)?;
        let lookahead = encoder.lookahead()?;
        tracing::debug!(version = library.version(), lookahead, "libopus encodes");
        Ok(Encoder {
            encoder,
            lookahead,
            bytes: vec![0; MAX_BYTES],
        })
    }

    /// The payload of a block: 2.5, 5, 10 or 20 ms of sample frames times [`CHANNELS`].
    ///
    /// # Errors
    /// [`AudioError`] for another length; the encoder stays usable.
    pub fn encode(&mut self, block: &[f32]) -> Result<&[u8], AudioError> {
        let written = self.encoder.encode(block, &mut self.bytes)?;
        Ok(&self.bytes[..written.min(MAX_BYTES)])
    }

    /// By how many samples what is decoded comes later than what was encoded: 120 are 2.5 ms.
    #[must_use]
    pub fn lookahead(&self) -> u32 {
        self.lookahead
    }
}

fn bits(bitrate: Bitrate) -> Result<i32, AudioError> {
    let range = BITRATES.contains(&bitrate.0);
    let bits = i32::try_from(bitrate.0).ok().filter(|_| range);
    bits.ok_or_else(|| {
        AudioError(format!(
            "sound can't be coded with {} bit/s: choose {} to {}",
            bitrate.0,
            BITRATES.start(),
            BITRATES.end()
        ))
    })
}

/// Decodes one stream.
pub struct Decoder {
    decoder: sys::Decoder,
    samples: Vec<f32>,
}

/// The longest that a payload decodes to, in sample frames: 120 ms (RFC 6716, section 2.1.4).
const LONGEST: usize = 5760;

impl Decoder {
    /// A decoder that has heard nothing.
    ///
    /// # Errors
    /// [`AudioError`] if libopus is not there (the text says which package has it), or refuses.
    pub fn open() -> Result<Decoder, AudioError> {
        let library = sys::Library::open(std::env::var_os("OPENUVR_OPUS"))?;
        tracing::debug!(version = library.version(), "libopus decodes");
        Ok(Decoder {
            decoder: sys::Decoder::new(&library)?,
            samples: vec![0.0; LONGEST * CHANNELS],
        })
    }

    /// The samples of a payload: sample frames times [`CHANNELS`].
    ///
    /// # Errors
    /// [`AudioError`] if it is no Opus packet; the decoder stays usable, and the payload counts as lost.
    pub fn decode(&mut self, payload: &[u8]) -> Result<&[f32], AudioError> {
        if payload.is_empty() {
            return Err(AudioError("libopus got a payload without a byte".into()));
        }
        let frames = self.decoder.decode(Some(payload), &mut self.samples)?;
        Ok(&self.samples[..frames * CHANNELS])
    }

    /// Makes up so many sample frames (a multiple of 120, 2.5 ms; at most 5760) for what is missing, out of what
    /// was heard before. It fades out.
    ///
    /// # Errors
    /// [`AudioError`] for another length.
    pub fn conceal(&mut self, frames: usize) -> Result<&[f32], AudioError> {
        let room = self.samples.len();
        let out = &mut self.samples[..room.min(frames * CHANNELS)];
        let frames = self.decoder.decode(None, out)?;
        Ok(&self.samples[..frames * CHANNELS])
    }
}

/// The version of libopus that is used.
///
/// # Errors
/// [`AudioError`] if it is not there; the text says which package has it.
pub fn version() -> Result<String, AudioError> {
    Ok(sys::Library::open(std::env::var_os("OPENUVR_OPUS"))?.version())
}

#[cfg(test)]
mod tests;
