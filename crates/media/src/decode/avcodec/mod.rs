//! H.264 with libavcodec, opened at run time, fed slice by slice: when the last slice is there,
//! the others are decoded.
//!
//! A hole is filled with an all-P_Skip slice ([`super::h264_pskip`]); what can't be filled (a key
//! frame's slice) drops the frame, opens the codec anew and waits for a key frame. No picture is
//! ever left without its last slice: libavcodec would hold back the next ones.

mod sys;

use openuvr_proto::id::FrameId;

use super::h264_pskip::PSkip;
use super::{Backend, Chunk, Codec, DecodeError, Decoder};
use crate::picture::Picture;

/// The line in the table.
pub const BACKEND: Backend = Backend {
    name: "avcodec",
    codec: Codec::H264,
    open: || Ok(Box::new(Avcodec::open()?)),
};

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
}

#[derive(Clone, Copy)]
struct Current {
    frame: FrameId,
    /// The first macroblock that was not fed yet.
    next_mb: u32,
}

impl Avcodec {
    fn open() -> Result<Avcodec, DecodeError> {
        Ok(Avcodec {
            library: sys::Decoder::open()?,
            pskip: PSkip::default(),
            current: None,
            needs_key_frame: true,
            refused: FrameId::NONE,
            synthesised: Vec::new(),
        })
    }

    /// Feeds a chunk; whether the library now holds this frame's picture.
    fn step(&mut self, chunk: &Chunk<'_>) -> Result<bool, String> {
        let mut current = match self.current.take() {
            Some(current) if current.frame == chunk.frame => current,
            abandoned => {
                // Its picture comes too late, but the library must not wait for the rest of it.
                if let Some(Err(what)) = abandoned.map(|current| self.close(current)) {
                    tracing::debug!(%what, "an unfinished frame is dropped");
                    self.reset();
                }
                self.pskip.begin_picture();
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
            self.slice(bytes, &mut current, first_mb)?;
            current.next_mb = end;
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

    /// Feeds a slice, and what is missing before it.
    fn slice(&mut self, bytes: &[u8], current: &mut Current, first_mb: u32) -> Result<(), String> {
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
        self.send(bytes, current.frame)
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
        current.next_mb = end;
        sent
    }

    /// Fills what is left of a picture.
    fn close(&mut self, mut current: Current) -> Result<(), String> {
        let end = self.pskip.macroblocks().unwrap_or(current.next_mb);
        self.skip_to(&mut current, end)
    }

    fn send(&mut self, bytes: &[u8], frame: FrameId) -> Result<(), String> {
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
        while let Some(pts) = self.library.receive()? {
            if pts == i64::from(frame.0) {
                return Ok(true);
            }
        }
        Err("libavcodec held its picture back".into())
    }
}

impl Decoder for Avcodec {
    fn feed(&mut self, chunk: &Chunk<'_>) -> Result<Option<Picture<'_>>, DecodeError> {
        let error = |what: String| {
            DecodeError(format!(
                "frame {} is dropped: {what}; ask for a key frame",
                chunk.frame.0
            ))
        };
        if self.refused == chunk.frame && !chunk.first {
            return Err(error("a part of it could not be decoded".into()));
        }
        match self.step(chunk) {
            Ok(false) => Ok(None),
            Ok(true) => self.library.picture().map(Some).map_err(error),
            Err(what) => {
                self.reset();
                self.refused = chunk.frame;
                Err(error(what))
            }
        }
    }

    fn reset(&mut self) {
        self.library.restart();
        self.pskip.reset();
        self.current = None;
        self.needs_key_frame = true;
        self.refused = FrameId::NONE;
    }
}
