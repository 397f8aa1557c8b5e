//! An encoder without pictures: each frame consists of its id, in one slice. It serves tests and
//! measurements of the other components.

use super::{
    Backend, Chroma, Codec, EncodeError, Encoded, Encoder, FrameRequest, RateSupport, Slice,
};
use crate::picture::{Picture, PixelFormat};

/// The table entry.
pub const BACKEND: Backend = Backend {
    name: "null",
    about: "frame ids instead of pictures, to test the other components",
    codec: Codec::Null,
    pixels: &[Chroma::Rgb],
    rates: RateSupport::Own,
    refreshes: false,
    options: None,
    hardware: false,
    open: |_| Ok(Box::new(Null)),
};

struct Null;

impl Encoder for Null {
    fn input(&self) -> PixelFormat {
        PixelFormat::Bgrx
    }

    fn slices(&self) -> u8 {
        1
    }

    fn memory(&self) -> u8 {
        0
    }

    fn encode(
        &mut self,
        _picture: &Picture<'_>,
        ask: &FrameRequest<'_>,
        sink: &mut (dyn FnMut(Slice<'_>) + Send),
    ) -> Result<Encoded, EncodeError> {
        let bytes = ask.frame.0.to_le_bytes();
        sink(Slice {
            index: 0,
            first_mb: 0,
            mbs: 0,
            last: true,
            clean_after: None,
            bytes: &bytes,
        });
        Ok(Encoded {
            key_frame: true,
            bytes: bytes.len(),
            clean_after: None,
        })
    }
}
