//! The separate pointer: `struct spa_meta_cursor` and `struct spa_meta_bitmap`.
//!
//! Spec: spa/buffer/meta.h. A bitmap is sent only when it has changed.

use std::sync::Arc;

use openuvr_media::cursor::CursorShape;

use super::pod;

/// Bytes of `struct spa_meta_cursor`: number, flags, position, hot spot, offset of the bitmap.
const CURSOR: usize = 28;
/// Bytes of `struct spa_meta_bitmap`: format, size, stride, offset of the pixels.
const BITMAP: usize = 20;

/// The maximum side of an image, in pixels, as in [`CursorShape`]. Larger images are cut off.
const LARGEST_SIDE: u32 = 256;

/// The pointer in the newest buffer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pointer {
    /// The hot spot in the picture; `None` if the pointer is outside the picture or hidden.
    pub(crate) position: Option<(i32, i32)>,
    pub(crate) shape: Arc<CursorShape>,
    /// Whether an image, or the information that there is none, has arrived.
    told: bool,
}

impl Pointer {
    /// Reads the pointer's metadata in a buffer. `pictured` states whether the buffer also contains a picture. Returns
    /// whether the pointer has changed.
    pub(super) fn update(&mut self, bytes: &[u8], pictured: bool) -> bool {
        let word = |at: usize| {
            let word = bytes.get(at..at + 4)?.first_chunk::<4>()?;
            Some(u32::from_ne_bytes(*word))
        };
        let fields = [0, 8, 12, 16, 20, 24].map(word);
        let [
            Some(number),
            Some(x),
            Some(y),
            Some(hot_x),
            Some(hot_y),
            Some(bitmap),
        ] = fields
        else {
            return false;
        };
        // The number 0 means that there is no pointer in the picture.
        let position = (number != 0).then(|| (x.cast_signed(), y.cast_signed()));
        let moved = std::mem::replace(&mut self.position, position) != position;
        let bitmap = usize::try_from(bitmap).unwrap_or(0);
        let bitmap = Some(bitmap).filter(|at| number != 0 && *at >= CURSOR);
        let bitmap = bitmap.and_then(|at| bytes.get(at..));
        let shape =
            bitmap.and_then(|bytes| image(bytes, (hot_x.cast_signed(), hot_y.cast_signed())));
        // Without a mouse, GNOME shows no pointer until the first motion. At that moment, Mutter 43 reports a pointer
        // without an image. It sends the image only at the next change, because the image's "loaded" signal comes
        // before the cursor is in place (43.8: `meta_cursor_renderer_update_cursor`). Only a buffer without a picture
        // can arrive at that moment, and a busy PipeWire may lose this buffer.
        let shape = match shape {
            Some(shape) => {
                let first = !std::mem::replace(&mut self.told, true);
                let unloaded = first && !pictured && shape.argb.is_empty();
                Some(if unloaded {
                    CursorShape::arrow()
                } else {
                    shape
                })
            }
            None => (number != 0 && !self.told).then(CursorShape::arrow),
        };
        let shape = shape.filter(|shape| *shape != *self.shape);
        let reshaped = shape.is_some();
        if let Some(shape) = shape {
            self.shape = Arc::new(shape);
        }
        moved || reshaped
    }
}

/// The image of a bitmap. If the image is too large, its upper left part is kept. `None` if the image is unchanged or
/// unreadable.
fn image(bytes: &[u8], hot_spot: (i32, i32)) -> Option<CursorShape> {
    let word = |at: usize| {
        let word = bytes.get(at..at + 4)?.first_chunk::<4>()?;
        Some(u32::from_ne_bytes(*word))
    };
    let (format, width, height) = (word(0)?, word(4)?, word(8)?);
    let (stride, offset) = (word(12)?.cast_signed(), usize::try_from(word(16)?).ok()?);
    if format == 0 {
        // In PipeWire, format 0 means no change. For a hidden pointer, Mutter clears the whole structure, and GNOME's
        // own remote desktop interprets a cleared structure as a hidden pointer (43.8:
        // `meta_screen_cast_stream_src_set_empty_cursor_sprite_metadata`).
        return (width == 0 && height == 0).then(CursorShape::default);
    }
    if offset < BITMAP || width == 0 || height == 0 {
        // A hidden pointer.
        return Some(CursorShape::default());
    }
    let red_first = pod::image_red_first(format)?;
    let stride = usize::try_from(stride).ok()?;
    let row_bytes = usize::try_from(width).ok()?.checked_mul(4)?;
    if stride < row_bytes {
        return None;
    }
    let side = |n: u32| u16::try_from(n.min(LARGEST_SIDE)).unwrap_or(0);
    let (kept_width, kept_height) = (side(width), side(height));
    let mut argb = Vec::with_capacity(usize::from(kept_width) * usize::from(kept_height));
    let mut rows = bytes.get(offset..)?;
    for _ in 0..kept_height {
        let row = rows.get(..usize::from(kept_width) * 4)?;
        let (pixels, _) = row.as_chunks::<4>();
        argb.extend(pixels.iter().map(|&[first, green, third, alpha]| {
            let (red, blue) = match red_first {
                true => (first, third),
                false => (third, first),
            };
            u32::from_be_bytes([alpha, red, green, blue])
        }));
        // The last row may lack its padding.
        rows = rows.get(stride..).unwrap_or_default();
    }
    let inside = |at: i32, side: u16| u16::try_from(at.max(0)).unwrap_or(0).min(side - 1);
    Some(CursorShape {
        width: kept_width,
        height: kept_height,
        hot_x: inside(hot_spot.0, kept_width),
        hot_y: inside(hot_spot.1, kept_height),
        argb,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata of a pointer at (7, −3) with the hot spot (1, 0), and an image of 2 × 2 pixels with 12 bytes per row.
    fn metadata(format: u32) -> Vec<u8> {
        let words = [
            1,
            0,
            7,
            (-3_i32).cast_unsigned(),
            1,
            0,
            28,
            format,
            2,
            2,
            12,
            20,
        ];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend([
            1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 9, 10, 11, 12, 13, 14, 15, 16,
        ]);
        bytes
    }

    #[test]
    fn position_and_image_are_read_once_each() {
        let mut pointer = Pointer::default();
        assert!(pointer.update(&metadata(11), true));
        assert_eq!(pointer.position, Some((7, -3)));
        let shape = Arc::clone(&pointer.shape);
        assert_eq!((shape.width, shape.height, shape.hot_x), (2, 2, 1));
        assert_eq!(
            shape.argb,
            [0x0401_0203, 0x0805_0607, 0x0c09_0a0b, 0x100d_0e0f]
        );
        assert!(!pointer.update(&metadata(11), true), "nothing new");
        assert!(pointer.update(&metadata(12), true));
        assert_eq!(pointer.shape.argb[0], 0x0403_0201);
        // Without a bitmap the image stays.
        let mut moved = metadata(12);
        moved[8] = 8;
        moved[24] = 0;
        assert!(pointer.update(&moved, true));
        assert_eq!((pointer.position, pointer.shape.width), (Some((8, -3)), 2));
        moved[0] = 0;
        assert!(pointer.update(&moved, true));
        assert_eq!(pointer.position, None);
    }

    /// Metadata whose `struct spa_meta_bitmap` consists of zeros.
    fn without_image() -> Vec<u8> {
        let mut bytes = metadata(11);
        bytes[28..48].fill(0);
        bytes
    }

    #[test]
    fn a_cleared_image_hides_the_pointer_until_the_next_one() {
        let mut pointer = Pointer::default();
        pointer.update(&without_image(), true);
        assert!(pointer.shape.argb.is_empty());
        assert!(pointer.update(&metadata(11), true));
        assert!(pointer.update(&without_image(), true));
        assert!(pointer.shape.argb.is_empty());
        assert!(pointer.update(&metadata(11), true));
        assert_eq!(pointer.shape.width, 2);
        // Format 0 with a size means that the image is unchanged.
        let mut odd = metadata(11);
        odd[28] = 0;
        assert!(!pointer.update(&odd, true));
        assert_eq!(pointer.shape.width, 2);
    }

    #[test]
    fn a_pointer_that_appears_without_an_image_is_an_arrow() {
        let absent = vec![0; 48];
        let mut pointer = Pointer::default();
        assert!(!pointer.update(&absent, true));
        assert!(pointer.update(&without_image(), false));
        assert_eq!(*pointer.shape, CursorShape::arrow());
        assert!(pointer.update(&metadata(11), true));
        assert_eq!(pointer.shape.width, 2);
        // If the first buffer was lost, the pointer has no image, either, and is shown as an arrow.
        let mut late = Pointer::default();
        let mut moved = metadata(11);
        moved[24] = 0;
        assert!(late.update(&moved, true));
        assert_eq!(*late.shape, CursorShape::arrow());
        // Once an image has arrived, a pointer without an image is hidden.
        assert!(pointer.update(&absent, true));
        assert!(pointer.update(&without_image(), false));
        assert!(pointer.shape.argb.is_empty());
    }

    /// Whether the shape is empty or the default arrow, that is, not an image from the metadata.
    fn is_own(shape: &CursorShape) -> bool {
        shape.argb.is_empty() || *shape == CursorShape::arrow()
    }

    #[test]
    fn odd_metadata_changes_no_image() {
        let whole = metadata(11);
        for length in 0..whole.len() {
            let mut pointer = Pointer::default();
            pointer.update(&whole[..length], true);
            assert!(is_own(&pointer.shape), "{length}");
        }
        // Each field in turn contains a huge number.
        for at in (4..48).step_by(4) {
            for huge in [u32::MAX, 0x7fff_ffff, 0x8000_0000] {
                let mut bytes = whole.clone();
                bytes[at..at + 4].copy_from_slice(&huge.to_ne_bytes());
                let mut pointer = Pointer::default();
                pointer.update(&bytes, true);
                assert!(
                    pointer.shape.argb.len() <= 4 || is_own(&pointer.shape),
                    "{at}"
                );
            }
        }
    }
}
