//! H.264 with libavcodec, opened at run time, fed slice by slice: when the last slice is there,
//! the others are decoded.
//!
//! A hole is filled with an all-P_Skip slice ([`super::h264_pskip`]); what can't be filled (a key
//! frame's slice) drops the frame, opens the codec anew and waits for a key frame. No picture is
//! ever left without its last slice: libavcodec would hold back the next ones.
//!
//! On a surface that lends its memory each slice is painted while the next one is still under way:
//! libavcodec says up to which row its picture is final.

mod sys;

use std::ops::Range;
use std::time::{Duration, Instant};

use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

use super::h264_pskip::PSkip;
use super::{Backend, Chunk, Codec, DecodeError, Decoded, Decoder, View};
use crate::picture::Picture;
use crate::present::{Canvas, to_bgrx};

/// The decoder on the processor.
static SOFTWARE: sys::Kind = sys::Kind {
    name: "h264",
    options: &[
        ("flags", "+low_delay+output_corrupt"),
        ("flags2", "+chunks"),
        ("threads", "1"),
        ("thread_type", "slice"),
        // Else libavcodec conceals the rest of the picture behind every chunk: 10–25 times
        // slower (measured).
        ("enable_er", "0"),
    ],
    whole: false,
};

/// The line in the table of what is used if nothing else is asked for.
pub const BACKEND: Backend = Backend {
    name: "avcodec",
    about: "H.264 by libavcodec on the processor, slice by slice",
    codec: Codec::H264,
    open: || Ok(Box::new(Avcodec::open(&SOFTWARE)?)),
};

/// Hardware that takes pictures from memory and gives them back there. It gets a picture when it is
/// whole, so that it decodes later than the processor, which has done most of it by then.
pub const HARDWARE: [Backend; 3] = [
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
        about: "H.264 by a small board's video unit (V4L2), through libavcodec; whole pictures",
        codec: Codec::H264,
        open: || Ok(Box::new(Avcodec::open(&V4L2)?)),
    },
];

static CUVID: sys::Kind = hardware("h264_cuvid");
static QSV: sys::Kind = hardware("h264_qsv");
static V4L2: sys::Kind = hardware("h264_v4l2m2m");

const fn hardware(name: &'static str) -> sys::Kind {
    sys::Kind {
        name,
        options: &[("flags", "+low_delay")],
        whole: true,
    }
}

/// How long hardware may take for a picture before it counts as held back: six frames at 60 a
/// second (guess).
const HELD_BACK: Duration = Duration::from_millis(100);

/// The side of a macroblock, in pixels.
const MACROBLOCK: u32 = 16;

/// How often it is asked meanwhile.
const ASK_AGAIN: Duration = Duration::from_micros(200);

struct Avcodec {
    library: sys::Decoder,
    pskip: PSkip,
    /// The picture that is under way.
    current: Option<Current>,
    /// Nothing is there to predict from.
    needs_key_frame: bool,
    /// Failed: the rest of it is refused.
    refused: FrameId,
    synthesised: Vec<u8>,
    painted: Painted,
    /// Macroblocks, in order, of the picture that is under way, outside of which it is the picture
    /// that it refers to.
    changed: Vec<Range<u32>>,
    /// The picture that is under way, for a decoder that wants it whole.
    whole: Vec<u8>,
}

/// What of the picture that is under way is on the canvas.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Painted {
    /// Where its luma lies, as a number: what was painted from elsewhere is another picture.
    source: usize,
    size: Size,
    /// Rows from the top.
    rows: u32,
}

#[derive(Clone, Copy)]
struct Current {
    frame: FrameId,
    /// The first macroblock that was not fed yet.
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
        })
    }

    /// Feeds a chunk; whether the library now holds this frame's picture. After an error the decoder
    /// begins anew.
    fn step(&mut self, chunk: &Chunk<'_>) -> Result<bool, DecodeError> {
        let outcome = if self.refused == chunk.frame && !chunk.first {
            Err("a part of it could not be decoded".to_owned())
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
                // Its picture comes too late, but the library must not wait for the rest of it.
                if !self.library.is_whole()
                    && let Some(Err(what)) = abandoned.map(|current| self.close(current))
                {
                    tracing::debug!(%what, "an unfinished frame is dropped");
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
                "macroblock {first_mb} came behind {}: slices must be in order",
                current.next_mb
            ));
        }
        let end = first_mb + u32::from(chunk.mbs);
        if let Some(bytes) = chunk.bytes {
            let repeated = self.slice(bytes, &mut current, first_mb)?;
            // One that counts no macroblocks is a whole frame.
            let end = if chunk.mbs == 0 { u32::MAX } else { end };
            self.changed.push(first_mb.saturating_add(repeated)..end);
            current.next_mb = first_mb + u32::from(chunk.mbs);
        } else if self.pskip.knows_picture() {
            self.skip_to(&mut current, end)?;
        } // else the first slice that does arrive tells how to fill the hole before it
        if !chunk.last {
            self.current = Some(current);
            return Ok(false);
        }
        // A slice that counts no macroblocks is a whole frame.
        if chunk.mbs != 0 || chunk.bytes.is_none() {
            self.close(current)?;
        }
        self.drain(chunk.frame)
    }

    /// Feeds a slice, and what is missing before it. How many of its macroblocks, from the first on,
    /// are those of the picture that it refers to.
    fn slice(&mut self, bytes: &[u8], current: &mut Current, first_mb: u32) -> Result<u32, String> {
        let seen = self.pskip.observe(bytes).map_err(|e| e.to_string())?;
        if seen.first_mb != first_mb {
            return Err(format!(
                "a slice starts at macroblock {} and was announced for {first_mb}",
                seen.first_mb
            ));
        }
        if self.needs_key_frame && !seen.key_frame {
            return Err("it follows a lost one".into());
        }
        self.needs_key_frame = false;
        self.skip_to(current, first_mb)?;
        self.send(bytes, current.frame)?;
        Ok(seen.repeated)
    }

    /// Fills with P_Skip up to macroblock `end`.
    fn skip_to(&mut self, current: &mut Current, end: u32) -> Result<(), String> {
        if end <= current.next_mb {
            return Ok(());
        }
        if self.needs_key_frame {
            return Err("it follows a lost one".into());
        }
        let mut slice = std::mem::take(&mut self.synthesised);
        let written = (self.pskip).write(current.next_mb, end - current.next_mb, &mut slice);
        let sent = match written {
            Ok(()) => self.send(&slice, current.frame),
            Err(error) => Err(error.to_string()),
        };
        self.synthesised = slice;
        // Which picture it repeats is not certain.
        self.changed.push(current.next_mb..end);
        current.next_mb = end;
        sent
    }

    /// Fills what is left of a picture.
    fn close(&mut self, mut current: Current) -> Result<(), String> {
        let end = self.pskip.macroblocks().unwrap_or(current.next_mb);
        self.skip_to(&mut current, end)
    }

    /// Gives the library a slice, or keeps it until the picture is whole.
    fn send(&mut self, bytes: &[u8], frame: FrameId) -> Result<(), String> {
        if self.library.is_whole() {
            self.whole.extend_from_slice(bytes);
            return Ok(());
        }
        self.hand_over(bytes, frame)
    }

    fn hand_over(&mut self, bytes: &[u8], frame: FrameId) -> Result<(), String> {
        let pts = i64::from(frame.0);
        // Older pictures, which came too late for their own frame, would be in the way. One of
        // this frame means that a damaged slice ran on to the end of the picture: what is still
        // to come would be taken for another one.
        while let Some(early) = self.library.receive()? {
            if early == pts {
                return Err("it was over before its last slice".into());
            }
        }
        if self.library.send(bytes, pts)? {
            return Ok(());
        }
        Err("libavcodec takes nothing and gives nothing".into())
    }

    /// Takes pictures out until it is `frame`'s.
    fn drain(&mut self, frame: FrameId) -> Result<bool, String> {
        let begin = Instant::now();
        if self.library.is_whole() {
            let whole = std::mem::take(&mut self.whole);
            let sent = self.hand_over(&whole, frame);
            self.whole = whole;
            self.whole.clear();
            sent?;
        }
        loop {
            match self.library.receive()? {
                Some(pts) if pts == i64::from(frame.0) => return Ok(true),
                Some(_) => {}
                None if self.library.is_whole() && begin.elapsed() < HELD_BACK => {
                    std::thread::sleep(ASK_AGAIN);
                }
                None => return Err("libavcodec held its picture back".into()),
            }
        }
    }

    /// Forgets the frame that is under way and all references: the next frame is a key frame.
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
        if !self.step(chunk)? {
            return Ok(None);
        }
        let picture = self.library.picture();
        (picture.map(Some)).map_err(|what| dropped(chunk.frame, &what))
    }

    fn paint(
        &mut self,
        chunk: &Chunk<'_>,
        view: Option<View>,
        canvas: &mut dyn Canvas,
    ) -> Result<Option<Decoded<'_>>, DecodeError> {
        let whole = self.step(chunk)?;
        let failed = |what: String| dropped(chunk.frame, &what);
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
        // All of it, if it is not known what the canvas shows.
        let all = (!view.follows).then_some(0..u32::MAX);
        let changed = all.into_iter().chain(changed);
        let picture = picture.cropped(view.size);
        self.painted = paint(&picture, rows, changed, self.painted, canvas).map_err(failed)?;
        Ok(whole.then_some(Decoded::OnCanvas(picture.size)))
    }
}

/// The rows of pixels that macroblocks lie in, of a picture of so many columns of them.
fn rows_of(mbs: &Range<u32>, columns: u32) -> Range<u32> {
    let end = mbs.end.div_ceil(columns).saturating_mul(MACROBLOCK);
    mbs.start / columns * MACROBLOCK..end
}

/// Paints what is not yet `painted` of the first `rows` rows of a picture, as far as it is among those
/// that have `changed`, which come from the top to the bottom and may overlap. Chroma of 4:2:0 covers two
/// rows, so that the last of an odd number waits for the next one.
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

fn dropped(frame: FrameId, what: &str) -> DecodeError {
    DecodeError(format!(
        "frame {} is dropped: {what}; ask for a key frame",
        frame.0
    ))
}
