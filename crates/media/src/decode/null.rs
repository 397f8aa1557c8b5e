//! The counterpart of the encoder without pictures: returns the frame's id as the four bytes of a
//! single pixel.

use super::{Backend, Chunk, Codec, DecodeError, Decoder};
use crate::picture::Picture;
use openuvr_proto::units::Size;

/// The table entry.
pub const BACKEND: Backend = Backend {
    name: "null",
    about: "no pictures",
    codec: Codec::Null,
    open: || Ok(Box::new(Null { pixel: [0; 4] })),
};

struct Null {
    pixel: [u8; 4],
}

impl Decoder for Null {
    fn feed(&mut self, chunk: &Chunk<'_>) -> Result<Option<Picture<'_>>, DecodeError> {
        let id = chunk.frame.0.to_le_bytes();
        if chunk.bytes != Some(&id) {
            return Err(DecodeError(format!(
                "frame {} is invalid: a frame of the null codec contains its id and nothing else",
                chunk.frame.0
            )));
        }
        self.pixel = id;
        Ok(chunk
            .last
            .then(|| Picture::bgrx(Size::new(1, 1), &self.pixel, 4)))
    }
}
