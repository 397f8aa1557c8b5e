//! The buffers of a display, and the rows in which each differs from the newest picture.
//!
//! The buffers' memory is often write-combined, so it is written row by row and never read.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use drm::buffer::{Buffer as _, DrmFourcc};
use drm::control::dumbbuffer::{DumbBuffer, DumbMapping};
use drm::control::{Device as _, framebuffer};
use openuvr_proto::units::Size;

use crate::card::Card;
use crate::flips::BUFFERS;

/// The rows in which a picture differs from the previous picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Damage {
    pub(crate) width: u32,
    pub(crate) first: u32,
    pub(crate) end: u32,
}

/// Buffers of a mode's size, black at first.
pub(crate) struct Buffers {
    card: Arc<Card>,
    pub(crate) size: Size,
    all: Vec<Buffer>,
    outdated: Outdated,
}

struct Buffer {
    framebuffer: framebuffer::Handle,
    buffer: DumbBuffer,
    /// `None` only while the buffer is dropped.
    memory: Option<DumbMapping<'static>>,
}

impl Buffers {
    /// Makes `count` buffers, at most [`BUFFERS`].
    pub(crate) fn new(card: &Arc<Card>, size: Size, count: usize) -> io::Result<Buffers> {
        let mut buffers = Buffers {
            card: Arc::clone(card),
            size,
            all: Vec::with_capacity(count),
            outdated: Outdated::default(),
        };
        for _ in 0..count {
            buffers.all.push(Buffer::new(card, size)?);
        }
        Ok(buffers)
    }

    pub(crate) fn framebuffer(&self, number: usize) -> Option<framebuffer::Handle> {
        Some(self.all.get(number)?.framebuffer)
    }

    /// Records that the picture has changed in these rows.
    pub(crate) fn changed(&mut self, rows: Range<u32>) {
        self.outdated.changed(&rows);
    }

    /// The rows in which a buffer differs from the newest picture.
    pub(crate) fn outdated(&self, number: usize) -> Range<u32> {
        self.outdated.0[number % BUFFERS].clone()
    }

    /// Updates a buffer. `row` fills a row of packed BGRX.
    pub(crate) fn update(&mut self, number: usize, row: impl FnMut(u32, &mut [u8])) {
        let rows = self.outdated.updated(number);
        let Some(Buffer { buffer, memory, .. }) = self.all.get_mut(number) else {
            return;
        };
        if let Some(memory) = memory {
            write_rows(memory, buffer.pitch() as usize, self.size.width, &rows, row);
        }
    }
}

/// Writes rows of a buffer whose rows start `pitch` bytes apart. `row` fills a row of packed BGRX.
pub(crate) fn write_rows(
    memory: &mut [u8],
    pitch: usize,
    width: u32,
    rows: &Range<u32>,
    mut row: impl FnMut(u32, &mut [u8]),
) {
    let bytes = width as usize * 4;
    let mut line = vec![0; bytes];
    let all = memory.chunks_mut(pitch).enumerate();
    for (number, to) in all.skip(rows.start as usize).take(rows.len()) {
        row(u32::try_from(number).unwrap_or(u32::MAX), &mut line);
        if let Some(to) = to.get_mut(..bytes) {
            to.copy_from_slice(&line);
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        for buffer in &mut self.all {
            // The buffer must not be mapped when it is destroyed.
            buffer.memory = None;
            let _ = self.card.destroy_framebuffer(buffer.framebuffer);
            let _ = self.card.destroy_dumb_buffer(buffer.buffer);
        }
    }
}

impl Buffer {
    fn new(card: &Card, size: Size) -> io::Result<Buffer> {
        let sides = (size.width, size.height);
        let buffer = card.create_dumb_buffer(sides, DrmFourcc::Xrgb8888, 32)?;
        // The mapping borrows this description of the buffer, not the buffer's memory. Leaking the description costs a
        // few bytes for each buffer.
        let description: &'static mut DumbBuffer = Box::leak(Box::new(buffer));
        let prepared = card
            .map_dumb_buffer(description)
            .and_then(|memory| Ok((memory, card.add_framebuffer(&buffer, 24, 32)?)));
        match prepared {
            Ok((mut memory, framebuffer)) => {
                memory.fill(0);
                Ok(Buffer {
                    framebuffer,
                    buffer,
                    memory: Some(memory),
                })
            }
            Err(cause) => {
                let _ = card.destroy_dumb_buffer(buffer);
                Err(cause)
            }
        }
    }
}

/// For each buffer, the rows whose pixels are older than those of the newest picture.
#[derive(Debug, Default)]
struct Outdated([Range<u32>; BUFFERS]);

impl Outdated {
    fn changed(&mut self, rows: &Range<u32>) {
        for each in &mut self.0 {
            *each = around(each, rows);
        }
    }

    fn updated(&mut self, number: usize) -> Range<u32> {
        std::mem::take(&mut self.0[number % BUFFERS])
    }
}

/// The smallest range that contains both ranges.
pub(crate) fn around(one: &Range<u32>, other: &Range<u32>) -> Range<u32> {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => other.clone(),
        (_, true) => one.clone(),
        _ => one.start.min(other.start)..one.end.max(other.end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_buffer_misses_the_changes_since_its_own_update() {
        let mut outdated = Outdated::default();
        outdated.changed(&(0..100));
        assert_eq!(outdated.updated(0), 0..100);
        outdated.changed(&(10..20));
        assert_eq!(outdated.updated(1), 0..100);
        outdated.changed(&(40..50));
        assert_eq!(outdated.updated(0), 10..50);
        assert_eq!(outdated.updated(0), 0..0);
        assert_eq!(outdated.updated(1), 40..50);
        outdated.changed(&(7..7));
        assert_eq!(outdated.updated(2), 0..100);
    }
}
