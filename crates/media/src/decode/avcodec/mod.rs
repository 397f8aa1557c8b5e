//! H.264 with libavcodec, loaded at run time and fed slice by slice. When the last slice arrives, the earlier slices
//! are already decoded.
//!
//! A gap is filled with an all-P_Skip slice ([`super::h264_pskip`]). If the gap can't be filled (for example in a key
//! frame), the frame is dropped, the codec is reopened, and a key frame is awaited. A gap at the end of a picture is
//! also filled, because libavcodec would otherwise delay the next pictures.
//!
//! libavcodec reports the rows that are final. On a surface that lends its memory, each slice is therefore painted as
//! soon as it is decoded.
//!
//! The decoders of HEVC and the hardware decoders get complete pictures.

mod drm_prime;
mod sys;
mod whole;

use std::ops::Range;
use std::time::{Duration, Instant};

use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

use self::whole::Whole;
use super::h264_pskip::PSkip;
use super::{Backend, Chunk, Codec, DecodeError, Decoded, Decoder, View};
use crate::dma_buf::MappedPicture;
use crate::picture::Picture;
use crate::present::{Canvas, to_bgrx};

static SOFTWARE: sys::Kind = sys::Kind {
    backend: "avcodec",
    name: "h264",
    options: &[
        ("flags", "+low_delay+output_corrupt"),
        ("flags2", "+chunks"),
        ("threads", "1"),
        ("thread_type", "slice"),
        // With error resilience enabled, libavcodec conceals the rest of the picture after every chunk, which makes
        // decoding 10 to 25 times slower (measured).
        ("enable_er", "0"),
    ],
    whole: false,
    dma_bufs: false,
    device: None,
};

/// The table entry of the default decoder.
pub const BACKEND: Backend = Backend {
    name: "avcodec",
    about: "H.264 by libavcodec on the processor, slice by slice",
    codec: Codec::H264,
    open: || Ok(Box::new(Avcodec::open(&SOFTWARE)?)),
};

/// Hardware decoders of H.264. They take coded pictures from main memory, and return decoded pictures in main memory.
/// `h264_v4l2m2m` returns decoded pictures in dma-bufs if libavcodec has an extension for this, as in Raspberry Pi OS.
/// A hardware decoder gets a coded picture only when the picture is complete. By then, the software decoder has already
/// decoded most of the picture, so the hardware decoder finishes later.
///
/// `h264_vaapi`, `h264_nvdec` and `h264_vulkan` are libavcodec's decoder `h264` with a device; the others are separate
/// decoders of libavcodec. The decoder `h264` uses the CPU for a stream that its device does not support.
pub const HARDWARE: [Backend; 6] = [
    Backend {
        name: "h264_cuvid",
        about: "H.264 by an NVIDIA GPU, through libavcodec; whole pictures",
        codec: Codec::H264,
        open: || Ok(Box::new(Avcodec::open(&CUVID)?)),
    },
    Backend {
        name: "h264_qsv",
        about: "H.264 by an Intel GPU (Quick Sync), through libavcodec; whole pictures",
        codec: Codec::H264,
        open: || Ok(Box::new(Avcodec::open(&QSV)?)),
    },
    Backend {
        name: "h264_v4l2m2m",
        about: "H.264 by a small board's video unit (V4L2), through libavcodec; whole pictures, in dma-bufs",
        codec: Codec::H264,
        open: || Ok(Box::new(Avcodec::open(&V4L2)?)),
    },
    Backend {
        name: "h264_vaapi",
        about: "H.264 by a GPU's driver (VA-API), through libavcodec; whole pictures",
        codec: Codec::H264,
        open: || Ok(Box::new(Avcodec::open(&H264_VAAPI)?)),
    },
    Backend {
        name: "h264_nvdec",
        about: "H.264 by an NVIDIA GPU (NVDEC), through libavcodec; whole pictures",
        codec: Codec::H264,
        open: || Ok(Box::new(Avcodec::open(&H264_NVDEC)?)),
    },
    Backend {
        name: "h264_vulkan",
        about: "H.264 by a GPU's driver (Vulkan Video), through libavcodec; whole pictures",
        codec: Codec::H264,
        open: || Ok(Box::new(Avcodec::open(&H264_VULKAN)?)),
    },
];

/// Decoders of HEVC. The first decoder uses the CPU and is the default; the others use a device.
pub const HEVC: [Backend; 4] = [
    Backend {
        name: "hevc",
        about: "HEVC by libavcodec on the processor; whole pictures",
        codec: Codec::Hevc,
        open: || Ok(Box::new(Whole::open(&HEVC_SOFTWARE)?)),
    },
    Backend {
        name: "hevc_vaapi",
        about: "HEVC by a GPU's driver (VA-API), through libavcodec; whole pictures",
        codec: Codec::Hevc,
        open: || Ok(Box::new(Whole::open(&HEVC_VAAPI)?)),
    },
    Backend {
        name: "hevc_nvdec",
        about: "HEVC by an NVIDIA GPU (NVDEC), through libavcodec; whole pictures",
        codec: Codec::Hevc,
        open: || Ok(Box::new(Whole::open(&HEVC_NVDEC)?)),
    },
    Backend {
        name: "hevc_vulkan",
        about: "HEVC by a GPU's driver (Vulkan Video), through libavcodec; whole pictures",
        codec: Codec::Hevc,
        open: || Ok(Box::new(Whole::open(&HEVC_VULKAN)?)),
    },
];

static H264_VAAPI: sys::Kind = on_device("h264_vaapi", "h264", "vaapi");
static H264_NVDEC: sys::Kind = on_device("h264_nvdec", "h264", "cuda");
static H264_VULKAN: sys::Kind = on_device("h264_vulkan", "h264", "vulkan");
static HEVC_SOFTWARE: sys::Kind = whole("hevc");
static HEVC_VAAPI: sys::Kind = on_device("hevc_vaapi", "hevc", "vaapi");
static HEVC_NVDEC: sys::Kind = on_device("hevc_nvdec", "hevc", "cuda");
static HEVC_VULKAN: sys::Kind = on_device("hevc_vulkan", "hevc", "vulkan");

/// The decoder `name` of libavcodec with a device of the type `device`.
const fn on_device(backend: &'static str, name: &'static str, device: &'static str) -> sys::Kind {
    sys::Kind {
        backend,
        options: &[
            ("flags", "+low_delay"),
            ("threads", "1"),
            // Without this flag, a device that supports only higher profiles refuses streams of the baseline profile.
            ("hwaccel_flags", "+allow_profile_mismatch"),
        ],
        device: Some(device),
        ..whole(name)
    }
}

static CUVID: sys::Kind = whole("h264_cuvid");
static QSV: sys::Kind = whole("h264_qsv");
static V4L2: sys::Kind = sys::Kind {
    dma_bufs: true,
    ..whole("h264_v4l2m2m")
};

/// The decoder `name` of libavcodec, which gets complete pictures and opens its device itself if it needs one.
const fn whole(name: &'static str) -> sys::Kind {
    sys::Kind {
        backend: name,
        name,
        options: &[("flags", "+low_delay")],
        whole: true,
        dma_bufs: false,
        device: None,
    }
}

/// Maximum wait for a picture from a decoder that takes only complete pictures, such as a hardware decoder: six frames
/// at 60 Hz (guess).
const PICTURE_TIMEOUT: Duration = Duration::from_millis(100);

/// Side of a macroblock in pixels.
const MACROBLOCK: u32 = 16;

/// Poll interval while waiting for a picture of a decoder that takes only complete pictures.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

struct Avcodec {
    library: sys::Decoder,
    pskip: PSkip,
    /// The incomplete picture.
    current: Option<Current>,
    /// Whether there is no reference picture.
    needs_key_frame: bool,
    /// The failed frame. Its remaining chunks are refused.
    refused: FrameId,
    synthesised: Vec<u8>,
    painted: Painted,
    /// Ordered ranges of changed macroblocks in the incomplete picture; all other macroblocks equal the reference
    /// picture.
    changed: Vec<Range<u32>>,
    /// The coded slices of the incomplete picture, for a decoder that takes only complete pictures.
    whole: Vec<u8>,
    /// The last picture of [`Decoder::feed`], if it is in dma-bufs.
    mapped: Option<MappedPicture>,
}

/// The part of the incomplete picture that is on the canvas.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Painted {
    /// Address of the picture's luma plane. A different address means a different picture.
    source: usize,
    size: Size,
    /// Rows from the top.
    rows: u32,
}

#[derive(Clone, Copy)]
struct Current {
    frame: FrameId,
    /// The first macroblock not yet fed.
    next_mb: u32,
}

impl Avcodec {
    fn open(kind: &'static sys::Kind) -> Result<Avcodec, DecodeError> {
        Ok(Avcodec {
            library: sys::Decoder::open(kind)?,
            pskip: PSkip::default(),
            current: None,
            needs_key_frame: true,
            refused: FrameId::NONE,
            synthesised: Vec::new(),
            painted: Painted::default(),
            changed: Vec::new(),
            whole: Vec::new(),
            mapped: None,
        })
    }

    /// Feeds a chunk. Returns whether the library now holds this frame's picture. An error resets the decoder.
    fn step(&mut self, chunk: &Chunk<'_>) -> Result<bool, DecodeError> {
        let outcome = if self.refused == chunk.frame && !chunk.first {
            Err("an earlier part of the frame could not be decoded".to_owned())
        } else {
            self.try_step(chunk).inspect_err(|_| {
                self.reset();
                self.refused = chunk.frame;
            })
        };
        outcome.map_err(|what| dropped(chunk.frame, &what))
    }

    fn try_step(&mut self, chunk: &Chunk<'_>) -> Result<bool, String> {
        let mut current = match self.current.take() {
            Some(current) if current.frame == chunk.frame => current,
            abandoned => {
                // The unfinished frame is too late to be displayed. It is completed nevertheless, because the library
                // would otherwise wait for its remaining slices.
                if !self.library.is_whole()
                    && let Some(Err(what)) = abandoned.map(|current| self.close(current))
                {
                    tracing::debug!(%what, "dropping an unfinished frame");
                    self.reset();
                }
                self.whole.clear();
                self.changed.clear();
                self.pskip.begin_picture();
                self.library.begin_picture();
                Current {
                    frame: chunk.frame,
                    next_mb: 0,
                }
            }
        };
        let first_mb = u32::from(chunk.first_mb);
        if first_mb < current.next_mb {
            return Err(format!(
                "a slice starts at macroblock {first_mb}, before the expected {}: slices must be in order",
                current.next_mb
            ));
        }
        let end = first_mb + u32::from(chunk.mbs);
        if let Some(bytes) = chunk.bytes {
            let repeated = self.slice(bytes, &mut current, first_mb)?;
            // A chunk without macroblock numbers is a complete frame.
            let end = if chunk.mbs == 0 { u32::MAX } else { end };
            let first_changed = first_mb.saturating_add(repeated);
            if first_changed < end {
                self.changed.push(first_changed..end);
            }
            current.next_mb = first_mb + u32::from(chunk.mbs);
        } else if self.pskip.knows_picture() {
            self.skip_to(&mut current, end)?;
        } // otherwise the first slice that arrives determines how to fill the gap before it
        if !chunk.last {
            self.current = Some(current);
            return Ok(false);
        }
        // A slice without macroblock numbers is a complete frame.
        if chunk.mbs != 0 || chunk.bytes.is_none() {
            self.close(current)?;
        }
        self.drain(chunk.frame)
    }

    /// Feeds a slice after filling a gap before it. Returns the number of macroblocks at the start of the slice that
    /// equal the reference picture.
    fn slice(&mut self, bytes: &[u8], current: &mut Current, first_mb: u32) -> Result<u32, String> {
        let seen = self.pskip.observe(bytes).map_err(|e| e.to_string())?;
        if seen.first_mb != first_mb {
            return Err(format!(
                "a slice starts at macroblock {} instead of {first_mb}",
                seen.first_mb
            ));
        }
        if self.needs_key_frame && !seen.key_frame {
            return Err("its reference frame was lost".into());
        }
        self.needs_key_frame = false;
        self.skip_to(current, first_mb)?;
        self.send(bytes, current.frame)?;
        Ok(seen.repeated)
    }

    /// Fills the gap up to macroblock `end` with P_Skip.
    fn skip_to(&mut self, current: &mut Current, end: u32) -> Result<(), String> {
        if end <= current.next_mb {
            return Ok(());
        }
        if self.needs_key_frame {
            return Err("its reference frame was lost".into());
        }
        let mut slice = std::mem::take(&mut self.synthesised);
        let written = (self.pskip).write(current.next_mb, end - current.next_mb, &mut slice);
        let sent = match written {
            Ok(()) => self.send(&slice, current.frame),
            Err(error) => Err(error.to_string()),
        };
        self.synthesised = slice;
        // It is uncertain which picture P_Skip repeats, so the macroblocks count as changed.
        self.changed.push(current.next_mb..end);
        current.next_mb = end;
        sent
    }

    /// Fills the rest of a picture.
    fn close(&mut self, mut current: Current) -> Result<(), String> {
        let end = self.pskip.macroblocks().unwrap_or(current.next_mb);
        self.skip_to(&mut current, end)
    }

    /// Passes a slice to the library, or keeps it until the picture is complete.
    fn send(&mut self, bytes: &[u8], frame: FrameId) -> Result<(), String> {
        if self.library.is_whole() {
            self.whole.extend_from_slice(bytes);
            return Ok(());
        }
        self.hand_over(bytes, frame)
    }

    fn hand_over(&mut self, bytes: &[u8], frame: FrameId) -> Result<(), String> {
        let pts = i64::from(frame.0);
        // Older pictures, which are too late for their own frames, must be removed first. If the library already
        // returns the picture of this frame, a damaged slice has extended to the end of the picture. The library would
        // then take later slices for a different picture.
        while let Some(early) = self.library.receive()? {
            if early == pts {
                return Err("the decoder ended the picture before its last slice".into());
            }
        }
        if self.library.send(bytes, pts)? {
            return Ok(());
        }
        Err("libavcodec neither accepts nor returns data".into())
    }

    /// Receives pictures up to the picture of `frame`.
    fn drain(&mut self, frame: FrameId) -> Result<bool, String> {
        if self.library.is_whole() {
            let whole = std::mem::take(&mut self.whole);
            let sent = self.hand_over(&whole, frame);
            self.whole = whole;
            self.whole.clear();
            sent?;
        }
        received(&mut self.library, frame).map(|()| true)
    }

    /// Discards the incomplete frame and all references. The next frame must be a key frame.
    fn reset(&mut self) {
        self.library.restart();
        self.pskip.reset();
        self.current = None;
        self.changed.clear();
        self.whole.clear();
        self.needs_key_frame = true;
        self.refused = FrameId::NONE;
    }
}

impl Decoder for Avcodec {
    fn feed(&mut self, chunk: &Chunk<'_>) -> Result<Option<Picture<'_>>, DecodeError> {
        // Releases the memory of the previous picture, so that the decoder can reuse it.
        self.mapped = None;
        if !self.step(chunk)? {
            return Ok(None);
        }
        let failed = |what: String| dropped(chunk.frame, &what);
        if let Some(picture) = self.library.dma_bufs().map_err(failed)? {
            let mapped = picture.map().map_err(|why| failed(why.to_string()))?;
            return Ok(Some(self.mapped.insert(mapped).picture()));
        }
        self.library.picture().map(Some).map_err(failed)
    }

    fn paint(
        &mut self,
        chunk: &Chunk<'_>,
        view: Option<View>,
        canvas: &mut dyn Canvas,
    ) -> Result<Option<Decoded<'_>>, DecodeError> {
        let whole = self.step(chunk)?;
        let failed = |what: String| dropped(chunk.frame, &what);
        if whole && let Some(picture) = self.library.dma_bufs().map_err(failed)? {
            return Ok(Some(Decoded::DmaBuf(picture)));
        }
        let (picture, rows) = match self.library.progress() {
            _ if whole => (self.library.picture().map_err(failed)?, u32::MAX),
            Some(progress) => progress,
            None => return Ok(None),
        };
        let Some(view) = view else {
            return Ok(whole.then_some(Decoded::Picture(picture)));
        };
        let columns = picture.size.width.div_ceil(MACROBLOCK).max(1);
        let changed = self.changed.iter().map(|mbs| rows_of(mbs, columns));
        // Paints everything if the canvas's content is unknown.
        let all = (!view.follows).then_some(0..u32::MAX);
        let changed = all.into_iter().chain(changed);
        let picture = picture.cropped(view.size);
        self.painted = paint(&picture, rows, changed, self.painted, canvas).map_err(failed)?;
        Ok(whole.then_some(Decoded::OnCanvas(picture.size)))
    }
}

/// The rows of pixels that contain these macroblocks, in a picture with this many columns of
/// macroblocks. A damaged slice may claim more macroblocks than any picture has.
fn rows_of(mbs: &Range<u32>, columns: u32) -> Range<u32> {
    let end = mbs.end.div_ceil(columns).saturating_mul(MACROBLOCK);
    (mbs.start / columns).saturating_mul(MACROBLOCK)..end
}

/// Paints rows of a picture that are among its first `rows` rows, are not yet `painted`, and lie in a `changed` range.
/// These ranges are ordered from top to bottom and may overlap. With 4:2:0, a chroma row covers two rows of the
/// picture, so if `rows` is odd, the last of these rows is painted together with the next row.
fn paint(
    picture: &Picture<'_>,
    rows: u32,
    changed: impl Iterator<Item = Range<u32>>,
    painted: Painted,
    canvas: &mut dyn Canvas,
) -> Result<Painted, String> {
    let size = picture.size;
    let source = picture.planes[0].data.as_ptr().addr();
    let same = (painted.source, painted.size) == (source, size);
    let from = if same { painted.rows } else { 0 };
    let end = if rows < size.height {
        rows / 2 * 2
    } else {
        size.height
    };
    let mut next = from;
    for part in changed {
        let part = part.start.max(next)..part.end.min(end);
        if let Some(band) = picture.band(part.clone())
            && let Some(place) = canvas.rows(size, part.clone())
        {
            to_bgrx(&band, place).map_err(|e| e.to_string())?;
        }
        next = next.max(part.end);
    }
    Ok(Painted {
        source,
        size,
        rows: end.max(from),
    })
}

/// Receives pictures up to the picture of `frame`. Waits for this picture if the decoder takes complete pictures.
fn received(library: &mut sys::Decoder, frame: FrameId) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        match library.receive()? {
            Some(pts) if pts == i64::from(frame.0) => return Ok(()),
            Some(_) => {}
            None if library.is_whole() && begin.elapsed() < PICTURE_TIMEOUT => {
                std::thread::sleep(POLL_INTERVAL);
            }
            None => return Err("libavcodec did not return the picture in time".into()),
        }
    }
}

fn dropped(frame: FrameId, what: &str) -> DecodeError {
    DecodeError(format!(
        "frame {} is dropped: {what}; the stream needs a key frame",
        frame.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_limited_for_any_number_of_macroblocks() {
        assert_eq!(rows_of(&(5..9), 4), 16..48);
        assert_eq!(rows_of(&(8..u32::MAX), 1), 128..u32::MAX);
        let first = |start: u32| rows_of(&(start..9), 1).start;
        assert_eq!([first(8), first(u32::MAX)], [128, u32::MAX]);
    }
}
