//! Opus (RFC 6716) with libopus, loaded at run time: encodes blocks of samples to payloads, and
//! decodes them.
//!
//! The encoder uses the mode "restricted low delay". Its look-ahead is 2.5 ms, less than in any
//! other mode, and it codes with CELT only. In-band FEC is neither available in this mode nor
//! needed, because the protocol repeats complete payloads (`openuvr_proto::send::timed`).

mod sys;

use openuvr_proto::units::Bitrate;

use super::{AudioError, CHANNELS};

/// Default bitrate in bit/s. 96 kbit/s is nearly transparent for most music with frames of 20 ms
/// (listening tests at hydrogenaud.io, 2014). Shorter frames have more headers and shorter windows,
/// so they get a third more bitrate.
pub const BITRATE: Bitrate = Bitrate(128_000);

/// The range of bitrates in bit/s. Below the range, music is audibly degraded; the upper end is the maximum of Opus
/// (RFC 6716, section 2.1.1).
pub const BITRATES: std::ops::RangeInclusive<u64> = 16_000..=510_000;

/// The encoder's complexity, 0 to 10 (guess: half; `examples/audio_latency.rs` measures its cost).
const COMPLEXITY: i32 = 5;

/// The maximum size of a payload in bytes, including its TOC byte. RFC 6716, section 3.4, sets this limit for the frame
/// alone, without the TOC byte.
pub const MAX_BYTES: usize = 1275;

/// Encodes one stream.
pub struct Encoder {
    encoder: sys::Encoder,
    lookahead: u32,
    bytes: Vec<u8>,
}

impl Encoder {
    /// An encoder with variable or constant bitrate (CBR). With CBR, the rate of a stream is known in advance.
    ///
    /// # Errors
    /// [`AudioError`] if `bitrate` is outside of [`BITRATES`], if libopus is not installed (the text names the
    /// package), or if libopus refuses the settings.
    pub fn open(bitrate: Bitrate, variable: bool) -> Result<Encoder, AudioError> {
        let library = sys::Library::open(std::env::var_os("OPENUVR_OPUS"))?;
        let mut encoder = sys::Encoder::new(&library, bits(bitrate)?, variable, COMPLEXITY)?;
        let lookahead = encoder.lookahead()?;
        tracing::debug!(
            version = library.version(),
            lookahead,
            "opened the Opus encoder"
        );
        Ok(Encoder {
            encoder,
            lookahead,
            bytes: vec![0; MAX_BYTES],
        })
    }

    /// Encodes a block of 2.5, 5, 10 or 20 ms (sample frames times [`CHANNELS`]).
    ///
    /// # Errors
    /// [`AudioError`] if the block has a different length; the encoder stays usable.
    pub fn encode(&mut self, block: &[f32]) -> Result<&[u8], AudioError> {
        let written = self.encoder.encode(block, &mut self.bytes)?;
        Ok(&self.bytes[..written.min(MAX_BYTES)])
    }

    /// The delay of decoded samples, in sample frames. 120 sample frames are 2.5 ms.
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
            "unsupported audio bitrate {} bit/s: choose {} to {}",
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

/// The longest decoded payload in sample frames: 120 ms (RFC 6716, section 2.1.4).
const LONGEST: usize = 5760;

impl Decoder {
    /// A decoder in its initial state.
    ///
    /// # Errors
    /// [`AudioError`] if libopus is not installed (the text names the package), or if it fails to create a decoder.
    pub fn open() -> Result<Decoder, AudioError> {
        let library = sys::Library::open(std::env::var_os("OPENUVR_OPUS"))?;
        tracing::debug!(version = library.version(), "opened the Opus decoder");
        Ok(Decoder {
            decoder: sys::Decoder::new(&library)?,
            samples: vec![0.0; LONGEST * CHANNELS],
        })
    }

    /// Decodes a payload to samples (sample frames times [`CHANNELS`]).
    ///
    /// # Errors
    /// [`AudioError`] if the payload is not an Opus packet. The decoder stays usable, and the payload counts as lost.
    pub fn decode(&mut self, payload: &[u8]) -> Result<&[f32], AudioError> {
        if payload.is_empty() {
            return Err(AudioError("empty Opus payload".into()));
        }
        let frames = self.decoder.decode(Some(payload), &mut self.samples)?;
        Ok(&self.samples[..frames * CHANNELS])
    }

    /// Conceals a loss of `frames` sample frames by extrapolation, fading out. `frames` is a multiple
    /// of 120 (2.5 ms), and at most 5760.
    ///
    /// # Errors
    /// [`AudioError`] if the length is not a multiple of 120. A length above 5760 is reduced to 5760.
    pub fn conceal(&mut self, frames: usize) -> Result<&[f32], AudioError> {
        let room = self.samples.len();
        let out = &mut self.samples[..room.min(frames * CHANNELS)];
        let frames = self.decoder.decode(None, out)?;
        Ok(&self.samples[..frames * CHANNELS])
    }
}

/// The version of libopus in use.
///
/// # Errors
/// [`AudioError`] if libopus is not installed; the text names the package.
pub fn version() -> Result<String, AudioError> {
    Ok(sys::Library::open(std::env::var_os("OPENUVR_OPUS"))?.version())
}

#[cfg(test)]
mod tests;
