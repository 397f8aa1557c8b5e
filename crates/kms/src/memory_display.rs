//! A display in ordinary memory: the presenter's work on a picture, for measurements without a card.
//!
//! It omits the request to the driver. A card's memory may also be slower, because it is often write-combined.

use openuvr_media::picture::Picture;
use openuvr_media::present::{PresentError, to_bgrx};
use openuvr_proto::units::Size;

use crate::buffers::write_rows;
use crate::scene::Scene;

/// The row stride is a multiple of this number of bytes, as in a dumb buffer.
const ALIGNMENT: usize = 64;

/// A display with one buffer.
pub struct MemoryDisplay {
    scene: Scene,
    memory: Vec<u8>,
    pitch: usize,
}

impl MemoryDisplay {
    /// A display whose mode has this size.
    #[must_use]
    pub fn new(size: Size) -> MemoryDisplay {
        let mut scene = Scene::default();
        scene.set_display(size);
        let pitch = (size.width as usize * 4).next_multiple_of(ALIGNMENT);
        MemoryDisplay {
            scene,
            memory: vec![0; pitch * size.height as usize],
            pitch,
        }
    }

    /// Converts a picture into the presenter's own memory, like a decoder that paints on the presenter's canvas.
    ///
    /// # Errors
    /// [`PresentError`] if the picture is shorter than its size requires, or if its format is not supported.
    pub fn convert(&mut self, picture: &Picture<'_>) -> Result<(), PresentError> {
        let mut bytes = self.scene.take_picture(picture.size);
        let converted = to_bgrx(picture, &mut bytes);
        let rows = 0..picture.size.height;
        self.scene.put_picture(bytes, picture.size, &rows);
        converted
    }

    /// Composes the changed rows into the buffer, as the presenter does when it submits a picture. Returns the number
    /// of these rows.
    pub fn compose(&mut self) -> usize {
        let rows = self.scene.take_dirty();
        let scene = &self.scene;
        let width = scene.display.width;
        write_rows(&mut self.memory, self.pitch, width, &rows, |row, to| {
            scene.compose(row, to);
        });
        rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_composed_once() {
        let size = Size::new(6, 3);
        let pixels: Vec<u8> = (1..=72).collect();
        let mut display = MemoryDisplay::new(size);
        assert_eq!(display.compose(), 3, "black rows");
        display.convert(&Picture::bgrx(size, &pixels, 24)).unwrap();
        assert_eq!(display.compose(), 3);
        assert_eq!(display.compose(), 0, "nothing has changed");
        for (row, expected) in pixels.chunks(24).enumerate() {
            let start = row * display.pitch;
            let written = &display.memory[start..start + display.pitch];
            // The fourth byte of a pixel is unused.
            let colours = |bytes: &[u8]| -> Vec<[u8; 3]> {
                let pixels = bytes.chunks_exact(4);
                pixels.map(|p| [p[0], p[1], p[2]]).collect()
            };
            assert_eq!(colours(&written[..24]), colours(expected));
            assert!(written[24..].iter().all(|byte| *byte == 0), "the padding");
        }
    }
}
