//! The copy of one picture by the device.

use std::sync::Arc;

use ash::vk;
use openuvr_proto::units::Size;

use crate::capture::RenderInfo;
use crate::capture::submit::Submitter;
use crate::capture::vulkan::Pixels;

/// A copy's source and destination.
pub struct Copy<'a> {
    /// The queue that copies.
    pub queue: vk::Queue,
    /// The queue's family.
    pub family: u32,
    /// The regions, which together cover the picture.
    pub parts: &'a [CopyRegion],
    /// The picture's size.
    pub size: Size,
    /// The picture's pixel layout.
    pub pixels: Pixels,
    /// Semaphores that the copy waits for.
    pub after: &'a [vk::Semaphore],
    /// Semaphore to signal when done, if any.
    pub done: Option<vk::Semaphore>,
    /// The picture's render information.
    pub drawn: RenderInfo,
    /// The receiver.
    pub to: Arc<Submitter>,
}

/// A region of an image, and its position in the picture.
#[derive(Clone, Copy)]
pub struct CopyRegion {
    /// The image, which must have one sample per pixel. Its first mip level is copied.
    pub image: vk::Image,
    /// The image's array layer.
    pub layer: u32,
    /// The image's layout before and after the copy.
    pub layout: vk::ImageLayout,
    /// Left and upper edge in the image.
    pub from: [u32; 2],
    /// Size of the region.
    pub size: Size,
    /// Left and upper edge in the picture; the region lies completely inside the picture.
    pub at: [u32; 2],
}

impl CopyRegion {
    /// The region for an image that is about to be presented. The complete image is the complete picture.
    #[must_use]
    pub fn presented(image: vk::Image, size: Size) -> CopyRegion {
        CopyRegion {
            image,
            layer: 0,
            layout: vk::ImageLayout::PRESENT_SRC_KHR,
            from: [0, 0],
            size,
            at: [0, 0],
        }
    }

    /// Whether the region lies inside a picture of this size.
    pub(super) fn is_inside(&self, size: Size) -> bool {
        let end = |at: u32, side: u32| at.checked_add(side);
        end(self.at[0], self.size.width).is_some_and(|end| end <= size.width)
            && end(self.at[1], self.size.height).is_some_and(|end| end <= size.height)
    }
}
