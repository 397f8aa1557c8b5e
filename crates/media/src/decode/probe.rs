//! Checks whether a decoder works on this machine: decodes a generated picture, and compares the
//! result with the input. It is not a benchmark.

use std::time::Instant;

use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

use super::h264_bits::BitWriter;
use super::{Backend, Chunk, DecodeError};
use crate::band::Band;
use crate::codec::Codec;
use crate::picture::{Picture, PixelFormat};

/// Width and height in macroblocks. This size, 640x368 pixels, is not below the minimum of hardware decoders.
const COLUMNS: u32 = 40;
const ROWS: u32 = 23;

/// The result of a working decoder for one picture.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Probe {
    /// Time from submitting the coded picture to receiving the decoded picture, in milliseconds.
    pub millis: f64,
    /// Size of the coded picture.
    pub bytes: usize,
}

/// Opens `backend` and decodes the generated picture with it.
///
/// # Errors
/// A one-line [`DecodeError`] if the decoder can't be opened, returns no picture, or returns a wrong picture.
pub fn probe(backend: &Backend) -> Result<Probe, DecodeError> {
    let mut decoder = (backend.open)()?;
    let sample = Sample::of(backend.codec).ok_or_else(|| {
        DecodeError(format!(
            "there is no test picture for {}: choose another decoder",
            backend.name
        ))
    })?;
    let chunk = Chunk {
        frame: FrameId(1),
        first: true,
        last: true,
        first_mb: 0,
        mbs: sample.mbs,
        bytes: Some(&sample.bytes),
    };
    let start = Instant::now();
    let picture = decoder.feed(&chunk).map_err(|why| {
        DecodeError(format!(
            "{} can't decode the test picture ({why}): choose another decoder",
            backend.name
        ))
    })?;
    let millis = start.elapsed().as_secs_f64() * 1e3;
    let shown = picture.as_ref().map(sample.measure);
    if shown != Some(sample.expected) {
        return Err(DecodeError(format!(
            "{} returns a wrong picture: choose another decoder",
            backend.name
        )));
    }
    Ok(Probe {
        millis,
        bytes: sample.bytes.len(),
    })
}

/// A coded picture, and the expected result.
struct Sample {
    bytes: Vec<u8>,
    mbs: u16,
    measure: fn(&Picture<'_>) -> u64,
    expected: u64,
}

impl Sample {
    /// The test picture of a codec; `None` for a codec without a decoder.
    fn of(codec: Codec) -> Option<Sample> {
        let (bytes, mbs, measure): (_, _, fn(&Picture<'_>) -> u64) = match codec {
            Codec::H264 => (h264(), COLUMNS * ROWS, luma_sum),
            Codec::Jpeg => (jpeg(), 1, first_bytes),
            Codec::Raw => (raw(), 0, first_bytes),
            Codec::Null => (FrameId(1).0.to_le_bytes().to_vec(), 0, |_| 0),
            Codec::Vp9 => return None,
            Codec::Hevc => (HEVC.to_vec(), 0, luma_sum),
        };
        let expected = match codec {
            Codec::H264 => (0..COLUMNS * ROWS)
                .map(|mb| 256 * u64::from(shade(mb)))
                .sum(),
            Codec::Jpeg => u64::from_le_bytes([128, 128, 128, 0, 128, 128, 128, 0]),
            Codec::Raw => u64::from_le_bytes([10, 20, 30, 0, 10, 20, 30, 0]),
            Codec::Null | Codec::Vp9 => 0,
            Codec::Hevc => u64::from(COLUMNS * ROWS) * 256 * HEVC_LUMA,
        };
        Some(Sample {
            bytes,
            mbs: u16::try_from(mbs).unwrap_or(0),
            measure,
            expected,
        })
    }
}

/// A grey HEVC key frame in main profile, with the size of the test picture. libx265 encoded it with the preset
/// `ultrafast`; its SEI message was removed.
const HEVC: &[u8] = &[
    0x00, 0x00, 0x00, 0x01, 0x40, 0x01, 0x0c, 0x01, 0xff, 0xff, 0x04, 0x08, 0x00, 0x00, 0x03, 0x00,
    0x9f, 0xa8, 0x00, 0x00, 0x03, 0x00, 0x00, 0x3f, 0xba, 0x02, 0x40, 0x00, 0x00, 0x00, 0x01, 0x42,
    0x01, 0x01, 0x04, 0x08, 0x00, 0x00, 0x03, 0x00, 0x9f, 0xa8, 0x00, 0x00, 0x03, 0x00, 0x00, 0x3f,
    0xa0, 0x05, 0x02, 0x01, 0x71, 0x65, 0xba, 0x4e, 0x4c, 0x2f, 0x01, 0x68, 0x08, 0x00, 0x00, 0x03,
    0x00, 0x08, 0x00, 0x00, 0x03, 0x00, 0x08, 0x40, 0x00, 0x00, 0x00, 0x01, 0x44, 0x01, 0xc0, 0x71,
    0x81, 0x12, 0x00, 0x00, 0x01, 0x28, 0x01, 0xad, 0x60, 0xc5, 0x3f, 0x64, 0xa9, 0x29, 0xa4, 0xe7,
    0x29, 0x1b, 0x48, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00,
    0x00, 0x03, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00, 0x00,
    0x03, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03,
    0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00,
    0x00, 0x3e, 0x60,
];

/// The luma of each sample of [`HEVC`].
const HEVC_LUMA: u64 = 126;

/// The luma of macroblock `mb`: above 3, so that no byte needs emulation prevention.
fn shade(mb: u32) -> u8 {
    u8::try_from(16 + mb * 7 % 200).unwrap_or(16)
}

/// A key frame with its parameter sets, in constrained baseline profile. All macroblocks are I_PCM (ITU-T H.264 7.3.5),
/// with raw samples.
fn h264() -> Vec<u8> {
    let mut out = vec![0, 0, 0, 1, 0x67];
    let mut sps = BitWriter::default();
    sps.u(8, 66); // baseline
    sps.u(8, 0b1100_0000); // constrained
    sps.u(8, 31); // level 3.1
    sps.ue(0); // id
    sps.ue(0); // bits of frame_num − 4
    sps.ue(2); // order follows from frame_num
    sps.ue(1); // references
    sps.u(1, 0);
    sps.ue(COLUMNS - 1);
    sps.ue(ROWS - 1);
    sps.u(1, 1); // frames
    sps.u(1, 1);
    sps.u(1, 0); // no cropping
    sps.u(1, 0); // no VUI
    sps.finish(&mut out);
    out.extend([0, 0, 0, 1, 0x68]);
    let mut pps = BitWriter::default();
    pps.ue(0);
    pps.ue(0);
    pps.u(2, 0); // CAVLC
    pps.ue(0); // one slice group
    pps.ue(0);
    pps.ue(0);
    pps.u(3, 0); // no weights
    pps.se(0);
    pps.se(0);
    pps.se(0);
    pps.u(3, 0b100); // deblocking is controlled
    pps.finish(&mut out);
    out.extend([0, 0, 0, 1, 0x65]);
    let mut slice = BitWriter::default();
    slice.ue(0);
    slice.ue(7); // all slices are I
    slice.ue(0);
    slice.u(4, 0); // frame_num
    slice.ue(0); // idr_pic_id
    slice.u(2, 0);
    slice.se(0);
    slice.ue(1); // no deblocking
    for mb in 0..COLUMNS * ROWS {
        slice.ue(25); // I_PCM
        slice.align();
        (0..256).for_each(|_| slice.u(8, shade(mb).into()));
        (0..128).for_each(|_| slice.u(8, 128));
    }
    slice.finish(&mut out);
    out
}

fn luma_sum(picture: &Picture<'_>) -> u64 {
    let plane = picture.planes[0];
    if !matches!(picture.format, PixelFormat::I420 | PixelFormat::Nv12) {
        return 0;
    }
    let (width, height) = (COLUMNS as usize * 16, ROWS as usize * 16);
    let rows = plane.data.chunks(plane.stride.max(1)).take(height);
    rows.flat_map(|row| row.iter().take(width))
        .map(|sample| u64::from(*sample))
        .sum()
}

/// A grey JPEG of 16x16 pixels (ITU-T T.81 annex B), with the shortest possible tables. Each block consists of two
/// codes of one bit: "no difference" and "end of block".
fn jpeg() -> Vec<u8> {
    let mut out = Vec::new();
    let size = Size::new(16, 16);
    Band {
        size,
        first: 0,
        rows: 16,
    }
    .write(&mut out);
    out.extend([0xFF, 0xD8]);
    out.extend([0xFF, 0xDB, 0, 67, 0]); // quantisers
    out.extend([1; 64]);
    out.extend([0xFF, 0xC0, 0, 11, 8, 0, 16, 0, 16, 1, 1, 0x11, 0]); // one grey component
    for class in [0x00, 0x10] {
        // A table with a single code of one bit, for the value 0.
        out.extend([0xFF, 0xC4, 0, 20, class, 1]);
        out.extend([0; 15]);
        out.push(0);
    }
    out.extend([0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 63, 0]);
    out.extend([0x00, 0xFF, 0xD9]);
    out
}

fn raw() -> Vec<u8> {
    let mut out = Vec::new();
    let band = Band {
        size: Size::new(2, 1),
        first: 0,
        rows: 1,
    };
    band.write(&mut out);
    out.extend([10, 20, 30, 0, 10, 20, 30, 0]);
    out
}

/// The first two pixels, with unused bytes set to 0.
fn first_bytes(picture: &Picture<'_>) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(picture.planes[0].data) {
        *to = *from;
    }
    (bytes[3], bytes[7]) = (0, 0);
    u64::from_le_bytes(bytes)
}
