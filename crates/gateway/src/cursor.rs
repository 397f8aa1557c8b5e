//! The pointer shape, encoded for the page.

use openuvr_proto::control::negotiate::Negotiation;
use openuvr_proto::send::update::CursorShape;
use openuvr_proto::units::Size;

/// Maximum number of pixels of a shape. With four bytes for each pixel, a message stays below the 256 KiB limit of the
/// data channel. The lowest rows of a pointer with more pixels (more than 244 x 244) are cut off.
const MAX_PIXELS: u32 = 60_000;

/// The message with a shape, in the native client's format.
pub(crate) fn message(shape: &CursorShape) -> Vec<u8> {
    let width = shape.size.width.max(1);
    let size = Size::new(width, shape.size.height.min(MAX_PIXELS / width));
    let pixels = width as usize * size.height as usize;
    Negotiation::CursorShape {
        size,
        hot: shape.hot,
        argb: shape.argb.iter().take(pixels).copied().collect(),
    }
    .to_bytes()
}
