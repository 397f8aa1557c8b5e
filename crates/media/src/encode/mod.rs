//! Encode: a picture goes in, slices come out, each the moment it is ready.
//!
//! A new encoder is one file with one [`Backend`] and one line in the table `BACKENDS`.

use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

use crate::picture::{Picture, PixelFormat};

/// What an encoder is opened with. A change of any of it is a new configuration epoch.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Size of the pictures; sides even for 4:2:0 formats (the capture pads).
    pub size: Size,
    /// Highest number of frames a second, a hint for the bit stream's timing information.
    pub fps: u32,
    /// Slices a picture, 1–64; an encoder that can't slice makes one.
    pub slices: u8,
    /// Encoder threads, 1–64.
    pub threads: u8,
}

/// What one frame is asked to be.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Its name, also its presentation time stamp in the bit stream.
    pub frame: FrameId,
    /// Whether it must be an IDR (key) frame.
    pub key_frame: bool,
    /// Quantiser, in H.264's scale 0 (best) to 51.
    pub qp: u8,
}

/// A part of a frame that is ready to leave.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    /// Place in the frame, counted from 0 in bit stream order; slices come in this order.
    pub index: u8,
    /// First macroblock in raster order, or 0 where the codec has none.
    pub first_mb: u16,
    /// How many macroblocks it covers, or 0 where the codec has none.
    pub mbs: u16,
    /// Whether it is the frame's last.
    pub last: bool,
    /// The bytes; for H.264 in Annex B form, parameter sets in front of a key frame's slice 0.
    pub bytes: &'a [u8],
}

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Encoded {
    /// Whether it came out as a key frame.
    pub key_frame: bool,
    /// Bytes of all its slices.
    pub bytes: usize,
}

/// An opened encoder, owned by the media thread.
pub trait Encoder: Send {
    /// The pixel format that [`Encoder::encode`] takes.
    fn input(&self) -> PixelFormat;

    /// How many slices each frame has.
    fn slices(&self) -> u8;

    /// Encodes one picture and hands each slice to `sink` as soon as it is ready, in order, from
    /// this or another thread, never two at a time, all before the call returns.
    ///
    /// # Errors
    /// [`EncodeError`] if the frame could not be encoded; the encoder stays usable and the next
    /// frame must be asked for as a key frame.
    fn encode(
        &mut self,
        picture: &Picture<'_>,
        ask: &Ask,
        sink: &mut (dyn FnMut(Slice<'_>) + Send),
    ) -> Result<Encoded, EncodeError>;
}

/// The bit stream that an encoder makes, as its number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Codec {
    /// Frame ids without pictures.
    Null = 0,
    /// BGRX rows as they are.
    Raw = 1,
    /// H.264 Annex B.
    H264 = 2,
}

/// An encoder that can be asked for by name.
#[derive(Clone, Copy)]
pub struct Backend {
    /// The name on the command line.
    pub name: &'static str,
    /// What it makes.
    pub codec: Codec,
    /// Opens it.
    pub open: fn(&Settings) -> Result<Box<dyn Encoder>, EncodeError>,
}

/// Why an encoder can't be opened or did not encode: what, where, what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EncodeError(pub String);
