//! The pointer's picture on its way to the page.

use openuvr_proto::send::update::CursorShape;

/// Pixels of a picture at most: with four bytes each it stays below the 256 KiB that a data channel's message
/// may have. Rows beyond are cut off, of pointers larger than 240 pixels.
const MOST: u32 = 60_000;

/// Width, height, hot spot from the left and top (16 bits each, little endian), then premultiplied ARGB as
/// numbers of 32 bits, row by row.
pub(crate) fn message(shape: &CursorShape) -> Vec<u8> {
    let width = shape.size.width.max(1);
    let rows = shape.size.height.min(MOST / width);
    let mut message = Vec::new();
    for number in [width, rows, shape.hot.0.into(), shape.hot.1.into()] {
        let number = u16::try_from(number).unwrap_or(u16::MAX);
        message.extend(number.to_le_bytes());
    }
    let pixels = width as usize * rows as usize;
    for pixel in shape.argb.iter().take(pixels) {
        message.extend(pixel.to_le_bytes());
    }
    message
}
