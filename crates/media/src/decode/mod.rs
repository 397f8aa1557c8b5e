//! Decode: slices are fed as they arrive, and the picture is returned after the last slice.

use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

use crate::codec::Codec;
use crate::dma_buf::DmaBufPicture;
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

/// The decoders. The default decoder of each codec precedes its other decoders.
pub static BACKENDS: &[Backend] = &[
    avcodec::BACKEND,
    jpeg::BACKEND,
    avcodec::HARDWARE[0],
    avcodec::HARDWARE[1],
    avcodec::HARDWARE[2],
    avcodec::HARDWARE[3],
    avcodec::HARDWARE[4],
    avcodec::HARDWARE[5],
    avcodec::HEVC[0],
    avcodec::HEVC[1],
    avcodec::HEVC[2],
    avcodec::HEVC[3],
    raw::BACKEND,
    null::BACKEND,
];

/// Opens the first decoder in [`BACKENDS`] for `codec`.
///
/// # Errors
/// [`DecodeError`] if there is no decoder for `codec`, or if the decoder can't be opened.
pub fn open(codec: Codec) -> Result<Box<dyn Decoder>, DecodeError> {
    match BACKENDS.iter().find(|backend| backend.codec == codec) {
        Some(backend) => (backend.open)(),
        None => Err(DecodeError(format!("there is no decoder for {codec:?}"))),
    }
}

/// Finds the decoder `name` of [`BACKENDS`].
///
/// # Errors
/// [`DecodeError`] if the name is unknown; the text lists the valid names.
pub fn find(name: &str) -> Result<&'static Backend, DecodeError> {
    BACKENDS
        .iter()
        .find(|backend| backend.name == name)
        .ok_or_else(|| {
            let names: Vec<_> = BACKENDS.iter().map(|backend| backend.name).collect();
            DecodeError(format!(
                "unknown decoder \"{name}\": choose one of {}",
                names.join(", ")
            ))
        })
}

/// A decoder that can be selected by name or by codec.
#[derive(Clone, Copy)]
pub struct Backend {
    /// The name on the command line.
    pub name: &'static str,
    /// One line with a description and requirements.
    pub about: &'static str,
    /// Its codec.
    pub codec: Codec,
    /// Opens the decoder.
    pub open: fn() -> Result<Box<dyn Decoder>, DecodeError>,
}

/// A part of a frame for the decoder.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Its frame.
    pub frame: FrameId,
    /// Whether this is the frame's first chunk.
    pub first: bool,
    /// Whether this is the frame's last chunk, so that the picture is needed now.
    pub last: bool,
    /// First macroblock, or 0 if the codec has no macroblocks.
    pub first_mb: u16,
    /// Number of macroblocks; 0 for a complete frame without macroblock numbers.
    pub mbs: u16,
    /// The slice, or `None` if it is lost and must be concealed (for H.264: by an all-P_Skip
    /// slice).
    pub bytes: Option<&'a [u8]>,
}

/// The visible part of a painted picture.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The picture's size without the codec's padding.
    pub size: Size,
    /// Whether the canvas shows this frame's reference picture, so unchanged areas need not be
    /// painted again.
    pub follows: bool,
}

/// The result of [`Decoder::paint`] after a frame's last chunk.
#[derive(Clone, Debug)]
pub enum Decoded<'a> {
    /// A picture in the decoder's own memory.
    Picture(Picture<'a>),
    /// A picture in the memory of a device, which a display may show without a copy.
    DmaBuf(DmaBufPicture),
    /// A picture of this size, on the canvas.
    OnCanvas(Size),
}

/// An opened decoder. The client's media thread owns it.
pub trait Decoder: Send {
    /// Feeds the next chunk. Frames, and the chunks of each frame, must be fed in order. Returns the frame's picture
    /// after the chunk marked `last`.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame is not decodable; the decoder stays usable, and the next key
    /// frame restores the picture.
    fn feed(&mut self, chunk: &Chunk<'_>) -> Result<Option<Picture<'_>>, DecodeError>;

    /// Like [`feed`](Decoder::feed), but a decoder that supports painting paints each part of the picture on `canvas`
    /// as soon as the part is decoded. Painting avoids a copy after the last chunk. A surface lends the canvas. All
    /// chunks of a decoder must be fed by the same method. `view` is `None` for a picture that will not be shown;
    /// [`View::follows`] is the same for all chunks of a frame.
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

/// Why a decoder can't be opened or has failed, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);
