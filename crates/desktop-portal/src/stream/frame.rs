//! A frame in a buffer of the compositor.

use std::sync::Arc;

use openuvr_media::damage::Block;
use openuvr_media::picture::{Picture, PixelFormat, Plane, RowOrder};
use openuvr_proto::units::Size;

use super::pod::{self, VideoFormat};
use super::sys::{Arrival, Chunk, Mapping};

/// `SPA_CHUNK_FLAG_CORRUPTED`: the buffer contains no picture. Compositors send such buffers when only the pointer has
/// moved.
const CHUNK_CORRUPTED: i32 = 1;

/// `SPA_META_HEADER_FLAG_CORRUPTED`.
const HEADER_CORRUPTED: u32 = 1 << 1;

/// Bytes of `struct spa_meta_region`: left, top, width and height.
const REGION: usize = 16;

/// A picture in a buffer. The compositor does not change the buffer until it is returned.
pub(crate) struct Frame {
    /// The buffer's number.
    pub(super) number: u64,
    pub(crate) size: Size,
    pixels: PixelFormat,
    memory: Arc<Mapping>,
    offset: usize,
    stride: usize,
    /// The area in which the picture differs from the previous frame; `None` if unknown.
    pub(crate) damage: Option<Block>,
}

impl Frame {
    /// Reads the position of the picture in its buffer; `None` if the buffer contains no picture.
    ///
    /// # Errors
    /// Returns a short reason if the buffer is too short for its format or has an invalid stride.
    pub(super) fn read(
        arrival: &Arrival<'_>,
        format: VideoFormat,
        memory: &Arc<Mapping>,
    ) -> Result<Option<Frame>, String> {
        let meta = |wanted: u32| meta(arrival, wanted);
        let Some(chunk) = chunk(arrival) else {
            return Ok(None);
        };
        let place = Layout::of(chunk.offset, chunk.stride, format, memory.bytes().len())?;
        let all = Block {
            columns: 0..format.size.width,
            rows: 0..format.size.height,
        };
        let crop = meta(pod::META_CROP).and_then(region);
        let crop = crop
            .map(|crop| common(&crop, &all))
            .filter(|crop| !is_empty(crop));
        let crop = crop.unwrap_or(all);
        let depth = format.pixels.packed().unwrap_or(4);
        let offset = crop.rows.start as usize * place.stride + crop.columns.start as usize * depth;
        Ok(Some(Frame {
            number: arrival.number,
            size: Size::new(
                crop.columns.end - crop.columns.start,
                crop.rows.end - crop.rows.start,
            ),
            pixels: format.pixels,
            memory: Arc::clone(memory),
            offset: place.offset + offset,
            stride: place.stride,
            damage: meta(pod::META_DAMAGE).and_then(|bytes| damage(bytes, &crop)),
        }))
    }

    /// Adds the damage of the frame `before`, which this frame replaces and which was not shown.
    pub(super) fn follow(&mut self, before: &Frame) {
        self.damage = match (&self.damage, &before.damage) {
            (Some(new), Some(old)) if self.size == before.size => Some(old.joined(new)),
            _ => None,
        };
    }

    pub(crate) fn picture(&self) -> Picture<'_> {
        let plane = Plane {
            data: self.memory.bytes().get(self.offset..).unwrap_or_default(),
            stride: self.stride,
        };
        Picture {
            size: self.size,
            format: self.pixels,
            rows: RowOrder::TopDown,
            planes: [plane, Plane::EMPTY, Plane::EMPTY],
        }
    }
}

/// The position of the picture in a buffer; `None` if the buffer contains no picture.
pub(super) fn chunk(arrival: &Arrival<'_>) -> Option<Chunk> {
    let flags = meta(arrival, pod::META_HEADER).and_then(|bytes| word(bytes, 0));
    let broken = flags.unwrap_or(0) & HEADER_CORRUPTED != 0;
    let whole = |chunk: &Chunk| chunk.size > 0 && chunk.flags & CHUNK_CORRUPTED == 0 && !broken;
    arrival.chunk.filter(whole)
}

fn meta<'a>(arrival: &Arrival<'a>, wanted: u32) -> Option<&'a [u8]> {
    let found = arrival.metas.iter().find(|(kind, _)| *kind == wanted);
    found.map(|(_, bytes)| *bytes)
}

/// The position of the rows of a picture in its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    offset: usize,
    stride: usize,
}

impl Layout {
    /// The position that a chunk states, in a buffer of `length` bytes.
    fn of(offset: u32, stride: i32, format: VideoFormat, length: usize) -> Result<Layout, String> {
        let row = format.size.width as usize * format.pixels.packed().unwrap_or(4);
        // Some producers leave the stride at zero.
        let stride = match usize::try_from(stride) {
            Ok(0) => Some(row),
            Ok(stride) => Some(stride).filter(|stride| *stride >= row),
            Err(_) => None,
        };
        let stride = stride.ok_or_else(|| {
            format!(
                "the pictures of {} have an invalid number of bytes per row",
                format.size
            )
        })?;
        let offset = offset as usize;
        let rows = format.size.height as usize;
        let end = (rows.saturating_sub(1)).checked_mul(stride);
        let end = end.and_then(|before| before.checked_add(row)?.checked_add(offset));
        match end {
            Some(end) if end <= length => Ok(Layout { offset, stride }),
            _ => Err(format!(
                "the pictures of {} do not fit into their buffers of {length} bytes",
                format.size
            )),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?.first_chunk::<4>()?;
    Some(u32::from_ne_bytes(*word))
}

/// The rectangle of a `struct spa_meta_region`, limited to non-negative positions; `None` if it is invalid.
fn region(bytes: &[u8]) -> Option<Block> {
    let (left, top) = (word(bytes, 0)?.cast_signed(), word(bytes, 4)?.cast_signed());
    let (width, height) = (word(bytes, 8)?, word(bytes, 12)?);
    if width == 0 || height == 0 {
        return None;
    }
    let span = |start: i32, length: u32| {
        let end = i64::from(start) + i64::from(length);
        let bound = |at: i64| u32::try_from(at.clamp(0, i64::from(u32::MAX))).unwrap_or(0);
        bound(start.into())..bound(end)
    };
    Some(Block {
        columns: span(left, width),
        rows: span(top, height),
    })
}

/// The bounding rectangle of all damage, relative to `crop`, the visible part of the picture. `None` if the damage is
/// unknown because no region is listed.
fn damage(bytes: &[u8], crop: &Block) -> Option<Block> {
    let regions = bytes.chunks_exact(REGION).map_while(region);
    let inside = regions.map(|block| {
        let block = common(&block, crop);
        let within = |range: std::ops::Range<u32>, start: u32| {
            range.start.saturating_sub(start)..range.end.saturating_sub(start)
        };
        Block {
            columns: within(block.columns, crop.columns.start),
            rows: within(block.rows, crop.rows.start),
        }
    });
    inside.reduce(|all, block| all.joined(&block))
}

/// The intersection of two blocks, which is empty if they do not overlap.
fn common(one: &Block, other: &Block) -> Block {
    let span = |a: &std::ops::Range<u32>, b: &std::ops::Range<u32>| {
        let start = a.start.max(b.start).min(b.end);
        start..a.end.min(b.end).max(start)
    };
    Block {
        columns: span(&one.columns, &other.columns),
        rows: span(&one.rows, &other.rows),
    }
}

fn is_empty(block: &Block) -> bool {
    block.columns.is_empty() || block.rows.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: VideoFormat = VideoFormat {
        size: Size::new(10, 4),
        pixels: PixelFormat::Bgrx,
    };

    fn words(words: &[i32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn block(columns: std::ops::Range<u32>, rows: std::ops::Range<u32>) -> Block {
        Block { columns, rows }
    }

    #[test]
    fn a_picture_must_lie_in_its_buffer() {
        let place = |offset, stride, length| Layout::of(offset, stride, FORMAT, length);
        assert_eq!(
            place(0, 40, 160).unwrap(),
            Layout {
                offset: 0,
                stride: 40
            }
        );
        assert_eq!(place(0, 0, 160).unwrap().stride, 40, "left out");
        // The last row needs no padding.
        assert_eq!(
            place(8, 64, 240).unwrap(),
            Layout {
                offset: 8,
                stride: 64
            }
        );
        for (offset, stride, length) in [
            (0, 40, 159),
            (1, 40, 160),
            (0, 39, 160),
            (0, -40, 160),
            (0, i32::MIN, 160),
            (0, i32::MAX, 160),
            (u32::MAX, 40, 160),
        ] {
            let why = place(offset, stride, length).unwrap_err();
            assert!(!why.contains('\n'), "{offset} {stride} {length}: {why}");
        }
    }

    #[test]
    fn damage_is_the_bounding_rectangle_up_to_the_first_invalid_one() {
        let crop = block(2..10, 1..4);
        let bytes = words(&[3, 1, 2, 1, 8, 2, 100, 1, 0, 0, 0, 0, 0, 0, 10, 4]);
        assert_eq!(damage(&bytes, &crop), Some(block(1..8, 0..2)));
        assert_eq!(damage(&words(&[0, 0, 0, 0]), &crop), None);
        assert_eq!(damage(&words(&[0, 0, 10]), &crop), None, "cut off");
        let outside = words(&[-5, -5, 3, 3, i32::MIN, 0, -1, -1]);
        let known = damage(&outside, &crop).unwrap();
        assert!(known.columns.end <= 8 && known.rows.end <= 3, "{known:?}");
    }
}
