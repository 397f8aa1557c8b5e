//! Uncompressed BGRX rows in bands: lossless and fast, with the highest bitrate.
//!
//! A slice is a band's header, followed by the rows without padding. Each frame is a key frame.

use super::{
    Backend, Chroma, Codec, EncodeError, Encoded, Encoder, FrameRequest, RateSupport, Settings,
    Slice, check_picture,
};
use crate::band::Band;
use crate::picture::{Picture, PixelFormat, RowOrder};

/// The table entry.
pub const BACKEND: Backend = Backend {
    name: "raw",
    about: "uncompressed pixels: 1.8 Gb/s at 1280x720 and 60 frames/s",
    codec: Codec::Raw,
    pixels: &[Chroma::Rgb],
    rates: RateSupport::Own,
    refreshes: false,
    options: None,
    hardware: false,
    open: |opening| open(opening.settings),
};

struct Raw {
    settings: Settings,
    slices: u8,
    band: Vec<u8>,
}

fn open(settings: &Settings) -> Result<Box<dyn Encoder>, EncodeError> {
    settings.check(Codec::Raw)?;
    let rows = u8::try_from(settings.size.height).unwrap_or(u8::MAX);
    Ok(Box::new(Raw {
        settings: *settings,
        slices: settings.slices.min(rows),
        band: Vec::new(),
    }))
}

impl Encoder for Raw {
    fn input(&self) -> PixelFormat {
        PixelFormat::Bgrx
    }

    fn slices(&self) -> u8 {
        self.slices
    }

    fn memory(&self) -> u8 {
        0
    }

    fn encode(
        &mut self,
        picture: &Picture<'_>,
        _ask: &FrameRequest<'_>,
        sink: &mut (dyn FnMut(Slice<'_>) + Send),
    ) -> Result<Encoded, EncodeError> {
        let size = self.settings.size;
        check_picture(picture, size, PixelFormat::Bgrx)?;
        let plane = picture.planes[0];
        let row = size.width as usize * 4;
        let mut bytes = 0;
        for index in 0..self.slices {
            let edge = |i: u8| u32::from(i) * size.height / u32::from(self.slices);
            let (first, end) = (edge(index), edge(index + 1));
            let rows = end - first;
            self.band.clear();
            Band { size, first, rows }.write(&mut self.band);
            for y in first..end {
                let y = match picture.rows {
                    RowOrder::TopDown => y,
                    RowOrder::BottomUp => size.height - 1 - y,
                };
                let start = y as usize * plane.stride;
                self.band.extend_from_slice(&plane.data[start..start + row]);
            }
            bytes += self.band.len();
            sink(Slice {
                index,
                first_mb: 0,
                mbs: 0,
                last: index + 1 == self.slices,
                clean_after: None,
                bytes: &self.band,
            });
        }
        Ok(Encoded {
            key_frame: true,
            bytes,
            clean_after: None,
        })
    }
}
