//! Decode: slices go in as they arrive, the picture comes out behind the last.

use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

use crate::codec::Codec;
use crate::picture::Picture;
use crate::present::Canvas;

pub use probe::{Probe, probe};

pub mod avcodec;
mod bands;
mod h264_bits;
mod h264_error;
mod h264_header;
pub mod h264_pskip;
pub mod jpeg;
pub mod null;
mod probe;
pub mod raw;

/// The decoders, best first.
pub static BACKENDS: &[Backend] = &[
    avcodec::BACKEND,
    jpeg::BACKEND,
    avcodec::HARDWARE[0],
    avcodec::HARDWARE[1],
    avcodec::HARDWARE[2],
    raw::BACKEND,
    null::BACKEND,
];

/// Opens the first decoder in [`BACKENDS`] for `codec`.
///
/// # Errors
/// [`DecodeError`] if it can't be opened.
pub fn open(codec: Codec) -> Result<Box<dyn Decoder>, DecodeError> {
    match BACKENDS.iter().find(|backend| backend.codec == codec) {
        Some(backend) => (backend.open)(),
        None => Err(DecodeError(format!("there is no decoder for {codec:?}"))),
    }
}

/// The decoder that is called `name` in [`BACKENDS`].
///
/// # Errors
/// [`DecodeError`] if there is none of that name; the text lists those there are.
pub fn find(name: &str) -> Result<&'static Backend, DecodeError> {
    BACKENDS
        .iter()
        .find(|backend| backend.name == name)
        .ok_or_else(|| {
            let names: Vec<_> = BACKENDS.iter().map(|backend| backend.name).collect();
            DecodeError(format!(
                "there is no decoder \"{name}\": choose one of {}",
                names.join(", ")
            ))
        })
}

/// A decoder that can be asked for by name or by what it takes.
#[derive(Clone, Copy)]
pub struct Backend {
    /// The name on the command line.
    pub name: &'static str,
    /// One line on what it is and needs.
    pub about: &'static str,
    /// What it takes.
    pub codec: Codec,
    /// Opens it.
    pub open: fn() -> Result<Box<dyn Decoder>, DecodeError>,
}

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

/// How a picture is seen that is painted.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// How much of it, its sides not padded for a codec.
    pub size: Size,
    /// Whether the canvas shows the picture that this frame refers to: what has not changed since
    /// need not be painted again.
    pub follows: bool,
}

/// What [`Decoder::paint`] has behind a frame's last chunk.
#[derive(Clone, Copy, Debug)]
pub enum Decoded<'a> {
    /// A picture in the decoder's own memory.
    Picture(Picture<'a>),
    /// A picture of this size, on the canvas.
    OnCanvas(Size),
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

    /// As [`feed`](Decoder::feed), but a decoder that can paints each part of the picture on the
    /// canvas that a surface lends, as soon as it has it, so that nobody copies the picture behind
    /// its last chunk. A decoder gets all of its chunks this way, or none. `view` is `None` for a
    /// picture that won't be shown any more; that a frame follows is the same for all of its chunks.
    ///
    /// # Errors
    /// As [`feed`](Decoder::feed).
    fn paint(
        &mut self,
        chunk: &Chunk<'_>,
        view: Option<View>,
        canvas: &mut dyn Canvas,
    ) -> Result<Option<Decoded<'_>>, DecodeError> {
        let _ = (view, canvas);
        Ok(self.feed(chunk)?.map(Decoded::Picture))
    }
}

/// Why a decoder can't be opened or did not decode.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);
