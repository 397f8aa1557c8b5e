//! Fills a hole in an H.264 picture: writes a slice that says "as in the last picture" for each
//! of its macroblocks (all P_Skip), in 10 to 13 bytes. Not a decoder: it reads parameter sets and
//! slice headers only (ITU-T H.264 7.3.2.1, 7.3.2.2, 7.3.3), and has no state but theirs.
//!
//! Why: chunk-fed libavcodec holds a picture without its last slice back for 16 packets, and what
//! comes in between is lost. A hole that is filled never stalls. Only CAVLC, frames and one slice
//! group: what our encoders make; anything else is [`SkipError::Unsupported`].

use std::collections::BTreeMap;

use super::h264_bits::{BitReader, BitWriter, nal_units};

/// Bytes that are read of a slice: far more than a header with all its optional parts has.
const HEADER_BYTES: usize = 256;
/// Bytes that are read of a parameter set, which has 10 to 60 here.
const PARAMETER_SET_BYTES: usize = 1024;
/// Highest id of a sequence and of a picture parameter set (H.264 7.4.2.1.1, 7.4.2.2).
const MAX_SPS_ID: u32 = 31;
const MAX_PPS_ID: u32 = 255;
/// Most list modifications and marking operations that a header has: 2 for each of 32 fields.
const MAX_OPERATIONS: usize = 66;

/// Why a hole can't be filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SkipError {
    /// No slice header of this picture or the last one, or no parameter sets.
    #[error("no slice header is known yet")]
    NothingKnown,
    /// A key frame has nothing before it to repeat.
    #[error("a key frame lost a slice")]
    KeyFrame,
    /// The slice belongs to another picture than the ones before it.
    #[error("a slice does not belong to the picture that is under way")]
    OtherPicture,
    /// The stream uses what this module doesn't write.
    #[error("the stream uses {0}")]
    Unsupported(&'static str),
    /// The bytes end early or are no H.264.
    #[error("the slice or parameter set is damaged")]
    Damaged,
    /// The macroblocks don't exist in this picture.
    #[error("macroblocks outside of the picture")]
    OutOfRange,
}

/// Slice headers and parameter sets of one stream, as far as they went by.
#[derive(Debug, Default)]
pub struct PSkip {
    sps: BTreeMap<u32, Sps>,
    pps: BTreeMap<u32, Pps>,
    /// Of the last picture.
    previous: Option<SliceHeader>,
    /// Of the picture that is under way.
    current: Option<SliceHeader>,
}

/// What a chunk held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Whether its slice is of a key frame.
    pub key_frame: bool,
    /// Its first macroblock.
    pub first_mb: u32,
}

impl PSkip {
    /// A new picture starts.
    pub fn begin_picture(&mut self) {
        if let Some(header) = self.current.take() {
            self.previous = Some(header);
        }
    }

    /// Forgets slices, keeps parameter sets.
    pub fn reset(&mut self) {
        self.previous = None;
        self.current = None;
    }

    /// Reads an Annex B chunk: parameter sets, then one slice, which is the last thing in it.
    ///
    /// # Errors
    /// [`SkipError`] if it has no readable slice, or one of another picture; parameter sets in
    /// front of it are kept.
    pub fn observe(&mut self, chunk: &[u8]) -> Result<Seen, SkipError> {
        for nal in nal_units(chunk) {
            let Some(&first) = nal.first() else { continue };
            match first & 31 {
                7 => {
                    let (id, sps) = Sps::read(&mut BitReader::nal(nal, PARAMETER_SET_BYTES))?;
                    self.sps.insert(id, sps);
                }
                8 => {
                    let (id, pps) = Pps::read(&mut BitReader::nal(nal, PARAMETER_SET_BYTES))?;
                    self.pps.insert(id, pps);
                }
                1 | 5 => return self.slice(nal, first),
                _ => {}
            }
        }
        Err(SkipError::Damaged)
    }

    fn slice(&mut self, nal: &[u8], first: u8) -> Result<Seen, SkipError> {
        let mut bits = BitReader::nal(nal, HEADER_BYTES);
        let header = SliceHeader::read(&mut bits, first, self)?;
        if let Some(current) = &self.current
            && (current.idr, current.frame_num) != (header.idr, header.frame_num)
        {
            return Err(SkipError::OtherPicture);
        }
        let seen = Seen {
            key_frame: header.idr,
            first_mb: header.first_mb,
        };
        self.current = Some(header);
        Ok(seen)
    }

    /// Whether a slice of the picture that is under way was seen or written.
    #[must_use]
    pub fn knows_picture(&self) -> bool {
        self.current.is_some()
    }

    /// How many macroblocks the picture that is under way has, or else the last one.
    #[must_use]
    pub fn macroblocks(&self) -> Option<u32> {
        let header = self.current.as_ref().or(self.previous.as_ref())?;
        let (sps, _) = self.sets(header.pps_id).ok()?;
        Some(sps.mbs)
    }

    /// Writes to `out` the slice for the macroblocks `first_mb..first_mb + mbs`, with start code.
    ///
    /// # Errors
    /// [`SkipError`] if there is nothing to make it from; `out` is then empty.
    pub fn write(&mut self, first_mb: u32, mbs: u32, out: &mut Vec<u8>) -> Result<(), SkipError> {
        out.clear();
        let header = match &self.current {
            Some(header) => header.clone(),
            None => self.derive()?,
        };
        if header.idr {
            return Err(SkipError::KeyFrame);
        }
        let (sps, pps) = self.sets(header.pps_id)?;
        let end = first_mb.checked_add(mbs).ok_or(SkipError::OutOfRange)?;
        if mbs == 0 || end > sps.mbs {
            return Err(SkipError::OutOfRange);
        }
        let mut bits = BitWriter::default();
        let header = SliceHeader { first_mb, ..header };
        header.write(&mut bits, sps, pps);
        bits.ue(mbs); // mb_skip_run, and no macroblock behind it
        out.extend_from_slice(&[0, 0, 0, 1, header.nal_ref_idc << 5 | 1]);
        bits.finish(out);
        self.current = Some(header);
        Ok(())
    }

    /// The header that the picture behind `previous` has, as far as it can be told: its own is
    /// not known yet.
    fn derive(&self) -> Result<SliceHeader, SkipError> {
        let previous = self.previous.as_ref().ok_or(SkipError::NothingKnown)?;
        let (sps, _) = self.sets(previous.pps_id)?;
        if sps.poc != PocType::FrameNum {
            return Err(SkipError::Unsupported("picture order counts of its own"));
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

    fn sets(&self, pps_id: u32) -> Result<(&Sps, &Pps), SkipError> {
        let pps = self.pps.get(&pps_id).ok_or(SkipError::NothingKnown)?;
        let sps = self.sps.get(&pps.sps_id).ok_or(SkipError::NothingKnown)?;
        Ok((sps, pps))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PocType {
    /// Type 0: low bits in each slice header, this many.
    LowBits(u32),
    /// Type 1: differences in each slice header, unless the flag says that they are always zero.
    Deltas { always_zero: bool },
    /// Type 2: follows from frame_num.
    FrameNum,
}

#[derive(Debug)]
struct Sps {
    frame_num_bits: u32,
    poc: PocType,
    /// Macroblocks of a picture.
    mbs: u32,
}

impl Sps {
    fn read(bits: &mut BitReader) -> Result<(u32, Sps), SkipError> {
        let profile = bits.u(8)?;
        bits.u(16)?; // constraints, level
        let id = at_most(bits.ue()?, MAX_SPS_ID)?;
        // The profiles with a chroma format (7.3.2.1.1); ours are baseline (66).
        if !matches!(profile, 66 | 77 | 88) {
            if bits.ue()? != 1 {
                return Err(SkipError::Unsupported("a chroma format other than 4:2:0"));
            }
            // Bit depths of luma and chroma.
            if bits.ue()? != 0 || bits.ue()? != 0 {
                return Err(SkipError::Unsupported("more than 8 bits a sample"));
            }
            bits.u(1)?; // transform bypass
            if bits.u(1)? == 1 {
                return Err(SkipError::Unsupported("scaling matrices"));
            }
        }
        let frame_num_bits = at_most(bits.ue()?, 12)? + 4;
        let poc = match bits.ue()? {
            0 => PocType::LowBits(at_most(bits.ue()?, 12)? + 4),
            1 => {
                let always_zero = bits.u(1)? == 1;
                bits.se()?; // offset of pictures that are no reference
                bits.se()?; // offset of the bottom field
                for _ in 0..at_most(bits.ue()?, 255)? {
                    bits.se()?;
                }
                PocType::Deltas { always_zero }
            }
            2 => PocType::FrameNum,
            _ => return Err(SkipError::Damaged),
        };
        bits.ue()?; // reference frames
        bits.u(1)?; // gaps in frame_num allowed
        // 1055 macroblocks a side are the most of any level (table A-1, level 6.2).
        let (columns, rows) = (
            at_most(bits.ue()?, 1054)? + 1,
            at_most(bits.ue()?, 1054)? + 1,
        );
        if bits.u(1)? == 0 {
            return Err(SkipError::Unsupported("fields"));
        }
        let mbs = columns * rows;
        let sps = Sps {
            frame_num_bits,
            poc,
            mbs,
        };
        Ok((id, sps))
    }
}

#[derive(Debug)]
struct Pps {
    sps_id: u32,
    poc_of_fields: bool,
    deblocking_control: bool,
    redundant_pictures: bool,
}

impl Pps {
    fn read(bits: &mut BitReader) -> Result<(u32, Pps), SkipError> {
        let id = at_most(bits.ue()?, MAX_PPS_ID)?;
        let sps_id = at_most(bits.ue()?, MAX_SPS_ID)?;
        if bits.u(1)? == 1 {
            return Err(SkipError::Unsupported("CABAC"));
        }
        let poc_of_fields = bits.u(1)? == 1;
        if bits.ue()? != 0 {
            return Err(SkipError::Unsupported("slice groups"));
        }
        bits.ue()?; // reference indices of list 0
        bits.ue()?; // of list 1
        if bits.u(1)? == 1 {
            return Err(SkipError::Unsupported("weighted prediction"));
        }
        bits.u(2)?; // weights of B pictures
        bits.se()?; // quantiser of P and B slices
        bits.se()?; // of switching slices
        bits.se()?; // of chroma
        let deblocking_control = bits.u(1)? == 1;
        bits.u(1)?; // constrained intra prediction
        let pps = Pps {
            sps_id,
            poc_of_fields,
            deblocking_control,
            redundant_pictures: bits.u(1)? == 1,
        };
        Ok((id, pps))
    }
}

/// A slice header, without what follows from the parameter sets.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SliceHeader {
    nal_ref_idc: u8,
    idr: bool,
    first_mb: u32,
    pps_id: u32,
    frame_num: u32,
    poc: [i32; 2],
    redundant_picture: u32,
    references: Option<u32>,
    /// ref_pic_list_modification: operation and operand.
    modifications: Vec<(u32, u32)>,
    /// memory_management_control_operations: operation and operands.
    marking: Vec<(u32, u32, u32)>,
    qp_delta: i32,
    deblocking: (u32, i32, i32),
}

impl SliceHeader {
    fn read(bits: &mut BitReader, nal: u8, known: &PSkip) -> Result<SliceHeader, SkipError> {
        let (nal_ref_idc, idr) = (nal >> 5 & 3, nal & 31 == 5);
        let first_mb = bits.ue()?;
        let predicted = match bits.ue()? {
            0 | 5 => true,
            2 | 7 => false,
            _ => return Err(SkipError::Unsupported("B or switching slices")),
        };
        let pps_id = bits.ue()?;
        let (sps, pps) = known.sets(pps_id)?;
        if first_mb >= sps.mbs {
            return Err(SkipError::OutOfRange);
        }
        let frame_num = bits.u(sps.frame_num_bits)?;
        if idr {
            bits.ue()?; // idr_pic_id
        }
        let poc = match sps.poc {
            PocType::LowBits(n) => {
                let low = bits.u(n)?.cast_signed();
                [low, if pps.poc_of_fields { bits.se()? } else { 0 }]
            }
            PocType::Deltas { always_zero: false } => {
                let delta = bits.se()?;
                [delta, if pps.poc_of_fields { bits.se()? } else { 0 }]
            }
            PocType::Deltas { always_zero: true } | PocType::FrameNum => [0; 2],
        };
        let redundant_picture = if pps.redundant_pictures {
            bits.ue()?
        } else {
            0
        };
        let (mut references, mut modifications, mut marking) = (None, Vec::new(), Vec::new());
        if predicted {
            if bits.u(1)? == 1 {
                references = Some(at_most(bits.ue()?, 31)?);
            }
            if bits.u(1)? == 1 {
                loop {
                    let operation = at_most(bits.ue()?, 3)?;
                    if operation == 3 {
                        break;
                    }
                    push(&mut modifications, (operation, bits.ue()?))?;
                }
            }
        }
        if idr {
            bits.u(2)?; // no output of prior pictures, long-term reference
        } else if nal_ref_idc != 0 && bits.u(1)? == 1 {
            loop {
                let operation = at_most(bits.ue()?, 6)?;
                if operation == 0 {
                    break;
                }
                let first = if operation != 5 { bits.ue()? } else { 0 };
                let second = if operation == 3 { bits.ue()? } else { 0 };
                push(&mut marking, (operation, first, second))?;
            }
        }
        let qp_delta = bits.se()?;
        let mut deblocking = (0, 0, 0);
        if pps.deblocking_control {
            deblocking.0 = at_most(bits.ue()?, 2)?;
            if deblocking.0 != 1 {
                deblocking = (deblocking.0, bits.se()?, bits.se()?);
            }
        }
        Ok(SliceHeader {
            nal_ref_idc,
            idr,
            first_mb,
            pps_id,
            frame_num,
            poc,
            redundant_picture,
            references,
            modifications,
            marking,
            qp_delta,
            deblocking,
        })
    }

    /// As a P slice of a picture that is no key frame.
    fn write(&self, bits: &mut BitWriter, sps: &Sps, pps: &Pps) {
        bits.ue(self.first_mb);
        bits.ue(0); // P; others of the picture may be of another type
        bits.ue(self.pps_id);
        bits.u(sps.frame_num_bits, self.frame_num);
        match sps.poc {
            PocType::LowBits(n) => bits.u(n, self.poc[0].cast_unsigned()),
            PocType::Deltas { always_zero: false } => bits.se(self.poc[0]),
            PocType::Deltas { always_zero: true } | PocType::FrameNum => {}
        }
        let has_poc = !matches!(
            sps.poc,
            PocType::Deltas { always_zero: true } | PocType::FrameNum
        );
        if has_poc && pps.poc_of_fields {
            bits.se(self.poc[1]);
        }
        if pps.redundant_pictures {
            bits.ue(self.redundant_picture);
        }
        bits.u(1, u32::from(self.references.is_some()));
        if let Some(references) = self.references {
            bits.ue(references);
        }
        bits.u(1, u32::from(!self.modifications.is_empty()));
        if !self.modifications.is_empty() {
            for &(operation, operand) in &self.modifications {
                bits.ue(operation);
                bits.ue(operand);
            }
            bits.ue(3);
        }
        if self.nal_ref_idc != 0 {
            bits.u(1, u32::from(!self.marking.is_empty()));
            if !self.marking.is_empty() {
                for &(operation, first, second) in &self.marking {
                    bits.ue(operation);
                    if operation != 5 {
                        bits.ue(first);
                    }
                    if operation == 3 {
                        bits.ue(second);
                    }
                }
                bits.ue(0);
            }
        }
        bits.se(self.qp_delta);
        if pps.deblocking_control {
            bits.ue(self.deblocking.0);
            if self.deblocking.0 != 1 {
                bits.se(self.deblocking.1);
                bits.se(self.deblocking.2);
            }
        }
    }
}

fn at_most(value: u32, limit: u32) -> Result<u32, SkipError> {
    if value <= limit {
        Ok(value)
    } else {
        Err(SkipError::Damaged)
    }
}

fn push<T>(list: &mut Vec<T>, item: T) -> Result<(), SkipError> {
    if list.len() >= MAX_OPERATIONS {
        return Err(SkipError::Damaged);
    }
    list.push(item);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(poc: PocType, fields: bool) -> PSkip {
        let mut known = PSkip::default();
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
        known.sps.insert(0, sps);
        known.pps.insert(0, pps);
        known
    }

    fn header() -> SliceHeader {
        SliceHeader {
            nal_ref_idc: 2,
            idr: false,
            first_mb: 40,
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
            let seen = pskip.observe(&slice).expect("what we wrote");
            assert_eq!((seen.key_frame, seen.first_mb), (false, 40));
            assert_eq!(pskip.current, Some(header));
        }
    }

    #[test]
    fn the_picture_behind_the_last_counts_on_and_wraps() {
        let mut pskip = known(PocType::FrameNum, false);
        pskip.current = Some(header());
        pskip.begin_picture();
        let mut slice = Vec::new();
        pskip.write(0, 920, &mut slice).expect("derived");
        let current = pskip.current.as_ref().expect("written");
        assert_eq!((current.frame_num, current.modifications.len()), (0, 0));
        // The real slice of another picture is noticed.
        let mut other = known(PocType::FrameNum, false);
        other.current = Some(header());
        other.write(40, 1, &mut slice).expect("known");
        assert_eq!(pskip.observe(&slice), Err(SkipError::OtherPicture));
    }

    #[test]
    fn what_can_t_be_filled_is_refused() {
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
    fn any_bytes_are_survived() {
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
}
