//! Frames of Vulkan images, and detection of those that can be copied.

use std::sync::Arc;

use ash::vk;
use openuvr_media::capture::vulkan::{Part, Pixels};

use super::images::Pictures;
use crate::logic::composition::is_exact;
use crate::logic::scene::Scene;

/// A swapchain image that a layer refers to.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) pictures: Arc<Pictures>,
    /// Index of the image, and array layer in it.
    pub(crate) index: u32,
    pub(crate) layer: u32,
}

impl Image {
    pub(super) fn image(&self) -> vk::Image {
        self.pictures.images[self.index as usize].image
    }
}

impl Scene<Image> {
    /// The copies that make up the picture; `None` if it has to be composed.
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

    /// Whether none of its images was destroyed.
    pub(super) fn is_there(&self) -> bool {
        let mut all = self.eyes.iter().flat_map(|seen| &seen.surfaces);
        all.all(|surface| !surface.image.pictures.is_gone())
    }
}
