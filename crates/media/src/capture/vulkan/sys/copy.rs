//! What is asked of the device for one picture.

use std::sync::Arc;

use ash::vk;
use openuvr_proto::units::Size;

use crate::capture::RenderInfo;
use crate::capture::submit::Submitter;
use crate::capture::vulkan::Pixels;

/// What is to be copied, and where to.
pub struct Copy<'a> {
    /// The queue on which it is copied.
    pub queue: vk::Queue,
    /// Its family.
    pub family: u32,
    /// What the picture is made of; together they cover it.
    pub parts: &'a [CopyRegion],
    /// Its size.
    pub size: Size,
    /// Its pixels.
    pub pixels: Pixels,
    /// What the copy waits for.
    pub after: &'a [vk::Semaphore],
    /// What it signals when it is done, if anybody waits for that.
    pub done: Option<vk::Semaphore>,
    /// What is known of how it was drawn.
    pub drawn: RenderInfo,
    /// Who gets it.
    pub to: Arc<Submitter>,
}

/// A part of an image, and of the picture.
#[derive(Clone, Copy)]
pub struct CopyRegion {
    /// The image: of one sample a pixel, its first mip level.
    pub image: vk::Image,
    /// Which of its layers.
    pub layer: u32,
    /// As what it is laid out before the copy and after it.
    pub layout: vk::ImageLayout,
    /// Where the part lies in the image: its left and upper edge.
    pub from: [u32; 2],
    /// How large it is.
    pub size: Size,
    /// Where it lies in the picture, wholly inside: its left and upper edge.
    pub at: [u32; 2],
}

impl CopyRegion {
    /// A whole image that is the whole picture, and about to be presented.
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

    /// Whether it lies inside a picture of that size.
    pub(super) fn is_inside(&self, size: Size) -> bool {
        let end = |at: u32, side: u32| at.checked_add(side);
        end(self.at[0], self.size.width).is_some_and(|end| end <= size.width)
            && end(self.at[1], self.size.height).is_some_and(|end| end <= size.height)
    }
}
