//! H.264 with Cisco's libopenh264, loaded at run time, for use where libx264's licence (GPL) is unsuitable. libopenh264
//! takes about twice libx264's time, and returns a picture's slices only when all of them are coded.
//!
//! The library's rate control is not used: the quantiser of each picture is in its
//! [`FrameRequest`]. The profile is Baseline, so that a lost slice can be concealed
//! (`decode/h264_pskip.rs`).

mod sys;

use openuvr_proto::units::Size;

use super::h264::{Unit, deliver};
use super::{
    Backend, Chroma, Codec, EncodeError, Encoded, Encoder, FrameRequest, RateSupport, Settings,
    Slice, check_picture, macroblocks,
};
use crate::picture::{Picture, PixelFormat, Plane, RowOrder};

/// The table entry.
pub const BACKEND: Backend = Backend {
    name: "openh264",
    about: "H.264 by libopenh264 on the processor: permissive licence, twice x264's encoding time",
    codec: Codec::H264,
    pixels: &[Chroma::Yuv420],
    rates: RateSupport::Own,
    refreshes: false,
    options: None,
    hardware: false,
    open: |opening| open(opening.settings),
};

/// Maximum quantiser (ITU-T H.264 7.4.2.2, 8 bits per sample).
const QP_MAX: u8 = 51;

struct OpenH264 {
    encoder: sys::Encoder,
    settings: Settings,
    total_mbs: u32,
    /// The number of slices that the library produces per picture.
    slices: u8,
    /// Whether the last frame failed, so that references can't be trusted.
    broken: bool,
    joined: Vec<u8>,
}

fn open(settings: &Settings) -> Result<Box<dyn Encoder>, EncodeError> {
    settings.check(Codec::H264)?;
    let library = sys::Library::open(std::env::var_os("OPENUVR_OPENH264"))?;
    Ok(Box::new(OpenH264::new(&library, settings)?))
}

impl OpenH264 {
    fn new(library: &sys::Library, settings: &Settings) -> Result<OpenH264, EncodeError> {
        let size = settings.size;
        let (columns, rows) = macroblocks(size)
            .ok_or_else(|| EncodeError(format!("{size} has too many macroblocks for H.264")))?;
        let settings = Settings {
            slices: (settings.slices)
                .min(u8::try_from(rows).unwrap_or(u8::MAX))
                .min(sys::MAX_SLICES),
            ..*settings
        };
        let mut encoder = library.encoder(&settings)?;
        // Small pictures get fewer slices than requested, so one test picture determines the
        // number.
        let slices = count_slices(&mut encoder, size)?;
        tracing::debug!(%size, slices, "opened libopenh264");
        Ok(OpenH264 {
            encoder,
            settings,
            total_mbs: u32::from(columns) * u32::from(rows),
            slices,
            broken: true,
            joined: Vec::new(),
        })
    }
}

fn count_slices(encoder: &mut sys::Encoder, size: Size) -> Result<u8, EncodeError> {
    let width = size.width as usize;
    let grey = vec![128; size.pixels()];
    let plane = |stride| Plane {
        data: &grey,
        stride,
    };
    let picture = Picture {
        size,
        format: PixelFormat::I420,
        rows: RowOrder::TopDown,
        planes: [plane(width), plane(width / 2), plane(width / 2)],
    };
    let units = encoder.encode(&picture, QP_MAX, true, 0)?;
    let is_slice = |unit: &&&[u8]| matches!(Unit::of(unit), Unit::Slice { .. });
    u8::try_from(units.iter().filter(is_slice).count())
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| EncodeError("libopenh264 coded a picture without a slice".into()))
}

impl Encoder for OpenH264 {
    fn input(&self) -> PixelFormat {
        PixelFormat::I420
    }

    fn slices(&self) -> u8 {
        self.slices
    }

    fn encode(
        &mut self,
        picture: &Picture<'_>,
        ask: &FrameRequest<'_>,
        sink: &mut (dyn FnMut(Slice<'_>) + Send),
    ) -> Result<Encoded, EncodeError> {
        check_picture(picture, self.settings.size, PixelFormat::I420)?;
        if picture.rows != RowOrder::TopDown {
            return Err(EncodeError(
                "libopenh264 needs the top row first: convert the picture".into(),
            ));
        }
        let key_frame = ask.key_frame || self.broken;
        let millis = i64::from(ask.frame.0) * 1000 / i64::from(self.settings.fps);
        self.broken = true;
        let units = (self.encoder).encode(picture, ask.qp.min(QP_MAX), key_frame, millis)?;
        let places = (self.slices, self.total_mbs);
        let encoded = deliver(&units, places, &mut self.joined, sink)?;
        self.broken = false;
        Ok(encoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_library_path_names_the_library() {
        let error = |path: &str| {
            let error = sys::Library::open(Some(path.into())).err();
            error.expect("no such library").to_string()
        };
        let missing = error("/nonexistent/libopenh264.so");
        assert!(missing.contains("/nonexistent/libopenh264.so"), "{missing}");
        assert!(missing.contains("apt install libopenh264-"), "{missing}");
        assert!(error("libc.so.6").contains("Wels"));
    }
}
