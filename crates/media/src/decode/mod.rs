//! Decode: slices go in as they arrive, the picture comes out behind the last.

use openuvr_proto::id::FrameId;

use crate::picture::Picture;

/// A part of a frame on its way into the decoder.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The frame that it belongs to.
    pub frame: FrameId,
    /// Whether it is the frame's first.
    pub first: bool,
    /// Whether it is the frame's last: the picture is wanted now.
    pub last: bool,
    /// First macroblock and number of macroblocks, 0 where the codec has none.
    pub first_mb: u16,
    /// Macroblocks covered.
    pub mbs: u16,
    /// The slice, or `None` if it is lost and has to be concealed (for H.264: an all-P_Skip
    /// slice takes its place).
    pub bytes: Option<&'a [u8]>,
}

/// An opened decoder, owned by the client's media thread.
pub trait Decoder: Send {
    /// Feeds the next chunk, in order within a frame and frames in order. Behind the chunk
    /// marked `last` the frame's picture is returned.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame is not decodable; the decoder stays usable, and the next key
    /// frame mends the picture.
    fn feed(&mut self, chunk: &Chunk<'_>) -> Result<Option<Picture<'_>>, DecodeError>;

    /// Forgets the frame that is under way and all references: the next frame is a key frame.
    fn reset(&mut self);
}

/// Why a decoder can't be opened or did not decode.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);
