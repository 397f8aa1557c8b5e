//! A bar code in the picture with the frame number, the time of drawing and the number of inputs that the application
//! has received. With it, latency can be measured from pixels alone.
//!
//! It is not designed for cameras: perspective and rotation are not corrected. Its contents are not confidential.
//!
//! The code consists of 128 cells, black or white, in two rows at the top left. A cell's side is 1/80 of the picture's
//! width: 16 pixels at 1280, one H.264 macroblock. A cell therefore costs a codec almost nothing, and survives coarse
//! quantisation, 4:2:0 and scaling. Each row starts with 8 sync cells, inverted in the second row; they also determine
//! the black and white levels. The remaining cells contain, most significant bit first: frame (32), time (48), inputs
//! (16), CRC (16).
//!
//! An eye's view has a different code, with the sync cells of the two rows exchanged: [`view`].

pub mod view;

use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;

use crate::picture::{Picture, PixelFormat, RowOrder};

/// Number of cells in a row.
pub const COLUMNS: usize = 64;
/// Number of rows of cells.
pub const ROWS: usize = 2;
/// Total number of cells.
pub const CELLS: usize = COLUMNS * ROWS;
/// Number of cells across the complete picture; determines the side of a cell.
pub const CELLS_ACROSS: usize = 80;
/// Minimum picture width in pixels: 4 pixels per cell, to tolerate chroma subsampling and blurred
/// edges.
pub const MIN_WIDTH: u32 = 320;

/// Sync cells of the first row, inverted in the second. The pattern differs from each copy of itself that is shifted by
/// 1 to 7 cells.
const SYNC: u8 = 0b1011_0001;
const SYNC_CELLS: usize = 8;
const TIME_BITS: u32 = 48;
/// Minimum difference (of 255) between white and black.
const MIN_CONTRAST: f32 = 40.0;

/// The contents of a bar code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Stamp {
    /// Frames drawn so far, including this one; counts from 1.
    pub frame: u32,
    /// Time of drawing: microseconds of `CLOCK_MONOTONIC`, 48 bits (higher bits are dropped; 2^48
    /// µs are 8.9 years of uptime).
    pub drawn_us: u64,
    /// Number of key and button presses that the application has received, wrapping.
    pub inputs: u16,
}

/// A time as stored in the code: whole microseconds.
#[must_use]
pub fn micros(at: Instant) -> u64 {
    u64::try_from(at.0 / 1000).unwrap_or(0)
}

/// Height of the code in a picture `width` pixels wide: these rows are enough to read the code.
#[must_use]
pub fn height(width: u32) -> u32 {
    u32::try_from(edge(ROWS, width as usize)).unwrap_or(u32::MAX)
}

/// The cells for `stamp`, row by row; `true` is white.
#[must_use]
pub fn cells(stamp: &Stamp) -> [bool; CELLS] {
    cells_of(Form::Stamp, body(stamp))
}

/// The kind of code. It determines which row has the inverted sync cells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Stamp,
    View,
}

/// The cells of a code with these 96 bits.
fn cells_of(form: Form, body: u128) -> [bool; CELLS] {
    let code = (body << 16) | u128::from(crc16(body));
    let mut cells = [false; CELLS];
    for row in 0..ROWS {
        for column in 0..COLUMNS {
            cells[row * COLUMNS + column] = if column < SYNC_CELLS {
                sync_cell(form, row, column)
            } else {
                let index = row * (COLUMNS - SYNC_CELLS) + column - SYNC_CELLS;
                (code >> (CODE_BITS - 1 - index)) & 1 == 1
            };
        }
    }
    cells
}

/// Draws `stamp` into a [`PixelFormat::Bgrx`] picture of `size`, rows `stride` bytes apart.
///
/// Returns whether the code fits: the picture must be at least [`MIN_WIDTH`] wide and [`height`] high, and `data` must
/// contain the rows of the code.
#[must_use]
pub fn draw(data: &mut [u8], stride: usize, size: Size, stamp: &Stamp) -> bool {
    draw_cells(data, stride, size, &cells(stamp))
}

fn draw_cells(data: &mut [u8], stride: usize, size: Size, cells: &[bool; CELLS]) -> bool {
    let width = size.width as usize;
    let rows = height(size.width);
    let needed = stride.saturating_mul((rows as usize).saturating_sub(1)) + width * 4;
    if size.width < MIN_WIDTH || size.height < rows || stride < width * 4 || data.len() < needed {
        return false;
    }
    for row in 0..ROWS {
        for y in edge(row, width)..edge(row + 1, width) {
            for column in 0..COLUMNS {
                let value = if cells[row * COLUMNS + column] {
                    255
                } else {
                    0
                };
                let from = y * stride + edge(column, width) * 4;
                let to = y * stride + edge(column + 1, width) * 4;
                data[from..to].fill(value);
            }
        }
    }
    true
}

/// Reads the code of `picture`. The topmost [`height`] rows are sufficient.
///
/// `None` if there is no code, or it is damaged or torn. The probability of a false positive is 2^-32 for random black
/// and white cells (sync and CRC), and 2^-16 for a code composed of halves of two different stamps.
#[must_use]
pub fn read(picture: &Picture<'_>) -> Option<Stamp> {
    let body = read_body(Form::Stamp, picture)?;
    let field = |shift: u32, bits: u32| (body >> shift) & ((1_u128 << bits) - 1);
    Some(Stamp {
        frame: u32::try_from(field(64, 32)).ok()?,
        drawn_us: u64::try_from(field(16, TIME_BITS)).ok()?,
        inputs: u16::try_from(field(0, 16)).ok()?,
    })
}

/// The 96 bits of the code of `picture`.
fn read_body(form: Form, picture: &Picture<'_>) -> Option<u128> {
    let Size { width, height: h } = picture.size;
    if width < MIN_WIDTH || h < height(width) {
        return None;
    }
    let mut luma = [0.0_f32; CELLS];
    for (index, value) in luma.iter_mut().enumerate() {
        *value = cell_luma(picture, index / COLUMNS, index % COLUMNS)?;
    }
    let threshold = threshold(form, &luma)?;
    let bit = |row: usize, column: usize| luma[row * COLUMNS + column] > threshold;
    let mut code = 0_u128;
    for row in 0..ROWS {
        if (0..SYNC_CELLS).any(|column| bit(row, column) != sync_cell(form, row, column)) {
            return None;
        }
        for column in SYNC_CELLS..COLUMNS {
            code = (code << 1) | u128::from(bit(row, column));
        }
    }
    let body = code >> 16;
    (u128::from(crc16(body)) == code & 0xffff).then_some(body)
}

const CODE_BITS: usize = CELLS - ROWS * SYNC_CELLS;

/// Frame, time and inputs in the lower 96 bits.
fn body(stamp: &Stamp) -> u128 {
    let time = stamp.drawn_us & ((1 << TIME_BITS) - 1);
    (u128::from(stamp.frame) << 64) | (u128::from(time) << 16) | u128::from(stamp.inputs)
}

fn sync_cell(form: Form, row: usize, column: usize) -> bool {
    let bit = (SYNC >> (SYNC_CELLS - 1 - column)) & 1 == 1;
    let inverse = match form {
        Form::Stamp => row != 0,
        Form::View => row == 0,
    };
    bit != inverse
}

/// The coordinate of the first pixel of cell `index`, horizontally or vertically.
fn edge(index: usize, width: usize) -> usize {
    index * width / CELLS_ACROSS
}

/// CRC-16/IBM-3740 (polynomial 0x1021, start value 0xffff; "CCITT-FALSE") over the 96 bits of a
/// body.
fn crc16(body: u128) -> u16 {
    body.to_be_bytes()[4..].iter().fold(0xffff, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            }
        })
    })
}

/// The mean luma in the centre of a cell, 0 to 255. The edges are excluded, because scaling and the
/// codec's filters blur them.
fn cell_luma(picture: &Picture<'_>, row: usize, column: usize) -> Option<f32> {
    let width = picture.size.width as usize;
    let middle = |index: usize| {
        let (from, to) = (edge(index, width), edge(index + 1, width));
        let margin = (to - from) / 4;
        from + margin..to - margin
    };
    let plane = &picture.planes[0];
    let (mut sum, mut count) = (0_u32, 0_u16);
    for y in middle(row) {
        let y = match picture.rows {
            RowOrder::TopDown => y,
            RowOrder::BottomUp => (picture.size.height as usize).checked_sub(y + 1)?,
        };
        for x in middle(column) {
            sum += match picture.format {
                PixelFormat::Bgrx | PixelFormat::Rgbx | PixelFormat::Bgr | PixelFormat::Rgb => {
                    let at = y * plane.stride + x * picture.format.packed()?;
                    let pixel = plane.data.get(at..at + 3)?;
                    // Green has double weight: close enough to luma to distinguish black from
                    // white.
                    (u32::from(pixel[0]) + 2 * u32::from(pixel[1]) + u32::from(pixel[2])) / 4
                }
                // The first plane of GBR is green, which is equally suitable.
                PixelFormat::Nv12 | PixelFormat::I420 | PixelFormat::I444 | PixelFormat::Gbr => {
                    u32::from(*plane.data.get(y * plane.stride + x)?)
                }
            };
            count += 1;
        }
    }
    #[allow(
        clippy::cast_precision_loss,
        reason = "a sum of at most 2^20 pixels of 255"
    )]
    Some(sum as f32 / f32::from(count.max(1)))
}

/// The midpoint between mean black and mean white of the sync cells; `None` if the contrast is too
/// low.
fn threshold(form: Form, luma: &[f32; CELLS]) -> Option<f32> {
    let (mut white, mut black) = (0.0, 0.0);
    for row in 0..ROWS {
        for column in 0..SYNC_CELLS {
            let value = luma[row * COLUMNS + column];
            if sync_cell(form, row, column) {
                white += value
            } else {
                black += value
            }
        }
    }
    // Together, the sync cells of both rows have equal numbers of white and black cells.
    let each = f32::from(u8::try_from(SYNC_CELLS * ROWS / 2).unwrap_or(u8::MAX));
    let (white, black) = (white / each, black / each);
    (white - black >= MIN_CONTRAST).then_some((white + black) / 2.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::picture::Plane;

    const SIZE: Size = Size::new(1280, 32);

    fn drawn(size: Size, stamp: &Stamp, background: u8) -> Vec<u8> {
        let mut data = vec![background; size.pixels() * 4];
        assert!(draw(&mut data, size.width as usize * 4, size, stamp));
        data
    }

    fn read_bgrx(size: Size, data: &[u8]) -> Option<Stamp> {
        read(&Picture::bgrx(size, data, size.width as usize * 4))
    }

    /// Limited-range luma of a grey BGRX picture.
    fn luma(data: &[u8]) -> Vec<u8> {
        let limited = |v: u8| u8::try_from(16 + u32::from(v) * 219 / 255).unwrap();
        data.chunks_exact(4).map(|p| limited(p[1])).collect()
    }

    prop_compose! {
        fn any_stamp()(frame: u32, drawn_us in 0..1_u64 << 48, inputs: u16) -> Stamp {
            Stamp { frame, drawn_us, inputs }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn any_stamp_is_read_back_at_any_width(stamp in any_stamp(), width in MIN_WIDTH..2600) {
            let size = Size::new(width, height(width));
            prop_assert_eq!(read_bgrx(size, &drawn(size, &stamp, 77)), Some(stamp));
        }

        #[test]
        fn it_is_read_from_luma_planes(stamp in any_stamp()) {
            let luma = luma(&drawn(SIZE, &stamp, 128));
            let y = Plane { data: &luma, stride: 1280 };
            for format in [PixelFormat::Nv12, PixelFormat::I420] {
                let planes = [y, Plane::EMPTY, Plane::EMPTY];
                prop_assert_eq!(read(&Picture { size: SIZE, format, rows: RowOrder::TopDown, planes }), Some(stamp));
            }
        }

        #[test]
        fn noise_does_not_hide_it(stamp in any_stamp(), seed: u32) {
            let mut data = drawn(SIZE, &stamp, 128);
            let mut state = seed | 1;
            for value in &mut data {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                let noise = i16::from(state.to_le_bytes()[1]) - 128;
                *value = u8::try_from((i16::from(*value) + noise).clamp(0, 255)).unwrap();
            }
            prop_assert_eq!(read_bgrx(SIZE, &data), Some(stamp));
        }

        #[test]
        fn a_scaled_copy_is_read(stamp in any_stamp(), width in 480_u32..2000) {
            let data = drawn(SIZE, &stamp, 128);
            let size = Size::new(width, height(width));
            let scaled: Vec<u8> = (0..size.height)
                .flat_map(|y| (0..width).map(move |x| (x * 1280 / width, y * 1280 / width)))
                .flat_map(|(x, y)| {
                    let at = (y.min(31) * 1280 + x) as usize * 4;
                    <[u8; 4]>::try_from(&data[at..at + 4]).unwrap()
                })
                .collect();
            prop_assert_eq!(read_bgrx(size, &scaled), Some(stamp));
        }
    }

    #[test]
    fn two_halves_of_different_stamps_are_refused() {
        // The stamps are fixed rather than random, because one torn code in 65 536 is accepted by chance.
        for frame in 1..400_u32 {
            let at = |frame: u32| Stamp {
                frame,
                drawn_us: 5_000_000_000 + u64::from(frame) * 16_667,
                inputs: 5,
            };
            let (old, new) = (drawn(SIZE, &at(frame), 0), drawn(SIZE, &at(frame + 1), 0));
            let torn = [&new[..new.len() / 2], &old[old.len() / 2..]].concat();
            assert_eq!(read_bgrx(SIZE, &torn), None, "frame {frame}");
        }
    }

    #[test]
    fn the_crc_matches_the_published_check_value() {
        let body = b"123456789ABC"
            .iter()
            .fold(0_u128, |body, &byte| (body << 8) | u128::from(byte));
        assert_eq!(crc16(body), CHECK);
    }
    /// `binascii.crc_hqx(b"123456789ABC", 0xffff)`.
    const CHECK: u16 = 0x0cff;

    #[test]
    fn every_single_damaged_cell_is_detected() {
        let stamp = Stamp {
            frame: 7,
            drawn_us: 123_456_789,
            inputs: 3,
        };
        let data = drawn(SIZE, &stamp, 0);
        for cell in 0..CELLS {
            let mut damaged = data.clone();
            let (x, y) = (cell % COLUMNS * 16, cell / COLUMNS * 16);
            for row in y..y + 16 {
                let at = (row * 1280 + x) * 4;
                damaged[at..at + 64].iter_mut().for_each(|v| *v = !*v);
            }
            assert_eq!(read_bgrx(SIZE, &damaged), None, "cell {cell}");
        }
    }

    #[test]
    fn non_codes_are_refused() {
        for value in [0, 128, 255] {
            assert_eq!(read_bgrx(SIZE, &vec![value; SIZE.pixels() * 4]), None);
        }
        assert_eq!(read_bgrx(Size::new(1280, 31), &[0; 1280 * 31 * 4]), None);
        assert_eq!(
            read_bgrx(SIZE, &[0; 64]),
            None,
            "too few bytes must not panic"
        );
        let mut small = [0_u8; 64];
        assert!(!draw(&mut small, 5120, SIZE, &Stamp::default()));
    }
}
