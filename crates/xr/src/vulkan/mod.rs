//! Vulkan: the application's device, swapchain images and submission of pictures.

pub(crate) mod choice;
mod compose;
mod device;
pub(crate) mod graphics;
pub(crate) mod images;
mod memory;
mod pipeline;
mod readable;
pub(crate) mod scene;
#[cfg(test)]
mod tests;
