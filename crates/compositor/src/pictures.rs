//! The captured pictures: a few buffers in rotation. Before a buffer becomes the newest picture, it is updated with all
//! changes since it was last drawn.
//!
//! The media thread holds one picture, and one may be waiting for it. A waiting picture is updated in place: the newest
//! one wins, and no picture is copied as a whole while only parts of it change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openuvr_media::capture::Waker;
use openuvr_media::damage::{Block, Damage};
use openuvr_proto::units::Size;

/// The number of pictures: one that the media thread holds, one that is waiting for it, and one that is being drawn.
/// While a picture is waiting, it is drawn in place, so two pictures usually suffice. The third is needed at the moment
/// when the media thread exchanges its picture.
const PICTURES: usize = 3;

/// A picture in memory: BGRX rows without padding.
#[derive(Default)]
pub(crate) struct PictureBuffer {
    pub(crate) size: Size,
    pub(crate) data: Vec<u8>,
}

/// A drawn picture.
pub(crate) struct Shot {
    pub(crate) buffer: Arc<PictureBuffer>,
    index: usize,
    /// The part that differs from the picture that the media thread took before; `None` if unknown.
    pub(crate) changed: Option<Block>,
}

/// The exchange between compositor and media thread.
pub(crate) struct Exchange {
    slot: Mutex<Slot>,
    /// Woken when a picture or the end has been stored.
    pub(crate) arrived: Waker,
}

#[derive(Default)]
struct Slot {
    next: Option<Shot>,
    ended: Option<String>,
    size: Size,
    settings: Settings,
}

/// The requests of the other threads since the compositor last read them.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) size: Option<Size>,
    pub(crate) fps: Option<f64>,
    pub(crate) watched: Option<bool>,
}

impl Exchange {
    pub(crate) fn new(size: Size, arrived: Waker) -> Exchange {
        let slot = Slot {
            size,
            ..Slot::default()
        };
        Exchange {
            slot: Mutex::new(slot),
            arrived,
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The display's size.
    pub(crate) fn size(&self) -> Size {
        self.slot().size
    }

    /// Takes the newest picture, if there is a new one.
    pub(crate) fn take(&self) -> Option<Shot> {
        self.slot().next.take()
    }

    /// Takes the requested settings.
    pub(crate) fn settings(&self) -> Settings {
        std::mem::take(&mut self.slot().settings)
    }

    pub(crate) fn request_size(&self, size: Size) {
        self.slot().settings.size = Some(size);
    }

    pub(crate) fn set_fps(&self, fps: f64) {
        self.slot().settings.fps = Some(fps);
    }

    pub(crate) fn set_watched(&self, watched: bool) {
        self.slot().settings.watched = Some(watched);
    }

    /// Why the display has ended, if it has.
    pub(crate) fn ended(&self) -> Option<String> {
        self.slot().ended.clone()
    }

    /// Ends the display.
    pub(crate) fn end(&self, why: String) {
        self.slot().ended.get_or_insert(why);
        self.arrived.wake();
    }
}

/// The compositor's pictures, and the exchange through which it passes them to the media thread.
pub(crate) struct Pictures {
    exchange: Arc<Exchange>,
    size: Size,
    pictures: [Arc<PictureBuffer>; PICTURES],
    /// The changes since each picture was drawn.
    stale: [Damage; PICTURES],
    newest: usize,
    /// Whether the size has changed since the newest picture.
    resized: bool,
}

impl Pictures {
    pub(crate) fn new(exchange: Arc<Exchange>) -> Pictures {
        Pictures {
            size: exchange.size(),
            exchange,
            pictures: Default::default(),
            stale: Default::default(),
            newest: 0,
            resized: true,
        }
    }

    /// The size of the next pictures.
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Changes the size of the next pictures.
    pub(crate) fn resize(&mut self, size: Size) {
        self.size = size;
        self.exchange.slot().size = size;
        self.stale = Default::default();
        self.resized = true;
    }

    pub(crate) fn newest(&self) -> &PictureBuffer {
        &self.pictures[self.newest]
    }

    /// Draws the next picture. `changed` is the damage since the last call. `draw` is called with the picture and each
    /// block of it that must be redrawn. Returns false if no picture was free.
    pub(crate) fn draw(
        &mut self,
        changed: &Damage,
        mut draw: impl FnMut(&mut PictureBuffer, &Block),
    ) -> bool {
        for stale in &mut self.stale {
            for block in changed.blocks() {
                stale.add(self.size, Some(&block));
            }
        }
        let since = changed.blocks().reduce(|all, block| all.joined(&block));
        // If nothing has changed, the same picture is repeated.
        let since = since.unwrap_or(Block {
            columns: 0..0,
            rows: 0..0,
        });
        let (index, before) = match self.exchange.take() {
            Some(Shot {
                index,
                changed,
                buffer,
            }) => {
                // After this, only the compositor holds the picture, as `Arc::get_mut` requires.
                drop(buffer);
                (Some(index), changed)
            }
            None => {
                let free = |picture| Arc::strong_count(picture) == 1;
                (self.pictures.iter().position(free), Some(since.clone()))
            }
        };
        let Some((index, buffer)) =
            index.and_then(|index| Some((index, Arc::get_mut(&mut self.pictures[index])?)))
        else {
            return false;
        };
        if buffer.size != self.size {
            buffer.size = self.size;
            buffer.data.clear();
            buffer.data.resize(self.size.pixels() * 4, 0);
            self.stale[index] = Damage::default();
        }
        let stale = &mut self.stale[index];
        if stale.is_partial(self.size) {
            for block in stale.blocks() {
                draw(buffer, &block);
            }
        } else {
            let all = Block {
                columns: 0..self.size.width,
                rows: 0..self.size.height,
            };
            draw(buffer, &all);
        }
        stale.clear(self.size);
        let resized = std::mem::replace(&mut self.resized, false);
        let changed = before
            .filter(|_| !resized)
            .map(|before| before.joined(&since));
        self.newest = index;
        self.exchange.slot().next = Some(Shot {
            buffer: self.pictures[index].clone(),
            index,
            changed,
        });
        self.exchange.arrived.wake();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size::new(64, 32);

    fn block(columns: std::ops::Range<u32>, rows: std::ops::Range<u32>) -> Block {
        Block { columns, rows }
    }

    fn damage(blocks: &[Block]) -> Damage {
        let mut damage = Damage::default();
        damage.clear(SIZE);
        for block in blocks {
            damage.add(SIZE, Some(block));
        }
        damage
    }

    /// Draws a picture whose changed blocks are filled with `value`; returns the number of drawn pixels.
    fn draw(pictures: &mut Pictures, blocks: &[Block], value: u8) -> usize {
        let mut pixels = 0;
        let drawn = pictures.draw(&damage(blocks), |buffer, block| {
            pixels += block.columns.len() * block.rows.len();
            for y in block.rows.clone() {
                for x in block.columns.clone() {
                    buffer.data[(y as usize * 64 + x as usize) * 4] = value;
                }
            }
        });
        assert!(drawn);
        pixels
    }

    #[test]
    fn each_picture_gets_what_it_missed_and_the_newest_wins() {
        let exchange = Arc::new(Exchange::new(SIZE, Waker::new().unwrap()));
        let mut pictures = Pictures::new(exchange.clone());
        let whole = 64 * 32;
        assert!(exchange.take().is_none());
        assert_eq!(draw(&mut pictures, &[block(0..64, 0..32)], 1), whole);
        let first = exchange.take().unwrap();
        assert_eq!(first.changed, None, "it is the first");
        // The first picture is held, so another one is drawn completely.
        assert_eq!(draw(&mut pictures, &[block(0..16, 0..16)], 2), whole);
        // The second picture is waiting, so it is changed in place.
        assert_eq!(draw(&mut pictures, &[block(48..64, 16..32)], 3), 256);
        let second = exchange.take().unwrap();
        assert_eq!(second.changed, Some(block(0..64, 0..32)));
        let data = &second.buffer.data;
        assert_eq!((data[0], data[4 * 64 * 31 + 252]), (2, 3));
        // The first picture is free again. It lacks the two earlier changes and the new one.
        drop(first);
        let changes = draw(&mut pictures, &[block(16..32, 0..16)], 4);
        assert_eq!(changes, 512 + 256);
        let third = exchange.take().unwrap();
        assert_eq!(third.changed, Some(block(16..32, 0..16)));
        assert!(exchange.take().is_none(), "only once");
    }

    #[test]
    fn a_new_size_is_a_new_picture() {
        let exchange = Arc::new(Exchange::new(SIZE, Waker::new().unwrap()));
        let mut pictures = Pictures::new(exchange.clone());
        draw(&mut pictures, &[], 1);
        pictures.resize(Size::new(80, 20));
        assert_eq!(exchange.size(), Size::new(80, 20));
        let mut pixels = 0;
        pictures.draw(&Damage::default(), |buffer, block| {
            assert_eq!(buffer.data.len(), 80 * 20 * 4);
            pixels += block.columns.len() * block.rows.len();
        });
        assert_eq!(pixels, 1600);
        assert_eq!(exchange.take().unwrap().changed, None);
    }
}
