//! Fills a gap in an H.264 picture: writes a slice that repeats the gap's macroblocks from the last picture (all
//! P_Skip), in 10 to 13 bytes. This module is not a decoder: it reads only parameter sets and slice headers, and keeps
//! no other state.
//!
//! Gaps must be filled because libavcodec, if fed in chunks, delays a picture without its last slice by 16 packets. The
//! packets that libavcodec gets in the meantime are lost. A filled gap causes no stall. This module supports only
//! CAVLC, frames and one slice group, as produced by our encoders; anything else is [`SkipError::Unsupported`].

use super::h264_bits::{BitReader, BitWriter, nal_units};
pub use super::h264_error::SkipError;
use super::h264_header::{ParameterSets, PocType, SliceHeader};

/// Maximum number of bytes read from a slice: far more than a header with all its optional fields.
const HEADER_BYTES: usize = 256;

/// disable_deblocking_filter_idc of a slice without the filter (ITU-T H.264, 7.4.3).
const NO_DEBLOCKING: u32 = 1;

/// Slice headers and parameter sets observed in a stream.
#[derive(Debug, Default)]
pub struct PSkip {
    sets: ParameterSets,
    /// Slice header of the last picture.
    previous: Option<SliceHeader>,
    /// Slice header of the current picture.
    current: Option<SliceHeader>,
    /// A feature of the stream that this module does not support, if any. With such a feature, gaps can't be filled,
    /// but complete pictures can still be decoded.
    beyond: Option<&'static str>,
}

/// The slice in a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceInfo {
    /// Whether the slice belongs to a key frame.
    pub key_frame: bool,
    /// Its first macroblock.
    pub first_mb: u32,
    /// How many macroblocks at the start of the slice equal the reference picture, as far as this is easily determined.
    /// 0 if a deblocking filter could change these macroblocks.
    ///
    /// These macroblocks are a run of P_Skip without motion: all their neighbours are in the run, so their vectors are
    /// predicted to be zero (ITU-T H.264, 8.4.1.1).
    pub repeated: u32,
}

impl PSkip {
    /// Starts a new picture.
    pub fn begin_picture(&mut self) {
        if let Some(header) = self.current.take() {
            self.previous = Some(header);
        }
    }

    /// Discards slices and keeps parameter sets.
    pub fn reset(&mut self) {
        self.previous = None;
        self.current = None;
    }

    /// Reads an Annex B chunk: parameter sets, then one slice, which is the last unit.
    ///
    /// # Errors
    /// [`SkipError`] if the chunk has no readable slice, or a slice of a different picture. Parameter sets before the
    /// slice are stored nevertheless. A stream with unsupported features is not an error.
    pub fn observe(&mut self, chunk: &[u8]) -> Result<SliceInfo, SkipError> {
        for nal in nal_units(chunk) {
            let Some(&first) = nal.first() else { continue };
            match first & 31 {
                7 => {
                    self.beyond = None;
                    let kept = self.sets.keep_sps(nal);
                    self.note(kept)?;
                }
                8 => {
                    let kept = self.sets.keep_pps(nal);
                    self.note(kept)?;
                }
                1 | 5 => return self.slice(nal, first),
                _ => {}
            }
        }
        Err(SkipError::Damaged)
    }

    fn note(&mut self, kept: Result<(), SkipError>) -> Result<(), SkipError> {
        match kept {
            Err(SkipError::Unsupported(what)) => {
                self.beyond = Some(what);
                self.reset();
                Ok(())
            }
            kept => kept,
        }
    }

    fn slice(&mut self, nal: &[u8], first: u8) -> Result<SliceInfo, SkipError> {
        let mut bits = BitReader::nal(nal, HEADER_BYTES);
        if self.beyond.is_some() {
            return Ok(SliceInfo {
                key_frame: first & 31 == 5,
                first_mb: bits.ue()?,
                repeated: 0,
            });
        }
        let header = SliceHeader::read(&mut bits, first, &self.sets)?;
        if let Some(current) = &self.current
            && (current.idr, current.frame_num) != (header.idr, header.frame_num)
        {
            return Err(SkipError::OtherPicture);
        }
        // The data of a predicted slice starts with mb_skip_run.
        let repeated = match header.predicted && header.deblocking.0 == NO_DEBLOCKING {
            true => bits.ue()?,
            false => 0,
        };
        let seen = SliceInfo {
            key_frame: header.idr,
            first_mb: header.first_mb,
            repeated,
        };
        self.current = Some(header);
        Ok(seen)
    }

    /// Whether a slice of the current picture was read or written.
    #[must_use]
    pub fn knows_picture(&self) -> bool {
        self.current.is_some()
    }

    /// The number of macroblocks of the current picture, or of the last picture if the current picture is unknown.
    #[must_use]
    pub fn macroblocks(&self) -> Option<u32> {
        let header = self.current.as_ref().or(self.previous.as_ref())?;
        let (sps, _) = self.sets.of(header.pps_id).ok()?;
        Some(sps.mbs)
    }

    /// Writes the slice for the macroblocks `first_mb..first_mb + mbs` to `out`, with start code.
    ///
    /// # Errors
    /// [`SkipError`] if information is missing, if the stream is not supported, if the picture is a key frame, or if
    /// the macroblocks are outside of the picture; `out` is then empty.
    pub fn write(&mut self, first_mb: u32, mbs: u32, out: &mut Vec<u8>) -> Result<(), SkipError> {
        out.clear();
        if let Some(what) = self.beyond {
            return Err(SkipError::Unsupported(what));
        }
        let header = match &self.current {
            Some(header) => header.clone(),
            None => self.derive()?,
        };
        if header.idr {
            return Err(SkipError::KeyFrame);
        }
        let (sps, pps) = self.sets.of(header.pps_id)?;
        let end = first_mb.checked_add(mbs).ok_or(SkipError::OutOfRange)?;
        if mbs == 0 || end > sps.mbs {
            return Err(SkipError::OutOfRange);
        }
        let mut bits = BitWriter::default();
        let header = SliceHeader {
            first_mb,
            predicted: true,
            ..header
        };
        header.write(&mut bits, sps, pps);
        bits.ue(mbs); // mb_skip_run, and no macroblock after it
        out.extend_from_slice(&[0, 0, 0, 1, header.nal_ref_idc << 5 | 1]);
        bits.finish(out);
        self.current = Some(header);
        Ok(())
    }

    /// The header of the picture after `previous`, as far as it can be derived. The real header is
    /// not known yet.
    fn derive(&self) -> Result<SliceHeader, SkipError> {
        let previous = self.previous.as_ref().ok_or(SkipError::NothingKnown)?;
        let (sps, _) = self.sets.of(previous.pps_id)?;
        if sps.poc != PocType::FrameNum {
            return Err(SkipError::Unsupported(
                "a picture order count type other than 2",
            ));
        }
        let step = u32::from(previous.nal_ref_idc != 0);
        Ok(SliceHeader {
            idr: false,
            frame_num: (previous.frame_num + step) & (u32::MAX >> (32 - sps.frame_num_bits)),
            modifications: Vec::new(),
            marking: Vec::new(),
            ..previous.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::h264_header::{Pps, Sps};
    use super::*;

    fn known(poc: PocType, fields: bool) -> PSkip {
        let sps = Sps {
            frame_num_bits: 4,
            poc,
            mbs: 920,
        };
        let pps = Pps {
            sps_id: 0,
            poc_of_fields: fields,
            deblocking_control: true,
            redundant_pictures: fields,
        };
        PSkip {
            sets: ParameterSets::with(sps, pps),
            ..PSkip::default()
        }
    }

    fn header() -> SliceHeader {
        SliceHeader {
            nal_ref_idc: 2,
            idr: false,
            first_mb: 40,
            predicted: true,
            pps_id: 0,
            frame_num: 15,
            poc: [0; 2],
            redundant_picture: 0,
            references: Some(0),
            modifications: vec![(0, 3)],
            marking: vec![(1, 2, 0), (3, 0, 1), (5, 0, 0)],
            qp_delta: -7,
            deblocking: (2, 1, -1),
        }
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let deltas = PocType::Deltas { always_zero: false };
        for (poc, values) in [
            (PocType::LowBits(6), [33, -4]),
            (deltas, [-9, 5]),
            (PocType::FrameNum, [0, 0]),
        ] {
            let mut pskip = known(poc, true);
            let header = SliceHeader {
                poc: values,
                ..header()
            };
            pskip.current = Some(header.clone());
            let mut slice = Vec::new();
            pskip.write(40, 80, &mut slice).expect("a known picture");
            assert!(slice.len() < 32, "{}", slice.len());
            let seen = pskip.observe(&slice).expect("the written slice");
            assert_eq!((seen.key_frame, seen.first_mb), (false, 40));
            assert_eq!(pskip.current, Some(header));
        }
    }

    #[test]
    fn the_next_pictures_counters_increase_and_wrap() {
        let mut pskip = known(PocType::FrameNum, false);
        pskip.current = Some(header());
        pskip.begin_picture();
        let mut slice = Vec::new();
        pskip.write(0, 920, &mut slice).expect("derived");
        let current = pskip.current.as_ref().expect("written");
        assert_eq!((current.frame_num, current.modifications.len()), (0, 0));
        // The real slice of a different picture is detected.
        let mut other = known(PocType::FrameNum, false);
        other.current = Some(header());
        other.write(40, 1, &mut slice).expect("known");
        assert_eq!(pskip.observe(&slice), Err(SkipError::OtherPicture));
    }

    #[test]
    fn unfillable_slices_are_refused() {
        let mut out = Vec::new();
        let mut pskip = known(PocType::LowBits(4), false);
        assert_eq!(pskip.write(0, 9, &mut out), Err(SkipError::NothingKnown));
        pskip.current = Some(header());
        assert_eq!(pskip.write(900, 21, &mut out), Err(SkipError::OutOfRange));
        assert_eq!(
            pskip.write(u32::MAX, 2, &mut out),
            Err(SkipError::OutOfRange)
        );
        assert_eq!(pskip.write(0, 0, &mut out), Err(SkipError::OutOfRange));
        pskip.begin_picture();
        assert!(matches!(
            pskip.write(0, 9, &mut out),
            Err(SkipError::Unsupported(_))
        ));
        let idr = true;
        pskip.current = Some(SliceHeader { idr, ..header() });
        assert_eq!(pskip.write(0, 9, &mut out), Err(SkipError::KeyFrame));
        assert!(out.is_empty());
    }

    #[test]
    fn a_stream_with_cabac_is_read_but_never_filled() {
        let mut pskip = known(PocType::FrameNum, false);
        // Picture parameter set 0 of sequence 0 with CABAC, then slices at macroblocks 0 and 40.
        let seen = pskip.observe(&[0, 0, 1, 0x68, 0xEE, 0x38, 0x80, 0, 0, 1, 0x65, 0x88, 0x84]);
        let expected = |key_frame, first_mb| {
            Ok(SliceInfo {
                key_frame,
                first_mb,
                repeated: 0,
            })
        };
        assert_eq!(seen, expected(true, 0));
        assert_eq!(
            pskip.observe(&[0, 0, 1, 0x41, 0x05, 0x20]),
            expected(false, 40)
        );
        let mut out = Vec::new();
        assert!(!pskip.knows_picture());
        assert!(matches!(
            pskip.write(0, 9, &mut out),
            Err(SkipError::Unsupported("CABAC"))
        ));
    }

    #[test]
    fn any_bytes_are_handled() {
        let mut state = 1u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        let mut out = Vec::new();
        let mut pskip = known(PocType::FrameNum, false);
        for round in 0..50_000 {
            let mut chunk = vec![0, 0, 1, [0x67, 0x68, 0x65, 0x41][round % 4]];
            chunk.extend((0..random() % 40).map(|_| random()));
            let _ = pskip.observe(&chunk);
            let _ = pskip.write(u32::from(random()), u32::from(random()), &mut out);
            if random() < 64 {
                pskip.begin_picture();
            }
        }
    }

    #[test]
    fn repeated_macroblocks_are_detected_unless_filtered() {
        for (idc, repeated) in [(1, 880), (0, 0), (2, 0)] {
            let mut pskip = known(PocType::FrameNum, false);
            pskip.current = Some(SliceHeader {
                deblocking: (idc, 0, 0),
                ..header()
            });
            let mut slice = Vec::new();
            pskip.write(40, 880, &mut slice).expect("a known picture");
            let seen = pskip.observe(&slice).expect("the written slice");
            assert_eq!((seen.first_mb, seen.repeated), (40, repeated));
            // An I slice has no run of P_Skip.
            let mut bits = BitWriter::default();
            for value in [40, 2, 0] {
                bits.ue(value); // first_mb, I, picture parameter set
            }
            bits.u(4, 15); // frame_num
            bits.u(1, 0); // no operations
            bits.se(0); // quantiser
            bits.ue(idc);
            if idc != 1 {
                bits.se(0);
                bits.se(0);
            }
            bits.ue(3); // the first macroblock's type
            let mut slice = vec![0, 0, 1, 0x41];
            bits.finish(&mut slice);
            let seen = pskip.observe(&slice).expect("an I slice");
            assert_eq!((seen.first_mb, seen.repeated), (40, 0));
        }
    }
}
