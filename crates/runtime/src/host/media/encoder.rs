//! The encoder of a rendition.

use openuvr_media::codec::Codec;
use openuvr_media::convert::Converter;
use openuvr_media::encode::{self, Encoder, Pixels, Rate, Refresh, Settings};
use openuvr_media::picture::PixelFormat;
use openuvr_proto::send::policy::Recovery;
use openuvr_proto::units::{Bitrate, Size};

use crate::host::{Rendition, SUBPEL_PIXELS};

/// Opens it for pictures of `size`; `target` counts where the codec library keeps the rate.
pub(in crate::host) fn open(
    rendition: &Rendition,
    size: Size,
    target: Bitrate,
) -> Result<Box<dyn Encoder>, encode::EncodeError> {
    let backend = encode::find(&rendition.encoder)?;
    let usual = backend.settings(size, target);
    let mut settings = Settings {
        fps: rendition.whole_fps().into(),
        slices: rendition.slices,
        threads: rendition.threads,
        subpel: rendition.subpel.unwrap_or(size.pixels() <= SUBPEL_PIXELS),
        pixels: rendition.pixels.unwrap_or(usual.pixels),
        refresh: (rendition.recovery == Recovery::Refresh).then(|| {
            let every = rendition.refresh_every;
            every.map_or(Refresh::OnDemand, Refresh::Every)
        }),
        rate: match rendition.rate.unwrap_or(usual.rate) {
            Rate::Own => Rate::Own,
            Rate::Cbr(_) => Rate::Cbr(target),
        },
        ..usual
    };
    if backend.codec == Codec::H264 && settings.pixels == Pixels::Nv12 {
        // The conversion pads.
        settings.size = Converter::padded(size, PixelFormat::Nv12);
    }
    encode::open(backend.name, &settings)
}
