//! The codecs, as named in the protocol.

/// The largest picture that this crate encodes or decodes, in pixels: 65 535 macroblocks of 16 × 16, because the number
/// of a slice's first macroblock has 16 bits. This limits the memory that a hostile stream can make a decoder allocate.
pub const MAX_PIXELS: usize = 65_535 * 256;

/// A codec, with its number in the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Codec {
    /// Frame ids without pictures.
    Null = 0,
    /// Uncompressed BGRX rows.
    Raw = 1,
    /// H.264 Annex B.
    H264 = 2,
    /// Bands of JPEG (ITU-T T.81).
    Jpeg = 3,
    /// VP9 frames (RFC 9628). Only browsers decode VP9; this crate has no decoder for it.
    Vp9 = 4,
    /// HEVC (ITU-T H.265) in the byte stream format of annex B, with one slice per picture.
    Hevc = 5,
}

impl Codec {
    /// All codecs.
    const ALL: [Codec; 6] = [
        Codec::Null,
        Codec::Raw,
        Codec::H264,
        Codec::Jpeg,
        Codec::Vp9,
        Codec::Hevc,
    ];

    /// The human-readable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Codec::Null => "frames without pictures",
            Codec::Raw => "raw pixels",
            Codec::H264 => "H.264",
            Codec::Jpeg => "JPEG",
            Codec::Vp9 => "VP9",
            Codec::Hevc => "HEVC",
        }
    }

    /// Whether the codec requires an even width and height for pictures with 4:2:0 chroma.
    #[must_use]
    pub const fn needs_even_sides(self) -> bool {
        matches!(self, Codec::H264 | Codec::Hevc | Codec::Vp9)
    }
}

impl TryFrom<u8> for Codec {
    type Error = UnknownCodec;

    fn try_from(number: u8) -> Result<Codec, UnknownCodec> {
        (Codec::ALL.into_iter())
            .find(|codec| *codec as u8 == number)
            .ok_or(UnknownCodec(number))
    }
}

/// An unknown codec number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("codec {0} is not known to this version: update the older of host and client")]
pub struct UnknownCodec(pub u8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_as_the_codec_they_stand_for() {
        for codec in Codec::ALL {
            assert_eq!(Codec::try_from(codec as u8), Ok(codec));
        }
        assert_eq!(Codec::try_from(99), Err(UnknownCodec(99)));
    }
}
