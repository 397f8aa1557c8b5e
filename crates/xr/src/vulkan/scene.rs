//! Frames that consist of Vulkan images, and detection of frames that can be copied without composition.

use std::sync::Arc;

use ash::vk;
use openuvr_media::capture::vulkan::{CopyRegion, Pixels};

use super::images::SwapchainImages;
use crate::logic::composition::is_exact;
use crate::logic::scene::Scene;

/// A swapchain image to which a composition layer refers.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) swapchain_images: Arc<SwapchainImages>,
    /// Index of the image in the swapchain. `layer` is the array layer in the image.
    pub(crate) index: u32,
    pub(crate) layer: u32,
}

impl Image {
    pub(super) fn image(&self) -> vk::Image {
        self.swapchain_images.images[self.index as usize].image
    }
}

impl Scene<Image> {
    /// The copies that make up the picture; `None` if the picture has to be composed.
    pub(super) fn copies(&self) -> Option<(Pixels, Vec<CopyRegion>)> {
        let mut all: Option<Pixels> = None;
        let mut parts = Vec::new();
        for (index, eye_scene) in self.eyes.iter().enumerate() {
            let [surface] = &eye_scene.surfaces[..] else {
                return None;
            };
            let swapchain_images = &surface.image.swapchain_images;
            let pixels = swapchain_images.pixels()?;
            let same = *all.get_or_insert(pixels) == pixels;
            if !same || !is_exact(surface, &eye_scene.eye, self.size) {
                return None;
            }
            parts.push(CopyRegion {
                image: surface.image.image(),
                layer: surface.image.layer,
                layout: swapchain_images.layout(),
                from: [surface.rect.x, surface.rect.y],
                size: self.size,
                at: [self.left_of(index), 0],
            });
        }
        all.map(|pixels| (pixels, parts))
    }

    /// Whether none of the frame's images has been destroyed.
    pub(super) fn is_complete(&self) -> bool {
        let mut all = self.eyes.iter().flat_map(|eye| &eye.surfaces);
        all.all(|surface| !surface.image.swapchain_images.is_destroyed())
    }
}
