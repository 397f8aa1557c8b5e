//! Decodes HEVC with libavcodec. Each chunk is a complete picture, because the encoders produce one slice per picture.
//! A lost picture is not concealed; decoding continues at the next key frame.

use openuvr_proto::id::FrameId;

use super::super::{Chunk, DecodeError, Decoder};
use super::{dropped, received, sys};
use crate::picture::Picture;

/// NAL unit types of the slices with which decoding can start (ITU-T H.265 table 7-1).
const KEY_SLICES: std::ops::RangeInclusive<u8> = 16..=23;

pub(super) struct Whole {
    library: sys::Decoder,
    /// Whether there is no reference picture.
    needs_key_frame: bool,
}

impl Whole {
    pub(super) fn open(kind: &'static sys::Kind) -> Result<Whole, DecodeError> {
        Ok(Whole {
            library: sys::Decoder::open(kind)?,
            needs_key_frame: true,
        })
    }

    fn step(&mut self, chunk: &Chunk<'_>) -> Result<(), String> {
        let bytes = chunk.bytes.ok_or("it did not arrive")?;
        if !(chunk.first && chunk.last) {
            return Err("it has several slices, but an HEVC picture must have one".to_owned());
        }
        if self.needs_key_frame && !is_key(bytes) {
            return Err("its reference frame was lost".to_owned());
        }
        self.needs_key_frame = false;
        // The library may return earlier pictures that are too late for their own frames; they are dropped.
        while self.library.receive()?.is_some() {}
        if !self.library.send(bytes, i64::from(chunk.frame.0))? {
            return Err("libavcodec neither accepts nor returns data".to_owned());
        }
        received(&mut self.library, chunk.frame)
    }

    fn failed(&mut self, frame: FrameId, why: &str) -> DecodeError {
        self.library.restart();
        self.needs_key_frame = true;
        dropped(frame, why)
    }
}

impl Decoder for Whole {
    fn feed(&mut self, chunk: &Chunk<'_>) -> Result<Option<Picture<'_>>, DecodeError> {
        if let Err(why) = self.step(chunk) {
            return Err(self.failed(chunk.frame, &why));
        }
        let picture = self.library.picture();
        picture.map(Some).map_err(|why| dropped(chunk.frame, &why))
    }
}

/// Whether a picture contains a slice with which decoding can start. Section 7.3.1.2 defines the NAL unit header.
fn is_key(picture: &[u8]) -> bool {
    picture.windows(4).any(|four| match four {
        [0, 0, 1, header] => KEY_SLICES.contains(&(header >> 1 & 63)),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_pictures_are_recognised_behind_parameter_sets() {
        let sets = [0, 0, 0, 1, 33 << 1, 1, 0, 0, 1, 34 << 1, 1];
        let picture = |kind: u8| [&sets[..], &[0, 0, 1, kind << 1, 1, 0x80]].concat();
        for (kind, key) in [
            (0, false),
            (1, false),
            (15, false),
            (16, true),
            (19, true),
            (24, false),
        ] {
            assert_eq!(is_key(&picture(kind)), key, "{kind}");
        }
        assert!(!is_key(&[]) && !is_key(&[0, 0, 1]));
    }
}
