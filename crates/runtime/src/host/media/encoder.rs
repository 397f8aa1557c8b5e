//! The encoder of a rendition.

use openuvr_media::codec::Codec;
use openuvr_media::convert::Converter;
use openuvr_media::encode::{self, Chroma, Encoder, Opening, Rate, Refresh, Settings};
use openuvr_media::picture::PixelFormat;
use openuvr_proto::send::policy::Recovery;
use openuvr_proto::send::rendition::OpenedEncoder;
use openuvr_proto::units::{Bitrate, Size};

use crate::host::encodings::{Encoding, SUBPEL_PIXELS};

/// The possible values of `Configuration::colour`.
const BT709_LIMITED: u8 = 1;
const RGB_FULL: u8 = 2;

/// Opens the encoder for pictures of `size`. `target` is the bitrate for a codec library that controls the rate itself.
/// Also returns the properties of the encoder that the rendition requires.
pub(in crate::host) fn open(
    encoding: &Encoding,
    size: Size,
    target: Bitrate,
) -> Result<(Box<dyn Encoder>, OpenedEncoder), encode::EncodeError> {
    let backend = encoding.encoder;
    let usual = backend.settings(size, target);
    let policy = &encoding.rendition.policy;
    let mut settings = Settings {
        fps: policy.rounded_fps().into(),
        slices: encoding.slices,
        threads: encoding.threads,
        subpel: encoding.subpel.unwrap_or(size.pixels() <= SUBPEL_PIXELS),
        pixels: encoding.pixels.unwrap_or(usual.pixels),
        refresh: (policy.recovery == Recovery::Refresh).then(|| {
            let every = encoding.refresh_interval;
            every.map_or(Refresh::OnDemand, Refresh::Every)
        }),
        rate: match encoding.rate.unwrap_or(usual.rate) {
            Rate::Own => Rate::Own,
            Rate::Cbr(_) => Rate::Cbr(target),
        },
        ..usual
    };
    if backend.codec.needs_even_sides() && settings.pixels == Chroma::Yuv420 {
        // The encoder gets the padded size, because the conversion pads the picture.
        settings.size = Converter::padded(size, PixelFormat::Nv12);
    }
    let encoder = encode::open_with(&Opening {
        backend,
        settings: &settings,
        options: &encoding.options,
    })?;
    let opened = OpenedEncoder {
        size,
        codec: backend.codec as u8,
        colour: match encoding.pixels {
            Some(Chroma::Rgb) => RGB_FULL,
            _ => BT709_LIMITED,
        },
        slices: encoder.slices(),
        depth: encoder.memory(),
        codes_parts: encoder.supports_partial(),
        macroblocks: match backend.codec {
            // Static refinement needs a quantiser that the host sets. Raw and Null have none, and the encoders of HEVC
            // and VP9 control the rate themselves.
            Codec::Raw | Codec::Null | Codec::Hevc | Codec::Vp9 => 0,
            _ => encode::macroblocks(size).map_or(1, |(columns, rows)| columns * rows),
        },
    };
    Ok((encoder, opened))
}
