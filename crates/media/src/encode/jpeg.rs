//! Encodes packed pixels to JPEG bands with libjpeg-turbo, which is loaded at run time. No conversion is needed, there
//! are no references between frames, and a loss affects only one band of one frame. JPEG is the fastest of the lossy
//! encoders, and has the highest bitrate.
//!
//! Measured with a game at 1280x720, 60 frames/s and quality 70, on one core: encoding a frame takes 1.7 ms, decoding
//! it takes 1.5 ms, and the bitrate is 49 Mb/s. The first band is ready after an eighth of the encoding time. A slice
//! is a band's header and a separate JPEG image (ITU-T T.81, baseline).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::slice_order::{Pool, SliceOrder};
use super::{
    Backend, Chroma, Codec, EncodeError, Encoded, Encoder, FrameRequest, RateSupport, Settings,
    Slice, check_picture, macroblocks,
};
use crate::band::Band;
use crate::picture::{self, Picture, PixelFormat};
use crate::sys::turbojpeg::{Compressor, Library, Sampling};

/// The table entry.
pub const BACKEND: Backend = Backend {
    name: "jpeg",
    about: "JPEG in bands by libjpeg-turbo on the processor: shortest encoding time, five times H.264's bitrate",
    codec: Codec::Jpeg,
    pixels: &[Chroma::Yuv420, Chroma::Yuv444],
    rates: RateSupport::Own,
    refreshes: false,
    options: None,
    hardware: false,
    open: |opening| open(opening.settings),
};

/// Side of a band's blocks with 4:2:0 chroma (T.81 A.2.3). It is the same as in H.264, so bands can
/// be counted in macroblocks.
const BLOCK: u32 = 16;

/// Rows of blocks that form a band.
struct BandRows {
    first: u32,
    count: u32,
}

struct Jpeg {
    settings: Settings,
    columns: u32,
    bands: Vec<BandRows>,
    /// One compressor per thread.
    compressors: Vec<Compressor>,
    pool: Pool,
}

fn open(settings: &Settings) -> Result<Box<dyn Encoder>, EncodeError> {
    settings.check(Codec::Jpeg)?;
    let library = Library::open(std::env::var_os("OPENUVR_TURBOJPEG")).map_err(EncodeError)?;
    Ok(Box::new(Jpeg::new(&library, settings)?))
}

impl Jpeg {
    fn new(library: &Library, settings: &Settings) -> Result<Jpeg, EncodeError> {
        let (columns, rows) = macroblocks(settings.size)
            .ok_or_else(|| EncodeError(format!("{} is too large for JPEG", settings.size)))?;
        let rows = u32::from(rows);
        let count = u32::from(settings.slices).min(rows);
        let edge = |i: u32| i * rows / count;
        let bands: Vec<BandRows> = (0..count)
            .map(|i| BandRows {
                first: edge(i),
                count: edge(i + 1) - edge(i),
            })
            .collect();
        let threads = usize::from(settings.threads).min(bands.len());
        let compressors = (0..threads)
            .map(|_| Compressor::new(library).map_err(EncodeError))
            .collect::<Result<_, _>>()?;
        Ok(Jpeg {
            settings: *settings,
            columns: columns.into(),
            bands,
            compressors,
            pool: Pool::new(),
        })
    }
}

impl Encoder for Jpeg {
    fn input(&self) -> PixelFormat {
        PixelFormat::Bgrx
    }

    fn input_for(&self, given: PixelFormat) -> PixelFormat {
        match given.packed() {
            Some(_) => given,
            None => self.input(),
        }
    }

    fn slices(&self) -> u8 {
        u8::try_from(self.bands.len()).unwrap_or(u8::MAX)
    }

    fn memory(&self) -> u8 {
        0
    }

    fn encode(
        &mut self,
        picture: &Picture<'_>,
        ask: &FrameRequest<'_>,
        sink: &mut (dyn FnMut(Slice<'_>) + Send),
    ) -> Result<Encoded, EncodeError> {
        check_picture(picture, self.settings.size, self.input_for(picture.format))?;
        let total = self.bands.iter().map(|band| band.count).sum::<u32>() * self.columns;
        let work = Work {
            picture,
            quality: quality(ask.qp),
            sampling: match self.settings.pixels {
                Chroma::Yuv444 => Sampling::Full,
                Chroma::Yuv420 | Chroma::Rgb => Sampling::Quarter,
            },
            columns: self.columns,
            bands: &self.bands,
            next: AtomicUsize::new(0),
            order: SliceOrder::new(total, std::mem::take(&mut self.pool), sink),
            failure: Mutex::new(None),
        };
        if let Some((own, others)) = self.compressors.split_first_mut() {
            std::thread::scope(|scope| {
                for compressor in others {
                    scope.spawn(|| work.run(compressor));
                }
                work.run(own);
            });
        }
        let failure = work.failure.into_inner();
        let outcome = work.order.finish();
        self.pool = outcome.pool;
        if let Some(why) = failure.unwrap_or_else(PoisonError::into_inner) {
            return Err(EncodeError(format!("frame {}: {why}", ask.frame.0)));
        }
        Ok(Encoded {
            key_frame: true,
            bytes: outcome.bytes,
            clean_after: None,
        })
    }
}

/// The work for one picture. Each thread takes the next free band.
struct Work<'a> {
    picture: &'a Picture<'a>,
    quality: u8,
    sampling: Sampling,
    columns: u32,
    bands: &'a [BandRows],
    next: AtomicUsize,
    order: SliceOrder<'a>,
    failure: Mutex<Option<String>>,
}

impl Work<'_> {
    fn run(&self, compressor: &mut Compressor) {
        while let Some(band) = self.bands.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let mut bytes = self.order.buffer();
            if let Err(why) = self.band(compressor, band, &mut bytes) {
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                return;
            }
            let (first, count) = (band.first * self.columns, band.count * self.columns);
            self.order.slice(first, count, bytes);
        }
    }

    fn band(
        &self,
        compressor: &mut Compressor,
        band: &BandRows,
        bytes: &mut Vec<u8>,
    ) -> Result<(), String> {
        let size = self.picture.size;
        let first = band.first * BLOCK;
        let rows = (band.count * BLOCK).min(size.height - first);
        Band { size, first, rows }.write(bytes);
        let plane = self.picture.planes[0];
        // The band's first row in memory.
        let start = match self.picture.rows {
            picture::RowOrder::TopDown => first,
            picture::RowOrder::BottomUp => size.height - first - rows,
        };
        let mut pixels = *self.picture;
        pixels.size.height = rows;
        pixels.planes[0].data = &plane.data[start as usize * plane.stride..];
        compressor.compress(&pixels, self.sampling, self.quality, bytes)
    }
}

/// libjpeg's quality (1–100) for a quantiser of H.264's scale, on which 6 units double the step size. libjpeg
/// multiplies its tables by 50 / quality if the quality is below 50, and otherwise by 2 − quality / 50
/// (`jpeg_quality_scaling`). The rate control's initial quantiser, 32, is quality 70; its lowest quantiser, 12, is
/// quality 97.
fn quality(qp: u8) -> u8 {
    let scale = 0.6 * 2_f64.powf((f64::from(qp) - 32.0) / 6.0);
    let quality = if scale > 1.0 {
        50.0 / scale
    } else {
        100.0 - 50.0 * scale
    };
    #[expect(clippy::cast_possible_truncation, reason = "it is within 1–100")]
    let quality = quality.round().clamp(1.0, 100.0) as u8;
    quality
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_quantisers_double_the_steps() {
        let scale = |qp| match f64::from(quality(qp)) {
            low if low < 50.0 => 50.0 / low,
            high => 2.0 - high / 50.0,
        };
        for qp in 14..=44 {
            let ratio = scale(qp + 6) / scale(qp);
            assert!((1.6..=2.4).contains(&ratio), "{qp}: {ratio}");
        }
        assert_eq!([12, 32, 51].map(quality), [97, 70, 9]);
    }

    #[test]
    fn a_wrong_library_path_names_the_library() {
        let error = Library::open(Some("/nonexistent/libturbojpeg.so".into()))
            .err()
            .expect("no such file");
        assert!(error.contains("/nonexistent/libturbojpeg.so"), "{error}");
        assert!(error.contains("apt install libturbojpeg0"), "{error}");
        let error = Library::open(Some("libc.so.6".into()))
            .err()
            .expect("not libjpeg-turbo");
        assert!(error.contains("tj"), "{error}");
    }
}
