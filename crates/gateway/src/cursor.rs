//! The pointer's picture on its way to the page.

use openuvr_proto::control::negotiate::Negotiation;
use openuvr_proto::send::update::CursorShape;
use openuvr_proto::units::Size;

/// Pixels of a picture at most: with four bytes each it stays below the 256 KiB that a data channel's message
/// may have. Rows beyond are cut off, of pointers larger than 240 pixels.
const MOST: u32 = 60_000;

/// As our own client hears it.
pub(crate) fn message(shape: &CursorShape) -> Vec<u8> {
    let width = shape.size.width.max(1);
    let size = Size::new(width, shape.size.height.min(MOST / width));
    let pixels = width as usize * size.height as usize;
    Negotiation::CursorShape {
        size,
        hot: shape.hot,
        argb: shape.argb.iter().take(pixels).copied().collect(),
    }
    .to_bytes()
}
