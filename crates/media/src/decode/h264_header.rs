//! Reads parameter sets and slice headers of H.264 (ITU-T H.264 7.3.2.1, 7.3.2.2, 7.3.3), and writes slice headers.
//! Only the features that our encoders use are supported: CAVLC, frames, 4:2:0 or 4:4:4, one slice group, no weights.
//! Slice data is not read.

use std::collections::BTreeMap;

use super::h264_bits::{BitReader, BitWriter};
use super::h264_error::SkipError;

/// Maximum number of bytes read from a parameter set. The parameter sets of our encoders have 10 to 60 bytes.
const PARAMETER_SET_BYTES: usize = 1024;
/// Highest id of a sequence parameter set, and highest id of a picture parameter set (H.264 7.4.2.1.1, 7.4.2.2).
const MAX_SPS_ID: u32 = 31;
const MAX_PPS_ID: u32 = 255;
/// Maximum number of list modifications, and of marking operations, in a header: 2 for each of 32 fields, and 2 more.
const MAX_OPERATIONS: usize = 66;

/// The parameter sets of a stream, by id: at most 32 for sequences and 256 for pictures.
#[derive(Debug, Default)]
pub(super) struct ParameterSets {
    sps: BTreeMap<u32, Sps>,
    pps: BTreeMap<u32, Pps>,
}

impl ParameterSets {
    /// Stores the sequence parameter set `nal`.
    pub(super) fn keep_sps(&mut self, nal: &[u8]) -> Result<(), SkipError> {
        let (id, sps) = Sps::read(&mut BitReader::nal(nal, PARAMETER_SET_BYTES))?;
        self.sps.insert(id, sps);
        Ok(())
    }

    /// Stores the picture parameter set `nal`.
    pub(super) fn keep_pps(&mut self, nal: &[u8]) -> Result<(), SkipError> {
        let (id, pps) = Pps::read(&mut BitReader::nal(nal, PARAMETER_SET_BYTES))?;
        self.pps.insert(id, pps);
        Ok(())
    }

    /// The parameter sets for slices with this `pps_id`.
    pub(super) fn of(&self, pps_id: u32) -> Result<(&Sps, &Pps), SkipError> {
        let pps = self.pps.get(&pps_id).ok_or(SkipError::NothingKnown)?;
        let sps = self.sps.get(&pps.sps_id).ok_or(SkipError::NothingKnown)?;
        Ok((sps, pps))
    }

    #[cfg(test)]
    pub(super) fn with(sps: Sps, pps: Pps) -> ParameterSets {
        ParameterSets {
            sps: BTreeMap::from([(0, sps)]),
            pps: BTreeMap::from([(0, pps)]),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PocType {
    /// Type 0: each slice header contains this many low bits of the order count.
    LowBits(u32),
    /// Type 1: each slice header contains differences, or the sequence declares them always zero.
    Deltas { always_zero: bool },
    /// Type 2: derived from frame_num.
    FrameNum,
}

#[derive(Debug)]
pub(super) struct Sps {
    pub(super) frame_num_bits: u32,
    pub(super) poc: PocType,
    /// Number of macroblocks of a picture.
    pub(super) mbs: u32,
}

impl Sps {
    fn read(bits: &mut BitReader) -> Result<(u32, Sps), SkipError> {
        let profile = bits.u(8)?;
        bits.u(16)?; // constraints, level
        let id = at_most(bits.ue()?, MAX_SPS_ID)?;
        // The parameter sets of all other profiles contain the chroma format (7.3.2.1.1). Our encoders use baseline
        // (66), and 244 for 4:4:4.
        if !matches!(profile, 66 | 77 | 88) {
            match bits.ue()? {
                1 => {}
                3 if bits.u(1)? == 0 => {}
                3 => return Err(SkipError::Unsupported("separate colour planes")),
                _ => return Err(SkipError::Unsupported("4:0:0 or 4:2:2")),
            }
            // Bit depths of luma and chroma.
            if bits.ue()? != 0 || bits.ue()? != 0 {
                return Err(SkipError::Unsupported("more than 8 bits per sample"));
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
        // 1055 macroblocks per side are the maximum of any level (table A-1, level 6.2).
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
pub(super) struct Pps {
    pub(super) sps_id: u32,
    pub(super) poc_of_fields: bool,
    pub(super) deblocking_control: bool,
    pub(super) redundant_pictures: bool,
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

/// A slice header, without values implied by the parameter sets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SliceHeader {
    pub(super) nal_ref_idc: u8,
    pub(super) idr: bool,
    pub(super) first_mb: u32,
    /// Whether it is a P slice; otherwise it is an I slice.
    pub(super) predicted: bool,
    pub(super) pps_id: u32,
    pub(super) frame_num: u32,
    pub(super) poc: [i32; 2],
    pub(super) redundant_picture: u32,
    pub(super) references: Option<u32>,
    /// ref_pic_list_modification: operation and operand.
    pub(super) modifications: Vec<(u32, u32)>,
    /// memory_management_control_operations: operation and operands.
    pub(super) marking: Vec<(u32, u32, u32)>,
    pub(super) qp_delta: i32,
    pub(super) deblocking: (u32, i32, i32),
}

impl SliceHeader {
    pub(super) fn read(
        bits: &mut BitReader,
        nal: u8,
        known: &ParameterSets,
    ) -> Result<SliceHeader, SkipError> {
        let (nal_ref_idc, idr) = (nal >> 5 & 3, nal & 31 == 5);
        let first_mb = bits.ue()?;
        let predicted = match bits.ue()? {
            0 | 5 => true,
            2 | 7 => false,
            _ => return Err(SkipError::Unsupported("B or switching slices")),
        };
        let pps_id = bits.ue()?;
        let (sps, pps) = known.of(pps_id)?;
        if first_mb >= sps.mbs {
            return Err(SkipError::OutOfRange);
        }
        let frame_num = bits.u(sps.frame_num_bits)?;
        if idr {
            bits.ue()?; // idr_pic_id
        }
        let poc = picture_order_count(bits, sps, pps)?;
        let redundant_picture = if pps.redundant_pictures {
            bits.ue()?
        } else {
            0
        };
        let (mut references, mut modifications) = (None, Vec::new());
        if predicted {
            if bits.u(1)? == 1 {
                references = Some(at_most(bits.ue()?, 31)?);
            }
            modifications = list_modifications(bits)?;
        }
        let mut marking = Vec::new();
        if idr {
            bits.u(2)?; // no output of prior pictures, long-term reference
        } else if nal_ref_idc != 0 {
            marking = reference_marking(bits)?;
        }
        let qp_delta = bits.se()?;
        let deblocking = match pps.deblocking_control {
            true => deblocking(bits)?,
            false => (0, 0, 0),
        };
        Ok(SliceHeader {
            nal_ref_idc,
            idr,
            first_mb,
            predicted,
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

    /// Writes the header of a P slice of a non-IDR picture.
    pub(super) fn write(&self, bits: &mut BitWriter, sps: &Sps, pps: &Pps) {
        bits.ue(self.first_mb);
        bits.ue(0); // P; other slices of the picture may have a different type
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

/// The order counts of both fields of a frame (H.264 7.3.3).
fn picture_order_count(bits: &mut BitReader, sps: &Sps, pps: &Pps) -> Result<[i32; 2], SkipError> {
    let first = match sps.poc {
        PocType::LowBits(n) => bits.u(n)?.cast_signed(),
        PocType::Deltas { always_zero: false } => bits.se()?,
        PocType::Deltas { always_zero: true } | PocType::FrameNum => return Ok([0; 2]),
    };
    Ok([first, if pps.poc_of_fields { bits.se()? } else { 0 }])
}

/// ref_pic_list_modification (7.3.3.1), of one list.
fn list_modifications(bits: &mut BitReader) -> Result<Vec<(u32, u32)>, SkipError> {
    let mut modifications = Vec::new();
    if bits.u(1)? == 1 {
        loop {
            let operation = at_most(bits.ue()?, 3)?;
            if operation == 3 {
                break;
            }
            push(&mut modifications, (operation, bits.ue()?))?;
        }
    }
    Ok(modifications)
}

/// dec_ref_pic_marking (7.3.3.3), of a non-IDR picture.
fn reference_marking(bits: &mut BitReader) -> Result<Vec<(u32, u32, u32)>, SkipError> {
    let mut marking = Vec::new();
    if bits.u(1)? == 1 {
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
    Ok(marking)
}

/// disable_deblocking_filter_idc, and the two offsets that follow if it is not 1 (7.3.3).
fn deblocking(bits: &mut BitReader) -> Result<(u32, i32, i32), SkipError> {
    match at_most(bits.ue()?, 2)? {
        1 => Ok((1, 0, 0)),
        idc => Ok((idc, bits.se()?, bits.se()?)),
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
