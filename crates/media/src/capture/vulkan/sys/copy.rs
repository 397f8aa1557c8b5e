//! What is asked of the device for one picture.

use std::sync::Arc;

use ash::vk;
use openuvr_proto::units::Size;

use crate::capture::submit::Submitter;
use crate::capture::vulkan::Pixels;

/// What is to be copied, and where to.
pub struct Copy<'a> {
    /// The queue on which it is copied.
    pub queue: vk::Queue,
    /// Its family.
    pub family: u32,
    /// The picture, about to be presented.
    pub image: vk::Image,
    /// Its size.
    pub size: Size,
    /// Its pixels.
    pub pixels: Pixels,
    /// What the copy waits for.
    pub after: &'a [vk::Semaphore],
    /// What it signals when it is done.
    pub done: vk::Semaphore,
    /// Who gets it.
    pub to: Arc<Submitter>,
}
