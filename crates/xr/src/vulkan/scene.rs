//! A frame, as its layers say: which images each eye sees, and where.

use std::sync::Arc;

use ash::vk;
use openuvr_media::capture::vulkan::{Part, Pixels};
use openuvr_proto::units::Size;

use super::images::Pictures;
use crate::logic::composition::{Eye, Surface, is_exact};

/// An image that a layer shows.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) pictures: Arc<Pictures>,
    /// Which of them, and which layer of it.
    pub(crate) index: u32,
    pub(crate) layer: u32,
}

/// What one eye sees.
pub(crate) struct Seen {
    pub(crate) eye: Eye,
    /// From behind to the front.
    pub(crate) surfaces: Vec<Surface<Image>>,
}

/// A frame: one or two eyes, side by side.
pub(crate) struct Scene {
    /// Of one eye's picture.
    pub(crate) size: Size,
    pub(crate) eyes: Vec<Seen>,
}

impl Image {
    pub(super) fn image(&self) -> vk::Image {
        self.pictures.images[self.index as usize].image
    }
}

impl Scene {
    /// Where an eye's picture begins.
    pub(super) fn left_of(&self, eye: usize) -> u32 {
        u32::try_from(eye).unwrap_or_default() * self.size.width
    }

    /// Of all eyes.
    pub(super) fn whole(&self) -> Size {
        Size::new(self.left_of(self.eyes.len()), self.size.height)
    }

    /// The parts of the picture, if it can be copied as it is.
    pub(super) fn parts(&self) -> Option<(Pixels, Vec<Part>)> {
        let mut all: Option<Pixels> = None;
        let mut parts = Vec::new();
        for (index, seen) in self.eyes.iter().enumerate() {
            let [surface] = &seen.surfaces[..] else {
                return None;
            };
            let pictures = &surface.image.pictures;
            let pixels = pictures.pixels()?;
            let same = *all.get_or_insert(pixels) == pixels;
            if !same || !is_exact(surface, &seen.eye, self.size) {
                return None;
            }
            parts.push(Part {
                image: surface.image.image(),
                layer: surface.image.layer,
                layout: pictures.layout(),
                from: [surface.part.x, surface.part.y],
                size: self.size,
                at: [self.left_of(index), 0],
            });
        }
        all.map(|pixels| (pixels, parts))
    }

    /// Whether all of its images are there.
    pub(super) fn is_there(&self) -> bool {
        let mut all = self.eyes.iter().flat_map(|seen| &seen.surfaces);
        all.all(|surface| !surface.image.pictures.is_gone())
    }
}
