//! An encoder and its decoder, in this process.

use anyhow::{Context as _, Result};
use openuvr_media::codec::Codec;
use openuvr_media::decode::{self, Chunk, Decoder};
use openuvr_media::encode::{self, Encoder, FrameRequest, Settings};
use openuvr_media::picture::{Picture, PixelFormat, Plane, RowOrder};
use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

/// Neutral chroma.
const GREY: u8 = 128;

pub(super) struct Coder {
    size: Size,
    encoder: Box<dyn Encoder>,
    decoder: Box<dyn Decoder>,
    chroma: Vec<u8>,
}

impl Coder {
    /// Opens an encoder and a decoder for 8-bit grey pictures.
    pub(super) fn open(encoder: &str, size: Size, threads: u8) -> Result<Coder> {
        let settings = Settings {
            fps: 90,
            slices: threads,
            threads,
            ..Settings::of(size)
        };
        let encoder = encode::open(encoder, &settings)?;
        Ok(Coder {
            size,
            encoder,
            decoder: decode::open(Codec::H264)?,
            chroma: vec![GREY; size.pixels() / 2],
        })
    }

    /// Encodes a frame. Returns its bytes.
    pub(super) fn encode(&mut self, luma: &[u8], frame: u32, qp: u8) -> Result<Vec<u8>> {
        let stride = self.size.width as usize;
        let plane = |data| Plane { data, stride };
        let picture = Picture {
            size: self.size,
            format: PixelFormat::Nv12,
            rows: RowOrder::TopDown,
            planes: [plane(luma), plane(&self.chroma), Plane::EMPTY],
        };
        let ask = FrameRequest {
            frame: FrameId(frame + 1),
            key_frame: frame == 0,
            reference: FrameId::NONE,
            refresh: false,
            qp,
            part: None,
            unchanged: None,
        };
        let mut bytes = Vec::new();
        (self.encoder).encode(&picture, &ask, &mut |slice| {
            bytes.extend_from_slice(slice.bytes);
        })?;
        Ok(bytes)
    }

    /// Decodes a frame. Returns the luma of its picture.
    pub(super) fn decode(&mut self, bytes: &[u8], frame: u32) -> Result<Vec<u8>> {
        let (columns, rows) = encode::macroblocks(self.size).context("too large")?;
        let chunk = Chunk {
            frame: FrameId(frame + 1),
            first: true,
            last: true,
            first_mb: 0,
            mbs: columns * rows,
            bytes: Some(bytes),
        };
        let picture = self.decoder.feed(&chunk)?.context("no picture")?;
        let Plane { data, stride } = picture.planes[0];
        let width = self.size.width as usize;
        let rows = (0..self.size.height as usize).map(|y| &data[y * stride..y * stride + width]);
        Ok(rows.flat_map(|row| row.to_vec()).collect())
    }
}
